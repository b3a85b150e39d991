//! Arrows between events.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::identity;

/// An arrow from event to event, in the order of their timestamps and across threads: a request on
/// its way through a program. Each event that it passes names it, the last one as its end.
///
/// ```
/// use std::sync::mpsc;
///
/// use tracezero::{Flow, instant, span};
///
/// # let session = tracezero::InMemorySession::start()?;
/// let (send, receive) = mpsc::channel::<Flow>();
/// let worker = std::thread::spawn(move || {
///     for flow in receive {
///         let _span = span!("jobs", "run", last_flow: &flow);
///     }
/// });
/// let flow = Flow::new();
/// instant!("jobs", "enqueue", job = 17, flow: &flow);
/// send.send(flow).expect("the worker waits");
/// drop(send);
/// worker.join().expect("it does not panic");
/// # assert_eq!(session.finish().1.events, 3);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(u64);

impl Flow {
    /// A flow of its own.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only that each number is given once counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(identity::of_process(identity::Kind::NewFlow, number))
    }

    /// The flow of something in this process that has a number: a request, or an address.
    #[must_use]
    pub fn for_process(id: u64) -> Self {
        Self(identity::of_process(identity::Kind::NumberedFlow, id))
    }

    /// The flow with this id in the whole trace, for arrows between processes.
    #[must_use]
    pub const fn global(id: u64) -> Self {
        Self(id)
    }

    /// Its id in the trace.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0
    }
}
