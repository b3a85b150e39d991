//! What a ring keeps of the packets that it overwrites: machines, each of which folds the packets of a
//! data source into a state. The trace begins with these states.

use std::fmt;
use std::sync::Arc;

use tracezero_core::ids::ProducerId;
use tracezero_protovm::{AbortCause, ApplyError, Program, ProgramError, Vm};

use super::trace_buffer::{Overwritten, Packet, TraceBuffer};

/// The maximum number of programs that producers may have for one data source in a buffer.
pub(super) const PROGRAMS_PER_DATA_SOURCE_MAX: usize = 4;

/// The maximum number of machines of a buffer.
const MACHINES_PER_BUFFER_MAX: usize = 64;

/// The number of packets for which a program may take too many steps. Then its machine stops, because the
/// buffer is locked meanwhile.
const OVERRUNS_MAX: u32 = 3;

/// The maximum size of a packet that is folded, in bytes.
const PATCH_MAX_BYTES: usize = 1 << 20;

/// The machines of a buffer.
#[derive(Debug, Default)]
pub(super) struct FoldedStates {
    machines: Vec<Machine>,
    /// The data sources that have no machine, with the reason: at most [`MACHINES_PER_BUFFER_MAX`].
    without: Vec<(String, Arc<str>)>,
    /// The bytes of the packet that is folded.
    patch: Vec<u8>,
}

/// A machine, which folds the packets of some producers.
#[derive(Debug)]
struct Machine {
    data_source: String,
    vm: Vm,
    limit_kib: u32,
    /// The producers that offer the data source with this program, also those that have gone.
    producers: Vec<ProducerId>,
    folds: FoldCounts,
}

/// What became of the packets that were offered to a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FoldCounts {
    folded: u64,
    aborted: u64,
    first_abort: Option<Arc<str>>,
    /// The packets for which the program took too many steps.
    overruns: u32,
}

/// The state of a machine, with what a reader needs to fold the packets that are in the trace.
#[derive(Clone, Debug)]
pub(super) struct FoldedState {
    pub(super) program: Vec<u8>,
    pub(super) state: Vec<u8>,
    pub(super) limit_kib: u32,
    pub(super) producers: Vec<ProducerId>,
}

/// The statistics of a machine, which keeps a state of the packets that a ring overwrites.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateStats {
    /// The name of the data source.
    pub data_source: String,
    /// The position of the buffer in the configuration.
    pub buffer: usize,
    /// The size of the state in memory, in bytes.
    pub state_bytes: usize,
    /// The number of packets that are part of the state.
    pub packets_folded: u64,
    /// The number of packets that the program could not fold completely: it is wrong, or the state has
    /// reached its maximum size. The state then has a part of such a packet.
    pub packets_aborted: u64,
    /// What went wrong for the first of them, or why there is no state at all.
    pub error: Option<Arc<str>>,
}

/// The reason why a data source has no machine.
#[derive(Debug)]
pub(super) enum NoMachine {
    Program(ProgramError),
    TooMany,
}

impl fmt::Display for NoMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(error) => write!(f, "the program is malformed: {error}"),
            Self::TooMany => write!(
                f,
                "too many programs: a buffer takes {PROGRAMS_PER_DATA_SOURCE_MAX} for each data source, \
                 and {MACHINES_PER_BUFFER_MAX} in all"
            ),
        }
    }
}

impl FoldedStates {
    /// Adds a producer to the machine of its data source, which is created if there is none with the
    /// same program. Returns false if there can be none.
    pub(super) fn add(
        &mut self,
        producer: ProducerId,
        data_source: &str,
        program: &[u8],
        limit_kib: u32,
    ) -> bool {
        let Err(reason) = self.try_add(producer, data_source, program, limit_kib) else {
            return true;
        };
        if self.without.len() < MACHINES_PER_BUFFER_MAX {
            let reason = reason.to_string().into();
            self.without.push((data_source.to_owned(), reason));
        }
        false
    }

