//! The files `status` and `stat` of a process or thread.

use std::borrow::Cow;

use crate::words::{first_number, key_and_value, lines, number, text_of, words};

/// The content of `/proc/ID/status`.
#[derive(Clone, Copy)]
pub(super) struct Status<'t>(pub(super) &'t [u8]);

impl<'t> Status<'t> {
    fn value(self, key: &[u8]) -> Option<&'t [u8]> {
        self.values()
            .find_map(|(found, value)| (found == key).then_some(value))
    }

    /// Returns all keys with their values, which have a unit behind them.
    pub(super) fn values(self) -> impl Iterator<Item = (&'t [u8], &'t [u8])> {
        lines(self.0).filter_map(key_and_value)
    }

    /// Returns the id of the thread, and that of its process. Both are positive.
    pub(super) fn ids(self) -> Option<(i32, i32)> {
        let id = |key| first_number::<i32>(self.value(key)?).filter(|id| *id > 0);
        Some((id(b"Pid")?, id(b"Tgid")?))
    }

    /// Returns the id of the parent process; 0 if it has none.
    pub(super) fn parent(self) -> i32 {
        self.value(b"PPid").and_then(first_number).unwrap_or(0)
    }

    /// Returns the real user.
    pub(super) fn user(self) -> Option<u32> {
        first_number(self.value(b"Uid")?)
    }

    /// Returns the thread's name.
    pub(super) fn name(self) -> Cow<'t, str> {
        unescaped(text_of(self.value(b"Name").unwrap_or_default()))
    }

    /// Returns the ids in the namespaces below that of `/proc`, the outermost first.
    pub(super) fn inner_ids(self) -> impl Iterator<Item = i32> {
        let ids = words(self.value(b"NSpid").unwrap_or_default()).skip(1);
        ids.filter_map(number)
    }

    /// Returns true for a thread of the kernel. Kernels before 6.4 do not tell.
    pub(super) fn is_kernel_thread(self) -> Option<bool> {
        match self.value(b"Kthread")? {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }
}

/// Undoes what the kernel does to a name, which may contain any byte but NUL: it writes `\n` for a
/// line's end, and `\\` for a backslash.
fn unescaped(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains('\\') {
        return name;
    }
    let mut plain = String::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        match (character, characters.as_str().chars().next()) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('\\')) => plain.push('\\'),
            _ => {
                plain.push(character);
                continue;
            }
        }
        characters.next();
    }
    Cow::Owned(plain)
}

/// Times of a process, in ticks of the system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessTimes {
    /// The time that the process ran in user mode.
    pub(super) user_ticks: u64,
    /// The time that the process ran in the kernel.
    pub(super) kernel_ticks: u64,
    /// The time from the start of the system to that of the process.
    pub(super) start_ticks: u64,
}

impl ProcessTimes {
    /// Reads `/proc/PID/stat`: `PID (name) state ...`. The name may contain blanks and parentheses.
    pub(super) fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        // The fields are numbered from 1; the state is the third.
        let mut fields = words(&stat[name_end + 1..]).skip(14 - 3);
        let user_ticks = number(fields.next()?)?;
        let kernel_ticks = number(fields.next()?)?;
        let start_ticks = number(fields.nth(22 - 16)?)?;
        Some(Self {
            user_ticks,
            kernel_ticks,
            start_ticks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let fields = "S 1 1 1 0 -1 4194560 1 2 3 4 1234 567 8 9 20 0 1 0 15842 10 11";
        let expected = ProcessTimes {
            user_ticks: 1234,
            kernel_ticks: 567,
            start_ticks: 15842,
        };
        for name in ["sh", "tmux: server", "a) S 7 (b", ")", ""] {
            let stat = format!("42 ({name}) {fields}\n");
            let times = ProcessTimes::parse(stat.as_bytes());
            assert_eq!(times, Some(expected), "{name}");
        }
    }

    #[test]
    fn cut_stat_is_no_times() {
        let stat = b"42 (sh) S 1 1 1 0 -1 4194560 1 2 3 4 1234 567 8 9 20 0 1 0 15842";
        assert!(ProcessTimes::parse(stat).is_some());
        for len in 0..stat.len() - 5 {
            assert_eq!(ProcessTimes::parse(&stat[..len]), None, "{len}");
        }
    }

    #[test]
    fn status_may_end_anywhere() {
        let whole = b"Name:\ta\\\\b\nTgid:\t42\nPid:\t43\nPPid:\t1\nUid:\t5\t6\nNSpid:\t43\t3\n";
        for end in 0..whole.len() {
            let status = Status(&whole[..end]);
            let inner_ids = status.inner_ids().collect::<Vec<_>>();
            assert!(inner_ids.is_empty() || inner_ids == [3], "{end}");
            assert!(matches!(status.ids(), None | Some((4 | 43, 42))), "{end}");
            assert!(
                "a\\b".starts_with(status.name().trim_end_matches('\\')),
                "{end}"
            );
        }
    }

    #[test]
    fn ids_are_positive() {
        let ids = |text: &str| Status(text.as_bytes()).ids();
        assert_eq!(ids("Tgid:\t42\nPid:\t43\n"), Some((43, 42)));
        for wrong in [
            "",
            "Tgid:\t42\n",
            "Tgid:\t42\nPid:\t0\n",
            "Tgid:\t-1\nPid:\t43\n",
        ] {
            assert_eq!(ids(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn name_is_as_the_thread_set_it() {
        let name = |text: &str| Status(text.as_bytes()).name().into_owned();
        assert_eq!(name("Name:\tkworker/0:1-events\n"), "kworker/0:1-events");
        assert_eq!(name("Name:\ta\\\\nb\\nc\\\n"), "a\\nb\nc\\");
        assert_eq!(name("Umask:\t0\n"), "");
    }

    #[test]
    fn kernel_threads_are_known_since_the_kernel_tells() {
        let is_kernel_thread = |text: &str| Status(text.as_bytes()).is_kernel_thread();
        let found = [
            "Kthread:\t1\n",
            "Kthread:\t0\n",
            "Kthread:\t2\n",
            "Pid:\t1\n",
        ];
        let expected = [Some(true), Some(false), None, None];
        assert_eq!(found.map(is_kernel_thread), expected);
    }
}
