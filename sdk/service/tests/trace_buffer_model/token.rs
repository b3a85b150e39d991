//! Fragments in a payload: a size, then that many bytes.

use super::{FIRST_CONTINUES, LAST_CONTINUES};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Whole,
    Begin,
    Continue,
    End,
}

pub enum Token {
    Fragment { start: usize, end: usize },
    End,
    Aborted,
    Malformed,
}

pub fn token(payload: &[u8], at: usize) -> Token {
    if at >= payload.len() {
        return Token::End;
    }
    let mut size: u128 = 0;
    let mut read = 0;
    loop {
        if read == 10 || at + read == payload.len() {
            return Token::Malformed;
        }
        let byte = payload[at + read];
        size |= u128::from(byte & 0x7f) << (7 * read);
        read += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let size = size as u64;
    let start = at + read;
    if size == 0x0fff_ffff {
        Token::Aborted
    } else if size > (payload.len() - start) as u64 {
        Token::Malformed
    } else {
        Token::Fragment {
            start,
            end: start + size as usize,
        }
    }
}

pub fn kind(payload: &[u8], flags: u8, at: usize, end: usize) -> Kind {
    let continues = at == 0 && flags & FIRST_CONTINUES != 0;
    let continued = end == payload.len() && flags & LAST_CONTINUES != 0;
    match (continues, continued) {
        (false, false) => Kind::Whole,
        (false, true) => Kind::Begin,
        (true, true) => Kind::Continue,
        (true, false) => Kind::End,
    }
}

pub fn is_packet(kind: Kind, len: usize) -> bool {
    kind == Kind::Begin || kind == Kind::Whole && len > 0
}

/// Returns the number of packets that begin at or behind `at`.
pub fn packets_from(payload: &[u8], mut at: usize, flags: u8) -> u64 {
    let mut packets = 0;
    while let Token::Fragment { start, end } = token(payload, at) {
        packets += u64::from(is_packet(kind(payload, flags, at, end), end - start));
        at = end;
    }
    packets
}
