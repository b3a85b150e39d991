//! Why events of the kernel cannot be recorded.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why events of the kernel cannot be recorded, with what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum FtraceError {
    /// The kernel's file system for tracing is not there.
    NotMounted,
    /// This process may not control the tracer.
    Denied {
        /// What could not be opened.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel makes no buffers for the session.
    Create {
        /// The folder of the new instance.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A setting was refused.
    Write {
        /// The file of the setting.
        path: PathBuf,
        /// What was written.
        text: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The configuration names an instance of the tracer that does not exist.
    NoInstance(String),
    /// Somebody uses the instance of the tracer that the configuration names.
    InUse {
        /// The name of the instance.
        instance: String,
        /// By whom, or for what.
        by: String,
    },
    /// The thread that reads the events cannot be started.
    Thread(io::Error),
    /// The configuration is malformed, or asks for what this recorder does not do.
    Config(String),
}

impl FtraceError {
    /// Returns the error of a folder that could not be created.
    pub(super) fn create(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            _ => Self::Create { path, source },
        }
    }

    pub(super) const fn denied(path: PathBuf, source: io::Error) -> Self {
        Self::Denied { path, source }
    }
}

impl fmt::Display for FtraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => f.write_str(
                "tracefs is not mounted: run `mount -t tracefs nodev /sys/kernel/tracing` as root",
            ),
            Self::Denied { path, .. } => write!(
                f,
                "{} cannot be opened: run as root, or with the capability CAP_DAC_OVERRIDE",
                path.display()
            ),
            Self::Create { path, .. } => {
                write!(f, "{}: the kernel makes no buffers for it", path.display())
            }
            Self::Write { path, text, .. } => {
                write!(f, "{} does not accept {text:?}", path.display())
            }
            Self::NoInstance(name) => write!(
                f,
                "instance_name: {name:?} is no instance: create it with `mkdir \
                 /sys/kernel/tracing/instances/NAME`, or leave the field out"
            ),
            Self::InUse { instance, by } => {
                write!(f, "instance_name: {instance:?} is in use: {by}")
            }
            Self::Thread(_) => f.write_str("no thread can be started that reads the events"),
            Self::Config(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for FtraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Denied { source, .. }
            | Self::Create { source, .. }
            | Self::Write { source, .. }
            | Self::Thread(source) => Some(source),
            Self::NotMounted | Self::NoInstance(_) | Self::InUse { .. } | Self::Config(_) => None,
        }
    }
}
