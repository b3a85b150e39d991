//! Fuzzes reading the trace buffer: reading begins at any time and stops anywhere, and the buffer
//! is cloned, while writers commit, are scraped, skip chunks and send patches late. The content of
//! a chunk follows from the chunk's writer and id, so each packet that is read can be checked: its
//! bytes are those that were written, and its fragments belong together. A packet comes after the
//! packet of the same writer that was read before. Only one exception is allowed: its chunk was
//! committed after that packet was read.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_fuzz::audited_buffer::{AuditedBuffer, ReadPacket};
use tracezero_fuzz::choices::{Shape, Writer};
use tracezero_service::trace_buffer::{ClientIdentity, UntrustedChunk};

#[derive(Arbitrary, Debug)]
struct Input {
    shape: Shape,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    /// Commits the chunks after the latest one.
    Next {
        writer: Writer,
        count: u8,
    },
    /// Commits any chunk, complete.
    Commit {
        writer: Writer,
        id: i16,
    },
    /// Scrapes a chunk while its writer fills it: its first fragments.
    Scrape {
        writer: Writer,
        id: i16,
        fragments: u8,
    },
    /// Commits an earlier chunk once more.
    Repeat {
        writer: Writer,
        behind: u8,
    },
    /// Patches the lengths of a chunk with the bytes that are there already.
    Patch {
        writer: Writer,
        behind: u8,
    },
    BeginRead,
    Read {
        packets: u8,
    },
    ReadAll,
}

/// The position of a fragment: its chunk, and its index in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u32,
    index: usize,
}

struct Run {
    audited: AuditedBuffer,
    /// The latest chunk of each writer.
    latest: BTreeMap<(u32, u16), u32>,
    /// The end of the latest packet that was read, and the step in which it was read.
    read: BTreeMap<(u32, u16), (Place, usize)>,
    /// The step in which each fragment of a chunk was first committed.
    first_seen: BTreeMap<(u32, u16, u32), Vec<usize>>,
    step: usize,
}

fuzz_target!(|input: Input| {
    let mut run = Run {
        audited: AuditedBuffer::new(input.shape),
        latest: BTreeMap::new(),
        read: BTreeMap::new(),
        first_seen: BTreeMap::new(),
        step: 0,
    };
    for action in &input.actions {
        run.step += 1;
        run.apply(action);
        run.audited.audit();
    }
    run.read_all();
    run.audited.audit();
});

impl Run {
    fn apply(&mut self, action: &Action) {
        match *action {
            Action::Next { writer, count } => {
                for _ in 0..count % 64 {
                    let id = self.latest(writer).wrapping_add(1);
                    self.commit(writer, id, None);
                }
            }
            Action::Commit { writer, id } => self.commit(writer, i32::from(id) as u32, None),
            Action::Scrape {
                writer,
                id,
                fragments,
            } => self.commit(writer, i32::from(id) as u32, Some(fragments)),
            Action::Repeat { writer, behind } => {
                let id = self.latest(writer).wrapping_sub(u32::from(behind));
                self.commit(writer, id, None);
            }
            Action::Patch { writer, behind } => {
                let id = self.latest(writer).wrapping_sub(u32::from(behind));
                self.patch(writer, id);
            }
            Action::BeginRead => self.audited.begin_read(),
            Action::Read { packets } => {
                for _ in 0..packets {
                    let Some(packet) = self.audited.read() else {
                        break;
                    };
                    self.check(&packet);
                }
            }
            Action::ReadAll => self.read_all(),
        }
    }

    fn latest(&self, writer: Writer) -> u32 {
        let (producer_id, writer_id) = writer.ids();
        let latest = self.latest.get(&(producer_id.value(), writer_id.0));
        latest.copied().unwrap_or(u32::MAX - 3)
    }

    /// Commits a chunk, or only its first fragments.
    fn commit(&mut self, writer: Writer, id: u32, fragments: Option<u8>) {
        let (producer_id, writer_id) = writer.ids();
        let content = Content::of(producer_id, writer_id, id);
        let complete = fragments.is_none();
        let declared = fragments.map_or(content.fragments.len(), |fragments| {
            usize::from(fragments) % (content.fragments.len() + 1)
        });
        // The writer sets these flags when it finishes the chunk.
        let of_the_end = ChunkFlags::LAST_PACKET_CONTINUES.union(ChunkFlags::NEEDS_PATCHING);
        let flags = if complete {
            content.flags
        } else {
            content.flags.difference(of_the_end)
        };
        self.audited.commit(&UntrustedChunk {
            producer_id,
            client: ClientIdentity::default(),
            writer_id,
            chunk_id: ChunkId(id),
            fragment_count: declared as u16,
            flags,
            complete,
            payload: &content.encode(),
        });
        self.latest.insert((producer_id.value(), writer_id.0), id);
        let key = (producer_id.value(), writer_id.0, id);
        let visible = if complete {
            declared
        } else {
            declared.saturating_sub(1)
        };
        let first_seen = self.first_seen.entry(key).or_default();
        if first_seen.len() < visible {
            first_seen.resize(visible, self.step);
        }
    }

