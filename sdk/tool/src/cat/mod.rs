//! Prints packets in protobuf's text format.

mod text; // a message as text

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use tracezero_core::protos::TracePacketDecoder;
use tracezero_reader::FullStates;

use self::text::TextWriter;
use crate::Outcome;
use crate::error::ToolError;
use crate::output::stdout;
use crate::packets::Packets;
use crate::schema::Schema;

/// Prints packets as text
///
/// The output is a trace in protobuf's text format, with a comment before each packet that gives
/// its position. Fields have the names of Perfetto's schema, as far as this tool knows it, and of
/// extension schemas in the trace (from the standard input, of those that come earlier); unknown fields
/// have their numbers. Compressed
/// packets are unpacked. If a data source has a ProtoVM program, the full state after each change is
/// printed instead of the change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero cat --from-packet 1000 --packets 10 app.pftrace")]
pub(crate) struct Args {
    /// The trace, or - for the standard input
    file: PathBuf,
    /// Print only the packets of this sequence
    #[arg(long, value_name = "ID")]
    sequence: Option<u32>,
    /// Start at this packet; the first one is 0
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from_packet: u64,
    /// Print at most this many packets
    #[arg(long, value_name = "COUNT")]
    packets: Option<u64>,
    /// Print field numbers instead of names, and values as encoded
    #[arg(long)]
    raw: bool,
    /// Print changes as they are in the file, instead of the full state after each; implied by --raw
    #[arg(long)]
    patches: bool,
}

/// The maximum number of sequences that an error message lists.
const MAX_NAMED_SEQUENCES: usize = 32;

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut schema = Schema::of_sdk();
    // In the trace of a ring, packets may come before the schema that they need. So a file is read
    // twice, the first time for its schemas alone. The standard input can be read only once.
    if args.file.is_file() && !args.raw {
        let mut packets = Packets::open_quietly(&args.file)?;
        while let Ok(Some(packet)) = packets.next() {
            schema.learn_from_packet(packet.bytes);
        }
    }
    let mut packets = Packets::open(&args.file)?;
    let mut out = stdout();
    let mut left = args.packets.unwrap_or(u64::MAX);
    let mut seen = Seen::default();
    let mut states = FullStates::new();
    while left > 0
        && let Some(packet) = packets.next()?
    {
        let decoder = TracePacketDecoder::new(packet.bytes);
        schema.learn_from_packet(packet.bytes);
        // A malformed packet may have no readable sequence id; it is still worth printing.
        let sequence = decoder.trusted_packet_sequence_id().ok().flatten();
        let full = match args.patches || args.raw {
            true => None,
            false => states.apply(packet.bytes).ok().flatten(),
        };
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
            .and_then(|()| {
                writer.message(full.unwrap_or(packet.bytes), schema.packet(), 1, &mut out)
            })
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

/// The packets that were not printed, for an error message if none is printed.
#[derive(Debug, Default)]
struct Seen {
    is_printed: bool,
    last_index: u64,
    /// The sequences of these packets. At most one more than the message lists: the additional one
    /// tells that there are more.
    sequences: BTreeSet<u32>,
}

impl Seen {
    /// Notes a packet that is not printed.
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
                "--from-packet {from} is after the end; the packets of the trace are 0 to {last}"
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
            "the trace has no packet of sequence {sequence}; its sequences are {}{more}",
            named.join(", ")
        )
    }
}
