//! How a record of this kernel becomes an event of the trace.
//!
//! A plan joins what is known when this is compiled, the numbers of published fields, with what is
//! known when the recorder starts, where this kernel puts the fields. What remains to be done for each
//! record is a list of steps: read at an offset, append under a tag.
//!
//! Records are untrusted: a plan reads nothing outside of them.

mod step; // one field of an event

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use self::step::{Source, Step, bytes_at, thread_at};
use super::encoding::{Tag, append_number, begin_nested, end_nested};
use super::event_table::{PublishedEvent, published_event};
use super::field_type::FieldType;
use super::format::{EventFormat, Field};
use super::generic_events::{
    FIRST_NUMBER, GenericDescriptor, GenericEncoding, LEGACY_FIELD, LEGACY_NUMBER, LegacyNames,
    descriptor, generic_fields, legacy_names,
};
use super::printk_formats::PrintkFormats;
use super::symbols::SymbolIndexes;
use crate::seen_threads::SeenThreads;

/// `FtraceEvent.timestamp`.
const TIMESTAMP: Tag = Tag::number(1);
/// `FtraceEvent.pid`.
const PID: Tag = Tag::number(2);

/// Published fields that are not recorded: an address in the kernel that is the same in all events,
/// and a field that is a number in some kernels and an array in others.
const NOT_RECORDED: [(&str, &str); 2] = [("print", "ip"), ("f2fs_truncate_partial_nodes", "nid")];
/// Events whose field `func` is the address of a function, although it is declared as a number.
const FUNCTION_GRAPH: [&str; 2] = ["funcgraph_entry", "funcgraph_exit"];

/// The plans for the events of one data source.
#[derive(Debug)]
pub(crate) struct EventPlans {
    /// By the event's id.
    plans: Vec<Option<Box<EventPlan>>>,
    texts: Arc<PrintkFormats>,
    generic_encoding: GenericEncoding,
    /// The number for the next event in the denser form.
    next_number: u32,
}

impl EventPlans {
    /// Creates plans for no events yet. Fields that have the address of a text are looked up in
    /// `texts`; events that are not published are written in the form `generic_encoding`.
    pub(crate) fn new(texts: PrintkFormats, generic_encoding: GenericEncoding) -> Self {
        Self {
            plans: Vec::new(),
            texts: Arc::new(texts),
            generic_encoding,
            next_number: FIRST_NUMBER,
        }
    }

    /// Adds a plan for the event `group/name`, and returns the event's id. A plan for the same id is
    /// replaced.
    pub(crate) fn add(&mut self, group: &str, name: &str, format: &EventFormat) -> u16 {
        let texts = Arc::clone(&self.texts);
        let plan = match published_event(group, name) {
            Some(event) => EventPlan::published(group, name, event, format, texts),
            None => {
                let number = self.next_number;
                self.next_number += 1;
                EventPlan::generic(number, group, name, format, self.generic_encoding, texts)
            }
        };
        let index = usize::from(format.id);
        if self.plans.len() <= index {
            self.plans.resize_with(index + 1, || None);
        }
        self.plans[index] = Some(Box::new(plan));
        format.id
    }

    /// Returns the plan for the events with this id.
    #[inline]
    pub(crate) fn get(&self, id: u16) -> Option<&EventPlan> {
        self.plans.get(usize::from(id))?.as_deref()
    }
}

/// How the records of one event become events of the trace.
#[derive(Debug)]
pub(crate) struct EventPlan {
    /// The size that the fixed part of a record needs.
    record_min_bytes: u32,
    /// Where a record has the thread that was running.
    common_pid: Option<u32>,
    /// The tag of the event's message.
    message: Tag,
    steps: Vec<Step>,
    note: Option<Note>,
    form: Form,
    texts: Arc<PrintkFormats>,
}

/// What to tell the list of processes about an event, with the offset of the thread's id.
#[derive(Clone, Copy, Debug)]
enum Note {
    Renamed(u32),
    Freed(u32),
}

#[derive(Debug)]
enum Form {
    Published,
    Denser(GenericDescriptor),
    Legacy(LegacyNames),
}

impl EventPlan {
    fn published(
        group: &str,
        name: &str,
        event: &PublishedEvent,
        format: &EventFormat,
        texts: Arc<PrintkFormats>,
    ) -> Self {
        let is_function_graph = group == "ftrace" && FUNCTION_GRAPH.contains(&name);
        let steps = event.fields.iter().filter_map(|published| {
            let mut fields = format.fields.iter();
            let field = fields.find(|field| field.name == published.name)?;
            let field_type = if is_function_graph && field.name == "func" {
                FieldType::symbol(field.size)?
            } else {
                FieldType::of(field)?
            };
            let value_type = field_type.value_type();
            if NOT_RECORDED.contains(&(name, published.name)) || !published.accepts(value_type) {
                return None;
            }
            Some(Step::new(
                value_type.tag(published.number),
                field_type,
                field,
            ))
        });
        let steps = steps.collect();
        let mut plan = Self::new(event.number, steps, Form::Published, format, texts);
        plan.note = note(group, name, format);
        plan
    }

    /// Creates the plan for an event that is not published. `number` is the one of its message in the
    /// denser form.
    fn generic(
        number: u32,
        group: &str,
        name: &str,
        format: &EventFormat,
        encoding: GenericEncoding,
        texts: Arc<PrintkFormats>,
    ) -> Self {
        let fields = generic_fields(format, encoding);
        let steps = fields.iter().enumerate().map(|(index, field)| {
            Step::new(field.tag(index, encoding), field.field_type, field.field)
        });
        let steps = steps.collect();
        let (number, form) = match encoding {
            GenericEncoding::Denser => {
                let descriptor = descriptor(number, group, name, &fields);
                (number, Form::Denser(descriptor))
            }
            GenericEncoding::Legacy => (LEGACY_NUMBER, Form::Legacy(legacy_names(name, &fields))),
        };
        Self::new(number, steps, form, format, texts)
    }

