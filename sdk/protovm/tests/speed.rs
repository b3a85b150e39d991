//! Measures patches, for a state of many entries:
//!
//! ```sh
//! cargo test --release -p tracezero-protovm --test speed -- --ignored --nocapture
//! ```

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod build;

use std::hint::black_box;
use std::time::Instant;

use build::*;
use tracezero_protovm::{Program, Vm};

const ENTRIES: u64 = 10_000;
const PATCHES: usize = 1_000_000;

/// An element of about 100 bytes with this key.
fn element(key: u64) -> Vec<u8> {
    message![
        varint(1, key),
        varint(2, key * 7),
        fixed32(3, 32),
        fixed64(4, 64),
        bytes(5, &[b'x'; 70]),
    ]
}

fn measure(name: &str, vm: &mut Vm, patches: &[Vec<u8>]) {
    let begin = Instant::now();
    for patch in patches.iter().cycle().take(PATCHES) {
        vm.apply(black_box(patch)).unwrap();
    }
    let each = begin.elapsed() / PATCHES as u32;
    let patch_bytes = patches[0].len();
    println!("{name}: {each:?} for a patch of {patch_bytes} bytes");
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn patches_of_a_large_state() {
    let program = Program::parse(&standard_program()).unwrap();
    let mut vm = Vm::new(program, 1 << 26);
    // In a random order, so that the entries of the state are not in the order of their patches.
    let mut keys: Vec<u64> = (0..ENTRIES).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut keys);
    let patches = |field: u32| -> Vec<Vec<u8>> {
        let patch = |key: &u64| bytes(field, &element(*key));
        keys.iter().map(patch).collect()
    };
    measure("merge", &mut vm, &patches(2));
    measure("set", &mut vm, &patches(3));
    measure("merge again", &mut vm, &patches(2));
    let deletes: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| message![varint(1, *key), bytes(3, &element(*key))])
        .collect();
    measure("delete and set", &mut vm, &deletes);

    let begin = Instant::now();
    let state = vm.state();
    println!("state of {} bytes: {:?}", state.len(), begin.elapsed());
}
