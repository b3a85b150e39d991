//! Programs with data sources of their own.

use std::iter;

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

struct Payloads;
data_source!(Payloads, "com.example.payloads");

/// The sizes of the payloads: around the sizes that take another byte in a length, around those of
/// chunks, and much longer than any chunk.
pub const PAYLOAD_BYTES: [usize; 24] = [
    1,
    2,
    100,
    126,
    127,
    128,
    129,
    1000,
    4000,
    4070,
    4080,
    4090,
    4096,
    8160,
    8170,
    8192,
    16_383,
    16_384,
    32_740,
    32_768,
    100_000,
    1 << 20,
    2_097_152,
    4 << 20,
];

/// Returns the payload of a packet: letters that depend on its number and on their place, so that
/// parts of packets that are mixed up or moved are noticed.
pub fn payload(number: usize) -> String {
    let mut state = number as u64 + 1;
    let letters = iter::repeat_with(|| {
        // The constants of Knuth's generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + (state >> 58) as u8)
    });
    letters.take(PAYLOAD_BYTES[number]).collect()
}

/// The size of a packet that is longer than what a daemon keeps for a slow command.
pub const LONG_PACKET_BYTES: usize = 16 << 20;

/// Writes one long packet.
pub fn one_long_packet(_: &System) {
    wait_until(Payloads::is_enabled);
    let payload = "x".repeat(LONG_PACKET_BYTES);
    Payloads::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_str(&payload);
            });
        });
    });
    say("done");
    wait_for_line();
}

/// Writes packets of all sizes into two buffers.
pub fn payloads_of_all_sizes(_: &System) {
    // Each instance starts by itself.
    wait_until(|| {
        let mut instances = 0;
        Payloads::trace(|_| instances += 1);
        instances == 2
    });
    for number in 0..PAYLOAD_BYTES.len() {
        let payload = payload(number);
        Payloads::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(number as u64);
                    event.payload(|out| {
                        out.set_single_string(&payload);
                    });
                });
            });
        });
    }
    say("done");
    wait_for_line();
}
