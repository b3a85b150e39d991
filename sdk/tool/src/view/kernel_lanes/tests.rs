//! Two threads on two cores: one writes to a slow disk and holds a lock, the other one waits for it.

use std::path::Path;

use protozero::{HeapBuffered, Writer as _};
use tracezero_core::protos::{Trace, TracePacket, track_event};
use tracezero_kernel::protos::{FtraceEventBundle, KernelPacket, ProcessTree};

use super::*;
use crate::packets::DamageLog;
use crate::view::columns::decoding::Columns;
use crate::view::encode::Encoder;
use crate::view::load::{self, Loader};
use crate::view::timeline::Timeline;
use crate::view::window::Window;

const IDLE: i32 = 0;
const HOLDER: i32 = 11;
const WAITER: i32 = 12;
const OTHER: i32 = 20;

/// The kernel's letters for states, as bits.
const RUNNABLE: i64 = 0;
const SLEEPING: i64 = 1;
const BLOCKED: i64 = 2;

/// An event of the kernel: the core, the time, and the thread that ran.
#[derive(Clone, Copy)]
enum Line {
    /// A thread leaves a core in a state, for another one.
    Switch(u32, u64, i32, i64, i32),
    /// A thread wakes another one.
    Waking(u32, u64, i32, i32),
    /// A thread enters a system call.
    Enter(u32, u64, i32, i64, [u64; 3]),
    /// A thread leaves a system call.
    Exit(u32, u64, i32),
    /// Events of a core were lost before its next one.
    Lost(u32),
}

use Line::{Enter, Exit, Lost, Switch, Waking};

const FSYNC: i64 = 74;
const FUTEX: i64 = 202;

const LINES: &[Line] = &[
    Switch(0, 900, IDLE, RUNNABLE, HOLDER),
    Enter(0, 3000, HOLDER, FSYNC, [0; 3]),
    Switch(0, 3000, HOLDER, BLOCKED, OTHER),
    Switch(1, 2000, IDLE, RUNNABLE, WAITER),
    Enter(1, 2500, WAITER, FUTEX, [0x7f00, 128, 2]),
    Switch(1, 2600, WAITER, SLEEPING, IDLE),
    Waking(0, 8000, OTHER, HOLDER),
    Switch(0, 9000, OTHER, RUNNABLE, HOLDER),
    Exit(0, 9000, HOLDER),
    Waking(0, 11_000, HOLDER, WAITER),
    Switch(1, 12_000, IDLE, RUNNABLE, WAITER),
    Exit(1, 12_000, WAITER),
    Switch(0, 13_000, HOLDER, SLEEPING, IDLE),
    Lost(1),
    Switch(1, 14_000, OTHER, SLEEPING, IDLE),
];

fn append(trace: &mut Trace<'_>, line: Line) {
    let (cpu, lost) = match line {
        Lost(cpu) => (cpu, true),
        Switch(cpu, ..) | Waking(cpu, ..) | Enter(cpu, ..) | Exit(cpu, ..) => (cpu, false),
    };
    trace.add_packet(|packet| {
        bundle(packet, |bundle| {
            bundle.set_cpu(cpu);
            if lost {
                bundle.set_lost_events(true);
                return;
            }
            bundle.add_event(|event| match line {
                Switch(_, time_ns, prev, state, next) => {
                    event.set_timestamp(time_ns).set_pid(prev as u32);
                    event.sched_switch(|switch| {
                        switch.set_prev_pid(prev).set_prev_state(state);
                        switch.set_next_pid(next);
                    });
                }
                Waking(_, time_ns, waker, tid) => {
                    event.set_timestamp(time_ns).set_pid(waker as u32);
                    event.sched_waking(|waking| {
                        waking.set_pid(tid).set_target_cpu(cpu as i32);
                    });
                }
                Enter(_, time_ns, tid, number, args) => {
                    event.set_timestamp(time_ns).set_pid(tid as u32);
                    event.sys_enter(|call| {
                        call.set_id(number);
                        for arg in args {
                            call.add_args(arg);
                        }
                    });
                }
                Exit(_, time_ns, tid) => {
                    event.set_timestamp(time_ns).set_pid(tid as u32);
                    event.sys_exit(|_| {});
                }
                Lost(_) => {}
            });
        });
    });
}

