//! Takes packets out of the model, to read or to evict them.

use super::losses::is_told;
use super::token::{Kind, Token, is_packet, kind, token};
use super::{
    BROKEN_CHAIN, CHUNK_CORRUPTED, Chunk, Key, Model, NEEDS_PATCH, ORPHAN_CONTINUATION, OVERWRITE,
    Packet, REASSEMBLY_GAP, WRITER_ABORT, outer,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Read,
    Evict,
}

/// A fragment with its slot, its kind, and its position in the payload.
#[derive(Clone, Copy)]
struct Fragment {
    slot: usize,
    kind: Kind,
    start: usize,
    end: usize,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    NotYet,
    Gap,
    Corrupted,
    BrokenChain,
    Aborted,
}

impl Model {
    pub fn begin_read(&mut self) {
        for sequence in self.sequences.values_mut() {
            sequence.stalled = false;
        }
        let offsets = || self.slots.iter().map(|slot| slot.offset);
        let old = offsets().filter(|&offset| offset >= self.write);
        let new = offsets().filter(|&offset| offset < self.write);
        self.to_visit = Some(old.chain(new).collect());
    }

    /// Rule: after a write, nothing can be read until the next `begin_read`.
    pub fn read(&mut self) -> Option<Packet> {
        while let Some(&visited) = self.to_visit.as_ref()?.first() {
            let slot = self
                .slots
                .iter()
                .position(|slot| slot.offset == visited)
                .expect("slots stay while they are read");
            if let Some(chunk) = &self.slots[slot].chunk {
                let key = chunk.key;
                if !self.sequence(key).stalled
                    && let Some((id, packet)) = self.next_packet(key, slot, Mode::Read)
                {
                    self.sequence(key)
                        .losses
                        .retain(|&(at, _)| !is_told(at, id));
                    return Some(packet);
                }
            }
            self.to_visit.as_mut()?.remove(0);
        }
        None
    }

    /// Returns the next packet of a sequence up to the chunk in the slot `target`, and the chunk
    /// that the packet begins in.
    pub(super) fn next_packet(
        &mut self,
        key: Key,
        target: usize,
        mode: Mode,
    ) -> Option<(u32, Packet)> {
        loop {
            let front = *self.queue(key).first()?;
            self.check_gap(front);
            let id = self.chunk(front).id;
            let Some(fragment) = self.unread_fragment(front) else {
                let chunk = self.chunk(front);
                if chunk.incomplete && mode == Mode::Read {
                    // Rule: corruption in an incomplete chunk is reported once, when the chunk
                    // leaves.
                    self.sequence(key).stalled = true;
                    return None;
                }
                let (aborted, unread_packets) = (chunk.aborted, chunk.unread_packets);
                if chunk.consumed < chunk.payload.len() {
                    self.lose(key, id, CHUNK_CORRUPTED);
                }
                if aborted {
                    // Rule: an abort is reported where it happened, behind the packets of the
                    // chunk.
                    self.lose(key, id, WRITER_ABORT);
                }
                self.counts_mut(key).corrupted += unread_packets;
                self.erase(front);
                if front == target {
                    return None;
                }
                continue;
            };
            let mut fragments = vec![fragment];
            match fragment.kind {
                Kind::Whole => {
                    self.consume(fragment, mode);
                    if fragment.start == fragment.end {
                        continue;
                    }
                }
                Kind::Continue | Kind::End => {
                    self.consume(fragment, mode);
                    self.lose(key, id, ORPHAN_CONTINUATION);
                    continue;
                }
                Kind::Begin => {
                    let outcome = self.collect(key, &mut fragments);
                    let is_done = outcome == Outcome::Done;
                    let name = if is_done {
                        "readaheads_succeeded"
                    } else {
                        "readaheads_failed"
                    };
                    self.count(name, 1);
                    if outcome == Outcome::NotYet && mode == Mode::Read {
                        self.sequence(key).stalled = true;
                        return None;
                    }
                    for &fragment in &fragments {
                        self.consume(fragment, mode);
                    }
                    if !is_done {
                        let counts = self.counts_mut(key);
                        let (count, cause) = match outcome {
                            Outcome::Done | Outcome::NotYet => (&mut counts.overwritten, OVERWRITE),
                            Outcome::Gap => (&mut counts.gap, REASSEMBLY_GAP),
                            Outcome::Corrupted => (&mut counts.corrupted, CHUNK_CORRUPTED),
                            Outcome::BrokenChain => (&mut counts.broken_chain, BROKEN_CHAIN),
                            Outcome::Aborted => (&mut counts.aborted, BROKEN_CHAIN),
                        };
                        *count += 1;
                        self.lose(key, id, cause);
                        continue;
                    }
                }
            }
            let counts = self.counts_mut(key);
            match mode {
                Mode::Read => counts.read += 1,
                Mode::Evict => counts.overwritten += 1,
            }
            let slices = fragments
                .iter()
                .filter(|fragment| fragment.start < fragment.end)
                .map(|fragment| {
                    self.chunk(fragment.slot).payload[fragment.start..fragment.end].to_vec()
                })
                .collect();
            let sequence = &self.sequences[&key];
            let losses = sequence.losses.iter().filter(|&&(at, _)| is_told(at, id));
            let packet = Packet {
                key,
                client: sequence.client,
                loss: losses.fold(0, |mask, (_, cause)| mask | cause),
                slices,
            };
            return Some((id, packet));
        }
    }

