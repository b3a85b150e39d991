//! System calls, and what a thread waits for in them.

use tracezero_kernel::syscalls::{self, Machine};

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Syscall {
    /// The kind of machine, which decides what the number means.
    pub machine: Option<Machine>,
    /// The number of the call.
    pub number: u32,
    /// The first arguments.
    pub args: [u64; 3],
}

/// The word in memory that a thread waits for in a futex call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FutexWait {
    /// The address of the word.
    pub address: u64,
    /// The value that the thread expects there, if the call says so. Mutexes of `std` and of
    /// glibc wait for 2.
    pub expected: Option<u32>,
}

impl Syscall {
    /// Returns the name of the call, if it is known for the machine.
    ///
    /// ```
    /// # use tracezero_reader::kernel::Syscall;
    /// # fn print(call: Syscall) {
    /// match call.name() {
    ///     Some(name) => println!("in {name}"),
    ///     None => println!("in system call {}", call.number),
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        syscalls::name(self.machine?, self.number)
    }

    /// Returns the word that the thread waits for, if the call is one of those of futexes that wait.
    /// Locks, condition variables and parked threads wait in this way.
    #[must_use]
    pub fn futex_wait(&self) -> Option<FutexWait> {
        /// `FUTEX_CMD_MASK`: the operation, without its flags.
        const OPERATION: u64 = 0x7f;
        const WAIT: u64 = 0;
        const LOCK_PI: u64 = 6;
        const WAIT_BITSET: u64 = 9;
        const WAIT_REQUEUE_PI: u64 = 11;
        const LOCK_PI2: u64 = 13;

        let [address, second, third] = self.args;
        let expected = match self.name()? {
            "futex" => match second & OPERATION {
                WAIT | WAIT_BITSET | WAIT_REQUEUE_PI => Some(third as u32),
                LOCK_PI | LOCK_PI2 => None,
                _ => return None,
            },
            "futex_wait" => Some(second as u32),
            // The address is that of a list of words.
            "futex_waitv" => None,
            _ => return None,
        };
        Some(FutexWait { address, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(number: u32, args: [u64; 3]) -> Option<FutexWait> {
        let machine = Some(Machine::X86_64);
        let call = Syscall {
            machine,
            number,
            args,
        };
        call.futex_wait()
    }

    #[test]
    fn futex_calls_that_wait_have_a_word() {
        let word = |expected| {
            Some(FutexWait {
                address: 0x7f00,
                expected,
            })
        };
        // The operations of std's mutex, glibc's mutex, and of a lock that inherits priorities.
        assert_eq!(wait(202, [0x7f00, 137, 2]), word(Some(2)));
        assert_eq!(wait(202, [0x7f00, 128, 2]), word(Some(2)));
        assert_eq!(wait(202, [0x7f00, 134, 0]), word(None));
        assert_eq!(wait(455, [0x7f00, 1, 0]), word(Some(1)));
    }

    #[test]
    fn other_calls_wait_for_no_word() {
        assert_eq!(wait(202, [0x7f00, 129, 1]), None);
        assert_eq!(wait(0, [0x7f00, 128, 2]), None);
        assert_eq!(wait(u32::MAX, [0; 3]), None);
    }
}
