//! The handles that an application holds while it records.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::TraceConfig;
use super::report::Report;
use super::trace_file::{Streaming, TraceFile, Waker};
use crate::error::Error;
use crate::producer::{self, SessionBuffer};
use crate::runtime::Runtime;
use crate::service::{CentralBuffer, TracingSession};

/// A recording that is streamed into a file while it goes on.
///
/// It finishes when it is dropped, also by a panic; [`Session::finish`] tells how it went. The
/// buffers are rings that a thread of its own drains, so a long recording neither grows nor loses.
///
/// ```
/// use tracezero::{Session, instant, span};
///
/// # let directory = std::env::temp_dir().join(format!("tracezero-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).expect("a temporary directory");
/// # let path = directory.join("app.pftrace");
/// let session = Session::to_file(&path)?;
/// {
///     let _span = span!("app", "work");
///     instant!("app", "half_way");
/// }
/// let report = session.finish()?;
/// println!("{report}"); // 3 events, 1234 bytes, 0 lost: app.pftrace
/// assert_eq!((report.events, report.losses.total()), (3, 0));
/// # std::fs::remove_dir_all(&directory).expect("removed");
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use = "a session ends when it is dropped"]
pub struct Session {
    /// `None` once it has finished.
    running: Option<(Place, Streaming)>,
    path: PathBuf,
}

