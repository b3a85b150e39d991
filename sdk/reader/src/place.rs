//! Where in a trace a packet is.

use std::fmt;

/// Where a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketPlace {
    /// How many packets come before it. Compressed ones count one by one, their bundle does not.
    pub index: u64,
    /// Its first byte in the file, that of its tag; of a compressed packet, that of its bundle.
    pub offset: u64,
    /// Of a compressed packet: its first byte among the unpacked ones of its bundle.
    pub unpacked_offset: Option<u32>,
}

impl fmt::Display for PacketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}, offset {}", self.index, self.offset)?;
        match self.unpacked_offset {
            Some(offset) => write!(f, ", unpacked {offset}"),
            None => Ok(()),
        }
    }
}
