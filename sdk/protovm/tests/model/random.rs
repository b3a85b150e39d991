//! Random programs and patches, most of which do something.
//!
//! There is no schema, but a custom that most fields keep: 1 is a scalar and the key of elements, 2
//! a message, 3 a list, 4 a map.

use fastrand::Rng;

use crate::build;
use crate::interpreter::{Component, Instr, Op};

/// A program, and what it is applied to.
#[derive(Debug)]
pub struct Case {
    pub program: Vec<Instr>,
    pub limit_bytes: usize,
    pub initial: Vec<u8>,
    pub patches: Vec<Vec<u8>>,
}

pub fn case(seed: u64) -> Case {
    let mut random = Random(Rng::with_seed(seed));
    let limit_bytes = if random.happens(75) {
        1 << 20
    } else {
        random.0.usize(0..2500)
    };
    let mut initial = random.patch();
    if random.happens(60) || initial.len() > limit_bytes {
        initial.clear();
    }
    Case {
        program: random.program(),
        limit_bytes,
        initial,
        patches: (0..random.0.usize(1..8)).map(|_| random.patch()).collect(),
    }
}

struct Random(Rng);

impl Random {
    fn happens(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.usize(0..items.len())]
    }

    fn patch(&mut self) -> Vec<u8> {
        let mut patch = self.message(3);
        if self.happens(3) {
            patch.truncate(self.0.usize(0..=patch.len()));
        }
        patch
    }

    fn message(&mut self, depth: u32) -> Vec<u8> {
        let mut message = vec![];
        if self.happens(85) {
            // The key of elements. Most keys differ.
            message.extend(build::varint(1, self.number()));
        }
        for _ in 0..self.0.u32(0..6) {
            let field = self.0.u32(1..=4);
            match field {
                _ if self.happens(8) => message.extend(self.scalar(field)),
                1 if self.happens(85) => {}
                _ if depth == 0 => message.extend(build::bytes(field, b"")),
                _ => message.extend(build::bytes(field, &self.message(depth - 1))),
            }
        }
        match self.0.u32(0..300) {
            0 => message.extend([0x0b, 0x0c]),
            1 => message.extend([0x12, 0x7f]),
            2 => message.extend([0x0f]),
            3 => message.push(0x07),
            _ => {}
        }
        if self.happens(5) {
            message.clear();
        }
        message
    }

    fn number(&mut self) -> u64 {
        match self.0.u32(0..20) {
            0 => (1 << 32) + self.0.u64(0..3),
            1 => self.0.u64(..),
            _ => self.0.u64(0..8),
        }
    }

    fn scalar(&mut self, field: u32) -> Vec<u8> {
        let number = self.number();
        match self.0.u32(0..4) {
            0 => build::fixed32(field, number as u32),
            1 => build::fixed64(field, number),
            _ => build::varint(field, number),
        }
    }

    fn program(&mut self) -> Vec<Instr> {
        let mut program = vec![];
        for register in 0..2 {
            // Loads what paths use as keys.
            if self.happens(85) {
                program.push(Instr {
                    op: self.select(Some(1), vec![plain(1)], false),
                    level: Some(1),
                    nested: vec![load(register)],
                });
            }
        }
        for _ in 0..self.0.u32(1..4) {
            program.push(self.rule());
        }
        if self.happens(5) {
            // Makes a hole, and appends where an element may be.
            for (index, op) in [(0, Op::Del), (1, Op::Set)] {
                program.push(Instr {
                    op: self.select(Some(2), vec![plain(3), at(index)], false),
                    level: None,
                    nested: vec![Instr {
                        op,
                        level: None,
                        nested: vec![],
                    }],
                });
            }
        }
        program
    }

    /// An instruction as in real programs: selects in patch and state around operations.
    fn rule(&mut self) -> Instr {
        if self.happens(15) {
            return self.instruction(3);
        }
        let loads = self.happens(40);
        let source_is_scalar = self.happens(25);
        let is_scalar = source_is_scalar ^ self.happens(5);
        let mut operations = vec![self.operation(2)];
        if source_is_scalar && self.happens(90) {
            operations[0].op = if self.happens(75) { Op::Set } else { Op::Del };
        }
        if self.happens(30) {
            operations.push(self.instruction(2));
        }
        let path = self.path(false, is_scalar);
        let creates = self.happens(80);
        let destination = Instr {
            op: self.select(Some(2), path, creates),
            level: self.level(),
            nested: operations,
        };
        let mut nested = vec![];
        if loads {
            nested.push(Instr {
                op: self.select(None, vec![plain(1)], false),
                level: Some(1),
                nested: vec![load(self.0.u32(0..2))],
            });
        }
        nested.push(destination);
        let path = self.path(true, source_is_scalar);
        Instr {
            op: self.select(Some(1), path, false),
            level: self.level(),
            nested,
        }
    }

    fn instruction(&mut self, depth: u32) -> Instr {
        if depth == 0 || self.happens(30) {
            return self.operation(depth);
        }
        let is_source = self.happens(40);
        let cursor = match self.0.u32(0..150) {
            0 => Some(self.one_of(&[0, 3, 7])),
            1..30 if is_source => None,
            _ => Some(if is_source { 1 } else { 2 }),
        };
        let ends_in_scalar = self.happens(30);
        let path = self.path(is_source, ends_in_scalar);
        let creates = if is_source {
            self.happens(1)
        } else {
            self.happens(70)
        };
        Instr {
            op: self.select(cursor, path, creates),
            level: self.level(),
            nested: self.instructions(depth - 1),
        }
    }

    fn instructions(&mut self, depth: u32) -> Vec<Instr> {
        (0..self.0.u32(0..3))
            .map(|_| self.instruction(depth))
            .collect()
    }

    fn operation(&mut self, depth: u32) -> Instr {
        let op = match self.0.u32(0..100) {
            0 => Op::Nothing,
            1..15 => Op::Load {
                cursor: match self.0.u32(0..50) {
                    0 => Some(self.one_of(&[0, 3])),
                    1..15 => Some(1),
                    15..35 => Some(2),
                    _ => None,
                },
                register: self.register(),
            },
            15..50 => Op::Merge {
                skip: self.happens(50),
                delete: self.happens(50),
            },
            50..85 => Op::Set,
            _ => Op::Del,
        };
        let nested = if depth > 0 && self.happens(15) {
            self.instructions(depth - 1)
        } else {
            vec![]
        };
        Instr {
            op,
            level: self.level(),
            nested,
        }
    }

    fn select(&mut self, cursor: Option<u32>, path: Vec<Component>, create: bool) -> Op {
        Op::Select {
            cursor,
            path,
            create,
        }
    }

    fn register(&mut self) -> u32 {
        match self.0.u32(0..60) {
            0 => self.one_of(&[32, 255, 5]),
            1 => 256,
            _ => self.0.u32(0..2),
        }
    }

    fn level(&mut self) -> Option<u32> {
        match self.0.u32(0..100) {
            0..45 => Some(1),
            45..55 => Some(2),
            55..62 => Some(3),
            62 => Some(self.one_of(&[0, 4])),
            _ => None,
        }
    }

    fn path(&mut self, is_source: bool, ends_in_scalar: bool) -> Vec<Component> {
        let mut path = vec![];
        for _ in 0..self.one_of(&[0, 1, 1, 1, 1, 2, 2, 3]) {
            let field = self.0.u32(2..=4);
            self.extend(&mut path, field, is_source);
        }
        if ends_in_scalar {
            self.extend(&mut path, 1, is_source);
        }
        path
    }

    /// Enters a field, usually in the way that is the custom.
    fn extend(&mut self, path: &mut Vec<Component>, mut field: u32, is_source: bool) {
        if self.happens(1) {
            field = self.one_of(&[0, 1 << 29, u32::MAX, 9]);
        }
        if self.happens(1) {
            path.push(Component::default());
            return;
        }
        let custom = if self.happens(88) {
            field
        } else {
            self.0.u32(1..=4)
        };
        let iterates = if is_source {
            self.happens(80)
        } else {
            self.happens(35)
        };
        match custom {
            3 | 4 if iterates && (custom == 3 || is_source) => path.push(Component {
                repeated: true,
                ..plain(field)
            }),
            3 => {
                let index = self.one_of(&[0, 0, 0, 1, 1, 2, 3]);
                path.push(plain(field));
                path.push(at(index));
            }
            4 if !is_source || self.happens(10) => {
                path.push(plain(field));
                let register = self.register();
                path.push(Component {
                    key_field: Some(self.one_of(&[1, 1, 1, 1, 1, 1, 2])),
                    register: (!self.happens(2)).then_some(register),
                    ..Component::default()
                });
            }
            _ => path.push(plain(field)),
        }
    }
}

