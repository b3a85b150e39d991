//! What a session may not do because of the others.

use super::control::{Control, Limits};
use super::error::{Refusal, SessionError};
use super::phase::End;
use super::recording::Recording;
use tracezero_config::SessionConfig;
use tracezero_core::ids::SessionId;

/// With guardrails on, sessions of the same name start at least so far apart.
const SAME_NAME_APART_NS: u64 = 300 * 1_000_000_000;

impl Control {
    /// Whether a new session gets along with those that are there.
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
        } = self.limits;
        if of_user.count() >= sessions_per_uid {
            return Err(SessionError::TooManySessions {
                limit: sessions_per_uid,
            });
        }
        if self.sessions.len() >= sessions {
            return Err(SessionError::TooManySessions { limit: sessions });
        }
        Ok(())
    }

    /// A session has its name until it is freed; snapshots of it do not count.
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

    /// A session of this name begins now. Names are forgotten when they stand in nobody's way.
    pub(super) fn note_name(&mut self, recording: &Recording) {
        let now_ns = self.environment.now_ns();
        self.name_starts
            .retain(|_, started_ns| now_ns < *started_ns + SAME_NAME_APART_NS);
        if let Some(name) = recording.unique_name() {
            self.name_starts.insert(name.to_owned(), now_ns);
        }
    }

    /// A session that has others keep away keeps away those that do not matter more.
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

    /// For each semaphore: how many others hold it, against the lowest limit that any of them or
    /// the new session gives.
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

    /// Ends the other sessions, if a session that was just admitted asks for it. One that is refused ends
    /// nobody.
    ///
    /// A session that ends here keeps what it recorded, its name and its place until its owner lets go.
    /// Perfetto's own service frees it, and the recording is lost.
    pub(super) fn abort_for_priority(&mut self, admitted: SessionId, priority: u32) {
        if priority == 0 {
            return;
        }
        let reason = format!("ended by an exclusive session of higher priority ({priority})");
        self.for_each_session(|session, context| {
            if context.session != admitted {
                let end = End::because_of(Some(reason.clone()));
                session.disable_now(context, end);
            }
        });
    }
}
