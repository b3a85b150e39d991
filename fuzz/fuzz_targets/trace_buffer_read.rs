//! The trace buffer read at any time, stopped anywhere and cloned, while writers commit, are
//! scraped, skip chunks and send patches late. What a chunk holds follows from its writer and its
//! id, so each packet can be checked: its bytes are those that were written, its fragments belong
//! together, and it comes behind the packet before it, unless its chunk was not there yet when that
//! one was read.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_service::trace_buffer::{ClientIdentity, UntrustedChunk};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_fuzz::audited_buffer::{AuditedBuffer, Delivered};
use tracezero_fuzz::choices::{Shape, Writer};

#[derive(Arbitrary, Debug)]
struct Input {
    shape: Shape,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    /// The chunks that follow the latest one.
    Next {
        writer: Writer,
        count: u8,
    },
    /// Any chunk, complete.
    Commit {
        writer: Writer,
        id: i16,
    },
    /// A chunk as it is while its writer works on it: its first fragments.
    Scrape {
        writer: Writer,
        id: i16,
        fragments: u8,
    },
    /// The latest chunk but some, once more.
    Repeat {
        writer: Writer,
        behind: u8,
    },
    /// The late lengths of a chunk, which are what stands there already.
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

/// Where a fragment was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    chunk: u32,
    index: usize,
}

struct Run {
    audited: AuditedBuffer,
    /// The latest chunk of each writer.
    latest: BTreeMap<(u16, u16), u32>,
    /// Where the latest packet that was read ended, and in which step that was.
    read: BTreeMap<(u16, u16), (Place, usize)>,
    /// For each fragment of a chunk: the step in which it came first.
    came: BTreeMap<(u16, u16, u32), Vec<usize>>,
    step: usize,
}

fuzz_target!(|input: Input| {
    let mut run = Run {
        audited: AuditedBuffer::new(input.shape),
        latest: BTreeMap::new(),
        read: BTreeMap::new(),
        came: BTreeMap::new(),
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
        let latest = self.latest.get(&(producer_id.0, writer_id.0));
        latest.copied().unwrap_or(u32::MAX - 3)
    }

    /// Commits a chunk, or its first fragments only.
    fn commit(&mut self, writer: Writer, id: u32, fragments: Option<u8>) {
        let (producer_id, writer_id) = writer.ids();
        let content = Content::of(producer_id, writer_id, id);
        let complete = fragments.is_none();
        let declared = fragments.map_or(content.fragments.len(), |fragments| {
            usize::from(fragments) % (content.fragments.len() + 1)
        });
        // They are set at the end.
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
        self.latest.insert((producer_id.0, writer_id.0), id);
        let key = (producer_id.0, writer_id.0, id);
        let visible = if complete {
            declared
        } else {
            declared.saturating_sub(1)
        };
        let came = self.came.entry(key).or_default();
        if came.len() < visible {
            came.resize(visible, self.step);
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
        // It fails if the chunk is gone, or is there without its first bytes.
        self.audited
            .patch_with_what_is_there(producer_id, writer_id, chunk_id, &patches, false);
    }

    fn read_all(&mut self) {
        for packet in self.audited.read_all() {
            self.check(&packet);
        }
    }

    /// Compares a packet with what was written.
    fn check(&mut self, packet: &Delivered) {
        let key = (packet.producer_id.0, packet.writer_id.0);
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
                let came_in = self.came[&(key.0, key.1, place.chunk)][place.index];
                assert!(
                    is_behind || ahead > 0 && came_in > read_in,
                    "{place:?} comes after {before:?}"
                );
            }
        }
    }
}

/// What a chunk holds.
struct Content {
    fragments: Vec<Vec<u8>>,
    flags: ChunkFlags,
}

impl Content {
    fn of(producer_id: ProducerId, writer_id: WriterId, id: u32) -> Self {
        let writer = u64::from(producer_id.0) << 16 | u64::from(writer_id.0);
        let seed = |id: u32| mix(writer << 32 | u64::from(id));
        let bits = seed(id);
        let goes_on = |id: u32| seed(id) & 3 == 0;
        let mut flags = ChunkFlags::NONE;
        // One in 16 chunks does not continue what the one before says, or continues nothing.
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

    /// The payload, with bytes behind the fragments that are none.
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

/// Spreads the bits of a number.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
