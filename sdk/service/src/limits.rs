//! Checks that decide whether the existing sessions allow a new one.

use super::control::{Control, Limits};
use super::error::{Refusal, SessionError};
use super::folded_state::PROGRAMS_PER_DATA_SOURCE_MAX;
use super::phase::End;
use super::recording::Recording;
use tracezero_config::SessionConfig;
use tracezero_core::ids::SessionId;

/// The minimum time between the starts of two sessions of the same name, if guardrails are on.
const SAME_NAME_APART_NS: u64 = 300 * 1_000_000_000;

impl Control {
    /// Checks whether the existing sessions allow a new one.
    pub(super) fn check_other_sessions(
        &self,
        recording: &Recording,
        uid: u32,
    ) -> Result<(), SessionError> {
        let config = &recording.config;
        self.check_priority(config)?;
        if let Some(name) = recording.unique_name() {
            self.check_name(name)?;
        }
        self.check_semaphores(config)?;
        if config.enable_extra_guardrails
            && let Some(name) = recording.unique_name()
            && let Some(&started_ns) = self.name_starts.get(name)
            && self.environment.now_ns() < started_ns + SAME_NAME_APART_NS
        {
            return Err(Refusal::StartedTooRecently {
                name: name.to_owned(),
            }
            .into());
        }
        let of_user = self.sessions.values().filter(|session| session.uid == uid);
        let Limits {
            sessions,
            sessions_per_uid,
            ..
        } = self.limits;
        if of_user.count() >= sessions_per_uid {
            return Err(SessionError::TooManySessions {
                limit: sessions_per_uid,
            });
        }
        if self.sessions.len() >= sessions {
            return Err(SessionError::TooManySessions { limit: sessions });
        }
        self.check_buffer_sizes(config)
    }

    /// Fails if the buffers of this configuration would be too large besides those of all sessions
    /// and clones.
    pub(super) fn check_buffer_sizes(&self, config: &SessionConfig) -> Result<(), SessionError> {
        let sessions = self.sessions.values();
        let used_bytes = sessions.map(|session| buffers_bytes(&session.recording.config));
        let used_bytes: u64 = used_bytes.sum();
        let asked_bytes = buffers_bytes(config);
        let limit_bytes = self.limits.buffers_bytes;
        if used_bytes + asked_bytes > limit_bytes {
            return Err(SessionError::BuffersTooLarge {
                asked_bytes,
                used_bytes,
                limit_bytes,
            });
        }
        Ok(())
    }

    /// Fails if another session has this name. A session keeps its name until it is freed. Clones
    /// do not count.
    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let is_taken = self
            .sessions
            .values()
            .any(|session| !session.is_snapshot() && session.recording.unique_name() == Some(name));
        if is_taken {
            return Err(Refusal::NameInUse {
                name: name.to_owned(),
            });
        }
        Ok(())
    }

    /// Notes that a session of this name starts now. Forgets names that no longer forbid a start.
    pub(super) fn note_name(&mut self, recording: &Recording) {
        let now_ns = self.environment.now_ns();
        self.name_starts
            .retain(|_, started_ns| now_ns < *started_ns + SAME_NAME_APART_NS);
        if let Some(name) = recording.unique_name() {
            self.name_starts.insert(name.to_owned(), now_ns);
        }
    }

    /// Rejects the session if a running exclusive session has the same or a higher priority.
    fn check_priority(&self, config: &SessionConfig) -> Result<(), Refusal> {
        let highest = self
            .sessions
            .values()
            .filter(|session| session.is_live())
            .map(|session| session.recording.config.exclusive_prio)
            .max()
            .unwrap_or(0);
        if highest > 0 && highest >= config.exclusive_prio {
            return Err(Refusal::ExclusiveSession {
                active: highest,
                requested: config.exclusive_prio,
            });
        }
        Ok(())
    }

    /// Rejects the session if one of its semaphores has too many holders. The limit of a semaphore
    /// is the lowest that the holders and the new session give.
    fn check_semaphores(&self, config: &SessionConfig) -> Result<(), Refusal> {
        for semaphore in &config.session_semaphores {
            let held: Vec<u64> = self
                .sessions
                .values()
                .filter(|session| session.is_live())
                .flat_map(|session| &session.recording.config.session_semaphores)
                .filter(|other| other.name == semaphore.name)
                .map(|other| other.max_other_session_count)
                .collect();
            let limit = held
                .iter()
                .copied()
                .fold(semaphore.max_other_session_count, u64::min);
            if held.len() as u64 > limit {
                return Err(Refusal::SemaphoreHeld {
                    name: semaphore.name.clone(),
                    holders: held.len(),
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Ends the other sessions if the session that was just admitted is exclusive. Call this only
    /// after the session was admitted, so that a refused session ends none.
    ///
    /// The ended sessions keep their packets, names and places until their owners free them.
    /// Perfetto's own service frees them, and their packets are lost.
    pub(super) fn abort_for_priority(&mut self, admitted: SessionId, priority: u32) {
        if priority == 0 {
            return;
        }
        let reason = format!("ended by an exclusive session with a higher priority ({priority})");
        self.for_each_session(|session, context| {
            if context.session != admitted {
                let end = End::because_of(Some(reason.clone()));
                session.disable_now(context, end);
            }
        });
    }
}

/// Returns the size that the buffers of a session may reach, in bytes.
fn buffers_bytes(config: &SessionConfig) -> u64 {
    let sizes = config.buffers.iter();
    let kib = sizes.map(|buffer| u64::from(buffer.limit_kb.unwrap_or(buffer.size_kb)));
    let states = config.data_sources.iter();
    let states_kib = states.map(|it| u64::from(it.state_max_kib.unwrap_or_default()));
    let programs = PROGRAMS_PER_DATA_SOURCE_MAX as u64;
    (kib.sum::<u64>() + states_kib.sum::<u64>() * programs) * 1024
}
