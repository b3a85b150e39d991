//! Segments that an earlier process has not completed.
//!
//! A process that is killed leaves its open segments behind, up to two. What they contain is a valid
//! trace, except for the packet that was being written. So the file is cut behind its last whole
//! packet, and gets its name.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use crate::trace_folder::{FolderError, FoundFile, TraceFolder};
use tracezero_core::protos::Trace;

/// The tag of a packet in a trace.
const PACKET_TAG: u8 = (Trace::PACKET_FIELD_NUMBER << 3 | 2) as u8;

/// A segment of an earlier process that was completed.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) file: FoundFile,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Completes the segments of earlier processes, the oldest first. The caller has locked the folder,
/// so nobody is writing them. Removes those that contain nothing.
pub(super) fn complete(folder: &TraceFolder) -> Result<Vec<Leftover>, FolderError> {
    let mut completed = Vec::new();
    for file in folder.files()? {
        if !file.is_partial() {
            continue;
        }
        let error = |source| FolderError {
            path: file.path.clone(),
            source,
        };
        let bytes = cut(&file.path).map_err(error)?;
        if bytes == 0 {
            fs::remove_file(&file.path).map_err(error)?;
            continue;
        }
        let path = file.complete_path();
        fs::rename(&file.path, &path).map_err(error)?;
        completed.push(Leftover { file, path, bytes });
    }
    Ok(completed)
}

/// Cuts a file behind its last whole packet. Returns its size.
fn cut(path: &Path) -> io::Result<u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    let whole = whole_bytes(BufReader::new(&file), bytes)?;
    if whole < bytes {
        file.set_len(whole)?;
    }
    Ok(whole)
}

/// Returns the length of the whole packets at the start of a trace of this size.
fn whole_bytes(mut trace: impl Read + Seek, bytes: u64) -> io::Result<u64> {
    let mut whole = 0;
    while let Some((header_bytes, packet_bytes)) = header(&mut trace)? {
        let Some(end) = (whole + header_bytes).checked_add(packet_bytes) else {
            break;
        };
        if end > bytes {
            break;
        }
        // A packet that is in memory already is skipped there.
        match i64::try_from(packet_bytes) {
            Ok(packet_bytes) => trace.seek_relative(packet_bytes)?,
            Err(_) => break,
        }
        whole = end;
    }
    Ok(whole)
}

/// Reads the header of a packet: the tag, and the length as a varint. Returns the sizes of the
/// header and of the packet; `None` at the end, or at something else than a packet.
fn header(trace: &mut impl Read) -> io::Result<Option<(u64, u64)>> {
    /// The length of a varint with 64 bits.
    const VARINT_MAX_BYTES: u32 = 10;
    if read_byte(trace)? != Some(PACKET_TAG) {
        return Ok(None);
    }
    let mut packet_bytes = 0;
    for index in 0..VARINT_MAX_BYTES {
        let Some(byte) = read_byte(trace)? else {
            return Ok(None);
        };
        packet_bytes |= u64::from(byte & 0x7f)
            .checked_shl(7 * index)
            .unwrap_or(u64::MAX);
        if byte < 0x80 {
            return Ok(Some((2 + u64::from(index), packet_bytes)));
        }
    }
    Ok(None)
}

fn read_byte(trace: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    match trace.read_exact(&mut byte) {
        Ok(()) => Ok(Some(byte[0])),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_trace_is_cut_behind_its_last_whole_packet() {
        let long = [&[PACKET_TAG, 0xac, 0x02][..], &[7; 300]].concat();
        let trace = [&[PACKET_TAG, 2, 1, 2, PACKET_TAG, 0], &long[..]].concat();
        for bytes in 0..=trace.len() {
            let whole = match bytes {
                0..4 => 0,
                4..6 => 4,
                6..309 => 6,
                _ => 309,
            };
            let cut = whole_bytes(Cursor::new(&trace[..bytes]), bytes as u64);
            assert_eq!(cut.unwrap(), whole, "of {bytes} bytes");
        }
    }

    #[test]
    fn hostile_lengths_end_the_trace() {
        for rest in [
            &[0xff; 11][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let trace = [&[PACKET_TAG, 1, 7, PACKET_TAG], rest].concat();
            let bytes = trace.len() as u64;
            assert_eq!(whole_bytes(Cursor::new(&trace), bytes).unwrap(), 3);
        }
    }
}
