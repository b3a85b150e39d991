//! Limits how often snapshots are taken. If the same problem occurs thousands of times, it leaves
//! one file.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::request_queue::{EXIT, PANIC};
use super::saving::SavingSnapshot;

/// The number of names with an interval of their own, besides those of panics and the end. All
/// further names share one interval.
const NAMES_MAX: usize = 64;

/// The key that all names beyond the limit share.
const OTHERS: &str = "";

/// The last snapshot of each name.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    last: HashMap<String, LastSnapshot>,
}

/// The last snapshot of a name.
#[derive(Clone, Debug)]
struct LastSnapshot {
    at: Instant,
    saving: SavingSnapshot,
    /// True if the snapshot was not taken yet. It will contain everything recorded until it is
    /// taken.
    is_open: bool,
}

/// The decision on a request.
#[derive(Debug)]
pub(super) enum Admission {
    /// A snapshot is to be taken.
    Granted,
    /// An earlier request's snapshot, which was not taken yet, serves this request as well.
    Joined(SavingSnapshot),
    /// The last snapshot was taken this long ago, which is too short.
    TooSoon(Duration, SavingSnapshot),
}

impl Limiter {
    /// Decides on a request for a snapshot with this name.
    pub(super) fn admit(
        &mut self,
        name: &str,
        now: Instant,
        min_interval: Duration,
        saving: &SavingSnapshot,
    ) -> Admission {
        if let Some(last) = self.last.get(self.key(name)) {
            let since = now.saturating_duration_since(last.at);
            if last.is_open {
                return Admission::Joined(last.saving.clone());
            }
            if since < min_interval {
                return Admission::TooSoon(since, last.saving.clone());
            }
        }
        let key = self.key(name).to_owned();
        let admitted = LastSnapshot {
            at: now,
            saving: saving.clone(),
            is_open: true,
        };
        self.last.insert(key, admitted);
        Admission::Granted
    }

    /// Notes that the snapshot is about to be taken.
    pub(super) fn close(&mut self, saving: &SavingSnapshot) {
        for admitted in self.last.values_mut() {
            admitted.is_open &= !admitted.saving.is_same(saving);
        }
    }

    fn key<'n>(&self, name: &'n str) -> &'n str {
        let may_be_last = [PANIC, EXIT].contains(&name);
        if self.last.len() < NAMES_MAX || self.last.contains_key(name) || may_be_last {
            return name;
        }
        OTHERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn request_joins_until_taken_then_is_too_soon() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let ask = |limiter: &mut Limiter, name: &str, seconds| {
            let now = start + Duration::from_secs(seconds);
            let saving = SavingSnapshot::new();
            (limiter.admit(name, now, INTERVAL, &saving), saving)
        };
        let (first, saving) = ask(&mut limiter, "a", 0);
        assert!(matches!(first, Admission::Granted));
        let (second, _) = ask(&mut limiter, "a", 5);
        assert!(matches!(second, Admission::Joined(other) if other.is_same(&saving)));
        let (other, _) = ask(&mut limiter, "b", 5);
        assert!(matches!(other, Admission::Granted));
        limiter.close(&saving);
        let (third, _) = ask(&mut limiter, "a", 9);
        assert!(matches!(third, Admission::TooSoon(since, _) if since == Duration::from_secs(9)));
        let (fourth, _) = ask(&mut limiter, "a", 10);
        assert!(matches!(fourth, Admission::Granted));
    }

    #[test]
    fn names_beyond_the_limit_share_an_interval() {
        let mut limiter = Limiter::default();
        let now = Instant::now();
        let granted = (0..1_000)
            .filter(|number| {
                let saving = SavingSnapshot::new();
                let admission = limiter.admit(&format!("n{number}"), now, INTERVAL, &saving);
                matches!(admission, Admission::Granted)
            })
            .count();
        assert_eq!(granted, NAMES_MAX + 1);
        assert_eq!(limiter.last.len(), NAMES_MAX + 1);
    }
    #[test]
    fn panic_and_exit_have_intervals_of_their_own() {
        let mut limiter = Limiter::default();
        let names = (0..1_000).map(|number| format!("n{number}"));
        for name in names.chain([PANIC.to_owned(), EXIT.to_owned()]) {
            let saving = SavingSnapshot::new();
            let admission = limiter.admit(&name, Instant::now(), INTERVAL, &saving);
            if [PANIC, EXIT].contains(&name.as_str()) {
                assert!(matches!(admission, Admission::Granted), "{admission:?}");
            }
        }
    }
}
