//! Calls of producers and consumers: their arguments, and the form in which they are sent.

use arbitrary::Arbitrary;
use protozero::HeapBuffered;
use tracezero_core::commit::{ChunkToMove, Patch};
use tracezero_core::coordination::{DataSourceDescriptor, FlushFlags};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::protos::TraceConfig;
use tracezero_core::protos::trace_config::trigger_config::TriggerMode;
use tracezero_ipc::consumer_port::events::ObservedEvents;
use tracezero_ipc::consumer_port::requests::{
    BEST_FOR_BUGREPORT, CloneSession, CloneSource, Request, Trigger,
};
use tracezero_ipc::producer_port::{self, Introduction, Method, PatchedChunk};

use crate::files::Descriptor;

const NAMES: [&str; 4] = ["a", "b", "", "c"];

/// The form in which a call is sent.
#[derive(Arbitrary, Debug)]
pub struct SentAs {
    pub drops_reply: bool,
    #[arbitrary(with = Descriptor::of_most_calls)]
    pub descriptor: Option<Descriptor>,
    /// A byte of the arguments that is changed.
    pub changed: Option<(u8, u8)>,
    /// The number of bytes that are missing at the end of the arguments.
    pub cut: u8,
    /// Bytes behind the arguments.
    pub more: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
pub enum Call {
    Producer(ProducerCall),
    Consumer(ConsumerCall),
    Unknown { service_id: u8, method_id: u8 },
}

#[derive(Arbitrary, Debug)]
pub enum ProducerCall {
    InitializeConnection {
        name: u8,
        size_kib: u16,
        page_size_kib: u8,
    },
    Register(Descriptors),
    Update(Descriptors),
    Unregister(u8),
    Move(Vec<(u8, u8, u8)>),
    Patch {
        writer_id: u8,
        chunk_id: u8,
        target: u8,
        patches: Vec<(u8, [u8; 4])>,
    },
    FlushDone(u8),
    GetAsyncCommand,
    RegisterWriter(u8, u8),
    UnregisterWriter(u8),
    Started(u8),
    Stopped(u8),
    ActivateTriggers(Vec<u8>),
    Sync,
}

#[derive(Arbitrary, Debug)]
pub struct Descriptors {
    name: u8,
    id: u8,
    flags: u8,
}

#[derive(Arbitrary, Debug)]
pub enum ConsumerCall {
    Enable(Config),
    AttachNotification,
    Disable,
    Read,
    Free,
    Flush(u8),
    Start,
    Change(Config),
    Detach(u8),
    Attach(u8),
    Stats,
    Observe(u8),
    State(bool),
    Capabilities,
    Save,
    Clone { source: Source, has_trigger: bool },
}

#[derive(Arbitrary, Debug)]
pub enum Source {
    Id(u8),
    Name(u8),
    Best,
}

#[derive(Arbitrary, Debug)]
pub struct Config {
    /// Each with its size in units of 4 KiB, and its fill policy and more.
    buffers: Vec<(u8, u8)>,
    /// Each with its name and target.
    data_sources: Vec<(u8, u8)>,
    is_deferred: bool,
    writes_into_file: bool,
    duration_ms: u8,
    write_period_ms: u8,
    clear_period_ms: u8,
    trigger_mode: u8,
    name: u8,
    bugreport_score: u8,
    memory: Option<(u16, u8)>,
}

impl Config {
    fn encode(&self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<TraceConfig<'_>>::new();
        let mut out = buffer.message();
        for &(size, flags) in self.buffers.iter().take(4) {
            out.add_buffers(|out| {
                out.set_size_kb(u32::from(size) * 4);
                out.set_transfer_on_clone(flags & 1 > 0);
                out.set_clear_before_clone(flags & 2 > 0);
                out.set_name(NAMES[usize::from(flags >> 2) % 4]);
            });
        }
        for &(name, target) in self.data_sources.iter().take(4) {
            out.add_data_sources(|out| {
                out.config(|out| {
                    out.set_name(NAMES[usize::from(name) % 4]);
                    out.set_target_buffer(u32::from(target) % 4);
                });
            });
        }
        out.set_deferred_start(self.is_deferred);
        out.set_write_into_file(self.writes_into_file);
        if self.trigger_mode.is_multiple_of(2) {
            out.set_duration_ms(self.duration_ms.into());
        } else {
            out.trigger_config(|out| {
                out.set_trigger_mode(TriggerMode::from(i32::from(self.trigger_mode / 2 % 5)));
                out.set_trigger_timeout_ms(10_000);
                out.add_triggers(|out| {
                    out.set_name("a");
                    out.set_stop_delay_ms(self.duration_ms.into());
                });
            });
        }
        if self.write_period_ms > 0 {
            out.set_file_write_period_ms(self.write_period_ms.into());
        }
        if self.clear_period_ms > 0 {
            out.incremental_state_config(|out| {
                out.set_clear_period_ms(self.clear_period_ms.into());
            });
        }
        out.set_unique_session_name(NAMES[usize::from(self.name) % 4]);
        if self.bugreport_score > 0 {
            out.set_bugreport_score(self.bugreport_score.into());
        }
        if let Some((size_kb, page_size_kb)) = self.memory {
            out.add_producers(|out| {
                out.set_producer_name("a");
                out.set_shm_size_kb(u32::from(size_kb) % 2048);
                out.set_page_size_kb(page_size_kb.into());
            });
        }
        drop(out);
        buffer.to_vec()
    }
}

impl ProducerCall {
    /// Returns the number of the method, and the arguments.
    pub fn encode(&self) -> (u32, Vec<u8>) {
        let name = |name: u8| NAMES[usize::from(name) % 4];
        let buffer = |id: u8| BufferId(u16::from(id) % 16);
        let writer = |id: u8| WriterId(u16::from(id) % 8);
        let instance = |id: u8| InstanceId(u64::from(id) % 16);
        let descriptor = |it: &Descriptors| DataSourceDescriptor {
            name: name(it.name).to_owned(),
            id: u64::from(it.id) % 8,
            notifies_start: it.flags & 1 > 0,
            notifies_stop: it.flags & 2 > 0,
            needs_no_flush: it.flags & 4 > 0,
            clears_incremental_state: it.flags & 8 > 0,
            ..DataSourceDescriptor::default()
        };
        let mut args = Vec::new();
        let method = match self {
            Self::InitializeConnection {
                name: producer_name,
                size_kib,
                page_size_kib,
            } => {
                args = producer_port::initialize_connection(&Introduction {
                    producer_name: name(*producer_name).to_owned(),
                    memory_size_bytes: u32::from(*size_kib) % 2048 * 1024,
                    page_size_bytes: u32::from(*page_size_kib) * 1024,
                    ..Introduction::default()
                });
                Method::InitializeConnection
            }
            Self::Register(data_source) => {
                args = producer_port::register_data_source(&descriptor(data_source));
                Method::RegisterDataSource
            }
            Self::Update(data_source) => {
                args = producer_port::update_data_source(&descriptor(data_source));
                Method::UpdateDataSource
            }
            Self::Unregister(data_source) => {
                args = producer_port::unregister_data_source(name(*data_source));
                Method::UnregisterDataSource
            }
            Self::Move(chunks) => {
                let chunks: Vec<_> = chunks
                    .iter()
                    .map(|&(page, chunk, target)| ChunkToMove {
                        page_index: page.into(),
                        chunk_index: chunk,
                        target_buffer: buffer(target),
                        payload_bytes: 0,
                    })
                    .collect();
                producer_port::commit_moves(&chunks, |part| args.extend_from_slice(part));
                Method::CommitData
            }
            Self::Patch {
                writer_id,
                chunk_id,
                target,
                patches,
            } => {
                let patches: Vec<_> = patches
                    .iter()
                    .map(|&(offset, data)| Patch {
                        offset_bytes: offset.into(),
                        data,
                    })
                    .collect();
                let patched = PatchedChunk {
                    writer_id: writer(*writer_id),
                    chunk_id: ChunkId(u32::from(*chunk_id)),
                    target_buffer: buffer(*target),
                    patches: &patches,
                    has_more_patches: false,
                };
                producer_port::commit_patches(&patched, |part| args.extend_from_slice(part));
                Method::CommitData
            }
            Self::FlushDone(flush) => {
                args = producer_port::flush_done(FlushId(u64::from(*flush) % 16));
                Method::CommitData
            }
            Self::GetAsyncCommand => Method::GetAsyncCommand,
            Self::RegisterWriter(id, target) => {
                args = producer_port::register_trace_writer(writer(*id), buffer(*target));
                Method::RegisterTraceWriter
            }
            Self::UnregisterWriter(id) => {
                args = producer_port::unregister_trace_writer(writer(*id));
                Method::UnregisterTraceWriter
            }
            Self::Started(id) => {
                args = producer_port::notify_started(instance(*id));
                Method::NotifyDataSourceStarted
            }
            Self::Stopped(id) => {
                args = producer_port::notify_stopped(instance(*id));
                Method::NotifyDataSourceStopped
            }
            Self::ActivateTriggers(names) => {
                let names: Vec<_> = names.iter().map(|it| name(*it).to_owned()).collect();
                args = producer_port::activate_triggers(&names);
                Method::ActivateTriggers
            }
            Self::Sync => Method::Sync,
        };
        (method.id(), args)
    }
}

impl ConsumerCall {
    /// Returns the number of the method, and the arguments.
    pub fn encode(&self) -> (u32, Vec<u8>) {
        let name = |name: &u8| NAMES[usize::from(*name) % 4];
        let config;
        let request = match self {
            Self::Enable(it) => {
                config = it.encode();
                Request::EnableTracing {
                    config: &config,
                    attaches_notification_only: false,
                }
            }
            Self::AttachNotification => Request::EnableTracing {
                config: &[],
                attaches_notification_only: true,
            },
            Self::Disable => Request::DisableTracing,
            Self::Read => Request::ReadBuffers,
            Self::Free => Request::FreeBuffers,
            Self::Flush(timeout_ms) => Request::Flush {
                timeout_ms: (*timeout_ms).into(),
                flags: FlushFlags::explicit(),
            },
            Self::Start => Request::StartTracing,
            Self::Change(it) => {
                config = it.encode();
                Request::ChangeTraceConfig { config: &config }
            }
            Self::Detach(key) => Request::Detach { key: name(key) },
            Self::Attach(key) => Request::Attach { key: name(key) },
            Self::Stats => Request::GetTraceStats,
            Self::Observe(events) => Request::ObserveEvents(ObservedEvents {
                instances: events & 1 > 0,
                all_started: events & 2 > 0,
                clone_triggers: events & 4 > 0,
            }),
            Self::State(sessions_only) => Request::QueryServiceState {
                sessions_only: *sessions_only,
            },
            Self::Capabilities => Request::QueryCapabilities,
            Self::Save => Request::SaveTraceForBugreport,
            Self::Clone {
                source,
                has_trigger,
            } => Request::CloneSession(CloneSession {
                source: match source {
                    Source::Id(id) => CloneSource::Id(u64::from(*id) % 8),
                    Source::Name(it) => CloneSource::Name(name(it)),
                    Source::Best => CloneSource::Id(BEST_FOR_BUGREPORT),
                },
                skips_trace_filter: false,
                is_for_bugreport: false,
                trigger: has_trigger.then_some(Trigger {
                    name: "a",
                    producer_name: "b",
                    ..Trigger::default()
                }),
            }),
        };
        (request.method().id(), request.encode())
    }
}
