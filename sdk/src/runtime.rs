//! Where the producer and the service of one process are put together: they share memory, and a
//! commit is a function call.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::Error;
use crate::ids::BufferId;
use crate::producer::{Arbiter, ArbiterConfig, BufferExhaustedPolicy, PacketCounts, TraceWriter};
use crate::service::{CentralBuffer, Service};
use crate::shm::{Geometry, MemoryError, shared_memory};

/// Shared memory of a process, unless its first session asks for another size. It bounds how many
/// writers can be in the middle of a chunk at once; pages that are never used cost nothing.
pub(crate) const DEFAULT_SIZE_BYTES: usize = 4 << 20;
pub(crate) const DEFAULT_PAGE_SIZE_BYTES: usize = 4096;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The one producer and the service of this process. There from the first session on, for good:
/// threads may hold chunks of its memory at any time.
pub(crate) struct Runtime {
    service: Arc<Service>,
    arbiter: Arc<Arbiter>,
    geometry: Geometry,
}

impl Runtime {
    /// The runtime of this process, made if this is the first call.
    ///
    /// `asked` is the geometry that a configuration asks for. It is an error if the memory is there
    /// already, with another one.
    pub(crate) fn of_process(asked: Option<Geometry>) -> Result<&'static Self, Error> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _guard = MAKING.lock();
        let runtime = match RUNTIME.get() {
            Some(runtime) => runtime,
            None => {
                let made = Self::new(asked).map_err(Error::SharedMemory)?;
                RUNTIME.get_or_init(|| made)
            }
        };
        match asked {
            Some(asked) if asked != runtime.geometry => Err(Error::SharedMemoryExists {
                existing_size_bytes: runtime.geometry.size_bytes(),
                existing_page_size_bytes: runtime.geometry.page_size_bytes(),
            }),
            _ => Ok(runtime),
        }
    }

    fn new(asked: Option<Geometry>) -> Result<Self, MemoryError> {
        let geometry = match asked {
            Some(geometry) => geometry,
            None => Geometry::new(DEFAULT_SIZE_BYTES, DEFAULT_PAGE_SIZE_BYTES)?,
        };
        let (producer_memory, service_memory) = shared_memory(geometry)?;
        let service = Arc::new(Service::new(service_memory));
        let endpoint = Arc::clone(&service);
        let arbiter = Arbiter::new(producer_memory, endpoint, ArbiterConfig::default());
        Ok(Self {
            service,
            arbiter,
            geometry,
        })
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// What became of the packets that writers began for `buffers`.
    pub(crate) fn packets_written_to(&self, buffers: &[Arc<CentralBuffer>]) -> PacketCounts {
        let mut sum = PacketCounts::default();
        for totals in self.arbiter.writer_totals() {
            if buffers
                .iter()
                .any(|buffer| buffer.id == totals.target_buffer)
            {
                sum += totals.counts;
            }
        }
        sum
    }

    /// Forgets what is no longer asked for: the session of `buffers` has ended.
    pub(crate) fn forget(&self, buffers: &[Arc<CentralBuffer>]) {
        for buffer in buffers {
            self.arbiter.forget_buffer(buffer.id);
        }
    }
}

/// A writer to a central buffer. Only sessions hand out buffer ids, so there is a runtime.
#[cold]
pub(crate) fn create_writer(
    target_buffer: BufferId,
    policy: BufferExhaustedPolicy,
) -> Option<TraceWriter> {
    let runtime = RUNTIME.get()?;
    Some(TraceWriter::new(&runtime.arbiter, target_buffer, policy))
}
