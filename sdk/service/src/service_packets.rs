//! Packets that the service itself writes: where a trace comes from, how to relate its clocks, and
//! what happened to the session.

use std::fs;
use std::thread;

use super::environment::Environment;
use super::folded_state::FoldedState;
use super::lifecycle_events::Event;
use super::packet_framer::SERVICE_SEQUENCE_ID;
use super::phase::State;
use super::trace_stats::TraceStats;
use super::tracing_session::{ClockSnapshot, ConcurrentSessionEvent};
use super::trigger_history::ReceivedTrigger;
use protozero::HeapBuffered;
use tracezero_core::clock;
use tracezero_core::ids::ProducerId;
use tracezero_core::protos;
use tracezero_core::protos::sequences::TracePacketExt as _;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// The version of the service, as traces and lists of sessions name it. Trace processor reads the
/// version of Perfetto: from 54 on, it knows that a service flushes before it writes into a file.
pub const VERSION: &str = concat!(
    "Perfetto v54.0 compatible, tracezero ",
    env!("CARGO_PKG_VERSION")
);

/// The sync marker, at which readers can enter a stream of packets in the middle. These bytes are
/// at the end of a packet, and nowhere else.
pub(crate) const SYNC_MARKER: [u8; 16] = [
    0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79,
];

/// Writes the service's packets into a trace.
pub(crate) struct ServicePackets<'t, 'w> {
    pub(crate) trace: &'t mut protos::Trace<'w>,
    /// The user that the service runs as.
    pub(crate) uid: u32,
    pub(crate) now_ns: u64,
}

/// Returns the packets that `write` writes, as a trace has them.
pub(super) fn encode_packets(
    environment: &dyn Environment,
    write: impl FnOnce(&mut ServicePackets<'_, '_>),
) -> Vec<u8> {
    encode_packets_at(environment.uid(), environment.now_ns(), write)
}

/// Returns packets of a service that runs as this user, written at this time.
pub(super) fn encode_packets_at(
    uid: u32,
    now_ns: u64,
    write: impl FnOnce(&mut ServicePackets<'_, '_>),
) -> Vec<u8> {
    let mut buffer = HeapBuffered::<protos::Trace<'_>>::new();
    write(&mut ServicePackets {
        trace: &mut buffer.message(),
        uid,
        now_ns,
    });
    buffer.to_vec()
}

/// Returns the id of a recording in the session with this UUID. Its clones have the same id.
pub(super) fn recording_id(uuid: (i64, i64)) -> u64 {
    uuid.1 as u64
}

impl ServicePackets<'_, '_> {
    pub(super) fn clock_snapshot(&mut self, snapshot: &ClockSnapshot, primary_clock: u32) {
        self.packet(snapshot.timestamp_ns, &|packet| {
            packet.clock_snapshot(|out| {
                for &(id, timestamp_ns) in &snapshot.clocks {
                    out.add_clocks(|clock| {
                        clock.set_clock_id(id);
                        clock.set_timestamp(timestamp_ns);
                    });
                }
                out.set_primary_trace_clock(protos::BuiltinClock(primary_clock as i32));
            });
        });
    }

    /// Writes the sync marker. The fields have a fixed order, and the marker is the last.
    pub(super) fn sync_marker(&mut self) {
        let uid = self.uid;
        self.trace.add_packet(|packet| {
            packet.set_trusted_uid(uid as i32);
            packet.set_trusted_packet_sequence_id(SERVICE_SEQUENCE_ID);
            packet.set_synchronization_marker(&SYNC_MARKER);
        });
    }

    /// Writes a configuration: an encoded `TraceConfig`.
    pub(super) fn trace_config(&mut self, encoded: &[u8]) {
        self.packet_now(&|packet| {
            packet.trace_config(|out| out.as_message_mut().append_raw(encoded));
        });
    }

    pub(super) fn trace_uuid(&mut self, (msb, lsb): (i64, i64)) {
        self.packet_now(&|packet| {
            packet.trace_uuid(|out| {
                out.set_msb(msb);
                out.set_lsb(lsb);
            });
        });
    }

    pub(super) fn recording_boundary(&mut self, recording_id: u64, kind: BoundaryKind) {
        self.packet_now(&|packet| {
            packet.recording_boundary(|out| {
                out.set_recording_id(recording_id);
                out.set_kind(kind);
            });
        });
    }

    /// Writes the schema of a data source: a serialized `FileDescriptorSet`.
    pub(super) fn extension_descriptor(&mut self, descriptors: &[u8]) {
        self.packet_now(&|packet| {
            packet.extension_descriptor(|out| {
                out.extension_set(|out| {
                    out.as_message_mut().append_raw(descriptors);
                });
            });
        });
    }

    /// Writes the ids and producers of the known sequences in each buffer.
    pub(super) fn trace_provenance(&mut self, buffers: &[Vec<(u32, ProducerId)>]) {
        self.packet_now(&|packet| {
            packet.trace_provenance(|out| {
                for sequences in buffers {
                    out.add_buffers(|out| {
                        for &(id, producer) in sequences {
                            out.add_sequences(|out| {
                                out.set_id(id);
                                out.set_producer_id(producer.value().cast_signed());
                            });
                        }
                    });
                }
            });
        });
    }

    /// Writes the states of overwritten packets, in as few packets as their lengths allow.
    pub(super) fn protovms(&mut self, states: &[FoldedState]) {
        const PACKET_MAX_BYTES: usize = 64 << 20;
        let mut rest = states;
        while let [first, others @ ..] = rest {
            let mut len_bytes = first.state.len();
            let more = others.iter().take_while(|state| {
                len_bytes += state.state.len();
                len_bytes <= PACKET_MAX_BYTES
            });
            let (now, later) = rest.split_at(1 + more.count());
            self.packet_now(&|packet| {
                packet.protovms(|out| {
                    for state in now {
                        out.add_instance(|out| write_state(state, out));
                    }
                });
            });
            rest = later;
        }
    }

