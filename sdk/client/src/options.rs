//! How to connect to a daemon.

use std::time::Duration;

use tracezero_ipc::address::Address;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the daemon listens.
    pub address: Address,
    /// The name by which configurations choose this producer.
    pub producer_name: String,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// The longest time that a writer waits for a free chunk, if its policy makes it wait.
    pub stall_limit: Duration,
    /// True if the first trace point of a data source waits until the daemon has said whether it
    /// records the data source. If false, the events until then are lost.
    pub waits_for_daemon: bool,
    /// Users whose daemons are trusted, in addition to root and the own user.
    pub trusted_uids: Vec<u32>,
}

/// The size of the shared memory that is asked for by default, in bytes. With the 256 KiB that daemons
/// give by themselves, two threads at full speed lose events before the daemon has read them.
const MEMORY_SIZE_BYTES: u32 = 4 << 20;

/// The longest time that a writer waits for a free chunk by default. A daemon frees chunks within
/// milliseconds, or within some hundred milliseconds on an overloaded machine. A daemon that has
/// stopped must not stop the application, so a thread waits only once for such a daemon.
const STALL_LIMIT: Duration = Duration::from_secs(1);

impl Options {
    /// Returns the default settings.
    #[must_use]
    pub fn new(address: Address, producer_name: String) -> Self {
        Self {
            address,
            producer_name,
            memory_size_bytes: MEMORY_SIZE_BYTES,
            page_size_bytes: 0,
            stall_limit: STALL_LIMIT,
            waits_for_daemon: false,
            trusted_uids: Vec::new(),
        }
    }
}
