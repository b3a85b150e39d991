//! The session of a process, and the trace of it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tracezero_core::crash_files::format::{Meta, RingHeader, WriterRow};
use tracezero_core::crash_files::{PREAMBLE_FILE, STATES_PREFIX};
use tracezero_core::ids::BufferId;
use tracezero_service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer};
use tracezero_service::{
    Preamble, RecordingState, RecoveredBuffer, RecoveredCounts, RecoveredStates, write_recovered,
};

use crate::error::RecoverError;
use crate::folder::{entries, open_file, read_file};
use crate::memory::{MemoryCopy, PRODUCER, totals_of};
use crate::recovered_trace::RecoveredTrace;
use crate::ring::RingFile;
use crate::settled::is_before;
use crate::trace_part::TracePart;

/// The largest preamble that is read as a whole. A session that writes a clock snapshot each second
/// needs weeks for so many bytes.
const PREAMBLE_MAX_BYTES: u64 = 256 << 20;

/// The largest log of states that is read. It holds about twice as much as the states of a ring may
/// have by default.
const STATES_MAX_BYTES: u64 = 1 << 30;

/// What is needed from the folder of the process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) meta: Meta,
    pub(crate) rows: Vec<WriterRow>,
    /// `None` if the file is missing or damaged.
    pub(crate) memory: Option<MemoryCopy>,
    /// True if the process may change its files meanwhile.
    pub(crate) is_living: bool,
}

impl Process {
    fn client(&self) -> ClientIdentity {
        ClientIdentity {
            uid: Some(self.meta.uid),
            pid: Some(self.meta.pid),
        }
    }
}

/// A session as it was found.
#[derive(Debug)]
pub(crate) struct FoundSession {
    /// The part that was taken out of the buffers before.
    pub(crate) part: TracePart,
    pub(crate) rest: RestOfTrace,
    pub(crate) damages: Vec<String>,
}

/// The part of a trace that was still in the buffers.
#[derive(Debug)]
pub(crate) struct RestOfTrace {
    preamble: Vec<u8>,
    /// True if the part before has the packets of the begin.
    has_begun: bool,
    buffers: Vec<RecoveredBuffer>,
    is_living: bool,
}

impl FoundSession {
    /// Reads the session in `folder`.
    pub(crate) fn find(process: &mut Process, folder: &Path) -> Result<Self, RecoverError> {
        let mut damages = Vec::new();
        // First the rings, if the process lives: what leaves them is in the parts then.
        let rings = rings(folder, process, &mut damages)?;
        // The logs come later, for the same reason: what leaves a ring is in its log then.
        let mut states = BTreeMap::new();
        for (&index, rings) in &rings {
            let nonce = process.meta.nonce;
            states.insert(index, states_of(folder, rings, nonce, &mut damages));
        }
        let preamble = read_file(&folder.join(PREAMBLE_FILE), PREAMBLE_MAX_BYTES);
        let mut preamble = preamble.unwrap_or_else(|error| {
            damages.push(format!("{PREAMBLE_FILE}: {error}"));
            Vec::new()
        });
        preamble.truncate(whole_packets(&preamble));
        let part = TracePart::find(folder, &preamble, &mut damages)?;
        let buffers = rings.into_iter().map(|(index, rings)| {
            let states = states.remove(&index).unwrap_or_default();
            buffer_of(process, &rings, states, &part, &mut damages)
        });
        let rest = RestOfTrace {
            preamble,
            has_begun: part.has_begun,
            buffers: buffers.collect::<Result<_, _>>()?,
            is_living: process.is_living,
        };
        Ok(Self {
            part,
            rest,
            damages,
        })
    }

