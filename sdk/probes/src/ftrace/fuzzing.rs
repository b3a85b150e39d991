//! What fuzz targets call: formats and pages that no kernel has written.

use super::bundle::{BundleBuffers, BundleBuilder, CpuState, PageHandler, PageReader};
use super::event_encoder::columns_of;
use super::event_plan::EventPlans;
use super::format::EventFormat;
use super::generic_events::GenericEncoding;
use super::page::{PageLayout, Record};
use super::printk_formats::PrintkFormats;
use super::symbols::{KernelSymbols, SymbolIndexes};
use crate::seen_threads::SeenThreads;

/// The events of a kernel, and how its pages are laid out.
#[derive(Debug)]
pub struct Kernel {
    pages: PageReader,
    plans: EventPlans,
}

impl Kernel {
    /// Parses `events/header_page`, `printk_formats`, and the formats of events: groups, names and texts.
    /// What is malformed is left out.
    #[must_use]
    pub fn parse<'t>(
        header_page: &str,
        printk_formats: &str,
        formats: impl Iterator<Item = (&'t str, &'t str, &'t str)>,
        is_dense: bool,
    ) -> Self {
        let layout = PageLayout::parse(header_page);
        let layout = layout.unwrap_or_else(|_| PageLayout::guess("x86_64", 4096));
        let encoding = match is_dense {
            true => GenericEncoding::Denser,
            false => GenericEncoding::Legacy,
        };
        let mut plans = EventPlans::new(PrintkFormats::parse(printk_formats), encoding);
        let (mut switch, mut waking) = (None, None);
        for (group, name, text) in formats {
            let Ok(format) = EventFormat::parse(text) else {
                continue;
            };
            plans.add(group, name, &format);
            match name {
                "sched_switch" => switch = Some(format),
                "sched_waking" => waking = Some(format),
                _ => {}
            }
        }
        let compact = switch.zip(waking);
        let compact = compact.and_then(|(switch, waking)| columns_of(&switch, &waking).ok());
        Self {
            pages: PageReader { layout, compact },
            plans,
        }
    }

    /// Walks pages of a CPU, and calls `bundle` with each `FtraceEventBundle`.
    pub fn walk<'p>(&self, pages: impl Iterator<Item = &'p [u8]>, bundle: impl FnMut(&[u8])) {
        let mut handler = Handler {
            plans: &self.plans,
            indexes: SymbolIndexes::default(),
            bundle,
        };
        let mut buffers = BundleBuffers::default();
        let mut state = CpuState::new(0);
        let mut seen = SeenThreads::default();
        let mut builder = BundleBuilder::begin(&mut buffers, &mut state, None);
        for page in pages {
            let _ = builder.add_page(page, &self.pages, &mut seen, &mut handler);
        }
        builder.end(&mut handler);
    }
}

/// Parses `/proc/kallsyms`, and looks up an address.
#[must_use]
pub fn symbol(kallsyms: &str, address: u64) -> Option<String> {
    KernelSymbols::parse(kallsyms)
        .name(address)
        .map(str::to_owned)
}

struct Handler<'k, F> {
    plans: &'k EventPlans,
    indexes: SymbolIndexes,
    bundle: F,
}

impl<F: FnMut(&[u8])> PageHandler for Handler<'_, F> {
    fn record(
        &mut self,
        record: Record<'_>,
        bundle: &mut BundleBuilder<'_>,
        seen: &mut SeenThreads,
    ) {
        let Some(plan) = self.plans.get(record.id()) else {
            return;
        };
        if let Some(descriptor) = plan.descriptor() {
            bundle.add_descriptor(descriptor.number, &descriptor.fields);
        }
        let (timestamp_ns, payload) = (record.timestamp_ns, record.payload);
        let indexes = &mut self.indexes;
        let _ = bundle.add_event(timestamp_ns, |out| {
            plan.encode(timestamp_ns, payload, out, seen, indexes)
        });
    }

    fn bundle_ended(&mut self, bundle: &[u8]) {
        self.indexes.clear();
        (self.bundle)(bundle);
    }
}
