//! The format of crash files. All numbers are little-endian.
//!
//! Functions here encode and decode bytes. They trust nothing: each part has a check, a mix of its
//! other bytes and of the folder's nonce, so that a part of another folder is not mistaken for one
//! of this folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::ids::{BufferId, ChunkId, WriterId};
use crate::shm::layout::ChunkFlags;

/// The size of the header of `meta` and of each ring.
pub const HEADER_BYTES: usize = 4096;

/// The largest count in a file that a recovery believes. Sums of such counts cannot overflow.
pub const COUNT_MAX: u64 = 1 << 48;

/// The version of the format.
const VERSION: u32 = 1;

const META_MAGIC: u64 = 0x6174_656d_7a74_ac01;
const RING_MAGIC: u64 = 0x676e_6972_7a74_ac02;

/// The number of bytes of a header that its check covers.
const CHECKED_BYTES: usize = 256;
/// The position of the check in a header.
const CHECK_AT: usize = 12;

/// The number of bytes that `meta` has for the name of the process.
const NAME_BYTES: usize = 128;

/// Returns a 32-bit mix of words.
fn mix(words: impl IntoIterator<Item = u64>) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = FACTOR;
    for word in words {
        state = (state ^ word).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    (state >> 32) as u32 ^ state as u32
}

/// Returns a check of numbers in a file that belongs to the folder with this nonce.
#[must_use]
pub fn check_of(nonce: u64, numbers: impl IntoIterator<Item = u64>) -> u32 {
    mix([nonce].into_iter().chain(numbers))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let chunks = bytes.chunks(8);
    chunks.map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// Writes numbers one after the other.
struct Writer<'a> {
    rest: &'a mut [u8],
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_slice(&bytes);
    }

    fn put_slice(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = rest;
    }
}

/// Reads numbers one after the other.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.take_slice(N).try_into().expect("N bytes")
    }

    fn take_slice(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        head
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// The process that a folder belongs to, and the sizes of its shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// A random number, which all files of the folder share.
    pub nonce: u64,
    /// The kernel's random id of this boot.
    pub boot_id: [u8; 16],
    /// The inode of the process's pid namespace.
    pub pid_namespace: u64,
    /// The time at which the process started, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// The id of the process.
    pub pid: u32,
    /// The user that the process ran as.
    pub uid: u32,
    /// The wall time at which the folder was created, in nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// The size of the shared memory.
    pub memory_size_bytes: u32,
    /// The size of a page of the shared memory.
    pub page_size_bytes: u32,
    /// The name of the executable, cut off after 127 bytes.
    pub process_name: String,
}

impl Meta {
    /// Encodes the header of `meta`.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut out = Writer { rest: &mut bytes };
        out.put(META_MAGIC.to_le_bytes());
        out.put(VERSION.to_le_bytes());
        out.put([0; 4]); // the check
        out.put(self.nonce.to_le_bytes());
        out.put(self.boot_id);
        out.put(self.pid_namespace.to_le_bytes());
        out.put(self.start_time_ticks.to_le_bytes());
        out.put(self.pid.to_le_bytes());
        out.put(self.uid.to_le_bytes());
        out.put(self.created_unix_ns.to_le_bytes());
        out.put(self.memory_size_bytes.to_le_bytes());
        out.put(self.page_size_bytes.to_le_bytes());
        let name = cut_off(&self.process_name, NAME_BYTES - 1);
        out.put([name.len() as u8]);
        out.put_slice(name.as_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Decodes the header of `meta`. Returns `None` if it is damaged, or of another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = sealed(bytes, META_MAGIC)?;
        Some(Self {
            nonce: input.u64(),
            boot_id: input.take(),
            pid_namespace: input.u64(),
            start_time_ticks: input.u64(),
            pid: input.u32(),
            uid: input.u32(),
            created_unix_ns: input.u64(),
            memory_size_bytes: input.u32(),
            page_size_bytes: input.u32(),
            process_name: {
                let len = usize::from(input.take::<1>()[0]).min(NAME_BYTES - 1);
                String::from_utf8_lossy(input.take_slice(len)).into_owned()
            },
        })
    }
}

