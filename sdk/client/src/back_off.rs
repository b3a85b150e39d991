//! The time to wait before the next attempt to connect.

use std::sync::Weak;
use std::time::Duration;

use crate::remote_service::RemoteService;

/// The number of ended connections whose memory is still mapped, from which on the client rarely
/// tries to connect. A thread unmaps the memory of an ended connection when it traces next, or
/// ends.
const OLD_MEMORIES_MAX: usize = 16;

/// The wait after many attempts.
const LONGEST: Duration = Duration::from_secs(30);

/// The waits between attempts: 1 s, 2 s and so on up to 10 s, and then 30 s each. While too much
/// memory of ended connections is mapped, each wait is 30 s.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    attempts: u64,
    /// The services of ended connections. The memory of a connection keeps its service alive, so if
    /// a service is dropped, its memory is unmapped.
    earlier: Vec<Weak<RemoteService>>,
}

impl BackOff {
    /// Counts an attempt. Returns the wait after it.
    pub(crate) fn next(&mut self) -> Duration {
        self.earlier.retain(|service| service.strong_count() > 0);
        self.attempts += 1;
        match self.attempts {
            _ if self.earlier.len() >= OLD_MEMORIES_MAX => LONGEST,
            seconds @ 1..=10 => Duration::from_secs(seconds),
            _ => LONGEST,
        }
    }

    /// Starts again with short waits, because the next attempt may succeed.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Adds the service of a connection that has ended.
    pub(crate) fn add_ended(&mut self, service: Weak<RemoteService>) {
        self.earlier.push(service);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracezero_ipc::waker::Waker;

    use crate::outbox::Outbox;

    use super::*;

    #[test]
    fn waits_grow_up_to_30_seconds() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..12).map(|_| back_off.next().as_secs()).collect();
        assert_eq!(waits, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 30, 30]);
        back_off.reset();
        assert_eq!(back_off.next().as_secs(), 1);
    }

    #[test]
    fn attempts_are_rare_while_many_old_memories_are_held() {
        let waker = Arc::new(Waker::new().unwrap());
        let service = || {
            Arc::new(RemoteService {
                totals: None,
                syncs: None,
                outbox: Arc::new(Outbox::new(Arc::clone(&waker))),
            })
        };
        let mut held: Vec<_> = (0..OLD_MEMORIES_MAX).map(|_| service()).collect();
        let mut back_off = BackOff::default();
        for service in &held {
            back_off.add_ended(Arc::downgrade(service));
        }
        assert_eq!(back_off.next(), LONGEST);
        held.pop();
        back_off.reset();
        assert_eq!(back_off.next(), Duration::from_secs(1));
    }
}