fn bundle(packet: &mut TracePacket<'_>, write: impl FnOnce(&mut FtraceEventBundle<'_>)) {
    let message = packet.as_message_mut();
    let message = message.begin_nested::<{ KernelPacket::FTRACE_EVENTS_FIELD_NUMBER }>();
    write(&mut FtraceEventBundle::from_message(message));
}

/// Writes what is known of the machine and its processes.
fn describe(trace: &mut Trace<'_>) {
    trace.add_packet(|packet| {
        packet.system_info(|info| {
            info.utsname(|names| {
                names.set_release("6.1.0").set_machine("x86_64");
            });
        });
    });
    trace.add_packet(|packet| {
        let message = packet.as_message_mut();
        let message = message.begin_nested::<{ KernelPacket::PROCESS_TREE_FIELD_NUMBER }>();
        let mut tree = ProcessTree::from_message(message);
        for (pid, name) in [(10, "/usr/bin/shop"), (OTHER, "other")] {
            tree.add_processes(|process| {
                process.set_pid(pid).add_cmdline(name);
            });
        }
        for (tid, pid, name) in [
            (HOLDER, 10, "holder"),
            (WAITER, 10, "waiter"),
            (OTHER, OTHER, "other"),
        ] {
            tree.add_threads(|thread| {
                thread.set_tid(tid).set_tgid(pid).set_name(name);
            });
        }
    });
}

/// Writes a span of each thread of the shop. The first one begins at 1000.
fn spans(trace: &mut Trace<'_>) {
    for (uuid, tid) in [(1, HOLDER), (2, WAITER)] {
        trace.add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(1);
            packet.set_sequence_flags(u32::from(uuid == 1));
            packet.track_descriptor(|track| {
                track.set_uuid(uuid);
                track.thread(|thread| {
                    thread.set_pid(10).set_tid(tid);
                });
            });
        });
    }
    for (uuid, time_ns, kind) in [
        (1, 1000, track_event::Type::SLICE_BEGIN),
        (2, 2100, track_event::Type::SLICE_BEGIN),
        (2, 12_500, track_event::Type::SLICE_END),
        (1, 12_600, track_event::Type::SLICE_END),
    ] {
        trace.add_packet(|packet| {
            packet.set_timestamp(time_ns);
            packet.set_trusted_packet_sequence_id(1);
            packet.track_event(|event| {
                event.set_type(kind).set_track_uuid(uuid).set_name("span");
            });
        });
    }
}

fn trace(write: &[&dyn Fn(&mut Trace<'_>)]) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    for write in write {
        write(&mut trace);
    }
    drop(trace);
    buffer.to_vec()
}

fn append_all(trace: &mut Trace<'_>) {
    for line in LINES {
        append(trace, *line);
    }
}

fn timeline_of(trace: &[u8], window: Option<Window>) -> Timeline {
    let timeline = Timeline::new("t".to_owned(), 0, 1000);
    let mut damages = DamageLog::new(Path::new("t"));
    let loaded = Loader::new(timeline, window).load(trace, &mut damages);
    loaded.unwrap()
}

fn shop() -> Timeline {
    timeline_of(&trace(&[&describe, &spans, &append_all]), None)
}

/// The lanes of a timeline, and its strings.
fn lanes(timeline: &mut Timeline, shown: Range<u64>, pieces_max: u64) -> KernelLanes {
    let half = timeline.kernel.take().unwrap();
    KernelLanes::with_limit(&half, shown, &mut timeline.strings, pieces_max)
}

/// The name of a thread, by its number in the page.
fn name<'t>(lanes: &KernelLanes, timeline: &'t Timeline, number: u64) -> &'t str {
    let id = lanes.threads.threads[number as usize].name;
    timeline.strings.iter().nth(id.0 as usize).unwrap()
}

#[test]
fn cores_have_the_threads_that_ran_without_idle_ones() {
    let mut timeline = shop();
    let lanes = lanes(&mut timeline, 1000..14_000, PIECES_MAX);
    let pieces = |core: usize| {
        let pieces = lanes.cores[core].pieces.iter();
        let pieces = pieces.map(|it| {
            let thread = it.thread.checked_sub(1);
            let thread = thread.map_or("", |number| name(&lanes, &timeline, number));
            (it.begin_ns, it.end_ns, thread, it.after)
        });
        pieces.collect::<Vec<_>>()
    };
    assert_eq!(
        pieces(0),
        [
            (1000, 3000, "holder", 1 + 4),
            (3000, 9000, "other", 1 + 1),
            // It slept, but what the other core did meanwhile is lost.
            (9000, 13_000, "holder", 1 + 13),
        ]
    );
    assert_eq!(
        pieces(1),
        [
            (1000, 2000, "", 0),
            (2000, 2600, "waiter", 1 + 3),
            (12_000, 14_000, "", 0),
        ]
    );
}

