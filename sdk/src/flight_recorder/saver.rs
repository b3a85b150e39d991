//! The thread that writes snapshots into files.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::cut::write_trace;
use super::desk::Desk;
use super::error::FlightError;
use super::files::{self, Folder};
use super::keeper::Save;

/// Called with the name of a snapshot, and its file or why there is none.
pub(super) type OnSaved = Box<dyn Fn(&str, &Result<PathBuf, FlightError>) + Send + Sync>;

pub(super) struct Saver {
    pub(super) desk: Arc<Desk>,
    pub(super) folder: Folder,
    pub(super) on_saved: Option<OnSaved>,
    pub(super) saves: Receiver<Save>,
}

impl Saver {
    /// Works until the keeper is gone, and all that it has left is written.
    pub(super) fn run(self) {
        while let Ok(save) = self.saves.recv() {
            let Save {
                request,
                parts,
                from_ns,
            } = save;
            let outcome = match &request.path {
                Some(path) => files::write_to(path, |out| write_trace(&parts, from_ns, out)),
                None => self
                    .folder
                    .write(&request.name, |out| write_trace(&parts, from_ns, out)),
            };
            // The keeper may forget them.
            drop(parts);
            if let Ok(newest) = &outcome
                && request.path.is_none()
                && let Err(error) = self.folder.remove_surplus(newest)
            {
                self.desk.note_failure(error);
            }
            self.desk.finish(&request, outcome.clone());
            if let Some(on_saved) = &self.on_saved {
                // A panic there is the application's; later snapshots are saved all the same.
                let call = AssertUnwindSafe(|| on_saved(&request.name, &outcome));
                let _ = panic::catch_unwind(call);
            }
        }
    }
}
