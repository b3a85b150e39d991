//! Traces of processes that were killed, or are stuck.
//!
//! A session whose configuration is [`crash_safe`](crate::TraceConfig::crash_safe) keeps what it
//! records in *crash files*: its buffers, and the shared memory with the packets that threads have
//! just written. If the process ends without finishing the session, by `kill -9`, the OOM killer,
//! `abort` or a fault, the files stay, and a trace can be made of them. If the session streams into
//! a file, that trace begins with the file. The command `tracezero recover` makes it, and so can a
//! program, for its last run:
//!
//! ```
//! # #[cfg(feature = "recovery")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tracezero::{TraceConfig, crash, instant};
//!
//! # let directory = std::env::temp_dir().join(format!("tracezero-crash-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let crash_files = format!("/dev/shm/tracezero-doc-{}", std::process::id());
//! for leftover in crash::leftovers(&crash_files)? {
//!     for trace in leftover.recover_into(&directory)? {
//!         eprintln!("the last run was killed; its end is in {}", trace.path.display());
//!     }
//!     leftover.delete()?;
//! }
//!
//! let session = TraceConfig::default().crash_safe_in(&crash_files).record_in_memory()?;
//! instant!("app", "start");
//! let (_trace, report) = session.finish(); // removes the crash files of the session
//! assert_eq!(report.events, 1);
//! # std::fs::remove_dir_all(&directory)?;
//! # std::fs::remove_dir_all(&crash_files)?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "recovery"))]
//! # fn main() {}
//! ```
//!
//! # Processes that are stuck
//!
//! A process with crash files can be looked into from outside while it runs, or is stuck in a
//! deadlock, or is stopped: `tracezero inspect PID` prints its open spans, and
//! `LivingProcess` (with the feature `recovery`) reads its trace. The example `deadlock` does so.
//!
//! # What survives what
//!
//! | event | crash files in memory (tmpfs) | crash files on a disk |
//! |---|---|---|
//! | `kill -9`, OOM killer, `abort`, `SIGSEGV`, `_exit` | every packet that was finished | the same |
//! | a bug that writes into foreign memory | what it did not hit | the same |
//! | a container is removed | nothing, unless the directory is a volume | the same |
//! | the machine fails | nothing | nothing that can be relied on |
//!
//! A packet is lost if a thread was in the middle of it. So is a packet of several chunks whose
//! lengths were not patched yet. What was lost is in the accounts of the recovered trace.
//!
//! The directory must be on tmpfs, ext4 or xfs: the files are reserved as a whole, so that no later
//! store can fail. A forked child does not write to them.

#[doc(inline)]
pub use tracezero_core::crash_files::{CrashFilesError, default_directory};
#[cfg(feature = "recovery")]
#[doc(inline)]
pub use tracezero_crash::{
    Leftover, LiveTrace, LivingProcess, RecoverError, RecoveredTrace, leftovers, living,
};