    fn patch(&mut self, writer: Writer, id: u32) {
        let (producer_id, writer_id) = writer.ids();
        let payload = Content::of(producer_id, writer_id, id).encode();
        let patches: Vec<_> = payload
            .first_chunk()
            .map(|&data| Patch {
                offset_bytes: 0,
                data,
            })
            .into_iter()
            .collect();
        let chunk_id = ChunkId(id);
        // The patch fails if the chunk is gone, or has lost its first bytes.
        self.audited
            .patch_with_what_is_there(producer_id, writer_id, chunk_id, &patches, false);
    }

    fn read_all(&mut self) {
        for packet in self.audited.read_all() {
            self.check(&packet);
        }
    }

    /// Compares a packet with the bytes that were written.
    fn check(&mut self, packet: &ReadPacket) {
        let key = (packet.producer_id.value(), packet.writer_id.0);
        for (position, slice) in packet.slices.iter().enumerate() {
            let place = Place {
                chunk: u32::from_le_bytes(*slice.first_chunk().expect("a chunk id")),
                index: usize::from(slice[4]),
            };
            let content = Content::of(packet.producer_id, packet.writer_id, place.chunk);
            assert_eq!(&content.fragments[place.index], slice);
            if position > 0 {
                assert_eq!(place.index, 0, "a packet goes on at the start of a chunk");
                assert!(content.flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES));
            }
            if position + 1 < packet.slices.len() {
                assert_eq!(place.index + 1, content.fragments.len());
                assert!(content.flags.contains(ChunkFlags::LAST_PACKET_CONTINUES));
            }
            if let Some((before, read_in)) = self.read.insert(key, (place, self.step)) {
                let ahead = place.chunk.wrapping_sub(before.chunk);
                let is_behind =
                    ahead <= i32::MAX as u32 && (ahead > 0 || place.index > before.index);
                let seen_in = self.first_seen[&(key.0, key.1, place.chunk)][place.index];
                assert!(
                    is_behind || ahead > 0 && seen_in > read_in,
                    "{place:?} comes after {before:?}"
                );
            }
        }
    }
}

/// The content of a chunk.
struct Content {
    fragments: Vec<Vec<u8>>,
    flags: ChunkFlags,
}

impl Content {
    fn of(producer_id: ProducerId, writer_id: WriterId, id: u32) -> Self {
        let writer = u64::from(producer_id.value()) << 16 | u64::from(writer_id.0);
        let seed = |id: u32| mix(writer << 32 | u64::from(id));
        let bits = seed(id);
        let goes_on = |id: u32| seed(id) & 3 == 0;
        let mut flags = ChunkFlags::NONE;
        // One in 16 chunks contradicts the chunk before: it does not continue its packet, or
        // continues a packet that does not exist.
        if goes_on(id.wrapping_sub(1)) != (bits >> 2 & 15 == 0) {
            flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
        }
        if goes_on(id) {
            flags = flags.union(ChunkFlags::LAST_PACKET_CONTINUES);
            if bits >> 6 & 1 == 1 {
                flags = flags.union(ChunkFlags::NEEDS_PATCHING);
            }
        }
        let fragments = (0..(bits >> 8 & 7) as usize)
            .map(|index| {
                let bits = mix(bits ^ index as u64);
                let len = match bits & 15 {
                    0 => return Vec::new(),
                    1 => 5 + (bits >> 8 & 0x3ff) as usize,
                    _ => 5 + (bits >> 8 & 0x3f) as usize,
                };
                let mut bytes = [id.to_le_bytes().as_slice(), &[index as u8]].concat();
                bytes.resize(len, bits as u8);
                bytes
            })
            .collect();
        Self { fragments, flags }
    }

    /// Returns the payload, with extra bytes after the fragments.
    fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        for fragment in &self.fragments {
            let len = fragment.len();
            payload.extend([len as u8 | 0x80, (len >> 7) as u8]);
            payload.extend(fragment);
        }
        payload.extend([0xee; 40]);
        payload
    }
}

/// Returns a pseudo-random number for `number` (splitmix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
