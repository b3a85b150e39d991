//! A producer of another process, as the service sees it: turns the service's calls into commands.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::{
    DataSourceSetup, FlushFlags, MemorySizes, Producer, WriterTotals,
};
use tracezero_core::ids::{BufferId, FlushId, InstanceId, WriterId};
use tracezero_core::received_file::ReceivedFile;
use tracezero_core::shm::{ForeignMemory, Geometry, SharedFd, SharedFdError};
use tracezero_ipc::producer_port::{self, ReceivedIntroduction};
use tracezero_ipc::wire::Body;
use tracezero_service::MemoryToCome;

use crate::limits::{COMMANDS_WAITING_MAX, WRITER_TOTALS_MAX};
use crate::log::{Log, Subject};
use crate::memory::{self, MemoryQuotas, QuotaPart};
use crate::outgoing::Outgoing;
use crate::peer::Peer;

const TOO_MUCH: &str = "its user has as much memory as a user may have";

/// A producer of another process.
pub(crate) struct RemoteProducer {
    /// The name and the user, for the log.
    label: String,
    peer: Peer,
    outgoing: Arc<Outgoing>,
    wished: MemorySizes,
    /// True if configurations can change while the producer uses them.
    takes_changes: bool,
    memory: MemoryToCome,
    quotas: Arc<MemoryQuotas>,
    log: Log,
    /// Locked while a command is added, so that commands keep their order.
    commands: Mutex<Commands>,
    /// The outcomes of the packets of its writers, as the producer tells them.
    totals: Mutex<HashMap<(Option<WriterId>, BufferId), WriterTotals>>,
}

#[derive(Default)]
struct Commands {
    /// The request whose replies are the commands. Commands wait until it comes.
    request_id: Option<u64>,
    waiting: Vec<Command>,
    /// The instances that are set up.
    instances: BTreeMap<InstanceId, Instance>,
    quota: Option<QuotaPart>,
    /// True once a producer on a network was told to make memory for itself.
    has_private_memory: bool,
    /// True once the producer was told that there is no memory.
    lacks_memory: bool,
}

struct Instance {
    /// The encoded configuration.
    config: Vec<u8>,
    clears_state: bool,
    /// The progress of the target buffer, and the number of parts when its incremental state began.
    progress: Arc<RingProgress>,
    began_parts: u64,
}

struct Command {
    encoded: Vec<u8>,
    memory: Option<SharedFd>,
}

impl From<Vec<u8>> for Command {
    fn from(encoded: Vec<u8>) -> Self {
        Self {
            encoded,
            memory: None,
        }
    }
}

impl RemoteProducer {
    pub(crate) fn new(
        label: String,
        peer: Peer,
        outgoing: Arc<Outgoing>,
        introduction: &ReceivedIntroduction<'_>,
        quotas: Arc<MemoryQuotas>,
        log: Log,
    ) -> Self {
        Self {
            label,
            peer,
            outgoing,
            wished: MemorySizes {
                size_bytes: introduction.memory_size_bytes.into(),
                page_size_bytes: introduction.page_size_bytes.into(),
            },
            takes_changes: introduction.takes_changes,
            memory: MemoryToCome::default(),
            quotas,
            log,
            commands: Mutex::default(),
            totals: Mutex::default(),
        }
    }

    /// Takes counts of writers. Forgets those of buffers that the producer does not write to any more.
    pub(crate) fn take_totals(
        &self,
        totals: Vec<WriterTotals>,
        may_write_to: impl Fn(BufferId) -> bool,
    ) {
        let mut kept = self.totals.lock();
        kept.retain(|(_, buffer), _| may_write_to(*buffer));
        for writer in totals {
            let key = (writer.writer_id, writer.target_buffer);
            let has_room = kept.len() < WRITER_TOTALS_MAX || kept.contains_key(&key);
            if has_room && may_write_to(writer.target_buffer) {
                kept.insert(key, writer);
            }
        }
    }

    /// Returns the place of the memory, which the producer gets when it is first recorded.
    pub(crate) fn memory(&self) -> MemoryToCome {
        self.memory.clone()
    }

    /// Takes the request whose replies are the commands. Returns false if there was one before.
    pub(crate) fn take_commands_request(&self, request_id: u64) -> bool {
        let mut commands = self.commands.lock();
        if commands.request_id.is_some() {
            return false;
        }
        commands.request_id = Some(request_id);
        for command in std::mem::take(&mut commands.waiting) {
            self.send(&mut commands, command);
        }
        true
    }