#[test]
fn strips_have_states_with_calls_and_wakers() {
    let mut timeline = shop();
    let lanes = lanes(&mut timeline, 1000..14_000, PIECES_MAX);
    let text = |id: StringId| timeline.strings.iter().nth(id.0 as usize).unwrap();
    let pieces = |strip: usize| {
        let pieces = lanes.strips[strip].pieces.iter();
        let pieces = pieces.map(|it| {
            let waker = it.waker.checked_sub(2);
            let waker = waker.map_or("", |number| name(&lanes, &timeline, number));
            (
                it.begin_ns,
                it.end_ns,
                it.state,
                it.core,
                text(it.call),
                waker,
            )
        });
        pieces.collect::<Vec<_>>()
    };
    assert_eq!(lanes.tracks.len(), 2);
    assert_eq!(
        pieces(0)[..4],
        [
            (1000, 3000, 0, 1, "", ""),
            (3000, 8000, 4, 0, "fsync", "other"),
            (8000, 9000, 1, 1, "", ""),
            (9000, 13_000, 0, 1, "", ""),
        ]
    );
    assert_eq!(
        pieces(1)[..3],
        [
            (2000, 2600, 0, 2, "", ""),
            (2600, 11_000, 3, 0, "futex 0x7f00", "holder"),
            (11_000, 12_000, 1, 1, "", ""),
        ]
    );
    let last = pieces(1)[3];
    assert_eq!((last.0, last.2), (12_000, 13), "the core lost events");
}

#[test]
fn columns_are_as_the_module_docs_describe() {
    let mut timeline = shop();
    let lanes = lanes(&mut timeline, 1000..14_000, PIECES_MAX);
    let mut bytes = Vec::new();
    lanes.write(|time_ns| time_ns - 1000, &mut bytes).unwrap();
    let mut columns = Columns(&bytes);
    assert_eq!(columns.varint(), 0, "nothing is merged");
    assert_eq!(columns.list().len(), 3, "names");
    assert_eq!(columns.column(3).len(), 3, "processes");
    assert_eq!(columns.column(3), [11, 12, 20], "tids");
    assert_eq!(columns.column(3), [11, 11, 21], "pids, and 1 more");
    assert_eq!(columns.list(), [0, 2], "tracks, as differences");
    assert_eq!(columns.column(2), [0, 1], "strips");

    assert_eq!(columns.list(), [0, 1], "cores");
    assert_eq!(columns.column(2), [3, 3], "pieces");
    assert_eq!(columns.column(6), [0, 0, 0, 0, 0, 9400], "begins");
    let durations = [2000, 6000, 4000, 1000, 600, 2000];
    assert_eq!(columns.column(6), durations);
    assert_eq!(columns.column(6), [1, 3, 1, 0, 2, 0], "threads");
    assert_eq!(columns.column(6), [5, 2, 14, 0, 4, 0], "states afterwards");

    assert_eq!(columns.list(), [0, 1], "threads of strips");
    let counts = columns.column(2);
    let count = counts.iter().sum();
    assert_eq!(columns.column(count)[0], 0, "begins");
    for column in ["durations", "states", "cores", "calls", "wakers"] {
        assert_eq!(columns.column(count).len() as u64, count, "{column}");
    }
    assert!(columns.0.is_empty());
}

