//! Completions for shells, and manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::error::ToolError;
use crate::output::stdout;
use crate::{Cli, Outcome};

/// Prints completions of this command for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: tracezero completions bash > ~/.local/share/bash-completion/completions/tracezero")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes the manual pages of this command and its subcommands into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero manual ~/.local/share/man/man1")]
pub(crate) struct ManualArgs {
    /// The folder, which is created if it does not exist
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<Outcome, ToolError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tracezero", &mut script);
    let mut out = stdout();
    out.write_all(&script)
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    Ok(Outcome::Fine)
}

pub(crate) fn manual(args: &ManualArgs) -> Result<Outcome, ToolError> {
    let written: io::Result<()> = fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder));
    written.map_err(|source| ToolError::Write {
        path: args.folder.clone(),
        source,
    })?;
    Ok(Outcome::Fine)
}