impl Session {
    /// Records everything in this process into the file at `path`, which is created, or replaced
    /// if it exists.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or there is no memory or place for another session. No file
    /// is left behind.
    pub fn to_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        TraceConfig::default().record_to_file(path)
    }

    /// Stops recording, writes what is left and closes the file.
    ///
    /// Threads need not have ended: what they wrote so far is collected.
    ///
    /// # Errors
    ///
    /// If writing to the file failed, now or before. The file is a valid trace up to there.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Report, Error> {
        let Some((place, streaming)) = self.running.take() else {
            return Ok(Report::default());
        };
        place.stop_writers();
        let (mut session, mut file, streamed) = streaming.stop();
        place.collect_open_chunks();
        let mut batch = Vec::new();
        let written = streamed
            .and_then(|()| session.read(&mut batch, |batch| file.write(batch)))
            .and_then(|()| file.write(&mut session.epilogue()));
        let mut report = place.close(&session, file.written_bytes);
        report.path = Some(self.path.clone());
        match written {
            Ok(()) => Ok(report),
            Err(source) => Err(Error::File {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Who wants to know about errors calls `finish`.
        let _ = self.end();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A recording that stays in the buffers until it finishes: a ring keeps the newest packets.
///
/// ```
/// use tracezero::{InMemorySession, instant};
///
/// let session = InMemorySession::start()?;
/// instant!("app", "here");
/// let (trace, report) = session.finish();
/// assert_eq!(report.events, 1);
/// assert_eq!(report.bytes, trace.len() as u64);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use = "a session ends when it is dropped"]
pub struct InMemorySession {
    /// `None` once it has finished.
    running: Option<(Place, TracingSession)>,
    /// The packets that the trace begins with.
    preamble: Vec<u8>,
}

impl InMemorySession {
    /// Records everything in this process.
    ///
    /// # Errors
    ///
    /// If there is no memory or place for another session.
    pub fn start() -> Result<Self, Error> {
        TraceConfig::default().record_in_memory()
    }

    /// Stops recording; returns the trace and its account.
    #[must_use = "the trace is returned"]
    pub fn finish(mut self) -> (Vec<u8>, Report) {
        let mut trace = std::mem::take(&mut self.preamble);
        let Some((place, mut session)) = self.running.take() else {
            return (trace, Report::default());
        };
        place.stop_writers();
        place.collect_open_chunks();
        let Ok(()) = session.read(&mut trace, |_| Ok::<(), Infallible>(()));
        trace.extend(session.epilogue());
        let report = place.close(&session, trace.len() as u64);
        (trace, report)
    }
}

impl Drop for InMemorySession {
    fn drop(&mut self) {
        if let Some((place, _)) = self.running.take() {
            place.abandon();
        }
    }
}

impl fmt::Debug for InMemorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemorySession").finish_non_exhaustive()
    }
}

impl TraceConfig {
    /// Records into the file at `path`, which is created, or replaced if it exists.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself, the file cannot be created, or there is no memory
    /// or place for another session. No file is left behind.
    pub fn record_to_file(self, path: impl AsRef<Path>) -> Result<Session, Error> {
        let path = path.as_ref().to_owned();
        let waker = Arc::new(Waker::default());
        let (place, session) = {
            let waker = Arc::clone(&waker);
            Place::start(self, Some(move || waker.drain()))?
        };
        // Last, so that an error before leaves an existing file alone.
        let streaming = File::create(&path)
            .map_err(|source| Error::File {
                path: path.clone(),
                source,
            })
            .and_then(|file| {
                Streaming::start(session, TraceFile::new(file), waker).map_err(|source| {
                    // An empty file is no trace. That it cannot be removed changes nothing.
                    let _ = std::fs::remove_file(&path);
                    Error::Thread(source)
                })
            })
            .inspect_err(|_| place.abandon())?;
        Ok(Session {
            running: Some((place, streaming)),
            path,
        })
    }

    /// Records into the buffers of the configuration, to be read when the session finishes.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself, or there is no memory or place for another
    /// session.
    pub fn record_in_memory(self) -> Result<InMemorySession, Error> {
        let (place, session) = Place::start(self, None::<fn()>)?;
        let preamble = session.preamble();
        Ok(InMemorySession {
            running: Some((place, session)),
            preamble,
        })
    }
}

/// A running session's place among the writers of this process.
struct Place {
    runtime: &'static Runtime,
    slot: usize,
    /// In the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    /// Nested trace points that were dropped before the session began.
    nested_before: u64,
}

impl Place {
    /// Allocates the buffers and lets writers in. `wake` calls whoever reads while the session goes
    /// on.
    fn start(
        config: TraceConfig,
        wake: Option<impl Fn() + Send + Sync + Clone + 'static>,
    ) -> Result<(Self, TracingSession), Error> {
        let resolved = Arc::new(config.resolve()?);
        let runtime = Runtime::of_process(resolved.shared_memory)?;
        let session = TracingSession::start(runtime.service(), config, &resolved, wake)?;
        let buffers = session.buffers().to_vec();
        let writable = |buffer: &Arc<CentralBuffer>| SessionBuffer {
            id: buffer.id,
            progress: Arc::clone(&buffer.progress),
        };
        let session_buffers = buffers.iter().map(writable).collect();
        let nested_before = producer::nested_count();
        let slot = producer::start_session(&resolved, session_buffers)
            .inspect_err(|_| runtime.service().remove_buffers(&buffers))?;
        let place = Self {
            runtime,
            slot,
            buffers,
            nested_before,
        };
        Ok((place, session))
    }

    /// Lets no trace point in any more, and commits what this thread wrote.
    fn stop_writers(&self) {
        producer::stop_session(self.slot);
        producer::leave_session(self.slot);
    }

    /// Copies what other threads have finished in chunks that they still hold.
    fn collect_open_chunks(&self) {
        self.runtime.service().scrape(&self.buffers);
    }

    /// Ends a session that nobody wants to read.
    fn abandon(&self) {
        self.stop_writers();
        self.give_up_buffers();
    }

    /// Ends a session that was read; returns its account.
    fn close(self, session: &TracingSession, bytes: u64) -> Report {
        let mut losses = session.losses();
        let written = self.runtime.packets_written_to(&self.buffers);
        losses.dropped = written.packets_dropped;
        losses.nested = producer::nested_count() - self.nested_before;
        // Empty packets are no packets to readers.
        let packets_begun = written.packets_begun - written.packets_empty;
        // What is neither in the trace nor lost is in a packet that was not finished.
        let accounted = session.packets_read() + losses.of_packets_begun();
        losses.unfinished += packets_begun.saturating_sub(accounted);
        self.give_up_buffers();
        Report {
            events: session.events_read(),
            bytes,
            packets_begun,
            packets_read: session.packets_read(),
            losses,
            path: None,
        }
    }

    /// What is committed to the buffers from now on goes nowhere.
    fn give_up_buffers(&self) {
        self.runtime.service().remove_buffers(&self.buffers);
        self.runtime.forget(&self.buffers);
    }
}
