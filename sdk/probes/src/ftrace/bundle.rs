//! The packet of one CPU's events, and how the records of a page get there.
//!
//! A [`BundleBuilder`] lives as long as the pages of one CPU are read in one go. It is given pages
//! and hands out the bytes of each finished `FtraceEventBundle`, for field 1 of a `TracePacket`. A
//! bundle is one slice: to copy it once as a whole is cheaper than to scatter its fields over
//! chunks.
//!
//! [`BundleBuffers`] keeps the memory from CPU to CPU, and [`CpuState`] keeps what the next bundle
//! of a CPU contains about the bundles before. Steady recording allocates nothing.

use std::convert::Infallible;

use tracezero_kernel::protos::{FtraceClock, FtraceParseStatus};

use super::compact_sched::{CompactFormats, CompactSched};
use super::encoding::{Tag, append_bytes, append_number, begin_nested, end_nested};
use super::page::{Loss, Page, PageError, PageLayout, Record};
use crate::seen_threads::SeenThreads;

/// The number of bytes of events that end a bundle. A lost packet costs little, and no packet comes
/// near the size of the shared memory.
const BUNDLE_TARGET_BYTES: usize = 16 * 1024;
/// Room for what the last event and the columns add to [`BUNDLE_TARGET_BYTES`]. Larger bundles grow
/// the memory once.
const BUNDLE_SPARE_BYTES: usize = 8 * 1024;

/// Fields of `FtraceEventBundle`.
mod field {
    use super::Tag;

    pub(super) const CPU: Tag = Tag::number(1);
    pub(super) const EVENT: Tag = Tag::delimited(2);
    pub(super) const LOST_EVENTS: Tag = Tag::number(3);
    pub(super) const COMPACT_SCHED: Tag = Tag::delimited(4);
    pub(super) const FTRACE_CLOCK: Tag = Tag::number(5);
    pub(super) const FTRACE_TIMESTAMP: Tag = Tag::number(6);
    pub(super) const BOOT_TIMESTAMP: Tag = Tag::number(7);
    pub(super) const ERROR: Tag = Tag::delimited(8);
    pub(super) const PREVIOUS_BUNDLE_END_TIMESTAMP: Tag = Tag::number(10);
    pub(super) const GENERIC_EVENT_DESCRIPTORS: Tag = Tag::delimited(11);

    /// Fields of `FtraceEventBundle.FtraceError`.
    pub(super) const ERROR_TIMESTAMP: Tag = Tag::number(1);
    pub(super) const ERROR_STATUS: Tag = Tag::number(2);
}

/// How the pages of a kernel are read for one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageReader {
    /// The kernel's layout of pages.
    pub(crate) layout: PageLayout,
    /// The events that become columns, or `None` if all events are ordinary ones.
    pub(crate) compact: Option<CompactFormats>,
}

/// Decides about the records of a page, and takes the bundles.
pub(crate) trait PageHandler {
    /// Handles a record that does not become a part of columns. Adds an event to the bundle by
    /// [`BundleBuilder::add_event`], or nothing if the session does not record the event.
    fn record(
        &mut self,
        record: Record<'_>,
        bundle: &mut BundleBuilder<'_>,
        seen: &mut SeenThreads,
    );

    /// Takes a finished bundle: the body of an `FtraceEventBundle`.
    fn bundle_ended(&mut self, bundle: &[u8]);
}

/// Clock readings of one moment, for buffers whose clock is not that of the boot time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockSnapshot {
    /// The clock of the buffer.
    pub(crate) clock: FtraceClock,
    /// The time by that clock.
    pub(crate) ftrace_timestamp_ns: i64,
    /// The time by `CLOCK_BOOTTIME`.
    pub(crate) boot_timestamp_ns: i64,
}

/// Counts of one CPU's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuCounts {
    /// Events in bundles, including those in columns.
    pub(crate) events: u64,
    /// Events that the kernel has overwritten, as far as the kernel has stored their number.
    pub(crate) lost_events: u64,
    /// Losses without a number.
    pub(crate) uncounted_losses: u64,
    /// Records that do not have the fields of their format. They are left out: a single invalid
    /// event would cost the reader of the trace all others.
    pub(crate) invalid_records: u64,
    /// Pages that are read in part, or not at all, because of a [`PageError`].
    pub(crate) broken_pages: u64,
}

/// What is known of one CPU from bundle to bundle. Each session has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuState {
    cpu: u32,
    /// The time of the last event in a bundle, 0 if there is none. Perfetto takes events before
    /// this time as incomplete, so the times of a broken page are not trusted.
    last_event_ns: u64,
    /// True if events were lost, and no bundle reports the loss yet.
    has_loss: bool,
    counts: CpuCounts,
}

impl CpuState {
    /// Creates the state of a CPU from which nothing is read yet.
    pub(crate) fn new(cpu: u32) -> Self {
        Self {
            cpu,
            last_event_ns: 0,
            has_loss: false,
            counts: CpuCounts::default(),
        }
    }

