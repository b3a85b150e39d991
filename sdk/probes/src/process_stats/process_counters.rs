//! Counters of processes: memory, run time and open files. A counter is written when it has changed.

use std::mem;
use std::path::PathBuf;

use protozero::HeapBuffered;
use tracezero_kernel::protos;
use tracezero_kernel::protos::process_stats::Process;

use super::packets::Packets;
use super::process_files::ProcessFiles;
use super::process_list::PACKET_BYTES;
use super::settings::Settings;
use super::status::{ProcessTimes, Status};
use crate::words::first_number;

/// A counter of a process.
pub(super) struct Counter {
    /// The key in `status` or `smaps_rollup`; `None` for other files.
    key: Option<&'static str>,
    set: fn(&mut Process<'_>, u64),
}

/// The index of the counter that tells that a process has memory.
const VM_SIZE: usize = 0;
const OOM_SCORE_ADJUSTMENT: usize = 14;
const USER_TIME: usize = 15;
const KERNEL_TIME: usize = 16;
const DMABUF_RSS: usize = 17;

/// All counters of a process, in any order but for the indices above.
pub(super) const COUNTERS: [Counter; 18] = [
    counter(Some("VmSize"), |process, kib| {
        process.set_vm_size_kb(kib);
    }),
    counter(Some("VmLck"), |process, kib| {
        process.set_vm_locked_kb(kib);
    }),
    counter(Some("VmHWM"), |process, kib| {
        process.set_vm_hwm_kb(kib);
    }),
    counter(Some("VmRSS"), |process, kib| {
        process.set_vm_rss_kb(kib);
    }),
    counter(Some("RssAnon"), |process, kib| {
        process.set_rss_anon_kb(kib);
    }),
    counter(Some("RssFile"), |process, kib| {
        process.set_rss_file_kb(kib);
    }),
    counter(Some("RssShmem"), |process, kib| {
        process.set_rss_shmem_kb(kib);
    }),
    counter(Some("VmSwap"), |process, kib| {
        process.set_vm_swap_kb(kib);
    }),
    counter(Some("Rss"), |process, kib| {
        process.set_smr_rss_kb(kib);
    }),
    counter(Some("Pss"), |process, kib| {
        process.set_smr_pss_kb(kib);
    }),
    counter(Some("Pss_Anon"), |process, kib| {
        process.set_smr_pss_anon_kb(kib);
    }),
    counter(Some("Pss_File"), |process, kib| {
        process.set_smr_pss_file_kb(kib);
    }),
    counter(Some("Pss_Shmem"), |process, kib| {
        process.set_smr_pss_shmem_kb(kib);
    }),
    counter(Some("SwapPss"), |process, kib| {
        process.set_smr_swap_pss_kb(kib);
    }),
    counter(None, |process, adjustment| {
        // The cache keeps the bits of the signed number.
        process.set_oom_score_adj(adjustment as i64);
    }),
    counter(None, |process, ns| {
        process.set_runtime_user_mode(ns);
    }),
    counter(None, |process, ns| {
        process.set_runtime_kernel_mode(ns);
    }),
    counter(None, |process, kib| {
        process.set_dmabuf_rss_kb(kib);
    }),
];

const fn counter(key: Option<&'static str>, set: fn(&mut Process<'_>, u64)) -> Counter {
    Counter { key, set }
}

/// The counters of the processes of one instance.
pub(super) struct CounterList {
    settings: Settings,
    /// The length of a tick of the kernel's times of processes.
    tick_ns: u64,
    changes: Changes,
    packet: StatsPacket,
    text: Vec<u8>,
}

/// The changes of one process that are not in the packet yet.
#[derive(Default)]
struct Changes {
    counters: Vec<(usize, u64)>,
    files: Vec<(u64, PathBuf)>,
}

/// A packet that is not written yet.
#[derive(Default)]
struct StatsPacket {
    stats: HeapBuffered<protos::ProcessStats<'static>>,
    /// The time of the first file that was read for it; the packet's timestamp.
    began_ns: u64,
    /// About the size; 0 if there is nothing to write.
    bytes: usize,
}

impl CounterList {
    pub(super) fn new(settings: &Settings, tick_ns: u64) -> Self {
        Self {
            settings: settings.clone(),
            tick_ns,
            changes: Changes::default(),
            packet: StatsPacket::default(),
            text: Vec::new(),
        }
    }

    /// Writes the counters that have changed, of these processes. Returns the processes that have
    /// counters.
    pub(super) fn write_changed(
        &mut self,
        processes: &[i32],
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) -> Vec<i32> {
        self.packet.began_ns = packets.now_ns();
        let mut with_counters = Vec::new();
        for process in processes {
            let has_runtime =
                self.settings.records_runtime && self.read_runtime(*process, files, packets);
            let has_memory = self.read_memory(*process, files, packets);
            if has_memory {
                self.read_open_files(*process, files, packets);
            }
            if has_runtime || has_memory {
                with_counters.push(*process);
            }
            self.add_changes(*process, packets);
        }
        self.end_packet(packets);
        let emitted = packets.emitted();
        emitted.polls += 1;
        if emitted.polls >= self.settings.polls_per_cache {
            emitted.polls = 0;
            emitted.counters.clear();
        }
        with_counters
    }

    /// Writes the open files of these processes, if the session wants them.
    pub(super) fn write_open_files(
        &mut self,
        processes: &[i32],
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) {
        self.packet.began_ns = packets.now_ns();
        for process in processes {
            self.read_open_files(*process, files, packets);
            self.add_changes(*process, packets);
        }
        self.end_packet(packets);
    }

