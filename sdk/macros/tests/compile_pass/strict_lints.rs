//! The expansion triggers no lint.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, future_incompatible, let_underscore_drop)]
#![deny(unreachable_pub, single_use_lifetimes, unused_qualifications, unused_results)]

use std::fmt::Debug;

use tracezero::trace;

/// Documented.
#[derive(Debug)]
pub struct Queue<T> {
    items: Vec<T>,
}

impl<T: Debug> Queue<T> {
    /// Documented.
    #[trace("queue", args(count = self.items.len(), ?item))]
    pub fn push(&mut self, item: T) -> &mut Self {
        self.items.push(item);
        self
    }

    /// Documented.
    #[trace("queue", name = "Queue::drain", args(_unused))]
    pub async fn drain(&mut self, _unused: u32) -> usize {
        use std::mem::take;
        take(&mut self.items).len()
    }

    /// Documented.
    #[trace(?result)]
    pub fn newest(&mut self) -> Option<&mut T> {
        self.items.last_mut()
    }

    /// Documented.
    #[trace("queue", result = result.len(), %error)]
    pub async fn written(&self) -> Result<String, std::fmt::Error> {
        use std::fmt::Write;
        let mut text = String::new();
        write!(text, "{:?}", self.items)?;
        Ok(text)
    }

    /// Documented.
    #[must_use]
    #[trace]
    pub fn is_empty(&self) -> bool {
        return self.items.is_empty();
    }
}

#[trace(args(error))]
fn fail(error: &str) -> ! {
    panic!("{error}")
}

#[trace(result = items.len(), error = "none")]
fn cleared(items: &mut Vec<u32>) -> Result<(), u32> {
    items.clear();
    items.is_empty().then_some(()).ok_or(1)
}

#[rustfmt::skip]
#[trace(result)]
fn one_line(number: u32) -> u32 { number + 1 }

fn is_send(_: &impl Send) {}

fn main() {
    let mut queue = Queue { items: Vec::new() };
    let _ = queue.push(1).push(2);
    is_send(&queue.drain(3));
    is_send(&queue.written());
    assert_eq!(cleared(&mut vec![1]), Ok(()));
    assert_eq!(queue.newest(), Some(&mut 2));
    if queue.is_empty() || one_line(1) != 2 {
        fail("there are two");
    }
}
