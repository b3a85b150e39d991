//! Measures what a commit to the trace buffer costs, by the size of the buffer and the number of
//! sequences, compared with a plain copy of the same bytes to the same places.
//!
//! Prints a table. Rounds of commits and rounds of plain copies take turns, so that other load on
//! the machine slows both; each figure is the time of the fastest round. Arguments choose the size
//! and the numbers of sequences:
//!
//! ```sh
//! cargo bench -p tracezero-benches --bench trace_buffer_scale                # all
//! cargo bench -p tracezero-benches --bench trace_buffer_scale -- 64 1 65000  # 64 MiB, with 1 and with 65,000 sequences
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use tracezero_core::shm::layout::ChunkFlags;

mod chunks;

use chunks::{CREDITED_BYTES, PlainCopy, Sequence, TEMPLATES, Template, ring};

const SIZES_MIB: [usize; 6] = [1, 4, 16, 64, 256, 1024];
const SEQUENCES: [u32; 3] = [1, 1000, 65_000];

/// The number of commits of a round. Small, so that some rounds run undisturbed; ten rounds give
/// every sequence its turn.
const COMMITS: usize = 6500;
const ROUNDS: usize = 500;
/// An upper bound of the number of chunks per MiB.
const CHUNKS_PER_MIB: usize = (1 << 20) / 2048;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Run as a test: one round, whose time does not matter.
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let mut numbers = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok());
    let sizes_mib = match numbers.next() {
        Some(size_mib) => vec![size_mib as usize],
        None if is_test => vec![1],
        None => SIZES_MIB.to_vec(),
    };
    let mut sequences: Vec<u32> = numbers.collect();
    if sequences.is_empty() {
        sequences.extend(SEQUENCES);
    }
    let templates = Template::generate();
    let stored_bytes: usize = templates
        .iter()
        .map(|template| template.payload.len())
        .sum();
    println!(
        "Each commit copies {} bytes and is credited with {CREDITED_BYTES}.\n",
        stored_bytes / TEMPLATES
    );
    println!("| size | sequences | commit | plain copy | ratio | commit, credited |");
    println!("|---|---|---|---|---|---|");
    for size_mib in sizes_mib {
        for &sequences in &sequences {
            let rounds = if is_test { 1 } else { ROUNDS };
            let Cost { commit, plain_copy } = measure(&templates, size_mib, sequences, rounds);
            println!(
                "| {size_mib} MiB | {sequences} | {:.0} ns | {:.0} ns | {:.2} | {:.1} GiB/s |",
                nanoseconds_each(commit),
                nanoseconds_each(plain_copy),
                plain_copy.as_secs_f64() / commit.as_secs_f64(),
                (COMMITS * CREDITED_BYTES) as f64 / commit.as_secs_f64() / f64::from(1 << 30),
            );
        }
    }
}

fn nanoseconds_each(round: Duration) -> f64 {
    round.as_secs_f64() * 1e9 / COMMITS as f64
}

/// The times of the fastest rounds.
struct Cost {
    commit: Duration,
    plain_copy: Duration,
}

fn measure(templates: &[Template], size_mib: usize, sequences: u32, rounds: usize) -> Cost {
    let mut buffer = ring(size_mib << 20);
    let mut plain_copy = PlainCopy::new(size_mib << 20);
    let mut writers: Vec<_> = (0..sequences).map(Sequence::new).collect();
    let mut turns = templates.iter().cycle();
    let mut writer = 0;
    let mut commit = |templates: &mut dyn Iterator<Item = &Template>| {
        for template in templates {
            writers[writer].commit(template, ChunkFlags::default(), &mut buffer);
            writer = if writer + 1 < writers.len() {
                writer + 1
            } else {
                0
            };
        }
    };
    // Fills the ring once and uses all writers, so that one-time work is not measured.
    commit(
        &mut turns
            .by_ref()
            .take((size_mib * CHUNKS_PER_MIB).max(COMMITS)),
    );

    let mut cost = Cost {
        commit: Duration::MAX,
        plain_copy: Duration::MAX,
    };
    for _ in 0..rounds {
        let started = Instant::now();
        commit(&mut turns.by_ref().take(COMMITS));
        cost.commit = cost.commit.min(started.elapsed());

        let started = Instant::now();
        for template in turns.by_ref().take(COMMITS) {
            plain_copy.copy(template);
        }
        cost.plain_copy = cost.plain_copy.min(started.elapsed());
    }
    black_box(plain_copy);
    assert!(buffer.storage_balance().is_even());
    cost
}
