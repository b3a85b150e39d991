//! Groups of events that answer one kind of question.

use std::fmt;
use std::str::FromStr;

/// Events of the kernel that answer one kind of question together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventGroup {
    /// Which thread runs on which CPU, which waits for one, and who wakes it up. Also begins, ends and
    /// names of threads.
    Sched,
    /// Interrupts, and the work that they put off.
    Irq,
    /// All system calls, with their arguments and results.
    Syscalls,
    /// Requests to disks.
    Block,
    /// Frequencies of CPUs, and when they idle.
    Power,
}

impl EventGroup {
    /// All groups.
    pub const ALL: [Self; 5] = [
        Self::Sched,
        Self::Irq,
        Self::Syscalls,
        Self::Block,
        Self::Power,
    ];

    /// Returns the name of the group, such as `sched`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Irq => "irq",
            Self::Syscalls => "syscalls",
            Self::Block => "block",
            Self::Power => "power",
        }
    }

    /// Returns the kernel's names of the events, such as `sched/sched_switch`.
    #[must_use]
    pub const fn events(self) -> &'static [&'static str] {
        match self {
            Self::Sched => &[
                "sched/sched_switch",
                "sched/sched_waking",
                "sched/sched_wakeup_new",
                "sched/sched_process_exit",
                "sched/sched_process_free",
                "task/task_newtask",
                "task/task_rename",
            ],
            Self::Irq => &[
                "irq/irq_handler_entry",
                "irq/irq_handler_exit",
                "irq/softirq_entry",
                "irq/softirq_exit",
            ],
            Self::Syscalls => &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"],
            Self::Block => &["block/block_rq_issue", "block/block_rq_complete"],
            Self::Power => &["power/cpu_frequency", "power/cpu_idle"],
        }
    }
}

impl fmt::Display for EventGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not that of an [`EventGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEventGroup(String);

impl fmt::Display for UnknownEventGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(f, "{name:?} is no group of events: the groups are ")?;
        for (index, group) in EventGroup::ALL.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{group}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownEventGroup {}

impl FromStr for EventGroup {
    type Err = UnknownEventGroup;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|group| group.name() == name);
        named.ok_or_else(|| UnknownEventGroup(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names() {
        for group in EventGroup::ALL {
            assert_eq!(group.to_string().parse(), Ok(group));
        }
        let error = "disk".parse::<EventGroup>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"disk\" is no group of events: the groups are sched, irq, syscalls, block, power"
        );
    }
}