    fn read_runtime(
        &mut self,
        process: i32,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) -> bool {
        let stat = files.read(process, "stat", &mut self.text);
        let Some(times) = ProcessTimes::parse(stat) else {
            return false;
        };
        let mut note = |counter, ticks: u64| {
            let ns = ticks.saturating_mul(self.tick_ns);
            self.changes.note(process, counter, ns, packets);
        };
        note(USER_TIME, times.user_ticks);
        note(KERNEL_TIME, times.kernel_ticks);
        true
    }

    /// Reads the counters of memory. Returns false if the process has none: it has ended, or is one
    /// of the kernel.
    fn read_memory(
        &mut self,
        process: i32,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) -> bool {
        if packets.emitted().without_memory.contains(&process) {
            return false;
        }
        let changes = &mut self.changes;
        let text = &mut self.text;
        let status = Status(files.read(process, "status", text));
        if status.0.is_empty() {
            return false;
        }
        if !changes.note_values(process, status, packets) {
            packets.emitted().without_memory.insert(process);
            return false;
        }
        if self.settings.records_dmabuf_rss {
            let bytes: Option<u64> = first_number(files.read(process, "dmabuf_rss", text));
            if let Some(bytes) = bytes {
                changes.note(process, DMABUF_RSS, bytes / 1024, packets);
            }
        }
        if self.settings.scans_smaps_rollup {
            let rollup = Status(files.read(process, "smaps_rollup", text));
            changes.note_values(process, rollup, packets);
        }
        let adjustment: Option<i64> = first_number(files.read(process, "oom_score_adj", text));
        if let Some(adjustment) = adjustment {
            changes.note(process, OOM_SCORE_ADJUSTMENT, adjustment as u64, packets);
        }
        true
    }

    /// Reads the targets of open files that were not written yet, if the session wants them.
    fn read_open_files(&mut self, process: i32, files: &ProcessFiles, packets: &mut impl Packets) {
        if !self.settings.resolves_fds {
            return;
        }
        for number in files.open_files(process) {
            let emitted = packets.emitted().counters.entry(process).or_default();
            if !emitted.files.contains(&number)
                && let Some(target) = files.open_file(process, number)
            {
                emitted.files.insert(number);
                self.changes.files.push((number, target));
            }
        }
    }

    /// Adds the changes of a process to the packet.
    fn add_changes(&mut self, process: i32, packets: &mut impl Packets) {
        let Changes { counters, files } = mem::take(&mut self.changes);
        if counters.is_empty() && files.is_empty() {
            return;
        }
        // A tag and a number of a few bytes each.
        let mut bytes = 8 + 6 * counters.len();
        self.packet.stats.message().add_processes(|written| {
            written.set_pid(process);
            for (counter, value) in &counters {
                (COUNTERS[*counter].set)(written, *value);
            }
            for (number, target) in &files {
                let target = target.to_string_lossy();
                bytes += 8 + target.len();
                written.add_fds(|file| {
                    file.set_fd(*number).set_path(&target);
                });
            }
        });
        self.changes = Changes::reuse(counters, files);
        self.packet.bytes += bytes;
        if self.packet.bytes >= PACKET_BYTES {
            self.end_packet(packets);
        }
    }

    fn end_packet(&mut self, packets: &mut impl Packets) {
        let packet = &mut self.packet;
        if packet.bytes == 0 {
            return;
        }
        let now_ns = packets.now_ns();
        packet.stats.message().set_collection_end_timestamp(now_ns);
        packets.write_stats(packet.began_ns, &packet.stats.to_vec());
        packet.stats.reset();
        packet.bytes = 0;
        packet.began_ns = now_ns;
    }
}

impl Changes {
    /// Returns no changes, with the memory of these.
    fn reuse(mut counters: Vec<(usize, u64)>, mut files: Vec<(u64, PathBuf)>) -> Self {
        counters.clear();
        files.clear();
        Self { counters, files }
    }

    /// Notes the value of a counter, if it is not the last one that was written.
    fn note(&mut self, process: i32, counter: usize, value: u64, packets: &mut impl Packets) {
        let emitted = packets.emitted().counters.entry(process).or_default();
        if emitted.values[counter].replace(value) != Some(value) {
            self.counters.push((counter, value));
        }
    }

    /// Notes the counters of a file with keys. Returns true if the file has counters of memory.
    fn note_values(
        &mut self,
        process: i32,
        status: Status<'_>,
        packets: &mut impl Packets,
    ) -> bool {
        let mut has_memory = false;
        for (key, value) in status.values() {
            let counter = COUNTERS
                .iter()
                .position(|it| it.key.map(str::as_bytes) == Some(key));
            if let Some(counter) = counter
                && let Some(kib) = first_number(value)
            {
                has_memory |= counter == VM_SIZE;
                self.note(process, counter, kib, packets);
            }
        }
        has_memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_without_a_key_are_at_their_indices() {
        let keys = COUNTERS.map(|counter| counter.key);
        let others = [OOM_SCORE_ADJUSTMENT, USER_TIME, KERNEL_TIME, DMABUF_RSS];
        let without: Vec<usize> = (0..keys.len()).filter(|at| keys[*at].is_none()).collect();
        assert_eq!(without, others);
        assert_eq!(keys[VM_SIZE], Some("VmSize"));
    }
}
