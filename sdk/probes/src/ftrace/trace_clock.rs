//! The clock of the kernel's events.

use rustix::time::{ClockId, clock_gettime};
use tracezero_kernel::protos::FtraceClock;

use super::error::FtraceError;
use super::tracefs::Instance;

/// The clocks that events may have, the best first. The first one is taken only if a configuration asks
/// for it. The trace's own clock needs no conversion.
const BEST: [(&str, TraceClock); 4] = [
    ("mono_raw", TraceClock::MonoRaw),
    ("boot", TraceClock::Boot),
    ("global", TraceClock::Global),
    ("local", TraceClock::Local),
];

/// The clock of the kernel's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceClock {
    /// The trace's own clock.
    Boot,
    MonoRaw,
    Global,
    Local,
    Unknown,
}

impl TraceClock {
    /// Sets an instance's clock to the best that the kernel has.
    pub(super) fn choose(instance: &Instance, wants_mono_raw: bool) -> Result<Self, FtraceError> {
        // Without the file, the clock stays as it is, and nobody knows what it shows.
        let Ok(clocks) = instance.read("trace_clock") else {
            return Ok(Self::Unknown);
        };
        let Some((name, clock)) = Self::best_of(&clocks, wants_mono_raw) else {
            return Ok(Self::Unknown);
        };
        // Writing the clock clears the buffers.
        if !clocks.contains(&format!("[{name}]")) {
            instance.write("trace_clock", name)?;
        }
        Ok(clock)
    }

    /// Chooses one of the clocks in the kernel's list.
    fn best_of(clocks: &str, wants_mono_raw: bool) -> Option<(&'static str, Self)> {
        let known = clocks
            .split_whitespace()
            .map(|clock| clock.trim_matches(['[', ']']));
        let is_known = |name: &str| known.clone().any(|clock| clock == name);
        let mut wanted = BEST.into_iter().skip(usize::from(!wants_mono_raw));
        wanted.find(|(name, _)| is_known(name))
    }

    /// Returns the clock in the schema; `None` for the trace's own clock.
    pub(super) const fn in_schema(self) -> Option<FtraceClock> {
        Some(match self {
            Self::Boot => return None,
            Self::MonoRaw => FtraceClock::MONO_RAW,
            Self::Global => FtraceClock::GLOBAL,
            Self::Local => FtraceClock::LOCAL,
            Self::Unknown => FtraceClock::UNKNOWN,
        })
    }

    /// Returns the time now. `None` if user space cannot read the clock.
    pub(super) fn now_ns(self) -> Option<u64> {
        let id = match self {
            Self::Boot => ClockId::Boottime,
            Self::MonoRaw => ClockId::MonotonicRaw,
            Self::Global | Self::Local | Self::Unknown => return None,
        };
        let time = clock_gettime(id);
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "[local] global counter uptime perf mono mono_raw boot tai x86-tsc";

    #[test]
    fn best_clock_is_chosen() {
        let best =
            |clocks, wants_raw| TraceClock::best_of(clocks, wants_raw).map(|(_, clock)| clock);
        assert_eq!(best(ALL, false), Some(TraceClock::Boot));
        assert_eq!(best(ALL, true), Some(TraceClock::MonoRaw));
        assert_eq!(best("local [global] perf", true), Some(TraceClock::Global));
        assert_eq!(best("[local]", false), Some(TraceClock::Local));
        assert_eq!(best("perf mono", false), None);
        assert_eq!(best("", false), None);
    }
}
