//! Starts the command, and judges what it leaves.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::LazyLock;

use judge::{ExtraSchema, Options, Tool, Verdict, built_tool, judge_with};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use support::{Folder, not_run, wait_until};

/// A recording that was started.
pub struct Recording {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
    folder: Folder,
}

/// What a recording has left.
pub struct Recorded {
    pub status: ExitStatus,
    /// What the command has written to the standard error, and the program to either.
    pub said: String,
    pub folder: Folder,
}

/// Returns the path of the command `tracezero`.
fn tool() -> &'static Path {
    static TOOL: LazyLock<Tool> =
        LazyLock::new(|| built_tool(Path::new(env!("CARGO_BIN_EXE_judge"))));
    TOOL.binary()
}

/// Returns the command `tracezero record -o trace`, in a folder.
fn record(folder: &Folder, options: &[&str]) -> Command {
    // A shell that runs the tests in the background may let them ignore signals such as SIGINT. The
    // programs that the tests start inherit this. `env` restores the default actions.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM,HUP").arg(tool());
    command.arg("record").arg("-o").arg(trace(folder));
    command.args(options);
    // Not the terminal of whoever runs the tests.
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(Stdio::null());
    command
}

fn trace(folder: &Folder) -> PathBuf {
    folder.file("trace")
}

impl Recording {
    /// Records a program.
    pub fn start(options: &[&str], program: &Command) -> Self {
        let folder = Folder::empty();
        let command = record(&folder, options);
        Self::of(command, folder, program)
    }

    /// Records a program into a file on a disk of so many KiB. `None` if this user cannot mount one.
    pub fn start_on_small_disk(kib: u32, program: &Command) -> Option<Self> {
        if !geteuid().is_root() {
            not_run("a root user, who mounts a small disk");
            return None;
        }
        let folder = Folder::empty();
        fs::create_dir(folder.file("disk")).unwrap();
        let mut command = Command::new("unshare");
        // The disk is gone when the command ends.
        let script = format!(
            "mount -t tmpfs -o size={kib}k none disk && \"$0\" record -o disk/trace \"$@\"; \
             status=$?; cp disk/trace trace; exit $status"
        );
        command.args(["--mount", "sh", "-c"]).arg(script);
        command.arg(tool()).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        Some(Self::of(command, folder, program))
    }

    /// Records a program in a mount namespace of its own, after a script that mounts something. `None` if
    /// this user cannot mount anything.
    pub fn start_after(script: &str, options: &[&str], program: &Command) -> Option<Self> {
        if !geteuid().is_root() {
            not_run("a root user, who mounts file systems");
            return None;
        }
        let folder = Folder::empty();
        let mut command = Command::new("unshare");
        let script = format!("{script}; exec \"$@\"");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command
            .arg(tool())
            .arg("record")
            .arg("-o")
            .arg(trace(&folder));
        command.args(options).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Some(Self::of(command, folder, program))
    }

    fn of(mut command: Command, folder: Folder, program: &Command) -> Self {
        command.arg("--").arg(program.get_program());
        command.args(program.get_args());
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap());
        }
        let mut child = command.spawn().unwrap();
        Self {
            stderr: BufReader::new(child.stderr.take().unwrap()),
            said: String::new(),
            child,
            folder,
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the file has more bytes than this.
    pub fn wait_for_bytes(&self, count: u64) {
        let trace = trace(&self.folder);
        wait_until(|| fs::metadata(&trace).is_ok_and(|file| file.len() > count));
    }

    /// Waits until the command says this.
    #[track_caller]
    pub fn wait_for_line(&mut self, text: &str) {
        while !self.said.contains(text) {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert!(read > 0, "{text:?} is not in:\n{}", self.said);
        }
    }

    pub fn finish(mut self) -> Recorded {
        self.stderr.read_to_string(&mut self.said).unwrap();
        Recorded {
            status: self.child.wait().unwrap(),
            said: self.said,
            folder: self.folder,
        }
    }
}

impl Recorded {
    /// Records a program until it ends.
    pub fn of(options: &[&str], program: &Command) -> Self {
        Recording::start(options, program).finish()
    }

    /// Records another program into the same file.
    pub fn again(self, options: &[&str], program: &Command) -> Self {
        let command = record(&self.folder, options);
        Recording::of(command, self.folder, program).finish()
    }

    /// Returns the trace, as a reader that is not ours sees it.
    #[track_caller]
    pub fn judged(&self) -> Verdict {
        self.judged_with(Options::default())
    }

    #[track_caller]
    pub fn judged_with(&self, options: Options) -> Verdict {
        let bytes = fs::read(trace(&self.folder)).unwrap();
        match judge_with(&bytes, &ExtraSchema::new(), options) {
            Ok(verdict) => verdict,
            Err(problems) => panic!("{problems:?}\n{}", self.said),
        }
    }

    /// Returns what the command `tracezero` prints about the trace.
    pub fn asked(&self, question: &[&str]) -> String {
        let asked = Command::new(tool())
            .args(question)
            .arg(trace(&self.folder))
            .output();
        let asked = asked.unwrap();
        assert!(
            asked.status.success(),
            "{}",
            String::from_utf8_lossy(&asked.stderr)
        );
        String::from_utf8(asked.stdout).unwrap()
    }

    pub fn has_file(&self) -> bool {
        trace(&self.folder).exists()
    }

    #[track_caller]
    pub fn assert_says(&self, text: &str) {
        assert!(
            self.said.contains(text),
            "{:?} is not in:\n{}",
            text,
            self.said
        );
    }
}

/// Writes a configuration file, and returns its path.
pub fn config_file(folder: &Folder, text: &str) -> PathBuf {
    folder.write("config", text)
}
