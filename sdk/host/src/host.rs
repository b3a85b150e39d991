//! The state that all connections of a daemon share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tracezero_service::Service;

use crate::detached::Detached;
use crate::log::{Log, Subject};
use crate::memory::MemoryQuotas;
use crate::outgoing::Noted;
use crate::output_folder::OutputFolder;
use crate::slow_readers::WaitLimits;

/// The state that all connections of a daemon share.
pub(crate) struct Host {
    pub(crate) service: Arc<Service>,
    /// The user that the daemon runs as.
    pub(crate) uid: u32,
    pub(crate) log: Log,
    pub(crate) memory_quotas: Arc<MemoryQuotas>,
    /// Where trace files of other users may be, if anywhere.
    pub(crate) output_folder: Option<OutputFolder>,
    /// True if sessions record what they do not list, too.
    pub(crate) records_all: bool,
    /// How long a producer waits for files that do not keep up.
    pub(crate) wait_limits: WaitLimits,
    pub(crate) detached: Detached,
    /// True once the daemon was asked to end. Then no session begins.
    pub(crate) is_ending: AtomicBool,
    /// The number of threads that write files.
    pub(crate) open_files: AtomicUsize,
    pub(crate) noted: Arc<Noted>,
}

impl Host {
    /// Frees the detached sessions that have ended.
    pub(crate) fn free_ended(&self) {
        for session in self.noted.take_ended() {
            if self.detached.remove_session(session) {
                self.service.free(session);
                let id = session.value();
                self.log.line(
                    Subject::Session,
                    format_args!("session {id} has ended, and nobody attached it"),
                );
            }
        }
    }
}
