//! The position of a packet in a trace.

use std::fmt;

/// The position of a packet in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketPlace {
    /// The number of packets before this one. If packets are compressed as a bundle, each of them
    /// is counted, and the bundle is not.
    pub index: u64,
    /// The offset of the packet's tag in the file. For a packet in a compressed bundle, the offset
    /// of the bundle's tag.
    pub offset: u64,
    /// The offset of the packet's tag in the unpacked bytes of its bundle; `None` for a packet that
    /// is not compressed.
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
