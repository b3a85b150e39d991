//! A program that runs, and the resources of a process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use support::resident_bytes;

use crate::machine::{PATIENCE, wait_until};

/// Descriptors and memory of a process, which it may leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possessions {
    pub descriptors: usize,
    pub resident_kib: usize,
}

impl Possessions {
    pub fn of(process: u32) -> Self {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        Self {
            descriptors: descriptors.count(),
            resident_kib: resident_bytes(process) / 1024,
        }
    }

    /// Checks that the process has no more descriptors than `before`, and hardly more memory.
    #[track_caller]
    pub fn check_level(self, before: Self, more_kib: usize) {
        assert!(
            self.descriptors <= before.descriptors
                && self.resident_kib <= before.resident_kib + more_kib,
            "{before:?}, now {self:?}"
        );
    }
}

/// A program that records. It is killed in the end.
pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Takes over a program whose input and output are pipes.
    pub fn of(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the program's descriptors and memory.
    pub fn possessions(&self) -> Possessions {
        Possessions::of(self.id())
    }

    /// Stops the program, and waits until all of its threads have stopped, or it has ended.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |status: String| ["State:\tT", "State:\tZ"].map(|it| status.contains(it));
        wait_until(|| {
            let mut tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
            tasks.all(|task| {
                let status = fs::read_to_string(task.unwrap().path().join("status"));
                status.is_ok_and(|status| is_stopped(status).contains(&true))
            })
        });
    }

    /// Returns the size of the shared memory that the daemon has given, in bytes. 0 if it has given
    /// none.
    pub fn shared_memory_bytes(&self) -> u64 {
        /// The names that `traced` and our daemon give to the memory.
        const NAMES: [&str; 2] = ["/memfd:perfetto_shmem", "/memfd:tracezero"];

        let maps = fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap();
        let sizes = maps
            .lines()
            .filter(|line| NAMES.iter().any(|name| line.contains(name)));
        let sizes = sizes.map(|line| {
            let range = line.split_whitespace().next().unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
            end - start
        });
        sizes.sum()
    }

    /// Reads lines until the program has said `word`.
    #[track_caller]
    pub fn wait_for(&mut self, word: &str) {
        while self.line(word).trim_end() != word {}
    }

    /// Reads the numbers in the next line that is not empty.
    #[track_caller]
    pub fn numbers(&mut self) -> Vec<u64> {
        loop {
            let line = self.line("numbers");
            if !line.trim_end().is_empty() {
                return line
                    .split_whitespace()
                    .map(|it| it.parse().unwrap())
                    .collect();
            }
        }
    }

    /// Reads the next line of a program that is to say something.
    #[track_caller]
    pub fn line(&mut self, expected: &str) -> String {
        if self.output.buffer().is_empty() {
            let output = PollFd::new(self.output.get_ref(), PollFlags::IN);
            let timeout = Timespec::try_from(PATIENCE).unwrap();
            let ready = poll(&mut [output], Some(&timeout)).unwrap();
            assert!(ready > 0, "the program does not say {expected:?}");
        }
        let mut line = String::new();
        let len = self.output.read_line(&mut line).unwrap();
        assert!(len > 0, "the program has ended before it said {expected:?}");
        line
    }

    /// Lets the program go on, which waits for a line.
    pub fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub fn wait(mut self) {
        let mut status = None;
        wait_until(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
    }

    pub fn kill(self) {
        self.kill_and_read();
    }

    /// Kills the program. Returns what it had said, and nobody has read.
    pub fn kill_and_read(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
