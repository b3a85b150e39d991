//! A producer or consumer of the daemon.

use std::os::fd::OwnedFd;

use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::shm::{ChunkFlags, NewChunk, PageLayout, ProducerMemory, SharedFd};
use tracezero_host::Address;
use tracezero_ipc::producer_port::{Command, Method};
use tracezero_ipc::socket::{Received, Socket};
use tracezero_ipc::wire::{Body, Frame};

use crate::calls::{Call, ProducerCall, SentAs};
use crate::files::Files;

/// The number of the service at each socket of the daemon.
pub const SERVICE_ID: u32 = 1;

/// A producer or consumer.
pub struct Peer {
    socket: Socket,
    pub is_consumer: bool,
    last_request: u64,
    memory: Option<ProducerMemory>,
    last_chunk: u32,
}

impl Peer {
    pub fn connect(is_consumer: bool) -> Option<Self> {
        Some(Self {
            socket: Socket::connect(&address(is_consumer)).ok()?,
            is_consumer,
            last_request: 0,
            memory: None,
            last_chunk: 0,
        })
    }

    pub fn send(&mut self, bytes: &[u8], descriptor: Option<OwnedFd>) {
        // Bytes that do not fit are sent later, or never.
        let queue = self.socket.queue();
        match descriptor {
            Some(descriptor) if !bytes.is_empty() => {
                queue.push_with_descriptor(descriptor, |out| out.extend_from_slice(bytes));
            }
            _ => queue.push(|out| out.extend_from_slice(bytes)),
        }
        let _ = self.socket.send();
    }

    pub fn call(&mut self, call: &Call, sent_as: &SentAs, files: &Files) {
        let (service_id, (method_id, mut args)) = match call {
            Call::Producer(call) => (SERVICE_ID, call.encode()),
            Call::Consumer(call) => (SERVICE_ID, call.encode()),
            Call::Unknown {
                service_id,
                method_id,
            } => (u32::from(*service_id), (u32::from(*method_id), vec![])),
        };
        args.truncate(args.len().saturating_sub(usize::from(sent_as.cut % 8)));
        if let Some((at, byte)) = sent_as.changed
            && !args.is_empty()
        {
            let at = usize::from(at) % args.len();
            args[at] ^= byte;
        }
        args.extend_from_slice(&sent_as.more);
        let body = Body::Invoke {
            service_id,
            method_id,
            args: &args,
            drops_reply: sent_as.drops_reply,
        };
        let descriptor = sent_as.descriptor.map(|it| files.open(it));
        self.request(body, descriptor);
    }

    /// Sends a request, if it fits a frame.
    pub fn request(&mut self, body: Body<'_>, descriptor: Option<OwnedFd>) {
        self.last_request += 1;
        let request_id = self.last_request;
        let mut frame = Vec::new();
        if (Frame { request_id, body }).append_if_it_fits(&mut frame) {
            self.send(&frame, descriptor);
        }
    }

    /// Takes what has arrived. Calls `each` with each reply, and whether more parts of it follow.
    pub fn read(&mut self, mut each: impl FnMut(Option<&[u8]>, bool)) {
        let _ = self.socket.send();
        while let Ok(Received::Bytes) = self.socket.receive() {
            // The daemon sends sound frames.
            while let Some(bytes) = self.socket.next_frame().expect("a short frame") {
                let frame = Frame::decode(bytes).expect("a sound frame");
                let Body::Reply { reply, has_more } = frame.body else {
                    continue;
                };
                each(reply, has_more);
                let Some(reply) = reply.filter(|_| !self.is_consumer && has_more) else {
                    continue;
                };
                let command = Command::decode(reply).expect("a sound command");
                if let Command::SetUpTracing { page_size_kib } = command {
                    let file = self.socket.take_descriptor().expect("memory comes with it");
                    let page_size_bytes = page_size_kib as usize * 1024;
                    let shared = SharedFd::attach(file.into_descriptor(), page_size_bytes);
                    let memory = ProducerMemory::attach(&shared.expect("sound memory"));
                    self.memory = Some(memory.expect("sound memory"));
                }
            }
        }
    }

    pub fn write(&mut self, page: u8, target: u8, packet: &[u8], commits: bool) {
        let Some(memory) = &self.memory else {
            return;
        };
        let page_index = u32::from(page) % memory.geometry().page_count();
        let header = NewChunk {
            writer_id: WriterId(u16::from(target) % 8),
            chunk_id: ChunkId(self.last_chunk),
            flags: ChunkFlags::NONE,
        };
        self.last_chunk += 1;
        let chunk = memory.acquire_for_writing(page_index, PageLayout::One, header);
        let Some(mut chunk) = chunk else {
            return;
        };
        let len = packet.len().min(chunk.free_bytes().saturating_sub(4));
        chunk.append_packet(&packet[..len]);
        chunk.publish_finished();
        if !commits {
            // The daemon finds it in the memory.
            std::mem::forget(chunk);
            return;
        }
        let place = chunk.complete();
        let chunk_index = place.chunk_index;
        let (_, args) = ProducerCall::Move(vec![(page_index as u8, chunk_index, target)]).encode();
        let body = Body::Invoke {
            service_id: SERVICE_ID,
            method_id: Method::CommitData.id(),
            args: &args,
            drops_reply: true,
        };
        self.request(body, None);
    }
}

/// Returns the address at which the daemon listens for consumers, or for producers.
pub fn address(is_consumer: bool) -> Address {
    let side = if is_consumer {
        "consumers"
    } else {
        "producers"
    };
    let name = format!("@tracezero-fuzz-{}-{side}", std::process::id());
    name.parse().expect("an address")
}
