//! Divides the time of spans and threads by states of threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tracezero_reader::kernel::{Activity, ActivityTimes, KernelEvents, KernelTimelines};
use tracezero_reader::{NameId, NameTable, TrackTable};

use crate::thread_states::{SpanLog, ThreadName, Threads};
use crate::tracks::SpanPlace;

/// Collects what is needed to tell the states of threads.
#[derive(Debug, Default)]
pub(super) struct KernelHalf {
    pub(super) spans: SpanLog,
    pub(super) events: KernelEvents,
}

/// What a trace tells of the states of threads.
#[derive(Debug)]
pub(super) struct KernelStates {
    spans: SpanLog,
    pub(super) timelines: KernelTimelines,
}

/// The tables of states.
#[derive(Debug)]
pub(super) struct StateTables {
    /// The spans on threads, the longest total first.
    pub(super) spans: Vec<SpanStates>,
    /// The threads, those that ran longest first.
    pub(super) threads: Vec<ThreadStates>,
    /// The number of times in which events of a core are missing.
    pub(super) gaps: u64,
    /// The number of events that the kernel lost, as far as it is known.
    pub(super) lost_events: u64,
    /// The number of switches that are missing, although nothing was lost.
    pub(super) missing_switches: u64,
}

/// The spans of a name and category.
#[derive(Debug)]
pub(super) struct SpanStates {
    pub(super) name: NameId,
    pub(super) category: NameId,
    pub(super) count: u64,
    pub(super) times: ActivityTimes,
}

/// A thread.
#[derive(Debug)]
pub(super) struct ThreadStates {
    pub(super) name: ThreadName,
    pub(super) tid: i32,
    pub(super) times: ActivityTimes,
}

impl KernelHalf {
    pub(super) fn finish(mut self) -> KernelStates {
        self.spans.finish();
        KernelStates {
            spans: self.spans,
            timelines: self.events.finish(),
        }
    }
}

impl KernelStates {
    pub(super) fn tables(&self, tracks: &TrackTable, names: &NameTable) -> StateTables {
        let timelines = &self.timelines;
        let threads = Threads::new(timelines, &self.spans, tracks, names);
        let mut spans: BTreeMap<(NameId, NameId), SpanStates> = BTreeMap::new();
        for span in self.spans.spans() {
            if SpanPlace::of(tracks.track(span.track)) != SpanPlace::Thread {
                continue;
            }
            let key = (span.name, span.category);
            let row = spans.entry(key).or_insert_with(|| SpanStates {
                name: span.name,
                category: span.category,
                count: 0,
                times: ActivityTimes::default(),
            });
            row.count += 1;
            match threads.of_track(span.track) {
                Some(thread) => {
                    let range = span.begin_ns..span.end_ns;
                    row.times.add_all(&timelines.activities(thread, range));
                }
                None => row.times.add(Activity::Unknown, span.duration_ns()),
            }
        }
        let mut spans: Vec<SpanStates> = spans.into_values().collect();
        spans.sort_by_key(|row| Reverse(row.times.total_ns()));
        let rows = timelines.threads().map(|thread| ThreadStates {
            name: threads.name(thread.id),
            tid: thread.tid,
            times: timelines.activities(thread.id, thread.begin_ns..thread.end_ns),
        });
        let mut rows: Vec<ThreadStates> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.times.of(Activity::Running)));
        StateTables {
            spans,
            threads: rows,
            gaps: timelines.gaps().len() as u64,
            missing_switches: timelines.counts().missing_switches,
            lost_events: timelines.losses().iter().map(|loss| loss.events).sum(),
        }
    }
}
