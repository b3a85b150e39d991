//! Converts field values to arguments, names and counters.

use std::cell::Cell;
use std::fmt::{self, Write as _};

use tracing_core::field::{Field, Visit};

use super::site::{FieldKind, RareField, Site};
use crate::CounterValue;
use tracezero_track_event::{ArgValue, EncodedArgs, Placement, Traceparent, display};

/// Reusable memory in which a thread encodes values.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) encoded: EncodedArgs,
    /// The encoded arguments in one piece.
    pub(super) args: Vec<u8>,
    /// A dynamic name; empty if there is none.
    pub(super) name: String,
    /// True if there was a value that is not a counter.
    pub(super) has_values: bool,
    /// What fields tell about a call between services. `None` unless a field is about one.
    call: Option<Call>,
}

/// What fields tell about calls between services.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    /// The header in a field `traceparent`.
    pub(super) header: Option<Traceparent>,
    /// True if a field says that the span is a call to another service.
    pub(super) is_outgoing: bool,
}

thread_local! {
    /// `None` while the memory is in use: formatting a value may record another event.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Calls `work` with empty memory, which is reused if possible.
#[inline]
pub(super) fn with_scratch<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    // When the thread-locals are destroyed, new memory is used.
    let mut scratch = SCRATCH
        .try_with(Cell::take)
        .ok()
        .flatten()
        .unwrap_or_default();
    scratch.encoded.clear();
    scratch.args.clear();
    scratch.name.clear();
    scratch.has_values = false;
    let result = work(&mut scratch);
    let _ = SCRATCH.try_with(|place| place.set(Some(scratch)));
    result
}

impl Scratch {
    /// Encodes the values that `record` passes to the visitor, for a span or an event of this call
    /// site.
    #[inline]
    pub(super) fn take(
        &mut self,
        site: &'static Site,
        slots: u32,
        record: impl FnOnce(&mut Values<'_>),
    ) {
        let mut values = Values {
            site,
            slots,
            scratch: self,
        };
        record(&mut values);
        self.encoded.append_to(&mut self.args);
    }

    /// Returns whether a field is about a call between services. If so, [`take_call`](Self::take_call)
    /// must be called.
    #[inline]
    pub(super) const fn has_call(&self) -> bool {
        self.call.is_some()
    }

    /// Returns what fields tell about a call between services, and forgets it for the next span or event.
    #[cold]
    #[inline(never)]
    pub(super) fn take_call(&mut self) -> Call {
        self.call.take().unwrap_or_default()
    }

    /// Adds the level of an event.
    #[inline]
    pub(super) fn add_level(&mut self, site: &'static Site) {
        if let Some((position, level)) = site.level {
            self.encoded.clear();
            self.encoded.add(&site.call_site, position, level);
            self.encoded.append_to(&mut self.args);
        }
    }
}

/// A visitor that encodes values one at a time.
#[derive(Debug)]
pub(super) struct Values<'a> {
    site: &'static Site,
    /// The sessions that counters are recorded for.
    slots: u32,
    scratch: &'a mut Scratch,
}

impl Values<'_> {
    #[inline]
    fn add(&mut self, field: &Field, value: &(impl ArgValue + ?Sized)) {
        self.scratch.has_values = true;
        let position = field.index();
        self.scratch
            .encoded
            .add(&self.site.call_site, position, value);
    }

    /// Adds a number: as an argument, or as a counter if the field is one.
    #[inline]
    fn add_number(
        &mut self,
        field: &Field,
        value: impl ArgValue + Into<CounterValue> + fmt::Display,
    ) {
        match self.kind(field) {
            FieldKind::Counter(track) => {
                let call_site = &self.site.call_site;
                call_site.counter_on(self.slots, track, &Placement::new(), value);
            }
            FieldKind::Rare => self.add_rare(field, format_args!("{value}")),
            FieldKind::Argument | FieldKind::Message => self.add(field, &value),
        }
    }

    #[inline]
    fn kind(&self, field: &Field) -> &'static FieldKind {
        let kind = self.site.fields.get(field.index());
        kind.unwrap_or(&FieldKind::Argument)
    }

    /// Adds a value that is only text.
    fn add_text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        match self.kind(field) {
            FieldKind::Message => {
                self.scratch.has_values = true;
                // If formatting fails, the name is the text so far.
                let _ = self.scratch.name.write_fmt(text);
            }
            FieldKind::Rare => self.add_rare(field, text),
            FieldKind::Argument | FieldKind::Counter(_) => self.add(field, &display(&text)),
        }
    }

    #[inline(never)]
    fn add_unusual_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, format_args!("{value}"));
    }

    /// Adds the value of a field that few call sites have.
    #[cold]
    fn add_rare(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        let rare = self.site.rare_field(field.name());
        if rare == Some(RareField::LogOrigin) {
            return;
        }
        self.add(field, &display(&text));
        let text = text.to_string();
        match rare {
            Some(RareField::Traceparent) => {
                let call = self.scratch.call.get_or_insert_default();
                call.header = text.parse().ok();
            }
            Some(RareField::SpanKind) => {
                let is_kind = |other: &&str| text.eq_ignore_ascii_case(other);
                let call = self.scratch.call.get_or_insert_default();
                call.is_outgoing = ["client", "producer"].iter().any(is_kind);
            }
            _ => {}
        }
    }
}

impl Visit for Values<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add_number(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_number(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_number(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.add(field, &value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match self.kind(field) {
            FieldKind::Argument => self.add(field, value),
            _ => self.add_unusual_str(field, value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format_args!("{value:?}"));
    }
}

/// A visitor that writes the chosen fields of a span into its name: `{name=first, part=2}`.
pub(super) struct NameFields<'a> {
    chosen: &'a [String],
    out: &'a mut String,
    has_any: bool,
}

impl<'a> NameFields<'a> {
    pub(super) fn new(chosen: &'a [String], out: &'a mut String) -> Self {
        Self {
            chosen,
            out,
            has_any: false,
        }
    }

    /// Completes the name. Returns whether any chosen field had a value.
    pub(super) fn finish(self) -> bool {
        if self.has_any {
            self.out.push('}');
        }
        self.has_any
    }
}

impl Visit for NameFields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.chosen.iter().any(|name| name == field.name()) {
            let before = if self.has_any { ", " } else { "{" };
            self.has_any = true;
            // If formatting fails, the text so far becomes part of the name.
            let _ = write!(self.out, "{before}{}={value:?}", field.name());
        }
    }
}
