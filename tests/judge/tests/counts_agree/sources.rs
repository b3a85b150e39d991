//! Counts agree on packets of data sources, with and without track events beside them.

use std::time::Duration;

use support::alone;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::protos::track_event::Type;
use tracezero::{DataSource, InMemorySession, TraceConfig, data_source, instant, span};

use self::schema::TracePacketExt as _;
use crate::agreement::{agreed, recorded};
use crate::numbers::Numbers;

mod schema {
    protozero::include_protos!("render");
}

struct Packets;
data_source!(Packets, "com.example.packets");

fn write_frame(number: u32) {
    Packets::trace(|cx| {
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.frame(|frame| {
                frame.set_number(number);
            });
        });
    });
}

#[test]
fn counts_agree_on_custom_packets_beside_track_events() {
    let judged = recorded("own schema", || {
        for number in 0..100 {
            let _span = span!("counts", "frame", number);
            write_frame(number);
        }
    });
    assert_eq!((judged.events, judged.data_packets), (200, 100));
}

#[test]
fn counts_agree_on_packets_without_events() {
    let judged = recorded("packets alone", || (0..10).for_each(write_frame));
    assert_eq!((judged.events, judged.data_packets), (0, 10));
}

#[test]
fn counts_agree_on_packets_with_incremental_state() {
    let judged = recorded("incremental", || {
        for _ in 0..100 {
            Numbers::write();
        }
    });
    assert_eq!((judged.data_packets, judged.undecodable), (100, 0));
}

#[test]
fn counts_agree_on_lapped_incremental_state() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(tracezero::BufferConfig::ring(16))
        .record_all()
        .incremental_state_clear_period(Duration::from_millis(1))
        .record_in_memory()
        .unwrap();
    for _ in 0..20_000 {
        Numbers::write();
        instant!("counts", "between");
    }
    let (trace, report) = session.finish();
    assert!(report.losses.overwritten > 0, "{report}");
    let judged = agreed("incremental lapped", &trace, Some(&report));
    assert!(judged.data_packets > 0, "{judged:?}");
}

#[test]
fn counts_agree_on_empty_and_metadata_packets() {
    let judged = recorded("descriptions", || {
        Packets::trace(|cx| {
            cx.packet(|_| ());
            cx.packet(|packet| {
                packet.set_timestamp(1);
            });
            cx.packet(|packet| {
                packet.set_sequence_flags(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32);
                packet.interned_data(|interned| {
                    interned.add_event_names(|name| {
                        name.set_iid(1).set_name("interned");
                    });
                });
            });
            cx.packet(|packet| {
                packet.track_descriptor(|track| {
                    track.set_uuid(77).set_name("described");
                });
            });
            cx.packet(|packet| {
                packet.trace_packet_defaults(|defaults| {
                    defaults.set_timestamp_clock_id(6);
                });
            });
        });
    });
    assert_eq!((judged.events, judged.data_packets), (0, 0));
}

#[test]
fn counts_agree_on_events_with_other_content() {
    let judged = recorded("events of sources", || {
        Packets::trace(|cx| {
            let now = cx.now_ns();
            for (number, kind) in [Type::INSTANT, Type::SLICE_BEGIN, Type::SLICE_END]
                .into_iter()
                .enumerate()
            {
                cx.packet(|packet| {
                    packet.set_timestamp(now + number as u64);
                    packet.frame(|frame| {
                        frame.set_number(1);
                    });
                    packet.track_event(|event| {
                        event
                            .set_type(kind)
                            .set_track_uuid(0)
                            .set_name("of a source");
                    });
                });
            }
        });
    });
    assert_eq!((judged.events, judged.data_packets), (3, 0));
}

#[test]
fn counts_agree_on_source_in_two_sessions() {
    let _guard = alone();
    let both = InMemorySession::start().unwrap();
    let numbers = TraceConfig::empty()
        .add_buffer(tracezero::BufferConfig::ring(256))
        .add_data_source(tracezero::DataSourceConfig::new("com.example.numbers"))
        .record_in_memory()
        .unwrap();
    for number in 0..20 {
        Numbers::write();
        write_frame(number);
        instant!("counts", "event");
    }
    let (trace, report) = numbers.finish();
    let judged = agreed("numbers alone", &trace, Some(&report));
    assert_eq!((judged.events, judged.data_packets), (0, 20));
    let (trace, report) = both.finish();
    let judged = agreed("numbers and others", &trace, Some(&report));
    assert_eq!((judged.events, judged.data_packets), (20, 40));
}
