//! Programs with data sources of their own.

use tracezero::{DataSource as _, System, data_source, enabled, instant};

use super::{say, wait_for_line};
use crate::machine::wait_until;

struct Numbers;
data_source!(Numbers, "com.example.numbers");

/// The number of packets with numbers.
pub const NUMBERS: u64 = 1000;

/// Reaches the data source when a session already records.
pub fn numbers_of_a_late_data_source(_: &System) {
    wait_until(|| enabled!("test"));
    instant!("test", "before the data source");
    let write = |number| {
        Numbers::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(number);
                });
            });
        });
    };
    // Registers the data source. The daemon does not know it yet, so nothing is recorded.
    write(u64::MAX);
    wait_until(Numbers::is_enabled);
    (0..NUMBERS).for_each(write);
    instant!("test", "after the numbers");
    say("done");
    wait_for_line();
}
