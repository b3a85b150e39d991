//! Reads the packets of a trace one by one, for commands that do not decode events.

use std::path::{Path, PathBuf};

use tracezero_reader::{Damage, PacketItem, PacketReader, RawPacket};

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;

/// The maximum number of damaged places that are reported one by one. Further ones are only
/// counted.
const MAX_NAMED_DAMAGES: u64 = 20;

/// Reads a trace packet by packet, and reports damage on the standard error.
pub(crate) struct Packets {
    reader: PacketReader<Input>,
    damages: DamageLog,
}

impl Packets {
    pub(crate) fn open(path: &Path) -> Result<Self, ToolError> {
        Ok(Self {
            reader: PacketReader::new(Input::open(path)?),
            damages: DamageLog::new(path),
        })
    }

    /// Opens a trace without reporting its damage, for the first of two passes.
    pub(crate) fn open_quietly(path: &Path) -> Result<Self, ToolError> {
        let mut packets = Self::open(path)?;
        packets.damages.is_quiet = true;
        Ok(packets)
    }

    /// Rejects the last packet as malformed.
    pub(crate) fn reject_last(&mut self, error: protozero::DecodeError) {
        self.reader.reject_last(error);
    }

    /// Reads the next packet. Fails if the trace has no packets at all.
    pub(crate) fn next(&mut self) -> Result<Option<RawPacket<'_>>, ToolError> {
        loop {
            match self.reader.next() {
                Ok(None) => {
                    self.damages.require_packets(self.reader.packets())?;
                    return Ok(None);
                }
                Ok(Some(PacketItem::Packet(_))) => break,
                Ok(Some(PacketItem::Damage(damage))) => self.damages.report(&damage),
                Err(error) => return Err(self.damages.read_error(&error)),
            }
        }
        Ok(Some(self.reader.last()))
    }

    /// Returns the last packet with its tag and length.
    pub(crate) fn last_frame(&self) -> &[u8] {
        self.reader.last_frame()
    }

    /// Returns the number of bytes of the file that have been read.
    pub(crate) const fn read_bytes(&self) -> u64 {
        self.reader.offset()
    }

    /// Reports how many more places were damaged, and returns whether there was any damage.
    pub(crate) fn finish(self) -> Outcome {
        self.damages.finish()
    }
}

/// Reports the damaged places of a file, up to a limit.
#[derive(Debug)]
pub(crate) struct DamageLog {
    path: PathBuf,
    count: u64,
    is_quiet: bool,
}

impl DamageLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            count: 0,
            is_quiet: false,
        }
    }

    pub(crate) fn report(&mut self, damage: &Damage) {
        self.count += 1;
        if self.count <= MAX_NAMED_DAMAGES && !self.is_quiet {
            eprintln!("{}: {damage}", self.path.display());
        }
    }

    /// Converts an error that ended the reading.
    pub(crate) fn read_error(&self, error: &tracezero_reader::ReadError) -> ToolError {
        ToolError::Read {
            path: self.path.clone(),
            message: error.to_string(),
        }
    }

    /// Fails if `packets`, the number of packets in the trace, is 0.
    pub(crate) fn require_packets(&self, packets: u64) -> Result<(), ToolError> {
        match packets {
            0 => Err(ToolError::Read {
                path: self.path.clone(),
                message: "the trace has no packets".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the number of damaged places so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn finish(self) -> Outcome {
        if self.count > MAX_NAMED_DAMAGES {
            let more = self.count - MAX_NAMED_DAMAGES;
            eprintln!("{}: {more} more damaged places", self.path.display());
        }
        match self.count {
            0 => Outcome::Fine,
            _ => Outcome::Findings,
        }
    }
}
