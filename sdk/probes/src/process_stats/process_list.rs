//! The list of processes and threads: which of them readers know, and what is written about the
//! others.

use std::collections::BTreeMap;
use std::mem;

use protozero::HeapBuffered;
use tracezero_kernel::protos;

use super::packets::Packets;
use super::process_files::ProcessFiles;
use super::settings::Settings;
use super::status::{ProcessTimes, Status};
use crate::seen_threads::SeenThreads;
use crate::words::text_of;

/// The size at which a packet ends, in bytes. The loss of a packet then costs little.
pub(super) const PACKET_BYTES: usize = 16 << 10;

/// The part of a command line that is written, in bytes.
const COMMAND_LINE_BYTES_MAX: usize = 64 << 10;

/// About the size of the fields of a process or thread other than texts, in bytes.
const ENTRY_BYTES: usize = 32;

/// After all threads were written again, the next time is at least this many times as far away as that
/// took. It limits the time that a small ring costs.
const REST_FACTOR: u64 = 10;

/// The processes and threads of one instance.
pub(super) struct ProcessList {
    settings: Settings,
    /// The length of a tick of the kernel's times of processes.
    tick_ns: u64,
    /// The threads that were ever written, each with its process. Those that were gone when they
    /// were looked up, or that the kernel has freed, are not among them.
    known: BTreeMap<i32, i32>,
    /// The time from which all known threads may be written again.
    next_full_ns: u64,
    packet: TreePacket,
    status: Vec<u8>,
    other: Vec<u8>,
}

/// A packet that is not written yet.
#[derive(Default)]
struct TreePacket {
    tree: HeapBuffered<protos::ProcessTree<'static>>,
    /// The time of the first entry; the packet's timestamp.
    began_ns: u64,
    /// About the size; 0 if there is nothing to write.
    bytes: usize,
}

impl ProcessList {
    pub(super) fn new(settings: &Settings, tick_ns: u64) -> Self {
        Self {
            settings: settings.clone(),
            tick_ns,
            known: BTreeMap::new(),
            next_full_ns: 0,
            packet: TreePacket::default(),
            status: Vec::new(),
            other: Vec::new(),
        }
    }

    /// Writes all processes and threads of the machine.
    pub(super) fn write_all(&mut self, files: &ProcessFiles, packets: &mut impl Packets) {
        let (began_ns, drop_count) = (packets.now_ns(), packets.drop_count());
        for process in files.processes() {
            let mut text = mem::take(&mut self.status);
            let status = Status(files.read(process, "status", &mut text));
            let is_added = self.add_process(process, status, files, packets);
            // Without names and inner ids, the files of the threads have nothing to add.
            let has_details =
                self.settings.records_thread_names || status.inner_ids().next().is_some();
            self.status = text;
            if !is_added {
                continue;
            }
            for thread in files.threads(process) {
                if thread == process {
                    continue;
                }
                if has_details {
                    self.add(thread, files, packets);
                } else {
                    self.add_thread(thread, process, Status(&[]), packets);
                }
            }
        }
        self.end_packet(packets);
        self.note_complete(began_ns, drop_count, packets);
    }

    /// Writes the threads that were seen and that readers do not know, and before each its process.
    /// Writes all threads that are known and alive if readers may not know them any longer.
    pub(super) fn look_up(
        &mut self,
        threads: &SeenThreads,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) {
        for thread in &threads.freed {
            self.known.remove(thread);
            packets.emitted().forget(*thread);
        }
        for thread in &threads.renamed {
            packets.emitted().threads.remove(thread);
        }
        if !packets.emitted().is_complete && packets.now_ns() >= self.next_full_ns {
            self.write_known(files, packets);
        }
        let renamed = threads.renamed.iter();
        for thread in renamed.filter(|thread| **thread > 0).chain(threads.seen()) {
            self.add_unless_emitted(*thread, files, packets);
        }
        self.end_packet(packets);
    }

    /// Forgets all threads whose process is not among `processes`, which are sorted.
    pub(super) fn keep_only(&mut self, processes: &[i32]) {
        self.known
            .retain(|_, process| processes.binary_search(process).is_ok());
    }

    fn write_known(&mut self, files: &ProcessFiles, packets: &mut impl Packets) {
        let (began_ns, drop_count) = (packets.now_ns(), packets.drop_count());
        let known: Vec<i32> = self.known.keys().copied().collect();
        for thread in known {
            self.add_unless_emitted(thread, files, packets);
        }
        self.end_packet(packets);
        self.note_complete(began_ns, drop_count, packets);
    }

