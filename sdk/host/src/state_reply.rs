//! The reply that lists producers, data sources and sessions for a consumer.

use std::collections::VecDeque;

use tracezero_core::clock;
use tracezero_ipc::consumer_port::service_state::{
    DataSourceState, ProducerState, ServiceState, SessionState, service_state,
};
use tracezero_service::{SessionState as Phase, VERSION};

use crate::host::Host;
use crate::log::Subject;

/// Returns the state that a user may see, in parts: each is a reply.
pub(crate) fn service_state_parts(host: &Host, uid: u32, sessions_only: bool) -> VecDeque<Vec<u8>> {
    let state = host.service.service_state(uid);
    let producers: Vec<ProducerState<'_>> = state
        .producers
        .iter()
        .map(|producer| ProducerState {
            id: producer.id.value() as i32,
            name: &producer.name,
            uid: producer.uid.map_or(-1, |uid| uid as i32),
            pid: producer.pid.map_or(-1, |pid| pid as i32),
            sdk_version: &producer.sdk_version,
        })
        .collect();
    let data_sources: Vec<DataSourceState<'_>> = state
        .producers
        .iter()
        .flat_map(|producer| {
            let producer_id = producer.id.value() as i32;
            producer
                .data_sources
                .iter()
                .map(move |data_source| DataSourceState {
                    descriptor: &data_source.encoded,
                    producer_id,
                })
        })
        .collect();
    let to_realtime_ns = clock::time_of_day_ns() as i64 - clock::now_ns() as i64;
    let sessions: Vec<SessionState<'_>> = state
        .sessions
        .iter()
        .map(|session| SessionState {
            id: session.id.value(),
            consumer_uid: session.uid as i32,
            state: match session.state {
                _ if session.is_snapshot => "CLONED_READ_ONLY",
                Phase::Configured => "CONFIGURED",
                Phase::Started => "STARTED",
                Phase::Stopping => "STOP_WAIT",
                _ => "DISABLED",
            },
            is_started: session.state == Phase::Started,
            unique_session_name: session.name.as_deref().unwrap_or_default(),
            buffer_sizes_kib: &session.buffer_sizes_kib,
            duration_ms: session
                .duration
                .map_or(0, |duration| duration.as_millis() as u32),
            num_data_sources: session.instance_count as u32,
            start_realtime_ns: session
                .started_ns
                .map_or(0, |started_ns| started_ns as i64 + to_realtime_ns),
            bugreport_score: session.bugreport_score,
            bugreport_filename: session.bugreport_filename.as_deref().unwrap_or_default(),
        })
        .collect();
    let mut parts = VecDeque::new();
    let left_out = service_state(
        &ServiceState {
            producers: &producers,
            data_sources: &data_sources,
            sessions: &sessions,
            num_sessions: state.session_count as u32,
            num_sessions_started: state.started_session_count as u32,
            tracing_service_version: VERSION,
        },
        sessions_only,
        |part, _| parts.push_back(part.to_vec()),
    );
    if left_out > 0 {
        host.log.line(Subject::Session, format_args!(
            "a list of data sources and sessions lacks {left_out}, which are too large to be sent"
        ));
    }
    parts
}
