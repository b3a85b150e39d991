//! Ends a session that was left without its consumer.

use std::io::BufWriter;
use std::path::PathBuf;

use tracezero_consumer::{Consumer, ConsumerError, DaemonSession};

use crate::Outcome;
use crate::error::ToolError;
use crate::output::LateFile;
use crate::units::{events_and_packets, plural};

/// Ends a session that was detached, as by `tracezero record --detach KEY`
///
/// If the session does not write into a file, `-o` names the file for its trace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero stop nightly")]
pub(crate) struct Args {
    /// The key by which the session was detached
    key: String,
    /// The trace file of a session that does not write into a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let consumer = Consumer::connect().map_err(ToolError::Consumer)?;
    let attached = consumer.attach(&args.key);
    let mut session = attached.map_err(|error| match error {
        ConsumerError::Failed { .. } => no_such_key(&args.key),
        error => ToolError::Consumer(error),
    })?;
    session.stop().map_err(ToolError::Consumer)?;
    let Some(path) = &args.output else {
        println!("the session has ended{}", counts(&mut session));
        return Ok(Outcome::Fine);
    };
    let packets = session.read(BufWriter::new(LateFile::new(path)));
    match packets.map_err(ToolError::Consumer)? {
        0 => Err(ToolError::Usage(
            "the session has ended, and its trace is in the file that it was started with: -o is for \
             sessions without a file"
                .to_owned(),
        )),
        packets => {
            let packets = plural(packets, "packet");
            println!("{packets} written to {}", path.display());
            Ok(Outcome::Fine)
        }
    }
}

/// The error if no session was detached by a key.
pub(crate) fn no_such_key(key: &str) -> ToolError {
    ToolError::Usage(format!(
        "no session of this user is detached by the key {key:?}, or it has ended"
    ))
}

/// Formats the numbers of events in the trace and of lost packets. Returns an empty text for `traced`,
/// which does not count them.
fn counts(session: &mut DaemonSession) -> String {
    match session.packet_totals() {
        Ok(totals) => {
            let recorded = events_and_packets(totals.events, totals.data_packets);
            format!(": {recorded}, {} lost", totals.lost)
        }
        Err(_) => String::new(),
    }
}