    /// Writes the attributes of the trace: an encoded `TraceAttributes`. Writes nothing if there are none.
    pub(super) fn trace_attributes(&mut self, encoded: &[u8]) {
        if !encoded.is_empty() {
            self.packet_now(&|packet| {
                packet.trace_attributes(|out| out.as_message_mut().append_raw(encoded));
            });
        }
    }

    pub(super) fn system_info(&mut self) {
        self.packet_now(&|packet| packet.system_info(system_info));
    }

    pub(super) fn trigger(&mut self, trigger: &ReceivedTrigger) {
        self.packet(trigger.timestamp_ns, &|packet| {
            packet.trigger(|out| write_trigger(trigger, out));
        });
    }

    pub(super) fn clone_trigger(&mut self, trigger: &ReceivedTrigger) {
        self.packet(trigger.timestamp_ns, &|packet| {
            packet.clone_snapshot_trigger(|out| write_trigger(trigger, out));
        });
    }

    pub(super) fn event(&mut self, timestamp_ns: u64, event: &Event) {
        self.packet(timestamp_ns, &|packet| {
            packet.service_event(|out| event.write(out));
        });
    }

    pub(super) fn concurrent_session_event(&mut self, event: &ConcurrentSessionEvent) {
        use protos::concurrent_session_event::State as Wire;
        self.packet(event.timestamp_ns, &|packet| {
            packet.concurrent_session_event(|out| {
                out.set_state(match event.state {
                    State::Configured => Wire::CONFIGURED,
                    State::Started => Wire::STARTED,
                    State::Stopping => Wire::DISABLING_WAITING_STOP_ACKS,
                    State::Disabled => Wire::DISABLED,
                    State::ClonedReadOnly => Wire::CLONED_READ_ONLY,
                });
                out.set_session_name(&event.session_name);
                out.set_session_id(event.session.value());
                out.set_consumer_uid(event.uid as i32);
                out.set_num_data_sources(event.data_source_count);
            });
        });
    }

    pub(super) fn trace_stats(&mut self, stats: &TraceStats) {
        self.packet_now(&|packet| {
            packet.trace_stats(|out| stats.write(out));
            packet.sequence_accounts(|out| {
                for account in &stats.sequences {
                    out.add_sequences(|out| account.write(out));
                }
                for state in &stats.states {
                    out.add_states(|out| state.write(out));
                }
            });
        });
    }

    fn packet_now(&mut self, write: &dyn Fn(&mut protos::TracePacket<'_>)) {
        self.packet(self.now_ns, write);
    }

    /// Writes a packet. `write` is called dynamically, so that this code is not instantiated for
    /// each kind of packet.
    fn packet(&mut self, timestamp_ns: u64, write: &dyn Fn(&mut protos::TracePacket<'_>)) {
        let uid = self.uid;
        self.trace.add_packet(|packet| {
            packet.set_trusted_uid(uid as i32);
            packet.set_trusted_packet_sequence_id(SERVICE_SEQUENCE_ID);
            packet.set_timestamp(timestamp_ns);
            packet.set_timestamp_clock_id(clock::BUILTIN_CLOCK_BOOTTIME);
            write(packet);
        });
    }
}

fn write_state(state: &FoldedState, out: &mut protos::trace_packet::proto_vms::Instance<'_>) {
    out.program(|out| out.as_message_mut().append_raw(&state.program));
    out.state(|out| out.as_message_mut().append_raw(&state.state));
    out.set_memory_limit_kb(state.limit_kib);
    for producer in &state.producers {
        out.add_producer_id(producer.value().cast_signed());
    }
}

#[cold]
fn write_trigger(trigger: &ReceivedTrigger, out: &mut protos::Trigger<'_>) {
    out.set_trigger_name(&trigger.name);
    out.set_producer_name(&trigger.producer_name);
    if let Some(uid) = trigger.producer_uid {
        out.set_trusted_producer_uid(uid as i32);
    }
    out.set_stop_delay_ms(u64::from(trigger.stop_delay_ms));
}

#[cold]
fn system_info(out: &mut protos::SystemInfo<'_>) {
    let uname = rustix::system::uname();
    out.utsname(|out| {
        out.set_sysname(&uname.sysname().to_string_lossy());
        out.set_version(&uname.version().to_string_lossy());
        out.set_release(&uname.release().to_string_lossy());
        out.set_machine(&uname.machine().to_string_lossy());
    });
    out.set_tracing_service_version(VERSION);
    out.set_page_size(rustix::param::page_size() as u32);
    if let Some(cpus) = configured_cpus() {
        out.set_num_cpus(cpus as u32);
    }
}

/// Returns the number of the machine's CPUs, also of those that this process may not use. If the kernel
/// does not list them, returns the number of those that it may.
fn configured_cpus() -> Option<usize> {
    let entries = fs::read_dir("/sys/devices/system/cpu")
        .into_iter()
        .flatten();
    let is_cpu = |name: &str| {
        let number = name.strip_prefix("cpu");
        number.is_some_and(|it| it.parse::<u32>().is_ok())
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    match names
        .filter(|name| name.to_str().is_some_and(is_cpu))
        .count()
    {
        0 => thread::available_parallelism().ok().map(usize::from),
        count => Some(count),
    }
}
