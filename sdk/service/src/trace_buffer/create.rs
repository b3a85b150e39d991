//! Creates trace buffers: in memory of all kinds, of fixed size or growing.

use std::fmt;
use std::sync::Arc;

use tracezero_core::crash_files::{CrashFilesError, RingFile, SessionFolder};

use super::ring::Ring;
use super::sequence_table::SequenceTable;
use super::stats::StorageCounts;
use super::{BufferStats, FillPolicy, Intake, TraceBuffer};

/// The granule of buffer sizes: each size is a multiple of it.
const SIZE_GRANULE_BYTES: u64 = 4096;

/// The size of the segments by which a growing ring grows.
pub(crate) const SEGMENT_BYTES: u64 = 2 << 20;

const SEGMENT_SHIFT: u32 = SEGMENT_BYTES.ilog2();

/// Returns the number of segments of a ring that grows to `limit_bytes`: at least two, and few enough
/// for offsets of 32 bits.
fn segments_max(limit_bytes: u64) -> u32 {
    const SEGMENTS_MAX: u64 = (1 << (u32::BITS - SEGMENT_SHIFT)) - 1;
    limit_bytes.div_ceil(SEGMENT_BYTES).clamp(2, SEGMENTS_MAX) as u32
}

/// Rounds the size of a buffer up to a multiple of [`SIZE_GRANULE_BYTES`].
fn rounded_size_bytes(size_bytes: u64) -> Result<u32, BufferError> {
    let rounded = size_bytes
        .max(1)
        .checked_next_multiple_of(SIZE_GRANULE_BYTES);
    rounded
        .and_then(|rounded| u32::try_from(rounded).ok())
        .ok_or(BufferError::TooLarge { size_bytes })
}

/// The reason why a buffer could not be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferError {
    /// The buffer is too large: offsets in it have 32 bits. Use less than 4 GiB, or several
    /// buffers.
    TooLarge {
        /// The size that was asked for.
        size_bytes: u64,
    },
    /// The operating system has no memory for the buffer. Use a smaller one, or raise the limit on
    /// the process's address space.
    OutOfMemory {
        /// The size that was asked for, rounded up.
        size_bytes: u64,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The buffer's crash file could not be created.
    CrashFile(CrashFilesError),
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size_bytes } => write!(
                f,
                "a trace buffer of {size_bytes} bytes is too large; the limit is 4 GiB minus 4 KiB"
            ),
            Self::OutOfMemory { size_bytes, source } => write!(
                f,
                "no memory for a trace buffer of {size_bytes} bytes: {source}; use a smaller one"
            ),
            Self::CrashFile(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge { .. } => None,
            // `Display` prints the text of the source, so the chain goes on with the source's own
            // source.
            Self::OutOfMemory { source, .. } => source.source(),
            Self::CrashFile(source) => source.source(),
        }
    }
}

