//! The thread that writes snapshots into files.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::collector::SaveJob;
use super::cut::write_trace;
use super::error::FlightError;
use super::files::{self, Folder};
use super::request_queue::RequestQueue;

/// The application's function that is called with the name of a snapshot, and its file or the
/// error.
pub(super) type OnSaved = Box<dyn Fn(&str, &Result<PathBuf, FlightError>) + Send + Sync>;

pub(super) struct Saver {
    pub(super) queue: Arc<RequestQueue>,
    pub(super) folder: Folder,
    pub(super) on_saved: Option<OnSaved>,
    pub(super) saves: Receiver<SaveJob>,
}

impl Saver {
    /// Writes snapshots until the collector has ended and its queue is empty.
    pub(super) fn run(self) {
        while let Ok(save) = self.saves.recv() {
            let SaveJob {
                request,
                parts,
                from_ns,
            } = save;
            let write = |mut out: &mut dyn Write| write_trace(&parts, from_ns, &mut out);
            let outcome = match &request.path {
                Some(path) => files::write_to(path, &write),
                None => {
                    let note = |error| self.queue.note_failure(error);
                    self.folder.write(&request.name, &write, note)
                }
            };
            // Drop these references early, so that the collector can free the parts.
            drop(parts);
            self.queue.finish(&request, outcome.clone());
            if let Some(on_saved) = &self.on_saved {
                // The application's function may panic. Later snapshots are still saved.
                let call = AssertUnwindSafe(|| on_saved(&request.name, &outcome));
                let _ = panic::catch_unwind(call);
            }
        }
    }
}
