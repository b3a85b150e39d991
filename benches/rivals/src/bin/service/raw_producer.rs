//! A producer that commits chunks by itself, without an SDK.

use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protozero::HeapBuffered;
use tracezero_core::commit::ChunkToMove;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::protos::TracePacket;
use tracezero_core::received_file::ReceivedFile;
use tracezero_core::shm::{
    ChunkFlags, ChunkPlace, FRAGMENT_SIZE_BYTES, NewChunk, PageLayout, ProducerMemory, SharedFd,
};
use tracezero_ipc::address::Address;
use tracezero_ipc::producer_port::{
    Command, Introduction, Method, Methods, SERVICE, commit_moves, initialize_connection,
    register_data_source,
};
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

use crate::Result;

/// The size of the text in a packet, in bytes.
const TEXT_BYTES: usize = 80;

/// A producer with one data source.
pub struct RawProducer {
    socket: Socket,
    /// `None` until the daemon has said what it can do.
    methods: Option<Methods>,
    last_request: u64,
    commands: Commands,
    packet: Vec<u8>,
    next_chunk: u32,
}

/// Commands that the producer has received.
#[derive(Default)]
struct Commands {
    /// The request that commands are replies to.
    request: Option<u64>,
    memory: Option<ProducerMemory>,
    /// The trace buffer for chunks; `None` before an instance is set up.
    target_buffer: Option<BufferId>,
    is_started: bool,
}

impl Commands {
    fn take(&mut self, command: &Command<'_>, descriptor: &mut Option<ReceivedFile>) -> Result<()> {
        match command {
            Command::SetUpTracing { page_size_kib } => {
                let file = descriptor.take().ok_or("no memory comes with it")?;
                let page_size_bytes = *page_size_kib as usize * 1024;
                let shared = SharedFd::attach(file.into_descriptor(), page_size_bytes)?;
                self.memory = Some(ProducerMemory::attach(&shared)?);
            }
            Command::SetUp(_, config) => self.target_buffer = Some(config.target_buffer),
            Command::Start(..) => self.is_started = true,
            _ => {}
        }
        Ok(())
    }
}

impl RawProducer {
    /// Connects to the daemon that the environment names, and offers a data source.
    pub fn connect(data_source: &str) -> Result<Self> {
        let mut packet = HeapBuffered::<TracePacket<'_>>::new();
        packet.message().for_testing(|event| {
            event.set_str(&"x".repeat(TEXT_BYTES));
        });
        let mut this = Self {
            socket: Socket::connect(&Address::of_producers()?)?,
            methods: None,
            last_request: 0,
            commands: Commands::default(),
            packet: packet.to_vec(),
            next_chunk: 0,
        };
        let bind = this.send(Body::Bind { service: SERVICE })?;
        let methods = this.reply_to(bind, |body| match body {
            Body::Bound(Some(bound)) => Ok(Methods::new(&bound)?),
            other => Err(format!("the daemon answers {other:?}").into()),
        })?;
        this.methods = Some(methods);
        this.call(
            Method::InitializeConnection,
            &initialize_connection(&Introduction {
                producer_name: data_source.to_owned(),
                ..Introduction::default()
            }),
        )?;
        this.commands.request = Some(this.invoke(Method::GetAsyncCommand, &[], false)?);
        this.call(
            Method::RegisterDataSource,
            &register_data_source(&DataSourceDescriptor {
                name: data_source.to_owned(),
                ..DataSourceDescriptor::default()
            }),
        )?;
        Ok(this)
    }

