//! The tracer of one session: what it is told, and what is read of it.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use tracezero::SessionId;
use tracezero_kernel::protos::FtraceParseStatus;
use tracezero_kernel::protos::ftrace_stats::Phase;

use super::Ftrace;
use super::bundle::{BundleBuffers, BundleBuilder, ClockSnapshot, CpuState, PageReader};
use super::config::Config;
use super::cpu_stats::CpuStats;
use super::error::FtraceError;
use super::event_encoder::EventEncoder;
use super::live::Live;
use super::page::PageLayout;
use super::stats::{self, Counts, SetupReport};
use super::trace_clock::TraceClock;
use super::tracefs::{Instance, Tracefs};
use crate::instance_key::InstanceKey;
use crate::process_stats;
use crate::seen_threads::SeenThreads;

/// The tracer of one session.
pub(super) struct Recorder {
    key: InstanceKey,
    session: SessionId,
    config: Config,
    // Dropped before `instance`: the kernel keeps an instance whose pages are open.
    cpus: Vec<Cpu>,
    instance: Instance,
    /// Dropped after `instance`.
    _live: Live,
    clock: TraceClock,
    report: SetupReport,
    /// The size of each CPU's buffer, in pages.
    buffer_pages: usize,
    pages: PageReader,
    encoder: EventEncoder,
    seen: SeenThreads,
    buffers: BundleBuffers,
    /// The memory for one page.
    page: Vec<u8>,
    /// Statuses of pages that could not be read, each once.
    page_errors: Vec<FtraceParseStatus>,
    counts_at_start: Vec<(u32, CpuStats)>,
}

/// One CPU's buffer.
struct Cpu {
    number: u32,
    pages: File,
    state: CpuState,
}

/// Why a CPU's pages are not read any further for now.
enum Pause {
    /// The kernel has no more events, or those of this pass are read.
    CaughtUp,
    Failed(FtraceParseStatus),
}

impl Recorder {
    /// Sets up an instance of the tracer, which records nothing yet.
    pub(super) fn set_up(
        tracefs: &Tracefs,
        key: InstanceKey,
        session: SessionId,
        mut config: Config,
    ) -> Result<Self, FtraceError> {
        let live = Live::count();
        tracefs.remove_left();
        let instance = match config.instance.as_str() {
            "" => tracefs.new_instance()?,
            name => tracefs.instance(name)?,
        };
        let mut report = SetupReport {
            unknown: Vec::new(),
            failed: config.refused.clone(),
        };
        if config.drain_percent.is_some() && !says_when_buffers_fill(&kernel_release()) {
            report
                .failed
                .push("drain_buffer_percent: Linux 6.9 or later is needed".to_owned());
            config.read_often();
        }
        let clock = TraceClock::choose(&instance, config.uses_mono_raw)?;
        instance.write("buffer_size_kb", &config.buffer_kib.to_string())?;
        restrict(&instance, &config, &mut report)?;
        let layout = layout(&instance).unwrap_or_else(|error| {
            report.failed.push(error);
            guessed_layout()
        });
        let buffer_kib: usize = read_number(&instance, "buffer_size_kb").unwrap_or_default();
        let (encoder, compact) =
            EventEncoder::set_up(key, &config, tracefs, &instance, &mut report);
        let mut cpus = Vec::new();
        for number in instance.cpus() {
            cpus.push(Cpu {
                number,
                pages: instance.pages_of(number)?,
                state: CpuState::new(number),
            });
        }
        Ok(Self {
            key,
            session,
            config,
            cpus,
            instance,
            _live: live,
            clock,
            report,
            buffer_pages: (buffer_kib << 10).div_ceil(layout.data_bytes()).max(1),
            pages: PageReader { layout, compact },
            encoder,
            seen: SeenThreads::default(),
            buffers: BundleBuffers::default(),
            page: vec![0; layout.size_bytes()],
            page_errors: Vec::new(),
            counts_at_start: Vec::new(),
        })
    }

    /// Lets the kernel record.
    pub(super) fn start(&mut self) {
        if let Some(percent) = self.config.drain_percent {
            self.set("buffer_percent", &percent.to_string());
        }
        self.counts_at_start = self.counts();
        self.set("tracing_on", "1");
    }

    /// Writes the counts of the start.
    pub(super) fn write_start(&self) {
        self.write_counts(Phase::START_OF_TRACE);
    }

