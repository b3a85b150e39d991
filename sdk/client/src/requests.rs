//! The requests of a connection: puts each item of the outbox into frames.

use std::collections::VecDeque;

use tracezero_core::commit::ChunkToMove;
use tracezero_ipc::producer_port::{self, ChunkData, Method, Methods};
use tracezero_ipc::socket::Socket;
use tracezero_ipc::wire::{Body, Frame};

use crate::memory::{EmulatedMemory, Memory};
use crate::outbox::{Batch, Item, Part};

const BIND_REQUEST: u64 = 1;

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) socket: Socket,
    last_request: u64,
    /// The unanswered requests of the kind Sync: the number of each request, and the number of its
    /// item.
    syncs: VecDeque<(u64, u64)>,
}

impl Requests {
    /// Asks for the methods of the daemon, which is the first request of a connection.
    pub(crate) fn bind(socket: Socket) -> Self {
        let mut requests = Self {
            socket,
            last_request: BIND_REQUEST,
            syncs: VecDeque::new(),
        };
        let service = producer_port::SERVICE;
        requests.send(BIND_REQUEST, Body::Bind { service });
        requests
    }

    /// Invokes a method that replies. Returns the number of the request.
    pub(crate) fn ask(&mut self, methods: &Methods, method: Method, args: &[u8]) -> u64 {
        self.invoke(methods, method, args, true);
        self.last_request
    }

    /// Returns the number of the item whose request of the kind Sync is answered by this reply; `None`
    /// if the reply answers another request.
    pub(crate) fn answered_sync(&mut self, request_id: u64) -> Option<u64> {
        let (first, number) = self.syncs.front()?;
        (*first == request_id).then_some(*number).inspect(|_| {
            self.syncs.pop_front();
        })
    }

    /// Queues the frames of a batch.
    pub(crate) fn queue(&mut self, methods: &Methods, batch: &Batch, memory: &mut Memory) {
        for part in batch.parts() {
            match part {
                Part::Moves(moves) => self.move_chunks(methods, moves, memory),
                Part::Patches(patched) => {
                    producer_port::commit_patches(&patched, |request| {
                        self.tell(methods, Method::CommitData, request);
                    });
                }
                Part::Item(item) => self.queue_item(methods, item, memory),
            }
        }
    }

    fn move_chunks(&mut self, methods: &Methods, moves: &[ChunkToMove], memory: &Memory) {
        if let Memory::Emulated(memory) = memory {
            for chunk in moves {
                memory.take(chunk, |data| self.commit_data(methods, data));
            }
        } else {
            producer_port::commit_moves(moves, |request| {
                self.tell(methods, Method::CommitData, request);
            });
        }
    }

    fn queue_item(&mut self, methods: &Methods, item: &Item, memory: &mut Memory) {
        match item {
            // Other parts of a batch.
            Item::Moves { .. } | Item::Patches { .. } => {}
            Item::FlushDone(flush) => {
                // The daemon scrapes shared memory itself.
                if let Memory::Emulated(memory) = memory {
                    self.scrape(methods, memory);
                }
                let request = producer_port::flush_done(*flush);
                self.tell(methods, Method::CommitData, &request);
            }
            Item::RegisterWriter(writer, target) => {
                if let Memory::Emulated(memory) = memory {
                    memory.register_writer(*writer, *target);
                }
                let request = producer_port::register_trace_writer(*writer, *target);
                self.tell(methods, Method::RegisterTraceWriter, &request);
            }
            Item::UnregisterWriter(writer) => {
                if let Memory::Emulated(memory) = memory {
                    memory.unregister_writer(*writer);
                }
                let request = producer_port::unregister_trace_writer(*writer);
                self.tell(methods, Method::UnregisterTraceWriter, &request);
            }
            Item::Started(instance) => {
                let request = producer_port::notify_started(*instance);
                self.tell(methods, Method::NotifyDataSourceStarted, &request);
            }
            Item::Stopped(instance) => {
                let request = producer_port::notify_stopped(*instance);
                self.tell(methods, Method::NotifyDataSourceStopped, &request);
            }
            Item::RegisterDataSource(descriptor) => {
                let request = producer_port::register_data_source(descriptor);
                self.tell(methods, Method::RegisterDataSource, &request);
            }
            Item::UpdateDataSource(descriptor) => {
                let request = producer_port::update_data_source(descriptor);
                self.tell(methods, Method::UpdateDataSource, &request);
            }
            Item::UnregisterDataSource(name) => {
                let request = producer_port::unregister_data_source(name);
                self.tell(methods, Method::UnregisterDataSource, &request);
            }
            Item::WriterTotals(totals) => {
                producer_port::writer_totals(totals, |request| {
                    self.tell(methods, Method::TracezeroWriterTotals, request);
                });
            }
            Item::Sync(number) => {
                let request_id = self.ask(methods, Method::Sync, &[]);
                self.syncs.push_back((request_id, *number));
            }
            Item::ActivateTriggers(names) => {
                let request = producer_port::activate_triggers(names);
                self.tell(methods, Method::ActivateTriggers, &request);
            }
        }
    }

    /// Sends the finished packets of all chunks that are in use.
    pub(crate) fn scrape(&mut self, methods: &Methods, memory: &mut EmulatedMemory) {
        memory.scrape(|data| self.commit_data(methods, data));
    }

    fn commit_data(&mut self, methods: &Methods, data: &ChunkData<'_>) {
        let request = producer_port::commit_chunk_data(data);
        self.tell(methods, Method::CommitData, &request);
    }

    /// Invokes a method that needs no reply.
    fn tell(&mut self, methods: &Methods, method: Method, args: &[u8]) {
        self.invoke(methods, method, args, false);
    }

    /// Invokes a method, unless the daemon does not have it.
    fn invoke(&mut self, methods: &Methods, method: Method, args: &[u8], wants_reply: bool) {
        self.last_request += 1;
        if let Some(method_id) = methods.id(method) {
            let body = Body::Invoke {
                service_id: methods.service_id(),
                method_id,
                args,
                drops_reply: !wants_reply,
            };
            self.send(self.last_request, body);
        }
    }

    fn send(&mut self, request_id: u64, body: Body<'_>) {
        let frame = Frame { request_id, body };
        self.socket.queue().push(|stream| frame.append_to(stream));
    }
}