    /// Waits until a session records the data source.
    pub fn wait_until_started(&mut self) -> Result<()> {
        while !self.commands.is_started {
            self.receive()?;
            self.take_frames(None::<(u64, fn(Body<'_>) -> Result<()>)>)?;
        }
        Ok(())
    }

    /// Returns the number of pages of the memory.
    pub fn page_count(&self) -> u32 {
        let memory = self.commands.memory.as_ref();
        memory.map_or(0, |memory| memory.geometry().page_count())
    }

    /// Fills the chunk of a page that is free.
    pub fn fill(&mut self, page_index: u32) -> Result<ChunkPlace> {
        let memory = self.commands.memory.as_ref().ok_or("no memory has come")?;
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(self.next_chunk),
            flags: ChunkFlags::NONE,
        };
        self.next_chunk += 1;
        let chunk = memory.acquire_for_writing(page_index, PageLayout::One, header);
        let mut chunk = chunk.ok_or("the page is not free")?;
        while chunk.free_bytes() >= FRAGMENT_SIZE_BYTES + self.packet.len() {
            chunk.append_packet(&self.packet);
        }
        chunk.publish_finished();
        Ok(chunk.complete())
    }

    /// Commits a chunk.
    pub fn commit(&mut self, place: ChunkPlace) -> Result<()> {
        let target_buffer = self.commands.target_buffer.ok_or("no instance is set up")?;
        let chunk = ChunkToMove::new(place, target_buffer);
        let mut args = Vec::new();
        commit_moves(&[chunk], |part| args.extend_from_slice(part));
        self.invoke(Method::CommitData, &args, true)?;
        Ok(())
    }

    /// Returns true if no chunk of the page is in use.
    pub fn is_free(&self, page_index: u32) -> bool {
        let memory = self.commands.memory.as_ref();
        let word = memory.and_then(|memory| memory.page_word(page_index));
        word.is_some_and(|word| word.used_mask() == 0)
    }

    /// Calls a method, and waits for the reply.
    fn call(&mut self, method: Method, args: &[u8]) -> Result<()> {
        let request = self.invoke(method, args, false)?;
        let name = method.name();
        self.reply_to(request, |body| match body {
            Body::Reply { reply: Some(_), .. } => Ok(()),
            other => Err(format!("{name}: {other:?}").into()),
        })
    }

    /// Calls a method, and returns the number of the request.
    fn invoke(&mut self, method: Method, args: &[u8], drops_reply: bool) -> Result<u64> {
        let methods = self.methods.as_ref().ok_or("the service is not bound")?;
        self.send(Body::Invoke {
            service_id: methods.service_id(),
            method_id: methods.id(method).ok_or(method.name())?,
            args,
            drops_reply,
        })
    }

    fn send(&mut self, body: Body<'_>) -> Result<u64> {
        self.last_request += 1;
        let request_id = self.last_request;
        let frame = Frame { request_id, body };
        self.socket.queue().push(|stream| frame.append_to(stream));
        while !self.socket.send()? {
            self.wait(PollFlags::POLLOUT)?;
        }
        Ok(request_id)
    }

    /// Waits for the reply to a request.
    fn reply_to<T>(&mut self, request: u64, read: impl Fn(Body<'_>) -> Result<T>) -> Result<T> {
        loop {
            self.receive()?;
            if let Some(reply) = self.take_frames(Some((request, &read)))? {
                return Ok(reply);
            }
        }
    }

    /// Takes the commands that have arrived. Returns the reply to a request, if it has arrived.
    fn take_frames<T>(
        &mut self,
        mut awaited: Option<(u64, impl Fn(Body<'_>) -> Result<T>)>,
    ) -> Result<Option<T>> {
        let mut found = None;
        while let Some(arrived) = self.socket.next_frame_with_descriptor()? {
            let Frame { request_id, body } = Frame::decode(arrived.frame)?;
            if Some(request_id) == self.commands.request {
                let Body::Reply { reply, .. } = body else {
                    return Err("the daemon sends no commands".into());
                };
                let command = Command::decode(reply.ok_or("the daemon sends no commands")?)?;
                self.commands.take(&command, arrived.descriptor)?;
            } else if let Some((_, read)) = awaited.take_if(|(request, _)| *request == request_id) {
                found = Some(read(body)?);
            }
        }
        Ok(found)
    }

    fn receive(&mut self) -> Result<()> {
        self.wait(PollFlags::POLLIN)?;
        match self.socket.receive()? {
            Received::End => Err("the daemon has closed the connection".into()),
            Received::Bytes | Received::Nothing => Ok(()),
        }
    }

    fn wait(&self, flags: PollFlags) -> Result<()> {
        let fd = PollFd::new(self.socket.as_fd(), flags);
        poll(&mut [fd], PollTimeout::NONE)?;
        Ok(())
    }
}
