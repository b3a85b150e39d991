//! The table `args`, and promoted arguments.
//!
//! Keys are those of Perfetto's trace processor: `debug.` before the names of arguments, and dots between the
//! names of nested ones.

use std::borrow::Cow;
use std::fmt::Write as _;

use tracezero_reader::{ArgValue, Args, Correlation, Event, EventKind, NameId, NameTable};

use super::details::{DetailFields, Details};
use super::slice_row::Outcome;
use crate::batch::Row;
use crate::error::LakeError;
use crate::promoted::Promoted;
use crate::sorter::{Key, RowReader, RowWriter, SortRow, Sorter};
use crate::staging::Staging;
use crate::table_writer::TableWriter;
use crate::workers::Workers;

/// The number of rows that are kept in memory.
const ROWS_MAX: usize = 32 * 1024;
/// The number of arguments whose keys are remembered.
const RECENT_MAX: usize = 64;

/// Writes the arguments of events. Those of events that end slices belong to the slices, which are known later, so
/// these arguments are collected and written at the end.
#[derive(Debug)]
pub(super) struct ArgRows<'s> {
    table: TableWriter,
    staging: &'s Staging,
    of_ends: Sorter<ArgRow>,
    /// The packets that ended slices with arguments.
    ends: Sorter<End>,
    keys: NameTable,
    key: String,
    flat_key: String,
    recent: RecentKeys,
    /// For each promoted argument, true if a value fits its column.
    promoted_found: Vec<bool>,
}

/// The keys of recent arguments. Most arguments have one of a few names, and it takes longer to make a key than to find
/// it here.
#[derive(Debug)]
struct RecentKeys {
    /// Names and their keys, each at the place that [`place`](Self::place) gives the name. Without a name, there is no
    /// key.
    keys: Vec<(String, NameId)>,
}

/// An argument of an event that ends a slice.
#[derive(Clone, Debug, PartialEq)]
struct ArgRow {
    /// The index of the event's packet.
    packet: u64,
    flat_key: NameId,
    key: NameId,
    value: Value<'static>,
}

/// The value of an argument that is neither a dictionary nor an array.
#[derive(Clone, Debug, PartialEq)]
enum Value<'a> {
    Bool(bool),
    Uint(u64),
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Pointer(u64),
    Json(Cow<'a, str>),
}

/// The event whose arguments are added.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// The index of its packet.
    packet: u64,
    is_end: bool,
}

/// The packet that ended a slice, and the one that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    packet: u64,
    begin_packet: u64,
}

impl<'s> ArgRows<'s> {
    pub(super) fn new(
        table: TableWriter,
        promoted: &Promoted,
        staging: &'s Staging,
        workers: &Workers,
    ) -> Self {
        Self {
            table,
            staging,
            of_ends: Sorter::new(ROWS_MAX, workers, staging.path("end_args")),
            ends: Sorter::new(ROWS_MAX, workers, staging.path("ends")),
            keys: NameTable::new(),
            key: String::new(),
            flat_key: String::new(),
            recent: RecentKeys::new(),
            promoted_found: vec![false; promoted.columns().count()],
        }
    }

