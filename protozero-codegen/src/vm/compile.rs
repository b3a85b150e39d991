//! Turns the commands of a program into instructions, and checks them against the schema.

use std::collections::BTreeMap;

use super::fields::{Encoding, Field, Message, Schema};
use super::instruction::{self, Component, Cursor, Instruction, Operation};
use super::paths::Path;
use super::program::{Command, OnError, Verb, VmProgram};
use super::types;

/// The greatest size of a serialized program that the machine loads.
pub(super) const MAX_BYTES: usize = 64 * 1024;

/// The greatest number of instructions inside each other that the machine runs.
pub(super) const MAX_DEPTH: usize = 32;

/// An instruction takes at least this: tag and length, and as much for its operation.
const MIN_INSTRUCTION_BYTES: usize = 4;

/// The reason why a program cannot be compiled.
#[derive(Debug)]
pub(super) struct Fault {
    /// The command, as the build script calls it; empty for the whole program.
    pub(super) command: String,
    /// The reason and the remedy.
    pub(super) message: String,
}

impl Fault {
    fn of_program(message: String) -> Self {
        Fault {
            command: String::new(),
            message,
        }
    }
}

/// Compiles a program.
pub(super) fn compile(schema: &Schema<'_>, program: &VmProgram) -> Result<Vec<Instruction>, Fault> {
    let root = schema.root(&program.root).map_err(Fault::of_program)?;
    let root = Scope {
        source: root,
        destination: root,
        destination_path: Vec::new(),
        depth: 0,
    };
    if program.commands.is_empty() {
        let message = "it has no commands; add one, such as `merge`";
        return Err(Fault::of_program(message.to_owned()));
    }
    let mut compiler = Compiler {
        schema,
        keys: BTreeMap::new(),
        instructions: 0,
    };
    compiler.commands(&program.commands, &root)
}

struct Compiler<'a> {
    schema: &'a Schema<'a>,
    /// The key by which commands enter each repeated field: name and number, by the numbers of the
    /// path from the root.
    keys: BTreeMap<Vec<u32>, (String, u32)>,
    /// How many instructions recursive merges have made. It bounds the work on a schema whose
    /// messages contain each other in ever more ways.
    instructions: usize,
}

/// The place where the paths of commands start.
struct Scope<'a> {
    source: &'a Message<'a>,
    destination: &'a Message<'a>,
    /// The numbers of the fields from the root to the destination; empty for the root.
    destination_path: Vec<u32>,
    /// The number of instructions around the commands.
    depth: usize,
}

impl<'a> Compiler<'a> {
    fn commands(
        &mut self,
        commands: &[Command],
        scope: &Scope<'a>,
    ) -> Result<Vec<Instruction>, Fault> {
        let mut instructions = Vec::new();
        for command in commands {
            instructions.extend(self.command(command, scope)?);
        }
        Ok(instructions)
    }

    /// Compiles a command to a select of the source, with a select of the destination inside, with
    /// the operation inside. An empty path needs no select.
    fn command(&mut self, command: &Command, scope: &Scope<'a>) -> Result<Vec<Instruction>, Fault> {
        let fault = |message: String| Fault {
            command: command.to_string(),
            message,
        };
        let source = Path::find(self.schema, scope.source, &command.source).map_err(fault)?;
        let destination =
            Path::find(self.schema, scope.destination, &command.destination).map_err(fault)?;
        let verb = &command.verb;
        let key = match verb.key() {
            Some(name) => {
                let key = self.key(verb, name, &source, &destination).map_err(fault)?;
                self.claim_key(scope, &destination, &key).map_err(fault)?;
                Some(key)
            }
            None => None,
        };
        let body = match verb {
            Verb::Scope { commands } => {
                let inner = inner_scope(scope, &source, &destination).map_err(fault)?;
                if commands.is_empty() {
                    return Err(fault(
                        "it has no commands; add one, or leave out the scope".to_owned(),
                    ));
                }
                check_depth(inner.depth + 1).map_err(fault)?;
                self.commands(commands, &inner)?
            }
            verb => self
                .operations(verb, scope, &source, &destination)
                .map_err(fault)?,
        };

        let mut destination = destination.components(false);
        let mut inside = Vec::new();
        if let Some(key) = key {
            inside.push(key.load);
            destination.push(key.component);
        }
        inside.extend(select(
            Cursor::Destination,
            destination,
            !verb.is_delete(),
            body,
        ));
        let mut whole = select(Cursor::Source, source.components(true), false, inside);
        if let Some(last) = whole.last_mut() {
            last.on_error = command.on_error.unwrap_or_default();
        }
        check_depth(scope.depth + instruction::depth(&whole)).map_err(fault)?;
        Ok(whole)
    }

