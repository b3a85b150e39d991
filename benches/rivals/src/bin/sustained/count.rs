//! Counts the spans in a file, with decoders that are not ours.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use prost::Message;

use crate::sdks::{SPAN, Sdk};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the number of spans in the file that a reader can show, with begin and end.
pub fn spans_in(sdk: Sdk, file: &Path) -> Result<u64> {
    match sdk {
        Sdk::Tracezero | Sdk::PerfettoSdk | Sdk::PerfettoSdkLarge => perfetto(file),
        Sdk::TracingChrome => lines(file, |line| line.contains("\"ph\":\"E\"")),
        Sdk::Fastrace => lines(file, |line| line.starts_with("span ")),
        Sdk::Dial9 => dial9(file),
    }
}

/// The fields of `perfetto.protos.TracePacket` that are needed.
#[derive(Message)]
struct Packet {
    #[prost(uint32, tag = "10")]
    sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(bool, tag = "42")]
    previous_packet_dropped: bool,
}

/// The fields of `perfetto.protos.TrackEvent` that are needed.
#[derive(Message)]
struct Event {
    #[prost(int32, tag = "9")]
    kind: i32,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INCREMENTAL_STATE_CLEARED: u32 = 1;
const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// Counts the spans of a Perfetto trace whose begin and end can be decoded: after a loss, packets
/// that need incremental state are useless until their sequence clears it.
fn perfetto(file: &Path) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut bytes = Vec::new();
    let mut has_state = HashMap::new();
    let (mut begins, mut ends, mut without_state) = (0_u64, 0_u64, 0_u64);
    while !file.fill_buf()?.is_empty() {
        if byte(&mut file)? != 0x0a {
            return Err("a trace consists of packets".into());
        }
        let len_bytes = varint(&mut file)?;
        bytes.resize(len_bytes, 0);
        file.read_exact(&mut bytes)?;
        let packet = Packet::decode(&bytes[..])?;
        let has_state: &mut bool = has_state.entry(packet.sequence_id).or_default();
        *has_state &= !packet.previous_packet_dropped;
        *has_state |= packet.sequence_flags & INCREMENTAL_STATE_CLEARED != 0;
        let needs_state = packet.sequence_flags & NEEDS_INCREMENTAL_STATE != 0;
        match packet.event {
            Some(event) if *has_state || !needs_state => {
                begins += u64::from(event.kind == SLICE_BEGIN);
                ends += u64::from(event.kind == SLICE_END);
            }
            Some(_) => without_state += 1,
            None => {}
        }
    }
    if without_state > 0 {
        eprintln!("{without_state} events in the file cannot be decoded");
    }
    Ok(begins.min(ends))
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

fn lines(file: &Path, is_span: impl Fn(&str) -> bool) -> Result<u64> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut line = String::new();
    let mut spans = 0;
    while file.read_line(&mut line)? > 0 {
        spans += u64::from(is_span(&line));
        line.clear();
    }
    Ok(spans)
}

/// Counts the spans with dial9's own decoder, the only one for the format.
fn dial9(file: &Path) -> Result<u64> {
    let bytes = fs::read(file)?;
    let mut decoder = dial9::format::Decoder::new(&bytes).ok_or("not a trace of dial9")?;
    let mut spans = 0;
    decoder
        .for_each_event(|event| spans += u64::from(event.name == SPAN))
        .map_err(|error| error.to_string())?;
    Ok(spans)
}