impl TraceBuffer {
    /// Creates an empty buffer of at least `size_bytes`, rounded up to a multiple of 4096.
    ///
    /// The memory is a private anonymous mapping. So the operating system provides each page,
    /// zeroed, when the first chunk reaches it, and gets all pages back when the buffer is dropped.
    ///
    /// # Errors
    ///
    /// Returns [`BufferError::TooLarge`] for 4 GiB or more after rounding, and
    /// [`BufferError::OutOfMemory`] if the operating system refuses the memory.
    pub fn new(size_bytes: u64, policy: FillPolicy) -> Result<Self, BufferError> {
        let rounded = rounded_size_bytes(size_bytes)?;
        let size_bytes = u64::from(rounded);
        let ring =
            Ring::new(rounded).map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self::of_ring(ring, policy))
    }

    /// Creates an empty buffer, as [`new`](Self::new) does, whose memory takes only a few pages at a
    /// time from the system. So no commit waits for long, but commits take a little longer.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of_small_pages(size_bytes: u64, policy: FillPolicy) -> Result<Self, BufferError> {
        let rounded = rounded_size_bytes(size_bytes)?;
        let size_bytes = u64::from(rounded);
        let ring = Ring::of_small_pages(rounded)
            .map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self::of_ring(ring, policy))
    }

    /// Creates an empty buffer, as [`new`](Self::new) does, whose memory is in a crash file.
    /// `index` is the position of the buffer in the session's configuration.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`BufferError::CrashFile`] if the file could not be created.
    pub(crate) fn in_crash_file(
        session: &Arc<SessionFolder>,
        index: usize,
        size_bytes: u64,
        policy: FillPolicy,
    ) -> Result<Self, BufferError> {
        let size_bytes = rounded_size_bytes(size_bytes)?;
        let discards = policy == FillPolicy::Discard;
        let file = RingFile::create(session, index as u32, size_bytes, discards);
        let ring = file.and_then(Ring::in_file);
        let ring = ring.map_err(BufferError::CrashFile)?;
        Ok(Self::of_ring(ring, policy))
    }

    /// Creates an empty ring that grows, as [`growing`](Self::growing) does, whose memory is in a
    /// crash file.
    ///
    /// # Errors
    ///
    /// As [`in_crash_file`](Self::in_crash_file).
    pub(crate) fn growing_in_crash_file(
        session: &Arc<SessionFolder>,
        index: usize,
        limit_bytes: u64,
    ) -> Result<Self, BufferError> {
        let file = RingFile::create(session, index as u32, SEGMENT_BYTES as u32, false);
        let ring = file
            .and_then(|file| Ring::growing_in_file(SEGMENT_SHIFT, segments_max(limit_bytes), file));
        let ring = ring.map_err(BufferError::CrashFile)?;
        Ok(Self::of_ring(ring, FillPolicy::Ring))
    }

    /// Creates an empty ring whose memory grows with the lag of its reader. It grows by segments of
    /// [`SEGMENT_BYTES`] up to `limit_bytes`, and overwrites packets only at that limit. The limit
    /// is rounded up to whole segments, at least two, and down to less than 4 GiB.
    ///
    /// # Errors
    ///
    /// Returns [`BufferError::OutOfMemory`] if the operating system refuses the first segment.
    pub(crate) fn growing(limit_bytes: u64) -> Result<Self, BufferError> {
        let size_bytes = SEGMENT_BYTES;
        let ring = Ring::growing(SEGMENT_SHIFT, segments_max(limit_bytes))
            .map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self::of_ring(ring, FillPolicy::Ring))
    }

    pub(super) fn of_ring(ring: Ring, policy: FillPolicy) -> Self {
        Self {
            stats: BufferStats {
                buffer_size: u64::from(ring.size_bytes()),
                ..BufferStats::default()
            },
            ring,
            policy,
            intake: Intake::Open,
            sequences: SequenceTable::new(),
            storage: StorageCounts::default(),
            cycle: None,
            read_cycles: 0,
            packet: Vec::new(),
            observer: None,
            losing_writers: None,
        }
    }

    /// Creates an empty buffer of the same size and policy.
    ///
    /// # Errors
    ///
    /// Returns [`BufferError::OutOfMemory`] if the operating system refuses the memory.
    pub fn empty_copy(&self) -> Result<Self, BufferError> {
        if let Some(file) = self.ring.file() {
            let file = file.create_successor().map_err(BufferError::CrashFile)?;
            let ring = if self.can_ever_grow() {
                Ring::growing_in_file(SEGMENT_SHIFT, segments_max(self.capacity_bytes()), file)
            } else {
                Ring::in_file(file)
            };
            let ring = ring.map_err(BufferError::CrashFile)?;
            Ok(Self::of_ring(ring, self.policy))
        } else if self.can_ever_grow() {
            Self::growing(self.capacity_bytes())
        } else if self.ring.has_small_pages() {
            Self::of_small_pages(self.size_bytes(), self.policy)
        } else {
            Self::new(self.size_bytes(), self.policy)
        }
    }
}
