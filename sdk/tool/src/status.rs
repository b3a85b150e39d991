//! Prints what the machine's tracing daemon has.

use std::io::{self, Write};

use tracezero_consumer::{Consumer, DaemonState, OfferedDataSource};

use crate::Outcome;
use crate::error::ToolError;
use crate::output::stdout;
use crate::table::Table;
use crate::units::{bytes, duration};

/// The maximum number of categories that are listed of a data source.
const CATEGORIES_MAX: usize = 10;

/// Prints the producers, data sources and sessions of the machine's tracing daemon
///
/// The daemon is `tracezero daemon` or Perfetto's `traced`, at the socket that the environment variable
/// PERFETTO_CONSUMER_SOCK_NAME names, or at the usual place. Sessions of other users are counted and not
/// listed, except for root.
///
/// A program with tracezero connects to the daemon if TRACEZERO_SYSTEM=1 is in its environment.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero status | grep my-service")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<Outcome, ToolError> {
    let mut consumer = Consumer::connect().map_err(ToolError::Consumer)?;
    let state = consumer.daemon_state().map_err(ToolError::Consumer)?;
    let mut out = stdout();
    print(&state, &mut out)
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    Ok(Outcome::Fine)
}

fn print(state: &DaemonState, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "daemon     {}", state.version)?;
    writeln!(
        out,
        "sessions   {}, {} of them started",
        state.num_sessions, state.num_sessions_started
    )?;

    writeln!(out, "\nproducers")?;
    let mut producers = Table::new(&["producer", "sdk", "data sources"], &["pid", "uid"]);
    for producer in &state.producers {
        let offered = state.data_sources.iter();
        let offered = offered.filter(|offered| offered.producer_id == producer.id);
        let names: Vec<String> = offered.map(with_categories).collect();
        producers.row([
            producer.name.clone(),
            producer.sdk_version.clone(),
            names.join(", "),
            producer.pid.to_string(),
            producer.uid.to_string(),
        ]);
    }
    print_table(&producers, out)?;

    writeln!(out, "\nsessions")?;
    let numbers = ["number", "uid", "buffers", "recording now", "duration"];
    let mut sessions = Table::new(&["session", "state"], &numbers);
    for session in &state.sessions {
        let buffers_kib = session.buffer_sizes_kib.iter().map(|kib| u64::from(*kib));
        sessions.row([
            session.unique_session_name.clone(),
            session.state.clone(),
            session.id.to_string(),
            session.consumer_uid.to_string(),
            bytes(buffers_kib.sum::<u64>() * 1024),
            session.num_data_sources.to_string(),
            match session.duration_ms {
                0 => "no limit".to_owned(),
                duration_ms => duration(u64::from(duration_ms) * 1_000_000),
            },
        ]);
    }
    print_table(&sessions, out)
}

/// Returns the name of a data source, with its categories.
fn with_categories(offered: &OfferedDataSource) -> String {
    let categories = &offered.categories;
    let listed = categories.iter().take(CATEGORIES_MAX);
    let listed: Vec<&str> = listed.map(String::as_str).collect();
    match categories.len() {
        0 => offered.name.clone(),
        1..=CATEGORIES_MAX => format!("{} ({})", offered.name, listed.join(" ")),
        count => format!(
            "{} ({} and {} more)",
            offered.name,
            listed.join(" "),
            count - CATEGORIES_MAX
        ),
    }
}

fn print_table(table: &Table, out: &mut impl Write) -> io::Result<()> {
    match table.is_empty() {
        true => writeln!(out, "  none"),
        false => table.print(out),
    }
}
