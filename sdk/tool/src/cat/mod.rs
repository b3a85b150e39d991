//! Packets as text, in protobuf's text format.

mod text; // a message as text

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use tracezero_core::protos::TracePacketDecoder;

use self::text::TextWriter;
use crate::Outcome;
use crate::error::ToolError;
use crate::output::stdout;
use crate::packets::Packets;
use crate::schema::Schema;

/// Prints packets as text
///
/// The output is a trace in protobuf's text format, with a comment in front of each packet that
/// says where it is. Fields have the names of Perfetto's schema as far as this tool knows it, and
/// those of the schemas that the trace has brought along until then; others have their numbers.
/// Packets that are compressed are shown unpacked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero cat --from-packet 1000 --packets 10 app.pftrace")]
pub(crate) struct Args {
    /// The trace, or - for the standard input
    file: PathBuf,
    /// Print the packets of this sequence only
    #[arg(long, value_name = "ID")]
    sequence: Option<u32>,
    /// Begin with this packet; the first one is 0
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from_packet: u64,
    /// Print so many packets at most
    #[arg(long, value_name = "COUNT")]
    packets: Option<u64>,
    /// Print field numbers instead of names, and values as they are encoded
    #[arg(long)]
    raw: bool,
}

/// Sequences that are named where none is the one that was asked for.
const MAX_NAMED_SEQUENCES: usize = 32;

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut packets = Packets::open(&args.file)?;
    let mut schema = Schema::of_sdk();
    let mut out = stdout();
    let mut left = args.packets.unwrap_or(u64::MAX);
    let mut seen = Seen::default();
    while left > 0
        && let Some(packet) = packets.next()?
    {
        let decoder = TracePacketDecoder::new(packet.bytes);
        schema.learn_from_packet(packet.bytes);
        // A packet that is malformed behind its id has none; it is still worth seeing.
        let sequence = decoder.trusted_packet_sequence_id().ok().flatten();
        if packet.place.index < args.from_packet
            || args.sequence.is_some_and(|wanted| sequence != Some(wanted))
        {
            seen.add(packet.place.index, sequence);
            continue;
        }
        seen.is_printed = true;
        left -= 1;
        let writer = TextWriter {
            schema: &schema,
            raw: args.raw,
        };
        let heading = match args.raw {
            true => "1 {",
            false => "packet {",
        };
        writeln!(out, "# {}\n{heading}", packet.place)
            .and_then(|()| writer.message(packet.bytes, schema.packet(), 1, &mut out))
            .and_then(|()| writeln!(out, "}}"))
            .map_err(ToolError::Output)?;
    }
    out.flush().map_err(ToolError::Output)?;
    let outcome = packets.finish();
    if left > 0 && !seen.is_printed {
        return Err(ToolError::Usage(seen.nothing_printed(args)));
    }
    Ok(outcome)
}

/// What there is in a trace, in case that nothing of it was asked for.
#[derive(Debug, Default)]
struct Seen {
    is_printed: bool,
    last_index: u64,
    /// As many as are named, and one more if there are more.
    sequences: BTreeSet<u32>,
}

impl Seen {
    /// A packet that is not printed.
    fn add(&mut self, index: u64, sequence: Option<u32>) {
        self.last_index = index;
        if !self.is_printed && self.sequences.len() <= MAX_NAMED_SEQUENCES {
            self.sequences.extend(sequence);
        }
    }

    fn nothing_printed(&self, args: &Args) -> String {
        let (from, last) = (args.from_packet, self.last_index);
        let Some(sequence) = args.sequence.filter(|_| from <= last) else {
            return format!(
                "--from-packet {from} is after the end: the packets of the trace are 0 to {last}"
            );
        };
        if self.sequences.contains(&sequence) {
            return format!("sequence {sequence} has no packet from packet {from} on");
        }
        let named = self.sequences.iter().take(MAX_NAMED_SEQUENCES);
        let named: Vec<String> = named.map(u32::to_string).collect();
        let more = match self.sequences.len() {
            ..=MAX_NAMED_SEQUENCES => "",
            _ => " and more",
        };
        format!(
            "no packet is of sequence {sequence}: the sequences of the trace are {}{more}",
            named.join(", ")
        )
    }
}
