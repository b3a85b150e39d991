//! The data source that the macros write to, and what is on while a session records a category: call sites, and
//! the switches of [`enabled!`](crate::enabled).
//!
//! Each switch has a mask of its own. It is worked out when a thread reaches the switch first, when a
//! session starts or ends, and when the choice of a session or a declaration changes. So categories need no
//! declaration, and a trace point looks into no table of them. A declaration adds a description and tags.

use parking_lot::Mutex;

use crate::declared_categories::DeclaredCategories;
use crate::event_schema::{add_event_schema, declared_event_schemas};
use crate::instance::EventInstance;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::forked_child;
use tracezero_producer::{self as producer, ActiveSlots, OwnDataSource, Recording, Switches};

/// The data source that the macros write to; configurations call it `track_event`.
pub static TRACK_EVENT: OwnDataSource<EventInstance> =
    OwnDataSource::new("track_event", &EventSwitches);

/// Those that were reached. Locked inside of the registry of data sources, and before
/// [`DeclaredCategories`].
static SWITCHES: Mutex<Vec<Switch>> = Mutex::new(Vec::new());

/// Something that is on while a session records a category.
#[derive(Clone, Copy)]
pub(super) struct Switch {
    pub(super) category: &'static str,
    /// Beside those that were declared for the category.
    pub(super) tags: &'static [&'static str],
    pub(super) active: &'static ActiveSlots,
    /// The switch of a library's call site, which is on while this one is.
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

/// The switches of track events, as their data source knows them.
pub(super) struct EventSwitches;

impl Switches for EventSwitches {
    fn describe(&self, descriptor: &mut DataSourceDescriptor) {
        descriptor.categories = DeclaredCategories::lock().descriptors();
        descriptor.extension_descriptors = declared_event_schemas();
    }

    fn update(&self, recording: &Recording<'_>) {
        let switches = SWITCHES.lock();
        let declared = DeclaredCategories::lock();
        for switch in switches.iter() {
            switch.update(recording, &declared);
        }
    }
}

/// Registers a switch, so that its mask says which slots record its category, unless a nested trace point asks.
/// Calls `prepare` first, with nothing locked.
#[cold]
pub(super) fn register(switch: Switch, prepare: impl FnOnce()) {
    if producer::is_nested() {
        return;
    }
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

/// Declares a schema, which traces of events carry from then on: that of fields that extend
/// [`TrackEvent`](tracezero_core::protos::TrackEvent), so that readers which do not have it can show them.
/// Sessions that run already do not carry it.
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
    if add_event_schema(descriptors) {
        producer::declarations_changed(TRACK_EVENT.state());
    }
}

/// The categories that call sites have reached, or that were declared, and their tags. In order.
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
