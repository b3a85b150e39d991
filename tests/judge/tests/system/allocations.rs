//! Recording for a daemon allocates nothing.

#[path = "../../../no_allocation/forms.rs"]
mod forms;

use support::allocations_of;
use tracezero::{DataSource as _, data_source, enabled};

use self::forms::{FORMS, OF_TRACKS, record_forms};
use self::render::TracePacketExt as _;
use crate::machine::{Machine, wait_until};
use crate::programs::{say, wait_for_line};

mod render {
    protozero::include_protos!("render");
}

struct Frames;
data_source!(Frames, "com.example.frames");

/// A program that records as many events as possible finds no free chunk after a while. The queues
/// of the connection are then as long as they get.
const WARM_UP_ROUNDS: u32 = 20_000;
const ROUNDS: u32 = 20_000;
const TRACK_ROUNDS: u32 = 2_000;

/// The smallest memory, so that all of it is in use soon. A ring that overwrites.
const CONFIG: &str = r#"
    buffers { size_kb: 256 }
    data_sources { config { name: "track_event" } }
    data_sources { config { name: "com.example.frames" } }
    producers { producer_name: "small" shm_size_kb: 32 page_size_kb: 4 }
"#;

/// The program: says how often each form of event allocates.
pub fn counts_allocations() {
    Frames::register();
    wait_until(|| enabled!("test") && Frames::is_enabled());
    for round in 0..WARM_UP_ROUNDS {
        record_forms(round);
        record_frame(round);
    }
    OF_TRACKS
        .iter()
        .for_each(|(_, record, _)| (0..TRACK_ROUNDS).for_each(record));
    let forms = FORMS.map(|(_, record)| allocations_of(|| (0..ROUNDS).for_each(record)));
    let tracks =
        OF_TRACKS.map(|(_, record, _)| allocations_of(|| (0..TRACK_ROUNDS).for_each(record)));
    let frames = allocations_of(|| (0..TRACK_ROUNDS).for_each(record_frame));
    let counts = forms.iter().chain(&tracks).chain([&frames]);
    let counts: Vec<String> = counts.map(u64::to_string).collect();
    say(&counts.join(" "));
    wait_for_line();
}

/// Writes a packet that is longer than a chunk, so that its lengths are sent as patches.
fn record_frame(number: u32) {
    Frames::trace(|cx| {
        cx.packet(|packet| {
            packet.frame(|frame| {
                frame.set_number(number);
                for pass in 0..500 {
                    frame.add_passes(|out| {
                        out.set_name("shadows").set_duration_ns(pass);
                    });
                }
            });
        });
    });
}

#[test]
fn no_form_of_event_allocates_while_the_daemon_records() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let recording = machine.record("allocations.pftrace", CONFIG);
    let mut program = machine.program_called("small", "allocations");
    program.wait_for("connected");
    let counts = program.numbers();
    let (frames, counts) = counts.split_last().unwrap();
    let (forms, tracks) = counts.split_at(FORMS.len());
    for ((form, _), count) in FORMS.iter().zip(forms) {
        assert_eq!(*count, 0, "{form}");
    }
    // A track or name that is made for one event is on the heap.
    for ((form, _, per_call), count) in OF_TRACKS.iter().zip(tracks) {
        assert_eq!(*count, per_call * u64::from(TRACK_ROUNDS), "{form}");
    }
    assert_eq!(*frames, 0, "packets that are longer than a chunk");
    recording.finish();
    program.go_on();
    program.wait();
}
