//! Ends a session that was left without its consumer.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tracezero_consumer::Consumer;

use crate::Outcome;
use crate::error::ToolError;
use crate::units::plural;

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
    let mut session = attached.map_err(|error| {
        ToolError::Usage(format!(
            "no session of this user is detached by the key {:?}, or it has ended: {error}",
            args.key
        ))
    })?;
    session.stop().map_err(ToolError::Consumer)?;
    let Some(path) = &args.output else {
        println!("the session has ended");
        return Ok(Outcome::Fine);
    };
    let packets = session.read(BufWriter::new(LateFile { path, file: None }));
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

/// A file that is created, or replaced, when there is something to write.
struct LateFile<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl Write for LateFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::create(self.path)?);
        }
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
