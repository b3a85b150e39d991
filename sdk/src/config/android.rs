//! Fields of the configuration that matter on Android.

use tracezero_core::protos::owned;
use tracezero_core::protos::trace_config::LockdownModeOperation;

use super::TraceConfig;

pub use tracezero_config::LockdownMode;

/// The part of a configuration that only Android needs.
///
/// ```
/// use tracezero::TraceConfig;
/// use tracezero::android::AndroidConfig;
///
/// let android = AndroidConfig::new().bugreport_score(10).bugreport_filename("app.pftrace");
/// let config = TraceConfig::default().android(android);
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AndroidConfig {
    /// The message, in which only the fields that this type has setters for are set.
    message: owned::TraceConfig,
}

impl AndroidConfig {
    /// Creates a configuration that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how useful the trace is for a bug report. The trace carries the score; this crate does
    /// not use it.
    #[must_use]
    pub fn bugreport_score(mut self, score: i32) -> Self {
        self.message.bugreport_score = Some(score);
        self
    }

    /// Sets the file name of the trace in a bug report: letters, digits, `-`, `_` and `.`. The
    /// trace carries the name; this crate does not use it.
    #[must_use]
    pub fn bugreport_filename(mut self, name: impl Into<String>) -> Self {
        self.message.bugreport_filename = Some(name.into());
        self
    }

    /// Applies the limits for devices of users: a session lasts at most 24 hours and starts at
    /// once; the size of each buffer is a multiple of 4 KiB; all buffers together have at most 128
    /// MiB; and two sessions with the same name start at least 5 minutes apart.
    #[must_use]
    pub fn enable_extra_guardrails(mut self) -> Self {
        self.message.enable_extra_guardrails = Some(true);
        self
    }

    /// Raises the limit of [`enable_extra_guardrails`](Self::enable_extra_guardrails) for the size
    /// of all buffers together, in KiB.
    #[must_use]
    pub fn guardrail_max_buffers_kib(mut self, size_kib: u32) -> Self {
        let overrides = self.message.guardrail_overrides.get_or_insert_default();
        overrides.max_tracing_buffer_size_kb = Some(size_kib);
        self
    }

    /// Sets which producers the service accepts from the start of the session on: those of every
    /// user, or those of the user that the service runs as.
    #[must_use]
    pub fn lockdown_mode(mut self, mode: LockdownMode) -> Self {
        self.message.lockdown_mode = Some(LockdownModeOperation(mode as i32));
        self
    }
}

impl TraceConfig {
    /// Sets the fields that only Android needs. A second call replaces all of them.
    #[must_use]
    pub fn android(mut self, config: AndroidConfig) -> Self {
        let fields = config.message;
        self.message.bugreport_score = fields.bugreport_score;
        self.message.bugreport_filename = fields.bugreport_filename;
        self.message.enable_extra_guardrails = fields.enable_extra_guardrails;
        self.message.guardrail_overrides = fields.guardrail_overrides;
        self.message.lockdown_mode = fields.lockdown_mode;
        self
    }
}
