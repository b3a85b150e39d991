//! Events of other producers, in forms that the SDK does not write.

use protozero::HeapBuffered;
use tracezero::CounterValue;
use tracezero::protos::{Trace, TracePacket};
use tracezero::reader::{
    EventKind, InTimeOrder, PacketReader, Record, SkipReason, Slices, TraceReader, check,
};

const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;

/// Writes a trace of packets on sequence 5; the first one clears its incremental state.
fn trace(writes: &[&dyn Fn(&mut TracePacket<'_>)]) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    for (index, write) in writes.iter().enumerate() {
        trace.add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(5);
            let flags = if index == 0 { CLEARED } else { NEEDS_STATE };
            packet.set_sequence_flags(flags);
            write(packet);
        });
    }
    drop(trace);
    buffer.to_vec()
}

/// Returns kind, name, category and time of each event.
fn events(trace: &[u8]) -> Vec<(EventKind, String, String, u64)> {
    let mut reader = TraceReader::new(trace);
    let mut events = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        match record {
            Record::Event(event) => {
                let category = event.names().text(event.head.category).to_owned();
                let name = event.name().to_owned();
                events.push((event.head.kind, name, category, event.head.timestamp_ns));
            }
            Record::Skipped(skipped) => panic!("{}", skipped.reason),
            Record::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    events
}

/// Writes an event in the old form, with fields of `LegacyEvent`, which the SDK's schema does not
/// have.
fn legacy(packet: &mut TracePacket<'_>, time: u64, phase: char, duration_us: Option<u64>) {
    packet.set_timestamp(time);
    packet.track_event(|event| {
        event.set_name("old");
        event.add_categories("cc");
        let mut fields = vec![0x10, phase as u8];
        if let Some(duration_us) = duration_us {
            fields.extend([0x18, u8::try_from(duration_us).expect("a short time")]);
        }
        let message = event.as_message_mut();
        message.append_raw(&[0x32, fields.len() as u8]);
        message.append_raw(&fields);
    });
}

#[test]
fn events_need_neither_ids_nor_clocks_nor_descriptors() {
    let trace = trace(&[&|packet| {
        packet.set_timestamp(1000);
        packet.track_event(|event| {
            event.set_type(tracezero::protos::track_event::Type::INSTANT);
            event.set_name("hello").add_categories("a");
            event.add_categories("b");
        });
    }]);
    let expected = (EventKind::Instant, "hello".to_owned(), "a".to_owned(), 1000);
    assert_eq!(events(&trace), [expected]);
}

#[test]
fn events_of_older_producers_become_slices_and_instants() {
    let trace = trace(&[
        &|packet| legacy(packet, 1000, 'B', None),
        &|packet| legacy(packet, 2000, 'X', Some(3)),
        &|packet| legacy(packet, 3000, 'I', None),
        &|packet| legacy(packet, 9000, 'E', None),
    ]);
    let mut reader = TraceReader::new(&trace[..]);
    let (mut order, mut slices) = (InTimeOrder::new(), Slices::new());
    let mut ended = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Event(event) = record {
            assert_eq!(
                (event.name(), event.names().text(event.head.category)),
                ("old", "cc")
            );
            order.add(&event.head, event.tracks(), |event| {
                slices.add(
                    event,
                    |_| (),
                    |slice| ended.push((slice.depth, slice.duration_ns)),
                );
            });
        }
    }
    order.finish(|event| {
        slices.add(
            event,
            |_| (),
            |slice| ended.push((slice.depth, slice.duration_ns)),
        );
    });
    assert_eq!(ended, [(1, 3000), (0, 8000)]);
}

#[test]
fn other_events_of_older_producers_are_skipped_with_their_kind() {
    let trace = trace(&[&|packet| legacy(packet, 1000, 'b', None)]);
    let mut reader = TraceReader::new(&trace[..]);
    let record = reader.next().expect("it can be read");
    let Some(Record::Skipped(skipped)) = record else {
        panic!("{record:?}")
    };
    assert_eq!(
        skipped.reason,
        SkipReason::LegacyPhase { phase: 'b'.into() }
    );
    assert_eq!(
        skipped.reason.to_string(),
        "legacy events of phase 'b' are not supported"
    );
}

#[test]
fn other_clocks_are_converted_by_the_last_snapshot_before() {
    let snapshot = |packet: &mut TracePacket<'_>, boottime: u64, monotonic: u64| {
        packet.clock_snapshot(|snapshot| {
            for (id, time) in [(BOOTTIME, boottime), (MONOTONIC, monotonic)] {
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(id).set_timestamp(time);
                });
            }
        });
    };
    let event = |packet: &mut TracePacket<'_>, time: u64| {
        packet.set_timestamp(time).set_timestamp_clock_id(MONOTONIC);
        packet.track_event(|event| {
            event.set_type(tracezero::protos::track_event::Type::INSTANT);
        });
    };
    let trace = trace(&[
        &|packet| snapshot(packet, 1000, 100),
        &|packet| snapshot(packet, 2000, 200),
        &|packet| event(packet, 50),
        &|packet| event(packet, 150),
        &|packet| event(packet, 250),
    ]);
    let times: Vec<_> = events(&trace).into_iter().map(|event| event.3).collect();
    assert_eq!(times, [950, 1050, 2050]);
}