/// The part of a ring's header that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingHeader {
    /// The nonce of the folder.
    pub nonce: u64,
    /// The size of a segment. Only a ring that streams into a file has several. Their number
    /// follows from the length of the file; one that was given back is zero.
    pub segment_bytes: u32,
    /// The position of the buffer in the session's configuration.
    pub buffer_index: u32,
    /// The number of rings that had the same position before, and were taken by clones.
    pub generation: u32,
    /// True if a full buffer discards new packets.
    pub discards: bool,
}

impl RingHeader {
    /// Encodes the header of a ring.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut out = Writer { rest: &mut bytes };
        out.put(RING_MAGIC.to_le_bytes());
        out.put(VERSION.to_le_bytes());
        out.put([0; 4]); // the check
        out.put(self.nonce.to_le_bytes());
        out.put(self.segment_bytes.to_le_bytes());
        out.put(self.buffer_index.to_le_bytes());
        out.put(self.generation.to_le_bytes());
        out.put([u8::from(self.discards)]);
        seal(&mut bytes);
        bytes
    }

    /// Decodes the header of a ring. Returns `None` if it is damaged, or of another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = sealed(bytes, RING_MAGIC)?;
        Some(Self {
            nonce: input.u64(),
            segment_bytes: input.u32(),
            buffer_index: input.u32(),
            generation: input.u32(),
            discards: input.take::<1>()[0] != 0,
        })
    }
}

/// The trace file that a session streams into. A file that was replaced has another inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The device of the file.
    pub device: u64,
    /// The inode of the file.
    pub inode: u64,
    /// The absolute path of the file.
    pub path: PathBuf,
}

impl Output {
    /// Encodes the whole file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        [&self.device.to_le_bytes(), &self.inode.to_le_bytes(), path].concat()
    }

    /// Decodes the whole file. Returns `None` if it is too short.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (device, rest) = bytes.split_first_chunk()?;
        let (inode, path) = rest.split_first_chunk()?;
        Some(Self {
            device: u64::from_le_bytes(*device),
            inode: u64::from_le_bytes(*inode),
            path: PathBuf::from(OsStr::from_bytes(path)),
        })
    }
}

/// Writes the check of a header.
fn seal(bytes: &mut [u8; HEADER_BYTES]) {
    let check = mix(words(&bytes[..CHECKED_BYTES]));
    bytes[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
}

/// Checks a header, and returns a reader of what stands behind its check.
fn sealed(bytes: &[u8], magic: u64) -> Option<Reader<'_>> {
    let bytes = bytes.get(..CHECKED_BYTES)?;
    let mut unsealed: [u8; CHECKED_BYTES] = bytes.try_into().ok()?;
    unsealed[CHECK_AT..CHECK_AT + 4].fill(0);
    let mut input = Reader { rest: bytes };
    let is_ours = input.u64() == magic && input.u32() == VERSION;
    (input.u32() == mix(words(&unsealed)) && is_ours).then_some(input)
}

/// Cuts a text off after at most `len_max` bytes.
pub(super) fn cut_off(text: &str, len_max: usize) -> &str {
    &text[..text.floor_char_boundary(len_max)]
}

/// The words of a ring's header that change, by their positions among the words of the header.
pub mod ring_words {
    /// The place that is being written (see [`Place`](super::Place)).
    pub const PLACE: usize = 256;
    /// The id of the buffer, by which writers name it.
    pub const BUFFER_ID: usize = 257;
    /// 1 if a chunk was ever overwritten.
    pub const HAS_EVICTED: usize = 258;
    /// 1 if the buffer is full and discards.
    pub const IS_SEALED: usize = 259;
}

