//! Writes what a session of the machine's tracing daemon has so far.

use std::fs::{self, File};
use std::path::PathBuf;

use tracezero_consumer::{Consumer, SessionToClone};

use crate::Outcome;
use crate::error::ToolError;

/// Writes what a session of the machine's tracing daemon has so far into a file
///
/// The session goes on. Without a session's name or number, there must be one session alone;
/// `tracezero status` lists them.
///
/// If the daemon is `traced`, a snapshot of a session that writes into a file lacks what the file has
/// already, often so much that readers can decode none of its events. `tracezero daemon` copies the
/// file, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero snapshot -o now.pftrace")]
pub(crate) struct Args {
    /// The session's number, its unique_session_name, or the KEY of `tracezero record --detach KEY`
    session: Option<String>,
    /// The trace file; a file of this name is replaced
    #[arg(short, long, value_name = "FILE", default_value = "snapshot.pftrace")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let mut consumer = Consumer::connect().map_err(ToolError::Consumer)?;
    let session = match &args.session {
        Some(session) => session.clone(),
        None => only_session(&mut consumer)?.to_string(),
    };
    let session = match session.parse() {
        Ok(number) => SessionToClone::Id(number),
        Err(_) => SessionToClone::Name(&session),
    };
    let file = File::create(&args.output).map_err(|source| ToolError::Write {
        path: args.output.clone(),
        source,
    })?;
    if let Err(error) = consumer.clone_to_file(session, file) {
        let _ = fs::remove_file(&args.output);
        return Err(ToolError::Consumer(error));
    }
    println!("written to {}", args.output.display());
    Ok(Outcome::Fine)
}

/// Returns the number of the only session.
fn only_session(consumer: &mut Consumer) -> Result<u64, ToolError> {
    let state = consumer.daemon_state().map_err(ToolError::Consumer)?;
    match &state.sessions[..] {
        [session] => Ok(session.id),
        [] => Err(ToolError::Usage(
            "the daemon has no session of this user".to_owned(),
        )),
        sessions => Err(ToolError::Usage(format!(
            "the daemon has {} sessions: name one of those that `tracezero status` lists",
            sessions.len()
        ))),
    }
}
