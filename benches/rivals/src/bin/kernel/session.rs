//! A recording of the kernel by a daemon and a recorder of the same make.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rivals::daemons::{Daemon, Kind, Programs, end_session};
use rivals::kernel_trace::KernelEvents;
use rivals::programs::{Running, wait_for};
use rivals::usage::processor_time;

use crate::Result;
use crate::switches::{self, Taken};

/// The size of the kernel's buffer of each CPU.
pub const BUFFER_KIB: u32 = 8192;
/// The time in which a recorder connects, or a session starts. The command `perfetto` does not say when.
const SETTLES: Duration = Duration::from_millis(1000);

/// The events of the kernel in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Switches and wakings, in columns.
    Compact,
    /// Switches and wake-ups as single events, and all system calls.
    Verbose,
    /// The group `sched`, as `tracezero record --kernel sched` has it.
    SchedGroup,
}

impl Events {
    pub fn name(self) -> &'static str {
        match self {
            Self::Compact => "columns",
            Self::Verbose => "with system calls",
            Self::SchedGroup => "sched",
        }
    }

    fn config(self) -> String {
        let events: &[&str] = match self {
            Self::Compact => &["sched/sched_switch", "sched/sched_waking"],
            Self::Verbose => &[
                "sched/sched_switch",
                "sched/sched_waking",
                "raw_syscalls/sys_enter",
                "raw_syscalls/sys_exit",
            ],
            Self::SchedGroup => &[
                "sched/sched_switch",
                "sched/sched_waking",
                "sched/sched_wakeup_new",
                "sched/sched_process_exit",
                "sched/sched_process_free",
                "task/task_newtask",
                "task/task_rename",
            ],
        };
        let is_compact = self != Self::Verbose;
        let events: String = events
            .iter()
            .map(|event| format!("ftrace_events: \"{event}\"\n"))
            .collect();
        format!(
            r#"
            buffers {{ size_kb: 1048576 fill_policy: DISCARD }}
            data_sources {{ config {{
                name: "linux.ftrace"
                ftrace_config {{
                    {events}
                    buffer_size_kb: {BUFFER_KIB}
                    compact_sched {{ enabled: {is_compact} }}
                }}
            }} }}
            "#
        )
    }
}

/// The figures of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub load: Taken,
    /// The processor time of the recorder, until the load was done.
    pub recorder: Duration,
    /// Also contains the start and the end of the session.
    pub recorder_in_all: Duration,
    /// The processor time of the daemon until the load was done.
    pub daemon: Duration,
    pub bytes: u64,
    pub events: KernelEvents,
}

/// Records a load.
pub fn record(
    kind: Kind,
    events: Events,
    (per_second, count): (u64, u64),
    programs: &Programs,
    scratch: &Path,
) -> Result<Outcome> {
    let daemon = Daemon::start(kind, programs, scratch)?;
    let mut recorder = daemon.producer(&mut programs.probes(kind)?, "a recorder")?;
    thread::sleep(SETTLES);
    let before_session = processor_time(recorder.id())?;
    let session = daemon.session(&events.config())?;
    thread::sleep(SETTLES);
    let recorder_before = processor_time(recorder.id())?;
    let daemon_before = processor_time(daemon.id())?;
    let mut load = Running::start(&mut switches::command(per_second, count)?, "the load")?;
    let taken = switches::let_run(&mut load)?;
    // The recorder reads events within 100 ms.
    thread::sleep(Duration::from_millis(200));
    let recorder_after = processor_time(recorder.id())?;
    let daemon_after = processor_time(daemon.id())?;
    load.go_on()?;
    load.wait()?;
    end_session(session)?;
    let in_all = processor_time(recorder.id())? - before_session;
    // A recorder that is killed would leave its tracer in the kernel.
    recorder.signal("TERM")?;
    wait_for(|| recorder.has_ended(), "a recorder")?;
    let trace = daemon.trace();
    Ok(Outcome {
        load: taken,
        recorder: recorder_after - recorder_before,
        recorder_in_all: in_all,
        daemon: daemon_after - daemon_before,
        bytes: trace.metadata()?.len(),
        events: KernelEvents::of_file(&trace)?,
    })
}