    /// Returns the counts since the state was created.
    pub(crate) const fn counts(&self) -> &CpuCounts {
        &self.counts
    }

    fn note_loss(&mut self, loss: Loss) {
        match loss {
            Loss::None => return,
            Loss::Counted(count) => {
                self.counts.lost_events = self.counts.lost_events.saturating_add(count);
            }
            Loss::Uncounted => self.counts.uncounted_losses += 1,
        }
        self.has_loss = true;
    }
}

/// The memory of a bundle.
#[derive(Debug)]
pub(crate) struct BundleBuffers {
    /// The bundle without its columns. Empty until the bundle has an event, a descriptor or an
    /// error.
    bytes: Vec<u8>,
    /// Empty if `bytes` is.
    compact: CompactSched,
    /// The fields of `FtraceEvent` whose descriptors are in the bundle.
    described: Vec<u32>,
}

impl Default for BundleBuffers {
    fn default() -> Self {
        Self {
            bytes: Vec::with_capacity(BUNDLE_TARGET_BYTES + BUNDLE_SPARE_BYTES),
            compact: CompactSched::default(),
            described: Vec::new(),
        }
    }
}

impl BundleBuffers {
    fn clear(&mut self) {
        self.bytes.clear();
        self.compact.clear();
        self.described.clear();
    }
}

/// Builds the bundles of one CPU while its pages are read in one go.
///
/// Call [`end`](Self::end) after the last page, or the events of the last bundle are lost.
#[derive(Debug)]
pub(crate) struct BundleBuilder<'b> {
    buffers: &'b mut BundleBuffers,
    cpu: &'b mut CpuState,
    clock: Option<ClockSnapshot>,
}

impl<'b> BundleBuilder<'b> {
    /// Begins to read a CPU's pages. `clock` is `None` if the clock of the buffer is that of the
    /// boot time.
    pub(crate) fn begin(
        buffers: &'b mut BundleBuffers,
        cpu: &'b mut CpuState,
        clock: Option<ClockSnapshot>,
    ) -> Self {
        buffers.clear();
        Self {
            buffers,
            cpu,
            clock,
        }
    }

