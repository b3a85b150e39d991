//! Events of libraries that depend on `tracezero-events`.
//!
//! Each call site of a library gets a call site of this package, which is never freed. Both call
//! sites are on while a session records their category.

use std::num::NonZeroU32;
use std::sync::Once;

use tracezero_events_core::{
    CallSite as LibraryCallSite, Event, Kind, Number, Recorder, SiteRecorder, Switch, Value,
};

use crate::arg::{ArgValue, ArrayWriter, DictWriter, debug, display, write_arg, write_scalar};
use crate::call_site::CallSite;
use crate::event::{EventParts, EventWriter};
use crate::open_slices::SlicePosition;
use crate::placement::Placement;
use crate::scalar::Scalar;
use crate::short_event::ShortEvent;
use crate::span::Span;
use tracezero_core::counter_value::CounterValue;
use tracezero_core::forked_child;
use tracezero_core::protos::DebugAnnotation;
use tracezero_producer as producer;

/// Starts to record the events of libraries, in the sessions that choose their categories.
pub(super) fn connect_libraries() {
    static CONNECT: Once = Once::new();
    CONNECT.call_once(|| {
        // The error is ignored: it says that the program has other recorders, and they record the
        // events.
        let _ = tracezero_events_core::connect(&LibraryEvents);
    });
}

/// Returns the recorder of library events, for plugins.
///
/// A shared library that is loaded at run time has its own copy of `tracezero-events`. Its events
/// appear in the sessions of the host once it has connected the recorder of the host:
///
/// ```
/// // In the plugin, a `cdylib` that depends on `tracezero-events`:
/// # mod plugin {
/// use tracezero_events::{ConnectError, Recorder, instant};
///
/// #[unsafe(no_mangle)]
/// pub fn plugin_connect(host: &'static dyn Recorder) -> Result<(), ConnectError> {
///     tracezero_events::connect(host)
/// }
///
/// #[unsafe(no_mangle)]
/// pub fn plugin_run() {
///     instant!("plugin", "run");
/// }
/// # }
/// # use plugin::{plugin_connect, plugin_run};
///
/// // In the host, with the functions that it has looked up in the plugin:
/// plugin_connect(tracezero::library_recorder())?;
/// # let session = tracezero::InMemorySession::start()?;
/// plugin_run();
/// # drop(session);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The host and the plugin must be built by the same compiler with the same version of
/// `tracezero-events-core`, as for every Rust type that crosses this border. The host must never
/// unload the plugin: its call sites stay registered.
#[must_use]
pub fn library_recorder() -> &'static dyn Recorder {
    &LibraryEvents
}

struct LibraryEvents;

impl Recorder for LibraryEvents {
    fn recorder_of(
        &'static self,
        site: &'static LibraryCallSite,
        switch: Switch,
    ) -> Option<&'static dyn SiteRecorder> {
        if producer::is_nested() {
            return None;
        }
        let call_site = CallSite::new(site.category(), site.name(), site.arg_names());
        let recorder: &'static LibrarySite = {
            // Allocating may reach this call site again, if the allocator traces. The guard makes
            // its event count as nested.
            let _inside = forked_child::enter()?;
            Box::leak(Box::new(LibrarySite { call_site }))
        };
        // An end does not ask whether its category is recorded; it goes to the sessions that have
        // seen the begin.
        if site.kind() != Kind::End {
            let only_asks = site.kind() == Kind::Switch;
            recorder.call_site.register(Some(switch), only_asks);
        }
        Some(recorder)
    }
}

/// The recorder of one library call site.
struct LibrarySite {
    call_site: CallSite,
}

impl SiteRecorder for LibrarySite {
    fn instant(&'static self, event: &Event<'_>) {
        let Some(slots) = NonZeroU32::new(self.call_site.active_slots()) else {
            return;
        };
        let values = Values(event.args());
        match event.name() {
            None => self.call_site.instant(slots, &values),
            Some(name) => {
                let placement = Placement::new().named(name);
                self.call_site
                    .instant_placed(slots.get(), &placement, &values);
            }
        }
    }

    fn begin(&'static self, event: &Event<'_>) -> u64 {
        let Some(slots) = NonZeroU32::new(self.call_site.active_slots()) else {
            return 0;
        };
        let values = Values(event.args());
        let span = match event.name() {
            None => self.call_site.span(slots, &values),
            Some(name) => {
                let placement = Placement::new().named(name);
                self.call_site.span_placed(slots.get(), &placement, &values)
            }
        };
        span.into_position().map_or(0, SlicePosition::number)
    }

    fn end(&'static self, span: u64, event: &Event<'_>) {
        let Some(position) = SlicePosition::from_number(span) else {
            return;
        };
        let span = Span::new(position);
        if event.args().is_empty() {
            drop(span);
        } else {
            span.end_with(&self.call_site, Placement::USUAL, &Values(event.args()));
        }
    }

    fn count(&'static self, value: Number, _: &Event<'_>) {
        let value = match value {
            Number::Int(value) => CounterValue::from(value),
            Number::Double(value) => CounterValue::from(value),
            _ => return,
        };
        let slots = self.call_site.active_slots();
        if slots != 0 {
            self.call_site.counter(slots, Placement::USUAL, value);
        }
    }
}

/// The arguments of an event, in the order of the call site's argument names.
struct Values<'a>(&'a [Value<'a>]);

impl EventParts for Values<'_> {
    const IS_EMPTY: bool = false;

    fn write_all(&self, event: &mut EventWriter<'_, '_>) {
        for (value, name_iid) in self.0.iter().zip(event.name_iids) {
            write_arg(value, *name_iid, event.event);
        }
    }

    fn are_short(&self) -> bool {
        self.0.iter().all(|value| value.scalar().is_some())
    }

    fn put_all(&self, event: &mut ShortEvent<'_, '_>) -> bool {
        self.0.iter().all(|value| event.put_arg(value))
    }
}

impl ArgValue for Value<'_> {
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        match self {
            Self::Display(value) => display(value).write(annotation),
            Self::Debug(value) => debug(value).write(annotation),
            Self::Path(path) => path.write(annotation),
            Self::OsStr(text) => text.write(annotation),
            Self::Pointer(address) => _ = annotation.set_pointer_value(*address),
            Self::List(list) => {
                let mut elements = ArrayWriter::new(annotation);
                list.for_each(&mut |value| _ = elements.add(&value));
            }
            Self::Dict(dict) => {
                let mut entries = DictWriter::new(annotation);
                dict.for_each(&mut |name, value| _ = entries.add(name, &value));
            }
            value => {
                if let Some(scalar) = value.scalar() {
                    write_scalar(scalar, annotation);
                }
            }
        }
    }

    fn scalar(&self) -> Option<Scalar<'_>> {
        Some(match *self {
            Self::Bool(value) => Scalar::Bool(value),
            Self::Int(value) => Scalar::Int(value),
            Self::Uint(value) => Scalar::Uint(value),
            Self::Double(value) => Scalar::Double(value),
            Self::Text(value) => Scalar::Text(value),
            _ => return None,
        })
    }
}
