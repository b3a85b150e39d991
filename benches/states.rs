//! Measures what it costs that a ring keeps the state of what it overwrites.
//!
//! A patch is a packet of about 100 bytes that changes one entry of a table of 10,000. `state_patch` is
//! the machine alone. `lapped_ring` is all that a packet costs its thread: writing it, committing its
//! chunk to a ring of 1 MiB that has lapped, and there evicting the oldest chunk: without a state, with
//! a state, and both with the ring in a crash file in memory.

use std::collections::HashSet;
use std::hint::black_box;
use std::{env, fs, process};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use protozero::HeapBuffered;
use tracezero::protos::TracePacket;
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, InMemorySession, TraceConfig, data_source,
};
use tracezero_protovm::{Program, Vm};

use self::schema::{Patch, TABLE_PROGRAM, TracePacketExt as _};

mod schema {
    protozero::include_protos!("connections");
}

struct Connections;
data_source!(
    Connections,
    "com.example.connections",
    protozero::include_descriptor_set!("connections"),
    TABLE_PROGRAM
);

const ENTRIES: u32 = 10_000;
/// A text that makes a patch 100 bytes long.
const PEER: &str =
    "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:443 via a proxy, all of it in 80 bytes ..";

fn set_patch(number: u32, patch: &mut Patch<'_>) {
    // The numbers visit all entries, far apart.
    let id = number.wrapping_mul(7919) % ENTRIES;
    patch.add_changed(|connection| {
        connection
            .set_id(id)
            .set_peer(black_box(PEER))
            .set_sent_bytes(u64::from(number) * 1000);
    });
}

/// Returns a patch for each entry.
fn patches() -> Vec<Vec<u8>> {
    let patch = |number| {
        let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
        let mut packet = buffer.message();
        packet.set_timestamp(1_000_000_000);
        packet.connection_patch(|patch| set_patch(number, patch));
        drop(packet);
        buffer.to_vec()
    };
    (ENTRIES..2 * ENTRIES).map(patch).collect()
}

fn state_patch(criterion: &mut Criterion) {
    let patches = patches();
    let different: HashSet<_> = patches.iter().collect();
    assert_eq!(different.len(), ENTRIES as usize);
    let program = Program::parse(TABLE_PROGRAM).expect("the compiler makes sound programs");
    let mut vm = Vm::new(program, 1 << 26);
    for patch in &patches {
        vm.apply(patch).expect("the limit suffices");
    }
    let mut group = criterion.benchmark_group("state_patch");
    group.throughput(Throughput::Elements(1));
    let mut next = patches.iter().cycle();
    group.bench_function("entries_10000", |bencher| {
        bencher.iter(|| next.next().map(|patch| vm.apply(black_box(patch))));
    });
    println!(
        "a patch of {} bytes, a state of {} bytes that takes {} bytes of memory",
        patches[0].len(),
        vm.state().len(),
        vm.state_memory_bytes()
    );
    group.throughput(Throughput::Elements(u64::from(ENTRIES)));
    group.bench_function("serialize_entries_10000", |bencher| {
        bencher.iter(|| black_box(vm.state()));
    });
    group.finish();
}

fn record(number: u32) {
    Connections::trace(|cx| {
        cx.packet(|packet| {
            packet.set_timestamp(1_000_000_000);
            packet.connection_patch(|patch| set_patch(number, patch));
        });
    });
}

fn lapped(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, session: InMemorySession) {
    let mut number = 0;
    let mut next = || {
        record(number);
        number += 1;
    };
    (0..10 * ENTRIES).for_each(|_| next());
    group.bench_function(name, |bencher| bencher.iter(&mut next));
    let (_, report) = session.finish();
    println!("{name}: {report}");
}

fn lapped_ring(criterion: &mut Criterion) {
    let config = |state_limit_kib: Option<u32>| {
        let source = DataSourceConfig::new("com.example.connections");
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(match state_limit_kib {
                Some(limit_kib) => source.state_limit_kib(limit_kib),
                None => source,
            })
    };
    let directory = env::temp_dir().join(format!("tracezero-bench-{}", process::id()));
    let directory = match fs::exists("/dev/shm") {
        Ok(true) => format!("/dev/shm/tracezero-bench-{}", process::id()).into(),
        _ => directory,
    };
    let start = |config: TraceConfig| config.record_in_memory().expect("a session");
    let mut group = criterion.benchmark_group("lapped_ring");
    group.throughput(Throughput::Elements(1));
    // The first session decides whether the shared memory of the process is in a file.
    let crash_safe = |limit_kib| start(config(limit_kib).crash_safe_in(&directory));
    let limit_kib = Some(16 * 1024);
    lapped(&mut group, "no_state_in_crash_file", crash_safe(None));
    lapped(&mut group, "state_in_crash_file", crash_safe(limit_kib));
    lapped(&mut group, "no_state", start(config(None)));
    lapped(&mut group, "state", start(config(limit_kib)));
    group.finish();
    let _ = fs::remove_dir_all(directory);
}

criterion_group!(benches, state_patch, lapped_ring);
criterion_main!(benches);
