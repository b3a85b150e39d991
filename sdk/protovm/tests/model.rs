//! Compares the machine with a model: a slow, plain interpreter, written from the description of
//! ProtoVM and without the machine's code. Random programs are applied to random patches by both.
//! After each patch, status, state and memory must be the same.
//!
//! `PROTOVM_PROGRAMS` sets the number of programs, `PROTOVM_SEED` the first. `ci/model.sh` runs a
//! million with `--release`; 100,000 are
//!
//! ```sh
//! PROTOVM_PROGRAMS=100000 cargo test --release -p tracezero-protovm --test model -- --nocapture
//! ```

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod build;
#[path = "model/interpreter.rs"]
mod interpreter;
#[path = "model/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::env;

use interpreter::{Fail, Model, Tree};
use tracezero_protovm::{AbortCause, ApplyError, Malformed, Program, Vm};

const PROGRAMS: u64 = 15_000;

/// Every operation, every result but the limits of one patch, which `limits.rs` reaches.
const REACHED: [&str; 35] = [
    "select",
    "reg_load",
    "merge",
    "set",
    "del",
    "Ok",
    "PatchField",
    "PatchElement",
    "StateField",
    "NoOperation",
    "CursorUnsupported",
    "CreatesInPatch",
    "NoFieldId",
    "InvalidFieldId",
    "KeyInPatch",
    "NoKeyRegister",
    "NoSuchRegister",
    "RegisterUnset",
    "UnknownAbortLevel",
    "Missing",
    "MalformedPatch",
    "PatchIsScalar",
    "PatchIsNotScalar",
    "MalformedState",
    "StateIsScalar",
    "StateIsNotScalar",
    "FieldIsRepeated",
    "FieldIsKeyed",
    "NoSuchIndex",
    "IndexTaken",
    "NoKey",
    "DuplicateKey",
    "Deleted",
    "DeletesSelected",
    "MemoryLimit",
];

#[derive(Default)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Counts the name of a variant.
    fn add(&mut self, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        let end = text.find(|c: char| !c.is_alphanumeric());
        let name = text[..end.unwrap_or(text.len())].to_owned();
        *self.0.entry(name).or_default() += 1;
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| {
        let parsed = value.parse();
        parsed.unwrap_or_else(|_| panic!("{name} is not a number: '{value}'"))
    })
}

/// The model does not know the offsets of malformed fields, nor what is wrong with them.
fn without_offset(cause: AbortCause) -> AbortCause {
    let strip = |malformed| match malformed {
        Malformed::Group { .. } => Malformed::Group { offset: 0 },
        _ => Malformed::Field(protozero::DecodeError::MessageTooLong),
    };
    match cause {
        AbortCause::MalformedPatch(malformed) => AbortCause::MalformedPatch(strip(malformed)),
        AbortCause::MalformedState(malformed) => AbortCause::MalformedState(strip(malformed)),
        other => other,
    }
}

/// Runs one case on both; returns the first difference.
fn difference(case: &random::Case, counts: &mut Counts) -> Option<String> {
    let program = Program::parse(&random::encode(&case.program)).unwrap();
    let mut vm = Vm::with_state(program.clone(), case.limit_bytes, &case.initial).unwrap();
    let root = |state: &[u8]| match state {
        [] => Tree::Empty,
        state => Tree::Bytes(state.to_vec()),
    };
    let mut model = Model::new(root(&case.initial), case.limit_bytes);
    // This one gets only the patches that change something.
    let mut repeated = vm.clone();
    for (index, patch) in case.patches.iter().enumerate() {
        let changes = vm.changes();
        let result = vm.apply(patch);
        if vm.changes() != changes {
            let _ = repeated.apply(patch);
        }
        let expected = model.apply(&case.program, patch);
        let is_same = match (&result, expected) {
            (Ok(()), Ok(())) => {
                counts.add(&result);
                true
            }
            (Err(ApplyError::Missing { cause, .. }), Err(Fail::Error(expected))) => {
                counts.add(cause);
                *cause == expected
            }
            (Err(ApplyError::Abort { cause, .. }), Err(Fail::Abort(expected))) => {
                counts.add(cause);
                without_offset(*cause) == expected
            }
            _ => false,
        };
        if !is_same {
            return Some(format!("patch {index}: {result:?}, not {expected:?}"));
        }
        let (state, expected) = (vm.state(), model.root.serialize());
        if state != expected {
            return Some(format!(
                "patch {index}: state {state:02x?}, not {expected:02x?}"
            ));
        }
        if repeated.state() != state || repeated.registers() != vm.registers() {
            return Some(format!("patch {index}: a change that does not count"));
        }
        let (memory, expected) = (vm.state_memory_bytes(), model.memory_bytes());
        if memory != expected {
            return Some(format!("patch {index}: {memory} bytes, not {expected}"));
        }
        // Programs with an even number of patches go on with a state that was serialized.
        if case.patches.len().is_multiple_of(2) && index == 1 {
            vm = Vm::with_state(program.clone(), case.limit_bytes, &state).unwrap();
            repeated = vm.clone();
            let counts = std::mem::take(&mut model.counts);
            model = Model::new(root(&state), case.limit_bytes);
            model.counts = counts;
        }
    }
    for (name, count) in model.counts {
        *counts.0.entry(name.to_owned()).or_default() += count;
    }
    None
}

#[test]
fn the_machine_does_what_the_model_does() {
    let first = from_environment("PROTOVM_SEED", 0);
    let programs = from_environment("PROTOVM_PROGRAMS", PROGRAMS);
    let mut counts = Counts::default();
    for seed in first..first + programs {
        let case = random::case(seed);
        if let Some(difference) = difference(&case, &mut counts) {
            panic!("seed {seed}, {difference}\n{case:#x?}");
        }
    }
    println!("{programs} programs without a difference: {:#?}", counts.0);
    // A few programs reach little.
    if programs >= PROGRAMS {
        for name in REACHED {
            assert!(counts.0.contains_key(name), "{name} was not reached");
        }
    }
}
