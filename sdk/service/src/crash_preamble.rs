//! The service's packets in the crash files of a session: what a trace begins with.
//!
//! A recovery puts them before the packets of writers. They are written when they come about, into
//! a file of their own, because the service otherwise writes packets when the trace is read.

use super::environment::Environment;
use super::service_packets::{ServicePackets, encode_packets, recording_id};
use super::tracing_session::{ClockSnapshot, TracingSession};
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

impl TracingSession {
    /// Appends packets, if the session has crash files.
    pub(super) fn append_to_preamble(
        &self,
        environment: &dyn Environment,
        write: impl FnOnce(&mut ServicePackets<'_, '_>),
    ) {
        if let Some(folder) = &self.crash_files {
            // If the directory is full, the recovered trace lacks these packets, and readers say
            // which. The session itself goes on.
            let _ = folder.append_packets(&encode_packets(environment, write));
        }
    }

    /// Appends what is known when a session begins. Clocks and schemas follow as they come.
    pub(super) fn begin_preamble(&self, environment: &dyn Environment) {
        let builtin = &self.recording.config.builtin_data_sources;
        self.append_to_preamble(environment, |packets| {
            // First, so that readers know the clocks of all timestamps.
            if !builtin.disable_clock_snapshotting {
                let snapshot = ClockSnapshot {
                    timestamp_ns: environment.now_ns(),
                    clocks: environment.clocks(),
                };
                packets.clock_snapshot(&snapshot, self.primary_clock());
            }
            if !builtin.disable_trace_config {
                packets.trace_config(&self.recording.encoded);
            }
            packets.trace_uuid(self.uuid);
            packets.recording_boundary(recording_id(self.uuid), BoundaryKind::BEGIN);
            if !builtin.disable_system_info {
                packets.system_info();
            }
            packets.trace_attributes(&self.trace_attributes);
        });
    }
}
