//! Does the same operations to the model and to a buffer, and compares everything that is visible.

use std::fmt;
use std::sync::{Arc, Mutex};

use support::trace_buffer::{assert_same_both_ways, counters};
use tracezero_core::commit;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{
    self as buffer, ClientIdentity, FillPolicy, Overwritten, TraceBuffer, UntrustedChunk,
};

use crate::model::{Commit, Counts, Histogram, Key, Model, Packet, Patch};
use crate::random::{Operation, Run};

/// The first difference between the model and the buffer.
#[derive(Debug)]
pub struct Difference {
    /// The index of the operation.
    operation: usize,
    message: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after operation {}, {}", self.operation, self.message)
    }
}

type Same = Result<(), String>;

/// Runs until the first difference.
pub fn run(run: &Run) -> Result<(), Difference> {
    let mut pair = Pair::new(run);
    for (operation, step) in run.operations.iter().enumerate() {
        pair.step(step)
            .and_then(|()| pair.compare())
            .map_err(|message| Difference { operation, message })?;
    }
    pair.compare_accounts().map_err(|message| Difference {
        operation: run.operations.len(),
        message,
    })
}

struct Pair {
    model: Model,
    buffer: TraceBuffer,
    /// The packets that the observer saw during the last commit, if there is an observer.
    overwritten: Option<Arc<Mutex<Vec<Packet>>>>,
    /// The sequences in use, in the order of their first chunks.
    keys: Vec<Key>,
    /// The sequence that was used last.
    latest: Option<Key>,
}

impl Pair {
    fn new(run: &Run) -> Self {
        let policy = if run.discard {
            FillPolicy::Discard
        } else {
            FillPolicy::Ring
        };
        let mut buffer = TraceBuffer::new(run.size, policy).expect("memory for a tiny buffer");
        let overwritten = run.observed.then(|| {
            let shown = Arc::<Mutex<Vec<Packet>>>::default();
            let observed = shown.clone();
            buffer.observe_overwrites(move |packet: &buffer::Packet<'_>| {
                observed.lock().expect("no panic").push(seen(packet));
                Overwritten::Lost
            });
            shown
        });
        Self {
            model: Model::new(run.size, run.discard),
            buffer,
            overwritten,
            keys: Vec::new(),
            latest: None,
        }
    }

    fn step(&mut self, operation: &Operation) -> Same {
        match operation {
            Operation::Commit(commit) => {
                self.model.commit(commit);
                self.commit(commit);
                self.latest = Some(commit.key);
                if !self.keys.contains(&commit.key) {
                    self.keys.push(commit.key);
                }
                if let Some(overwritten) = &self.overwritten {
                    let shown = std::mem::take(&mut *overwritten.lock().expect("no panic"));
                    compare("overwritten packets", &self.model.overwritten, &shown)?;
                }
                Ok(())
            }
            Operation::Patch(patch) => {
                compare("patched", &self.model.patch(patch), &self.patch(patch))
            }
            Operation::BeginRead => {
                self.model.begin_read();
                self.buffer.begin_read();
                Ok(())
            }
            Operation::Read => self.read().map(drop),
            Operation::Clone => {
                assert_same_both_ways(&self.buffer);
                let mut clone = Self {
                    model: self.model.clone_read_only(),
                    buffer: self.buffer.clone_read_only().map_err(|e| e.to_string())?,
                    overwritten: None,
                    keys: self.keys.clone(),
                    latest: None,
                };
                clone.compare()?;
                clone.step(&Operation::BeginRead)?;
                while clone.read()? {
                    clone.compare()?;
                }
                clone.compare_accounts()
            }
        }
    }

    fn commit(&mut self, commit: &Commit) {
        self.buffer.commit_chunk(&UntrustedChunk {
            producer_id: ProducerId::new(commit.key.0),
            client: ClientIdentity {
                uid: commit.client.0,
                pid: commit.client.1,
            },
            writer_id: WriterId(commit.key.1),
            chunk_id: ChunkId(commit.id),
            fragment_count: commit.declared,
            flags: ChunkFlags::from_bits(commit.flags),
            complete: commit.complete,
            payload: &commit.source,
        });
    }

    fn patch(&mut self, patch: &Patch) -> bool {
        let patches: Vec<commit::Patch> = patch
            .patches
            .iter()
            .map(|&(offset_bytes, data)| commit::Patch { offset_bytes, data })
            .collect();
        self.buffer.patch_chunk(
            ProducerId::new(patch.key.0),
            WriterId(patch.key.1),
            ChunkId(patch.id),
            &patches,
            patch.has_more,
        )
    }

    /// Reads a packet from both. Returns whether there was one.
    fn read(&mut self) -> Result<bool, String> {
        let expected = self.model.read();
        let packet = self.buffer.read_packet();
        compare("packet", &expected, &packet.as_ref().map(seen))?;
        if let Some(packet) = packet {
            let len: usize = packet.slices().map(<[u8]>::len).sum();
            compare("length", &len, &packet.len_bytes())?;
        }
        Ok(expected.is_some())
    }

    /// Compares what each operation can change.
    fn compare(&self) -> Same {
        let (model, buffer) = (&self.model, &self.buffer);
        for (name, value) in counters(buffer.stats()) {
            let expected = model.stats.get(name).copied().unwrap_or_default();
            compare(name, &expected, &value)?;
        }
        compare("used", &model.used(), &buffer.used_bytes())?;
        compare("tail", &model.tail(), &buffer.tail_bytes())?;
        let balance = buffer.storage_balance();
        compare("balance", &true, &balance.is_even())
            .map_err(|message| format!("{message}: {balance:?}"))?;
        let unread = (balance.unread.chunks, balance.unread.bytes);
        compare("unread chunks", &model.unread_chunks(), &unread)?;
        self.latest.map_or(Ok(()), |key| self.compare_account(key))
    }

    fn compare_accounts(&self) -> Same {
        self.keys
            .iter()
            .try_for_each(|&key| self.compare_account(key))
    }

    fn compare_account(&self, key: Key) -> Same {
        let (producer, writer) = (ProducerId::new(key.0), WriterId(key.1));
        let counts = self.buffer.packet_counts(producer, writer).map(counted);
        compare("packet counts", &self.model.counts(key), &counts)?;
        let histogram = self.buffer.writer_histogram(producer, writer);
        let histogram = histogram.map(|histogram| -> Histogram {
            let (counts, sums) = (histogram.counts(), histogram.sums_bytes());
            std::array::from_fn(|i| (counts[i], sums[i]))
        });
        compare("histogram", &self.model.histogram(key), &histogram)
    }
}

fn seen(packet: &buffer::Packet<'_>) -> Packet {
    Packet {
        key: (
            packet.origin().producer_id.value(),
            packet.origin().writer_id.0,
        ),
        client: (packet.origin().client.uid, packet.origin().client.pid),
        loss: packet.loss().bits(),
        slices: packet.slices().map(<[u8]>::to_vec).collect(),
    }
}

fn counted(counts: buffer::PacketCounts) -> Counts {
    Counts {
        read: counts.read,
        unread: counts.unread,
        overwritten: counts.overwritten,
        discarded: counts.discarded,
        late: counts.late,
        gap: counts.gap,
        broken_chain: counts.broken_chain,
        aborted: counts.aborted,
        corrupted: counts.corrupted,
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Same {
    if expected == got {
        return Ok(());
    }
    Err(format!(
        "{what}: the model has {expected:?}, the buffer {got:?}"
    ))
}