    /// Notes that all known threads were written, beginning at `began_ns`.
    fn note_complete(&mut self, began_ns: u64, drop_count: u64, packets: &mut impl Packets) {
        let now_ns = packets.now_ns();
        let rest_ns = now_ns.saturating_sub(began_ns).saturating_mul(REST_FACTOR);
        self.next_full_ns = now_ns.saturating_add(rest_ns);
        if packets.drop_count() == drop_count {
            // These packets may have filled so much of a ring that the state is empty again. But no
            // other packets are newer.
            let emitted = packets.emitted();
            emitted.threads.extend(&self.known);
            emitted.is_complete = true;
        }
    }

    fn add_unless_emitted(
        &mut self,
        thread: i32,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) {
        if !packets.emitted().threads.contains_key(&thread) {
            self.add(thread, files, packets);
        }
    }

    /// Adds a thread, and before it its process if readers do not know that. A thread that has ended
    /// is forgotten.
    fn add(&mut self, thread: i32, files: &ProcessFiles, packets: &mut impl Packets) {
        let mut text = mem::take(&mut self.status);
        let status = Status(files.read(thread, "status", &mut text));
        if !self.add_with_status(thread, status, files, packets) {
            self.known.remove(&thread);
        }
        self.status = text;
    }

    fn add_with_status(
        &mut self,
        thread: i32,
        status: Status<'_>,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) -> bool {
        let Some((id, process)) = status.ids() else {
            return false;
        };
        if id != thread {
            return false;
        }
        if thread == process {
            return self.add_process(process, status, files, packets);
        }
        if !packets.emitted().threads.contains_key(&process) {
            let mut text = Vec::new();
            let status = Status(files.read(process, "status", &mut text));
            if !self.add_process(process, status, files, packets) {
                return false;
            }
        }
        self.add_thread(thread, process, status, packets);
        true
    }

    /// Adds a process and its main thread. Returns false if there is no process with this id.
    fn add_process(
        &mut self,
        id: i32,
        status: Status<'_>,
        files: &ProcessFiles,
        packets: &mut impl Packets,
    ) -> bool {
        // Meanwhile, the id may be that of a thread of another process.
        if status.ids() != Some((id, id)) {
            return false;
        }
        let start_ticks = if self.settings.records_age {
            let stat = files.read(id, "stat", &mut self.other);
            ProcessTimes::parse(stat).map(|times| times.start_ticks)
        } else {
            None
        };
        let command_line = files.read(id, "cmdline", &mut self.other);
        let command_line = &command_line[..command_line.len().min(COMMAND_LINE_BYTES_MAX)];
        self.packet.grow(ENTRY_BYTES + command_line.len(), packets);
        self.packet.tree.message().add_processes(|process| {
            process.set_pid(id).set_ppid(status.parent());
            if let Some(user) = status.user() {
                // The schema has a signed type for a number that is not.
                process.set_uid(user as i32);
            }
            for inner_id in status.inner_ids() {
                process.add_nspid(inner_id);
            }
            // Programs that write their state over the command line leave a row of NULs behind it.
            let arguments = command_line.split(|byte| *byte == 0);
            let mut arguments = arguments.filter(|it| !it.is_empty()).peekable();
            if arguments.peek().is_none() {
                // The kernel's threads have no command line, and neither have zombies.
                process.add_cmdline(&status.name());
                process.set_cmdline_is_comm(true);
            }
            for argument in arguments {
                process.add_cmdline(&text_of(argument));
            }
            if let Some(ticks) = start_ticks {
                process.set_process_start_from_boot(ticks.saturating_mul(self.tick_ns));
            }
            if let Some(is_kernel_thread) = status.is_kernel_thread() {
                process.set_is_kthread(is_kernel_thread);
            }
        });
        if self.settings.skips_main_threads {
            self.note(id, id, packets);
        } else {
            self.add_thread(id, id, status, packets);
        }
        true
    }

    /// Adds a thread, with details if the status has some.
    fn add_thread(
        &mut self,
        id: i32,
        process: i32,
        status: Status<'_>,
        packets: &mut impl Packets,
    ) {
        self.packet.grow(ENTRY_BYTES, packets);
        self.packet.tree.message().add_threads(|thread| {
            thread.set_tid(id).set_tgid(process);
            for inner_id in status.inner_ids() {
                thread.add_nstid(inner_id);
            }
            if self.settings.records_thread_names {
                thread.set_name(&status.name());
            }
        });
        self.note(id, process, packets);
    }

    /// Notes that a thread is in the packet.
    fn note(&mut self, thread: i32, process: i32, packets: &mut impl Packets) {
        self.known.insert(thread, process);
        packets.emitted().threads.insert(thread, process);
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
        packet.tree.message().set_collection_end_timestamp(now_ns);
        packets.write_tree(packet.began_ns, &packet.tree.to_vec());
        packet.tree.reset();
        packet.bytes = 0;
    }
}

impl TreePacket {
    /// Counts an entry of this size, which the caller adds.
    fn grow(&mut self, bytes: usize, packets: &impl Packets) {
        if self.bytes == 0 {
            self.began_ns = packets.now_ns();
        }
        self.bytes += bytes;
    }
}
