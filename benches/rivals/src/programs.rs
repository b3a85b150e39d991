//! Programs that a bench starts: daemons, commands, and programs that record; and a folder for their files.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The longest time that a program may take to start, or to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that runs. It is killed if it is dropped before it has ended.
pub struct Running {
    name: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program. Its errors are not shown.
    pub fn start(command: &mut Command, name: &'static str) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("{name}: {error}"))?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self {
            name,
            child,
            output,
        })
    }

    /// Waits for a line that begins with this word. Returns the rest of it.
    pub fn line(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.to_owned());
            }
            line.clear();
        }
        Err(format!("{} has ended", self.name).into())
    }

    /// Sends the line for which the program waits.
    pub fn go_on(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        Ok(input.write_all(b"\n")?)
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `INT`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-s", signal, &id]).status()?;
        Ok(())
    }

    /// Returns true once the program has ended, well or not.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    ///
    /// If it takes too long, or fails.
    pub fn wait(&mut self) -> Result<()> {
        let name = self.name;
        wait_for(|| self.has_ended(), name)?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{}: {status}", self.name).into())
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kills the program if it still runs, as daemons do. A program that was waited for has
        // ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until it is so.
///
/// # Errors
///
/// If it takes too long.
pub fn wait_for(mut is_so: impl FnMut() -> bool, what: &str) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    while !is_so() {
        if Instant::now() > limit {
            return Err(format!("{what}: waited for {LIMIT:?}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Calls `measure` with a folder for the files of a bench, which is removed afterwards.
///
/// # Errors
///
/// The error of `measure`, or else that of the folder.
pub fn with_folder<T>(
    parent: &Path,
    bench: &str,
    measure: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let folder = parent.join(format!("{bench}-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let measured = measure(&folder);
    let removed = fs::remove_dir_all(&folder);
    let measured = measured?;
    removed?;
    Ok(measured)
}
