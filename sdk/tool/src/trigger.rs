//! Activates triggers of the machine's tracing daemon.

use tracezero_consumer::{Address, activate_triggers};

use crate::Outcome;
use crate::error::ToolError;

/// Activates triggers, for which sessions of the machine's tracing daemon may wait
///
/// A configuration with a trigger_config starts, stops or clones its session when one of its triggers is
/// activated. The daemon is at the socket that the environment variable PERFETTO_PRODUCER_SOCK_NAME
/// names, or at the usual place. It does not tell whether any session waits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero trigger slow_request")]
pub(crate) struct Args {
    /// The names of the triggers
    #[arg(required = true)]
    names: Vec<String>,
    /// The name of this producer, by which configurations may choose whose triggers they accept
    #[arg(long, value_name = "NAME", default_value = "tracezero-trigger")]
    producer_name: String,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let address = Address::of_producers().map_err(|error| ToolError::Usage(error.to_string()))?;
    let activated = activate_triggers(&address, &args.producer_name, &args.names);
    activated.map_err(ToolError::Consumer)?;
    Ok(Outcome::Fine)
}