    /// Writes the events that the kernel had recorded when this was called.
    pub(super) fn read(&mut self) {
        let until_ns = self.clock.now_ns();
        let mut cpus = std::mem::take(&mut self.cpus);
        for cpu in &mut cpus {
            if let Pause::Failed(status) = self.read_cpu(cpu, until_ns)
                && !self.page_errors.contains(&status)
            {
                self.page_errors.push(status);
            }
        }
        self.cpus = cpus;
        self.name_threads();
    }

    /// Writes all events up to now, and the counts of the moment.
    pub(super) fn flush(&mut self) {
        self.read();
        // A ring that overwrites packets still has both counts then.
        self.write_counts(Phase::START_OF_TRACE);
        self.write_counts(Phase::END_OF_TRACE);
        self.commit();
    }

    /// Stops the kernel, and writes what it has.
    pub(super) fn stop(&mut self) {
        self.set("tracing_on", "0");
        self.read();
        self.write_counts(Phase::END_OF_TRACE);
        self.commit();
    }

    /// Hands what this thread has written to the service.
    fn commit(&self) {
        Ftrace::with_instance(self.key, |cx| {
            cx.flush();
        });
    }

    /// Returns false if the session has ended without stopping this recorder.
    pub(super) fn has_session(&self) -> bool {
        let mut has_session = false;
        Ftrace::with_instance(self.key, |_| has_session = true);
        has_session
    }

    pub(super) const fn drain_period(&self) -> Duration {
        self.config.drain_period
    }

    /// Returns the buffers that say when they have filled.
    pub(super) fn filling_pipes(&self) -> Vec<BorrowedFd<'_>> {
        match self.config.drain_percent {
            Some(_) => self.cpus.iter().map(|cpu| cpu.pages.as_fd()).collect(),
            None => Vec::new(),
        }
    }

    /// Reads a CPU's pages until one has events after `until_ns`.
    ///
    /// "Until there are no more" would not end: if system calls are recorded, each read makes new events.
    fn read_cpu(&mut self, cpu: &mut Cpu, until_ns: Option<u64>) -> Pause {
        let clock = self.clock_snapshot();
        let mut bundle = BundleBuilder::begin(&mut self.buffers, &mut cpu.state, clock);
        let mut pause = Pause::CaughtUp;
        // More pages than the buffer has, with that of the reader, were filled meanwhile.
        for _ in 0..self.buffer_pages + 2 {
            let read =
                rustix::io::retry_on_intr(|| rustix::io::read(&cpu.pages, &mut self.page[..]));
            match read {
                Ok(read) if read == self.page.len() => {}
                Ok(0) => break,
                Ok(_) => {
                    pause = Pause::Failed(FtraceParseStatus::FTRACE_STATUS_PARTIAL_PAGE_READ);
                    break;
                }
                // There are no events, the CPU is offline, or the kernel is busy.
                Err(Errno::AGAIN | Errno::NOMEM | Errno::BUSY | Errno::NODEV) => break,
                Err(_) => {
                    pause = Pause::Failed(FtraceParseStatus::FTRACE_STATUS_UNEXPECTED_READ_ERROR);
                    break;
                }
            }
            let page = bundle.add_page(&self.page, &self.pages, &mut self.seen, &mut self.encoder);
            match page {
                Ok(page) if until_ns.is_some_and(|until_ns| page.timestamp_ns() > until_ns) => {
                    break;
                }
                Ok(_) => {}
                Err(error) => pause = Pause::Failed(error.status()),
            }
        }
        bundle.end(&mut self.encoder);
        pause
    }

    /// Hands the threads of this pass to the list of processes of the same session.
    fn name_threads(&mut self) {
        process_stats::note(self.session, &self.seen);
        self.seen.clear();
    }

    /// Reads the clock of the events and that of the trace, if they are two.
    fn clock_snapshot(&self) -> Option<ClockSnapshot> {
        let clock = self.clock.in_schema()?;
        let boot_ns = TraceClock::Boot.now_ns().unwrap_or_default();
        let ftrace_ns = self.clock.now_ns().or_else(|| {
            let stats = self.instance.read("per_cpu/cpu0/stats").ok()?;
            Some((CpuStats::parse(&stats).now_s * 1e9) as u64)
        });
        Some(ClockSnapshot {
            clock,
            ftrace_timestamp_ns: ftrace_ns.unwrap_or_default().cast_signed(),
            boot_timestamp_ns: boot_ns.cast_signed(),
        })
    }

    fn counts(&self) -> Vec<(u32, CpuStats)> {
        let cpus = self.cpus.iter();
        cpus.filter_map(|cpu| {
            let file = format!("per_cpu/cpu{}/stats", cpu.number);
            let stats = self.instance.read(&file).ok()?;
            Some((cpu.number, CpuStats::parse(&stats)))
        })
        .collect()
    }

    /// Writes the counts of the moment, or those of the start.
    fn write_counts(&self, phase: Phase) {
        let now = match phase {
            Phase::START_OF_TRACE => None,
            _ => Some(self.counts()),
        };
        let mut cpus = self.cpus.iter();
        let counts = Counts {
            phase,
            cpus: now.as_deref().unwrap_or(&self.counts_at_start),
            symbols: self.encoder.symbols(),
            page_errors: &self.page_errors,
            has_invalid_records: cpus.any(|cpu| cpu.state.counts().invalid_records > 0),
            buffer_pages: u32::try_from(self.buffer_pages).unwrap_or(u32::MAX),
        };
        Ftrace::with_instance(self.key, |cx| stats::write(cx, &counts, &self.report));
    }

    /// Changes a setting. The trace says so if that fails.
    fn set(&mut self, file: &str, text: &str) {
        if let Err(error) = self.instance.write(file, text) {
            self.report.failed.push(error.to_string());
        }
    }
}

