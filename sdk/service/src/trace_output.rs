//! The file that a trace is streamed into.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::segment_store::SegmentStore;
use crate::trace_file::TraceFile;
use tracezero_core::protos::sequences::recording_boundary::Kind as BoundaryKind;

/// The maximum size of the last packet of a trace, which says that the recording has ended. This
/// holds for a compressed packet, too, although compressing makes so small a packet larger.
pub(super) const END_MAX_BYTES: usize = 128;

/// A trace file that is being written.
#[derive(Debug)]
pub struct TraceOutput {
    file: TraceFile,
    /// The beginning of the trace, which is copied from another file before the first write.
    start: Option<WrittenPart>,
    written_bytes: u64,
    /// The file stays smaller than this; 0 means no limit.
    limit_bytes: u64,
    /// True if the file is synced to the disk after each pass.
    syncs: bool,
    /// The place of the file, if it is a segment.
    store: Option<Arc<dyn SegmentStore>>,
}

/// The contents of a trace file at one moment. Later writes only append to the file.
#[derive(Debug)]
pub(super) struct WrittenPart {
    file: TraceFile,
    /// The rest of the contents is from here on.
    at_bytes: u64,
    end_bytes: u64,
}

/// Reads by offsets: the file's position may be that of the thread that writes it.
impl Read for WrittenPart {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.end_bytes - self.at_bytes).unwrap_or(usize::MAX);
        let room = bytes.len().min(rest);
        let count = self.file.read_at(&mut bytes[..room], self.at_bytes)?;
        self.at_bytes += count as u64;
        Ok(count)
    }
}

/// An error: some packets of a batch are not in the file.
#[derive(Debug)]
pub(super) struct WriteError {
    /// The number of bytes of the batch that are in the file. They are whole packets.
    pub(super) written: usize,
    pub(super) cause: WriteErrorCause,
}

/// The reason why packets of a batch are not in the file.
#[derive(Debug)]
pub(super) enum WriteErrorCause {
    /// The file would have become too large.
    Full,
    Failed(io::Error),
}

impl WriteErrorCause {
    /// Returns how the trace ends, and the error that its owner gets.
    pub(super) fn into_end(self) -> (BoundaryKind, io::Result<()>) {
        match self {
            Self::Full => (BoundaryKind::END_FILE_FULL, Ok(())),
            Self::Failed(error) => (BoundaryKind::END_WRITE_FAILED, Err(error)),
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self {
            written: 0,
            cause: WriteErrorCause::Failed(error),
        }
    }
}

impl TraceOutput {
    /// Creates an output that writes into `file`.
    #[must_use]
    pub fn new(file: TraceFile) -> Self {
        Self {
            file,
            start: None,
            written_bytes: 0,
            limit_bytes: 0,
            syncs: false,
            store: None,
        }
    }

    /// Creates an output that writes a segment into `file`. `store` makes room before each write.
    #[must_use]
    pub fn of_segment(file: TraceFile, store: Arc<dyn SegmentStore>) -> Self {
        // The end is written regardless of the limit. If there is no room, no packet fits either.
        store.make_room(END_MAX_BYTES as u64);
        Self {
            store: Some(store),
            ..Self::new(file)
        }
    }

    pub(super) fn store(&self) -> Option<&Arc<dyn SegmentStore>> {
        self.store.as_ref()
    }

    pub(super) fn with_limits(mut self, limit_bytes: u64, syncs: bool) -> Self {
        self.limit_bytes = limit_bytes;
        self.syncs = syncs;
        self
    }

    /// Makes the trace begin with the contents of another file.
    pub(super) fn starting_with(mut self, start: WrittenPart) -> Self {
        self.start = Some(start);
        self
    }

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns the present contents of the file, to be copied later.
    pub(super) fn written_part(&self) -> io::Result<WrittenPart> {
        let begin_bytes = self.file.begin_bytes()?;
        let part = WrittenPart {
            file: self.file.to_read()?,
            at_bytes: begin_bytes,
            end_bytes: begin_bytes + self.written_bytes,
        };
        // So that a descriptor that cannot be read fails here, before a buffer is emptied.
        part.file.read_at(&mut [0], begin_bytes)?;
        Ok(part)
    }

