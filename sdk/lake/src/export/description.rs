//! The description of a trace as a whole: its id, where it comes from, and when it was recorded.

use std::fmt::Write as _;

use chrono::DateTime;
use protozero::{DecodeError, Decoder, Value};
use tracezero_core::protos::{ClockSnapshotDecoder, TracePacket, TraceUuidDecoder};
use tracezero_reader::{TraceAttributeValue, TraceIdentity};

use crate::error::LakeError;
use crate::staging::Staging;
use crate::table_writer::TableWriter;

/// Clocks, by their ids in `ClockSnapshot`.
const REALTIME: u32 = 1;

/// The id of a trace, and its times of the wall clock.
#[derive(Debug, Default)]
pub(super) struct Description {
    /// As 32 hexadecimal digits.
    pub(super) uuid: Option<String>,
    /// The time of the trace clock, and the wall clock's, both in nanoseconds, of the first snapshot with both.
    wall_clock: Option<(u64, u64)>,
}

impl Description {
    /// Adds what a packet says. `trace_clock_id` is the id of the trace clock.
    pub(super) fn add(&mut self, packet: &[u8], trace_clock_id: u32) -> Result<(), DecodeError> {
        for field in Decoder::new(packet).fields() {
            let field = field?;
            match (field.number, field.value) {
                (TracePacket::TRACE_UUID_FIELD_NUMBER, Value::Bytes(uuid)) => {
                    self.set_uuid(uuid)?;
                }
                (TracePacket::CLOCK_SNAPSHOT_FIELD_NUMBER, Value::Bytes(snapshot)) => {
                    self.set_wall_clock(snapshot, trace_clock_id)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_uuid(&mut self, uuid: &[u8]) -> Result<(), DecodeError> {
        let uuid = TraceUuidDecoder::new(uuid);
        if let (Some(msb), Some(lsb)) = (uuid.msb()?, uuid.lsb()?)
            && self.uuid.is_none()
            && (msb, lsb) != (0, 0)
        {
            let (msb, lsb) = (msb.cast_unsigned(), lsb.cast_unsigned());
            self.uuid = Some(format!("{msb:016x}{lsb:016x}"));
        }
        Ok(())
    }

    fn set_wall_clock(&mut self, snapshot: &[u8], trace_clock_id: u32) -> Result<(), DecodeError> {
        if self.wall_clock.is_some() {
            return Ok(());
        }
        let (mut trace_ns, mut wall_ns) = (None, None);
        for clock in ClockSnapshotDecoder::new(snapshot).clocks() {
            let clock = clock?;
            let time = clock.timestamp()?;
            match clock.clock_id()?.unwrap_or_default() {
                id if id == trace_clock_id => trace_ns = time,
                REALTIME => wall_ns = time,
                _ => {}
            }
        }
        self.wall_clock = trace_ns.zip(wall_ns);
        Ok(())
    }

    /// Converts a time of the trace clock to microseconds since 1970.
    pub(super) fn wall_time_us(&self, time_ns: u64) -> Option<i64> {
        let (trace_ns, wall_ns) = self.wall_clock?;
        let wall_ns = i128::from(wall_ns) + i128::from(time_ns) - i128::from(trace_ns);
        (wall_ns / 1000).try_into().ok()
    }
}

/// Writes the rows of the table `trace_attr`.
pub(super) fn write_attributes(
    identities: &[TraceIdentity],
    table: &mut TableWriter,
    staging: &Staging,
) -> Result<(), LakeError> {
    for (number, identity) in (0..).zip(identities) {
        for (key, value) in identity.attributes() {
            let (int, text) = match value {
                TraceAttributeValue::Long(number) => (Some(*number), None),
                TraceAttributeValue::Text(text) => (None, Some(&**text)),
                _ => (None, None),
            };
            let mut row = table.row(staging)?;
            row.int(number)
                .int(identity.machine_id().unwrap_or_default().into())
                .text(key)
                .maybe_int(int)
                .maybe_text(text);
        }
    }
    Ok(())
}

/// Returns the day of a time in UTC, such as `2026-11-21`, and `unknown` if there is no time, or one that has no date.
pub(super) fn day(wall_time_us: Option<i64>) -> String {
    let time = wall_time_us.and_then(DateTime::from_timestamp_micros);
    time.map_or_else(
        || "unknown".to_owned(),
        |time| time.date_naive().to_string(),
    )
}

/// Returns a name as a part of a path, as Hive writes it: special characters are percent-encoded.
pub(super) fn path_part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => part.push(byte.into()),
            _ => {
                let _ = write!(part, "%{byte:02X}");
            }
        }
    }
    // Paths of most systems have parts of at most 255 bytes.
    part.truncate(200);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_in_utc() {
        assert_eq!(day(Some(1_795_651_199_999_999)), "2026-11-25");
        assert_eq!(day(Some(1_795_651_200_000_000)), "2026-11-26");
        assert_eq!(day(Some(-1)), "1969-12-31");
        assert_eq!(day(Some(i64::MAX)), "unknown");
        assert_eq!(day(None), "unknown");
    }

    #[test]
    fn names_cannot_leave_their_folder() {
        assert_eq!(path_part("../a b=c"), "..%2Fa%20b%3Dc");
        assert_eq!(path_part("api-v2_x.y"), "api-v2_x.y");
        assert_eq!(path_part(&"ü".repeat(500)).len(), 200);
    }
}
