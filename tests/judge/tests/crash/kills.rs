//! Kills at random moments: every packet that the program has reported is in the recovered trace.

use std::env;
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::Duration;

use crate::program::{Kind, Program, crash_directory};
use crate::recovered::recover_and_check;

/// The environment variable with the number of kills; `ci/kills.sh` sets it.
const KILLS: &str = "TRACEZERO_KILLS";

#[test]
fn no_finished_packet_is_lost_by_a_kill() {
    let kills = env::var(KILLS).map_or(20, |kills| kills.parse().unwrap());
    thread::scope(|scope| {
        for kind in Kind::ALL {
            scope.spawn(move || (0..kills).for_each(|index| kill_once(kind, index)));
        }
    });
}

fn kill_once(kind: Kind, index: u32) {
    let directory = crash_directory(&format!("kills-{kind:?}-{index}"));
    let program = Program::start(kind, &directory);
    // A random time is the test itself.
    let random = RandomState::new().hash_one(index);
    let limit_us = match kind {
        Kind::Streaming | Kind::LongPackets => 40_000,
        _ => 8_000,
    };
    thread::sleep(Duration::from_micros(random % limit_us));
    let reported = program.kill();
    recover_and_check(kind, &directory, &reported);
}
