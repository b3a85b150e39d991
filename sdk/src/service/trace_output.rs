//! The file that a trace is streamed into.

use std::fs::File;
use std::io::{self, Write};

/// A trace file that is being written.
#[derive(Debug)]
pub(crate) struct TraceOutput {
    file: File,
    written_bytes: u64,
    /// The file stays smaller than this; 0 for no limit.
    limit_bytes: u64,
    /// Whether each write goes on to the disk at once.
    syncs: bool,
}

/// Whether there is room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    /// The next packet would have made the file too large.
    Full,
}

impl TraceOutput {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
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

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes a batch of framed packets: all, or those before the first one that would make the
    /// file reach its limit.
    pub(super) fn write(&mut self, batch: &[u8]) -> io::Result<Room> {
        let (fitting, room) = self.fitting(batch);
        self.file.write_all(fitting)?;
        self.written_bytes += fitting.len() as u64;
        Ok(room)
    }

    /// A pass over the buffers is over.
    pub(super) fn end_pass(&mut self) -> io::Result<()> {
        if self.syncs {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Has the disk take what it has not. Pipes and the like have no disk.
    pub(super) fn close(self) -> io::Result<()> {
        match self.file.sync_all() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            outcome => outcome,
        }
    }

    fn fitting<'b>(&self, batch: &'b [u8]) -> (&'b [u8], Room) {
        if self.limit_bytes == 0 || self.written_bytes + (batch.len() as u64) < self.limit_bytes {
            return (batch, Room::Left);
        }
        let mut end = 0;
        for packet_end in packet_ends(batch) {
            if self.written_bytes + packet_end as u64 >= self.limit_bytes {
                break;
            }
            end = packet_end;
        }
        (&batch[..end], Room::Full)
    }
}

/// Where each packet of a batch ends.
fn packet_ends(batch: &[u8]) -> impl Iterator<Item = usize> {
    let fields = protozero::Decoder::new(batch).fields();
    let start = batch.as_ptr() as usize;
    fields.map_while(move |field| match field.ok()?.value {
        protozero::Value::Bytes(bytes) => Some(bytes.as_ptr() as usize - start + bytes.len()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_below_its_limit_and_holds_whole_packets() {
        let batch = [0x0a, 2, 1, 2, 0x0a, 0, 0x0a, 1, 7];
        assert_eq!(packet_ends(&batch).collect::<Vec<_>>(), [4, 6, 9]);
        let path = std::env::temp_dir().join(format!("tracezero-output-{}", std::process::id()));
        let output = |limit| {
            let file = File::create(&path).expect("a file");
            TraceOutput::new(file).with_limits(limit, false)
        };
        for (limit, written, room) in [
            (0, 9, Room::Left),
            (10, 9, Room::Left),
            (9, 6, Room::Full),
            (6, 4, Room::Full),
            (4, 0, Room::Full),
        ] {
            let mut output = output(limit);
            assert_eq!(output.write(&batch).expect("written"), room);
            assert_eq!(output.written_bytes(), written);
            output.close().expect("closed");
            assert_eq!(
                std::fs::read(&path).expect("there"),
                batch[..written as usize]
            );
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
