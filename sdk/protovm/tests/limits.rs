//! Each limit is reached, and hostile input costs neither the stack nor much time.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod build;

use std::time::{Duration, Instant};

use build::*;
use tracezero_protovm::{
    AbortCause, ApplyError, INSTRUCTION_DEPTH_MAX, ITERATION_DEPTH_MAX, MEMORY_LIMIT_MAX_BYTES,
    PROGRAM_MAX_BYTES, Program, ProgramError, STEPS_MAX_PER_PATCH, Vm,
};

const PATCH_MAX_BYTES: usize = 1 << 20;

/// A patch takes a fraction of this in a release build. The bound holds for a debug build on a busy
/// machine.
const TIME_MAX: Duration = Duration::from_secs(30);

fn vm(instructions: impl IntoIterator<Item = Instruction>) -> Vm {
    let program = Program::parse(&program(instructions)).unwrap();
    Vm::new(program, MEMORY_LIMIT_MAX_BYTES)
}

#[track_caller]
fn abort(vm: &mut Vm, patch: &[u8]) -> AbortCause {
    let started = Instant::now();
    let result = vm.apply(patch);
    let elapsed = started.elapsed();
    println!("{elapsed:?}: {result:?}");
    assert!(elapsed < TIME_MAX, "{elapsed:?}");
    match result {
        Err(ApplyError::Abort { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

fn nested(depth: usize) -> Vec<u8> {
    let innermost = del();
    let instruction = (1..depth).fold(innermost, |inner, _| src(here()).nest([inner]));
    program([instruction])
}

#[test]
fn program_length_is_limited() {
    let mut program = bytes(99, &[0; PROGRAM_MAX_BYTES - 5]);
    assert_eq!(program.len(), PROGRAM_MAX_BYTES);
    Program::parse(&program).unwrap();
    program.push(0);
    let len_bytes = program.len();
    let error = Program::parse(&program).unwrap_err();
    assert_eq!(error, ProgramError::TooLong { len_bytes });
}

#[test]
fn instruction_depth_is_limited() {
    Program::parse(&nested(INSTRUCTION_DEPTH_MAX)).unwrap();
    let error = Program::parse(&nested(INSTRUCTION_DEPTH_MAX + 1)).unwrap_err();
    let zeros = vec!["0"; INSTRUCTION_DEPTH_MAX + 1].join(".");
    let text = format!("instruction {zeros} is nested too deeply; nest at most 32 levels");
    assert_eq!(error.to_string(), text);
}

#[test]
fn malformed_program_names_the_instruction() {
    let wrong_type = bytes(7, &varint(1, 0));
    let outer = message![bytes(7, &bytes(4, b"")), wrong_type];
    let program = message![bytes(2, &bytes(5, b"")), bytes(2, &outer)];
    let error = Program::parse(&program).unwrap_err();
    assert_eq!(
        error.to_string(),
        "instruction 1.1 is malformed: field 1 has a wire type that its schema does not allow"
    );
    let error = Program::parse(&[0x12]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the program is malformed: the message ends inside the field at offset 0"
    );
}

#[test]
fn iterations_within_iterations_are_limited() {
    let path = |depth| (0..depth).fold(here(), |path, _| path.each(1));
    let patch = (0..ITERATION_DEPTH_MAX).fold(Vec::new(), |inner, _| bytes(1, &inner));
    vm([src(path(ITERATION_DEPTH_MAX))]).apply(&patch).unwrap();
    let mut deeper = vm([src(path(ITERATION_DEPTH_MAX + 1))]);
    assert_eq!(abort(&mut deeper, &patch), AbortCause::IterationTooDeep);
    // A failure that is skipped leaves no iteration behind.
    let skipped = src(path(2)).level(SKIP).nest([src(field(9))]);
    let mut list = vec![skipped; ITERATION_DEPTH_MAX];
    list.push(src(path(ITERATION_DEPTH_MAX)));
    vm(list).apply(&patch).unwrap();
}

#[test]
fn steps_are_limited() {
    let elements = varint(1, 1).repeat(1000);
    let instructions = vec![src(here()); STEPS_MAX_PER_PATCH as usize / 1000];
    let mut vm = vm([src(each(1)).nest(instructions)]);
    assert_eq!(abort(&mut vm, &elements), AbortCause::StepLimit);
}

#[test]
fn nested_iteration_ends_early() {
    let elements = varint(1, 1).repeat(PATCH_MAX_BYTES / 4);
    let patch = message![elements.clone(), bytes(2, &elements)];
    // Only messages can be entered, so iterations nest over a few long elements.
    let mut vm = vm([src(each(2)).nest([src(each(1)), src(each(1)), src(each(1))])]);
    assert_eq!(abort(&mut vm, &patch), AbortCause::StepLimit);
}

#[test]
fn scans_of_a_long_patch_end_early() {
    let patch = varint(1, 1).repeat(PATCH_MAX_BYTES / 2);
    let mut absent = vm(vec![src(field(2)).level(SKIP); 5000]);
    assert_eq!(abort(&mut absent, &patch), AbortCause::WorkLimit);
    let patch = bytes(1, b"").repeat(PATCH_MAX_BYTES / 2);
    let mut last = vm(vec![src(field(1).at(400_000)); 2000]);
    assert_eq!(abort(&mut last, &patch), AbortCause::WorkLimit);
}

#[test]
fn copies_of_a_long_patch_end_early() {
    let patch = bytes(1, &vec![0; PATCH_MAX_BYTES]);
    let mut sets = vm(vec![set(); 10_000]);
    assert_eq!(abort(&mut sets, &patch), AbortCause::WorkLimit);
    let mut merges = vm(vec![merge(); 10_000]);
    assert_eq!(abort(&mut merges, &patch), AbortCause::WorkLimit);
}

#[test]
fn long_states_are_not_parsed_again_and_again() {
    let patch = varint(1, 1).repeat(PATCH_MAX_BYTES / 2);
    let mut parses = vm(vec![set().nest([dst(field(2)).level(SKIP)]); 3000]);
    assert_eq!(abort(&mut parses, &patch), AbortCause::WorkLimit);
}

#[test]
fn long_paths_end_early() {
    let chain = (0..10_000).fold(here(), |path, _| path.field(1));
    let elements = varint(2, 1).repeat(PATCH_MAX_BYTES / 2);
    let mut vm = vm([src(each(2)).nest([dst(chain).create()])]);
    assert_eq!(abort(&mut vm, &elements), AbortCause::WorkLimit);
}

/// Builds a tree as deep as a program's length allows, serializes, copies and frees it.
#[test]
fn deep_states_do_not_exhaust_the_stack() {
    let chain = (0..16_000).fold(here(), |path, _| path.field(1));
    let mut vm = vm([
        dst(chain).create().nest([src(field(1)).nest([set()])]),
        src(field(2)).level(SKIP).nest([del()]),
    ]);
    vm.apply(&varint(1, 7)).unwrap();
    let state = vm.state();
    assert!(state.len() > 5 * 15_900);
    let copy = vm.clone();
    vm.apply(&message![varint(1, 8), varint(2, 0)]).unwrap();
    assert_eq!(vm.state_memory_bytes(), 0);
    assert_eq!(copy.state(), state);
}

/// Nests instructions and iterations as deeply as possible, in a thread with little stack. A debug
/// build needs 320 KiB, a release build 64.
#[test]
fn deepest_program_takes_little_stack() {
    let per_instruction = ITERATION_DEPTH_MAX / (INSTRUCTION_DEPTH_MAX - 1);
    let path = (0..per_instruction).fold(here(), |path, _| path.each(1));
    let instruction =
        (1..INSTRUCTION_DEPTH_MAX).fold(set(), |inner, _| src(path.clone()).nest([inner]));
    let patch = (0..ITERATION_DEPTH_MAX).fold(Vec::new(), |inner, _| bytes(1, &inner));
    let run = move || {
        let mut vm = vm([instruction]);
        vm.apply(&patch).unwrap();
        vm.state()
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    let state = thread.spawn(run).unwrap().join().unwrap();
    assert_eq!(state, bytes(1, &bytes(1, b"")));
}

/// A patch nests as deeply as its length allows, and is entered element by element.
#[test]
fn deep_patches_do_not_exhaust_the_stack() {
    let mut patch = Vec::new();
    while patch.len() < 100_000 {
        patch = bytes(1, &patch);
    }
    let chain = (0..16_000).fold(here(), |path, _| path.field(1));
    vm([src(chain).nest([set()])]).apply(&patch).unwrap();
}

#[test]
fn state_beyond_the_limit_is_refused() {
    let program = Program::parse(&[]).unwrap();
    assert!(Vm::with_state(program.clone(), 3, b"\x0a\x01x").is_ok());
    let error = Vm::with_state(program, 2, b"\x0a\x01x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the state has 3 bytes, but the limit is 2; raise the limit"
    );
}
