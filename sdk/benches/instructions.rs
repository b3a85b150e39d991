//! Counts the instructions of recording. The module `callgrind` describes how.
//!
//! ```sh
//! cargo bench -p tracezero --bench instructions
//! ```
//!
//! With `TRACEZERO_SYSTEM=1`, a daemon records. It must already run, and have a session with the
//! events of the category `bench` and the packets: `ci/instructions.sh` starts both.

#[path = "../../protozero/benches/callgrind/mod.rs"]
mod callgrind;

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracezero::{
    BufferConfig, DataSource, DataSourceConfig, TraceConfig, TrackEventConfig, data_source,
    enabled, instant, span,
};
use tracezero_core::commit::{CommitRequest, LossCount, ServiceEndpoint};
use tracezero_core::ids::{BufferId, WriterId};
use tracezero_core::shm::{Geometry, PageLayout, shared_memory};
use tracezero_producer::{Arbiter, ArbiterConfig, BufferExhaustedPolicy, TraceWriter};

/// The values that are written. The compiler does not know them.
struct Values {
    timestamp_ns: u64,
    number: u32,
    address: u64,
    text: String,
    packet: Vec<u8>,
}

impl Values {
    fn new() -> Self {
        Self {
            timestamp_ns: 42,
            number: 7,
            address: 0x7fff_1234_5678,
            text: "sixteen bytes ..".to_owned(),
            packet: vec![8; 12],
        }
    }
}

struct Packets;
data_source!(Packets, "com.example.packets");

/// An event whose category the session disables.
#[inline]
fn disabled_event() {
    instant!("off", "event");
}

#[inline]
fn record_instant() {
    instant!("bench", "instant");
}

#[inline]
fn record_span() {
    let _span = span!("bench", "span");
}

#[inline]
fn record_span_3_args(v: &Values) {
    let _span = span!(
        "bench",
        "3 args",
        number = v.number,
        size = v.timestamp_ns,
        text = v.text
    );
}

#[inline]
fn record_span_large_numbers(v: &Values) {
    let _span = span!("bench", "large", address = v.address, difference = -1);
}

callgrind::subjects! {
    |w: &mut TraceWriter, v: &Values|
    disabled_event: 4, disabled_event();
    write_packet: 43, w.write_packet(&v.packet);
    packet: 92, w.packet(|packet| packet.append_uint32::<1>(v.number));
    // A nested message in a packet.
    nested: 28 - packet, w.packet(|packet| packet.begin_nested::<2>().append_uint32::<1>(v.number));
    // A packet with a timestamp and a nested message that holds a text of 16 bytes.
    trace_packet: 149, w.trace_packet(|packet| {
        packet.set_timestamp(v.timestamp_ns);
        packet.for_testing(|event| {
            event.set_str(&v.text);
        });
    });
    // The packet above, from a trace point with the thread's writer.
    data_source_packet: 223, Packets::trace(|cx| cx.packet(|packet| {
        packet.set_timestamp(v.timestamp_ns);
        packet.for_testing(|event| {
            event.set_str(&v.text);
        });
    }));
    // Includes reading the clock, which is a system call here. The slow clock also makes the times
    // between events longer, so timestamps take more bytes.
    instant: 193, record_instant();
    span: 408, record_span();
    span_3_args: 526, record_span_3_args(v);
    span_large_numbers: 610, record_span_large_numbers(v);
    // Includes the work at the end of each chunk that the events fill.
    thousand_instants: 229_000, (0..1000).for_each(|_| record_instant());
}

/// A service that ignores commits.
struct Idle;

impl ServiceEndpoint for Idle {
    fn commit(&self, _: &CommitRequest) {}
    fn register_writer(&self, _: WriterId, _: BufferId, _: &Arc<LossCount>) {}
    fn unregister_writer(&self, _: WriterId) {}
}

/// The number of events before the measurement: more than the first chunk of a thread holds, and
/// fewer than the second.
const WARM_UP_EVENTS: u32 = 100;

/// How often the program looks whether the daemon records it.
const DAEMON_PERIOD: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let values = black_box(Values::new());
    callgrind::main(SUBJECTS, |record| {
        let events = TrackEventConfig::new().disable("off");
        let config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(DataSourceConfig::new(<Packets as DataSource>::NAME))
            .add_data_source(DataSourceConfig::new("track_event").track_event(&events));
        // `ci/instructions.sh` compares the counts with and without crash files.
        let config = match env::var_os("TRACEZERO_CRASH_SAFE") {
            Some(_) => config.crash_safe(),
            None => config,
        };
        // The environment connects the process to the daemon.
        let by_daemon = env::var_os("TRACEZERO_SYSTEM").is_some();
        let session = (!by_daemon).then(|| config.record_in_memory().expect("a session"));
        if by_daemon {
            Packets::register();
            while !(enabled!("bench") && Packets::is_enabled()) {
                thread::sleep(DAEMON_PERIOD);
            }
        }
        let geometry = Geometry::new(4096, 4096).expect("one page");
        let (memory, _service) = shared_memory(geometry).expect("a page");
        // The packets fit into one chunk, and the service never takes this chunk.
        let config = ArbiterConfig {
            page_layout: Some(PageLayout::One),
            ..ArbiterConfig::default()
        };
        let arbiter = Arbiter::new(memory, Arc::new(Idle), config);
        let mut writer = TraceWriter::new(&arbiter, BufferId(1), BufferExhaustedPolicy::Drop);
        // Does all one-time work first: call sites register, the writer gets chunks.
        writer.write_packet(&values.packet);
        disabled_event();
        // After a full chunk, a thread gets a longer one. The measured events do not reach its end.
        (0..WARM_UP_EVENTS).for_each(|_| record_instant());
        record_span();
        record_span_3_args(&values);
        record_span_large_numbers(&values);
        Packets::trace(|cx| cx.packet(|_| ()));
        record(&mut writer, &values);
        drop(session);
    })
}
