//! The columns of a bundle, in which `sched_switch` and `sched_waking` take the least space.
//!
//! [`CompactFormats`] holds where the running kernel keeps the fields that the columns need.
//! [`CompactSched`] holds the columns of one bundle. A column is a packed field, and all columns of
//! one kind of event have the same length. A name is written once per bundle.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use protozero::{WireType, append_varint};

use super::packed_column::{COLUMN_FULL_BYTES, PackedColumn};

/// The number of bytes of a thread's name in the kernel, with the final NUL if there is one.
const COMM_BYTES: usize = 16;
/// The number of different names of a bundle. The next name begins a new bundle.
const COMMS_MAX: usize = 64;
/// The number of slots of the table that finds a name. At most half of them are in use.
const SLOTS: usize = 2 * COMMS_MAX;
/// The number of threads whose name is found by the thread's id, without a search.
const RECENT: usize = 64;

/// The field of `CompactSched` that holds the names.
const INTERN_TABLE: u8 = 5;
/// Fields of `CompactSched` for `sched_switch`: time, state of the previous thread; id, priority
/// and name of the next.
const SWITCH_FIELDS: [u8; 5] = [1, 2, 3, 4, 6];
/// Fields of `CompactSched` for `sched_waking`: time; id, CPU, priority and name of the woken
/// thread; flags.
const WAKING_FIELDS: [u8; 6] = [7, 8, 9, 10, 11, 12];

/// A field of a kernel's event, as its format file describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLayout<'f> {
    /// The offset in bytes from the start of the event.
    pub(crate) offset: u32,
    /// The size in bytes.
    pub(crate) size: u32,
    /// True for signed numbers.
    pub(crate) is_signed: bool,
    /// The declaration in C: type and name.
    pub(crate) declaration: &'f str,
}

/// The layouts of the events that become columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactFormats {
    pub(crate) switch: SwitchFormat,
    /// `None` if the session does not record `sched_waking`.
    pub(crate) waking: Option<WakingFormat>,
}

impl CompactFormats {
    /// Creates the formats from the ids of the two events, and functions that look up their fields
    /// by name.
    ///
    /// # Errors
    ///
    /// If a field is missing, or has another type than the columns need. The events are then
    /// recorded as ordinary ones.
    pub(crate) fn new<'f>(
        switch_id: u16,
        switch: impl Fn(&str) -> Option<FieldLayout<'f>>,
        waking_id: u16,
        waking: impl Fn(&str) -> Option<FieldLayout<'f>>,
    ) -> Result<Self, CompactFormatError> {
        let switch = FieldFinder::new("sched_switch", switch);
        let waking = FieldFinder::new("sched_waking", waking);
        Ok(Self {
            switch: SwitchFormat {
                id: switch_id,
                prev_state: switch.signed("prev_state")?,
                next_pid: switch.pid("next_pid")?,
                next_prio: switch.int("next_prio")?,
                next_comm: switch.comm("next_comm")?,
            },
            waking: Some(WakingFormat {
                id: waking_id,
                pid: waking.pid("pid")?,
                target_cpu: waking.int("target_cpu")?,
                prio: waking.int("prio")?,
                comm: waking.comm("comm")?,
                common_flags: waking.byte("common_flags")?,
            }),
        })
    }

    /// Returns the formats for a session that does not record `sched_waking`.
    pub(crate) const fn without_waking(mut self) -> Self {
        self.waking = None;
        self
    }
}

/// Finds fields of one event, and checks their types.
struct FieldFinder<F> {
    event: &'static str,
    find: F,
}

impl<'f, F: Fn(&str) -> Option<FieldLayout<'f>>> FieldFinder<F> {
    const fn new(event: &'static str, find: F) -> Self {
        Self { event, find }
    }

    /// Finds a signed number of 4 or 8 bytes.
    fn signed(&self, field: &'static str) -> Result<SignedField, CompactFormatError> {
        let is_signed = |layout: &FieldLayout<'_>| layout.is_signed && matches!(layout.size, 4 | 8);
        let layout = self.checked(field, "a signed number of 4 or 8 bytes", is_signed)?;
        let offset = layout.offset as usize;
        Ok(match layout.size {
            4 => SignedField::Int(offset),
            _ => SignedField::Long(offset),
        })
    }

    fn int(&self, field: &'static str) -> Result<usize, CompactFormatError> {
        let is_int = |layout: &FieldLayout<'_>| layout.is_signed && layout.size == 4;
        self.offset(field, "a signed number of 4 bytes", is_int)
    }

