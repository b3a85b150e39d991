//! The traces that the tests use.

use protozero::HeapBuffered;
use support::alone;
use tracezero::protos::{
    Trace, TracePacket, TrackDescriptor, TrackEvent, counter_descriptor, track_event,
};
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, InMemorySession, TraceConfig, counter,
    data_source, instant, span,
};

/// Encodes a trace of slices, given by track and name. Each takes a microsecond, and they follow
/// each other.
pub(crate) fn slices(slices: &[(u64, &str)]) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    for (time_ns, (track, name)) in (1000..).step_by(1000).zip(slices) {
        let ends = [
            (time_ns, track_event::Type::SLICE_BEGIN),
            (time_ns + 1000, track_event::Type::SLICE_END),
        ];
        for (time_ns, kind) in ends {
            trace.add_packet(|packet| {
                packet.set_timestamp(time_ns);
                packet.set_trusted_packet_sequence_id(2);
                packet.track_event(|event| {
                    event.set_type(kind).set_track_uuid(*track).set_name(name);
                });
            });
        }
    }
    drop(trace);
    buffer.to_vec()
}

/// Encodes a packet with the attributes of a trace.
pub(crate) fn attributes(machine_id: Option<u32>, attributes: &[(&str, &str)]) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    buffer.message().add_packet(|packet| {
        packet.set_trusted_packet_sequence_id(1);
        if let Some(id) = machine_id {
            packet.set_machine_id(id);
        }
        packet.trace_attributes(|out| {
            for (key, value) in attributes {
                out.add_attribute(|out| {
                    out.set_key(key).set_string_value(value);
                });
            }
        });
    });
    buffer.to_vec()
}

/// Encodes the descriptor of a track.
pub(crate) fn named_track(uuid: u64, name: &str) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    trace.add_packet(|packet| {
        packet.set_trusted_packet_sequence_id(2);
        packet.track_descriptor(|track| {
            track.set_uuid(uuid).set_name(name);
        });
    });
    drop(trace);
    buffer.to_vec()
}

/// Encodes a trace of a future: its span of 7 µs on a track, and two polls of 2 and 1 µs on the
/// main thread. The thread then waits in a nested span. A future inside the first one has not ended
/// by the end.
pub(crate) fn futures() -> Vec<u8> {
    let mut buffer = HeapBuffered::<Trace<'_>>::new();
    let mut trace = buffer.message();
    let (main, request, upload) = (101, 102, 103);
    let mut describe = |describe: &dyn Fn(&mut TrackDescriptor<'_>)| {
        trace.add_packet(|packet| {
            packet.track_descriptor(|track| describe(track));
            packet.set_trusted_packet_sequence_id(2);
        });
    };
    describe(&|track| {
        track.set_uuid(100).process(|process| {
            process.set_pid(10).set_process_name("shop");
        });
    });
    describe(&|track| {
        track.set_uuid(main).set_parent_uuid(100).thread(|thread| {
            thread.set_pid(10).set_tid(10).set_thread_name("main");
        });
    });
    for (uuid, parent_uuid, name) in [(request, 100, "request"), (upload, request, "upload")] {
        describe(&|track| {
            track.set_uuid(uuid).set_parent_uuid(parent_uuid);
            track.set_name(name);
        });
    }
    for (time_ns, track, name) in [
        (0, request, "request"),
        (0, main, "request"),
        (2_000, main, ""),
        (3_000, upload, "upload"),
        (6_000, main, "request"),
        (7_000, request, ""),
        (7_000, main, ""),
        (8_000, main, "serve"),
        (10_000, main, "wait"),
    ] {
        trace.add_packet(|packet| {
            packet.set_timestamp(1_000_000 + time_ns);
            packet.set_trusted_packet_sequence_id(2);
            packet.track_event(|event| {
                event.set_track_uuid(track);
                match name {
                    "" => event.set_type(track_event::Type::SLICE_END),
                    name => event
                        .set_type(track_event::Type::SLICE_BEGIN)
                        .set_name(name),
                };
            });
        });
    }
    drop(trace);
    buffer.to_vec()
}

/// Records a trace with the clocks of this machine.
pub(crate) fn recorded() -> Vec<u8> {
    let _alone = alone();
    let session = InMemorySession::start().unwrap();
    for number in 0..100_u64 {
        let _request = span!("http", "request", number, path = "/index.html");
        let _query = span!("db", "query");
        counter!("http", "requests", number);
    }
    instant!("http", "done");
    session.finish().0
}

/// The process and thread of a made-up trace.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) pid: i32,
    /// The uuid of the process's track. Its thread and counter have the next uuids.
    pub(crate) uuid: u64,
    /// The time of the first event.
    pub(crate) start_ns: u64,
    /// The time of day minus boot time.
    pub(crate) time_of_day_ns: u64,
}

pub(crate) const SHOP: Maker = Maker {
    pid: 10,
    uuid: 100,
    start_ns: 1_000_000,
    time_of_day_ns: 5_000_000_000,
};

