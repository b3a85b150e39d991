//! The folder of a session's segments, and the files in it that are open.
//!
//! All sizes together never pass the limit: each write first reserves its bytes, and removes complete
//! segments if there is no room. An open file counts with its reserved bytes. The sizes of complete
//! segments are looked up in the folder whenever the room seems to be used up, because the
//! application may have moved some away.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::hook::Hook;
use super::leftovers;
use super::segment::Segment;
use super::settings::Segments;
use crate::consumer::on_error;
use crate::error::Error;
use crate::report::{BufferMemory, Report, SegmentCounts};
use crate::trace_folder::{FileNames, FolderError, Limits, Room, TraceFolder, partial_path};
use tracezero_core::clock;
use tracezero_service::{EndedSegment, SegmentStore, TraceFile, TraceOutput};

/// The pattern for names of segments. The names sort by time.
const PATTERN: &str = "segment-{time}-{pid}-{number}.pftrace";

/// The number of digits of a segment's number.
const NUMBER_DIGITS: usize = 6;

/// How long to wait before the application is told again of a full disk.
const FULL_DISK_PERIOD: Duration = Duration::from_secs(60);

/// A moment on two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The time of day, for names of files and their age.
    pub(super) time: SystemTime,
    /// The time on a clock that is never set.
    pub(super) uptime: Duration,
}

impl Moment {
    fn now() -> Self {
        Self {
            time: SystemTime::now(),
            uptime: Duration::from_nanos(clock::now_ns()),
        }
    }
}

/// Returns the present moment.
pub(super) type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The folder of a session's segments.
pub(in crate::consumer) struct SegmentFiles {
    folder: TraceFolder,
    clock: Clock,
    hook: Arc<Hook>,
    hook_thread: Mutex<Option<JoinHandle<()>>>,
    state: Mutex<State>,
    /// The lock on the folder, which no other session may use.
    _lock: File,
}

#[derive(Default)]
struct State {
    /// The size of complete segments, as far as it is known.
    complete_bytes: u64,
    /// The segments that are being written, the oldest first.
    open: Vec<Reserved>,
    counts: SegmentCounts,
    /// When the application was told last that the disk is full.
    told_of_full_disk: Option<Duration>,
}

/// The bytes that were reserved for an open file.
struct Reserved {
    partial: PathBuf,
    bytes: u64,
}

/// A segment that is being written.
struct OpenSegment {
    files: Arc<SegmentFiles>,
    /// The path of the file once it is complete.
    path: PathBuf,
    /// The path of the file until then.
    partial: PathBuf,
    started: SystemTime,
}

impl SegmentFiles {
    /// Opens a folder, which is created if it does not exist. Completes the segments of processes
    /// that were killed, and hands them to the application.
    pub(in crate::consumer) fn open(path: &Path, settings: &Segments) -> Result<Arc<Self>, Error> {
        Self::with_clock(path, settings, Arc::new(Moment::now))
    }

    pub(super) fn with_clock(
        path: &Path,
        settings: &Segments,
        clock: Clock,
    ) -> Result<Arc<Self>, Error> {
        let io_error = |source| Error::of_io(path, source);
        let folder_path = path::absolute(path).map_err(io_error)?;
        fs::create_dir_all(&folder_path).map_err(io_error)?;
        let lock = File::open(&folder_path).map_err(io_error)?;
        match lock.try_lock() {
            Ok(()) => {}
            // Some file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(Error::of_file(path, error)),
        }
        let names = FileNames::new(PATTERN).expect("the pattern has all places");
        let folder = TraceFolder {
            path: folder_path,
            names: names.with_digits(NUMBER_DIGITS),
            limits: Limits {
                files: None,
                total_bytes: Some(settings.total_bytes),
                age: settings.max_age,
            },
        };
        let completed = leftovers::complete(&folder).map_err(of_folder)?;
        let (hook, thread) = Hook::start(settings.on_complete.clone())?;
        let files = Arc::new(Self {
            folder,
            clock,
            hook,
            hook_thread: Mutex::new(thread),
            state: Mutex::default(),
            _lock: lock,
        });
        for leftover in completed {
            let started = leftover.file.time();
            let modified = fs::metadata(&leftover.path).and_then(|it| it.modified());
            let ended = modified.unwrap_or(started);
            let segment = Segment::new(leftover.path, leftover.bytes, started, ended, None);
            files.hook.send(segment);
        }
        files
            .make_room(&mut files.state.lock(), 0)
            .map_err(of_folder)?;
        Ok(files)
    }

    /// Creates the file of another segment.
    pub(in crate::consumer) fn begin(self: &Arc<Self>) -> Result<TraceOutput, Error> {
        let started = self.now().time;
        let path = self.folder.path.join(self.folder.names.next("", started));
        let partial = partial_path(&path);
        let file =
            TraceFile::create_new(&partial).map_err(|error| Error::of_file(&partial, error))?;
        self.state.lock().open.push(Reserved {
            partial: partial.clone(),
            bytes: 0,
        });
        let segment = OpenSegment {
            files: Arc::clone(self),
            path,
            partial,
            started,
        };
        Ok(TraceOutput::of_segment(file, Arc::new(segment)))
    }

