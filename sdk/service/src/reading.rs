//! Reading a trace: the service's own packets before and after the packets of writers.

use std::sync::Arc;

use super::announced_states::EncodeAnnouncement;
use super::compression::append_packed;
use super::environment::Environment;
use super::lifecycle_events::Event;
use super::phase::Phase;
use super::service::Service;
use super::service_packets::{ServicePackets, encode_packets, encode_packets_at, recording_id};
use super::trace_output::END_MAX_BYTES;
use super::trace_reader::{Batch, Extent, Pass, Stage, TraceReader};
use super::trace_stats::TraceStats;
use super::tracing_session::{FileOutput, TracingSession};
use tracezero_config::{Compression, TriggerMode};
use tracezero_core::ids::SessionId;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

impl Service {
    /// Reads until a batch is full or the pass is over: the packets of writers, and those of the
    /// service around them. Returns the batch; `None` at the end of the pass.
    pub(super) fn next_batch(
        &self,
        session: SessionId,
        reader: &mut TraceReader,
        pass: &mut Pass,
    ) -> Option<Batch> {
        loop {
            match pass.stage {
                Stage::Begin => {
                    reader.begin_reading();
                    self.look_at(session, |session, context| {
                        session.write_packets_before_data(context.environment, reader);
                    });
                    reader.enter_buffer(pass, 0);
                }
                Stage::Buffer(..) => {
                    if reader.fill_batch(pass) {
                        break;
                    }
                }
                Stage::End => {
                    self.look(|control| {
                        let due = control.sessions.get(&session).filter(|it| it.due.stats);
                        let totals = due.map(|session| control.trace_stats(session, reader));
                        let is_due = totals.is_some();
                        let is_last = pass.extent == Extent::Everything;
                        let stats = totals.and_then(|it| reader.stats_to_write(it, is_last));
                        control.with_session(session, |session, context| {
                            let environment = context.environment;
                            session.write_packets_after_data(environment, reader, stats.as_ref());
                            // If the session has ended meanwhile, the last packets come with the next
                            // pass, and so do the last statistics.
                            let has_ended = !is_last && !session.is_live();
                            session.due.stats = has_ended || (is_due && stats.is_none());
                        });
                    });
                    pass.stage = Stage::Over;
                }
                Stage::Over => break,
            }
        }
        reader.take_batch()
    }

    /// Returns the last packet of a session's trace; empty if there is no such session.
    pub(super) fn recording_end(&self, session: SessionId, kind: BoundaryKind) -> Vec<u8> {
        let end = self.look_at(session, |session, context| {
            session.recording_end(context.environment, kind)
        });
        end.unwrap_or_default()
    }
}

impl TracingSession {
    /// Returns true if the session's packets can be read. They cannot if the session writes into a
    /// file, waits for a trigger, or exists only to be cloned.
    pub(super) fn can_be_read(&self) -> bool {
        let is_read = self.file == FileOutput::None
            && !self.waits_for_trigger()
            && self.recording.trigger_mode() != Some(TriggerMode::CloneSnapshot);
        is_read || self.is_snapshot()
    }

