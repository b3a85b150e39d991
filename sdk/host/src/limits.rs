//! Limits on connections. The service itself limits what producers register and what sessions have.

use std::time::Duration;

/// The number of frames that cannot be decoded after which a connection ends.
pub(crate) const MALFORMED_FRAMES_MAX: u32 = 16;

/// The number of frames of a connection that are handled before other connections have their turn.
pub(crate) const FRAMES_PER_TURN_MAX: usize = 64;

/// The number of frames with chunks of a producer that are handled before other connections have
/// their turn: with our own producers, at most 256 KiB. A packet may wait in a ring for its rest,
/// which is in the next frame of its producer. The commits of dozens of producers before that frame
/// must not overwrite the packet.
pub(crate) const COMMITS_PER_TURN_MAX: usize = 2;

/// The time in which a connection must make its first call.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How long bytes may wait for a peer that takes none. Then the connection ends.
pub(crate) const STUCK_LIMIT: Duration = Duration::from_secs(10);

/// The number of bytes that may wait for a producer. If more wait, it is disconnected.
pub(crate) const PRODUCER_QUEUE_MAX_BYTES: usize = 4 << 20;

/// The number of bytes waiting for a consumer above which no more of its trace is read.
pub(crate) const CONSUMER_QUEUE_HIGH_BYTES: usize = 1 << 20;

/// The number of bytes that may wait for a consumer. If more wait, it is disconnected.
pub(crate) const CONSUMER_QUEUE_MAX_BYTES: usize = 8 << 20;

/// How long a producer's frames wait for a thread that writes a file and makes no progress. After
/// that time, until the thread has caught up, they may overwrite packets that the thread has not
/// read.
pub(crate) const STUCK_READER_LIMIT: Duration = Duration::from_millis(500);

/// How long a producer's frames wait in total for a thread that makes progress. Answers to flushes
/// wait behind these frames, and must come within five seconds.
pub(crate) const SLOW_READER_LIMIT: Duration = Duration::from_secs(2);

/// How often the event loop looks whether frames still have to wait for a thread that writes a file.
pub(crate) const SLOW_READER_CHECK: Duration = Duration::from_millis(2);

/// The number of consumers that may be connected at once.
pub(crate) const CONSUMERS_MAX: usize = 32;

/// The number of connections that may be open at once, unless the process may have fewer
/// descriptors.
const CONNECTIONS_MAX: usize = 4096;

/// The number of descriptors that connections leave for files and memory.
const DESCRIPTORS_LEFT: usize = 64;

/// The size of the shared memory of all producers of one user, in bytes.
pub(crate) const SHARED_MEMORY_PER_UID_MAX_BYTES: usize = 512 << 20;

/// The number of lists that a consumer may ask for before it has taken their replies. Further
/// requests fail.
pub(crate) const QUERIES_MAX: usize = 4;

/// The number of commands that may wait until a producer asks for commands. If more wait, the
/// producer is disconnected.
pub(crate) const COMMANDS_WAITING_MAX: usize = 4096;

/// The number of writers and buffers of a producer whose counts are kept.
pub(crate) const WRITER_TOTALS_MAX: usize = 65_536;

/// How long the daemon accepts no connections after the process has run out of descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long sessions may take to end when the daemon is asked to end. After that, consumers have
/// the same time to read their traces.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(5);

/// Returns the number of descriptors that the process may have.
pub(crate) fn descriptors_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |it| it as usize)
}

/// Returns the number of connections that a process with so many descriptors may have. A connection
/// takes up to two descriptors. If there are few descriptors, a connection counts as four, so that
/// some are left for files and memory.
pub(crate) fn connections_max(descriptors: usize) -> usize {
    let for_connections = (descriptors / 2).saturating_sub(DESCRIPTORS_LEFT);
    for_connections
        .max(descriptors / 4)
        .clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_two_to_four_descriptors_and_4096_are_the_most() {
        for (descriptors, connections) in [
            (0, 1),
            (7, 1),
            (64, 16),
            (256, 64),
            (258, 65),
            (1024, 448),
            (2 * 4095 + 2 * 64, 4095),
            (2 * 4096 + 2 * 64, 4096),
            (usize::MAX, 4096),
        ] {
            assert_eq!(connections_max(descriptors), connections, "{descriptors}");
        }
    }
}
