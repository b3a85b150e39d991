//! A producer that writes real chunks.

use protozero::{HeapBuffered, append_varint};
use tracezero_core::commit::ChunkToMove;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::protos::TracePacket;
use tracezero_core::shm::{
    ChunkFlags, ChunkPlace, NewChunk, PageLayout, ProducerMemory, SharedFd, WritableChunk,
};
use tracezero_ipc::producer_port::{
    self, Command, Introduction, Method, commit_moves, flush_done, initialize_connection,
    notify_started, notify_stopped, register_data_source, register_trace_writer,
};

use crate::peer::Peer;

/// A command of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    SetUpTracing,
    SetUp(Instance),
    Start(Instance),
    Stop(InstanceId),
    Flush(FlushId, Vec<InstanceId>),
    Clear(Vec<InstanceId>),
}

/// An instance of a data source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    pub data_source: String,
    pub session: u64,
    pub target: BufferId,
}

/// A producer that has introduced itself.
pub struct Producer {
    pub peer: Peer,
    commands: u64,
    pub memory: Option<ProducerMemory>,
    next_chunk: u32,
}

impl Producer {
    /// Introduces a producer, and asks for commands.
    pub fn new(peer: Peer, name: &str) -> Self {
        let introduction = Introduction {
            producer_name: name.to_owned(),
            ..Introduction::default()
        };
        let mut this = Self::introduced(peer, &introduction);
        this.ask_for_commands();
        this
    }

    /// Introduces a producer that does not ask for commands.
    pub fn introduced(mut peer: Peer, introduction: &Introduction) -> Self {
        let args = initialize_connection(introduction);
        let reply = peer.call(Method::InitializeConnection.id(), &args);
        assert!(reply.is_some(), "the daemon refuses the producer");
        Self {
            peer,
            commands: 0,
            memory: None,
            next_chunk: 0,
        }
    }

    pub fn ask_for_commands(&mut self) {
        self.commands = self.peer.invoke(Method::GetAsyncCommand.id(), &[]);
    }

    /// Registers a data source that does not report when it has started or stopped.
    pub fn register(&mut self, name: &str) {
        self.register_as(&DataSourceDescriptor {
            name: name.to_owned(),
            ..DataSourceDescriptor::default()
        });
    }

    /// Registers a data source that reports when it has stopped.
    pub fn register_slow_to_stop(&mut self, name: &str) {
        self.register_as(&DataSourceDescriptor {
            name: name.to_owned(),
            notifies_stop: true,
            ..DataSourceDescriptor::default()
        });
    }

    /// Registers a data source that clears its incremental state.
    pub fn register_clearing(&mut self, name: &str) {
        self.register_as(&DataSourceDescriptor {
            name: name.to_owned(),
            clears_incremental_state: true,
            ..DataSourceDescriptor::default()
        });
    }

    /// Registers a data source whose descriptor has so many bytes in a field that nothing knows.
    pub fn register_large(&mut self, name: &str, bytes: usize) {
        let mut descriptor = vec![0x0a];
        append_varint(name.len() as u64, &mut descriptor);
        descriptor.extend_from_slice(name.as_bytes());
        append_varint(2047 << 3 | 2, &mut descriptor);
        append_varint(bytes as u64, &mut descriptor);
        descriptor.resize(descriptor.len() + bytes, b'x');
        let mut args = vec![0x0a];
        append_varint(descriptor.len() as u64, &mut args);
        args.extend(descriptor);
        self.call(Method::RegisterDataSource, &args);
    }

    pub fn register_as(&mut self, descriptor: &DataSourceDescriptor) {
        let args = register_data_source(descriptor);
        self.call(Method::RegisterDataSource, &args);
    }

    #[track_caller]
    pub fn call(&mut self, method: Method, args: &[u8]) -> Vec<u8> {
        let reply = self.peer.call(method.id(), args);
        reply.expect("the call succeeds")
    }

    /// Waits until the daemon has handled everything that was sent.
    #[track_caller]
    pub fn sync(&mut self) {
        self.call(Method::Sync, &[]);
    }

    /// Asks the daemon to say when it has handled everything that was sent.
    pub fn ask_to_sync(&mut self) -> u64 {
        self.peer.invoke(Method::Sync.id(), &[])
    }

    /// Returns true if the reply to a request has arrived, and takes it.
    pub fn has_arrived(&mut self, request_id: u64) -> bool {
        let has_arrived = self.peer.has_arrived(request_id);
        if has_arrived {
            self.peer.reply(request_id);
        }
        has_arrived
    }

    /// Returns true if the daemon has sent a command that the test has not taken.
    #[track_caller]
    pub fn has_command(&mut self) -> bool {
        self.peer.has_answer(self.commands)
    }