    fn write_packets_before_data(
        &mut self,
        environment: &dyn Environment,
        reader: &mut TraceReader,
    ) {
        let recording = Arc::clone(&self.recording);
        let config = &recording.config;
        let builtin = config.builtin_data_sources;
        let primary_clock = self.primary_clock();
        let is_first = std::mem::take(&mut self.due.preamble);
        let provenance = is_first.then(|| reader.provenance());
        let states = match &provenance {
            Some(provenance) => reader.begin_states(provenance),
            None => Vec::new(),
        };
        reader.encode_announcement = announcement(environment.uid(), environment.now_ns());
        append(&mut reader.packets.newer, environment, |packets| {
            for snapshot in self
                .first_clock_snapshot
                .take()
                .into_iter()
                .chain(self.clock_snapshots.drain(..))
            {
                packets.clock_snapshot(&snapshot, primary_clock);
            }
            if std::mem::take(&mut self.due.sync_marker) {
                packets.sync_marker();
            }
            if !builtin.disable_trace_config {
                if is_first {
                    packets.trace_config(&self.recording.encoded);
                    if let Phase::ClonedReadOnly(Some(trigger), _) = &self.phase {
                        packets.clone_trigger(trigger);
                    }
                }
                for trigger in self.received_triggers.drain(..) {
                    packets.trigger(&trigger);
                }
            }
            if is_first {
                packets.trace_uuid(self.uuid);
                packets.recording_boundary(recording_id(self.uuid), BoundaryKind::BEGIN);
            }
            for descriptors in self.extension_descriptors.take_new() {
                if !builtin.disable_extension_descriptors {
                    packets.extension_descriptor(&descriptors);
                }
            }
            if let Some(provenance) = &provenance {
                packets.trace_provenance(provenance);
                packets.protovms(&states);
                if !builtin.disable_system_info {
                    packets.system_info();
                }
                packets.trace_attributes(&self.trace_attributes);
            }
            write_events(self, packets);
            for event in self.concurrent_events.drain(..) {
                packets.concurrent_session_event(&event);
            }
        });
    }

    /// Returns the last packet of the session's trace, compressed if its packets are.
    fn recording_end(&self, environment: &dyn Environment, kind: BoundaryKind) -> Vec<u8> {
        let end = self.packed(environment, |packets| {
            packets.recording_boundary(recording_id(self.uuid), kind);
        });
        debug_assert!(end.len() <= END_MAX_BYTES, "{} bytes", end.len());
        end
    }

    /// Returns a packet with statistics, compressed if the session's packets are.
    pub(super) fn stats_packet(
        &self,
        environment: &dyn Environment,
        stats: &TraceStats,
    ) -> Vec<u8> {
        self.packed(environment, |packets| packets.trace_stats(stats))
    }

    fn packed(
        &self,
        environment: &dyn Environment,
        write: impl FnOnce(&mut ServicePackets<'_, '_>),
    ) -> Vec<u8> {
        let packets = encode_packets(environment, write);
        let compression = self.recording.config.compression;
        if compression == Compression::None {
            return packets;
        }
        let mut packed = Vec::new();
        append_packed(compression, &packets, &mut packed);
        packed
    }

    fn write_packets_after_data(
        &mut self,
        environment: &dyn Environment,
        reader: &mut TraceReader,
        stats: Option<&TraceStats>,
    ) {
        let counts = reader.framer.counts;
        let passed_packets = counts.packets + counts.invalid_packets;
        let is_idle = stats.is_none()
            && reader.packets.newer.is_empty()
            && passed_packets == self.passed_packets;
        // Do not write the event into the file of a session that records nothing: the file would
        // only grow.
        if !is_idle {
            self.note_event(environment, Event::ReadCompleted);
        }
        self.passed_packets = passed_packets;
        self.invalid_packets = counts.invalid_packets;
        append(&mut reader.packets.newer, environment, |packets| {
            write_events(self, packets);
            if let Some(stats) = stats {
                packets.trace_stats(stats);
            }
        });
    }
}

/// Returns the function that encodes announcements of new sequences.
fn announcement(uid: u32, now_ns: u64) -> EncodeAnnouncement {
    Box::new(move |new| {
        encode_packets_at(uid, now_ns, |packets| {
            packets.trace_provenance(&new.provenance);
            packets.protovms(&new.states);
        })
    })
}

fn write_events(session: &mut TracingSession, packets: &mut ServicePackets<'_, '_>) {
    let events = session.events.take();
    if session
        .recording
        .config
        .builtin_data_sources
        .disable_service_events
    {
        return;
    }
    for (timestamp_ns, event) in events {
        packets.event(timestamp_ns, &event);
    }
}

fn append(
    batch: &mut Vec<u8>,
    environment: &dyn Environment,
    write: impl FnOnce(&mut ServicePackets<'_, '_>),
) {
    batch.extend_from_slice(&encode_packets(environment, write));
}
