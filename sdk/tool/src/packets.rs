//! The packets of a trace, one by one, for commands that do not look at events.

use std::path::{Path, PathBuf};

use tracezero_reader::{Damage, PacketItem, PacketReader, RawPacket};

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;

/// Damages that are named one by one; of the others the number is told.
const MAX_NAMED_DAMAGES: u64 = 20;

/// A trace that is read packet by packet. Damage is reported on the standard error.
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

    /// Does not say what is damaged: for the first of two passes.
    pub(crate) fn open_quietly(path: &Path) -> Result<Self, ToolError> {
        let mut packets = Self::open(path)?;
        packets.damages.is_quiet = true;
        Ok(packets)
    }

    /// The packet that came last is malformed.
    pub(crate) fn reject_last(&mut self, error: protozero::DecodeError) {
        self.reader.reject_last(error);
    }

    /// The next packet. That there is none at all is an error.
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

    /// The packet that came last, with its tag and length before it.
    pub(crate) fn last_frame(&self) -> &[u8] {
        self.reader.last_frame()
    }

    /// How much of the file has been read.
    pub(crate) const fn read_bytes(&self) -> u64 {
        self.reader.offset()
    }

    /// Says what else was damaged, and whether anything was.
    pub(crate) fn finish(self) -> Outcome {
        self.damages.finish()
    }
}

/// Names what is damaged in a file, up to a number of places.
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

    /// An error that ended the reading, as one of the tool.
    pub(crate) fn read_error(&self, error: &tracezero_reader::ReadError) -> ToolError {
        ToolError::Read {
            path: self.path.clone(),
            message: error.to_string(),
        }
    }

    /// An error if no packet came out of the trace.
    pub(crate) fn require_packets(&self, packets: u64) -> Result<(), ToolError> {
        match packets {
            0 => Err(ToolError::Read {
                path: self.path.clone(),
                message: "there is no packet in it".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Places damaged so far.
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