/// The place in a ring where a chunk is being written. If none is, `size_bytes` is 0, and
/// `offset_bytes` is the write cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The distance from the first slot.
    pub offset_bytes: u32,
    /// The size of the slot that is being written.
    pub size_bytes: u32,
}

impl Place {
    /// Returns the place as a word.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.offset_bytes as u64) << 32 | self.size_bytes as u64
    }

    /// Returns the place in a word.
    #[must_use]
    pub const fn of_word(word: u64) -> Self {
        Self {
            offset_bytes: (word >> 32) as u32,
            size_bytes: word as u32,
        }
    }
}

/// The alignment of slots, and the size of their header.
pub const SLOT_HEADER_BYTES: usize = 16;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Nothing that is needed.
    Padding,
    /// A chunk.
    Chunk {
        /// True if the writer was still filling the chunk when it was copied.
        is_incomplete: bool,
        /// True if the writer gave up a packet behind the last fragment.
        is_aborted: bool,
    },
}

/// The part of a slot's header that changes: one aligned word of 4 bytes, so that a kill finds the
/// old word or the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The size of the chunk's fragments.
    pub payload_bytes: u16,
    /// The flags of the chunk.
    pub flags: ChunkFlags,
    /// The content of the slot.
    pub kind: SlotKind,
}

impl SlotState {
    const PADDING: u8 = 1;
    const CHUNK: u8 = 2;
    const INCOMPLETE: u8 = 4;
    const ABORTED: u8 = 8;

    /// Encodes the word. The upper bits of its last byte are a check of the rest.
    #[must_use]
    pub fn encode(self) -> [u8; 4] {
        let kind = match self.kind {
            SlotKind::Padding => Self::PADDING,
            SlotKind::Chunk {
                is_incomplete,
                is_aborted,
            } => {
                let incomplete = u8::from(is_incomplete) * Self::INCOMPLETE;
                let aborted = u8::from(is_aborted) * Self::ABORTED;
                Self::CHUNK | incomplete | aborted
            }
        };
        let [low, high] = self.payload_bytes.to_le_bytes();
        let flags = self.flags.bits();
        [low, high, flags, kind | Self::check(low, high, flags, kind)]
    }

    fn decode([low, high, flags, kind]: [u8; 4]) -> Option<Self> {
        let (check, kind) = (kind & 0xf0, kind & 0xf);
        if check != Self::check(low, high, flags, kind) {
            return None;
        }
        Some(Self {
            payload_bytes: u16::from_le_bytes([low, high]),
            flags: ChunkFlags::from_bits(flags),
            kind: match kind & 3 {
                Self::PADDING => SlotKind::Padding,
                Self::CHUNK => SlotKind::Chunk {
                    is_incomplete: kind & Self::INCOMPLETE != 0,
                    is_aborted: kind & Self::ABORTED != 0,
                },
                _ => return None,
            },
        })
    }

    fn check(low: u8, high: u8, flags: u8, kind: u8) -> u8 {
        let sum = low ^ high.rotate_left(3) ^ flags.rotate_left(5) ^ kind;
        (sum << 4 ^ sum) & 0xf0
    }
}

/// The header of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// The position of the chunk in its sequence.
    pub chunk_id: ChunkId,
    /// The writer of the chunk.
    pub writer_id: WriterId,
    /// The room for payload, which the size of the slot follows from.
    pub reserved_bytes: u16,
    /// The part that changes.
    pub state: SlotState,
}

impl SlotHeader {
    /// The position of the [state](SlotState) in the header.
    pub const STATE_AT: usize = 12;