    /// Adds the arguments of an event, and notes in `details` what the slice has of them.
    pub(super) fn add(
        &mut self,
        event: &Event<'_>,
        fields: DetailFields,
        promoted: &Promoted,
        texts: &mut NameTable,
        details: &mut Details,
    ) -> Result<(), LakeError> {
        let source = Source {
            packet: event.head.place.index,
            is_end: event.head.kind == EventKind::SliceEnd,
        };
        let before = self.rows();
        let args = fields.has_args.then(|| event.args());
        for arg in args.into_iter().flatten() {
            if let ArgValue::Bool(true) = arg.value {
                match &*arg.name {
                    "cancelled" => details.outcome = Some(Outcome::Cancelled),
                    "panicked" => details.outcome = Some(Outcome::Panicked),
                    _ => {}
                }
            }
            if let Some(index) = promoted.index_of(&arg.name)
                && let Some(value) = promoted.convert(index, &arg.value, texts)
            {
                details.promoted.push((index as u32, value));
                self.promoted_found[index] = true;
            }
            if arg.name.is_empty() {
                // Trace processor leaves arguments without a name out, too.
                continue;
            }
            self.add_arg(source, &arg.name, arg.value)?;
        }
        if fields.has_location
            && let Some(location) = event.location()
        {
            let line = location.line.into();
            self.add_text(source, "source.file_name", location.file)?;
            self.add_text(source, "source.function_name", location.function)?;
            self.begin_key("source.line_number");
            self.push(source, Value::Int(line))?;
        }
        let correlation = fields.has_correlation.then(|| event.correlation());
        match correlation.flatten() {
            None => {}
            Some(Correlation::Id(id)) => {
                self.begin_key("correlation_id");
                self.push(source, Value::Uint(id))?;
            }
            Some(Correlation::Text(text)) => self.add_text(source, "correlation_id", text)?,
        }
        details.has_args |= self.rows() > before;
        Ok(())
    }

    /// Notes that the event in `packet` has ended the slice that the event in `begin_packet` began.
    pub(super) fn end_slice(&mut self, packet: u64, begin_packet: u64) -> Result<(), LakeError> {
        self.ends.push(End {
            packet,
            begin_packet,
        })
    }

    /// Returns the names of the promoted arguments of which no value fits the column.
    pub(super) fn unused_promoted(&self, promoted: &Promoted) -> Vec<String> {
        let found = promoted.names().zip(&self.promoted_found);
        let unused = found.filter(|(_, is_found)| !**is_found);
        unused.map(|(name, _)| name.to_owned()).collect()
    }

    /// Writes the arguments that were collected. Returns the table.
    pub(super) fn finish(self) -> Result<TableWriter, LakeError> {
        let mut table = self.table;
        let mut rows = self.of_ends.finish()?;
        let mut ends = self.ends.finish()?;
        let mut end = ends.next()?;
        while let Some(arg) = rows.next()? {
            while let Some(earlier) = end
                && earlier.packet < arg.packet
            {
                end = ends.next()?;
            }
            // Events that have ended no slice are left out.
            if let Some(End {
                packet,
                begin_packet,
            }) = end
                && packet == arg.packet
            {
                let mut row = table.row(self.staging)?;
                row.uint(begin_packet)
                    .name(arg.flat_key, &self.keys)
                    .name(arg.key, &self.keys);
                arg.value.add_to(&mut row);
            }
        }
        Ok(table)
    }

    /// Returns the number of arguments so far.
    const fn rows(&self) -> u64 {
        self.table.rows() + self.of_ends.count()
    }

    fn add_arg(
        &mut self,
        source: Source,
        name: &str,
        value: ArgValue<'_>,
    ) -> Result<(), LakeError> {
        if let ArgValue::Dict(_) | ArgValue::Array(_) = value {
            self.begin_arg(name);
            return self.add_value(source, value);
        }
        let Some(value) = scalar(value) else {
            return Ok(());
        };
        let key = match self.recent.find(name) {
            Some(key) => key,
            None => {
                self.begin_arg(name);
                let key = self.keys.intern(&self.key);
                self.recent.add(name, key);
                key
            }
        };
        self.push_row(source, (key, key), value)
    }

    fn begin_arg(&mut self, name: &str) {
        self.begin_key("debug");
        self.push_name(name);
    }

    fn begin_key(&mut self, key: &str) {
        self.key.clear();
        self.key.push_str(key);
        self.flat_key.clear();
        self.flat_key.push_str(key);
    }

