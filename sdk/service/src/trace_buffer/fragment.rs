//! Splits the payload of a chunk into fragments: `[varint size][size bytes]`, back to back.
//!
//! The payload is untrusted. For any bytes, the result is a fragment inside the payload, or the
//! reason why there is none.

use tracezero_core::shm::layout::ChunkFlags;

/// A value in place of a size: the writer gave up the packet that would have begun or continued
/// here.
const ABORTED_PACKET_SIZE: u64 = 0x0fff_ffff;

/// The maximum size of a size header. A varint of 64 bits needs no more.
const SIZE_HEADER_BYTES_MAX: usize = 10;

/// The element at some offset of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A fragment. Its bytes are `start..end`.
    Fragment { start: usize, end: usize },
    /// The end of the payload.
    End,
    /// The mark of a packet that its writer gave up.
    Aborted,
    /// Bytes that are not a size header, or a size that exceeds the payload.
    Malformed,
}

/// Returns the element at `offset` of `payload`.
#[inline]
pub(super) fn token_at(payload: &[u8], offset: usize) -> Token {
    if offset >= payload.len() {
        return Token::End;
    }
    let Some((size, start)) = size_header_at(payload, offset) else {
        return Token::Malformed;
    };
    if size == ABORTED_PACKET_SIZE {
        return Token::Aborted;
    }
    let room = payload.len() - start;
    match usize::try_from(size) {
        Ok(size) if size <= room => Token::Fragment {
            start,
            end: start + size,
        },
        _ => Token::Malformed,
    }
}

/// Returns the varint at `offset`, and the offset behind it.
#[inline]
fn size_header_at(payload: &[u8], offset: usize) -> Option<(u64, usize)> {
    if let Some(head) = payload[offset..].first_chunk::<4>() {
        let head = u32::from_le_bytes(*head);
        let ends = !head & 0x8080_8080;
        // The size says where the next fragment starts, so a misprediction here delays all further
        // steps. Do not branch between sizes of one byte and of two bytes, because they alternate
        // at random if packets have about 128 bytes.
        if ends & 0x8080 != 0 {
            let is_short = head & 0x80 == 0;
            let both = (head & 0x7f) | (head & 0x7f00) >> 1;
            let (size, len) = if is_short {
                (head & 0x7f, 1)
            } else {
                (both, 2)
            };
            return Some((u64::from(size), offset + len));
        }
        if ends != 0 {
            let is_short = head & 0x80_0000 == 0;
            let low = (head & 0x7f) | (head & 0x7f00) >> 1 | (head & 0x7f_0000) >> 2;
            let (high, len) = if is_short {
                (0, 3)
            } else {
                ((head & 0x7f00_0000) >> 3, 4)
            };
            return Some((u64::from(low | high), offset + len));
        }
    }
    long_size_header_at(payload, offset)
}

/// Reads a header of five bytes or more, or one in the last three bytes of a payload.
fn long_size_header_at(payload: &[u8], offset: usize) -> Option<(u64, usize)> {
    let mut size = 0;
    for (i, &byte) in payload[offset..]
        .iter()
        .take(SIZE_HEADER_BYTES_MAX)
        .enumerate()
    {
        // Only one bit of the tenth byte fits. The others are dropped, as varint readers do.
        size |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((size, offset + i + 1));
        }
    }
    None
}

/// The part of a packet that a fragment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FragmentKind {
    /// The whole packet.
    Whole,
    /// The begin of a packet that continues in the next chunk.
    Begin,
    /// A part that continues in both neighboring chunks. It is the only fragment of its chunk.
    Continue,
    /// The end of a packet that began in an earlier chunk.
    End,
}

impl FragmentKind {
    /// Returns the kind of a fragment by its position. `is_first` is true only at offset 0 of the
    /// payload. So a reader that resumes inside a chunk never takes a later fragment for a
    /// continuation.
    #[inline]
    pub(super) fn of(flags: ChunkFlags, is_first: bool, is_last: bool) -> Self {
        let continues = is_first && flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES);
        let continued = is_last && flags.contains(ChunkFlags::LAST_PACKET_CONTINUES);
        match (continues, continued) {
            (false, false) => Self::Whole,
            (false, true) => Self::Begin,
            (true, true) => Self::Continue,
            (true, false) => Self::End,
        }
    }

    /// Returns true if a fragment of this kind and size counts as a packet. A whole packet without
    /// bytes does not count: writers put these fillers at the end of a chunk.
    #[inline]
    pub(super) fn counts_as_packet(self, size_bytes: usize) -> bool {
        match self {
            Self::Whole => size_bytes != 0,
            Self::Begin => true,
            Self::Continue | Self::End => false,
        }
    }
}

