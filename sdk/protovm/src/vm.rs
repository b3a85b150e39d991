//! A program with its state.

use crate::error::{ApplyError, StateTooLong};
use crate::limits::REGISTERS;
use crate::machine::{self, Counters, Registers};
use crate::program::Program;
use crate::serialize::append_state;
use crate::tree::Tree;

/// A program, and the state into which it folds patches. A clone has a state of its own.
#[derive(Clone, Debug)]
pub struct Vm {
    program: Program,
    tree: Tree,
    registers: Registers,
    counters: Counters,
}

impl Vm {
    /// Creates a machine with an empty state.
    ///
    /// The state takes at most `memory_limit_bytes`, of which no more than
    /// [`MEMORY_LIMIT_MAX_BYTES`](crate::MEMORY_LIMIT_MAX_BYTES) count. The program is not counted.
    #[must_use]
    pub fn new(program: Program, memory_limit_bytes: usize) -> Self {
        Self {
            program,
            tree: Tree::new(memory_limit_bytes),
            registers: [None; REGISTERS],
            counters: Counters::default(),
        }
    }

    /// Creates a machine with a state that another one has serialized. Registers are unset.
    ///
    /// # Errors
    ///
    /// If the state is longer than the memory limit.
    pub fn with_state(
        program: Program,
        memory_limit_bytes: usize,
        state: &[u8],
    ) -> Result<Self, StateTooLong> {
        Ok(Self {
            program,
            tree: Tree::with_bytes(memory_limit_bytes, state)?,
            registers: [None; REGISTERS],
            counters: Counters::default(),
        })
    }

    /// Runs the program for a patch.
    ///
    /// # Errors
    ///
    /// If the patch is not meant for the program, or cannot be applied. The state keeps what was
    /// applied before, and the machine can be used further.
    pub fn apply(&mut self, patch: &[u8]) -> Result<(), ApplyError> {
        machine::run(
            self.program.instructions(),
            patch,
            &mut self.tree,
            &mut self.registers,
            &mut self.counters,
        )
    }

    /// Returns what all patches together have cost, in steps and units of work: each takes at most
    /// some 10 ns.
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.counters.work
    }

    /// Returns a number that grows with each change of the state, of its form in memory, or of a register.
    /// So the machine has ignored a patch if the number is the same before and after it.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.tree.arena().changes() + self.counters.register_changes
    }

    /// Returns how often the program has set, merged or deleted something.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.counters.operations
    }

    /// Returns the registers, which keep their values from patch to patch. They are not part of the
    /// serialized state.
    #[must_use]
    pub const fn registers(&self) -> &[Option<u64>; REGISTERS] {
        &self.registers
    }

    /// Sets the registers.
    pub const fn set_registers(&mut self, registers: [Option<u64>; REGISTERS]) {
        self.registers = registers;
    }

    /// Returns the serialized state.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        self.append_state(&mut state);
        state
    }

    /// Appends the serialized state.
    pub fn append_state(&self, out: &mut Vec<u8>) {
        append_state(self.tree.arena(), out);
    }

    /// Returns the bytes of the program.
    #[must_use]
    pub fn program_bytes(&self) -> &[u8] {
        self.program.bytes()
    }

    /// Returns what the state is charged for. It never exceeds the memory limit.
    #[must_use]
    pub const fn state_memory_bytes(&self) -> usize {
        self.tree.arena().used_bytes()
    }

    /// Returns the memory limit of the state.
    #[must_use]
    pub const fn memory_limit_bytes(&self) -> usize {
        self.tree.arena().limit_bytes()
    }
}