    /// Appends a name to the keys. Returns the lengths of the keys before.
    fn push_name(&mut self, name: &str) -> (usize, usize) {
        let lengths = (self.key.len(), self.flat_key.len());
        for key in [&mut self.key, &mut self.flat_key] {
            key.push('.');
            // Otherwise, these would look like nested arguments.
            let plain = name.chars().map(|letter| match letter {
                '.' | '[' | ']' => '_',
                letter => letter,
            });
            key.extend(plain);
        }
        lengths
    }

    fn truncate_keys(&mut self, (key, flat_key): (usize, usize)) {
        self.key.truncate(key);
        self.flat_key.truncate(flat_key);
    }

    fn add_value(&mut self, source: Source, value: ArgValue<'_>) -> Result<(), LakeError> {
        match value {
            ArgValue::Dict(entries) => self.add_entries(source, entries),
            ArgValue::Array(items) => self.add_items(source, items),
            value => match scalar(value) {
                Some(value) => self.push(source, value),
                None => Ok(()),
            },
        }
    }

    fn add_entries(&mut self, source: Source, entries: Args<'_>) -> Result<(), LakeError> {
        for entry in entries {
            let lengths = self.push_name(&entry.name);
            self.add_value(source, entry.value)?;
            self.truncate_keys(lengths);
        }
        Ok(())
    }

    fn add_items(&mut self, source: Source, items: Args<'_>) -> Result<(), LakeError> {
        let length = self.key.len();
        for (index, item) in items.enumerate() {
            let _ = write!(self.key, "[{index}]");
            self.add_value(source, item.value)?;
            self.key.truncate(length);
        }
        Ok(())
    }

    /// Adds a text under a key, unless it is empty.
    fn add_text(&mut self, source: Source, key: &str, text: &str) -> Result<(), LakeError> {
        if text.is_empty() {
            return Ok(());
        }
        self.begin_key(key);
        self.push(source, Value::Text(text.into()))
    }

    fn push(&mut self, source: Source, value: Value<'_>) -> Result<(), LakeError> {
        let flat_key = self.keys.intern(&self.flat_key);
        let key = match self.key == self.flat_key {
            true => flat_key,
            false => self.keys.intern(&self.key),
        };
        self.push_row(source, (flat_key, key), value)
    }

    fn push_row(
        &mut self,
        source: Source,
        (flat_key, key): (NameId, NameId),
        value: Value<'_>,
    ) -> Result<(), LakeError> {
        if source.is_end {
            return self.of_ends.push(ArgRow {
                packet: source.packet,
                flat_key,
                key,
                value: value.into_owned(),
            });
        }
        let mut row = self.table.row(self.staging)?;
        row.uint(source.packet)
            .name(flat_key, &self.keys)
            .name(key, &self.keys);
        value.add_to(&mut row);
        Ok(())
    }
}

impl RecentKeys {
    fn new() -> Self {
        Self {
            keys: vec![(String::new(), NameId::NONE); RECENT_MAX],
        }
    }

    /// Returns the key of an argument with this name, which is not empty.
    fn find(&self, name: &str) -> Option<NameId> {
        let (other, key) = &self.keys[Self::place(name)];
        (other == name).then_some(*key)
    }

    fn add(&mut self, name: &str, key: NameId) {
        let (other, other_key) = &mut self.keys[Self::place(name)];
        other.clear();
        other.push_str(name);
        *other_key = key;
    }

    fn place(name: &str) -> usize {
        let bytes = name.as_bytes();
        let [first, last] = [bytes.first(), bytes.last()].map(|byte| byte.copied().unwrap_or(0));
        (bytes.len() ^ usize::from(first) << 2 ^ usize::from(last)) % RECENT_MAX
    }
}