/// The way in which a scan over the declared fragments ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// The scan found all declared fragments.
    Complete,
    /// The scan found the mark of a packet that its writer gave up.
    Aborted,
    /// The scan found bytes that are not a fragment, or fewer fragments than declared.
    Malformed,
}

/// The average size up to which fragments are scanned as short ones. Threads that record events
/// write fragments of such sizes. With larger fragments, the loop for short ones would end at
/// random places, where sizes of one byte and of two bytes alternate, and the CPU would mispredict
/// that.
const SHORT_ON_AVERAGE_BYTES: usize = 64;

/// The number and extent of the valid fragments that a chunk declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// The number of bytes from the start of the payload to the end of the last valid fragment.
    pub(super) len_bytes: usize,
    /// The offset of the last valid fragment, including its size header; if there is none, the
    /// offset at which the scan began.
    pub(super) last_bytes: usize,
    /// The number of fragments with at least one byte.
    filled: usize,
    /// True if the first fragment has at least one byte.
    first_filled: bool,
    /// True if the last fragment has at least one byte.
    last_filled: bool,
    /// The number of valid fragments, including empty ones.
    fragments: usize,
    pub(super) end: ScanEnd,
}

impl Scan {
    /// Scans at most `declared` fragments of `payload`, from `offset` on.
    #[inline]
    pub(super) fn new(payload: &[u8], offset: usize, declared: usize) -> Self {
        let are_short = payload.len() / SHORT_ON_AVERAGE_BYTES <= declared;
        Self::walk(payload, offset, declared, are_short)
    }

    /// Scans fragments. There are two ways with the same result. `are_short` selects the way that
    /// is faster for short fragments.
    #[inline]
    fn walk(payload: &[u8], offset: usize, declared: usize, are_short: bool) -> Self {
        let mut scan = Self {
            len_bytes: offset,
            last_bytes: offset,
            filled: 0,
            first_filled: false,
            last_filled: false,
            fragments: 0,
            end: ScanEnd::Complete,
        };
        loop {
            if are_short {
                scan.pass_short(payload, declared);
            }
            if scan.fragments >= declared {
                return scan;
            }
            match token_at(payload, scan.len_bytes) {
                Token::Fragment { start, end } => {
                    scan.last_filled = start != end;
                    scan.filled += usize::from(scan.last_filled);
                    if scan.fragments == 0 {
                        scan.first_filled = scan.last_filled;
                    }
                    scan.fragments += 1;
                    scan.last_bytes = scan.len_bytes;
                    scan.len_bytes = end;
                }
                Token::Aborted => {
                    scan.end = ScanEnd::Aborted;
                    return scan;
                }
                Token::End | Token::Malformed => {
                    scan.end = ScanEnd::Malformed;
                    return scan;
                }
            }
        }
    }

    /// Scans consecutive fragments of 1 to 127 bytes.
    #[inline]
    fn pass_short(&mut self, payload: &[u8], declared: usize) {
        let mut at = self.len_bytes;
        let mut passed = 0;
        while self.fragments + passed < declared
            && let Some(&size) = payload.get(at)
            && (1..0x80).contains(&size)
            && at + usize::from(size) < payload.len()
        {
            self.last_bytes = at;
            at += 1 + usize::from(size);
            passed += 1;
        }
        if passed > 0 {
            self.first_filled |= self.fragments == 0;
            self.last_filled = true;
            self.filled += passed;
            self.fragments += passed;
            self.len_bytes = at;
        }
    }

    /// Returns the number of packets that begin in the scanned fragments. The scan must have
    /// started at the begin of a payload with `flags`.
    #[inline]
    pub(super) fn packets(&self, flags: ChunkFlags) -> usize {
        let is_continued = flags.contains(ChunkFlags::LAST_PACKET_CONTINUES);
        if flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES) && self.fragments != 0 {
            let empty_begin = is_continued && self.fragments > 1 && !self.last_filled;
            return self.filled - usize::from(self.first_filled) + usize::from(empty_begin);
        }
        let empty_begin = is_continued && self.fragments != 0 && !self.last_filled;
        self.filled + usize::from(empty_begin)
    }
}