#[test]
fn pieces_are_merged_until_they_fit() {
    let busy = |trace: &mut Trace<'_>| {
        for number in 0..1000 {
            let begin_ns = 1000 + number * 100;
            append(trace, Switch(0, begin_ns, IDLE, RUNNABLE, HOLDER));
            append(trace, Switch(0, begin_ns + 50, HOLDER, SLEEPING, IDLE));
            append(trace, Waking(0, begin_ns + 90, IDLE, HOLDER));
        }
    };
    let bytes = trace(&[&describe, &spans, &busy]);
    let mut timeline = timeline_of(&bytes, None);
    let all = lanes(&mut timeline, 1000..101_000, PIECES_MAX);
    assert_eq!((all.merged, all.merged_text()), (0, String::new()));

    let mut timeline = timeline_of(&bytes, None);
    let lanes = lanes(&mut timeline, 1000..101_000, 200);
    assert!(
        (50..=200).contains(&lanes.piece_count()),
        "{}",
        lanes.piece_count()
    );
    let text = lanes.merged_text();
    assert!(text.contains("each shorter than 1.00 µs"), "{text}");
    let core = &lanes.cores[0].pieces;
    let half_busy = core
        .iter()
        .filter(|it| it.after == MERGED + 9 || it.after == MERGED + 8);
    assert!(half_busy.count() * 2 > core.len());
    let running = lanes.strips[0].pieces.iter();
    let running = running.filter(|it| it.state == MERGED);
    assert!(running.count() * 2 > lanes.strips[0].pieces.len());
}

#[test]
fn kernel_is_clipped_to_window_and_begins_with_first_event() {
    let bytes = trace(&[&describe, &spans, &append_all]);
    let whole = Encoder::new(timeline_of(&bytes, None));
    assert_eq!(whole.bounds(), (1000, 14_000));
    let window = Window::new(2000, 5000);
    let part = Encoder::new(timeline_of(&bytes, Some(window)));
    assert_eq!(part.bounds(), (1000, 12_600), "those of slices");
    let timeline = timeline_of(&bytes, Some(Window::new(2000, 5000)));
    assert_eq!(timeline.kernel.unwrap().range, 2000..5000);
}

#[test]
fn trace_without_events_shows_the_whole_kernel() {
    let encoder = Encoder::new(timeline_of(&trace(&[&describe, &append_all]), None));
    assert_eq!(encoder.bounds(), (900, 14_000));
    assert_eq!(encoder.event_count(), 0);
    assert!(encoder.piece_count() > 0);
}

#[test]
fn options_count_from_the_first_event_or_that_of_the_kernel() {
    let range = |trace: &[u8]| load::time_range(trace).unwrap();
    let both = trace(&[&describe, &spans, &append_all]);
    assert_eq!(range(&both), Some(1000..=14_000));
    let kernel = trace(&[&describe, &append_all]);
    assert_eq!(range(&kernel), Some(900..=14_000));
}

#[test]
fn traces_without_switches_have_no_kernel_columns() {
    let wakings = |trace: &mut Trace<'_>| append(trace, Waking(0, 5000, OTHER, HOLDER));
    let encoded = |bytes: &[u8]| {
        let mut out = Vec::new();
        let mut timeline = timeline_of(bytes, None);
        assert!(timeline.kernel.is_none());
        timeline.file_bytes = 0;
        Encoder::new(timeline).write(&mut out).unwrap();
        out
    };
    let without = encoded(&trace(&[&spans]));
    assert_eq!(encoded(&trace(&[&describe, &spans, &wakings])), without);
}

#[test]
fn threads_unknown_to_the_kernel_are_noted() {
    let other = |trace: &mut Trace<'_>| append(trace, Switch(0, 5000, OTHER, SLEEPING, IDLE));
    let timeline = timeline_of(&trace(&[&spans, &other]), None);
    assert!(timeline.kernel.unwrap().threads.is_empty());
    let notes = timeline.notes.concat();
    assert!(notes.contains("no events of 2 threads"), "{notes}");
}

#[test]
fn random_bytes_in_the_kernels_half_yield_a_page() {
    let good = trace(&[&describe, &spans, &append_all]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut with_kernel = 0;
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let place = (random >> 8) as usize % bytes.len();
            bytes[place] ^= 1 << (random & 7);
        }
        let window = (random & 0x100 != 0).then(|| Window::new(random % 4000, 9000));
        let timeline = Timeline::new("t".to_owned(), 0, 1000);
        let mut damages = DamageLog::new(Path::new("t"));
        let loaded = Loader::new(timeline, window).load(&bytes[..], &mut damages);
        let Ok(mut timeline) = loaded else { continue };
        if let Some(half) = &timeline.kernel {
            let shown = random % 20_000..random % 40_000;
            KernelLanes::with_limit(half, shown, &mut timeline.strings, random % 8);
            with_kernel += 1;
        }
        Encoder::new(timeline).write(&mut std::io::sink()).unwrap();
    }
    assert!(with_kernel > 1000, "{with_kernel}");
}