#[cfg(test)]
impl Recorder {
    pub(super) fn failures(&self) -> &[String] {
        &self.report.failed
    }

    pub(super) fn unknown_events(&self) -> &[String] {
        &self.report.unknown
    }

    pub(super) fn has_no_failures(&self) -> bool {
        self.report.failed.is_empty() && self.report.unknown.is_empty()
    }

    pub(super) const fn has_columns(&self) -> bool {
        self.pages.compact.is_some()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("key", &self.key)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// Restricts what is recorded to threads and CPUs, and sets options. Fails if it would record more than
/// the session wants.
fn restrict(
    instance: &Instance,
    config: &Config,
    report: &mut SetupReport,
) -> Result<(), FtraceError> {
    if !config.tids.is_empty() {
        let tids: Vec<String> = config.tids.iter().map(u32::to_string).collect();
        instance.write("set_event_pid", &tids.join(" "))?;
    }
    if !config.cpumask.is_empty() {
        instance.write("tracing_cpumask", &config.cpumask)?;
    }
    for (name, is_on) in &config.options {
        let mut letters = name.chars();
        if !letters.all(|it| it.is_ascii_alphanumeric() || "_-".contains(it)) {
            let failure = format!("tracefs_options: {name:?} is no option");
            report.failed.push(failure);
            continue;
        }
        let value = if *is_on { "1" } else { "0" };
        if let Err(error) = instance.write(&format!("options/{name}"), value) {
            report.failed.push(format!("tracefs_options: {error}"));
        }
    }
    Ok(())
}

/// Returns the layout of the kernel's pages, or why it is not known.
pub(super) fn layout(instance: &Instance) -> Result<PageLayout, String> {
    let header = instance.read("events/header_page");
    let header = header.map_err(|error| format!("events/header_page: {error}"))?;
    PageLayout::parse(&header).map_err(|error| error.to_string())
}

fn guessed_layout() -> PageLayout {
    let machine = rustix::system::uname();
    let page_bytes = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    PageLayout::guess(&machine.machine().to_string_lossy(), page_bytes)
}

fn read_number(instance: &Instance, file: &str) -> Option<usize> {
    // Before its first use, a buffer says `7 (expanded: 1408)`.
    let text = instance.read(file).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// Returns true if a kernel wakes up readers of raw pages when a buffer has filled to some degree. Older
/// kernels did so at wrong times, or never.
fn says_when_buffers_fill(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut next = || numbers.next().and_then(|it| it.parse::<u32>().ok());
    matches!((next(), next()), (Some(major), Some(minor)) if (major, minor) >= (6, 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_say_when_buffers_fill_since_6_9() {
        for release in ["6.9.0-rc1", "6.18.44-fc", "7.0"] {
            assert!(says_when_buffers_fill(release), "{release}");
        }
        for release in ["5.15.0-91-generic", "6.8.12", "4.19", ""] {
            assert!(!says_when_buffers_fill(release), "{release}");
        }
    }
}