/// Returns the number of packets that begin at or behind `offset` of `payload`, and whether the
/// bytes from there on consist of fragments only.
pub(super) fn packets_from(payload: &[u8], offset: usize, flags: ChunkFlags) -> (usize, bool) {
    let mut packets = 0;
    let mut at = offset;
    loop {
        match token_at(payload, at) {
            Token::Fragment { start, end } => {
                let kind = FragmentKind::of(flags, at == 0, end == payload.len());
                packets += usize::from(kind.counts_as_packet(end - start));
                at = end;
            }
            Token::End => return (packets, true),
            Token::Aborted | Token::Malformed => return (packets, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(start: usize, end: usize) -> Token {
        Token::Fragment { start, end }
    }

    #[test]
    fn size_headers_of_one_to_ten_bytes_are_accepted() {
        for header_len in 1..=10 {
            let mut payload = vec![0x80; header_len];
            payload[0] |= 2;
            payload[header_len - 1] &= 0x7f;
            payload.extend(*b"ab");
            assert_eq!(token_at(&payload, 0), fragment(header_len, header_len + 2));
            payload.pop();
            assert_eq!(token_at(&payload, 0), Token::Malformed);
        }
        let eleven = [
            0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 7,
        ];
        assert_eq!(token_at(&eleven, 0), Token::Malformed);
    }

    #[test]
    fn the_fast_header_reader_agrees_with_the_plain_one() {
        for size in (0..1_u32 << 28).step_by(9973) {
            let mut payload = [0; 8];
            for len in 1..=4 {
                if size >> (7 * len) != 0 {
                    continue;
                }
                for (i, byte) in payload[..len].iter_mut().enumerate() {
                    *byte = (size >> (7 * i)) as u8 & 0x7f | u8::from(i + 1 < len) << 7;
                }
                assert_eq!(size_header_at(&payload, 0), Some((u64::from(size), len)));
                assert_eq!(
                    long_size_header_at(&payload, 0),
                    Some((u64::from(size), len))
                );
            }
        }
    }

    #[test]
    fn a_size_that_does_not_fit_any_payload_is_malformed() {
        let huge = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0,
        ];
        assert_eq!(token_at(&huge, 0), Token::Malformed);
    }

    #[test]
    fn abort_mark_is_not_malformed() {
        assert_eq!(token_at(&[0xff, 0xff, 0xff, 0x7f], 0), Token::Aborted);
        assert_eq!(token_at(&[0xff, 0xff, 0xff, 0x7e], 0), Token::Malformed);
        assert_eq!(token_at(&[0xff, 0xff, 0xff], 0), Token::Malformed);
        assert_eq!(token_at(&[], 0), Token::End);
    }

    #[test]
    fn both_ways_to_walk_find_the_same() {
        // Random sizes, contents and ends, with more empty, long and aborted fragments than usual.
        let mut random = 1_u32;
        let mut next = move |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % below
        };
        for _ in 0..20_000 {
            let mut payload = Vec::new();
            for _ in 0..next(6) {
                match next(8) {
                    0 => payload.push(0),
                    1 => payload.extend([0xff, 0xff, 0xff, 0x7f]),
                    2 => payload.extend([0x80 | next(128) as u8, next(3) as u8]),
                    _ => {
                        let size = 1 + next(127);
                        payload.push(size as u8);
                        payload.extend(vec![next(256) as u8; size as usize]);
                    }
                }
            }
            payload.truncate(payload.len().saturating_sub(next(3) as usize));
            let offset = next(2) as usize * next(1 + payload.len() as u32) as usize;
            let declared = next(8) as usize;
            assert_eq!(
                Scan::walk(&payload, offset, declared, true),
                Scan::walk(&payload, offset, declared, false),
                "{payload:?} from {offset}, {declared} declared"
            );
        }
    }

    #[test]
    fn the_summary_of_a_scan_counts_what_a_walk_counts() {
        let first = ChunkFlags::FIRST_PACKET_CONTINUES;
        let last = ChunkFlags::LAST_PACKET_CONTINUES;
        let payloads: [&[u8]; 7] = [
            &[],
            &[0],
            &[1, 7],
            &[0, 0],
            &[1, 7, 0],
            &[0, 1, 7],
            &[1, 7, 2, 7, 7],
        ];
        for payload in payloads {
            for flags in [ChunkFlags::default(), first, last, first.union(last)] {
                let declared = Scan::new(payload, 0, usize::MAX).fragments;
                let scan = Scan::new(payload, 0, declared);
                assert_eq!(scan.end, ScanEnd::Complete);
                let walked = packets_from(payload, 0, flags);
                assert_eq!((scan.packets(flags), true), walked, "{payload:?} {flags:?}");
            }
        }
    }
}