/// Converts a value that is neither a dictionary nor an array; `None` for a message, whose fields have names only in its
/// schema.
fn scalar(value: ArgValue<'_>) -> Option<Value<'_>> {
    Some(match value {
        ArgValue::Bool(value) => Value::Bool(value),
        ArgValue::Uint(value) => Value::Uint(value),
        ArgValue::Int(value) => Value::Int(value),
        ArgValue::Double(value) => Value::Real(value),
        ArgValue::Text(value) => Value::Text(value),
        ArgValue::Pointer(value) => Value::Pointer(value),
        ArgValue::Json(value) => Value::Json(value),
        _ => return None,
    })
}

impl Value<'_> {
    fn into_owned(self) -> Value<'static> {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Uint(value) => Value::Uint(value),
            Self::Int(value) => Value::Int(value),
            Self::Real(value) => Value::Real(value),
            Self::Text(value) => Value::Text(value.into_owned().into()),
            Self::Pointer(value) => Value::Pointer(value),
            Self::Json(value) => Value::Json(value.into_owned().into()),
        }
    }

    /// Adds the columns from `value_type` on.
    fn add_to(&self, row: &mut Row<'_>) {
        let (value_type, int, real, text) = match self {
            Self::Bool(value) => ((0, "bool"), Some(i64::from(*value)), None, None),
            Self::Uint(value) => ((1, "uint"), Some(value.cast_signed()), None, None),
            Self::Int(value) => ((2, "int"), Some(*value), None, None),
            Self::Real(value) => ((3, "real"), None, Some(*value), None),
            Self::Text(value) => ((4, "string"), None, None, Some(&**value)),
            Self::Pointer(value) => ((5, "pointer"), Some(value.cast_signed()), None, None),
            Self::Json(value) => ((6, "json"), None, None, Some(&**value)),
        };
        row.choice(Some(value_type))
            .maybe_int(int)
            .maybe_real(real)
            .maybe_text(text);
    }
}

impl SortRow for ArgRow {
    fn key(&self) -> Key {
        (self.packet, 0)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        let kind = match self.value {
            Value::Bool(_) => 0,
            Value::Uint(_) => 1,
            Value::Int(_) => 2,
            Value::Real(_) => 3,
            Value::Text(_) => 4,
            Value::Pointer(_) => 5,
            Value::Json(_) => 6,
        };
        out.uint(kind);
        out.uint(self.flat_key.index() as u64);
        out.uint(self.key.index() as u64);
        match &self.value {
            Value::Bool(value) => out.uint((*value).into()),
            Value::Uint(value) | Value::Pointer(value) => out.uint(*value),
            Value::Int(value) => out.int(*value),
            Value::Real(value) => out.uint(value.to_bits()),
            Value::Text(value) | Value::Json(value) => out.text(value),
        }
    }

    fn read((packet, _): Key, input: &mut RowReader<'_>) -> Option<Self> {
        let kind = input.uint()?;
        let mut name = || Some(NameId::from_index(input.uint()?.try_into().ok()?));
        let (flat_key, key) = (name()?, name()?);
        let value = match kind {
            0 => Value::Bool(input.uint()? != 0),
            1 => Value::Uint(input.uint()?),
            2 => Value::Int(input.int()?),
            3 => Value::Real(f64::from_bits(input.uint()?)),
            4 => Value::Text(input.text()?.into()),
            5 => Value::Pointer(input.uint()?),
            6 => Value::Json(input.text()?.into()),
            _ => return None,
        };
        Some(Self {
            packet,
            flat_key,
            key,
            value,
        })
    }

    fn heap_bytes(&self) -> usize {
        match &self.value {
            Value::Text(text) | Value::Json(text) => text.len(),
            _ => 0,
        }
    }
}

impl SortRow for End {
    fn key(&self) -> Key {
        (self.packet, 0)
    }

    fn write(&self, out: &mut RowWriter<'_>) {
        out.int(self.packet.wrapping_sub(self.begin_packet).cast_signed());
    }

    fn read((packet, _): Key, input: &mut RowReader<'_>) -> Option<Self> {
        Some(Self {
            packet,
            begin_packet: packet.wrapping_sub(input.int()?.cast_unsigned()),
        })
    }
}
