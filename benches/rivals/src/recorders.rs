//! Programs that record spans through a daemon: their SDKs, and the behaviour of writers when the
//! shared memory is full.

use std::process::Command;
use std::str::FromStr;

use crate::daemons::Programs;
use crate::programs;

/// The size of the shared memory, unless the policy is the default.
pub const MEMORY_KIB: u32 = 256;

/// The work of a program that records.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    pub sdk: Sdk,
    pub policy: Policy,
    pub threads: usize,
    /// The number of spans of each thread.
    pub spans: u64,
}

impl Recorder {
    /// Returns the command that starts the program.
    ///
    /// # Errors
    ///
    /// If the environment does not name the program.
    pub fn command(&self, programs: &Programs) -> programs::Result<Command> {
        let (threads, spans) = (self.threads.to_string(), self.spans.to_string());
        if self.sdk == Sdk::Cpp {
            // This program needs the policy as an argument: for track events, the C++ library
            // ignores the policy in the configuration.
            let program = programs.cpp_producer.as_ref();
            let mut command = Command::new(program.ok_or("the C++ producer is missing")?);
            command.args([&threads, &spans, self.policy.name()]);
            return Ok(command);
        }
        let mut command = Command::new(&programs.recorder);
        command.args(["record", self.sdk.name(), &threads, &spans]);
        if self.policy != Policy::Default {
            command.arg(MEMORY_KIB.to_string());
        }
        Ok(command)
    }
}

/// An SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Tracezero,
    /// Perfetto's own.
    Cpp,
    /// The official binding of the C++ library.
    Binding,
}

impl Sdk {
    pub const ALL: [Self; 3] = [Self::Tracezero, Self::Cpp, Self::Binding];

    /// Returns the name, as tables and arguments have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tracezero => "tracezero",
            Self::Cpp => "C++",
            Self::Binding => "perfetto-sdk",
        }
    }

    /// Returns true if the SDK has the policy. The binding drops track events, and has no setting for it.
    pub fn can(self, policy: Policy) -> bool {
        self != Self::Binding || policy != Policy::Wait
    }
}

impl FromStr for Sdk {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let sdk = Self::ALL.into_iter().find(|sdk| sdk.name() == name);
        sdk.ok_or_else(|| format!("{name}: not an SDK"))
    }
}

/// The behaviour of writers when the shared memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Drop,
    /// Writers wait, and drop packets after a time.
    Wait,
    /// The SDK's own defaults, also for the size of the memory.
    Default,
}

impl Policy {
    /// Returns the name, as tables and arguments have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Wait => "wait",
            Self::Default => "default",
        }
    }

    /// Returns the field of the configuration of a data source, or an empty text.
    pub fn in_config(self) -> &'static str {
        match self {
            Self::Drop => "buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP",
            Self::Wait => "buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_DROP",
            Self::Default => "",
        }
    }
}