#[test]
fn the_clock_of_the_trace_is_the_one_that_a_snapshot_says() {
    let trace = trace(&[
        &|packet| {
            packet.clock_snapshot(|snapshot| {
                for (id, time) in [(BOOTTIME, 1000), (MONOTONIC, 100)] {
                    snapshot.add_clocks(|clock| {
                        clock.set_clock_id(id).set_timestamp(time);
                    });
                }
                snapshot.set_primary_trace_clock(tracezero::protos::BuiltinClock::MONOTONIC);
            });
        },
        &|packet| {
            packet.set_timestamp(1500);
            packet.track_event(|event| {
                event.set_type(tracezero::protos::track_event::Type::INSTANT);
            });
        },
    ]);
    assert_eq!(events(&trace)[0].3, 600);
}

#[test]
fn counters_of_differences_in_larger_units_are_added_up() {
    let value = |packet: &mut TracePacket<'_>, value: i64| {
        packet.set_timestamp(1);
        packet.track_event(|event| {
            event.set_type(tracezero::protos::track_event::Type::COUNTER);
            event.set_track_uuid(9).set_counter_value(value);
        });
    };
    let trace = trace(&[
        &|packet| {
            packet.track_descriptor(|track| {
                track.set_uuid(9).set_name("sent");
                track.counter(|counter| {
                    counter.set_is_incremental(true).set_unit_multiplier(10);
                });
            });
        },
        &|packet| value(packet, 5),
        &|packet| value(packet, -2),
        &|packet| {
            // The clear resets the sum.
            packet.set_sequence_flags(CLEARED);
            value(packet, 7);
        },
    ]);
    let values: Vec<_> = events(&trace).into_iter().map(|event| event.0).collect();
    let expected = [50, 30, 70].map(|value| EventKind::Counter(CounterValue::Int(value)));
    assert_eq!(values, expected);
}

#[test]
fn millions_of_sequences_take_no_more_memory_than_some() {
    // The states of about 130,000 sequences take 64 MiB, the reader's limit.
    let sequences = 250_000_u32;
    let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
    let mut packet = buffer.message();
    packet.set_sequence_flags(CLEARED).set_timestamp(1);
    packet.interned_data(|interned| {
        for iid in 1..=8 {
            interned.add_event_names(|name| {
                name.set_iid(iid).set_name("name");
            });
        }
    });
    packet.track_event(|event| {
        event.set_type(tracezero::protos::track_event::Type::INSTANT);
        event.set_name_iid(1).set_track_uuid(1);
    });
    drop(packet);
    let packet = buffer.to_vec();
    let mut bytes = Vec::new();
    for id in 2..sequences + 2 {
        // The id of the sequence, always as a varint of four bytes.
        let id = protozero::redundant_varint(id);
        bytes.extend([0x0a, u8::try_from(packet.len() + 5).expect("short"), 0x50]);
        bytes.extend(id);
        bytes.extend(&packet);
    }
    let mut reader = TraceReader::new(&bytes[..]);
    let mut events = 0;
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Event(event) = record {
            assert_eq!(event.name(), "name");
            events += 1;
        }
    }
    assert_eq!(events, sequences);
    assert!(reader.forgotten_sequences() > u64::from(sequences) / 4);
}

