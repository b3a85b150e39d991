//! Splits a trace file into packets, and decodes each of them.

use perfetto_protos::trace_packet::TracePacket;
use protobuf::rt::WireType;
use protobuf::{CodedInputStream, Message};

/// Field numbers that this file reads from the bytes themselves.
const TRACE_PACKET: u32 = 1;
const PREVIOUS_PACKET_DROPPED: u32 = 42;

/// The reason why the next packet cannot be read.
pub(crate) enum Unreadable {
    /// This packet cannot be read; the rest of the trace can.
    Packet(String),
    /// The rest of the trace cannot be read.
    Trace(String),
}

/// Reads the next packet, and its reasons for a loss: a bit mask, which the library's schema
/// declares as a `bool`.
pub(crate) fn next_packet(
    input: &mut CodedInputStream<'_>,
) -> Result<Option<(TracePacket, u64)>, Unreadable> {
    let broken = |error: protobuf::Error| Unreadable::Trace(format!("the file: {error}"));
    let Some(tag) = input.read_raw_tag_or_eof().map_err(broken)? else {
        return Ok(None);
    };
    if tag != (TRACE_PACKET << 3 | WireType::LengthDelimited as u32) {
        return Err(Unreadable::Trace(format!(
            "the file: tag {tag:#x} begins no packet"
        )));
    }
    let bytes = input.read_bytes().map_err(broken)?;
    let packet = TracePacket::parse_from_bytes(&bytes)
        .map_err(|error| Unreadable::Packet(format!("the packet: {error}")))?;
    let reasons = last_varint(&bytes, PREVIOUS_PACKET_DROPPED)
        .map_err(|error| Unreadable::Packet(format!("the packet: {error}")))?;
    Ok(Some((packet, reasons.unwrap_or(0))))
}

/// Returns the last value of a varint field, which is the one that counts in protobuf.
fn last_varint(message: &[u8], number: u32) -> protobuf::Result<Option<u64>> {
    let mut input = CodedInputStream::from_bytes(message);
    let mut last = None;
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        let wire_type = WireType::new(tag & 7);
        match wire_type {
            Some(WireType::Varint) if tag >> 3 == number => last = Some(input.read_uint64()?),
            Some(wire_type) => input.skip_field(wire_type)?,
            None => {}
        }
    }
    Ok(last)
}