    /// Finds the fragments that continue a packet.
    fn collect(&self, key: Key, fragments: &mut Vec<Fragment>) -> Outcome {
        let queue = self.queue(key);
        let begin = self.chunk(queue[0]);
        if begin.flags & NEEDS_PATCH != 0 {
            return Outcome::NotYet;
        }
        let mut aborted = begin.aborted;
        for pair in queue.windows(2) {
            let (previous, chunk) = (self.chunk(pair[0]), self.chunk(pair[1]));
            // Rule: only a gap inside the packet counts here.
            if chunk.id != previous.id.wrapping_add(1) {
                return Outcome::Gap;
            }
            match self.unread_fragment(pair[1]) {
                Some(fragment) => match fragment.kind {
                    // Rule: patches belong to the last fragment of a chunk. The packet waits for
                    // them only if that fragment is a part of the packet.
                    Kind::Continue if chunk.flags & NEEDS_PATCH != 0 => return Outcome::NotYet,
                    Kind::Continue => fragments.push(fragment),
                    Kind::End => {
                        fragments.push(fragment);
                        return Outcome::Done;
                    }
                    Kind::Whole | Kind::Begin if aborted => return Outcome::Aborted,
                    Kind::Whole | Kind::Begin => return Outcome::BrokenChain,
                },
                None if chunk.consumed < chunk.payload.len() => return Outcome::Corrupted,
                // Rule: the next fragment may be the one that an incomplete chunk does not show
                // yet.
                None if chunk.incomplete => return Outcome::NotYet,
                // Rule: if the writer gave up the packet in this chunk, the packet has no
                // continuation.
                None if chunk.aborted => return Outcome::Aborted,
                None => {}
            }
            aborted |= chunk.aborted;
        }
        Outcome::NotYet
    }

    fn unread_fragment(&self, slot: usize) -> Option<Fragment> {
        let Chunk {
            payload,
            flags,
            consumed,
            ..
        } = self.chunk(slot);
        match token(payload, *consumed) {
            Token::Fragment { start, end } => Some(Fragment {
                slot,
                kind: kind(payload, *flags, *consumed, end),
                start,
                end,
            }),
            Token::End | Token::Aborted | Token::Malformed => None,
        }
    }

    fn consume(&mut self, fragment: Fragment, mode: Mode) {
        let size = outer(self.slots[fragment.slot].reserved);
        let chunk = self.chunk_mut(fragment.slot);
        chunk.consumed = fragment.end;
        if is_packet(fragment.kind, fragment.end - fragment.start) {
            chunk.unread_packets = chunk.unread_packets.saturating_sub(1);
        }
        if chunk.consumed == chunk.payload.len() {
            let (chunks, bytes) = match mode {
                Mode::Read => ("chunks_read", "bytes_read"),
                Mode::Evict => ("chunks_overwritten", "bytes_overwritten"),
            };
            self.count(chunks, 1);
            self.count(bytes, size);
        }
    }
}