    fn send(&self, commands: &mut Commands, command: impl Into<Command>) {
        let command = command.into();
        let Some(request_id) = commands.request_id else {
            if commands.waiting.len() < COMMANDS_WAITING_MAX {
                commands.waiting.push(command);
            } else {
                self.outgoing.give_up();
            }
            return;
        };
        let body = Body::Reply {
            reply: Some(&command.encoded),
            has_more: true,
        };
        let fits = match command.memory {
            Some(memory) => match memory.as_fd().try_clone_to_owned() {
                Ok(descriptor) => {
                    (self.outgoing).send_with_descriptor(request_id, body, descriptor)
                }
                Err(error) => {
                    self.note_no_memory(commands, &error);
                    true
                }
            },
            None => self.outgoing.send(request_id, body),
        };
        if !fits {
            let Self { label, .. } = self;
            (self.log).line(
                Subject::Producer,
                format_args!("{label}: a configuration is too large to be sent"),
            );
        }
    }

    /// Clears the incremental state of instances whose ring has advanced by a quarter since that
    /// state began. So most of a ring can be decoded, even after it has overwritten its oldest
    /// packets. Perfetto's service does this only if the configuration asks for it.
    pub(crate) fn restart_state(&self) {
        let mut commands = self.commands.lock();
        let mut old = Vec::new();
        for (id, instance) in &mut commands.instances {
            let parts = instance.progress.parts();
            if instance.clears_state
                && instance.progress.ring_bytes().is_some()
                && parts - instance.began_parts >= RingProgress::QUARTER
            {
                instance.began_parts = parts;
                old.push(*id);
            }
        }
        if !old.is_empty() {
            let command = producer_port::clear_incremental_state(&old);
            self.send(&mut commands, command);
        }
    }

    /// Uses memory that the producer has created in order to write before it was connected.
    ///
    /// # Errors
    ///
    /// If the memory could harm this process, has sizes that the service would not give, or exceeds
    /// the user's quota. Then the producer gets other memory.
    pub(crate) fn adopt_memory(
        &self,
        file: ReceivedFile,
        page_size_bytes: usize,
    ) -> Result<(), String> {
        let memory = ForeignMemory::adopt(file, page_size_bytes).map_err(|it| it.to_string())?;
        let geometry = memory.geometry();
        let sizes = MemorySizes {
            size_bytes: geometry.size_bytes() as u64,
            page_size_bytes: geometry.page_size_bytes() as u64,
        };
        if memory::geometry(MemorySizes::default(), sizes) != geometry {
            return Err("the service gives no memory of these sizes".to_owned());
        }
        let mut commands = self.commands.lock();
        commands.quota = self.quotas.take(self.peer.uid, geometry.size_bytes());
        if commands.quota.is_none() {
            return Err(TOO_MUCH.to_owned());
        }
        self.memory.lend(memory);
        self.send(&mut commands, producer_port::set_up_tracing(None));
        Ok(())
    }

    /// Creates the memory, unless the producer has it. Returns false if there is none.
    fn give_memory(&self, commands: &mut Commands, configured: MemorySizes) -> bool {
        if self.memory.is_lent() {
            return true;
        }
        let wished = memory::geometry(configured, self.wished);
        if self.peer.is_on_network {
            if !std::mem::replace(&mut commands.has_private_memory, true) {
                let page_size_kib = wished.page_size_bytes() / 1024;
                let command = producer_port::set_up_tracing(Some(page_size_kib as u32));
                self.send(commands, command);
            }
            return true;
        }
        let geometry = self.take_quota(commands, wished);
        let Some(geometry) = geometry else {
            self.note_no_memory(commands, &TOO_MUCH);
            return false;
        };
        match ForeignMemory::create(geometry) {
            Ok((foreign, shared)) => {
                self.memory.lend(foreign);
                let page_size_kib = geometry.page_size_bytes() / 1024;
                let command = Command {
                    encoded: producer_port::set_up_tracing(Some(page_size_kib as u32)),
                    memory: Some(shared),
                };
                self.send(commands, command);
                true
            }
            Err(error) => {
                commands.quota = None;
                self.note_no_memory::<SharedFdError>(commands, &error);
                false
            }
        }
    }

    /// Takes a part of the user's quota: for this geometry, else for the smaller default.
    fn take_quota(&self, commands: &mut Commands, geometry: Geometry) -> Option<Geometry> {
        for geometry in [geometry, memory::default_geometry()] {
            commands.quota = self.quotas.take(self.peer.uid, geometry.size_bytes());
            if commands.quota.is_some() {
                return Some(geometry);
            }
        }
        None
    }

    fn note_no_memory<E: std::fmt::Display>(&self, commands: &mut Commands, reason: &E) {
        if !std::mem::replace(&mut commands.lacks_memory, true) {
            (self.log).line(
                Subject::Producer,
                format_args!(
                    "{}: gets no shared memory, so it cannot be recorded: {reason}",
                    self.label
                ),
            );
        }
    }
}

