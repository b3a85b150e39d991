//! Runs the instructions of a program over a patch and the state.

use crate::arena::{NodeId, ROOT};
use crate::budget::{Budget, NODE_WORK};
use crate::error::{AbortCause, ApplyError, InstructionPath};
use crate::failure::Failure;
use crate::limits::{ITERATION_DEPTH_MAX, REGISTERS};
use crate::program::{AbortLevel, Cursor, Instruction, Operation, PathComponent, Select};
use crate::source::{Occurrences, Source};
use crate::tree::{MapEntry, Tree};

/// The registers, which keep their values from patch to patch.
pub(crate) type Registers = [Option<u64>; REGISTERS];

/// Counts of all patches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Steps and units of work.
    pub(crate) work: u64,
    /// The number of times that a register has got another value.
    pub(crate) register_changes: u64,
    /// The number of times that a program has set, merged or deleted something.
    pub(crate) operations: u64,
}

/// Where an instruction works.
#[derive(Clone, Copy)]
struct Cursors<'p> {
    source: Source<'p>,
    destination: NodeId,
    /// The destination to which the innermost enclosing select returns.
    saved_destination: Option<NodeId>,
}

struct Machine<'a> {
    tree: &'a mut Tree,
    registers: &'a mut Registers,
    counters: &'a mut Counters,
    budget: Budget,
    iteration_depth: usize,
    /// The path of the instruction that failed, innermost index first. Empty until one fails.
    failed: Vec<u32>,
}

/// Runs a program for one patch.
pub(crate) fn run(
    instructions: &[Instruction],
    patch: &[u8],
    tree: &mut Tree,
    registers: &mut Registers,
    counters: &mut Counters,
) -> Result<(), ApplyError> {
    let mut machine = Machine {
        tree,
        registers,
        counters,
        budget: Budget::new(),
        iteration_depth: 0,
        failed: Vec::new(),
    };
    let cursors = Cursors {
        source: Source::Message(patch),
        destination: ROOT,
        saved_destination: None,
    };
    let result = machine.run_list(instructions, cursors);
    let work = &mut machine.counters.work;
    *work = work.saturating_add(machine.budget.spent());
    result.map_err(|failure| {
        let mut path = machine.failed;
        path.reverse();
        let instruction = InstructionPath(path);
        match failure {
            Failure::Missing(cause) => ApplyError::Missing { cause, instruction },
            Failure::Abort(cause) => ApplyError::Abort { cause, instruction },
        }
    })
}

