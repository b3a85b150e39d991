//! How long to wait until the next attempt to connect.

use std::time::Duration;

/// The waits between attempts: 1 s, 2 s and so on up to 10 s, and then 30 s each.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    attempts: u64,
}

impl BackOff {
    /// Returns the wait after another attempt that failed.
    pub(crate) fn next(&mut self) -> Duration {
        self.attempts += 1;
        Duration::from_secs(match self.attempts {
            seconds @ 1..=10 => seconds,
            _ => 30,
        })
    }

    /// Notes that an attempt has succeeded.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_30_seconds() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..12).map(|_| back_off.next().as_secs()).collect();
        assert_eq!(waits, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 30, 30]);
        back_off.reset();
        assert_eq!(back_off.next().as_secs(), 1);
    }
}