    fn pid(&self, field: &'static str) -> Result<usize, CompactFormatError> {
        let is_pid = |layout: &FieldLayout<'_>| {
            layout.size == 4 && layout.declaration.trim_start().starts_with("pid_t ")
        };
        self.offset(field, "a pid_t of 4 bytes", is_pid)
    }

    fn comm(&self, field: &'static str) -> Result<usize, CompactFormatError> {
        let is_comm = |layout: &FieldLayout<'_>| {
            let declaration = layout.declaration.trim();
            layout.size as usize == COMM_BYTES
                && declaration.starts_with("char ")
                && declaration.ends_with(']')
        };
        self.offset(field, "an array of 16 char", is_comm)
    }

    fn byte(&self, field: &'static str) -> Result<usize, CompactFormatError> {
        let is_byte = |layout: &FieldLayout<'_>| !layout.is_signed && layout.size == 1;
        self.offset(field, "an unsigned number of 1 byte", is_byte)
    }

    fn offset(
        &self,
        field: &'static str,
        expected: &'static str,
        is_expected: impl Fn(&FieldLayout<'_>) -> bool,
    ) -> Result<usize, CompactFormatError> {
        let layout = self.checked(field, expected, is_expected)?;
        Ok(layout.offset as usize)
    }

    fn checked(
        &self,
        field: &'static str,
        expected: &'static str,
        is_expected: impl Fn(&FieldLayout<'_>) -> bool,
    ) -> Result<FieldLayout<'f>, CompactFormatError> {
        (self.find)(field)
            .filter(is_expected)
            .ok_or(CompactFormatError {
                event: self.event,
                field,
                expected,
            })
    }
}

/// An event of the scheduler does not have the fields that the columns need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactFormatError {
    event: &'static str,
    field: &'static str,
    expected: &'static str,
}

impl Error for CompactFormatError {}

impl Display for CompactFormatError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            event,
            field,
            expected,
        } = self;
        write!(
            f,
            "{event}: the kernel has no field `{field}` that is {expected}; \
             set `compact_sched.enabled` to false"
        )
    }
}

/// The offset of a signed number, by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignedField {
    Int(usize),
    Long(usize),
}

/// Offsets of the fields of `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchFormat {
    /// The id of the event's format.
    pub(crate) id: u16,
    prev_state: SignedField,
    next_pid: usize,
    next_prio: usize,
    next_comm: usize,
}

impl SwitchFormat {
    /// Reads an event; returns `None` if it is too short.
    #[inline]
    pub(crate) fn read(&self, payload: &[u8]) -> Option<Switch> {
        Some(Switch {
            prev_state: match self.prev_state {
                SignedField::Int(offset) => read_int(payload, offset)?.into(),
                SignedField::Long(offset) => i64::from_le_bytes(read(payload, offset)?),
            },
            next_pid: read_int(payload, self.next_pid)?,
            next_prio: read_int(payload, self.next_prio)?,
            next_comm: Comm::new(read(payload, self.next_comm)?),
        })
    }
}

/// Offsets of the fields of `sched_waking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakingFormat {
    /// The id of the event's format.
    pub(crate) id: u16,
    pid: usize,
    target_cpu: usize,
    prio: usize,
    comm: usize,
    common_flags: usize,
}

impl WakingFormat {
    /// Reads an event; returns `None` if it is too short.
    #[inline]
    pub(crate) fn read(&self, payload: &[u8]) -> Option<Waking> {
        Some(Waking {
            pid: read_int(payload, self.pid)?,
            target_cpu: read_int(payload, self.target_cpu)?,
            prio: read_int(payload, self.prio)?,
            comm: Comm::new(read(payload, self.comm)?),
            common_flags: *payload.get(self.common_flags)?,
        })
    }
}

#[inline]
fn read_int(payload: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_le_bytes(read(payload, offset)?))
}

#[inline]
fn read<const N: usize>(payload: &[u8], offset: usize) -> Option<[u8; N]> {
    payload.get(offset..)?.first_chunk().copied()
}

/// A `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    prev_state: i64,
    pub(crate) next_pid: i32,
    next_prio: i32,
    next_comm: Comm,
}

/// A `sched_waking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waking {
    pub(crate) pid: i32,
    target_cpu: i32,
    prio: i32,
    comm: Comm,
    common_flags: u8,
}

/// The bytes of a thread's name, as the kernel has written them: behind the first NUL there may be
/// anything. The first byte is the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comm(u128);