impl Machine<'_> {
    /// Recursion ends: instructions are at most `INSTRUCTION_DEPTH_MAX` deep, and iterations are at
    /// most [`ITERATION_DEPTH_MAX`] deep.
    fn run_list(
        &mut self,
        instructions: &[Instruction],
        cursors: Cursors<'_>,
    ) -> Result<(), Failure> {
        for (index, instruction) in instructions.iter().enumerate() {
            let Err(failure) = self.run_instruction(instruction, cursors) else {
                continue;
            };
            // A program has at most 2^16 bytes, so the index fits.
            self.failed.push(index as u32);
            let Failure::Missing(missing) = failure else {
                return Err(failure);
            };
            match instruction.abort_level {
                AbortLevel::SkipCurrent => self.failed.clear(),
                AbortLevel::BreakOuter => return Err(failure),
                AbortLevel::Abort => return Err(AbortCause::Missing(missing).into()),
                AbortLevel::Unknown(level) => {
                    return Err(AbortCause::UnknownAbortLevel { level }.into());
                }
            }
        }
        Ok(())
    }

    fn run_instruction(
        &mut self,
        instruction: &Instruction,
        cursors: Cursors<'_>,
    ) -> Result<(), Failure> {
        self.budget.step()?;
        let Cursors {
            source,
            destination,
            saved_destination,
        } = cursors;
        match &instruction.operation {
            Operation::None => return Err(AbortCause::NoOperation.into()),
            Operation::Select(select) => {
                return self.select(select, &instruction.nested, cursors);
            }
            Operation::RegLoad { cursor, register } => {
                let scalar = match cursor {
                    Cursor::Source => source.scalar()?,
                    Cursor::Destination => self.tree.scalar(destination)?,
                    Cursor::Unsupported(cursor) => {
                        return Err(AbortCause::CursorUnsupported { cursor: *cursor }.into());
                    }
                };
                let register = register_index(*register)?;
                let register = &mut self.registers[usize::from(register)];
                if register.replace(scalar.value) != Some(scalar.value) {
                    self.counters.register_changes += 1;
                }
            }
            Operation::Merge(flags) => {
                let bytes = source.message()?;
                self.counters.operations += 1;
                self.tree
                    .merge(destination, bytes, *flags, &mut self.budget)?;
            }
            Operation::Set => {
                self.counters.operations += 1;
                self.tree.set(destination, source, &mut self.budget)?;
            }
            Operation::Del => {
                if destination != ROOT && Some(destination) == saved_destination {
                    return Err(AbortCause::DeletesSelected.into());
                }
                self.counters.operations += 1;
                self.tree.delete(destination)?;
            }
        }
        self.run_list(&instruction.nested, cursors)
    }

    fn select(
        &mut self,
        select: &Select,
        nested: &[Instruction],
        mut cursors: Cursors<'_>,
    ) -> Result<(), Failure> {
        match select.cursor {
            Cursor::Source if select.creates => return Err(AbortCause::CreatesInPatch.into()),
            Cursor::Unsupported(cursor) => {
                return Err(AbortCause::CursorUnsupported { cursor }.into());
            }
            _ => {}
        }
        cursors.saved_destination = Some(cursors.destination);
        self.walk(select, 0, nested, cursors)
    }

    /// Walks a path from its component `next` on, and runs the nested instructions at each match.
    fn walk(
        &mut self,
        select: &Select,
        mut next: usize,
        nested: &[Instruction],
        mut cursors: Cursors<'_>,
    ) -> Result<(), Failure> {
        while let Some(component) = select.path.get(next) {
            self.budget.work(NODE_WORK)?;
            let field = component
                .field_id
                .ok_or(AbortCause::NoFieldId { component: next })?;
            next += 1;
            if component.is_repeated {
                if self.iteration_depth == ITERATION_DEPTH_MAX {
                    return Err(AbortCause::IterationTooDeep.into());
                }
                self.iteration_depth += 1;
                let result = self.for_each(select, field, next, nested, cursors);
                self.iteration_depth -= 1;
                return result;
            }
            let element = select.path.get(next);
            let index = element.and_then(|element| element.array_index);
            let key_field = element.and_then(|element| element.map_key_field_id);
            if index.is_some() || key_field.is_some() {
                next += 1;
            }
            match select.cursor {
                Cursor::Destination => {
                    let at = cursors.destination;
                    let budget = &mut self.budget;
                    cursors.destination = match (index, key_field, element) {
                        (Some(index), _, _) => self.tree.enter_at(at, field, index, budget)?,
                        (None, Some(key_field), Some(element)) => {
                            let key = key(self.registers, element, field)?;
                            let entry = MapEntry {
                                field,
                                key_field,
                                key,
                            };
                            self.tree.enter_by_key(at, entry, select.creates, budget)?
                        }
                        _ => self.tree.enter_field(at, field, select.creates, budget)?,
                    };
                }
                _ => {
                    let budget = &mut self.budget;
                    cursors.source = match (index, key_field, element) {
                        (Some(index), _, _) => cursors.source.enter_at(field, index, budget)?,
                        (None, Some(_), Some(element)) => {
                            key(self.registers, element, field)?;
                            return Err(AbortCause::KeyInPatch { field }.into());
                        }
                        _ => cursors.source.enter_field(field, budget)?,
                    };
                }
            }
        }
        self.run_list(nested, cursors)
    }

    /// Walks the rest of a path from each element of a repeated field.
    fn for_each(
        &mut self,
        select: &Select,
        field: u32,
        next: usize,
        nested: &[Instruction],
        mut cursors: Cursors<'_>,
    ) -> Result<(), Failure> {
        if matches!(select.cursor, Cursor::Destination) {
            if let Some(list) = self
                .tree
                .list(cursors.destination, field, &mut self.budget)?
            {
                // Instructions may delete the element that they are given, and no other.
                let mut from = Some(0);
                while let Some((index, element)) = match from {
                    Some(index) => self.tree.element_from(list, index)?,
                    None => None,
                } {
                    self.budget.step()?;
                    cursors.destination = element;
                    self.walk(select, next, nested, cursors)?;
                    from = index.checked_add(1);
                }
            }
        } else {
            let mut occurrences = Occurrences::new(cursors.source, field)?;
            while let Some(element) = occurrences.next(&mut self.budget)? {
                self.budget.step()?;
                cursors.source = element;
                self.walk(select, next, nested, cursors)?;
            }
        }
        Ok(())
    }
}

/// Returns the number of a register. Perfetto, too, first reduces the number to 8 bits.
fn register_index(register: u32) -> Result<u8, AbortCause> {
    let register = register as u8;
    if usize::from(register) < REGISTERS {
        Ok(register)
    } else {
        Err(AbortCause::NoSuchRegister { register })
    }
}

/// Returns the key that a component of a path asks for, of which 32 bits count.
fn key(registers: &Registers, component: &PathComponent, field: u32) -> Result<u32, AbortCause> {
    let register = component
        .register_to_match
        .ok_or(AbortCause::NoKeyRegister { field })?;
    let register = register_index(register)?;
    let value = registers[usize::from(register)].ok_or(AbortCause::RegisterUnset { register })?;
    Ok(value as u32)
}
