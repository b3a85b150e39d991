//! Several threads write packets of all sizes into little memory. Packets arrive unchanged and in
//! order, and every packet that does not arrive was counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::*;
use crate::testing::{BUFFER, FakeService, ReceivedPacket, Setup};
use tracezero_core::commit::SHORTEST_WAIT;
use tracezero_core::ids::WriterId;
use tracezero_core::shm::PageLayout;

const THREADS: usize = 4;
const PACKETS_PER_THREAD: u64 = 1500;

/// xorshift64*: reproducible, and good enough to vary sizes.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % limit
    }
}

/// Returns the size of a packet's content: mostly small, sometimes several chunks.
fn size_of_packet(number: u64) -> usize {
    let mut random = Random(number + 1);
    random.below(1000);
    let limit = match random.below(20) {
        0 => 20_000,
        1 | 2 => 2_000,
        _ => 60,
    };
    random.below(limit) as usize
}

/// Writes packet `number`. Field 1 is the number. Field 2 is a message with content of the right
/// size, and the number again in a nested message.
fn write_packet(writer: &mut TraceWriter, number: u64) {
    let content = vec![number as u8; size_of_packet(number)];
    writer.packet(|packet| {
        packet.append_uint64::<1>(number);
        let mut nested = packet.begin_nested::<2>();
        nested.append_bytes::<1>(&content);
        nested.begin_nested::<2>().append_uint64::<1>(number);
    });
}

/// Returns the number of a packet, after checking that its content is complete.
fn check_packet(packet: &[u8]) -> u64 {
    use protozero::Decoder;
    use protozero::types::{Bytes, Uint64};
    let packet = Decoder::new(packet);
    let number = packet.last::<Uint64>(1).unwrap().unwrap();
    let nested = Decoder::new(packet.last::<Bytes>(2).unwrap().unwrap());
    let content = nested.last::<Bytes>(1).unwrap().unwrap();
    assert_eq!(content, vec![number as u8; size_of_packet(number)]);
    let innermost = Decoder::new(nested.last::<Bytes>(2).unwrap().unwrap());
    assert_eq!(innermost.last::<Uint64>(1).unwrap(), Some(number));
    number
}

