//! The data source that the macros write to, and its switches: those of call sites, and those of
//! [`enabled!`](crate::enabled).
//!
//! Each switch has its own mask of the sessions that record its category. The mask is computed when
//! a thread first reaches the switch, when a session starts or ends, and when a session's choice of
//! categories or a declaration changes. So categories need no declaration, and a trace point looks
//! up no table. A declaration only adds a description and tags.

use parking_lot::Mutex;

use crate::declared_categories::DeclaredCategories;
use crate::event_schema::{add_event_schema, declared_event_schemas};
use crate::instance::EventInstance;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::forked_child;
use tracezero_producer::{self as producer, ActiveSlots, OwnDataSource, Recording, Switches};

/// The data source that the macros write to; its name in configurations is `track_event`.
pub static TRACK_EVENT: OwnDataSource<EventInstance> =
    OwnDataSource::new("track_event", &EventSwitches);

/// The switches that threads have reached. The order of locks is: the registry of data sources,
/// these switches, [`DeclaredCategories`].
static SWITCHES: Mutex<Vec<Switch>> = Mutex::new(Vec::new());

/// The switch of a call site or of `enabled!`: on while a session records its category.
#[derive(Clone, Copy)]
pub(super) struct Switch {
    pub(super) category: &'static str,
    /// Tags in addition to those that were declared for the category.
    pub(super) tags: &'static [&'static str],
    pub(super) active: &'static ActiveSlots,
    /// True for the switch of `enabled!`, which records nothing itself.
    pub(super) only_asks: bool,
    /// If this switch stands for a call site of a library: the switch of that call site, which is
    /// on while this switch is on.
    pub(super) library: Option<tracezero_events_core::Switch>,
}

impl Switch {
    fn update(self, recording: &Recording<'_>, declared: &DeclaredCategories) {
        let chooses = |instance: &EventInstance| {
            declared.are_enabled(self.category, self.tags, &instance.filter.lock())
        };
        let slots = recording.slots_chosen(chooses);
        self.active.store(slots);
        if let Some(library) = self.library {
            library.set(slots != 0);
        }
    }
}

/// The callbacks by which the producer updates all switches of track events.
pub(super) struct EventSwitches;

impl Switches for EventSwitches {
    fn describe(&self, descriptor: &mut DataSourceDescriptor) {
        descriptor.categories = DeclaredCategories::lock().descriptors();
        descriptor.extension_descriptors = declared_event_schemas();
    }

    fn update(&self, recording: &Recording<'_>) {
        let switches = SWITCHES.lock();
        let declared = DeclaredCategories::lock();
        // First those that record: when a program finds a category on, its events are recorded.
        for only_asks in [false, true] {
            let switches = switches.iter().filter(|it| it.only_asks == only_asks);
            switches.for_each(|switch| switch.update(recording, &declared));
        }
    }
}

/// Registers a switch and computes its mask. Calls `prepare` first, with nothing locked. Does
/// nothing inside of another trace point; the switch then registers at its next use.
#[cold]
pub(super) fn register(switch: Switch, prepare: impl FnOnce()) {
    if producer::is_nested() {
        return;
    }
    #[cfg(feature = "system")]
    crate::machine_trace::connect_if_asked(TRACK_EVENT.state());
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    prepare();
    producer::with_recording(TRACK_EVENT.state(), |recording| {
        if !switch.active.is_registered() {
            SWITCHES.lock().push(switch);
            switch.update(recording, &DeclaredCategories::lock());
        }
    });
}

/// Declares the schema of your own fields that extend
/// [`TrackEvent`](tracezero_core::protos::TrackEvent). Traces of sessions that start later contain
/// the schema, so readers that do not know the fields can show them.
///
/// `descriptors` is a serialized `FileDescriptorSet`, as [`protozero::include_descriptor_set!`]
/// returns it. Declaring the same schema several times has no further effect, so libraries may
/// declare theirs.
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
    if add_event_schema(descriptors) {
        producer::declarations_changed(TRACK_EVENT.state());
    }
}

/// The categories and tags that are known in this process, sorted. A category is known once it is
/// declared or a thread has reached one of its call sites.
#[derive(Debug, Default)]
pub struct KnownCategories {
    pub names: Vec<&'static str>,
    pub tags: Vec<&'static str>,
}

/// Returns the categories that are known by now.
pub fn known_categories() -> KnownCategories {
    let mut known = KnownCategories::default();
    for switch in SWITCHES.lock().iter() {
        known
            .names
            .extend(switch.category.split(',').map(str::trim));
        known.tags.extend(switch.tags);
    }
    DeclaredCategories::lock().add_to(&mut known.names, &mut known.tags);
    for list in [&mut known.names, &mut known.tags] {
        list.sort_unstable();
        list.dedup();
    }
    known
}
