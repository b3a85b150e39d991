//! How often snapshots are taken: a storm of the same reason is to leave one file, not thousands.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::desk::{EXIT, PANIC};
use super::saving::SavingSnapshot;

/// Names that have an interval of their own, besides those of panics and the end. More than these share
/// one.
const NAMES_MAX: usize = 64;

/// What the names beyond the limit are filed under.
const OTHERS: &str = "";

/// Knows when there was a snapshot of which name.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    last: HashMap<String, Admitted>,
}

/// A snapshot that was let through.
#[derive(Clone, Debug)]
struct Admitted {
    at: Instant,
    saving: SavingSnapshot,
    /// Whether it holds what there is from now on: it was not taken yet.
    is_open: bool,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Admission {
    /// It goes ahead.
    Granted,
    /// One that was asked for before will hold it.
    Joined(SavingSnapshot),
    /// That one was taken this long ago, which is too short.
    TooSoon(Duration, SavingSnapshot),
}

impl Limiter {
    /// Asks for a snapshot of this name now.
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
        let admitted = Admitted {
            at: now,
            saving: saving.clone(),
            is_open: true,
        };
        self.last.insert(key, admitted);
        Admission::Granted
    }

    /// The snapshot is about to be taken.
    pub(super) fn close(&mut self, saving: &SavingSnapshot) {
        for admitted in self.last.values_mut() {
            admitted.is_open &= !admitted.saving.is_same(saving);
        }
    }

    fn key<'n>(&self, name: &'n str) -> &'n str {
        let is_last_word = [PANIC, EXIT].contains(&name);
        if self.last.len() < NAMES_MAX || self.last.contains_key(name) || is_last_word {
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
    fn a_name_is_joined_until_it_is_taken_and_too_soon_for_an_interval() {
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
    fn panics_and_the_end_share_no_interval_with_names_beyond_the_limit() {
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
