//! The state of the tracing service of this process.

use crate::runtime::Runtime;
use tracezero_service::ServiceState;

/// Returns the data sources and sessions of this process, as its tracing service knows them. Before
/// the first session there are none.
///
/// ```
/// use tracezero::{SessionState, TraceConfig, service_state};
///
/// assert_eq!(service_state().session_count, 0);
/// let session = TraceConfig::default()
///     .unique_session_name("start-up")
///     .deferred_start()
///     .record_in_memory()?;
/// let state = service_state();
/// assert_eq!(state.sessions[0].name.as_deref(), Some("start-up"));
/// assert_eq!(state.sessions[0].state, SessionState::Configured);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[must_use]
pub fn service_state() -> ServiceState {
    Runtime::existing().map_or_else(ServiceState::default, |runtime| {
        let uid = rustix::process::getuid().as_raw();
        runtime.service().service_state(uid)
    })
}
