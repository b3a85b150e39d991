//! Reads the packets of a Perfetto trace.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use prost::Message;

use crate::programs::Result;

/// Calls `take` with each packet of a file.
///
/// # Errors
///
/// If the file is not a trace.
pub fn for_each_packet<P: Message + Default>(file: &Path, mut take: impl FnMut(P)) -> Result<()> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut bytes = Vec::new();
    while !file.fill_buf()?.is_empty() {
        if byte(&mut file)? != 0x0a {
            return Err("a trace consists of packets".into());
        }
        let len_bytes = varint(&mut file)?;
        bytes.resize(len_bytes, 0);
        file.read_exact(&mut bytes)?;
        take(P::decode(&bytes[..])?);
    }
    Ok(())
}

fn varint(file: &mut impl Read) -> Result<usize> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = byte(file)?;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("the length of a packet has too many bytes".into())
}

fn byte(file: &mut impl Read) -> Result<u8> {
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}