    /// Encodes the header of the slot at `offset_bytes`.
    #[inline]
    #[must_use]
    pub fn encode(&self, offset_bytes: u32, nonce: u64) -> [u8; SLOT_HEADER_BYTES] {
        let id = self.chunk_id.0.to_le_bytes();
        let writer = self.writer_id.0.to_le_bytes();
        let reserved = self.reserved_bytes.to_le_bytes();
        let check = self.check(offset_bytes, nonce).to_le_bytes();
        let state = self.state.encode();
        let mut bytes = [0; SLOT_HEADER_BYTES];
        bytes[..4].copy_from_slice(&check);
        bytes[4..8].copy_from_slice(&id);
        bytes[8..10].copy_from_slice(&writer);
        bytes[10..12].copy_from_slice(&reserved);
        bytes[Self::STATE_AT..].copy_from_slice(&state);
        bytes
    }

    /// Decodes the header of the slot at `offset_bytes`. Returns `None` if there is none.
    #[must_use]
    pub fn decode(bytes: [u8; SLOT_HEADER_BYTES], offset_bytes: u32, nonce: u64) -> Option<Self> {
        let mut input = Reader { rest: &bytes };
        let check = input.u32();
        let header = Self {
            chunk_id: ChunkId(input.u32()),
            writer_id: WriterId(input.u16()),
            reserved_bytes: input.u16(),
            state: SlotState::decode(input.take())?,
        };
        let is_sound = check == header.check(offset_bytes, nonce)
            && header.state.payload_bytes <= header.reserved_bytes;
        is_sound.then_some(header)
    }

    #[inline]
    fn check(&self, offset_bytes: u32, nonce: u64) -> u32 {
        let ids = u64::from(self.chunk_id.0) << 32
            | u64::from(self.writer_id.0) << 16
            | u64::from(self.reserved_bytes);
        // Memory that was never written is zero, so a valid check is not.
        mix([ids, u64::from(offset_bytes) ^ nonce]).max(1)
    }

    /// Returns the size of the slot.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        (SLOT_HEADER_BYTES + self.reserved_bytes as usize).next_multiple_of(SLOT_HEADER_BYTES)
    }
}

/// The number of words in a row of the table of writers.
pub const ROW_WORDS: usize = 8;
/// The size of a row.
pub const ROW_BYTES: usize = ROW_WORDS * 8;

/// A row of the table of writers: a writer of a buffer, and its counters. Writers that come one
/// after the other with the same id and buffer share a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterRow {
    /// The id of the writer; `None` if all ids were in use.
    pub writer_id: Option<WriterId>,
    /// The buffer that the writer writes to.
    pub target_buffer: BufferId,
    /// True if the writer exists.
    pub is_living: bool,
    /// The name of its thread, cut off after 24 bytes.
    pub thread_name: Option<String>,
    /// The numbers of packets begun, empty and dropped, and the number of times in which packets
    /// were dropped.
    pub counts: [u64; 4],
}

impl WriterRow {
    /// The position of the counters in a row, in words.
    pub const COUNTS_AT: usize = 4;
    /// The number of bytes for the name of a thread.
    const NAME_BYTES: usize = 24;

    const USED: u64 = 1 << 63;
    const LIVING: u64 = 1 << 62;
    const HAS_ID: u64 = 1 << 61;

    /// Encodes the first word of a row.
    #[must_use]
    pub fn key_word(writer_id: Option<WriterId>, target_buffer: BufferId, is_living: bool) -> u64 {
        let id = writer_id.map_or(0, |id| Self::HAS_ID | u64::from(id.0) << 16);
        let living = if is_living { Self::LIVING } else { 0 };
        Self::USED | living | id | u64::from(target_buffer.0)
    }

    /// Encodes the words for a thread's name.
    #[must_use]
    pub fn name_words(name: &str) -> [u64; 3] {
        let mut words = [0; 3];
        let bytes = cut_off(name, Self::NAME_BYTES).as_bytes();
        for (word, part) in words.iter_mut().zip(self::words(bytes)) {
            *word = part;
        }
        words
    }

