//! Sessions that write their traces into files: each has a thread, because a disk may be slow.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracezero_core::ids::SessionId;
use tracezero_core::own_thread;
use tracezero_service::{FileProgress, State};

use crate::file_waker::FileWaker;
use crate::host::Host;
use crate::log::Subject;

/// Starts the thread that writes a session's file until the session has ended. The session must
/// already have its file. The thread calls `done` when the file is complete, or with the reason why
/// it is not.
///
/// # Errors
///
/// If the system cannot start a thread.
pub(crate) fn write_on_thread(
    host: &Arc<Host>,
    session: SessionId,
    waker: Arc<FileWaker>,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) -> io::Result<()> {
    let files = &host.open_files;
    let host = Arc::clone(host);
    let work = move || {
        // The session may wait for a trigger or for its start.
        if host.service.state(session) == Some(State::Configured) {
            waker.wait();
        }
        let outcome = loop {
            let written = host.service.write_into_file(session);
            // Wakes the event loop, because writing may have set timers.
            host.noted.waker.wake();
            match written {
                Ok(FileProgress::Open) => waker.wait(),
                Ok(FileProgress::Closed) => break Ok(()),
                Err(error) => {
                    let id = session.value();
                    (host.log).line(
                        Subject::Session,
                        format_args!("session {id}: its file has failed: {error}"),
                    );
                    break Err(format!("the file has failed: {error}"));
                }
            }
        };
        done(outcome);
        // Relaxed, like the other accesses: the count orders no other memory. The waker makes the
        // event loop look at the count again.
        host.open_files.fetch_sub(1, Ordering::Relaxed);
        host.noted.waker.wake();
    };
    files.fetch_add(1, Ordering::Relaxed);
    let spawned = own_thread::spawn("tracezero-file", work).map(drop);
    spawned.inspect_err(|_| {
        files.fetch_sub(1, Ordering::Relaxed);
    })
}
