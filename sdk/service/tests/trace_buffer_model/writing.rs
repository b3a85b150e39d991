//! Commits chunks and patches to the model.

use std::cmp::Ordering;

use super::reading::Mode;
use super::token::{Token, packets_from, token};
use super::{
    ABI_FLAGS, Chunk, Commit, Incoming, Key, LAST_CONTINUES, Model, NEEDS_PATCH, OVERWRITE, Patch,
    Sequence, Slot, WRITER_ABORT, order, outer,
};

impl Model {
    pub fn commit(&mut self, commit: &Commit) {
        self.to_visit = None;
        self.overwritten.clear();
        let key = commit.key;
        self.accounts.entry(key).or_default();
        let (mut declared, mut flags) = (commit.declared, commit.flags);
        if !commit.complete && declared > 0 {
            declared -= 1;
            flags &= !(LAST_CONTINUES | NEEDS_PATCH);
        }
        let mut len = 0;
        let (mut aborted, mut malformed) = (false, false);
        for _ in 0..declared {
            match token(&commit.source, len) {
                Token::Fragment { end, .. } => len = end,
                Token::Aborted => {
                    aborted = true;
                    break;
                }
                Token::End | Token::Malformed => {
                    malformed = true;
                    break;
                }
            }
        }
        let payload = &commit.source[..len];
        if self.sealed || self.read_only {
            self.count("chunks_discarded", 1);
            return self.discard(commit, payload, flags);
        }
        if malformed {
            self.count("abi_violations", 1);
        }
        let reserved = if commit.complete {
            len
        } else {
            commit.source.len()
        };
        if reserved > 65535 || outer(reserved) > self.size {
            self.count("abi_violations", 1);
            return self.discard(commit, payload, flags);
        }
        let account = self.accounts.entry(key).or_default();
        account.record(len);
        let now = self.emptied;
        self.sequences.entry(key).or_insert_with(|| Sequence {
            client: commit.client,
            consumed: account.interrupted.take().into_iter().collect(),
            empty_since: Some(now),
            ..Sequence::default()
        });
        if aborted {
            self.count("trace_writer_packet_loss", 1);
        }

        let mut consumed = 0;
        if let Some((last, last_len, was_incomplete)) = self.newest_consumed(key)
            && order(commit.id, last) != Ordering::Greater
        {
            let comes_again = commit.id == last && was_incomplete;
            if comes_again && last_len < len {
                consumed = last_len;
            } else {
                // Rule: the loss of an aborted packet is reported behind the chunk, even if the
                // mark of the abort is all that was added to the chunk.
                if comes_again && commit.complete && aborted {
                    self.lose(key, commit.id, WRITER_ABORT);
                }
                // Rule: an unfinished copy that comes behind its chunk is no loss.
                self.count("chunks_discarded", u64::from(commit.complete));
                let late = self.refuse(commit, payload, flags);
                self.accounts.entry(key).or_default().counts.late += late;
                return;
            }
        }
        let queue = self.queue(key);
        if let Some(&present) = queue.iter().find(|&&slot| self.chunk(slot).id == commit.id) {
            let chunk = self.chunk(present);
            let grows = len > chunk.payload.len();
            if len < chunk.payload.len()
                || len > self.slots[present].reserved
                || chunk.flags & ABI_FLAGS & !flags != 0
            {
                return self.count("abi_violations", 1);
            }
            let is_drained = chunk.consumed == chunk.payload.len();
            let is_front = queue[0] == present;
            let offset = self.slots[present].offset;
            let lap = if offset < self.write { self.size } else { 0 };
            // Rule: a chunk that may grow again is relocated only if the write cursor is less than
            // half a lap behind it.
            let moves = commit.complete || offset + lap - self.write < self.size / 2;
            if chunk.incomplete && is_drained && moves && grows && is_front && !self.discard {
                consumed = chunk.payload.len();
                self.count("chunks_relocated", 1);
                self.check_gap(present);
                self.erase(present);
            } else {
                let chunk = self.chunk_mut(present);
                chunk.incomplete &= !commit.complete;
                chunk.aborted |= aborted;
                if grows {
                    chunk.payload = payload.to_vec();
                    chunk.flags |= flags;
                    chunk.unread_packets = packets_from(payload, chunk.consumed, chunk.flags);
                    self.count("chunks_rewritten", 1);
                }
                return;
            }
        }

        let size = outer(reserved);
        if size > self.tail() && self.discard {
            self.sealed = true;
            self.count("chunks_discarded", 1);
            return self.discard(commit, payload, flags);
        }
        self.incoming = Some(Incoming {
            key,
            id: commit.id,
            gap_checked: false,
        });
        if size > self.tail() {
            self.evict_until(self.used);
            self.write = 0;
            self.count("write_wrap_count", 1);
        }
        let end = self.write + size;
        self.evict_until(end);
        let incoming = self.incoming.take();
        self.cover(end);
        let newer_are_there = self
            .chunks_of(key)
            .any(|(_, chunk)| order(chunk.id, commit.id) == Ordering::Greater);
        self.count("chunks_committed_out_of_order", u64::from(newer_are_there));
        let slot = Slot {
            offset: self.write,
            reserved,
            chunk: Some(Chunk {
                key,
                id: commit.id,
                payload: payload.to_vec(),
                consumed,
                flags,
                incomplete: !commit.complete,
                aborted,
                gap_checked: incoming.is_some_and(|incoming| incoming.gap_checked),
                unread_packets: packets_from(payload, consumed, flags),
            }),
        };
        self.slots.push(slot);
        self.slots.sort_by_key(|slot| slot.offset);
        self.write = end;
        self.used = self.used.max(end);
        self.count("chunks_written", 1);
        self.count("bytes_written", size);
        self.sequence(key).empty_since = None;
        self.forget_stale();
    }

