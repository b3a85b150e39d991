//! Options that change how events are encoded: timestamps in larger units or as absolute numbers,
//! the thread's processor time, no arguments, no names but literals. Used only by sequences whose
//! configuration sets one of these options.

use crate::call_site_names::CallSiteIds;
use crate::options::EventOptions;
use crate::placement::EventTime;
use crate::track::Track;
use tracezero_core::clock::{self, BUILTIN_CLOCK_BOOTTIME};
use tracezero_core::protos::{ClockSnapshot, TracePacket, TrackEvent, TrackEventDefaults};

/// A clock of the sequence that is incremental: each timestamp is the distance from the last one.
pub(super) const INCREMENTAL_CLOCK_ID: u32 = 64;
/// A clock of the sequence that counts like the trace clock, in units of several nanoseconds.
const UNIT_CLOCK_ID: u32 = 65;

/// The name that replaces names that the session filters out.
const FILTERED_NAME: &str = "FILTERED";

/// The state of a sequence with options that are not the defaults.
#[derive(Debug)]
pub(super) struct UnusualForm {
    options: EventOptions,
    timestamps: Timestamps,
    thread_time: Option<ThreadTime>,
}

impl UnusualForm {
    /// Creates the state; `None` if the options are the defaults. `thread` is the track of the
    /// thread.
    pub(super) fn new(options: EventOptions, thread: &Track) -> Option<Box<Self>> {
        (options != EventOptions::DEFAULT).then(|| {
            Box::new(Self {
                options,
                timestamps: Timestamps {
                    unit_ns: options.unit_ns,
                    is_incremental: options.has_incremental_timestamps,
                    last_ns: 0,
                    latest_ns: 0,
                },
                thread_time: options.thread_time_period_ns.map(|period_ns| ThreadTime {
                    track: thread.thread_time(options.unit_ns),
                    unit_ns: options.unit_ns,
                    period_ns,
                    reported_ns: 0,
                    due_at_ns: 0,
                }),
            })
        })
    }

    /// Starts the incremental state for an event at this time. Returns the time at which the
    /// sequence's clock starts, which is never before an earlier event.
    pub(super) fn start(&mut self, event_ns: u64) -> u64 {
        let started_ns = self.timestamps.start(event_ns);
        if let Some(thread_time) = &mut self.thread_time {
            thread_time.reported_ns = 0;
            thread_time.due_at_ns = 0;
        }
        started_ns
    }

    /// Returns the id of the clock of packets that name no clock.
    pub(super) const fn default_clock_id(&self) -> u32 {
        self.timestamps.default_clock_id()
    }

    /// Writes the values of the sequence's clocks at `now_ns`.
    pub(super) fn write_clocks(&self, now_ns: u64, snapshot: &mut ClockSnapshot<'_>) {
        self.timestamps.write_clocks(now_ns, snapshot);
    }

    pub(super) fn write_defaults(&self, defaults: &mut TrackEventDefaults<'_>) {
        if let Some(track) = self.thread_time_track() {
            defaults.add_extra_counter_track_uuids(track.uuid());
        }
    }

    /// Returns the counter track of thread times, if the session asks for them.
    pub(super) fn thread_time_track(&self) -> Option<&Track> {
        Some(&self.thread_time.as_ref()?.track)
    }

    /// Returns the text to write for a name that is not a literal.
    pub(super) fn name<'a>(&self, name: &'a str) -> &'a str {
        if self.options.has_dynamic_names {
            name
        } else {
            FILTERED_NAME
        }
    }

    /// Returns the iids of the argument names; none if the session filters arguments out.
    pub(super) fn arg_ids<'a>(&self, ids: &'a CallSiteIds) -> &'a [u32] {
        if self.options.has_annotations {
            &ids.args
        } else {
            &[]
        }
    }

    /// Sets the timestamp of a packet.
    #[cold]
    #[inline(never)]
    pub(super) fn set_time(&mut self, packet: &mut TracePacket<'_>, time: EventTime) {
        let (timestamp, clock_id) = self.timestamps.encode(time);
        packet.set_timestamp(timestamp);
        if let Some(clock_id) = clock_id {
            packet.set_timestamp_clock_id(clock_id);
        }
    }

    /// Adds the processor time that this thread has used since the last event on its track, if the
    /// session asks for it. Events with a given time get none.
    #[cold]
    #[inline(never)]
    pub(super) fn add_thread_time(&mut self, event: &mut TrackEvent<'_>, time: EventTime) {
        if let (EventTime::Now(now_ns), Some(thread_time)) = (time, &mut self.thread_time) {
            event.add_extra_counter_values(thread_time.since(now_ns, clock::thread_time_ns));
        }
    }
}

