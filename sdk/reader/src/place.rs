//! The position of a packet in a trace.

use std::fmt;

/// The position of a packet in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketPlace {
    /// The number of packets before it. Each compressed packet counts; the bundle that holds it
    /// does not.
    pub index: u64,
    /// The offset in the file of the packet's tag. For a compressed packet, the offset of the tag
    /// of its bundle.
    pub offset: u64,
    /// The offset of the packet's tag among the unpacked bytes of its bundle, for a compressed
    /// packet.
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