    /// Writes the trace into a new file.
    pub(crate) fn write_to_file(mut self, path: &Path) -> Result<RecoveredTrace, RecoverError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecoverError::Exists {
                path: path.to_owned(),
            },
            _ => RecoverError::io(path)(error),
        })?;
        let mut out = Output {
            file,
            size_bytes: 0,
        };
        let written = self.part.take_files().and_then(|files| {
            for mut part in files {
                io::copy(&mut part, &mut out)?;
            }
            self.rest.write(|batch| out.write_all(batch))
        });
        let counts = written.map_err(|error| {
            // A part of a trace is worse than none: the next attempt would find the file.
            let _ = fs::remove_file(path);
            RecoverError::io(path)(error)
        })?;
        Ok(RecoveredTrace {
            path: path.to_owned(),
            size_bytes: out.size_bytes,
            packets: counts.packets,
            events: counts.events,
            sequences: counts.sequences,
            damages: self.damages,
        })
    }
}

/// The trace file.
struct Output {
    file: File,
    size_bytes: u64,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.size_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RestOfTrace {
    /// Calls `take` with batches of packets.
    pub(crate) fn write<E>(
        self,
        take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<RecoveredCounts, E> {
        let end = if self.is_living {
            RecordingState::Continues
        } else {
            RecordingState::EndedByKill
        };
        let preamble = Preamble {
            packets: &self.preamble,
            has_begun: self.has_begun,
        };
        write_recovered(PRODUCER, preamble, self.buffers, end, take)
    }
}

/// Opens the rings of a session, by the position of their buffer, oldest first.
fn rings(
    folder: &Path,
    process: &Process,
    damages: &mut Vec<String>,
) -> Result<BTreeMap<u32, Vec<RingFile>>, RecoverError> {
    let nonce = process.meta.nonce;
    let open = |file| match process.is_living {
        true => RingFile::open_changing(file, nonce),
        false => RingFile::open(file, nonce),
    };
    let mut rings: BTreeMap<u32, Vec<RingFile>> = BTreeMap::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('b') {
            continue;
        }
        let file = open_file(&path, OpenOptions::new().read(true));
        match file.and_then(open) {
            Ok(Some(ring)) => rings
                .entry(ring.header.buffer_index)
                .or_default()
                .push(ring),
            Ok(None) => damages.push(format!("{name}: the header is damaged")),
            Err(error) => damages.push(format!("{name}: {error}")),
        }
    }
    for of_buffer in rings.values_mut() {
        of_buffer.sort_by_key(|ring| ring.header.generation);
    }
    Ok(rings)
}

/// Reads the states that the oldest of a buffer's rings has kept. The packets of this ring come first in
/// the trace, so what later rings have overwritten is not part of a state.
fn states_of(
    folder: &Path,
    rings: &[RingFile],
    nonce: u64,
    damages: &mut Vec<String>,
) -> RecoveredStates {
    let Some(RingHeader {
        buffer_index,
        generation,
        ..
    }) = rings.first().map(|ring| ring.header)
    else {
        return RecoveredStates::default();
    };
    let name = format!("{STATES_PREFIX}{buffer_index}.{generation}");
    let mut log = match read_file(&folder.join(&name), STATES_MAX_BYTES) {
        Ok(log) => log,
        Err(error) => {
            // A ring whose packets no program folds has no log.
            if error.kind() != io::ErrorKind::NotFound {
                damages.push(format!("{name}: {error}"));
            }
            return RecoveredStates::default();
        }
    };
    if log.len() as u64 == STATES_MAX_BYTES {
        damages.push(format!("{name}: more than {STATES_MAX_BYTES} bytes"));
        return RecoveredStates::default();
    }
    log.truncate(whole_packets(&log));
    let states = RecoveredStates::read(&log, nonce, PRODUCER);
    let mut states = states.unwrap_or_else(|error| {
        damages.push(format!("{name}: {error}"));
        RecoveredStates::default()
    });
    if rings.len() > 1 {
        states.note_later_rings();
    }
    states
}

/// Puts the chunks of a buffer together.
fn buffer_of(
    process: &mut Process,
    rings: &[RingFile],
    states: RecoveredStates,
    part: &TracePart,
    damages: &mut Vec<String>,
) -> Result<RecoveredBuffer, RecoverError> {
    let memory_bytes = process.memory.as_ref().map_or(0, MemoryCopy::size_bytes);
    let ring_bytes: u64 = rings.iter().map(|ring| u64::from(ring.size_bytes())).sum();
    // A chunk of the memory may be without its end, and take as much room again when it is stored.
    let size_bytes = ring_bytes + 2 * memory_bytes;
    let size_max_bytes = u64::from(u32::MAX) + 1 - 4096;
    let size_bytes = size_bytes.min(size_max_bytes);
    let mut buffer = TraceBuffer::new(size_bytes, FillPolicy::Ring)
        .map_err(|error| RecoverError::io(Path::new("memory"))(io::Error::other(error)))?;
    let client = process.client();
    let index = rings.first().map_or(0, |ring| ring.header.buffer_index);
    let mut sequence_ids = Vec::new();
    for (&(buffer_index, writer_id), &(sequence_id, position)) in &part.positions {
        if buffer_index == index {
            buffer.continue_at(PRODUCER, writer_id, &client, position);
            sequence_ids.push((writer_id, sequence_id));
        }
    }
    // A trace file has the states before the first packets of the buffer, and what was written into it
    // since is not part of a state. What was read into parts is.
    let has_states = !part.is_streamed || sequence_ids.is_empty();
    states.continue_in(&mut buffer, PRODUCER, &client, has_states);
    let mut newest = HashMap::new();
    for ring in rings {
        match ring.commit_to(&mut buffer, client, &mut newest) {
            Ok(0) => {}
            Ok(bytes) => damages.push(format!("{bytes} bytes of a ring are damaged")),
            Err(error) => damages.push(format!("a ring could not be read: {error}")),
        }
    }
    let is_sealed = rings.iter().any(|ring| ring.is_sealed);
    let id = rings.last().map_or(BufferId(0), |ring| ring.buffer_id);
    // A full buffer had discarded what is in the memory.
    if let Some(memory) = process.memory.as_mut().filter(|_| !is_sealed) {
        // Of a living process, the memory was copied before the ring. So a chunk that is complete in
        // the ring is older in the copy of the memory. One that the service has scraped into the ring
        // may have more packets in the memory.
        let is_living = process.is_living;
        let is_newer = |writer, chunk_id| {
            let newest = newest.get(&writer).filter(|_| is_living);
            newest.is_none_or(|newest| is_before(*newest, chunk_id))
        };
        memory.commit_to(id, &mut buffer, client, is_newer);
    }
    Ok(RecoveredBuffer {
        buffer,
        writers: totals_of(&process.rows, id),
        has_evicted: rings.iter().any(|ring| ring.has_evicted),
        is_sealed,
        states: match has_states {
            true => states,
            false => RecoveredStates::default(),
        },
        sequence_ids,
    })
}

/// Returns the size of the whole packets that `trace` begins with.
fn whole_packets(trace: &[u8]) -> usize {
    const PACKET_TAG: u8 = 0x0a;
    let mut whole = 0;
    while let Some((&PACKET_TAG, rest)) = trace[whole..].split_first() {
        let mut size = 0_u64;
        let Some(len) = rest.iter().take(5).position(|byte| byte & 0x80 == 0) else {
            break;
        };
        for (index, byte) in rest[..=len].iter().enumerate() {
            size |= u64::from(byte & 0x7f) << (7 * index);
        }
        let end = (whole + 1 + len + 1) as u64 + size;
        if end > trace.len() as u64 {
            break;
        }
        whole = end as usize;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_ends_with_its_last_whole_packet() {
        assert_eq!(whole_packets(b""), 0);
        assert_eq!(whole_packets(b"\x0a\x02ab\x0a\x00"), 6);
        assert_eq!(whole_packets(b"\x0a\x02ab\x0a\x03ab"), 4);
        assert_eq!(whole_packets(b"\x0a\x02ab\x0a\x80"), 4);
        assert_eq!(whole_packets(b"\x0a\x02ab\x12\x00"), 4);
    }
}