/// Splits a trace into packets, each with its tag and length.
pub(crate) fn packets(trace: &[u8]) -> Vec<&[u8]> {
    let mut fields = protozero::Decoder::new(trace).fields();
    let mut packets = Vec::new();
    loop {
        let start = fields.offset();
        if fields.next().is_none() {
            return packets;
        }
        packets.push(&trace[start..fields.offset()]);
    }
}

impl Maker {
    /// Encodes a trace whose bytes are always the same: a span with two spans inside, an instant, a
    /// counter.
    pub(crate) fn trace(self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<Trace<'_>>::new();
        {
            let mut trace = buffer.message();
            trace.add_packet(|packet| {
                packet.clock_snapshot(|snapshot| {
                    for (id, time_ns) in
                        [(6, self.start_ns), (1, self.start_ns + self.time_of_day_ns)]
                    {
                        snapshot.add_clocks(|clock| {
                            clock.set_clock_id(id);
                            clock.set_timestamp(time_ns);
                        });
                    }
                });
                packet.set_trusted_packet_sequence_id(1);
            });
            trace.add_packet(|packet| {
                packet.trace_config(|_| {});
                packet.set_trusted_packet_sequence_id(1);
            });
            trace.add_packet(|packet| {
                packet.track_descriptor(|track| {
                    track.set_uuid(self.uuid);
                    track.process(|process| {
                        process.set_pid(self.pid);
                        process.set_process_name("shop");
                    });
                });
                packet.set_first_packet_on_sequence(true);
                packet.set_trusted_uid(1000);
                self.on_sequence(packet, 1);
            });
            trace.add_packet(|packet| {
                packet.track_descriptor(|track| {
                    track.set_uuid(self.uuid + 1);
                    track.set_parent_uuid(self.uuid);
                    track.thread(|thread| {
                        thread.set_pid(self.pid);
                        thread.set_tid(self.pid + 1);
                        thread.set_thread_name("main");
                    });
                });
                self.on_sequence(packet, 0);
            });
            trace.add_packet(|packet| {
                packet.track_descriptor(|track| {
                    track.set_uuid(self.uuid + 2);
                    track.set_parent_uuid(self.uuid);
                    track.set_name("queue");
                    track.counter(|counter| {
                        counter.set_unit(counter_descriptor::Unit::SIZE_BYTES);
                    });
                });
                self.on_sequence(packet, 0);
            });
            let begin = track_event::Type::SLICE_BEGIN;
            let end = track_event::Type::SLICE_END;
            for (time_ns, kind, name) in [
                (0, begin, "checkout"),
                (1_000, begin, "read"),
                (4_000, end, ""),
                (5_000, begin, "read"),
                (6_000, end, ""),
                (7_000, track_event::Type::INSTANT, "paid"),
                (10_000, end, ""),
            ] {
                self.event(&mut trace, time_ns, kind, |event| {
                    event.set_track_uuid(self.uuid + 1);
                    if !name.is_empty() {
                        event.add_categories("shop");
                        event.set_name(name);
                    }
                });
            }
            for (time_ns, value) in [(2_000, 4), (8_000, 2)] {
                let kind = track_event::Type::COUNTER;
                self.event(&mut trace, time_ns, kind, |event| {
                    event.set_track_uuid(self.uuid + 2);
                    event.set_counter_value(value);
                });
            }
        }
        buffer.to_vec()
    }

    fn event(
        self,
        trace: &mut Trace<'_>,
        time_ns: u64,
        kind: track_event::Type,
        write: impl FnOnce(&mut TrackEvent<'_>),
    ) {
        trace.add_packet(|packet| {
            packet.set_timestamp(self.start_ns + time_ns);
            packet.track_event(|event| {
                event.set_type(kind);
                write(event);
            });
            self.on_sequence(packet, 0);
        });
    }

    fn on_sequence(self, packet: &mut TracePacket<'_>, flags: u32) {
        packet.set_trusted_packet_sequence_id(2);
        packet.set_trusted_pid(self.pid);
        if flags != 0 {
            packet.set_sequence_flags(flags);
        }
    }
}

struct Changes;
data_source!(
    Changes,
    "com.example.changes",
    // A schema that adds nothing: the packets have fields of Perfetto's own.
    b"",
    // Merges each packet into the state.
    b"\x12\x02\x1a\x00"
);

/// Records changes of a state of at most 1 KiB into a ring that overwrites most of them.
pub(crate) fn lapped_states(changes: u64, text: &str) -> Vec<u8> {
    let _guard = alone();
    let config = TraceConfig::empty().add_buffer(BufferConfig::ring(64));
    let source = DataSourceConfig::new("com.example.changes").state_limit_kib(1);
    let session = config.add_data_source(source).record_in_memory().unwrap();
    for number in 0..changes {
        Changes::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(number).set_str(text);
                });
            });
        });
    }
    session.finish().0
}
