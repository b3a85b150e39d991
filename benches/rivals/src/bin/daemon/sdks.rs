//! The SDKs, and what their writers do when the shared memory is full.

use std::str::FromStr;

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

    pub fn name(self) -> &'static str {
        match self {
            Self::Tracezero => "tracezero",
            Self::Cpp => "C++",
            Self::Binding => "perfetto-sdk",
        }
    }

    /// The binding drops track events, and has no setting for it.
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
    /// They wait, and drop packets after a time.
    Wait,
    /// The SDK's own defaults, also for the size of the memory.
    Default,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Wait => "wait",
            Self::Default => "default",
        }
    }

    /// The name of the policy in configurations.
    pub fn in_config(self) -> Option<&'static str> {
        match self {
            Self::Drop => Some("BUFFER_EXHAUSTED_DROP"),
            Self::Wait => Some("BUFFER_EXHAUSTED_STALL_THEN_DROP"),
            Self::Default => None,
        }
    }
}
