//! Crash files: shared memory and trace buffers in files, which survive the process.
//!
//! A process that records with crash files has a folder:
//!
//! ```text
//! <directory>/<executable>-<pid>-<nonce>.tz/
//!   meta             which process this is, and the table of its writers with their counters
//!   smb              the shared memory, exactly as the ABI has it
//!   s<n>/            a session
//!     preamble       packets of the service: configuration, clocks, schemas
//!     output         the trace file, if the session streams into one
//!     part<n>        what a flight recorder has taken out of the buffers, and not saved yet
//!     b<n>.<m>       a trace buffer: 4 KiB of header, then the ring with its slots
//!     states<n>.<m>  the states of what this buffer has overwritten, and the changes since
//! ```
//!
//! Threads write to the same memory as without crash files; only the pages belong to files. When
//! the process is killed, the kernel keeps the files. `tracezero-crash` then makes traces of them.
//!
//! # What a kill can interrupt
//!
//! A kill stops the process between any two stores, and files have all stores before that, in the
//! order of the program. So each change has a moment in which it becomes valid:
//!
//! - *A chunk is copied into a ring.* The ring's header first names the place that is being
//!   written, and names no place when slot and header are complete. The chunk is still in the
//!   shared memory, because the service frees a chunk only after the copy.
//! - *A chunk grows.* The payload is written first: its old part does not change. Then one store
//!   of 4 bytes makes the new part valid ([`format::SlotState`]).
//! - *A chunk is evicted.* One store of 4 bytes makes its slot padding. If the new chunk covers it
//!   in part, the rest gets a header of its own before the new chunk names its place, so the ring is
//!   an unbroken chain of slots at any moment.
//! - *Packets of an evicted chunk are folded into a state.* They are first appended to the file of
//!   states, with the chunk's id. A recovery skips this chunk and older ones of its writer.
//! - *A counter is increased.* The store of a word is atomic.
//!
//! A folder of a living process is locked: see [`ProcessFolder`]. A folder is removed at the end of
//! its sessions, so what is left belongs to a process that was killed.

mod directory; // where folders are, and who may use them
mod error;
mod folder; // the folder of this process
pub mod format; // headers, slots, rows: encoded and decoded
mod ring_file; // a ring in a file
mod session_folder; // the folder of a session
mod state_file; // the states that a ring keeps
mod writer_rows; // the counters of writers, in a file or in memory

pub use directory::default_directory;
pub use error::CrashFilesError;
pub use folder::{
    FOLDER_SUFFIX, MEMORY_FILE, META_FILE, ProcessFolder, boot_id, is_of_this_process,
    process_start_ticks,
};
pub use ring_file::{FileSegment, RingFile};
pub use session_folder::{OUTPUT_FILE, PART_PREFIX, PREAMBLE_FILE, PartFile, SessionFolder};
pub use state_file::{STATES_PREFIX, StateFile};
pub use writer_rows::{Row, WriterRows};
