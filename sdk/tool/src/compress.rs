//! Compresses traces, and unpacks them. Packets stay the same byte for byte, and so do the encoded
//! lengths before them.

use std::path::PathBuf;

use crate::Outcome;
use crate::error::ToolError;
use crate::output::{OutputFile, refuse_input};
use crate::packets::Packets;
use crate::trace_file::{Packing, TraceFile};
use crate::units::{bytes, plural};

/// Compresses a trace
///
/// Puts the packets into bundles of compressed packets, which Perfetto's tools and viewer read
/// directly. Packets that are compressed already are compressed again from scratch. The default is
/// zlib's deflate, which all readers support; zstd is faster and smaller, and Perfetto reads it
/// since v58.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero compress app.pftrace -o app.packed.pftrace")]
pub(crate) struct CompressArgs {
    /// The trace, or - for the standard input
    file: PathBuf,
    /// The file for the compressed trace, or - for the standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Use zstd
    #[arg(long)]
    zstd: bool,
    /// Compression level: 0 to 9 for deflate [default: 6], 1 to 22 for zstd [default: 3]
    #[arg(long, value_name = "LEVEL")]
    level: Option<u32>,
}

/// Unpacks the compressed packets of a trace
///
/// The packets are the same as before compression, byte for byte, including the encoded lengths
/// before them. A trace without compressed packets is copied. Damaged parts are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero decompress app.packed.pftrace -o app.pftrace")]
pub(crate) struct DecompressArgs {
    /// The trace, or - for the standard input
    file: PathBuf,
    /// The file for the trace, or - for the standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

pub(crate) fn compress(args: &CompressArgs) -> Result<Outcome, ToolError> {
    let (name, default, allowed) = match args.zstd {
        true => ("zstd", 3, 1..=22),
        false => ("deflate", 6, 0..=9),
    };
    let level = args.level.unwrap_or(default);
    if !allowed.contains(&level) {
        let (low, high) = allowed.into_inner();
        return Err(ToolError::Usage(format!(
            "--level {level} is out of range; {name} has levels {low} to {high}"
        )));
    }
    let packing = match args.zstd {
        // The cast is exact: the level is 22 at most.
        true => Packing::Zstd {
            level: level as i32,
        },
        false => Packing::Deflate { level },
    };
    copy(&args.file, &args.output, packing)
}

pub(crate) fn decompress(args: &DecompressArgs) -> Result<Outcome, ToolError> {
    copy(&args.file, &args.output, Packing::Plain)
}

fn copy(
    from: &std::path::Path,
    to: &std::path::Path,
    packing: Packing,
) -> Result<Outcome, ToolError> {
    refuse_input(to, [from])?;
    let mut packets = Packets::open(from)?;
    let mut trace = TraceFile::new(OutputFile::create(to)?, packing);
    while packets.next()?.is_some() {
        trace.write_frame(packets.last_frame())?;
    }
    let count = plural(trace.packets(), "packet");
    let (before, after) = (bytes(packets.read_bytes()), bytes(trace.finish()?));
    eprintln!("{count}, {before} to {after}");
    Ok(packets.finish())
}
