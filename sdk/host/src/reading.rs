//! A trace that a consumer reads, in parts: no more of it is in memory than waits for the consumer.

use protozero::split_varint;
use tracezero_core::ids::SessionId;
use tracezero_ipc::consumer_port::read_buffers::SliceBatcher;
use tracezero_service::Service;

use crate::outgoing::Outgoing;

/// The size of a part, in bytes.
const PART_BYTES: usize = 256 * 1024;

/// The tag of a packet in a trace.
const PACKET_TAG: u8 = 0x0a;

/// A trace that a consumer reads.
pub(crate) struct Reading {
    session: SessionId,
    request_id: u64,
    part: Vec<u8>,
    slices: SliceBatcher,
}

impl Reading {
    pub(crate) fn new(session: SessionId, request_id: u64) -> Self {
        Self {
            session,
            request_id,
            part: Vec::new(),
            slices: SliceBatcher::new(),
        }
    }

    /// Returns the size of the last part, in bytes.
    pub(crate) fn part_bytes(&self) -> usize {
        self.part.len()
    }

    /// Sends the next part. Returns whether there are more. The last reply says that it is the last.
    pub(crate) fn send_part(&mut self, service: &Service, outgoing: &Outgoing) -> bool {
        self.part.clear();
        let has_more = service.read_some(self.session, PART_BYTES, &mut self.part);
        let send = |reply: &[u8]| {
            outgoing.reply_and_go_on(self.request_id, reply);
        };
        for packet in packets(&self.part) {
            self.slices.push(packet, send);
        }
        self.slices.finish(send);
        if !has_more {
            outgoing.reply(self.request_id, Some(&[]));
        }
        has_more
    }
}

/// Returns the packets of a trace that this service has made, without their tags and lengths.
fn packets(trace: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = trace;
    std::iter::from_fn(move || {
        let (&tag, behind) = rest.split_first()?;
        debug_assert_eq!(tag, PACKET_TAG);
        let (len, behind) = split_varint(behind)?;
        let packet;
        (packet, rest) = behind.split_at_checked(len as usize)?;
        Some(packet)
    })
}