/// Encodes timestamps in units of one or several nanoseconds.
#[derive(Debug)]
struct Timestamps {
    unit_ns: u64,
    is_incremental: bool,
    /// The time from which the next timestamp counts, on the trace clock: the start of the sequence
    /// or, if timestamps are incremental, the last event's time rounded down to whole units. So the
    /// rounding errors of distances do not add up.
    last_ns: u64,
    /// The time of the latest event.
    latest_ns: u64,
}

impl Timestamps {
    /// Starts at the time of an event, but never before the latest event. Returns the start time.
    fn start(&mut self, event_ns: u64) -> u64 {
        self.last_ns = self.latest_ns.max(event_ns);
        self.last_ns
    }

    const fn default_clock_id(&self) -> u32 {
        if self.is_incremental {
            INCREMENTAL_CLOCK_ID
        } else {
            self.absolute_clock_id()
        }
    }

    const fn absolute_clock_id(&self) -> u32 {
        if self.unit_ns == 1 {
            BUILTIN_CLOCK_BOOTTIME
        } else {
            UNIT_CLOCK_ID
        }
    }

    fn write_clocks(&self, now_ns: u64, snapshot: &mut ClockSnapshot<'_>) {
        if self.is_incremental {
            snapshot.add_clocks(|clock| {
                clock.set_clock_id(INCREMENTAL_CLOCK_ID);
                clock.set_timestamp(now_ns / self.unit_ns);
                clock.set_is_incremental(true);
                clock.set_unit_multiplier_ns(self.unit_ns);
            });
        } else if self.unit_ns > 1 {
            snapshot.add_clocks(|clock| {
                clock.set_clock_id(UNIT_CLOCK_ID);
                clock.set_timestamp(now_ns / self.unit_ns);
                clock.set_unit_multiplier_ns(self.unit_ns);
            });
        }
    }

    /// Returns a timestamp, and its clock if that is not the default one.
    fn encode(&mut self, time: EventTime) -> (u64, Option<u32>) {
        let (timestamp, clock_id) = match time {
            EventTime::At(timestamp_ns) => (timestamp_ns, BUILTIN_CLOCK_BOOTTIME),
            EventTime::Now(now_ns) => {
                self.latest_ns = self.latest_ns.max(now_ns);
                match now_ns.checked_sub(self.last_ns) {
                    Some(distance_ns) => {
                        // Whole units are counted from the start of the sequence, not from 0. So
                        // after the sequence starts again, rounded times are never before earlier
                        // ones.
                        let units = distance_ns / self.unit_ns;
                        if self.is_incremental {
                            self.last_ns += units * self.unit_ns;
                            (units, INCREMENTAL_CLOCK_ID)
                        } else {
                            (
                                self.last_ns / self.unit_ns + units,
                                self.absolute_clock_id(),
                            )
                        }
                    }
                    // The last event is later: an argument of this event has written it.
                    None => (now_ns, BUILTIN_CLOCK_BOOTTIME),
                }
            }
        };
        let is_default = clock_id == self.default_clock_id();
        (timestamp, (!is_default).then_some(clock_id))
    }
}

/// The processor time that a thread has used.
#[derive(Debug)]
struct ThreadTime {
    /// The counter track; its values are differences, in units.
    track: Track,
    unit_ns: u64,
    /// The least time between two readings.
    period_ns: u64,
    /// The sum of the values so far.
    reported_ns: u64,
    /// The time of the next reading, on the trace clock.
    due_at_ns: u64,
}

