//! `enabled!` beside sessions that start.

use std::hint;
use std::thread;

use tracezero::{InMemorySession, enabled, instant};

const SESSIONS: usize = 200;

/// Reaches call sites, whose masks are stored one after the other when a session starts.
macro_rules! reach {
    ($($name:literal)*) => { $(instant!("others", $name);)* };
}

#[test]
fn an_event_behind_enabled_is_recorded_though_its_session_still_starts() {
    let is_on = || enabled!("asked for");
    let record = || instant!("asked for", "event");
    assert!(!is_on());
    reach!("0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19");
    record();
    for _ in 0..SESSIONS {
        let waiting = thread::spawn(move || {
            while !is_on() {
                hint::spin_loop();
            }
            record();
        });
        let session = InMemorySession::start().unwrap();
        waiting.join().unwrap();
        assert_eq!(session.finish().1.events, 1);
    }
}