    /// Checks the types of a command other than a scope. Returns what it does at its place.
    fn operations(
        &mut self,
        verb: &Verb,
        scope: &Scope<'a>,
        source: &Path<'a>,
        destination: &Path<'a>,
    ) -> Result<Vec<Instruction>, String> {
        let one = |operation| Ok(vec![Instruction::new(operation)]);
        if verb.key().is_none() {
            types::check_singular(&destination.fields)?;
        }
        match verb {
            Verb::Set | Verb::SetByKey { .. } => {
                types::check_set(self.schema, source, destination)?;
                one(Operation::Set)
            }
            Verb::Merge { is_recursive } | Verb::MergeByKey { is_recursive, .. } => {
                let from = types::expect_message(source)?;
                let to = types::expect_message(destination)?;
                types::check_messages(self.schema, from, to)?;
                match is_recursive {
                    true => self.recursive_merge(from, to, &mut Vec::new()),
                    false => one(Operation::Merge {
                        skip_submessages: false,
                    }),
                }
            }
            Verb::DeleteIfPresent => {
                let is_scope = destination.fields.is_empty();
                if is_scope && !scope.destination_path.is_empty() {
                    return Err(
                        "a scope cannot delete its own message, which the machine still needs; \
                         call this outside of the scope"
                            .to_owned(),
                    );
                }
                one(Operation::Delete)
            }
            Verb::DeleteByKey { .. } => one(Operation::Delete),
            Verb::Scope { .. } => unreachable!("a scope has commands instead"),
        }
    }

    /// Returns instructions that merge the messages in singular fields first, then the other
    /// fields. `around` has the names of the messages that are being merged.
    ///
    /// The destination has the fields of the source, because the types have been checked.
    fn recursive_merge(
        &mut self,
        message: &'a Message<'a>,
        destination: &'a Message<'a>,
        around: &mut Vec<&'a str>,
    ) -> Result<Vec<Instruction>, String> {
        if let Some(index) = around.iter().position(|&name| name == message.name) {
            let cycle = [&around[index..], &[message.name.as_str()]].concat();
            return Err(format!(
                "the message contains itself ({}), so the merge would never end; \
                 use `merge_shallow` or `merge_shallow_by_key`",
                cycle.join(" -> ")
            ));
        }
        around.push(&message.name);
        // This also bounds the recursion. Each level takes two selects.
        check_depth(2 * around.len())?;
        let mut instructions = Vec::new();
        let fields = message.fields.iter().filter(|field| {
            field.encoding() == Encoding::Message && !field.is_repeated() && !field.is_deprecated()
        });
        for field in fields {
            let mut others = destination.fields.iter();
            let Some(other) = others.find(|other| other.number() == field.number()) else {
                continue;
            };
            let inner = self.schema.message_of(field);
            let Some((from, to)) = inner.zip(self.schema.message_of(other)) else {
                continue;
            };
            let path = |field: &Field<'_>| {
                vec![Component::Field {
                    number: field.number(),
                    name: field.name.clone(),
                    is_repeated: false,
                }]
            };
            let merge = self.recursive_merge(from, to, around)?;
            let merge = select(Cursor::Destination, path(other), true, merge);
            let mut merge = select(Cursor::Source, path(field), false, merge);
            for instruction in &mut merge {
                instruction.on_error = OnError::SkipCommand;
            }
            instructions.extend(merge);
            self.instructions += 2;
        }
        around.pop();
        self.instructions += 1;
        if self.instructions > MAX_BYTES / MIN_INSTRUCTION_BYTES {
            return Err(too_large("more"));
        }
        instructions.push(Instruction::new(Operation::Merge {
            skip_submessages: true,
        }));
        Ok(instructions)
    }

    /// Checks the key of a command, and returns the instruction that loads it.
    fn key(
        &self,
        verb: &Verb,
        name: &str,
        source: &Path<'a>,
        destination: &Path<'a>,
    ) -> Result<Key, String> {
        let elements = types::check_keyed(destination)?;
        let key = types::key(self.schema, elements, name)?;
        let mut load = Instruction::new(Operation::LoadKey);
        if verb.is_delete() {
            types::check_ids(source, key, elements)?;
        } else {
            let from = types::expect_message(source)?;
            let from_key = types::key(self.schema, from, name)?;
            if from_key.number() != key.number() {
                return Err(format!(
                    "the key `{name}` has number {} in `{}`, but {} in `{}`; give both the same number",
                    from_key.number(),
                    from.name,
                    key.number(),
                    elements.name
                ));
            }
            let component = Component::Field {
                number: from_key.number(),
                name: name.to_owned(),
                is_repeated: false,
            };
            load = Instruction {
                operation: Operation::Select {
                    cursor: Cursor::Source,
                    path: vec![component],
                    create: false,
                },
                on_error: OnError::Abort,
                nested: vec![load],
            };
        }
        let component = Component::Key {
            number: key.number(),
            name: name.to_owned(),
        };
        Ok(Key { load, component })
    }

    /// Checks that all commands enter a repeated field by the same key. The machine sorts the
    /// elements by the first key that it meets, and keeps that order.
    fn claim_key(
        &mut self,
        scope: &Scope<'a>,
        destination: &Path<'a>,
        key: &Key,
    ) -> Result<(), String> {
        let Component::Key { number, name } = &key.component else {
            return Ok(());
        };
        let mut path = scope.destination_path.clone();
        path.extend(destination.fields.iter().map(|field| field.number()));
        let (first, first_number) = self
            .keys
            .entry(path)
            .or_insert_with(|| (name.clone(), *number));
        if first_number == number {
            return Ok(());
        }
        Err(format!(
            "another command finds elements of {} by `{first}`; use one key for each field",
            destination.end_text()
        ))
    }
}