    fn discard(&mut self, commit: &Commit, payload: &[u8], flags: u8) {
        let discarded = self.refuse(commit, payload, flags);
        let account = self.accounts.entry(commit.key).or_default();
        account.counts.discarded += discarded;
    }

    /// Returns how many packets are lost with a chunk that is not stored.
    fn refuse(&mut self, commit: &Commit, payload: &[u8], flags: u8) -> u64 {
        let present = self
            .chunks_of(commit.key)
            .find(|(_, chunk)| chunk.id == commit.id)
            .map(|(_, chunk)| (chunk.payload.len(), chunk.incomplete));
        let account = self.accounts.entry(commit.key).or_default();
        let Some(mut news) = account.news(commit.id) else {
            return 0;
        };
        match present {
            Some((_, false)) => return 0,
            Some((len, true)) => news = news.max(len),
            None => {}
        }
        let len = payload.len().min(65535).max(news);
        account.note(commit.id, len, commit.complete);
        packets_from(payload, news, flags)
    }

    /// Evicts the slots that start between the write cursor and `end`.
    fn evict_until(&mut self, end: u64) {
        let ahead = self.write..end;
        for slot in 0..self.slots.len() {
            if !ahead.contains(&self.slots[slot].offset) {
                continue;
            }
            let Some(chunk) = &self.slots[slot].chunk else {
                let size = outer(self.slots[slot].reserved);
                self.count("padding_bytes_cleared", size);
                continue;
            };
            let key = chunk.key;
            while let Some((id, packet)) = self.next_packet(key, slot, Mode::Evict) {
                self.overwritten.push(packet);
                self.lose(key, id, OVERWRITE);
            }
        }
    }

    /// Removes the slots between the write cursor and `end`, which must be padding. The part of a
    /// slot beyond `end` stays as padding.
    fn cover(&mut self, end: u64) {
        let write = self.write;
        let covered = |slot: &Slot| (write..end).contains(&slot.offset);
        let last = self.slots.iter().rfind(|slot| covered(slot)).cloned();
        self.slots.retain(|slot| !covered(slot));
        if let Some(last) = last {
            assert!(last.chunk.is_none(), "evicted before it is covered");
            let rest = (last.offset + outer(last.reserved)).saturating_sub(end);
            if rest > 0 {
                self.count("padding_bytes_written", rest);
                self.slots.push(Slot {
                    offset: end,
                    reserved: rest as usize - 16,
                    chunk: None,
                });
            }
        }
    }

    fn forget_stale(&mut self) {
        let mut empty: Vec<(u64, Key)> = self
            .sequences
            .iter()
            .filter_map(|(&key, sequence)| Some((sequence.empty_since?, key)))
            .collect();
        if empty.len() <= 1152 {
            return;
        }
        empty.sort_unstable();
        for &(_, key) in &empty[..empty.len() - 1024] {
            // Rule: a chunk that may come again is not forgotten.
            let interrupted = self.newest_consumed(key).filter(|&(.., it)| it);
            self.accounts.entry(key).or_default().interrupted = interrupted;
            self.sequences.remove(&key);
        }
    }

    pub fn patch(&mut self, patch: &Patch) -> bool {
        self.to_visit = None;
        let found = self
            .chunks_of(patch.key)
            .find(|(_, chunk)| chunk.id == patch.id)
            .map(|(slot, _)| slot);
        let Some(slot) = found.filter(|_| !self.read_only) else {
            self.count("patches_failed", 1);
            return false;
        };
        for &(offset, data) in &patch.patches {
            let offset = usize::from(offset);
            let payload = &mut self.chunk_mut(slot).payload;
            if offset + 4 > payload.len() {
                self.count("patches_failed", 1);
                return false;
            }
            payload[offset..offset + 4].copy_from_slice(&data);
        }
        self.count("patches_succeeded", patch.patches.len() as u64);
        if !patch.has_more {
            self.chunk_mut(slot).flags &= !NEEDS_PATCH;
        }
        true
    }
}
