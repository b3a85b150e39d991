//! Makes traces of what a killed process left behind.
//!
//! A session with crash files (`TraceConfig::crash_safe`) keeps its shared memory and its buffers in
//! files. When the process is killed, the kernel keeps them. This package finds the folders of dead
//! processes and makes a trace of each session in them:
//!
//! ```no_run
//! for leftover in tracezero_crash::leftovers(tracezero_crash::default_directory())? {
//!     for trace in leftover.recover_into("traces")? {
//!         println!("{}: {} events", trace.path.display(), trace.events);
//!     }
//!     leftover.delete()?;
//! }
//! # Ok::<(), tracezero_crash::RecoverError>(())
//! ```
//!
//! [`LivingProcess`] reads the files of a process that still runs, or is stuck.
//!
//! Nothing that is read is trusted: whatever is in the files, the result is a trace of what is
//! sound. Files are read, never mapped, so a file that becomes shorter meanwhile is an error.
//!
//! Applications use this as `tracezero::crash`.

mod error; // why nothing was recovered
mod folder; // the files of a folder
mod leftover; // folders of dead processes
mod living; // folders of living processes
mod process_files; // the folder of a process
mod recovered_trace; // what is known of a trace that was made
mod memory; // chunks in the shared memory
mod ring; // slots of a ring
mod settled; // copies of what changes meanwhile
mod trace_part; // what is in the trace file already
mod session; // all buffers of a session, and the trace of them

pub use error::RecoverError;
pub use leftover::{Leftover, leftovers};
pub use living::{LiveTrace, LivingProcess, living};
pub use recovered_trace::RecoveredTrace;
pub use tracezero_core::crash_files::default_directory;
pub use tracezero_service::SequenceAccount;