/// The key of a command: how it is loaded from the source, and the part of the destination's path
/// that finds its element.
struct Key {
    load: Instruction,
    component: Component,
}

fn inner_scope<'a>(
    scope: &Scope<'a>,
    source: &Path<'a>,
    destination: &Path<'a>,
) -> Result<Scope<'a>, String> {
    types::check_singular(&destination.fields)?;
    let selects = [source, destination].map(|path| usize::from(!path.fields.is_empty()));
    if selects == [0, 0] {
        return Err("both paths are empty, so the scope changes nothing; leave it out".to_owned());
    }
    let is_scalar = |path: &Path<'_>| {
        format!(
            "{} is not a message; a scope needs two messages",
            path.end_text()
        )
    };
    let mut destination_path = scope.destination_path.clone();
    destination_path.extend(destination.fields.iter().map(|field| field.number()));
    Ok(Scope {
        source: source.message.ok_or_else(|| is_scalar(source))?,
        destination: destination.message.ok_or_else(|| is_scalar(destination))?,
        destination_path,
        depth: scope.depth + selects.iter().sum::<usize>(),
    })
}

/// Puts instructions into a select of a path, unless the path is empty.
fn select(
    cursor: Cursor,
    path: Vec<Component>,
    create: bool,
    nested: Vec<Instruction>,
) -> Vec<Instruction> {
    if path.is_empty() {
        return nested;
    }
    vec![Instruction {
        operation: Operation::Select {
            cursor,
            path,
            create,
        },
        on_error: OnError::default(),
        nested,
    }]
}

fn check_depth(depth: usize) -> Result<(), String> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(format!(
        "its instructions nest deeper than {MAX_DEPTH} levels, and the machine runs no more; \
         use fewer scopes, or `merge_shallow` instead of `merge`"
    ))
}

/// Returns the message for a program that the machine does not load. `bytes` is its size.
pub(super) fn too_large(bytes: &str) -> String {
    format!(
        "the program takes {bytes} bytes, and the machine loads at most {MAX_BYTES}; \
         use `merge_shallow` instead of `merge` for large messages"
    )
}