impl Comm {
    #[inline]
    const fn new(bytes: [u8; COMM_BYTES]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    fn name(self) -> Name {
        const ONES: u128 = u128::MAX / 0xff;
        // Sets the top bit of the first byte that is 0. Bits above are arbitrary.
        let nul = self.0.wrapping_sub(ONES) & !self.0 & ONES << 7;
        if nul == 0 {
            return Name(self.0);
        }
        let name_bits = nul.trailing_zeros() / 8 * 8;
        Name(self.0 & ((1 << name_bits) - 1))
    }
}

/// The name of a thread, as a number that is equal for equal names: the bytes from the first NUL on
/// are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name(u128);

impl Name {
    /// Returns a slot to begin the search for the name at.
    fn slot(self) -> usize {
        let folded = (self.0 as u64) ^ ((self.0 >> 64) as u64).rotate_left(32);
        // A multiplication by an odd number with bits everywhere mixes best into the top bits.
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (u64::BITS - SLOTS.ilog2())) as usize
    }
}

/// The columns of one bundle. Memory is kept from bundle to bundle.
#[derive(Debug, Default)]
pub(crate) struct CompactSched {
    comms: CommTable,
    switches: Columns<5>,
    wakings: Columns<6>,
}

impl CompactSched {
    /// Appends a switch. Returns false, and appends nothing, if the switch has to begin a new
    /// bundle: it is older than the one before, or there are too many names or rows. Empty columns accept
    /// each switch.
    #[inline]
    #[must_use]
    pub(crate) fn push_switch(&mut self, timestamp_ns: u64, switch: &Switch) -> bool {
        if !self.switches.accept(timestamp_ns) {
            return false;
        }
        let Some(comm_index) = self.comms.index_of(switch.next_comm, switch.next_pid) else {
            return false;
        };
        let delta_ns = self.switches.advance(timestamp_ns);
        let [times, states, pids, prios, comms] = &mut self.switches.columns;
        self.switches.encoded_bytes += times.push(delta_ns)
            + states.push_small(switch.prev_state as u64)
            + pids.push(varint_of(switch.next_pid))
            + prios.push_small(varint_of(switch.next_prio))
            + comms.push_small(comm_index);
        true
    }

    /// Appends a waking. Returns false, and appends nothing, if the waking has to begin a new
    /// bundle, as [`push_switch`](Self::push_switch) does.
    #[inline]
    #[must_use]
    pub(crate) fn push_waking(&mut self, timestamp_ns: u64, waking: &Waking) -> bool {
        if !self.wakings.accept(timestamp_ns) {
            return false;
        }
        let Some(comm_index) = self.comms.index_of(waking.comm, waking.pid) else {
            return false;
        };
        let delta_ns = self.wakings.advance(timestamp_ns);
        let [times, pids, cpus, prios, comms, flags] = &mut self.wakings.columns;
        self.wakings.encoded_bytes += times.push(delta_ns)
            + pids.push(varint_of(waking.pid))
            + cpus.push_small(varint_of(waking.target_cpu))
            + prios.push_small(varint_of(waking.prio))
            + comms.push_small(comm_index)
            + flags.push_small(waking.common_flags.into());
        true
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.encoded_bytes() == 0
    }

    /// Returns the number of bytes of all values and names, without tags and lengths of columns.
    #[inline]
    pub(crate) const fn encoded_bytes(&self) -> usize {
        self.switches.encoded_bytes + self.wakings.encoded_bytes + self.comms.encoded.len()
    }

    /// Appends the body of the message `CompactSched`: the names, then the columns.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.comms.encoded);
        self.switches.append_to(&SWITCH_FIELDS, out);
        self.wakings.append_to(&WAKING_FIELDS, out);
    }

    /// Removes all values and names.
    pub(crate) fn clear(&mut self) {
        self.comms.clear();
        self.switches.clear();
        self.wakings.clear();
    }
}

/// Returns the value that the schema's `int32` has on the wire.
const fn varint_of(value: i32) -> u64 {
    value as i64 as u64
}

/// The columns of one kind of event, in the order of [`SWITCH_FIELDS`] or [`WAKING_FIELDS`].
#[derive(Debug)]
struct Columns<const N: usize> {
    /// The time of the last row, 0 if there are no rows.
    last_ns: u64,
    /// The length of all columns.
    encoded_bytes: usize,
    /// All columns have the same number of values.
    columns: [PackedColumn; N],
}

