//! Decodes the states that the kernel gives a thread when it takes its core away.

/// The version of the kernel that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelVersion {
    major: u32,
    minor: u32,
}

/// What a thread does from the moment on at which its core is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffCore {
    Runnable {
        is_preempted: bool,
    },
    Sleeping,
    Blocked,
    Stopped,
    Traced,
    Dead,
    Zombie,
    Parked,
    Idle,
    /// The bits are not of this version of the kernel.
    Invalid,
}

impl KernelVersion {
    /// The version if the trace does not say it. Old traces do not.
    pub(super) const OLD: Self = Self { major: 4, minor: 4 };

    /// Reads the numbers in front of a release, such as `6.18.44-generic`.
    pub(super) fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }

    /// Decodes the bits of `prev_state`. The low six never changed; those above have other meanings
    /// since 4.14, and since 4.8.
    pub(super) fn decode(self, bits: u16) -> OffCore {
        let version = (self.major, self.minor);
        let has = |bit: u16| bits & bit != 0;
        let (preempted, parked, idle) = match version {
            (4, 14..) | (5.., _) => (has(0x100), has(0x40), has(0x80)),
            // A thread that is blocked, but does not count as load.
            (4, 8..) => (has(0x1000), has(0x200), bits & 0x402 == 0x402),
            _ => (has(0x800), has(0x200), bits & 0x402 == 0x402),
        };
        if version >= (4, 14) && has(0xfe00) {
            return OffCore::Invalid;
        }
        match () {
            () if idle => OffCore::Idle,
            () if has(0x02) => OffCore::Blocked,
            () if has(0x01) => OffCore::Sleeping,
            () if has(0x04) => OffCore::Stopped,
            () if has(0x08) => OffCore::Traced,
            // Before 4.14, 0x40 says that the thread is about to be freed.
            () if has(0x10) || (version < (4, 14) && has(0x40)) => OffCore::Dead,
            () if has(0x20) => OffCore::Zombie,
            () if parked => OffCore::Parked,
            () => OffCore::Runnable {
                is_preempted: preempted,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(release: &str, bits: u16) -> OffCore {
        let version = KernelVersion::of_release(release).expect("a release");
        version.decode(bits)
    }

    #[test]
    fn states_of_new_kernels_are_decoded() {
        let preempted = OffCore::Runnable { is_preempted: true };
        let runnable = OffCore::Runnable {
            is_preempted: false,
        };
        for (bits, state) in [
            (0, runnable),
            (0x01, OffCore::Sleeping),
            (0x02, OffCore::Blocked),
            (0x04, OffCore::Stopped),
            (0x08, OffCore::Traced),
            (0x10, OffCore::Dead),
            (0x20, OffCore::Zombie),
            (0x40, OffCore::Parked),
            (0x80, OffCore::Idle),
            (0x100, preempted),
            (0x200, OffCore::Invalid),
            (0x8001, OffCore::Invalid),
        ] {
            for release in ["6.18.44-fc-v657", "4.14.0", "5.10"] {
                assert_eq!(decode(release, bits), state, "{release} {bits:#x}");
            }
        }
    }

    #[test]
    fn bits_of_old_kernels_have_their_old_meaning() {
        let preempted = OffCore::Runnable { is_preempted: true };
        for (release, bits, state) in [
            ("4.9.1", 0x1000, preempted),
            ("4.4.302", 0x800, preempted),
            ("4.9.1", 0x402, OffCore::Idle),
            ("4.9.1", 0x82, OffCore::Blocked),
            ("4.9.1", 0x200, OffCore::Parked),
            ("4.9.1", 0x40, OffCore::Dead),
        ] {
            assert_eq!(decode(release, bits), state, "{release} {bits:#x}");
        }
    }

    #[test]
    fn release_without_numbers_has_no_version() {
        for release in ["", "6", "six.one", ".1", "99999999999.1"] {
            assert_eq!(KernelVersion::of_release(release), None, "{release:?}");
        }
    }
}