impl ThreadTime {
    /// Returns the units since the last value; 0 if it is too early to `read` again.
    fn since(&mut self, now_ns: u64, read: impl FnOnce() -> u64) -> i64 {
        if now_ns < self.due_at_ns {
            return 0;
        }
        self.due_at_ns = now_ns.saturating_add(self.period_ns);
        let units = read().saturating_sub(self.reported_ns) / self.unit_ns;
        self.reported_ns += units * self.unit_ns;
        i64::try_from(units).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamps(unit_ns: u64, is_incremental: bool, last_ns: u64) -> Timestamps {
        Timestamps {
            unit_ns,
            is_incremental,
            last_ns,
            latest_ns: last_ns,
        }
    }

    #[test]
    fn distances_in_units_add_up_to_the_time_that_has_passed() {
        let mut timestamps = timestamps(1000, true, 500);
        let mut units = 0;
        for event in 1..=10_000 {
            let now_ns = 500 + event * 999;
            let (distance, clock_id) = timestamps.encode(EventTime::Now(now_ns));
            assert_eq!(clock_id, None);
            units += distance;
            let error_ns = now_ns - 500 - units * 1000;
            assert!(error_ns < 1000, "event {event}");
        }
    }

    #[test]
    fn earlier_time_is_written_absolute_and_moves_nothing() {
        for unit_ns in [1, 10] {
            let mut timestamps = timestamps(unit_ns, true, 1000);
            let before = timestamps.encode(EventTime::Now(990));
            assert_eq!(before, (990, Some(BUILTIN_CLOCK_BOOTTIME)));
            assert_eq!(
                timestamps.encode(EventTime::Now(1020)),
                (20 / unit_ns, None)
            );
        }
    }

    #[test]
    fn absolute_timestamps_are_on_the_default_clock() {
        for (unit_ns, clock_id) in [(1, BUILTIN_CLOCK_BOOTTIME), (1000, UNIT_CLOCK_ID)] {
            let mut timestamps = timestamps(unit_ns, false, 1_000_000);
            assert_eq!(timestamps.default_clock_id(), clock_id);
            for now_ns in [5_000_000, 3_000_000] {
                let expected = (now_ns / unit_ns, None);
                assert_eq!(timestamps.encode(EventTime::Now(now_ns)), expected);
            }
        }
    }

    #[test]
    fn restarted_sequence_never_goes_back_in_time() {
        let unit_ns = 1000;
        for is_incremental in [true, false] {
            let mut timestamps = timestamps(unit_ns, is_incremental, 0);
            let mut shown_ns = 0;
            // The event times of each start. In the last start, the first event is earlier than the
            // last event before.
            for events in [[900, 1850, 2899], [3100, 3200, 4950], [4500, 5000, 6001]] {
                let started_ns = timestamps.start(events[0]);
                // The reader's state: the clock's value, and the time that it stands for.
                let mut clock = (started_ns / unit_ns, started_ns);
                for now_ns in events {
                    let event_ns = match timestamps.encode(EventTime::Now(now_ns)) {
                        (timestamp_ns, Some(_)) => timestamp_ns,
                        (units, None) if is_incremental => {
                            clock.1 += units * unit_ns;
                            clock.1
                        }
                        (units, None) => clock.1 + (units - clock.0) * unit_ns,
                    };
                    assert!(
                        event_ns >= shown_ns,
                        "{started_ns}: {event_ns} < {shown_ns}"
                    );
                    assert!(
                        event_ns <= now_ns && now_ns < event_ns + unit_ns,
                        "{now_ns}"
                    );
                    shown_ns = event_ns;
                }
            }
        }
    }

    #[test]
    fn given_time_stays_in_nanoseconds_on_the_trace_clock() {
        let given = EventTime::At(1234);
        let boottime = Some(BUILTIN_CLOCK_BOOTTIME);
        assert_eq!(timestamps(1000, true, 0).encode(given), (1234, boottime));
        assert_eq!(timestamps(1000, false, 0).encode(given), (1234, boottime));
        assert_eq!(timestamps(1, false, 0).encode(given), (1234, None));
    }

    #[test]
    fn thread_times_carry_remainders_and_are_read_once_a_period() {
        let mut thread_time = ThreadTime {
            track: Track::current_thread().thread_time(100),
            unit_ns: 100,
            period_ns: 50,
            reported_ns: 0,
            due_at_ns: 0,
        };
        let mut read_at = |now_ns, reading| thread_time.since(now_ns, || reading);
        assert_eq!(read_at(1000, 12_345), 123);
        assert_eq!(read_at(1049, 99_999), 0);
        assert_eq!(read_at(1050, 12_399), 0);
        assert_eq!(read_at(1100, 12_400), 1);
    }
}
