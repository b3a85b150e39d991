//! The schemas of fields that events carry beside the published ones.

use std::sync::Arc;

use parking_lot::Mutex;

use super::TRACK_EVENT;
use tracezero_core::forked_child;
use tracezero_producer as producer;

/// Serialized `FileDescriptorSet`s, each once.
static DECLARED: Mutex<Vec<&'static [u8]>> = Mutex::new(Vec::new());

/// Has traces of events carry the schema of fields that extend
/// [`TrackEvent`](tracezero_core::protos::TrackEvent), so that readers which do not have it can show them:
/// traces of sessions that start later.
///
/// `descriptors` is a serialized `FileDescriptorSet`, as [`protozero::include_descriptor_set!`] gives
/// it. A schema is declared once, however often it is given here; so libraries may do so as well.
///
/// ```
/// # mod protozero { macro_rules! include_descriptor_set { ($package:literal) => { &[] } }
/// # pub(crate) use include_descriptor_set; }
/// tracezero::declare_event_schema(protozero::include_descriptor_set!("http"));
/// ```
pub fn declare_event_schema(descriptors: &'static [u8]) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    {
        let mut declared = DECLARED.lock();
        if descriptors.is_empty() || declared.contains(&descriptors) {
            return;
        }
        declared.push(descriptors);
    }
    producer::declarations_changed(TRACK_EVENT.state());
}

/// All of them as one: sets that follow each other are one set.
pub(crate) fn declared_event_schemas() -> Arc<[u8]> {
    DECLARED.lock().concat().into()
}
