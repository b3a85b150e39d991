//! A line on the terminal that says how a recording is going.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tracezero_consumer::DaemonSession;
use tracezero_core::protos::TraceStatsDecoder;

use crate::units::{self, bytes, duration};

/// The period at which the line changes.
const PERIOD: Duration = Duration::from_millis(500);

/// The line. It is never shown if the standard error is no terminal, or with `--quiet`.
#[derive(Debug)]
pub(super) struct LiveLine {
    started: Instant,
    next: Option<Instant>,
    scope: Scope,
    /// True if the buffers are written when the recording ends. Until then nobody counts their events,
    /// and what a ring overwrites is not lost but not wanted.
    is_before_end: bool,
}

/// Whose processes the line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A program: all processes that have recorded so far, without this many producers of this command.
    Program { own: u64 },
    /// The machine: the processes that are connected now.
    Machine,
}

impl LiveLine {
    /// Starts the clock. With `is_before_end`, nothing is written before the recording ends.
    pub(super) fn start(is_quiet: bool, scope: Scope, is_before_end: bool) -> Self {
        let started = Instant::now();
        let is_shown = !is_quiet && io::stderr().is_terminal();
        let next = is_shown.then_some(started + PERIOD);
        Self {
            started,
            next,
            scope,
            is_before_end,
        }
    }

    /// Shows how the recording is going, if it is time.
    pub(super) fn update(&mut self, session: &mut DaemonSession) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + PERIOD);
        // If the daemon is busy, or the session has ended, the line stays as it is.
        if let Some(figures) = self.figures(session) {
            let time = duration(self.started.elapsed().as_nanos() as u64);
            show(&format!("\r\x1b[K{time}: {figures}"));
        }
    }

    /// Formats what a session has so far. `traced` does not count packets, so for it this only says
    /// whether there are losses.
    fn figures(&self, session: &mut DaemonSession) -> Option<String> {
        let encoded = session.stats().ok()?;
        let stats = TraceStatsDecoder::new(&encoded);
        let (written, has_losses) = buffer_figures(&stats)?;
        let processes = match self.scope {
            Scope::Program { own } => {
                let seen = stats.producers_seen().ok()?;
                seen.map(|seen| seen.saturating_sub(own))
            }
            Scope::Machine => stats.producers_connected().ok()?.map(u64::from),
        };
        let processes = units::processes(processes.unwrap_or_default());
        let written = bytes(written);
        if self.is_before_end {
            return Some(format!("{processes}, {written} written to the buffers"));
        }
        Some(match session.packet_totals() {
            Ok(totals) => {
                let recorded = units::events_and_packets(totals.events, totals.data_packets);
                let lost = totals.lost;
                format!("{recorded} of {processes}, {lost} lost, {written}")
            }
            Err(_) if has_losses => format!("{processes}, {written}, some losses"),
            Err(_) => format!("{processes}, {written}, no losses"),
        })
    }

    /// Removes the line, until the next update.
    pub(super) fn clear(&self) {
        if self.next.is_some() {
            show("\r\x1b[K");
        }
    }
}

fn show(text: &str) {
    let mut stderr = io::stderr();
    // Ignores errors: the recording goes on even if the terminal is gone.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Returns the number of bytes in all buffers since the begin, and whether a buffer has losses.
fn buffer_figures(stats: &TraceStatsDecoder<'_>) -> Option<(u64, bool)> {
    let (mut written, mut lost) = (0, 0);
    for buffer in stats.buffer_stats() {
        let buffer = buffer.ok()?;
        written += buffer.bytes_written().ok()?.unwrap_or_default();
        lost += buffer.chunks_overwritten().ok()?.unwrap_or_default();
        lost += buffer.trace_writer_packet_loss().ok()?.unwrap_or_default();
    }
    Some((written, lost > 0))
}
