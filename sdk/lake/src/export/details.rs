//! Arguments, flows and outcomes of events, kept until it is known to which slice they belong.

use std::collections::HashMap;

use protozero::Decoder;
use tracezero_core::protos::TrackEvent;
use tracezero_reader::Event;

use super::slice_row::Outcome;
use crate::promoted::PromotedValue;

/// The arguments, flows and outcome of an event, or of a slice that has not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Details {
    pub(super) has_args: bool,
    pub(super) outcome: Option<Outcome>,
    pub(super) flows: Vec<FlowEnd>,
    pub(super) promoted: Vec<(u32, PromotedValue)>,
}

/// The kinds of fields with details that an event has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DetailFields {
    pub(super) has_args: bool,
    pub(super) has_flows: bool,
    pub(super) has_location: bool,
    pub(super) has_correlation: bool,
}

/// A flow that an event is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowEnd {
    pub(super) flow: u64,
    /// True if the flow ends in the event.
    pub(super) is_last: bool,
}

/// The details of events that are waiting for their turn.
///
/// Most events have none, and most that have some are next in turn.
#[derive(Debug, Default)]
pub(super) struct WaitingDetails {
    /// The details of the event that was read last, by the index of its packet.
    last: Option<(u64, Details)>,
    earlier: HashMap<u64, Details>,
}

/// The details of slices that have not ended.
#[derive(Debug, Default)]
pub(super) struct OpenDetails {
    details: Vec<Details>,
    free: Vec<u32>,
}

/// The number of the details of an open slice; `None` if it has none.
pub(super) type DetailsId = Option<u32>;

impl DetailFields {
    /// Finds the fields of an event.
    #[inline]
    pub(super) fn of(event: &Event<'_>) -> Self {
        /// Fields of older producers.
        const OLD_FLOWS: u32 = 36;
        const OLD_LAST_FLOWS: u32 = 42;
        let mut found = Self::default();
        for field in Decoder::new(event.bytes()).fields().map_while(Result::ok) {
            match field.number {
                TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER => found.has_args = true,
                TrackEvent::FLOW_IDS_FIELD_NUMBER
                | TrackEvent::TERMINATING_FLOW_IDS_FIELD_NUMBER
                | OLD_FLOWS
                | OLD_LAST_FLOWS => found.has_flows = true,
                TrackEvent::SOURCE_LOCATION_FIELD_NUMBER
                | TrackEvent::SOURCE_LOCATION_IID_FIELD_NUMBER => found.has_location = true,
                TrackEvent::CORRELATION_ID_FIELD_NUMBER
                | TrackEvent::CORRELATION_ID_STR_FIELD_NUMBER
                | TrackEvent::CORRELATION_ID_STR_IID_FIELD_NUMBER => found.has_correlation = true,
                _ => {}
            }
        }
        found
    }
}

impl Details {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the details of the event that ends the slice.
    pub(super) fn add(&mut self, end: Self) {
        self.has_args |= end.has_args;
        self.outcome = end.outcome.or(self.outcome);
        self.flows.extend(end.flows);
        for (column, value) in end.promoted {
            // The later value replaces the earlier one, as in a dictionary.
            self.promoted.retain(|(other, _)| *other != column);
            self.promoted.push((column, value));
        }
    }
}

impl WaitingDetails {
    /// Adds the details of the event that was read last.
    pub(super) fn set_last(&mut self, packet: u64, details: Details) {
        if !details.is_empty() {
            self.last = Some((packet, details));
        }
    }

    /// Keeps the details of the event that was read last, if nobody has taken them.
    #[inline]
    pub(super) fn keep_last(&mut self) {
        if let Some((packet, details)) = self.last.take() {
            self.earlier.insert(packet, details);
        }
    }

    /// Removes and returns the details of an event.
    #[inline]
    pub(super) fn take(&mut self, packet: u64) -> Option<Details> {
        if let Some((_, details)) = self.last.take_if(|(last, _)| *last == packet) {
            return Some(details);
        }
        match self.earlier.is_empty() {
            true => None,
            false => self.earlier.remove(&packet),
        }
    }
}

impl OpenDetails {
    /// Adds the details of a slice that begins.
    pub(super) fn add(&mut self, details: Option<Details>) -> DetailsId {
        let details = details?;
        if let Some(id) = self.free.pop() {
            self.details[id as usize] = details;
            return Some(id);
        }
        // There are not more open slices than fit into 32 bits.
        let id = self.details.len() as u32;
        self.details.push(details);
        Some(id)
    }

    /// Removes and returns the details of a slice that has ended.
    #[inline]
    pub(super) fn take(&mut self, id: DetailsId) -> Option<Details> {
        let id = id?;
        self.free.push(id);
        Some(std::mem::take(&mut self.details[id as usize]))
    }
}
