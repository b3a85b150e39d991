//! Flows: arrows between events.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::identity;

/// An arrow that joins events, also of different threads, in the order of their timestamps. It
/// shows how, for example, a request moves through a program. Each of the events names the flow:
/// with `flow:`, or with `last_flow:` if the flow ends there.
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
    /// Creates a flow that differs from all others.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the numbers must only be unique.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(identity::of_process(identity::Kind::NewFlow, number))
    }

    /// Returns this process's flow with a number of your choice, such as a request number or an
    /// address.
    #[must_use]
    pub fn for_process(id: u64) -> Self {
        Self(identity::of_process(identity::Kind::NumberedFlow, id))
    }

    /// Returns the flow with this id in the whole trace, to join events of several processes.
    #[must_use]
    pub const fn global(id: u64) -> Self {
        Self(id)
    }

    /// Returns the flow's id in the trace.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0
    }
}
