//! Polls futures by hand, on threads with given names.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

/// A future that is pending once, then ready.
#[derive(Default)]
pub struct Pause {
    is_over: bool,
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        Poll::Pending
    }
}

pub fn pause() -> Pause {
    Pause::default()
}

/// Runs `work` on a new thread with this name.
pub fn on<T: Send>(thread_name: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(thread_name.to_owned());
        let running = thread.spawn_scoped(scope, work).unwrap();
        running.join().unwrap()
    })
}

/// A future that a test polls by hand.
pub struct Task<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T: Send> Task<T> {
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub fn poll(&mut self) -> Poll<T> {
        self.0
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    pub fn poll_on(&mut self, thread_name: &str) -> Poll<T> {
        on(thread_name, || self.poll())
    }

    pub fn run(mut self) -> T {
        loop {
            if let Poll::Ready(result) = self.poll() {
                return result;
            }
        }
    }
}