/// Runs the writers. A slow service takes commits on its own thread.
fn run(setup: Setup, policy: BufferExhaustedPolicy) -> (Arc<Arbiter>, Arc<FakeService>) {
    let (arbiter, service) = setup.build();
    let writers_left = AtomicUsize::new(THREADS);
    let all_write = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            threads.push(scope.spawn(|| {
                let mut writer = TraceWriter::new(&arbiter, BUFFER, policy);
                for number in 0..PACKETS_PER_THREAD {
                    write_packet(&mut writer, number);
                    if number == 0 {
                        // Waits here so that each thread holds a chunk, if it got one.
                        all_write.wait();
                    }
                    if number % 97 == 0 {
                        writer.flush();
                    }
                }
                drop(writer);
                writers_left.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        if setup.is_slow {
            threads.push(scope.spawn(|| {
                while writers_left.load(Ordering::Relaxed) > 0 {
                    service.take_commits();
                    std::thread::sleep(Duration::from_micros(50));
                }
                service.take_commits();
            }));
        }
        // Join explicitly: ThreadSanitizer understands a join, but not how a scope waits for its
        // threads.
        for thread in threads {
            thread.join().unwrap();
        }
    });
    (arbiter, service)
}

/// Checks contents and order, and that each writer's counts add up. Returns the number of lost
/// packets.
fn close_accounts(arbiter: &Arbiter, service: &FakeService) -> u64 {
    let mut lost = 0;
    let totals = arbiter.writer_totals();
    assert_eq!(totals.len(), THREADS);
    for total in totals {
        let writer_id: WriterId = total.writer_id.unwrap();
        let counts = total.counts;
        assert_eq!(counts.packets_begun, PACKETS_PER_THREAD);
        assert_eq!(counts.packets_empty, 0);

        let mut whole = 0;
        let mut cut = 0;
        let mut given_up_at_once = 0;
        let mut last = None;
        for packet in service.packets(writer_id) {
            match packet {
                ReceivedPacket::Whole(bytes) => {
                    let number = check_packet(&bytes);
                    assert!(Some(number) > last, "{number} comes after {last:?}");
                    last = Some(number);
                    whole += 1;
                }
                ReceivedPacket::Abandoned {
                    fragments_before: 0,
                } => given_up_at_once += 1,
                ReceivedPacket::Abandoned { .. } => cut += 1,
            }
        }
        assert!(given_up_at_once <= counts.packets_dropped);
        assert_eq!(counts.packets_begun, whole + cut + counts.packets_dropped);
        assert_eq!(counts.drop_episodes == 0, cut + counts.packets_dropped == 0);
        lost += cut + counts.packets_dropped;
    }
    lost
}

const LAYOUTS: [PageLayout; 3] = [PageLayout::One, PageLayout::Four, PageLayout::Fourteen];

#[test]
fn with_the_drop_policy_every_packet_arrives_or_is_counted() {
    let mut lost = 0;
    for layout in LAYOUTS {
        for (pages, is_slow) in [(1, false), (2, true), (5, false), (16, true)] {
            let setup = Setup {
                pages,
                layout,
                is_slow,
                ..Setup::default()
            };
            let (arbiter, service) = run(setup, BufferExhaustedPolicy::Drop);
            lost += close_accounts(&arbiter, &service);
        }
    }
    assert!(lost > 0, "the memory was never exhausted");
}

#[test]
fn stalling_writer_loses_nothing_if_the_service_is_slow() {
    for policy in [
        BufferExhaustedPolicy::Stall,
        BufferExhaustedPolicy::StallThenDrop,
    ] {
        for is_slow in [false, true] {
            let setup = Setup {
                // Each writer holds one page as its open chunk; one more page lets all of them go
                // on.
                pages: THREADS + 1,
                stall_limit: Duration::from_secs(30),
                is_slow,
                ..Setup::default()
            };
            let (arbiter, service) = run(setup, policy);
            assert_eq!(close_accounts(&arbiter, &service), 0);
        }
    }
}

#[test]
fn stalling_writer_drops_and_counts_after_its_limit() {
    let setup = Setup {
        pages: 1,
        stall_limit: Duration::from_millis(1),
        ..Setup::default()
    };
    for policy in [
        BufferExhaustedPolicy::Stall,
        BufferExhaustedPolicy::StallThenDrop,
    ] {
        let (arbiter, service) = run(setup, policy);
        assert!(close_accounts(&arbiter, &service) > 0);
    }
}

/// Returns how long a writer was willing to wait for the reader of its buffer, for each of four
/// packets; the reader is behind during the second and third. Also returns the number of dropped
/// packets.
fn waits_for_room(policy: BufferExhaustedPolicy) -> ([Vec<Duration>; 4], u64) {
    let (arbiter, service) = Setup::default().build();
    let mut writer = TraceWriter::new(&arbiter, BUFFER, policy);
    let waits = [true, false, false, true].map(|has_room| {
        service.set_room(has_room);
        write_packet(&mut writer, 1);
        // The next packet then needs another chunk.
        writer.flush();
        service.set_room(has_room)
    });
    (waits, writer.packet_counts().packets_dropped)
}

#[test]
fn stalling_writer_waits_for_its_reader_then_drops() {
    let long = || vec![Setup::default().stall_limit];
    let at_once = || vec![SHORTEST_WAIT];
    assert_eq!(
        waits_for_room(BufferExhaustedPolicy::Drop),
        ([const { Vec::new() }; 4], 0)
    );
    assert_eq!(
        waits_for_room(BufferExhaustedPolicy::Stall),
        ([long(), long(), long(), long()], 2)
    );
    assert_eq!(
        waits_for_room(BufferExhaustedPolicy::StallThenDrop),
        ([long(), long(), at_once(), at_once()], 2)
    );
}

#[test]
fn packet_that_spans_chunks_does_not_wait_for_the_reader() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Stall);
    service.set_room(true);
    write_packet(&mut writer, 1);
    service.set_room(false);
    writer.packet(|packet| packet.append_bytes::<1>(&[7; 10_000]));
    assert_eq!(service.set_room(true), [Duration::ZERO]);
    assert_eq!(service.packets(writer.writer_id().unwrap()).len(), 2);
}

#[test]
fn a_writer_waits_as_long_as_it_is_told_and_no_longer() {
    let (arbiter, _service) = Setup {
        pages: 1,
        stall_limit: Duration::from_secs(3600),
        ..Setup::default()
    }
    .build();
    let writer = |policy| TraceWriter::new(&arbiter, BUFFER, policy);
    let mut holder = writer(BufferExhaustedPolicy::Drop);
    holder.packet(|message| message.append_bool::<1>(true));
    let limit = Duration::from_millis(20);
    let mut stalled = writer(BufferExhaustedPolicy::Stall).with_stall_limit(limit);
    let started = Instant::now();
    stalled.packet(|message| message.append_bool::<1>(true));
    assert!(started.elapsed() >= limit);
    assert_eq!(stalled.packet_counts().packets_dropped, 1);
}

#[test]
fn nothing_is_lost_if_each_writer_can_hold_two_chunks() {
    for layout in LAYOUTS {
        let setup = Setup {
            pages: 2 * THREADS,
            layout,
            ..Setup::default()
        };
        let (arbiter, service) = run(setup, BufferExhaustedPolicy::Drop);
        assert_eq!(close_accounts(&arbiter, &service), 0);
    }
}
