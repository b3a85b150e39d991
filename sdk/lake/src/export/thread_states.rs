//! The table `thread_state`.

use tracezero_reader::kernel::{KernelTimelines, Thread, ThreadState, Waker};

use super::threads::Threads;
use crate::error::LakeError;
use crate::sorter::{Key, RowReader, RowWriter, SortRow, Sorter};
use crate::staging::Staging;
use crate::table_writer::TableWriter;
use crate::workers::Workers;

/// The number of rows that are kept in memory.
const ROWS_MAX: usize = 128 * 1024;

/// The states, under trace processor's names.
const STATES: [&str; 11] = ["Running", "R", "R+", "S", "D", "T", "t", "X", "Z", "P", "I"];

/// A time in which a thread was in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StateRow {
    begin_ns: u64,
    utid: i64,
    duration_ns: u64,
    cpu: Option<u32>,
    /// The index in [`STATES`]; `None` if the trace does not tell.
    state: Option<usize>,
    waker: Option<i64>,
    syscall: Option<u32>,
}

/// Writes the rows of the table, sorted by time.
pub(super) fn write(
    kernel: &KernelTimelines,
    threads: &Threads,
    workers: &Workers,
    table: &mut TableWriter,
    staging: &Staging,
) -> Result<(), LakeError> {
    let mut rows = Sorter::new(ROWS_MAX, workers, staging.path("thread_states"));
    let mut syscalls: Vec<&'static str> = Vec::new();
    for thread in kernel.threads() {
        if let Some(utid) = threads.utid(thread.id) {
            add_states(kernel, threads, &thread, utid, &mut syscalls, &mut rows)?;
        }
    }
    let mut rows = rows.finish()?;
    while let Some(row) = rows.next()? {
        let state = row.state.map(|index| (index, STATES[index]));
        let syscall = row
            .syscall
            .map(|index| (index as usize, syscalls[index as usize]));
        table
            .row(staging)?
            .uint(row.begin_ns)
            .uint(row.duration_ns)
            .maybe_int(row.cpu.map(i64::from))
            .int(row.utid)
            .choice(state)
            .maybe_int(row.waker)
            .choice(syscall);
    }
    Ok(())
}

fn add_states(
    kernel: &KernelTimelines,
    threads: &Threads,
    thread: &Thread,
    utid: i64,
    syscalls: &mut Vec<&'static str>,
    rows: &mut Sorter<StateRow>,
) -> Result<(), LakeError> {
    // The wake-up that ended the interval before. Trace processor has it in the row of the time until the thread
    // got a core.
    let mut waker = None;
    for interval in kernel.states(thread.id, thread.begin_ns..thread.end_ns) {
        let (state, cpu) = match interval.state {
            ThreadState::Running { cpu } => (Some(0), Some(cpu)),
            ThreadState::Runnable {
                is_preempted: false,
                ..
            } => (Some(1), None),
            ThreadState::Runnable {
                is_preempted: true, ..
            } => (Some(2), None),
            ThreadState::Sleeping => (Some(3), None),
            ThreadState::Blocked => (Some(4), None),
            ThreadState::Stopped => (Some(5), None),
            ThreadState::Traced => (Some(6), None),
            ThreadState::Dead => (Some(7), None),
            ThreadState::Zombie => (Some(8), None),
            ThreadState::Parked => (Some(9), None),
            ThreadState::Idle => (Some(10), None),
            _ => (None, None),
        };
        let woken_by = match interval.wake.map(|wake| wake.waker) {
            Some(Waker::Thread(id)) => threads.utid(id),
            _ => None,
        };
        let is_runnable = matches!(state, Some(1 | 2));
        let syscall = interval.syscall.and_then(|call| call.name()).map(|name| {
            let known = syscalls.iter().position(|other| *other == name);
            known.unwrap_or_else(|| {
                syscalls.push(name);
                syscalls.len() - 1
            }) as u32
        });
        rows.push(StateRow {
            begin_ns: interval.begin_ns,
            utid,
            duration_ns: interval.end_ns - interval.begin_ns,
            cpu,
            state,
            waker: waker.filter(|_| is_runnable),
            syscall,
        })?;
        waker = woken_by;
    }
    Ok(())
}

impl SortRow for StateRow {
    fn key(&self) -> Key {
        (self.begin_ns, self.utid.cast_unsigned())
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        out.uint(self.duration_ns);
        // 0 stands for none.
        out.uint(self.cpu.map_or(0, |cpu| u64::from(cpu) + 1));
        out.uint(self.state.map_or(0, |state| state as u64 + 1));
        out.uint(self.waker.map_or(0, i64::cast_unsigned));
        out.uint(self.syscall.map_or(0, |syscall| u64::from(syscall) + 1));
    }

    fn read((begin_ns, utid): Key, input: &mut RowReader<'_>) -> Option<Self> {
        let duration_ns = input.uint()?;
        let mut small = || Some(u32::try_from(input.uint()?).ok()?.checked_sub(1));
        let (cpu, state) = (small()?, small()?);
        let waker = Some(input.uint()?).filter(|utid| *utid > 0);
        Some(Self {
            begin_ns,
            utid: utid.cast_signed(),
            duration_ns,
            cpu,
            state: state
                .map(|state| state as usize)
                .filter(|state| *state < STATES.len()),
            waker: waker.map(u64::cast_signed),
            syscall: u32::try_from(input.uint()?).ok()?.checked_sub(1),
        })
    }
}