    fn new(
        number: u32,
        steps: Vec<Step>,
        form: Form,
        format: &EventFormat,
        texts: Arc<PrintkFormats>,
    ) -> Self {
        let ends = steps.iter().map(Step::end);
        let common_ends = format.common.iter().map(Field::end);
        Self {
            record_min_bytes: ends.chain(common_ends).max().unwrap_or(0),
            common_pid: thread_offset(format.common.iter(), "common_pid"),
            message: Tag::delimited(number),
            steps,
            note: None,
            form,
            texts,
        }
    }

    /// Returns the description that a packet with events of this plan must have, if the events are
    /// not published.
    #[inline]
    pub(crate) fn descriptor(&self) -> Option<&GenericDescriptor> {
        match &self.form {
            Form::Denser(descriptor) => Some(descriptor),
            Form::Published | Form::Legacy(_) => None,
        }
    }

    /// Appends the fields of one `FtraceEvent` to `out`, and notes the threads that the event names.
    ///
    /// `record` is what the kernel wrote for the event: it begins with the event's id.
    ///
    /// # Errors
    ///
    /// If a field lies outside of the record. `out` then is as it was.
    pub(crate) fn encode(
        &self,
        timestamp_ns: u64,
        record: &[u8],
        out: &mut Vec<u8>,
        seen: &mut SeenThreads,
        symbols: &mut SymbolIndexes,
    ) -> Result<(), InvalidRecord> {
        if record.len() < self.record_min_bytes as usize {
            return Err(InvalidRecord::too_short(record, self.record_min_bytes));
        }
        let start = out.len();
        append_number(out, TIMESTAMP, timestamp_ns);
        if let Some(pid) = self.common_pid.and_then(|offset| thread_at(record, offset)) {
            seen.see(pid);
            append_number(out, PID, u64::from(pid as u32));
        }
        let message = begin_nested(out, self.message);
        let mut source = Source {
            record,
            seen,
            symbols,
            texts: &self.texts,
        };
        let result = match &self.form {
            Form::Legacy(names) => self.append_legacy(names, &mut source, out),
            Form::Published | Form::Denser(_) => {
                let mut steps = self.steps.iter();
                steps.try_for_each(|step| step.append(&mut source, out))
            }
        };
        if let Err(error) = result {
            out.truncate(start);
            return Err(error);
        }
        end_nested(out, message);
        if let Some(note) = self.note {
            note.take(record, seen);
        }
        Ok(())
    }

    /// Appends the fields of a `GenericFtraceEvent`.
    #[cold]
    fn append_legacy(
        &self,
        names: &LegacyNames,
        source: &mut Source<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidRecord> {
        out.extend_from_slice(&names.event);
        for (step, name) in self.steps.iter().zip(&names.fields) {
            let field = begin_nested(out, LEGACY_FIELD);
            out.extend_from_slice(name);
            step.append(source, out)?;
            end_nested(out, field);
        }
        Ok(())
    }
}

impl Note {
    fn take(self, record: &[u8], seen: &mut SeenThreads) {
        let (threads, offset) = match self {
            Self::Renamed(offset) => (&mut seen.renamed, offset),
            Self::Freed(offset) => (&mut seen.freed, offset),
        };
        threads.extend(thread_at(record, offset));
    }
}

/// Returns what to tell about the event `group/name`.
fn note(group: &str, name: &str, format: &EventFormat) -> Option<Note> {
    let thread = thread_offset(format.fields.iter(), "pid");
    match (group, name) {
        // Kernels that do not say who is renamed rename the thread that runs.
        ("task", "task_rename") => thread
            .or_else(|| thread_offset(format.common.iter(), "common_pid"))
            .map(Note::Renamed),
        ("sched", "sched_process_free") => thread.map(Note::Freed),
        _ => None,
    }
}

/// Returns the offset of the field `name`, if the field is the id of a thread.
fn thread_offset<'a>(mut fields: impl Iterator<Item = &'a Field>, name: &str) -> Option<u32> {
    let field = fields.find(|field| field.name == name)?;
    (field.size == 4).then_some(field.offset)
}

/// A record that does not have what the format of its event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRecord {
    /// The event's id.
    event: u16,
    record_bytes: usize,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The fixed part needs more bytes than the record has.
    TooShort { min_bytes: u32 },
    /// The field at this offset, or what it refers to, lies outside of the record.
    Outside { offset: u32 },
}

impl InvalidRecord {
    #[cold]
    fn too_short(record: &[u8], min_bytes: u32) -> Self {
        Self::new(record, Fault::TooShort { min_bytes })
    }

    #[cold]
    fn outside(record: &[u8], offset: u32) -> Self {
        Self::new(record, Fault::Outside { offset })
    }

    fn new(record: &[u8], fault: Fault) -> Self {
        Self {
            event: bytes_at(record, 0).map_or(0, u16::from_le_bytes),
            record_bytes: record.len(),
            fault,
        }
    }
}

impl fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event,
            record_bytes,
            fault,
        } = self;
        write!(f, "a record of event {event} has {record_bytes} bytes, ")?;
        match fault {
            Fault::TooShort { min_bytes } => write!(f, "but needs {min_bytes}"),
            Fault::Outside { offset } => {
                write!(
                    f,
                    "but its field at {offset} refers to bytes outside of them"
                )
            }
        }
    }
}

impl Error for InvalidRecord {}

#[cfg(test)]
mod tests;