    /// Returns the next command. Attaches memory that comes with it.
    #[track_caller]
    pub fn told(&mut self) -> Told {
        let mut arrived = self.peer.next_for(self.commands);
        let (reply, has_more) = match arrived.body {
            crate::peer::ArrivedBody::Reply { reply, has_more } => (reply.unwrap(), has_more),
            other => panic!("no command: {other:?}"),
        };
        assert!(has_more, "commands never end");
        let instance = |id: InstanceId, config: producer_port::DataSourceConfig<'_>| Instance {
            id,
            data_source: config.name.to_owned(),
            session: config.session,
            target: config.target_buffer,
        };
        match Command::decode(&reply).unwrap() {
            Command::SetUpTracing { page_size_kib } => {
                let fd = arrived.descriptor.take().expect("memory comes with it");
                let shared = SharedFd::attach(fd, page_size_kib as usize * 1024).unwrap();
                self.memory = Some(ProducerMemory::attach(&shared).unwrap());
                Told::SetUpTracing
            }
            Command::SetUp(id, config) => Told::SetUp(instance(id, config)),
            Command::Start(id, config) => Told::Start(instance(id, config)),
            Command::Stop(id) => Told::Stop(id),
            Command::Flush {
                flush, instances, ..
            } => Told::Flush(flush, instances),
            Command::ClearIncrementalState(instances) => Told::Clear(instances),
            command @ (Command::Change(..) | Command::Unknown) => panic!("{command:?}"),
        }
    }

    /// Expects the commands that start an instance, with memory if it is the first.
    #[track_caller]
    pub fn started(&mut self) -> Instance {
        let instance = self.set_up();
        assert_eq!(self.told(), Told::Start(instance.clone()));
        instance
    }

    /// Expects the command that sets up an instance, with memory if it is the first.
    #[track_caller]
    pub fn set_up(&mut self) -> Instance {
        if self.memory.is_none() {
            assert_eq!(self.told(), Told::SetUpTracing);
        }
        match self.told() {
            Told::SetUp(instance) => instance,
            other => panic!("no set-up: {other:?}"),
        }
    }

    #[track_caller]
    pub fn expect_stop(&mut self, instance: &Instance) {
        assert_eq!(self.told(), Told::Stop(instance.id));
    }

    /// Expects a flush.
    #[track_caller]
    pub fn expect_flush(&mut self) -> FlushId {
        match self.told() {
            Told::Flush(flush, _) => flush,
            other => panic!("no flush: {other:?}"),
        }
    }

    /// Expects a flush, and answers it.
    #[track_caller]
    pub fn answer_flush(&mut self) {
        let flush = self.expect_flush();
        self.commit(&flush_done(flush));
    }

    pub fn notify_started(&mut self, instance: &Instance) {
        self.tell(
            Method::NotifyDataSourceStarted,
            &notify_started(instance.id),
        );
    }

    pub fn notify_stopped(&mut self, instance: &Instance) {
        self.tell(
            Method::NotifyDataSourceStopped,
            &notify_stopped(instance.id),
        );
    }

    /// Calls a method, and does not wait for the reply.
    pub fn tell(&mut self, method: Method, args: &[u8]) {
        self.peer.invoke(method.id(), args);
    }

    pub fn commit(&mut self, args: &[u8]) {
        self.tell(Method::CommitData, args);
    }

    /// Tells the daemon that the writer of all chunks writes to the buffer of an instance.
    pub fn register_writer(&mut self, instance: &Instance) {
        let args = register_trace_writer(WriterId(1), instance.target);
        self.tell(Method::RegisterTraceWriter, &args);
    }

    /// Begins a chunk of a page.
    pub fn chunk(&mut self, page_index: u32) -> Option<WritableChunk> {
        let memory = self.memory.as_ref().expect("memory has come");
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(self.next_chunk),
            flags: ChunkFlags::NONE,
        };
        let chunk = memory.acquire_for_writing(page_index, PageLayout::One, header)?;
        self.next_chunk += 1;
        Some(chunk)
    }

    /// Writes a packet with this number, and commits it.
    #[track_caller]
    pub fn write(&mut self, instance: &Instance, number: u64) {
        self.write_with(instance, number, "");
    }

    /// Writes a packet with this number and a text, and commits it.
    #[track_caller]
    pub fn write_with(&mut self, instance: &Instance, number: u64, text: &str) {
        self.write_packet(instance, &packet_with(number, text));
    }

    /// Writes a packet, and commits it.
    #[track_caller]
    pub fn write_packet(&mut self, instance: &Instance, packet: &[u8]) {
        let page_count = self.memory.as_ref().unwrap().geometry().page_count();
        // The daemon frees chunks after each commit, so some page has a free chunk.
        let mut pages = 0..page_count;
        let found = pages.find_map(|page| self.chunk(page));
        let chunk = found.expect("a free chunk");
        let place = completed(chunk, packet);
        self.commit(&moved(&[place], instance.target));
    }

    /// Writes a packet into a chunk of a free page, and completes the chunk.
    #[track_caller]
    pub fn completed_chunk(&mut self, page_index: u32, packet: &[u8]) -> ChunkPlace {
        let chunk = self.chunk(page_index).expect("a free page");
        completed(chunk, packet)
    }
}

fn completed(mut chunk: WritableChunk, packet: &[u8]) -> ChunkPlace {
    chunk.append_packet(packet);
    chunk.publish_finished();
    chunk.complete()
}

/// Encodes the commit of chunks.
pub fn moved(places: &[ChunkPlace], target_buffer: BufferId) -> Vec<u8> {
    let chunks = places
        .iter()
        .map(|place| ChunkToMove::new(*place, target_buffer));
    let mut args = Vec::new();
    commit_moves(&Vec::from_iter(chunks), |part| args.extend_from_slice(part));
    args
}

/// Encodes a packet with a number that [`support::numbers`] finds.
pub fn packet(number: u64) -> Vec<u8> {
    packet_with(number, "")
}

pub fn packet_with(number: u64, text: &str) -> Vec<u8> {
    let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
    buffer.message().for_testing(|event| {
        event.set_counter(number);
        if !text.is_empty() {
            event.set_str(text);
        }
    });
    buffer.to_vec()
}
