//! The buffers of one session, read as a trace.

use std::sync::Arc;

use protozero::HeapBuffered;

use super::packet_framer::PacketFramer;
use super::service_packets::ServicePackets;
use super::trace_buffer::{BufferError, FillPolicy, TraceBuffer};
use super::{CentralBuffer, Reader, Service};
use crate::consumer::{Losses, ResolvedConfig, TraceConfig};
use crate::error::Error;
use crate::protos;

/// Bytes of a buffer that are read while it is locked, more or less: writers wait that long.
const READ_BATCH_BYTES: usize = 64 * 1024;

/// One session on the service's side.
pub(crate) struct TracingSession {
    config: TraceConfig,
    uuid: (i64, i64),
    /// In the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    framer: PacketFramer,
}

impl TracingSession {
    /// Allocates the buffers and opens them for commits.
    pub(crate) fn start(
        service: &Service,
        config: TraceConfig,
        resolved: &ResolvedConfig,
        wake: Option<impl Fn() + Send + Sync + Clone + 'static>,
    ) -> Result<Self, Error> {
        let allocated: Result<Vec<TraceBuffer>, (usize, BufferError)> = resolved
            .buffers
            .iter()
            .enumerate()
            .map(|(index, buffer)| {
                TraceBuffer::new(u64::from(buffer.size_kb) * 1024, buffer.fill_policy)
                    .map_err(|source| (index, source))
            })
            .collect();
        let mut session = Self {
            config,
            uuid: random_uuid(),
            buffers: Vec::new(),
            framer: PacketFramer::new(),
        };
        for (buffer, config) in allocated
            .map_err(|(index, source)| Error::Buffer { index, source })?
            .into_iter()
            .zip(&resolved.buffers)
        {
            let reader = match (config.fill_policy, wake.clone()) {
                (FillPolicy::Ring, Some(wake)) => Reader::Drains(Box::new(wake)),
                (FillPolicy::Ring, None) => Reader::ReadsWhatIsLeft,
                // A buffer that is full for good has nothing to gain from being drained early.
                (FillPolicy::Discard, _) => Reader::ReadsAll,
            };
            match service.open_buffer(buffer, reader) {
                Some(buffer) => session.buffers.push(buffer),
                None => {
                    service.remove_buffers(&session.buffers);
                    return Err(Error::TooManyBuffers);
                }
            }
        }
        Ok(session)
    }

    /// The buffers, in the order of the configuration.
    pub(crate) fn buffers(&self) -> &[Arc<CentralBuffer>] {
        &self.buffers
    }

    /// The packets that a trace begins with.
    pub(crate) fn preamble(&self) -> Vec<u8> {
        service_packets(|packets| packets.preamble(&self.config, self.uuid))
    }

    /// The packets that a trace ends with.
    pub(crate) fn epilogue(&self) -> Vec<u8> {
        let stats: Vec<_> = self
            .buffers
            .iter()
            .map(|buffer| *buffer.buffer.lock().stats())
            .collect();
        service_packets(|packets| packets.epilogue(&stats))
    }

    /// Packets of writers that were read so far.
    pub(crate) fn packets_read(&self) -> u64 {
        self.framer.packets
    }

    /// Those of them that are events.
    pub(crate) fn events_read(&self) -> u64 {
        self.framer.events
    }

    /// Appends the packets that can be read now to `trace`, a batch at a time; after each batch,
    /// `flush` gets what was appended and empties it.
    pub(crate) fn read<E>(
        &mut self,
        trace: &mut Vec<u8>,
        mut flush: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for buffer in &self.buffers {
            loop {
                let has_more = read_batch(&mut buffer.buffer.lock(), &mut self.framer);
                self.framer.append_to(trace);
                flush(trace)?;
                if !has_more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds up what the buffers lost.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for buffer in &self.buffers {
            let buffer = buffer.buffer.lock();
            let was_full = buffer.is_full();
            for (_, _, counts) in buffer.all_packet_counts() {
                losses.overwritten += counts.overwritten;
                losses.discarded += counts.discarded + counts.late;
                losses.aborted += counts.aborted;
                losses.corrupted += counts.gap + counts.broken_chain + counts.corrupted;
                // What is still there after the last read waits for the rest of its packet; a
                // buffer that is full for good has refused that.
                if was_full {
                    losses.discarded += counts.unread;
                } else {
                    losses.unfinished += counts.unread;
                }
            }
        }
        losses
    }
}

/// Takes packets for as long as the buffer may stay locked. Returns whether there is more.
fn read_batch(buffer: &mut TraceBuffer, framer: &mut PacketFramer) -> bool {
    buffer.begin_read();
    while framer.taken_bytes() < READ_BATCH_BYTES {
        let Some(packet) = buffer.read_packet() else {
            return false;
        };
        framer.take(&packet);
    }
    true
}

fn service_packets(write: impl FnOnce(&mut ServicePackets<'_, '_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<protos::Trace>::new();
    write(&mut ServicePackets {
        trace: &mut buffer.message(),
    });
    buffer.to_vec()
}

/// A random UUID, version 4, as its two halves.
fn random_uuid() -> (i64, i64) {
    use std::hash::{BuildHasher, RandomState};
    // The keys of a hash map's hasher are random, and differ each time.
    let random = |salt: u64| RandomState::new().hash_one(salt);
    let msb = random(1) & !0xf000 | 0x4000;
    let lsb = random(2) & !(0xc << 60) | 0x8 << 60;
    (msb as i64, lsb as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let (msb, lsb) = random_uuid();
        assert_eq!(msb as u64 >> 12 & 0xf, 4);
        assert_eq!(lsb as u64 >> 62, 0b10);
        assert_ne!((msb, lsb), random_uuid());
    }
}
