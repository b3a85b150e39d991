//! Counts of the kernel's buffers: `per_cpu/cpuN/stats`.

use tracezero_kernel::protos::FtraceCpuStats;

/// The counts of one CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CpuStats {
    pub(super) entries: u64,
    /// Events that newer ones have overwritten.
    pub(super) overrun: u64,
    pub(super) commit_overrun: u64,
    /// The bytes that are in the buffer.
    pub(super) bytes: u64,
    pub(super) oldest_event_s: f64,
    pub(super) now_s: f64,
    pub(super) dropped_events: u64,
    pub(super) read_events: u64,
}

impl CpuStats {
    /// Parses the file. Lines that are unknown or malformed count as absent.
    pub(super) fn parse(text: &str) -> Self {
        let mut stats = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let count = value.parse().unwrap_or_default();
            let seconds = value.parse().unwrap_or_default();
            match key.trim() {
                "entries" => stats.entries = count,
                "overrun" => stats.overrun = count,
                "commit overrun" => stats.commit_overrun = count,
                "bytes" => stats.bytes = count,
                "oldest event ts" => stats.oldest_event_s = seconds,
                "now ts" => stats.now_s = seconds,
                "dropped events" => stats.dropped_events = count,
                "read events" => stats.read_events = count,
                _ => {}
            }
        }
        stats
    }

    /// Writes the counts of a CPU.
    pub(super) fn write(&self, cpu: u32, message: &mut FtraceCpuStats<'_>) {
        message
            .set_cpu(cpu.into())
            .set_entries(self.entries)
            .set_overrun(self.overrun)
            .set_commit_overrun(self.commit_overrun)
            .set_bytes_read(self.bytes)
            .set_oldest_event_ts(self.oldest_event_s)
            .set_now_ts(self.now_s)
            .set_dropped_events(self.dropped_events)
            .set_read_events(self.read_events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_count() {
        let text = "entries: 3\noverrun: 20\ncommit overrun: 0\nbytes: 168\n\
                    oldest event ts:  1234.567890\nnow ts: 1300.000001\ndropped events: 7\nread events: 9\n";
        let expected = CpuStats {
            entries: 3,
            overrun: 20,
            commit_overrun: 0,
            bytes: 168,
            oldest_event_s: 1_234.567_89,
            now_s: 1_300.000_001,
            dropped_events: 7,
            read_events: 9,
        };
        assert_eq!(CpuStats::parse(text), expected);
    }

    #[test]
    fn blanks_and_unknown_lines_do_not_matter() {
        let stats = CpuStats::parse("\nentries : 1\nnew kind: 5\n overrun:8\nbytes: many\nrubbish");
        assert_eq!((stats.entries, stats.overrun, stats.bytes), (1, 8, 0));
    }
}
