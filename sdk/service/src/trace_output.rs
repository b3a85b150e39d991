//! The file that a trace is streamed into.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;

use crate::trace_file::TraceFile;

/// Bytes that the last packet of a trace takes at most, which says that the recording ended; compressed
/// ones take more.
pub(super) const END_MAX_BYTES: usize = 128;

/// A trace file that is being written.
#[derive(Debug)]
pub struct TraceOutput {
    file: TraceFile,
    /// What goes before everything else.
    start: Option<WrittenPart>,
    written_bytes: u64,
    /// The file stays smaller than this; 0 for no limit.
    limit_bytes: u64,
    /// Whether each write goes on to the disk at once.
    syncs: bool,
}

/// What a trace file holds at one moment; it only grows afterwards.
#[derive(Debug)]
pub(super) struct WrittenPart {
    file: File,
    len_bytes: u64,
}

/// Packets of a batch are not in the file.
#[derive(Debug)]
pub(super) struct Refused {
    /// So many bytes of the batch are in it, which are whole packets.
    pub(super) written: usize,
    pub(super) cause: RefusalCause,
}

/// Why packets of a batch are not in the file.
#[derive(Debug)]
pub(super) enum RefusalCause {
    /// It would have become too large.
    Full,
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self {
            written: 0,
            cause: RefusalCause::Failed(error),
        }
    }
}

impl TraceOutput {
    /// Creates an output into `file`, which is empty.
    #[must_use]
    pub fn new(file: TraceFile) -> Self {
        Self {
            file,
            start: None,
            written_bytes: 0,
            limit_bytes: 0,
            syncs: false,
        }
    }

    pub(super) fn with_limits(mut self, limit_bytes: u64, syncs: bool) -> Self {
        self.limit_bytes = limit_bytes;
        self.syncs = syncs;
        self
    }

    /// Has the trace go on where another one is.
    pub(super) fn starting_with(mut self, start: WrittenPart) -> Self {
        self.start = Some(start);
        self
    }

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// What is in the file now, to be copied later.
    pub(super) fn written_part(&self) -> io::Result<WrittenPart> {
        // Opened anew, for reading and from the start. Not by its path: it may have another by now.
        let this_file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(WrittenPart {
            file: File::open(this_file)?,
            len_bytes: self.written_bytes,
        })
    }

    /// A pass over the buffers begins.
    pub(super) fn begin_pass(&mut self) -> io::Result<()> {
        let Some(start) = self.start.take() else {
            return Ok(());
        };
        let copied_bytes = io::copy(&mut start.file.take(start.len_bytes), &mut self.file)?;
        self.written_bytes += copied_bytes;
        if copied_bytes < start.len_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Writes a batch of framed packets: all, or those before the first one that would make the
    /// file reach its limit. Where that fails, the file keeps the packets that got into it, and has
    /// room for the last word, if it is a file that can be cut.
    pub(super) fn write(&mut self, batch: &[u8]) -> Result<(), Refused> {
        let fitting = self.fitting(batch);
        let (count, outcome) = write_as_far_as_possible(&mut self.file, fitting);
        if let Err(error) = outcome {
            let room_for_end = count.saturating_sub(END_MAX_BYTES);
            let cut = whole_packets_bytes(fitting, room_for_end);
            let written = match self.cut_at(self.written_bytes + cut as u64) {
                Ok(()) => cut,
                // Nothing of it comes back from a pipe.
                Err(_) => whole_packets_bytes(fitting, count),
            };
            self.written_bytes += written as u64;
            return Err(Refused {
                written,
                cause: RefusalCause::Failed(error),
            });
        }
        self.written_bytes += fitting.len() as u64;
        if fitting.len() < batch.len() {
            return Err(Refused {
                written: fitting.len(),
                cause: RefusalCause::Full,
            });
        }
        Ok(())
    }

    /// Writes the last packet, whatever the limit is. An empty file stays empty: there is nothing to
    /// say about it.
    pub(super) fn write_end(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.written_bytes == 0 {
            return Ok(());
        }
        let (_, outcome) = write_as_far_as_possible(&mut self.file, packet);
        match outcome {
            Ok(()) => self.written_bytes += packet.len() as u64,
            Err(_) => {
                // A pipe keeps what it has taken.
                let _ = self.cut_at(self.written_bytes);
            }
        }
        outcome
    }

    /// Shortens the file, which goes on from there.
    fn cut_at(&mut self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)?;
        let mut file: &File = &self.file;
        file.seek(SeekFrom::Start(len_bytes)).map(drop)
    }

    /// A pass over the buffers is over.
    pub(super) fn end_pass(&mut self) -> io::Result<()> {
        if self.syncs {
            has_no_disk_or(self.file.sync_data())?;
        }
        Ok(())
    }

    /// Has the disk take what it has not.
    pub(super) fn close(self) -> io::Result<()> {
        has_no_disk_or(self.file.sync_all())
    }

    fn fitting<'b>(&self, batch: &'b [u8]) -> &'b [u8] {
        if self.limit_bytes == 0 || self.written_bytes + (batch.len() as u64) < self.limit_bytes {
            return batch;
        }
        // The file stays below its limit.
        let room_bytes = self.limit_bytes.saturating_sub(self.written_bytes + 1);
        let room_bytes = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        &batch[..whole_packets_bytes(batch, room_bytes)]
    }
}

/// The outcome of a sync, which pipes and the like do not know.
fn has_no_disk_or(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

/// Writes bytes until that fails. Returns how many were written.
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

/// The length of the packets of a batch that end in its first `limit` bytes.
fn whole_packets_bytes(batch: &[u8], limit: usize) -> usize {
    let ends = packet_ends(batch).take_while(|&end| end <= limit);
    ends.last().unwrap_or(0)
}

/// Where each packet of a batch ends.
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
                    assert!(matches!(refused.cause, RefusalCause::Full));
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
}
