//! A row of the table `slice`, before its trace is read to the end.

use tracezero_reader::NameId;

use crate::promoted::PromotedValue;
use crate::sorter::{Key, RowReader, RowWriter, SortRow};

/// A slice or an instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SliceRow {
    pub(super) begin_ns: u64,
    /// The index of the packet that began the slice, which tells it from all others.
    pub(super) packet: u64,
    /// The index of the packet that began the slice around this one.
    pub(super) parent_packet: Option<u64>,
    pub(super) span: Span,
    /// The index of the track.
    pub(super) track: u32,
    pub(super) name: NameId,
    pub(super) category: NameId,
    pub(super) depth: u32,
    pub(super) outcome: Option<Outcome>,
    pub(super) has_args: bool,
    pub(super) has_flows: bool,
    /// The values of promoted arguments, with the indexes of their columns.
    pub(super) promoted: Option<Box<[(u32, PromotedValue)]>>,
}

/// The time that a slice takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Span {
    /// None.
    #[default]
    Instant,
    /// The slice has not ended.
    Open,
    Ended {
        duration_ns: u64,
        self_ns: u64,
    },
}

/// How a future ended that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Cancelled,
    Panicked,
}

const OPEN: u64 = 1;
const ENDED: u64 = 2;
const CANCELLED: u64 = 4;
const PANICKED: u64 = 8;
const HAS_ARGS: u64 = 16;
const HAS_FLOWS: u64 = 32;
const HAS_PARENT: u64 = 64;
const HAS_PROMOTED: u64 = 128;

impl SortRow for SliceRow {
    fn key(&self) -> Key {
        // A slice and the slice around it may begin at the same time, but not in the same packet.
        (self.begin_ns, self.packet)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        let mut flags = match self.span {
            Span::Instant => 0,
            Span::Open => OPEN,
            Span::Ended { .. } => ENDED,
        };
        flags |= match self.outcome {
            None => 0,
            Some(Outcome::Cancelled) => CANCELLED,
            Some(Outcome::Panicked) => PANICKED,
        };
        let given = [
            (HAS_ARGS, self.has_args),
            (HAS_FLOWS, self.has_flows),
            (HAS_PARENT, self.parent_packet.is_some()),
            (HAS_PROMOTED, self.promoted.is_some()),
        ];
        for (flag, is_given) in given {
            flags |= flag * u64::from(is_given);
        }
        out.uint(flags);
        out.uint(self.track.into());
        out.uint(self.name.index() as u64);
        out.uint(self.category.index() as u64);
        out.uint(self.depth.into());
        if let Span::Ended {
            duration_ns,
            self_ns,
        } = self.span
        {
            out.uint(duration_ns);
            out.uint(duration_ns.wrapping_sub(self_ns));
        }
        if let Some(parent) = self.parent_packet {
            out.int(self.packet.wrapping_sub(parent).cast_signed());
        }
        if let Some(values) = &self.promoted {
            out.uint(values.len() as u64);
            for (column, value) in values {
                out.uint(u64::from(*column) << 2 | kind(*value));
                match *value {
                    PromotedValue::Int(value) => out.int(value),
                    PromotedValue::Real(value) => out.uint(value.to_bits()),
                    PromotedValue::Text(value) => out.uint(value.index() as u64),
                }
            }
        }
    }

    fn read((begin_ns, packet): Key, input: &mut RowReader<'_>) -> Option<Self> {
        let flags = input.uint()?;
        let mut small = || u32::try_from(input.uint()?).ok();
        let mut row = Self {
            begin_ns,
            packet,
            track: small()?,
            name: NameId::from_index(small()?),
            category: NameId::from_index(small()?),
            depth: small()?,
            has_args: flags & HAS_ARGS != 0,
            has_flows: flags & HAS_FLOWS != 0,
            ..Self::default()
        };
        row.outcome = match flags & (CANCELLED | PANICKED) {
            0 => None,
            CANCELLED => Some(Outcome::Cancelled),
            _ => Some(Outcome::Panicked),
        };
        row.span = match flags & (OPEN | ENDED) {
            0 => Span::Instant,
            OPEN => Span::Open,
            _ => {
                let duration_ns = input.uint()?;
                Span::Ended {
                    duration_ns,
                    self_ns: duration_ns.wrapping_sub(input.uint()?),
                }
            }
        };
        if flags & HAS_PARENT != 0 {
            row.parent_packet = Some(packet.wrapping_sub(input.int()?.cast_unsigned()));
        }
        if flags & HAS_PROMOTED != 0 {
            let values = (0..input.uint()?).map(|_| {
                let head = input.uint()?;
                let value = match head & 3 {
                    INT => PromotedValue::Int(input.int()?),
                    REAL => PromotedValue::Real(f64::from_bits(input.uint()?)),
                    _ => PromotedValue::Text(NameId::from_index(input.uint()?.try_into().ok()?)),
                };
                Some(((head >> 2).try_into().ok()?, value))
            });
            row.promoted = Some(values.collect::<Option<_>>()?);
        }
        Some(row)
    }
}

const INT: u64 = 0;
const REAL: u64 = 1;
const TEXT: u64 = 2;

const fn kind(value: PromotedValue) -> u64 {
    match value {
        PromotedValue::Int(_) => INT,
        PromotedValue::Real(_) => REAL,
        PromotedValue::Text(_) => TEXT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let plain = SliceRow {
            begin_ns: 7,
            packet: 3,
            ..SliceRow::default()
        };
        let full = SliceRow {
            begin_ns: u64::MAX,
            packet: 1 << 60,
            parent_packet: Some(2),
            span: Span::Ended {
                duration_ns: 10,
                // Slices inside may take longer than the slice, if times are wrong.
                self_ns: 0,
            },
            track: u32::MAX,
            name: NameId::from_index(9),
            category: NameId::from_index(8),
            depth: 4095,
            outcome: Some(Outcome::Panicked),
            has_args: true,
            has_flows: true,
            promoted: Some(Box::new([
                (0, PromotedValue::Int(-1)),
                (5, PromotedValue::Real(-0.5)),
                (63, PromotedValue::Text(NameId::from_index(70_000))),
            ])),
        };
        let open = SliceRow {
            span: Span::Open,
            outcome: Some(Outcome::Cancelled),
            ..plain.clone()
        };
        for row in [plain, full, open] {
            let mut bytes = Vec::new();
            row.write(&mut RowWriter::new(&mut bytes, row.key(), (5, 5)));
            let mut reader = RowReader::new(&bytes);
            let key = reader.key((5, 5)).unwrap();
            assert_eq!(SliceRow::read(key, &mut reader), Some(row));
            assert_eq!(reader.left(), 0);
        }
    }
}