    /// Begins a pass over the buffers. The first pass copies the beginning of the trace.
    pub(super) fn begin_pass(&mut self) -> io::Result<()> {
        self.file.find_begin()?;
        let Some(mut start) = self.start.take() else {
            return Ok(());
        };
        self.written_bytes += io::copy(&mut start, &mut self.file)?;
        match start.at_bytes == start.end_bytes {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes a batch of framed packets: all of them, or those before the first one that would make
    /// the file reach its limit.
    ///
    /// If writing fails, the file keeps whole packets only. A file that can be shortened also keeps
    /// enough room for the packet that ends the trace.
    pub(super) fn write(&mut self, batch: &[u8]) -> Result<(), WriteError> {
        let fitting = self.fitting(batch);
        let (count, outcome) = self.write_as_far_as_possible(fitting);
        if let Err(error) = outcome {
            let room_for_end = count.saturating_sub(END_MAX_BYTES);
            let cut = whole_packets_bytes(fitting, room_for_end);
            let written = match self.cut_at(self.written_bytes + cut as u64) {
                Ok(()) => cut,
                // A pipe cannot be shortened.
                Err(_) => whole_packets_bytes(fitting, count),
            };
            self.written_bytes += written as u64;
            return Err(WriteError {
                written,
                // The store has told its owner of a full disk. The session goes on.
                cause: match self.store.is_some() && is_disk_full(&error) {
                    true => WriteErrorCause::Full,
                    false => WriteErrorCause::Failed(error),
                },
            });
        }
        self.written_bytes += fitting.len() as u64;
        if fitting.len() < batch.len() {
            return Err(WriteError {
                written: fitting.len(),
                cause: WriteErrorCause::Full,
            });
        }
        Ok(())
    }

    /// Writes the packet that ends the trace, regardless of the limit. An empty file stays empty,
    /// because there is no trace to end.
    pub(super) fn write_end(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.written_bytes == 0 {
            return Ok(());
        }
        let (_, outcome) = self.write_as_far_as_possible(packet);
        match outcome {
            Ok(()) => self.written_bytes += packet.len() as u64,
            Err(_) => {
                // A pipe cannot be shortened.
                let _ = self.cut_at(self.written_bytes);
            }
        }
        outcome
    }

    /// Shortens the trace in the file and continues at its new end.
    fn cut_at(&mut self, trace_bytes: u64) -> io::Result<()> {
        let end_bytes = self.file.begin_bytes()? + trace_bytes;
        self.file.set_len(end_bytes)?;
        let mut file: &File = &self.file;
        file.seek(SeekFrom::Start(end_bytes)).map(drop)
    }

    /// Ends a pass over the buffers.
    pub(super) fn end_pass(&mut self) -> io::Result<()> {
        if self.syncs {
            has_no_disk_or(self.file.sync_data())?;
        }
        Ok(())
    }

    /// Syncs the file to the disk.
    pub(super) fn close(self) -> io::Result<()> {
        has_no_disk_or(self.file.sync_all())
    }

    /// Writes bytes until an error occurs, and goes on if the store makes room on a full disk. Returns
    /// how many bytes were written.
    fn write_as_far_as_possible(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut count = 0;
        loop {
            let (more, outcome) = write_as_far_as_possible(&mut self.file, &bytes[count..]);
            count += more;
            let makes_room = |error: &io::Error| {
                let store = self.store.as_ref().filter(|_| is_disk_full(error));
                store.is_some_and(|store| store.make_room_on_disk(error))
            };
            if !outcome.as_ref().is_err_and(makes_room) {
                return (count, outcome);
            }
        }
    }

    fn fitting<'b>(&self, batch: &'b [u8]) -> &'b [u8] {
        if let Some(store) = &self.store
            && !store.make_room(batch.len() as u64)
        {
            return &[];
        }
        if self.limit_bytes == 0 || self.written_bytes + (batch.len() as u64) < self.limit_bytes {
            return batch;
        }
        // Keep the file smaller than its limit.
        let room_bytes = self.limit_bytes.saturating_sub(self.written_bytes + 1);
        let room_bytes = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        &batch[..whole_packets_bytes(batch, room_bytes)]
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Returns the outcome of a sync. Ignores the error of files without a disk, such as pipes.
fn has_no_disk_or(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

/// Writes bytes until an error occurs. Returns how many were written.
fn write_as_far_as_possible(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut count = 0;
    while count < bytes.len() {
        match out.write(&bytes[count..]) {
            Ok(0) => return (count, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (count, Err(error)),
        }
    }
    (count, Ok(()))
}

/// Returns the total length of the packets of a batch that end in its first `limit` bytes.
fn whole_packets_bytes(batch: &[u8], limit: usize) -> usize {
    let ends = packet_ends(batch).take_while(|&end| end <= limit);
    ends.last().unwrap_or(0)
}

/// Returns the offset of the end of each packet of a batch.
fn packet_ends(batch: &[u8]) -> impl Iterator<Item = usize> {
    let mut fields = protozero::Decoder::new(batch).fields();
    std::iter::from_fn(move || {
        fields.next()?.ok()?;
        Some(fields.offset())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use support::Folder;
    use tracezero_core::received_file::{ClosingFiles, ReceivedFile};

    use super::*;

    fn create(path: &Path) -> TraceOutput {
        TraceOutput::new(File::create(path).expect("a file").into())
    }

    #[test]
    fn a_file_stays_below_its_limit_and_holds_whole_packets() {
        let batch = [0x0a, 2, 1, 2, 0x0a, 0, 0x0a, 1, 7];
        assert_eq!(packet_ends(&batch).collect::<Vec<_>>(), [4, 6, 9]);
        for (limit, fitting) in [(0, 9), (10, 9), (9, 6), (6, 4), (4, 0)] {
            let folder = Folder::empty();
            let mut output = create(&folder.file("limited")).with_limits(limit, false);
            match output.write(&batch) {
                Ok(()) => assert_eq!(fitting, 9, "limit {limit}"),
                Err(refused) => {
                    assert_eq!(refused.written, fitting, "limit {limit}");
                    assert!(matches!(refused.cause, WriteErrorCause::Full));
                }
            }
            assert_eq!(output.written_bytes(), fitting as u64);
            output.close().expect("closed");
            assert_eq!(folder.read("limited"), batch[..fitting]);
        }
    }

    #[test]
    fn a_copy_begins_with_what_was_written_when_it_was_asked_for() {
        let folder = Folder::empty();
        let path = folder.file("source");
        let mut source = create(&path);
        source.write(&[0x0a, 1, 7]).expect("written");
        let part = source.written_part().expect("a part");
        source.write(&[0x0a, 0]).expect("written");
        std::fs::remove_file(&path).expect("removed, which changes nothing");

        let mut copy = create(&folder.file("copy")).starting_with(part);
        copy.begin_pass().expect("copied");
        copy.write(&[0x0a, 1, 8]).expect("written");
        copy.begin_pass().expect("nothing to do");
        assert_eq!(copy.written_bytes(), 6);
        assert_eq!(folder.read("copy"), [0x0a, 1, 7, 0x0a, 1, 8]);
    }

    /// Opens a file that begins with a secret, for writing behind it, as another process does.
    fn behind_a_secret(folder: &Folder, options: &mut std::fs::OpenOptions) -> TraceOutput {
        let path = folder.file("given");
        std::fs::write(&path, "secret").expect("written");
        let mut file = options.open(path).expect("a file");
        file.seek(SeekFrom::End(0)).expect("at its end");
        let file = ReceivedFile::new(file.into(), &ClosingFiles::default());
        let mut output = TraceOutput::new(TraceFile::of_other_process(file));
        output.begin_pass().expect("a file");
        output
    }

    #[test]
    fn a_copy_of_a_given_file_has_the_trace_alone() {
        for appends in [false, true] {
            let folder = Folder::empty();
            let mut options = File::options();
            options.read(true).write(!appends).append(appends);
            let mut source = behind_a_secret(&folder, &mut options);
            source.write(&[0x0a, 1, 7]).expect("written");
            let part = source.written_part().expect("a part");
            let mut copy = create(&folder.file("copy")).starting_with(part);
            copy.begin_pass().expect("copied");
            assert_eq!(folder.read("copy"), [0x0a, 1, 7]);
            source.cut_at(0).expect("shortened");
            source.write(&[0x0a, 0]).expect("written");
            assert_eq!(folder.read("given"), b"secret\x0a\0");
        }
    }

    #[test]
    fn a_given_file_that_cannot_be_read_is_not_copied() {
        let folder = Folder::empty();
        let mut source = behind_a_secret(&folder, File::options().write(true));
        source.write(&[0x0a, 1, 7]).expect("written");
        let error = source.written_part().expect_err("it is for writing alone");
        let not_for_reading = rustix::io::Errno::BADF.raw_os_error();
        assert_eq!(error.raw_os_error(), Some(not_for_reading));
    }
}