    pub(super) fn now(&self) -> Moment {
        (self.clock)()
    }

    pub(in crate::consumer) fn counts(&self) -> SegmentCounts {
        let mut counts = self.state.lock().counts;
        counts.removed_unseen = self.hook.unseen();
        counts
    }

    /// Removes segments that are too old.
    pub(super) fn remove_old(&self) {
        if let Err(error) = self.make_room(&mut self.state.lock(), 0) {
            on_error::report(&of_folder(error));
        }
    }

    /// Waits until the application has had all segments.
    pub(super) fn end(&self) {
        self.hook.end();
        if let Some(thread) = self.hook_thread.lock().take() {
            // Panics in the application's function were caught.
            let _ = thread.join();
        }
    }

    /// Removes the files of a session that did not start.
    pub(in crate::consumer) fn abandon(&self) {
        for Reserved { partial, .. } in self.state.lock().open.drain(..) {
            // The file contains nothing yet. If it cannot be removed, there is nothing more to do.
            let _ = fs::remove_file(partial);
        }
        self.end();
    }

    /// Makes room for more bytes in open files. Returns false if there is not enough.
    fn make_room(&self, state: &mut State, bytes: u64) -> Result<bool, FolderError> {
        let open: Vec<PathBuf> = state.open.iter().map(|it| it.partial.clone()).collect();
        let room = Room {
            files: open.len(),
            bytes: state.reserved_bytes() + bytes,
            open: &open,
            now: self.now().time,
        };
        let removal = self.folder.make_room(&room, &*self.hook)?;
        state.complete_bytes = removal.left_bytes;
        state.counts.removed += removal.removed;
        Ok(removal.is_enough)
    }

    /// Reserves bytes for a file that is open. Returns false if there is no room.
    fn reserve(&self, partial: &Path, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let limit_bytes = self.folder.limits.total_bytes.unwrap_or(u64::MAX);
        let has_room = state.complete_bytes + state.reserved_bytes() + bytes <= limit_bytes
            || self.make_room(&mut state, bytes).unwrap_or_else(|error| {
                on_error::report(&of_folder(error));
                false
            });
        let open = state.open.iter_mut().find(|it| it.partial == partial);
        if let Some(open) = open
            && has_room
        {
            open.bytes += bytes;
        }
        has_room
    }

    /// Removes the oldest complete segment, whatever room there is.
    fn remove_oldest(&self) -> bool {
        let mut state = self.state.lock();
        let open: Vec<PathBuf> = state.open.iter().map(|it| it.partial.clone()).collect();
        match self.folder.remove_oldest(&open, &*self.hook) {
            Ok(None) => false,
            Ok(Some(bytes)) => {
                state.complete_bytes = state.complete_bytes.saturating_sub(bytes);
                state.counts.removed += 1;
                true
            }
            Err(error) => {
                on_error::report(&of_folder(error));
                false
            }
        }
    }

    /// Tells the application that packets are left out, but not too often.
    fn note_full_disk(&self, path: &Path, error: &io::Error) {
        let now = self.now().uptime;
        {
            let told = &mut self.state.lock().told_of_full_disk;
            if told.is_some_and(|told| now.saturating_sub(told) < FULL_DISK_PERIOD) {
                return;
            }
            *told = Some(now);
        }
        let source = io::Error::new(error.kind(), error.to_string());
        on_error::report(&Error::of_io(path, source));
    }
}

impl State {
    fn reserved_bytes(&self) -> u64 {
        self.open.iter().map(|it| it.bytes).sum()
    }
}

impl SegmentStore for OpenSegment {
    fn make_room(&self, bytes: u64) -> bool {
        self.files.reserve(&self.partial, bytes)
    }

    fn make_room_on_disk(&self, error: &io::Error) -> bool {
        self.files.remove_oldest() || {
            self.files.note_full_disk(&self.path, error);
            false
        }
    }

    fn segment_ended(&self, ended: EndedSegment) {
        if let Err(error) = ended.outcome {
            on_error::report(&Error::of_io(&self.path, error));
        }
        let renamed = match ended.bytes {
            0 => fs::remove_file(&self.partial),
            _ => fs::rename(&self.partial, &self.path),
        };
        {
            let mut state = self.files.state.lock();
            state.open.retain(|it| it.partial != self.partial);
            state.complete_bytes += ended.bytes;
            if ended.bytes == 0 || renamed.is_err() {
                drop(state);
                return renamed
                    .unwrap_or_else(|error| on_error::report(&Error::of_io(&self.path, error)));
            }
            state.counts.completed += 1;
        }
        let memory = BufferMemory::default();
        let report = Report {
            path: Some(self.path.clone()),
            ..Report::new(ended.counts, ended.bytes, ended.sequences, 0, memory)
        };
        let (path, now) = (self.path.clone(), self.files.now().time);
        let segment = Segment::new(path, ended.bytes, self.started, now, Some(report));
        self.files.hook.send(segment);
    }
}

impl std::fmt::Debug for OpenSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSegment")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn of_folder(error: FolderError) -> Error {
    Error::of_io(&error.path, error.source)
}
