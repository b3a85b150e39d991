//! The settings of segments.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::segment::Segment;
use crate::config::ConfigError;

/// The default of [`Segments::total_bytes`].
const DEFAULT_TOTAL_BYTES: u64 = 1 << 30;
/// The largest default of [`Segments::segment_bytes`].
const DEFAULT_SEGMENT_BYTES: u64 = 64 << 20;
/// The number of segments of the default size that fit into the folder, at least.
const DEFAULT_SEGMENTS: u64 = 16;
/// The smallest size of a segment. A segment ends only behind a batch of packets, of about 64 KiB.
const SEGMENT_MIN_BYTES: u64 = 256 << 10;
/// The number of segments that must fit into the folder: two that are open, and what a file that
/// lags behind may add to each.
pub(super) const SEGMENTS_MIN: u64 = 4;

/// The application's function for complete segments.
pub(super) type OnComplete = Arc<dyn Fn(&Segment) + Send + Sync>;

/// How a recording is cut into segments: files of which each is a trace of its own.
///
/// ```
/// use std::time::Duration;
/// use tracezero::{Segments, Session, instant};
///
/// # let folder = std::env::temp_dir().join(format!("tracezero-segments-{}", std::process::id()));
/// let segments = Segments::new()
///     .segment_bytes(16 << 20)
///     .segment_duration(Duration::from_secs(60))
///     .total_bytes(256 << 20)
///     .max_age(Duration::from_secs(24 * 60 * 60))
///     .on_complete(|segment| println!("{}", segment.path().display()));
/// let session = Session::record_to_segments(&folder, segments)?;
/// instant!("app", "here");
/// let report = session.finish()?; // ../segment-20260131T235959Z-77-000001.pftrace
/// assert_eq!((report.events, report.segments.completed), (1, 1));
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "settings do nothing until a session is started with them"]
pub struct Segments {
    segment_bytes: Option<u64>,
    pub(super) segment_duration: Option<Duration>,
    pub(super) total_bytes: u64,
    pub(super) max_age: Option<Duration>,
    pub(super) on_complete: Option<OnComplete>,
}

impl Default for Segments {
    fn default() -> Self {
        Self::new()
    }
}

impl Segments {
    /// Creates the default settings: segments of 64 MiB, in a folder of at most 1 GiB.
    pub const fn new() -> Self {
        Self {
            segment_bytes: None,
            segment_duration: None,
            total_bytes: DEFAULT_TOTAL_BYTES,
            max_age: None,
            on_complete: None,
        }
    }

    /// Sets the size at which a segment ends; 64 MiB by default, or a sixteenth of
    /// [`total_bytes`](Self::total_bytes) if that is less. A segment can become larger: by what was
    /// recorded and not written yet when it ended. At least 256 KiB.
    pub const fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Sets the time after which a segment ends; not limited by default. A segment without packets of
    /// the program goes on until it has some.
    pub const fn segment_duration(mut self, duration: Duration) -> Self {
        self.segment_duration = Some(duration);
        self
    }

    /// Sets the size of all segments in the folder together, with those of earlier runs; 1 GiB by
    /// default. The oldest ones are removed before more is written, so the files never take more. At
    /// least four segments must fit, and 1 MiB.
    pub const fn total_bytes(mut self, bytes: u64) -> Self {
        self.total_bytes = bytes;
        self
    }

    /// Sets the time after the begin of a segment at which it is removed; not limited by default.
    pub const fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Calls `call` with each complete segment, in their order, on a thread of the session. The
    /// function may take its time, and may move or remove the file: what is not in the folder any
    /// more does not count.
    ///
    /// A segment that waits for the function, or that the function uses, is removed only if the
    /// others do not make enough room. [`Segment::is_removed`] then returns true, and the function
    /// is not called for it any more.
    ///
    /// [`Session::finish`](crate::Session::finish) waits until the function has had the last segment.
    /// A process that exits waits for at most 2 s in all.
    pub fn on_complete(mut self, call: impl Fn(&Segment) + Send + Sync + 'static) -> Self {
        self.on_complete = Some(Arc::new(call));
        self
    }

    /// Returns the size at which a segment ends.
    pub(crate) fn bytes(&self) -> u64 {
        let default = DEFAULT_SEGMENT_BYTES.min(self.total_bytes / DEFAULT_SEGMENTS);
        self.segment_bytes.unwrap_or(default.max(SEGMENT_MIN_BYTES))
    }

    /// Returns the size to which the buffers of the session may grow together. A file that lags
    /// behind adds as much to a segment.
    pub(crate) const fn buffers_max_bytes(&self) -> u64 {
        self.total_bytes / SEGMENTS_MIN
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let invalid = |field: &str, reason: String| {
            Err(ConfigError::Invalid {
                field: format!("segments.{field}"),
                reason,
            })
        };
        let bytes = self.bytes();
        if bytes < SEGMENT_MIN_BYTES {
            return invalid(
                "segment_bytes",
                format!("{bytes} is too small; give at least {SEGMENT_MIN_BYTES}"),
            );
        }
        if self.total_bytes / SEGMENTS_MIN < bytes {
            return invalid(
                "total_bytes",
                format!(
                    "{} is too small for segments of {bytes} bytes; give at least {}",
                    self.total_bytes,
                    bytes.saturating_mul(SEGMENTS_MIN)
                ),
            );
        }
        for (field, duration) in [
            ("segment_duration", self.segment_duration),
            ("max_age", self.max_age),
        ] {
            if duration == Some(Duration::ZERO) {
                return invalid(field, "is 0; give a longer time".to_owned());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segments")
            .field("segment_bytes", &self.bytes())
            .field("segment_duration", &self.segment_duration)
            .field("total_bytes", &self.total_bytes)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_a_sixteenth_of_a_small_folder() {
        assert_eq!(Segments::new().bytes(), 64 << 20);
        assert_eq!(Segments::new().total_bytes(16 << 20).bytes(), 1 << 20);
        assert_eq!(Segments::new().total_bytes(1 << 20).bytes(), 256 << 10);
        assert!(Segments::new().total_bytes(1 << 20).check().is_ok());
    }

    #[test]
    fn settings_that_cannot_be_kept_are_rejected() {
        for (settings, fault) in [
            (
                Segments::new().segment_bytes(1000),
                "segments.segment_bytes: 1000",
            ),
            (
                Segments::new().segment_bytes(1 << 20).total_bytes(1 << 20),
                "give at least 4194304",
            ),
            (Segments::new().total_bytes(0), "segments.total_bytes: 0"),
            (
                Segments::new().segment_duration(Duration::ZERO),
                "segments.segment_duration: is 0",
            ),
            (
                Segments::new().max_age(Duration::ZERO),
                "segments.max_age: is 0",
            ),
            (
                Segments::new().segment_bytes(u64::MAX),
                "give at least 18446744073709551615",
            ),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }
}