impl<const N: usize> Default for Columns<N> {
    fn default() -> Self {
        Self {
            last_ns: 0,
            encoded_bytes: 0,
            columns: std::array::from_fn(|_| PackedColumn::default()),
        }
    }
}

impl<const N: usize> Columns<N> {
    /// Returns true if an event of this time may follow the last one: a time is stored as an
    /// unsigned difference. Also, no column may be full.
    #[inline]
    const fn accept(&self, timestamp_ns: u64) -> bool {
        timestamp_ns >= self.last_ns && self.encoded_bytes < COLUMN_FULL_BYTES
    }

    /// Returns the time since the last row, and makes `timestamp_ns`, which must be
    /// [accepted](Self::accept), the time of the last row.
    #[inline]
    const fn advance(&mut self, timestamp_ns: u64) -> u64 {
        let delta_ns = timestamp_ns.wrapping_sub(self.last_ns);
        self.last_ns = timestamp_ns;
        delta_ns
    }

    fn append_to(&self, fields: &[u8; N], out: &mut Vec<u8>) {
        for (field, column) in fields.iter().zip(&self.columns) {
            let values = column.as_bytes();
            if !values.is_empty() {
                out.push(tag(*field));
                append_varint(values.len() as u64, out);
                out.extend_from_slice(values);
            }
        }
    }

    fn clear(&mut self) {
        self.last_ns = 0;
        self.encoded_bytes = 0;
        self.columns.iter_mut().for_each(PackedColumn::clear);
    }
}

/// Returns the tag of a packed field or a string.
const fn tag(field: u8) -> u8 {
    field << 3 | WireType::LengthDelimited as u8
}

/// The names of a bundle.
#[derive(Debug)]
struct CommTable {
    /// The first `len` are the names by index.
    names: [Name; COMMS_MAX],
    /// At most [`COMMS_MAX`].
    len: u8,
    /// For each slot, 0 or the index of a name plus 1. A name is in the first slot from
    /// [`Name::slot`] on that was free.
    slots: [u8; SLOTS],
    /// The names, as fields of `CompactSched`.
    encoded: Vec<u8>,
    /// The last name of a thread whose id ends like this.
    recent: [Comm; RECENT],
    /// For each of `recent`, 0 or the index of its name plus 1.
    recent_indexes: [u8; RECENT],
}

impl Default for CommTable {
    fn default() -> Self {
        Self {
            names: [Name(0); COMMS_MAX],
            len: 0,
            slots: [0; SLOTS],
            encoded: Vec::new(),
            recent: [Comm(0); RECENT],
            recent_indexes: [0; RECENT],
        }
    }
}

impl CommTable {
    /// Returns the index of a thread's name, which is added if it is new. Returns `None` if it is
    /// new and there are [`COMMS_MAX`] names.
    #[inline]
    fn index_of(&mut self, comm: Comm, tid: i32) -> Option<u64> {
        let place = tid as usize % RECENT;
        match self.recent_indexes[place].checked_sub(1) {
            Some(index) if self.recent[place] == comm => Some(index.into()),
            _ => {
                let index = self.index_of_name(comm.name())?;
                self.recent[place] = comm;
                self.recent_indexes[place] = index + 1;
                Some(index.into())
            }
        }
    }

    #[inline(never)]
    fn index_of_name(&mut self, name: Name) -> Option<u8> {
        let mut slot = name.slot();
        loop {
            match self.slots[slot].checked_sub(1) {
                Some(index) if self.names[usize::from(index)] == name => return Some(index),
                Some(_) => slot = (slot + 1) % SLOTS,
                None => return self.add(name, slot),
            }
        }
    }

    #[cold]
    fn add(&mut self, name: Name, slot: usize) -> Option<u8> {
        let index = self.len;
        *self.names.get_mut(usize::from(index))? = name;
        self.len += 1;
        self.slots[slot] = self.len;

        self.encoded.push(tag(INTERN_TABLE));
        let length_at = self.encoded.len();
        self.encoded.push(0);
        append_text(name, &mut self.encoded);
        // At most 16 replacements of 3 bytes.
        self.encoded[length_at] = (self.encoded.len() - length_at - 1) as u8;
        Some(index)
    }

    fn clear(&mut self) {
        self.len = 0;
        self.slots.fill(0);
        self.encoded.clear();
        self.recent_indexes.fill(0);
    }
}

/// Appends a name. The kernel cuts names within a character; fields of type `string` have whole
/// ones.
fn append_text(name: Name, out: &mut Vec<u8>) {
    let bytes = name.0.to_le_bytes();
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    for chunk in name.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
