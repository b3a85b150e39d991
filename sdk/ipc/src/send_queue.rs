//! Bytes that wait until a socket has room for them. A descriptor goes with the first byte of its
//! frame.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// If more memory than this is free after all bytes were sent, it is given back: a daemon has many
/// connections, to most of which it sends little.
const KEPT_BYTES_MAX: usize = 1024;

/// Bytes that wait to be sent.
///
/// ```
/// use tracezero_ipc::frame::append_frame;
/// use tracezero_ipc::send_queue::SendQueue;
///
/// let mut queue = SendQueue::default();
/// queue.push(|out| append_frame(out, b"frame"));
/// assert_eq!(queue.len_bytes(), 9);
/// ```
#[derive(Debug, Default)]
pub struct SendQueue {
    /// The bytes from `start` on wait.
    bytes: Vec<u8>,
    start: usize,
    /// Descriptors, and the places in `bytes` that they go with. The places ascend, and none is
    /// before `start`.
    descriptors: VecDeque<(usize, OwnedFd)>,
}

impl SendQueue {
    /// Returns the number of bytes that wait.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns true if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len_bytes() == 0
    }

    /// Returns the bytes that wait.
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Adds the bytes that `append` appends.
    pub fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        // A queue that is never empty must not grow for ever.
        if self.start > self.bytes.len() / 2 {
            self.remove_sent();
        }
        append(&mut self.bytes);
    }

    /// Adds a frame, with a descriptor that goes with its first byte.
    pub fn push_with_descriptor(&mut self, descriptor: OwnedFd, append: impl FnOnce(&mut Vec<u8>)) {
        self.push(|_| ());
        let place = self.bytes.len();
        append(&mut self.bytes);
        debug_assert!(self.bytes.len() > place, "a descriptor needs a byte");
        self.descriptors.push_back((place, descriptor));
    }

    /// Moves all that waits in `other` behind what waits here.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        self.push(|_| ());
        let end = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[other.start..]);
        let moved = other.descriptors.drain(..);
        self.descriptors
            .extend(moved.map(|(place, fd)| (place - other.start + end, fd)));
        other.clear();
    }

    /// Returns the bytes to send next, which do not reach beyond the next byte with a descriptor. The
    /// first of them goes with the descriptor, if there is one.
    pub(crate) fn next(&self) -> (&[u8], Option<BorrowedFd<'_>>) {
        let mut descriptors = self.descriptors.iter().peekable();
        let own = descriptors.next_if(|(place, _)| *place == self.start);
        let end = descriptors.next().map_or(self.bytes.len(), |next| next.0);
        (&self.bytes[self.start..end], own.map(|(_, fd)| fd.as_fd()))
    }

    /// Notes that the first `len` bytes of [`next`](Self::next) were sent. Closes their descriptor.
    pub(crate) fn sent(&mut self, len: usize) {
        if len > 0 {
            self.descriptors
                .pop_front_if(|(place, _)| *place == self.start);
        }
        self.start += len;
        if self.is_empty() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.start = 0;
    }

    fn remove_sent(&mut self) {
        self.bytes.drain(..self.start);
        for (place, _) in &mut self.descriptors {
            *place -= self.start;
        }
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    /// Takes `max` bytes at a time. Returns the bytes, and those that went with a descriptor.
    fn drain(queue: &mut SendQueue, max: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut all, mut with_descriptor) = (Vec::new(), Vec::new());
        while !queue.is_empty() {
            let (bytes, descriptor) = queue.next();
            let len = bytes.len().min(max);
            all.extend_from_slice(&bytes[..len]);
            with_descriptor.extend(descriptor.map(|_| bytes[0]));
            queue.sent(len);
        }
        (all, with_descriptor)
    }

    #[test]
    fn each_descriptor_goes_with_its_byte_alone() {
        for max in [1, 2, 3, 100] {
            let mut queue = SendQueue::default();
            queue.push(|out| out.extend(b"ab"));
            queue.push_with_descriptor(descriptor(), |out| out.extend(b"cde"));
            queue.push_with_descriptor(descriptor(), |out| out.extend(b"f"));
            queue.push(|out| out.extend(b"g"));
            let sent = drain(&mut queue, max);
            assert_eq!(sent, (b"abcdefg".to_vec(), b"cf".to_vec()), "{max}");
        }
    }

    #[test]
    fn descriptors_keep_their_places_when_queues_are_joined() {
        let mut one = SendQueue::default();
        let mut other = SendQueue::default();
        one.push_with_descriptor(descriptor(), |out| out.extend(b"abc"));
        one.sent(2);
        other.push(|out| out.extend(b"de"));
        other.sent(1);
        other.push_with_descriptor(descriptor(), |out| out.extend(b"fg"));
        one.append(&mut other);
        assert!(other.is_empty());
        assert_eq!(drain(&mut one, 9), (b"cefg".to_vec(), b"f".to_vec()));
    }

    #[test]
    fn a_queue_that_is_never_empty_does_not_grow() {
        let mut queue = SendQueue::default();
        queue.push(|out| out.extend(b"first"));
        for _ in 0..10_000 {
            queue.push(|out| out.extend([0; 100]));
            queue.sent(100);
        }
        assert_eq!(queue.len_bytes(), 5);
        assert!(queue.bytes.capacity() < 1000, "{}", queue.bytes.capacity());
    }
}
