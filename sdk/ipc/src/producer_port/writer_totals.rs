//! The outcomes of the packets of writers, as their producer tells daemons of tracezero.

use protozero::DecodeError;
use tracezero_core::coordination::{PacketCounts, WriterTotals};

use super::{PART_BYTES, buffer_id, writer_id};
use crate::protos::tracezero_writer_totals_request::WriterDecoder;
use crate::protos::{TracezeroWriterTotalsRequest, TracezeroWriterTotalsRequestDecoder};
use crate::wire::encoded;

/// The maximum size of a thread's name, in bytes. The kernel's names are shorter.
const THREAD_NAME_MAX_BYTES: usize = 64;

/// Encodes [`Method::TracezeroWriterTotals`](super::Method::TracezeroWriterTotals). Calls `each` with
/// the requests: none, or several if there are too many writers for a frame.
pub fn writer_totals(totals: &[WriterTotals], mut each: impl FnMut(&[u8])) {
    /// The largest size of an encoded writer, whose thread's name is cut.
    const WRITER_BYTES: usize = 64 + THREAD_NAME_MAX_BYTES;
    for totals in totals.chunks(PART_BYTES / WRITER_BYTES) {
        each(&encoded::<TracezeroWriterTotalsRequest<'_>>(|out| {
            for writer in totals {
                write_totals(writer, out);
            }
        }));
    }
}

fn write_totals(writer: &WriterTotals, out: &mut TracezeroWriterTotalsRequest<'_>) {
    out.add_writers(|out| {
        out.set_writer_id(writer.writer_id.map_or(0, |id| id.0.into()));
        out.set_target_buffer(writer.target_buffer.0.into());
        if let Some(name) = &writer.thread_name {
            out.set_thread_name(&name[..name.floor_char_boundary(THREAD_NAME_MAX_BYTES)]);
        }
        let counts = &writer.counts;
        out.set_packets_begun(counts.packets_begun);
        out.set_packets_empty(counts.packets_empty);
        out.set_packets_dropped(counts.packets_dropped);
        out.set_drop_episodes(counts.drop_episodes);
    });
}

/// Decodes the counts. Leaves out writers that cannot be.
pub(super) fn decode(args: &[u8]) -> Result<Vec<WriterTotals>, DecodeError> {
    let request = TracezeroWriterTotalsRequestDecoder::new(args);
    let mut totals = Vec::new();
    for writer in request.writers() {
        totals.extend(decode_writer(&writer?)?);
    }
    Ok(totals)
}

/// Returns the counts of a writer, unless nothing can have its numbers.
fn decode_writer(writer: &WriterDecoder<'_>) -> Result<Option<WriterTotals>, DecodeError> {
    /// More packets than a writer can write. So sums of counts do not overflow.
    const PACKETS_MAX: u64 = 1 << 48;
    let count = |count: Option<u64>| count.unwrap_or_default().min(PACKETS_MAX);
    let writer_id = match writer.writer_id()? {
        None | Some(0) => None,
        number => match writer_id(number) {
            None => return Ok(None),
            id => id,
        },
    };
    let Some(target_buffer) = buffer_id(writer.target_buffer()?) else {
        return Ok(None);
    };
    let mut counts = PacketCounts::default();
    counts.packets_empty = count(writer.packets_empty()?);
    counts.packets_begun = count(writer.packets_begun()?).max(counts.packets_empty);
    counts.packets_dropped = count(writer.packets_dropped()?);
    counts.drop_episodes = count(writer.drop_episodes()?);
    Ok(Some(WriterTotals {
        writer_id,
        target_buffer,
        thread_name: writer.thread_name()?.map(str::to_owned),
        counts,
    }))
}

#[cfg(test)]
mod tests {
    use tracezero_core::ids::{BufferId, WriterId};

    use super::*;

    #[test]
    fn counts_of_writers_are_decoded_as_producers_encode_them() {
        let totals = |writer_id: u16| {
            let mut counts = PacketCounts::default();
            counts.packets_begun = 4;
            counts.packets_empty = 3;
            counts.packets_dropped = 2;
            counts.drop_episodes = 1;
            WriterTotals {
                writer_id: (writer_id > 0).then_some(WriterId(writer_id)),
                target_buffer: BufferId(7),
                thread_name: Some("thread".to_owned()),
                counts,
            }
        };
        let all: Vec<WriterTotals> = (0..2000).map(totals).collect();
        let (mut received, mut requests) = (Vec::new(), 0);
        writer_totals(&all, |args| {
            received.extend(decode(args).unwrap());
            requests += 1;
        });
        assert_eq!((received, requests), (all, 3));
    }

    #[test]
    fn counts_that_no_writer_can_have_are_limited() {
        let args = encoded::<TracezeroWriterTotalsRequest<'_>>(|out| {
            for writer_id in [1, 0x8000] {
                out.add_writers(|out| {
                    out.set_writer_id(writer_id);
                    out.set_target_buffer(1);
                    out.set_packets_empty(u64::MAX);
                });
            }
        });
        let totals = decode(&args).unwrap();
        let [writer] = &totals[..] else {
            panic!("{totals:?}");
        };
        let counts = &writer.counts;
        assert_eq!(
            (counts.packets_begun, counts.packets_empty),
            (1 << 48, 1 << 48)
        );
    }
}