#[test]
fn too_large_definitions_are_dropped_until_the_next_clear() {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    let event = |packet: &mut TracePacket<'_>, flags| {
        packet.set_trusted_packet_sequence_id(5).set_timestamp(1);
        packet.set_sequence_flags(flags);
        packet.track_event(|event| {
            event.set_type(tracezero::protos::track_event::Type::INSTANT);
            event.set_name_iid(1);
        });
    };
    let define = |packet: &mut TracePacket<'_>, iids: std::ops::RangeInclusive<u64>| {
        packet.interned_data(|interned| {
            for iid in iids {
                interned.add_event_names(|name| {
                    name.set_iid(iid).set_name("name");
                });
            }
        });
    };
    trace.add_packet(|packet| {
        define(packet, 1..=1);
        event(packet, CLEARED);
    });
    trace.add_packet(|packet| event(packet, NEEDS_STATE));
    // 64 MiB, the reader's limit, hold three million definitions.
    for million in 1..=4 {
        trace.add_packet(|packet| {
            packet.set_trusted_packet_sequence_id(5);
            define(packet, million * 1_000_000..=million * 1_000_000 + 999_999);
        });
    }
    trace.add_packet(|packet| event(packet, NEEDS_STATE));
    trace.add_packet(|packet| {
        define(packet, 1..=1);
        event(packet, CLEARED);
    });
    trace.add_packet(|packet| event(packet, NEEDS_STATE));
    drop(trace);
    let bytes = buffer.to_vec();
    let mut reader = TraceReader::new(&bytes[..]);
    let (mut events, mut skipped) = (0, Vec::new());
    while let Some(record) = reader.next().expect("it can be read") {
        match record {
            Record::Event(event) => {
                assert_eq!(event.name(), "name");
                events += 1;
            }
            Record::Skipped(packet) => skipped.push(packet.reason),
            Record::Packet(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((events, skipped), (4, vec![SkipReason::NeedsState]));
    assert_eq!(reader.forgotten_sequences(), 1);
}

#[test]
fn bundles_of_kernel_events_are_packets_like_others() {
    // A bundle of CPU 3 with an event and a timestamp, fields that the SDK's schema does not have.
    let bundle = [0x0a, 6, 0x08, 3, 0x12, 2, 0x08, 9];
    let write = |packet: &mut TracePacket<'_>| packet.as_message_mut().append_raw(&bundle);
    let mut trace = trace(&[&write, &write, &write]);
    let mut reader = TraceReader::new(&trace[..]);
    for _ in 0..3 {
        let Some(Record::Packet(packet)) = reader.next().expect("it can be read") else {
            panic!("a packet")
        };
        let payload = packet.packet.payload().expect("a payload");
        assert_eq!((payload.field, payload.bytes), (1, &bundle[2..]));
    }
    let frame_bytes = trace.len() / 3;
    // The reader continues after damage at this kind of packet, too.
    trace[frame_bytes] = 0xff;
    let mut reader = TraceReader::new(&trace[..]);
    assert!(matches!(reader.next(), Ok(Some(Record::Packet(_)))));
    let Ok(Some(Record::Damage(damage))) = reader.next() else {
        panic!("damage")
    };
    assert_eq!(damage.length_bytes, frame_bytes as u64);
    assert!(matches!(reader.next(), Ok(Some(Record::Packet(_)))));
}

#[test]
fn first_packet_of_any_length_is_not_taken_for_other_format() {
    for len in 1..200_usize {
        let name = "n".repeat(len);
        let trace = trace(&[&|packet| {
            packet.track_descriptor(|track| {
                track.set_uuid(1).set_name(&name);
            });
        }]);
        let read = TraceReader::new(&trace[..])
            .next()
            .map(|record| record.is_some());
        assert!(matches!(read, Ok(true)), "{} bytes: {read:?}", trace.len());
    }
}

#[test]
fn times_that_overflow_are_out_of_range_in_every_unit() {
    let trace = trace(&[
        &|packet| {
            packet.clock_snapshot(|snapshot| {
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(BOOTTIME).set_timestamp(1);
                });
                for id in [64, 128] {
                    snapshot.add_clocks(|clock| {
                        clock.set_clock_id(id).set_timestamp(1);
                        clock.set_unit_multiplier_ns(u64::MAX);
                    });
                }
            });
        },
        &|packet| {
            packet.set_timestamp(u64::MAX).set_timestamp_clock_id(64);
            packet.track_event(|_| {});
        },
        &|packet| {
            packet.set_timestamp(u64::MAX).set_timestamp_clock_id(128);
            packet.track_event(|_| {});
        },
    ]);
    let mut reader = TraceReader::new(&trace[..]);
    let mut reasons = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Skipped(skipped) = record {
            reasons.push(skipped.reason);
        }
    }
    let expected = [64, 128].map(|clock_id| SkipReason::TimeOutOfRange { clock_id });
    assert_eq!(reasons, expected);
}

#[test]
fn a_trace_of_a_producer_that_has_no_service_has_no_errors() {
    let trace = trace(&[
        &|packet| {
            packet.track_descriptor(|track| {
                track.set_uuid(1).set_name("lane");
            });
        },
        &|packet| {
            packet.set_timestamp(10);
            packet.track_event(|event| {
                event.set_type(tracezero::protos::track_event::Type::SLICE_BEGIN);
                event.set_track_uuid(1).set_name("work");
            });
        },
        &|packet| {
            packet.set_timestamp(20);
            packet.track_event(|event| {
                event.set_type(tracezero::protos::track_event::Type::SLICE_END);
                event.set_track_uuid(1);
            });
        },
    ]);
    let mut findings = Vec::new();
    let summary = check(&trace[..], |finding| findings.push(finding.to_string()));
    let summary = summary.expect("it can be read");
    assert_eq!((summary.errors, summary.events), (0, 2), "{findings:?}");
}

#[test]
fn frames_of_packets_are_the_bytes_of_the_file() {
    // Lengths of four bytes and of two, an empty packet, damage.
    let frames: [&[u8]; 3] = [
        &[0x0a, 0x82, 0x80, 0x80, 0x00, 0x40, 1],
        &[0x0a, 0x00],
        &[0x0a, 0x82, 0x00, 0x40, 2],
    ];
    let trace = [&frames.concat()[..], &[0xff], frames[0], frames[2]].concat();
    let mut reader = PacketReader::new(&trace[..]);
    assert!(reader.last_frame().is_empty());
    let mut found = Vec::new();
    while reader.next().expect("it can be read").is_some() {
        found.push(reader.last_frame().to_vec());
    }
    let expected = [frames[0], frames[1], frames[2], &[], frames[0], frames[2]];
    assert_eq!(found, expected);
}