impl Producer for RemoteProducer {
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup) -> bool {
        let mut commands = self.commands.lock();
        let has_memory = self.give_memory(&mut commands, setup.memory_sizes);
        if has_memory {
            let command = producer_port::set_up(instance, &setup.config);
            let prepared = Instance {
                config: setup.config.clone(),
                clears_state: setup.clears_incremental_state,
                began_parts: setup.progress.parts(),
                progress: Arc::clone(&setup.progress),
            };
            commands.instances.insert(instance, prepared);
            self.send(&mut commands, command);
        }
        has_memory
    }

    fn start_data_source(&self, instance: InstanceId) {
        let mut commands = self.commands.lock();
        if let Some(prepared) = commands.instances.get(&instance) {
            let command = producer_port::start(instance, &prepared.config);
            self.send(&mut commands, command);
        }
    }

    fn change_data_source(&self, instance: InstanceId, config: &[u8]) {
        let mut commands = self.commands.lock();
        if self.takes_changes && commands.instances.contains_key(&instance) {
            self.send(&mut commands, producer_port::change(instance, config));
        }
    }

    fn stop_data_source(&self, instance: InstanceId) {
        let mut commands = self.commands.lock();
        if commands.instances.remove(&instance).is_some() {
            self.send(&mut commands, producer_port::stop(instance));
        }
    }

    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags) {
        let mut commands = self.commands.lock();
        let command = producer_port::flush(flush, instances, flags);
        self.send(&mut commands, command);
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        let mut commands = self.commands.lock();
        for id in instances {
            if let Some(instance) = commands.instances.get_mut(id) {
                instance.began_parts = instance.progress.parts();
            }
        }
        let command = producer_port::clear_incremental_state(instances);
        self.send(&mut commands, command);
    }

    fn writer_totals(&self) -> Vec<WriterTotals> {
        self.totals.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracezero_core::coordination::{BufferExhaustedPolicy, PacketCounts};
    use tracezero_core::ids::SessionId;
    use tracezero_ipc::frame::FrameReader;
    use tracezero_ipc::producer_port::Command;
    use tracezero_ipc::send_queue::SendQueue;
    use tracezero_ipc::waker::Waker;
    use tracezero_ipc::wire::Frame;
    use tracezero_service::trace_buffer::ClientIdentity;

    use super::*;
    use crate::outgoing::{ConnectionId, Noted};

    fn producer() -> (RemoteProducer, Arc<Outgoing>) {
        introduced(&ReceivedIntroduction::default())
    }

    fn introduced(introduction: &ReceivedIntroduction<'_>) -> (RemoteProducer, Arc<Outgoing>) {
        let noted = Arc::new(Noted::new(Waker::new().unwrap()));
        let outgoing = Arc::new(Outgoing::new(ConnectionId(1), noted));
        let producer = RemoteProducer::new(
            "p".to_owned(),
            Peer {
                uid: 1,
                identity: ClientIdentity::default(),
                is_on_network: false,
            },
            Arc::clone(&outgoing),
            introduction,
            Arc::default(),
            Log::new(|line| panic!("{line}")),
        );
        (producer, outgoing)
    }

    fn setup(progress: &Arc<RingProgress>) -> DataSourceSetup {
        DataSourceSetup {
            session: SessionId::new(1),
            name: "ds".to_owned(),
            ordinal: 0,
            target_buffer: BufferId(1),
            progress: Arc::clone(progress),
            exhausted_policy: BufferExhaustedPolicy::Drop,
            stall_limit: Duration::ZERO,
            memory_sizes: MemorySizes::default(),
            clears_incremental_state: true,
            config: Vec::new(),
        }
    }

    /// Returns what the producer is told since the last call, in short.
    fn told(outgoing: &Outgoing) -> Vec<String> {
        let mut queue = SendQueue::default();
        outgoing.take(&mut queue);
        let mut reader = FrameReader::new();
        let bytes = queue.waiting();
        reader.room()[..bytes.len()].copy_from_slice(bytes);
        reader.received(bytes.len());
        let mut told = Vec::new();
        while let Some(bytes) = reader.next_frame().unwrap() {
            let Body::Reply { reply, .. } = Frame::decode(bytes).unwrap().body else {
                panic!("no command");
            };
            told.push(match Command::decode(reply.unwrap()).unwrap() {
                Command::SetUpTracing { page_size_kib } => format!("memory {page_size_kib}"),
                Command::SetUp(instance, _) => format!("set up {}", instance.0),
                Command::Start(instance, _) => format!("start {}", instance.0),
                Command::Stop(instance) => format!("stop {}", instance.0),
                Command::Flush { flush, .. } => format!("flush {}", flush.0),
                Command::ClearIncrementalState(instances) => format!("clear {instances:?}"),
                Command::Change(instance, _) => format!("change {}", instance.0),
                Command::Unknown => "unknown".to_owned(),
            });
        }
        told
    }

    #[test]
    fn commands_wait_for_their_request_and_keep_their_order() {
        let (producer, outgoing) = producer();
        let progress = Arc::default();
        let instance = InstanceId(7);
        producer.set_up_data_source(instance, &setup(&progress));
        producer.start_data_source(instance);
        producer.flush(FlushId(3), &[instance], FlushFlags::default());
        assert_eq!(told(&outgoing), [] as [&str; 0]);
        assert!(producer.take_commands_request(1));
        let expected = ["memory 4", "set up 7", "start 7", "flush 3"];
        assert_eq!(told(&outgoing), expected);
        assert!(!producer.take_commands_request(2));
        producer.stop_data_source(instance);
        producer.stop_data_source(instance);
        assert_eq!(told(&outgoing), ["stop 7"]);
    }

    #[test]
    fn a_producer_that_never_asks_for_commands_is_given_up() {
        let (producer, outgoing) = producer();
        let clear = || producer.clear_incremental_state(&[]);
        (0..COMMANDS_WAITING_MAX).for_each(|_| clear());
        assert!(!outgoing.is_given_up());
        clear();
        assert!(outgoing.is_given_up());
    }

    #[test]
    fn configurations_change_for_producers_that_take_that() {
        for (takes_changes, expected) in [(true, &["change 1"][..]), (false, &[])] {
            let (producer, outgoing) = introduced(&ReceivedIntroduction {
                takes_changes,
                ..ReceivedIntroduction::default()
            });
            producer.take_commands_request(1);
            producer.set_up_data_source(InstanceId(1), &setup(&Arc::default()));
            told(&outgoing);
            producer.change_data_source(InstanceId(1), b"");
            producer.change_data_source(InstanceId(2), b"");
            assert_eq!(told(&outgoing), expected);
        }
    }

    #[test]
    fn counts_of_writers_are_kept_for_present_buffers() {
        let (producer, _outgoing) = producer();
        let totals = |writer: u16, buffer: u16, begun| {
            let mut counts = PacketCounts::default();
            counts.packets_begun = begun;
            WriterTotals {
                writer_id: Some(WriterId(writer)),
                target_buffer: BufferId(buffer),
                thread_name: None,
                counts,
            }
        };
        let kept = || {
            let totals = producer.writer_totals().into_iter();
            let mut kept: Vec<_> = totals
                .map(|it| {
                    (
                        it.writer_id.unwrap().0,
                        it.target_buffer.0,
                        it.counts.packets_begun,
                    )
                })
                .collect();
            kept.sort_unstable();
            kept
        };
        let new = vec![
            totals(1, 1, 5),
            totals(2, 1, 6),
            totals(1, 2, 7),
            totals(1, 3, 8),
        ];
        producer.take_totals(new, |buffer| buffer.0 <= 2);
        assert_eq!(kept(), [(1, 1, 5), (1, 2, 7), (2, 1, 6)]);
        producer.take_totals(vec![totals(1, 1, 9)], |buffer| buffer.0 == 1);
        assert_eq!(kept(), [(1, 1, 9), (2, 1, 6)]);
        let many = (0..=u16::MAX).map(|writer| totals(writer, 1, 1)).collect();
        producer.take_totals(many, |_| true);
        assert_eq!(kept().len(), WRITER_TOTALS_MAX);
        producer.take_totals(vec![totals(1, 2, 9)], |_| true);
        assert_eq!(kept().len(), WRITER_TOTALS_MAX);
    }

    #[test]
    fn state_is_cleared_with_each_quarter_of_a_ring() {
        let (producer, outgoing) = producer();
        producer.take_commands_request(1);
        let ring = Arc::new(RingProgress::of_ring(1 << 20));
        let other = Arc::new(RingProgress::default());
        let without_state = DataSourceSetup {
            clears_incremental_state: false,
            ..setup(&ring)
        };
        for (number, setup) in [setup(&ring), setup(&other), without_state]
            .iter()
            .enumerate()
        {
            producer.set_up_data_source(InstanceId(number as u64 + 1), setup);
        }
        told(&outgoing);
        let advance = |parts| {
            ring.advance(parts);
            other.advance(parts);
        };
        advance(RingProgress::QUARTER);
        for _ in 0..2 {
            producer.restart_state();
            assert_eq!(told(&outgoing), ["clear [InstanceId(1)]"]);
            advance(RingProgress::QUARTER - 1);
            producer.restart_state();
            assert_eq!(told(&outgoing), [] as [&str; 0]);
            advance(1);
        }
    }
}
