//! The shared mappings and the connections of this process, and their removal from a forked child.
//!
//! A forked child inherits shared mappings of files, so its stores would reach the parent's memory.
//! So a child that becomes [quiet](crate::forked_child) maps private pages over these mappings. It
//! does so even if the thread that called `fork` was in the middle of a packet. The thread then
//! writes the rest of the packet into the private pages, and nobody reads it.
//!
//! A child also inherits descriptors. As long as the child has the descriptor of a connection, the
//! other side does not notice that the parent has ended. So the child closes these descriptors.
//!
//! A fork hook may only call functions that a signal handler may call. So the mappings and the
//! descriptors are in tables of atomics, which the child reads without a lock.
#![allow(unsafe_code)] // Replaces mappings by system calls.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The maximum number of mappings in the table. A ring that streams into a file has up to 128, one
/// for each segment.
const MAPPINGS_MAX: usize = 1024;

/// The address of an entry that is being filled in.
const RESERVED: usize = 1;

/// An entry of the table.
///
/// Invariant: (K1) If `address` is neither 0 nor [`RESERVED`], then `len_bytes` bytes from this
/// address on are mapped, and only their owner uses them. [`Entry`]s guarantee this.
struct Mapping {
    /// The address of the mapping; 0 if the entry is unused.
    address: AtomicUsize,
    len_bytes: AtomicUsize,
}

static MAPPINGS: [Mapping; MAPPINGS_MAX] = [const {
    Mapping {
        address: AtomicUsize::new(0),
        len_bytes: AtomicUsize::new(0),
    }
}; MAPPINGS_MAX];

/// A shared mapping that forked children replace, as long as the entry exists.
#[derive(Debug)]
pub(crate) struct Entry {
    index: usize,
}

impl Entry {
    /// Registers the mapping of `len_bytes` at `address`.
    ///
    /// # Errors
    ///
    /// If the table is full.
    ///
    /// # Safety
    ///
    /// The memory is a mapping of whole pages, which stays in place as long as the entry exists.
    /// All users of the memory in a quiet child can continue with zeroed memory. The child discards
    /// their results.
    pub(crate) unsafe fn new(address: *const u8, len_bytes: usize) -> io::Result<Self> {
        for (index, mapping) in MAPPINGS.iter().enumerate() {
            let address_word = &mapping.address;
            // Acquire pairs with the release in `drop`: the last owner no longer uses the entry.
            let taken =
                address_word.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                mapping.len_bytes.store(len_bytes, Ordering::Relaxed);
                // Release pairs with the acquire in `replace_mappings`: a child that sees the
                // address also sees the length.
                address_word.store(address.addr(), Ordering::Release);
                return Ok(Self { index });
            }
        }
        Err(io::Error::other(format!(
            "this process has {MAPPINGS_MAX} shared mappings for traces, the maximum"
        )))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Release pairs with the acquire in `new`.
        MAPPINGS[self.index].address.store(0, Ordering::Release);
    }
}

/// The maximum number of descriptors that forked children close.
const DESCRIPTORS_MAX: usize = 64;

/// The value of an unused entry of [`DESCRIPTORS`].
const UNUSED: i32 = -1;

/// The numbers of the descriptors that forked children close.
///
/// Invariant: (K2) A number other than [`UNUSED`] belongs to an open descriptor, which nobody uses
/// in a forked child. [`ClosedInChild`]s guarantee this.
static DESCRIPTORS: [AtomicI32; DESCRIPTORS_MAX] =
    [const { AtomicI32::new(UNUSED) }; DESCRIPTORS_MAX];

/// A descriptor that forked children close, if they are [quiet](crate::forked_child).
#[derive(Debug)]
pub struct ClosedInChild {
    /// Keeps the descriptor open as long as its number is in the table.
    _descriptor: Arc<OwnedFd>,
    index: usize,
}

impl ClosedInChild {
    /// Registers a descriptor. Forked children must not use it.
    ///
    /// # Errors
    ///
    /// If the table is full.
    pub fn new(descriptor: Arc<OwnedFd>) -> io::Result<Self> {
        let number = descriptor.as_raw_fd();
        for (index, entry) in DESCRIPTORS.iter().enumerate() {
            // Relaxed, like all accesses: no other memory access depends on the number. A child
            // sees all stores of its parent before the fork.
            let taken =
                entry.compare_exchange(UNUSED, number, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Ok(Self {
                    _descriptor: descriptor,
                    index,
                });
            }
        }
        Err(io::Error::other(format!(
            "this process has {DESCRIPTORS_MAX} connections for traces, the maximum"
        )))
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        DESCRIPTORS[self.index].store(UNUSED, Ordering::Relaxed);
    }
}

/// Closes each descriptor of the table. The only thread of a forked child calls this function,
/// which is async-signal-safe.
pub(crate) fn close_descriptors() {
    for entry in &DESCRIPTORS {
        let number = entry.swap(UNUSED, Ordering::Relaxed);
        if number != UNUSED {
            // SAFETY: no code in this child uses the descriptor (K2). No other code in this child
            // closes it, because the child lacks the thread of its owner.
            unsafe { libc::close(number) };
        }
    }
}

/// Replaces each mapping of the table by private zeroed pages. The only thread of a forked
/// child calls this function, which is async-signal-safe.
pub(crate) fn replace_mappings() {
    for mapping in &MAPPINGS {
        // Acquire pairs with the release in `Entry::new`.
        let address = mapping.address.load(Ordering::Acquire);
        if address <= RESERVED {
            continue;
        }
        // Relaxed: the acquire load of the address comes before this load.
        let len_bytes = mapping.len_bytes.load(Ordering::Relaxed);
        let address = ptr::with_exposed_provenance_mut::<libc::c_void>(address);
        // SAFETY: the pages are a mapping of this process (K1). The creator of the entry has
        // promised that its users in this child can continue with zeroed memory.
        let replaced = unsafe {
            libc::mmap(
                address,
                len_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if replaced == libc::MAP_FAILED {
            // The kernel has no memory for another mapping. Make the pages read-only, so that no
            // store of the child reaches the parent's memory.
            // SAFETY: the pages are a mapping of this process (K1). Code that reads them can
            // continue with the parent's bytes.
            unsafe { libc::mprotect(address, len_bytes, libc::PROT_READ) };
        }
    }
}
