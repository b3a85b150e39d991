//! Fuzzes the machine of ProtoVM: any program, any initial state, any patches. It returns, stays
//! within its memory limit, and its state can be parsed again and has the same content then.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::{DecodeError, Decoder, Field, append_varint};
use tracezero_protovm::{ApplyError, MEMORY_LIMIT_MAX_BYTES, Program, Vm};

#[derive(Arbitrary, Debug)]
struct Input {
    program: AnyProgram,
    limit_bytes: u16,
    state: Message,
    patches: Vec<Message>,
}

/// The fuzzer finds few programs that are sound protobuf, so it may also write instructions.
#[derive(Arbitrary, Debug)]
enum AnyProgram {
    Bytes(Vec<u8>),
    Instructions(Vec<Instruction>),
}

#[derive(Arbitrary, Debug)]
struct Instruction {
    operation: Operation,
    abort_level: Option<u8>,
    nested: Vec<Instruction>,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    None,
    Select {
        cursor: Option<u8>,
        path: Vec<Component>,
        creates: bool,
    },
    RegLoad {
        cursor: Option<u8>,
        register: u8,
    },
    Merge {
        skip_submessages: bool,
        del_if_src_empty: bool,
    },
    Set,
    Del,
}

#[derive(Arbitrary, Debug)]
enum Component {
    Field(SmallNumber),
    Each(SmallNumber),
    Index(SmallNumber),
    Key(SmallNumber, u8),
    Any(Message),
}

/// A number that others are likely to have, too.
#[derive(Arbitrary, Debug)]
struct SmallNumber(u8);

impl SmallNumber {
    fn value(&self) -> u64 {
        u64::from(self.0 % 4)
    }
}

#[derive(Arbitrary, Debug)]
enum Message {
    Bytes(Vec<u8>),
    Fields(Vec<(SmallNumber, Value)>),
}

#[derive(Arbitrary, Debug)]
enum Value {
    Small(SmallNumber),
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Message(Box<Message>),
}

fn varint(number: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_varint(number << 3, &mut bytes);
    append_varint(value, &mut bytes);
    bytes
}

fn optional(number: u64, value: Option<u8>) -> Vec<u8> {
    value.map_or(Vec::new(), |value| varint(number, value.into()))
}

fn delimited(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_varint(number << 3 | 2, &mut bytes);
    append_varint(payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

impl AnyProgram {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Instructions(instructions) => {
                let instructions = instructions.iter();
                instructions
                    .flat_map(|instruction| delimited(2, &instruction.encode()))
                    .collect()
            }
        }
    }
}

impl Instruction {
    fn encode(&self) -> Vec<u8> {
        let nested = self
            .nested
            .iter()
            .flat_map(|nested| delimited(7, &nested.encode()));
        [
            self.operation.encode(),
            optional(6, self.abort_level),
            nested.collect(),
        ]
        .concat()
    }
}

impl Operation {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Select {
                cursor,
                path,
                creates,
            } => {
                let path = path
                    .iter()
                    .flat_map(|component| delimited(2, &component.encode()));
                let creates = varint(3, u64::from(*creates));
                delimited(1, &[optional(1, *cursor), path.collect(), creates].concat())
            }
            Self::RegLoad { cursor, register } => {
                let register = varint(2, u64::from(*register));
                delimited(2, &[optional(1, *cursor), register].concat())
            }
            Self::Merge {
                skip_submessages,
                del_if_src_empty,
            } => {
                let flags = [
                    varint(1, u64::from(*skip_submessages)),
                    varint(2, u64::from(*del_if_src_empty)),
                ];
                delimited(3, &flags.concat())
            }
            Self::Set => delimited(4, &[]),
            Self::Del => delimited(5, &[]),
        }
    }
}

impl Component {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Field(field) => varint(1, field.value()),
            Self::Each(field) => [varint(1, field.value()), varint(5, 1)].concat(),
            Self::Index(index) => varint(2, index.value()),
            Self::Key(field, register) => {
                [varint(3, field.value()), varint(6, u64::from(*register))].concat()
            }
            Self::Any(message) => message.encode(),
        }
    }
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        let fields = match self {
            Self::Bytes(bytes) => return bytes.clone(),
            Self::Fields(fields) => fields,
        };
        let mut message = Vec::new();
        for (number, value) in fields {
            let number = number.value();
            match value {
                Value::Small(value) => message.extend(varint(number, value.value())),
                Value::Varint(value) => message.extend(varint(number, *value)),
                Value::Fixed32(value) => {
                    append_varint(number << 3 | 5, &mut message);
                    message.extend(value.to_le_bytes());
                }
                Value::Fixed64(value) => {
                    append_varint(number << 3 | 1, &mut message);
                    message.extend(value.to_le_bytes());
                }
                Value::Message(payload) => message.extend(delimited(number, &payload.encode())),
            }
        }
        message
    }
}

fuzz_target!(|input: Input| {
    let Ok(program) = Program::parse(&input.program.encode()) else {
        return;
    };
    let limit_bytes = usize::from(input.limit_bytes);
    let state = input.state.encode();
    let Ok(mut vm) = Vm::with_state(program, limit_bytes, &state) else {
        assert!(state.len() > limit_bytes);
        return;
    };
    assert_eq!(vm.state(), state);
    for patch in &input.patches {
        if let Err(
            ApplyError::Missing { instruction, .. } | ApplyError::Abort { instruction, .. },
        ) = vm.apply(&patch.encode())
        {
            assert!(!instruction.indices().is_empty());
        }
        assert!(vm.state_memory_bytes() <= limit_bytes);
        let state = vm.state();
        // The length of a state is limited by what the state is charged for.
        assert!(state.len() <= vm.state_memory_bytes());
        parse_again(&state);
    }
});

/// Parses a serialized state by entering it. Its fields are the same then. A state that a patch has
/// set as a whole may have them in any order, and may be malformed.
fn parse_again(state: &[u8]) {
    // A field that nobody else uses.
    let path = delimited(2, &varint(1, 536_870_911));
    let enters_root = [varint(1, 2), path].concat();
    let program = delimited(2, &delimited(1, &enters_root));
    let program = Program::parse(&program).expect("it is sound");
    let mut vm = Vm::with_state(program, MEMORY_LIMIT_MAX_BYTES, state).expect("it is short");
    assert_eq!(vm.state(), state);
    if let Err(ApplyError::Abort { .. }) = vm.apply(&[]) {
        assert_eq!(vm.state(), state);
        return;
    }
    let parsed = vm.state();
    let mut fields = content(state).expect("it was parsed");
    fields.sort_by_key(|field| field.number);
    assert_eq!(content(&parsed), Ok(fields));
}

fn content(message: &[u8]) -> Result<Vec<Field<'_>>, DecodeError> {
    Decoder::new(message).fields().collect()
}
