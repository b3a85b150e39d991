//! Descriptors that the program that started this one has left open for it, and named by number.
//!
//! A number alone does not tell whose descriptor it is. But only a descriptor without the flag
//! close-on-exec comes from another program, and Rust's library and this SDK open all of theirs with
//! the flag.
#![allow(unsafe_code)] // Owns a descriptor that is known by its number alone.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use parking_lot::Mutex;
use rustix::io::{FdFlags, fcntl_setfd};

/// The numbers from here on are not those of the standard input, output and error, which Rust's
/// library uses for ever.
const FIRST: RawFd = 3;

/// Held while a descriptor is taken, so that no two threads take the same one.
static TAKING: Mutex<()> = Mutex::new(());

/// Takes the descriptor `number`, which this process has inherited. From then on it is closed when it
/// is dropped, and other programs do not inherit it.
///
/// Call it before code of another language opens descriptors without close-on-exec, which look like
/// inherited ones.
///
/// # Errors
///
/// If no descriptor has this number, if this process has opened or taken it, or if it is the standard
/// input, output or error.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let _taking = TAKING.lock();
    if number < FIRST || !is_inherited(number)? {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {number} is not an inherited one"),
        ));
    }
    // SAFETY: the descriptor is open, and nobody else owns it:
    // (D1) what Rust code opens has close-on-exec, and this one has not;
    // (D2) what was taken has close-on-exec, too, since the next line, and no other thread is here;
    // (D3) it is not one of the three that Rust's library uses without owning them.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

/// Returns whether the descriptor would stay open in a program that this one becomes.
fn is_inherited(number: RawFd) -> io::Result<bool> {
    // SAFETY: the call uses no memory, and changes nothing. A number that is not open is an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    match flags {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags & libc::FD_CLOEXEC == 0),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn an_inherited_descriptor_is_taken_once_and_closed() {
        let (mut reader, writer) = io::pipe().unwrap();
        // A copy without close-on-exec, as a program inherits it.
        let number = rustix::io::dup(&writer).unwrap();
        drop(writer);
        let number = std::os::fd::IntoRawFd::into_raw_fd(number);
        let taken = take(number).unwrap();
        let error = take(number).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        std::fs::File::from(taken).write_all(b"1").unwrap();
        let mut text = String::new();
        // Ends, because nobody can write any more.
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "1");
    }

    #[test]
    fn own_descriptors_and_the_standard_ones_are_not_taken() {
        let (reader, _writer) = io::pipe().unwrap();
        for number in [0, 1, 2, reader.as_raw_fd()] {
            let error = take(number).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert!(take(-1).is_err());
        let error = take(RawFd::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
