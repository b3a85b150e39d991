//! Decides when a segment ends and the next one begins.
//!
//! The thread that writes the files asks after each pass. When a segment is large or old enough, the
//! next one begins, and sequences leave the old one (`service/segments.rs`). The old one ends when
//! all have left it, or when none has left it for [`QUIET`]: what is left then are threads that
//! record nothing. Before that, one more pass collects what such threads have left in their chunks.
//! A packet that a thread is in the middle of is waited for, but not longer than [`LEAVING_MAX`].

use std::sync::Arc;
use std::time::Duration;

use super::files::SegmentFiles;
use super::settings::Segments;
use crate::consumer::on_error;
use crate::error::Error;
use tracezero_core::ids::SessionId;
use tracezero_service::{OlderSegment, SegmentProgress, Service};

/// How long no sequence must have left a segment before it ends.
const QUIET: Duration = Duration::from_secs(1);

/// How long sequences may take at most to leave a segment.
const LEAVING_MAX: Duration = Duration::from_secs(10);

/// How often to look for segments that are too old.
const AGE_PERIOD: Duration = Duration::from_secs(60);

/// How long to wait after an error before the next attempt to begin a segment.
const RETRY_PERIOD: Duration = Duration::from_secs(10);

/// The segments of a session. All times are those of [`Moment::uptime`](super::files::Moment).
pub(in crate::consumer) struct Rotation {
    session: SessionId,
    files: Arc<SegmentFiles>,
    bytes: u64,
    duration: Option<Duration>,
    /// When the newest segment began.
    begun: Duration,
    /// The segment that sequences are leaving.
    leaving: Option<Leaving>,
    /// When to look next for segments that are too old.
    age_due: Duration,
    /// When the next segment could not be created, and whether the application was told.
    failed: Option<Duration>,
}

/// The progress of sequences that leave a segment.
struct Leaving {
    begun: Duration,
    seen: OlderSegment,
    /// When a sequence has left last, or a packet has come.
    changed: Duration,
    /// True if chunks in use were collected since then.
    is_collected: bool,
}

/// Whether the older segment has ended.
enum Leave {
    Ended,
    /// Another pass should follow at once.
    AfterPass,
    Later,
}

impl Rotation {
    pub(in crate::consumer) fn new(
        session: SessionId,
        files: Arc<SegmentFiles>,
        settings: &Segments,
    ) -> Self {
        let now = files.now().uptime;
        Self {
            session,
            bytes: settings.bytes(),
            duration: settings.segment_duration,
            begun: now,
            leaving: None,
            age_due: now + AGE_PERIOD,
            failed: None,
            files,
        }
    }

    /// Ends and begins segments, if it is time. Returns true if another pass should follow at once.
    pub(in crate::consumer) fn after_pass(&mut self, service: &Service) -> bool {
        let Some(progress) = service.segment_progress(self.session) else {
            return false;
        };
        let now = self.files.now().uptime;
        if now >= self.age_due {
            self.age_due = now + AGE_PERIOD;
            self.files.remove_old();
        }
        match progress.older.map(|older| self.leave(service, older, now)) {
            Some(Leave::AfterPass) => return true,
            Some(Leave::Later) => return false,
            Some(Leave::Ended) | None => self.leaving = None,
        }
        if self.is_due(&progress, now) {
            self.begin(service, now);
        }
        self.leaving.is_some()
    }

    fn is_due(&self, progress: &SegmentProgress, now: Duration) -> bool {
        let is_long = self
            .duration
            .is_some_and(|duration| now.saturating_sub(self.begun) >= duration);
        let may_try = self
            .failed
            .is_none_or(|failed| now.saturating_sub(failed) >= RETRY_PERIOD);
        may_try && (progress.bytes >= self.bytes || (is_long && progress.packets > 0))
    }

    fn begin(&mut self, service: &Service, now: Duration) {
        let output = match self.files.begin() {
            Ok(output) => output,
            Err(error) => return self.note_failure(&error, now),
        };
        self.failed = None;
        service.begin_segment(self.session, output);
        self.begun = now;
        self.leaving = service
            .segment_progress(self.session)
            .and_then(|progress| progress.older)
            .map(|seen| Leaving {
                begun: now,
                seen,
                changed: now,
                is_collected: false,
            });
    }

    /// Keeps on writing into the present segment. Tells the application once.
    fn note_failure(&mut self, error: &Error, now: Duration) {
        if self.failed.replace(now).is_none() {
            on_error::report(error);
        }
    }

    /// Ends the older segment, if all sequences have left it that will.
    fn leave(&mut self, service: &Service, older: OlderSegment, now: Duration) -> Leave {
        let leaving = self.leaving.get_or_insert(Leaving {
            begun: now,
            seen: older,
            changed: now,
            is_collected: false,
        });
        if leaving.seen != older {
            leaving.seen = older;
            leaving.changed = now;
            leaving.is_collected = false;
        }
        let is_quiet = now.saturating_sub(leaving.changed) >= QUIET;
        let is_late = now.saturating_sub(leaving.begun) >= LEAVING_MAX;
        if older.sequences > 0 {
            if !is_quiet && !is_late {
                return Leave::Later;
            }
            if !leaving.is_collected {
                leaving.is_collected = true;
                service.collect_before_next_write(self.session);
                return Leave::AfterPass;
            }
            if !is_late && service.has_unfinished_in_older(self.session) {
                return Leave::Later;
            }
        }
        service.end_segment(self.session);
        Leave::Ended
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.files.end();
    }
}