    /// Adds the events of a page. Ends bundles that are full, and ends the current bundle if events
    /// were lost before the page.
    ///
    /// Returns the page, for its time and length.
    ///
    /// # Errors
    ///
    /// If the page is broken. The events before that stay, the bundle has the error, and the next
    /// page can be added.
    pub(crate) fn add_page<'p, H: PageHandler>(
        &mut self,
        bytes: &'p [u8],
        reader: &PageReader,
        seen: &mut SeenThreads,
        handler: &mut H,
    ) -> Result<Page<'p>, PageError> {
        let before_page_ns = self.cpu.last_event_ns;
        let result = Page::parse(bytes, &reader.layout).and_then(|page| {
            self.add_records(&page, reader, seen, handler)?;
            Ok(page)
        });
        if let Err(error) = result {
            self.cpu.last_event_ns = before_page_ns;
            self.cpu.counts.broken_pages += 1;
            let page_ns = bytes.first_chunk().map_or(0, |&ns| u64::from_le_bytes(ns));
            self.add_error(page_ns, error.status());
        }
        result
    }

    fn add_records<H: PageHandler>(
        &mut self,
        page: &Page<'_>,
        reader: &PageReader,
        seen: &mut SeenThreads,
        handler: &mut H,
    ) -> Result<(), PageError> {
        if page.lost() != Loss::None {
            // A bundle reports a loss before its first event only.
            self.end(handler);
            self.cpu.note_loss(page.lost());
        }
        for record in page.records() {
            let record = record?;
            if self.is_full() {
                self.end(handler);
            }
            let Some(compact) = &reader.compact else {
                handler.record(record, self, seen);
                continue;
            };
            let id = record.id();
            if id == compact.switch.id {
                match compact.switch.read(record.payload) {
                    Some(switch) => {
                        seen.see(switch.next_pid);
                        self.add_row(record.timestamp_ns, handler, |columns| {
                            columns.push_switch(record.timestamp_ns, &switch)
                        });
                    }
                    None => self.drop_record(),
                }
            } else if let Some(format) = &compact.waking
                && id == format.id
            {
                match format.read(record.payload) {
                    Some(waking) => {
                        seen.see(waking.pid);
                        self.add_row(record.timestamp_ns, handler, |columns| {
                            columns.push_waking(record.timestamp_ns, &waking)
                        });
                    }
                    None => self.drop_record(),
                }
            } else {
                handler.record(record, self, seen);
            }
        }
        Ok(())
    }

    /// Adds a row to the columns. `push` returns false if the row has to begin a new bundle.
    #[inline]
    fn add_row<H: PageHandler>(
        &mut self,
        timestamp_ns: u64,
        handler: &mut H,
        push: impl Fn(&mut CompactSched) -> bool,
    ) {
        self.open();
        if !push(&mut self.buffers.compact) {
            self.end(handler);
            self.open();
            let is_pushed = push(&mut self.buffers.compact);
            debug_assert!(is_pushed, "empty columns accept each row");
        }
        self.note_event(timestamp_ns);
    }

    /// Adds an event, the body of an `FtraceEvent` that `encode` appends.
    ///
    /// # Errors
    ///
    /// If `encode` fails. The event is left out, and counted as invalid.
    pub(crate) fn add_event<E>(
        &mut self,
        timestamp_ns: u64,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before_event = self.buffers.bytes.len();
        self.open();
        let encoded = append_message(field::EVENT, &mut self.buffers.bytes, encode);
        match encoded {
            Ok(()) => self.note_event(timestamp_ns),
            Err(_) => {
                // Without an event, a new bundle stays empty.
                self.buffers.bytes.truncate(before_event);
                self.drop_record();
            }
        }
        encoded
    }

    /// Adds the descriptor of an event that is not in the published schema, once per bundle. Call
    /// this with each such event: a bundle has the descriptors of all its events. `field` is the
    /// event's field in `FtraceEvent`, and `descriptor` is the body of a `GenericEventDescriptor`.
    pub(crate) fn add_descriptor(&mut self, field: u32, descriptor: &[u8]) {
        if self.buffers.described.contains(&field) {
            return;
        }
        self.open();
        self.buffers.described.push(field);
        let out = &mut self.buffers.bytes;
        append_bytes(out, field::GENERIC_EVENT_DESCRIPTORS, descriptor);
    }

    /// Adds an error of reading, which may be the only content of a bundle.
    pub(crate) fn add_error(&mut self, timestamp_ns: u64, status: FtraceParseStatus) {
        self.open();
        let body = |out: &mut Vec<u8>| -> Result<(), Infallible> {
            append_number(out, field::ERROR_TIMESTAMP, timestamp_ns);
            append_number(out, field::ERROR_STATUS, i64::from(status.0) as u64);
            Ok(())
        };
        let Ok(()) = append_message(field::ERROR, &mut self.buffers.bytes, body);
    }

    /// Returns true if the bundle has no events, descriptors and errors. Such a bundle is not
    /// handed out.
    pub(crate) const fn is_empty(&self) -> bool {
        self.buffers.bytes.is_empty()
    }

    /// Ends the bundle and hands it to `handler`, unless it is empty.
    pub(crate) fn end<H: PageHandler>(&mut self, handler: &mut H) {
        if self.is_empty() {
            return;
        }
        let BundleBuffers { bytes, compact, .. } = &mut *self.buffers;
        if !compact.is_empty() {
            let body = |out: &mut Vec<u8>| -> Result<(), Infallible> {
                compact.append_to(out);
                Ok(())
            };
            let Ok(()) = append_message(field::COMPACT_SCHED, bytes, body);
        }
        handler.bundle_ended(bytes);
        self.buffers.clear();
        // The bundle that ended reports the loss.
        self.cpu.has_loss = false;
    }

    fn is_full(&self) -> bool {
        self.buffers.bytes.len() + self.buffers.compact.encoded_bytes() >= BUNDLE_TARGET_BYTES
    }

    /// Begins the bundle with the fields that each one has, unless it has begun.
    #[inline]
    fn open(&mut self) {
        if self.is_empty() {
            self.append_head();
        }
    }

    fn append_head(&mut self) {
        let out = &mut self.buffers.bytes;
        append_number(out, field::CPU, self.cpu.cpu.into());
        if self.cpu.has_loss {
            append_number(out, field::LOST_EVENTS, 1);
        }
        if let Some(snapshot) = self.clock {
            append_number(out, field::FTRACE_CLOCK, i64::from(snapshot.clock.0) as u64);
            append_number(
                out,
                field::FTRACE_TIMESTAMP,
                snapshot.ftrace_timestamp_ns as u64,
            );
            append_number(
                out,
                field::BOOT_TIMESTAMP,
                snapshot.boot_timestamp_ns as u64,
            );
        }
        let before_ns = self.cpu.last_event_ns;
        append_number(out, field::PREVIOUS_BUNDLE_END_TIMESTAMP, before_ns);
    }

    #[inline]
    fn note_event(&mut self, timestamp_ns: u64) {
        self.cpu.last_event_ns = timestamp_ns;
        self.cpu.counts.events += 1;
    }

    #[cold]
    fn drop_record(&mut self) {
        self.cpu.counts.invalid_records += 1;
    }
}

/// Appends a message that `body` appends.
#[inline]
fn append_message<E>(
    tag: Tag,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let message = begin_nested(out, tag);
    body(out)?;
    end_nested(out, message);
    Ok(())
}

#[cfg(test)]
mod tests;
