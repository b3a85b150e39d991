//! The packets that the service itself writes: where a trace comes from and how to read its clocks.

use crate::clock;
use crate::consumer::TraceConfig;
use crate::protos;
use crate::service::trace_buffer::BufferStats;

/// The sequence that the service writes to; writers count from the next number.
pub(crate) const SERVICE_SEQUENCE_ID: u32 = 1;

/// Writes the service's packets, one after the other.
pub(crate) struct ServicePackets<'t, 'w> {
    pub(crate) trace: &'t mut protos::Trace<'w>,
}

impl ServicePackets<'_, '_> {
    /// What a trace begins with.
    pub(crate) fn preamble(&mut self, config: &TraceConfig, uuid: (i64, i64)) {
        let clocks = clock::snapshot();
        self.packet(|packet| {
            packet.clock_snapshot(|snapshot| {
                for (id, timestamp_ns) in clocks {
                    snapshot.add_clocks(|clock| {
                        clock.set_clock_id(id);
                        clock.set_timestamp(timestamp_ns);
                    });
                }
                snapshot.set_primary_trace_clock(protos::BuiltinClock(
                    clock::BUILTIN_CLOCK_BOOTTIME as i32,
                ));
            });
        });
        self.packet(|packet| packet.trace_config(|out| config.write(out)));
        self.packet(|packet| {
            packet.trace_uuid(|out| {
                out.set_msb(uuid.0);
                out.set_lsb(uuid.1);
            });
        });
        self.packet(|packet| packet.system_info(system_info));
        self.event(|event| {
            event.set_tracing_started(true);
        });
    }

    /// What a trace ends with; `buffer_stats` in the order of the configuration.
    pub(crate) fn epilogue(&mut self, buffer_stats: &[BufferStats]) {
        self.event(|event| {
            event.set_tracing_disabled(true);
        });
        self.packet(|packet| {
            packet.trace_stats(|stats| {
                for buffer in buffer_stats {
                    stats.add_buffer_stats(|out| write_buffer_stats(buffer, out));
                }
                stats.set_total_buffers(buffer_stats.len() as u32);
            });
        });
    }

    fn event(&mut self, write: impl FnOnce(&mut protos::TracingServiceEvent<'_>)) {
        self.packet(|packet| packet.service_event(write));
    }

    fn packet(&mut self, write: impl FnOnce(&mut protos::TracePacket<'_>)) {
        self.trace.add_packet(|packet| {
            packet.set_trusted_uid(rustix::process::getuid().as_raw() as i32);
            packet.set_trusted_packet_sequence_id(SERVICE_SEQUENCE_ID);
            packet.set_timestamp(clock::now_ns());
            packet.set_timestamp_clock_id(clock::BUILTIN_CLOCK_BOOTTIME);
            write(packet);
        });
    }
}

fn system_info(out: &mut protos::SystemInfo<'_>) {
    let uname = rustix::system::uname();
    out.utsname(|out| {
        out.set_sysname(&uname.sysname().to_string_lossy());
        out.set_version(&uname.version().to_string_lossy());
        out.set_release(&uname.release().to_string_lossy());
        out.set_machine(&uname.machine().to_string_lossy());
    });
    out.set_tracing_service_version(concat!("tracezero ", env!("CARGO_PKG_VERSION")));
    out.set_page_size(rustix::param::page_size() as u32);
    if let Ok(cpus) = std::thread::available_parallelism() {
        out.set_num_cpus(cpus.get() as u32);
    }
}

fn write_buffer_stats(stats: &BufferStats, out: &mut protos::trace_stats::BufferStats<'_>) {
    out.set_buffer_size(stats.buffer_size);
    out.set_bytes_written(stats.bytes_written);
    out.set_bytes_overwritten(stats.bytes_overwritten);
    out.set_bytes_read(stats.bytes_read);
    out.set_padding_bytes_written(stats.padding_bytes_written);
    out.set_padding_bytes_cleared(stats.padding_bytes_cleared);
    out.set_chunks_written(stats.chunks_written);
    out.set_chunks_rewritten(stats.chunks_rewritten);
    out.set_chunks_relocated(stats.chunks_relocated);
    out.set_chunks_overwritten(stats.chunks_overwritten);
    out.set_chunks_discarded(stats.chunks_discarded);
    out.set_chunks_read(stats.chunks_read);
    out.set_chunks_committed_out_of_order(stats.chunks_committed_out_of_order);
    out.set_write_wrap_count(stats.write_wrap_count);
    out.set_patches_succeeded(stats.patches_succeeded);
    out.set_patches_failed(stats.patches_failed);
    out.set_readaheads_succeeded(stats.readaheads_succeeded);
    out.set_readaheads_failed(stats.readaheads_failed);
    out.set_abi_violations(stats.abi_violations);
    out.set_trace_writer_packet_loss(stats.trace_writer_packet_loss);
}