    fn try_add(
        &mut self,
        producer: ProducerId,
        data_source: &str,
        program: &[u8],
        limit_kib: u32,
    ) -> Result<(), NoMachine> {
        let of_name = self
            .machines
            .iter_mut()
            .filter(|it| it.data_source == data_source);
        let mut programs = 0;
        for machine in of_name {
            if machine.vm.program_bytes() == program {
                if !machine.producers.contains(&producer) {
                    machine.producers.push(producer);
                }
                return Ok(());
            }
            programs += 1;
        }
        if programs >= PROGRAMS_PER_DATA_SOURCE_MAX
            || self.machines.len() >= MACHINES_PER_BUFFER_MAX
        {
            return Err(NoMachine::TooMany);
        }
        let program = Program::parse(program).map_err(NoMachine::Program)?;
        self.machines.push(Machine {
            data_source: data_source.to_owned(),
            vm: Vm::new(program, limit_kib as usize * 1024),
            limit_kib,
            producers: vec![producer],
            folds: FoldCounts::default(),
        });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }

    /// Offers a packet to the machines of its producer, in the order of their creation, until one takes
    /// it.
    pub(super) fn fold(&mut self, packet: &Packet<'_>) -> Overwritten {
        let producer = packet.origin().producer_id;
        let mut is_joined = false;
        for machine in &mut self.machines {
            if !machine.producers.contains(&producer)
                || machine.folds.overruns >= OVERRUNS_MAX
                || packet.len_bytes() > PATCH_MAX_BYTES
            {
                continue;
            }
            if !is_joined {
                is_joined = true;
                self.patch.clear();
                for slice in packet.slices() {
                    self.patch.extend_from_slice(slice);
                }
            }
            match machine.vm.apply(&self.patch) {
                Ok(()) => {
                    machine.folds.folded += 1;
                    return Overwritten::Folded;
                }
                // The packet is not one of those that the program is for.
                Err(ApplyError::Error { .. }) => {}
                Err(ref abort @ ApplyError::Abort { ref cause, .. }) => {
                    machine.folds.note(abort);
                    if matches!(cause, AbortCause::StepLimit | AbortCause::WorkLimit) {
                        machine.folds.overruns += 1;
                    }
                }
            }
        }
        Overwritten::Lost
    }

    /// Folds the unread packets of a buffer that is taken for a clone: the session's trace does not have
    /// them, but its later packets build on them.
    pub(super) fn fold_all(&mut self, buffer: &TraceBuffer) {
        if self.machines.is_empty() {
            return;
        }
        let Ok(mut buffer) = buffer.clone_read_only() else {
            // There is no memory for a copy to read from.
            for machine in &mut self.machines {
                machine
                    .folds
                    .note(&"the packets that a clone has taken are not in the state");
            }
            return;
        };
        buffer.begin_read();
        while let Some(packet) = buffer.read_packet() {
            self.fold(&packet);
        }
    }

    /// Returns the present states, for a trace.
    pub(super) fn states(&self) -> Vec<FoldedState> {
        let states = self.machines.iter().map(|machine| FoldedState {
            program: machine.vm.program_bytes().to_vec(),
            state: machine.vm.state(),
            limit_kib: machine.limit_kib,
            producers: machine.producers.clone(),
        });
        states.collect()
    }

    pub(super) fn stats(&self, buffer: usize) -> impl Iterator<Item = StateStats> + '_ {
        let machines = self.machines.iter().map(move |machine| StateStats {
            data_source: machine.data_source.clone(),
            buffer,
            state_bytes: machine.vm.state_memory_bytes(),
            packets_folded: machine.folds.folded,
            packets_aborted: machine.folds.aborted,
            error: machine.folds.first_abort.clone(),
        });
        let without = self.without.iter().map(move |(name, error)| StateStats {
            data_source: name.clone(),
            buffer,
            state_bytes: 0,
            packets_folded: 0,
            packets_aborted: 0,
            error: Some(Arc::clone(error)),
        });
        machines.chain(without)
    }
}

impl FoldCounts {
    #[cold]
    fn note(&mut self, abort: &dyn fmt::Display) {
        self.aborted += 1;
        // Formats only one: a producer may cause an abort with every packet.
        if self.first_abort.is_none() {
            self.first_abort = Some(abort.to_string().into());
        }
    }
}