fn plain(field: u32) -> Component {
    Component {
        field: Some(field),
        ..Component::default()
    }
}

fn at(index: u32) -> Component {
    Component {
        index: Some(index),
        ..Component::default()
    }
}

fn load(register: u32) -> Instr {
    Instr {
        op: Op::Load {
            cursor: None,
            register,
        },
        level: None,
        nested: vec![],
    }
}

/// Encodes a program.
pub fn encode(program: &[Instr]) -> Vec<u8> {
    program
        .iter()
        .flat_map(|instr| build::bytes(2, &encode_instruction(instr)))
        .collect()
}

fn encode_instruction(instr: &Instr) -> Vec<u8> {
    let number = |field, value: Option<u32>| {
        value.map_or(vec![], |value| build::varint(field, value.into()))
    };
    let flag = |field, value: bool| number(field, value.then_some(1));
    let operation = match &instr.op {
        Op::Nothing => vec![],
        Op::Select {
            cursor,
            path,
            create,
        } => {
            let component = |component: &Component| {
                let fields = [
                    number(1, component.field),
                    number(2, component.index),
                    number(3, component.key_field),
                    flag(5, component.repeated),
                    number(6, component.register),
                ];
                build::bytes(2, &fields.concat())
            };
            let path = path.iter().flat_map(component).collect();
            let fields = [number(1, *cursor), path, flag(3, *create)];
            build::bytes(1, &fields.concat())
        }
        Op::Load { cursor, register } => {
            let fields = [number(1, *cursor), number(2, Some(*register))];
            build::bytes(2, &fields.concat())
        }
        Op::Merge { skip, delete } => build::bytes(3, &[flag(1, *skip), flag(2, *delete)].concat()),
        Op::Set => build::bytes(4, b""),
        Op::Del => build::bytes(5, b""),
    };
    let nested = instr.nested.iter();
    let nested = nested.flat_map(|instr| build::bytes(7, &encode_instruction(instr)));
    [operation, number(6, instr.level), nested.collect()].concat()
}