    /// Decodes a row. Returns `None` if it is unused.
    #[must_use]
    pub fn decode(row: [u64; ROW_WORDS]) -> Option<Self> {
        let [key, name @ .., begun, empty, dropped, episodes] = row;
        let name: [u64; 3] = name;
        let name: Vec<u8> = name.into_iter().flat_map(u64::to_le_bytes).collect();
        let len = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        (key & Self::USED != 0).then(|| Self {
            writer_id: (key & Self::HAS_ID != 0).then_some(WriterId((key >> 16) as u16)),
            target_buffer: BufferId(key as u16),
            is_living: key & Self::LIVING != 0,
            thread_name: (len > 0).then(|| String::from_utf8_lossy(&name[..len]).into_owned()),
            counts: [begun, empty, dropped, episodes],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            nonce: 7,
            boot_id: [3; 16],
            pid_namespace: 4,
            start_time_ticks: 5,
            pid: 6,
            uid: 1000,
            created_unix_ns: 8,
            memory_size_bytes: 1 << 20,
            page_size_bytes: 4096,
            process_name: "server".to_owned(),
        }
    }

    fn header() -> SlotHeader {
        SlotHeader {
            chunk_id: ChunkId(u32::MAX),
            writer_id: WriterId(5),
            reserved_bytes: 100,
            state: SlotState {
                payload_bytes: 99,
                flags: ChunkFlags::LAST_PACKET_CONTINUES,
                kind: SlotKind::Chunk {
                    is_incomplete: true,
                    is_aborted: false,
                },
            },
        }
    }

    #[test]
    fn headers_are_decoded_as_they_were_encoded() {
        assert_eq!(Meta::decode(&meta().encode()), Some(meta()));
        let long = Meta {
            process_name: "é".repeat(100),
            ..meta()
        };
        assert_eq!(
            Meta::decode(&long.encode()).unwrap().process_name,
            "é".repeat(63)
        );
        let ring = RingHeader {
            nonce: 7,
            segment_bytes: u32::MAX,
            buffer_index: 3,
            generation: 1,
            discards: true,
        };
        assert_eq!(RingHeader::decode(&ring.encode()), Some(ring));
        assert_eq!(RingHeader::decode(&meta().encode()), None);
        let slot = header().encode(160, 7);
        assert_eq!(SlotHeader::decode(slot, 160, 7), Some(header()));
        assert_eq!(SlotHeader::decode(slot, 176, 7), None);
        assert_eq!(SlotHeader::decode(slot, 160, 8), None);
        assert_eq!(SlotHeader::decode([0; 16], 0, 0), None);
    }

    #[test]
    fn a_flipped_byte_of_a_header_is_noticed() {
        let sound = meta().encode();
        for index in 0..CHECKED_BYTES {
            let mut damaged = sound;
            damaged[index] ^= 0x10;
            assert_eq!(Meta::decode(&damaged), None, "byte {index}");
        }
        assert_eq!(Meta::decode(&sound[..100]), None);
    }

    #[test]
    fn a_flipped_bit_of_a_slot_is_noticed() {
        let sound = header().encode(32, 7);
        for bit in 0..8 * SLOT_HEADER_BYTES {
            let mut damaged = sound;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SlotHeader::decode(damaged, 32, 7), None, "bit {bit}");
        }
    }

    #[test]
    fn rows_are_decoded_as_they_were_encoded() {
        let [a, b, c] = WriterRow::name_words("a name of more than 24 bytes");
        let key = WriterRow::key_word(Some(WriterId(9)), BufferId(2), true);
        let expected = WriterRow {
            writer_id: Some(WriterId(9)),
            target_buffer: BufferId(2),
            is_living: true,
            thread_name: Some("a name of more than 24 b".to_owned()),
            counts: [1, 2, 3, 4],
        };
        assert_eq!(
            WriterRow::decode([key, a, b, c, 1, 2, 3, 4]),
            Some(expected)
        );
        let key = WriterRow::key_word(None, BufferId(2), false);
        let row = WriterRow::decode([key, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        assert_eq!((row.writer_id, row.thread_name), (None, None));
        assert_eq!(WriterRow::decode([0; 8]), None);
    }
}
