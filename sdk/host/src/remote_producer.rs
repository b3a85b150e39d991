//! A producer of another process, as the service calls it: calls become commands.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::coordination::{DataSourceSetup, FlushFlags, MemorySizes, Producer};
use tracezero_core::ids::{FlushId, InstanceId};
use tracezero_core::shm::{ForeignMemory, Geometry, SharedFd, SharedFdError};
use tracezero_ipc::producer_port;
use tracezero_ipc::wire::Body;
use tracezero_service::MemoryToCome;

use crate::log::Log;
use crate::memory::{self, MemoryQuotas, QuotaPart};
use crate::outgoing::Outgoing;

const TOO_MUCH: &str = "its user has as much memory as a user may have";

/// A producer of another process.
pub(crate) struct RemoteProducer {
    /// The name and the user, for the log.
    label: String,
    uid: u32,
    outgoing: Arc<Outgoing>,
    wished: MemorySizes,
    memory: MemoryToCome,
    quotas: Arc<MemoryQuotas>,
    log: Log,
    /// Locked while a command is added, so that commands keep their order.
    commands: Mutex<Commands>,
}

#[derive(Default)]
struct Commands {
    /// The request that commands are replies to. Until it comes, they wait.
    request_id: Option<u64>,
    waiting: Vec<Command>,
    /// The encoded configurations of the instances that are set up.
    configs: HashMap<InstanceId, Vec<u8>>,
    quota: Option<QuotaPart>,
    /// True once it was told that there is no memory.
    lacks_memory: bool,
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
        uid: u32,
        outgoing: Arc<Outgoing>,
        wished: MemorySizes,
        quotas: Arc<MemoryQuotas>,
        log: Log,
    ) -> Self {
        Self {
            label,
            uid,
            outgoing,
            wished,
            memory: MemoryToCome::default(),
            quotas,
            log,
            commands: Mutex::default(),
        }
    }

    /// Returns the place of the memory, which the producer gets when it is first recorded.
    pub(crate) fn memory(&self) -> MemoryToCome {
        self.memory.clone()
    }

    /// Takes the request that commands are replies to. Returns false if there was one before.
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
            return commands.waiting.push(command);
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
            (self.log).line(format_args!(
                "{label}: a configuration is too large to be sent"
            ));
        }
    }

    /// Uses memory that the producer has made, so that it could write before it was connected.
    ///
    /// # Errors
    ///
    /// If the memory could harm this process, or does not have sizes that the service gives itself.
    /// Then the producer gets other memory.
    pub(crate) fn adopt_memory(&self, fd: OwnedFd, page_size_bytes: usize) -> Result<(), String> {
        let memory = ForeignMemory::adopt(fd, page_size_bytes).map_err(|it| it.to_string())?;
        let geometry = memory.geometry();
        let sizes = MemorySizes {
            size_bytes: geometry.size_bytes() as u64,
            page_size_bytes: geometry.page_size_bytes() as u64,
        };
        if memory::geometry(MemorySizes::default(), sizes) != geometry {
            return Err("the service gives no memory of these sizes".to_owned());
        }
        let mut commands = self.commands.lock();
        commands.quota = self.quotas.take(self.uid, geometry.size_bytes());
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
            commands.quota = self.quotas.take(self.uid, geometry.size_bytes());
            if commands.quota.is_some() {
                return Some(geometry);
            }
        }
        None
    }

    fn note_no_memory<E: std::fmt::Display>(&self, commands: &mut Commands, reason: &E) {
        if !std::mem::replace(&mut commands.lacks_memory, true) {
            (self.log).line(format_args!(
                "{}: gets no shared memory, so it cannot be recorded: {reason}",
                self.label
            ));
        }
    }
}

impl Producer for RemoteProducer {
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup) {
        let mut commands = self.commands.lock();
        if self.give_memory(&mut commands, setup.memory_sizes) {
            commands.configs.insert(instance, setup.config.clone());
            self.send(
                &mut commands,
                producer_port::set_up(instance, &setup.config),
            );
        }
    }

    fn start_data_source(&self, instance: InstanceId) {
        let mut commands = self.commands.lock();
        if let Some(config) = commands.configs.get(&instance) {
            let command = producer_port::start(instance, config);
            self.send(&mut commands, command);
        }
    }

    fn stop_data_source(&self, instance: InstanceId) {
        let mut commands = self.commands.lock();
        if commands.configs.remove(&instance).is_some() {
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
        let command = producer_port::clear_incremental_state(instances);
        self.send(&mut commands, command);
    }
}
