//! Events that the SDK's macros recorded, read back.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use support::alone;
use tracezero::reader::{
    ArgValue, Args, EventKind, InTimeOrder, PacketItem, PacketReader, Record, Slices, TraceReader,
    TrackKind,
};
use tracezero::{
    BufferConfig, CounterTrack, CounterValue, DataSourceConfig, Flow, InMemorySession, TraceConfig,
    Track, TrackEventConfig, Unit, counter, dict, instant, span,
};

fn record(config: TraceConfig, work: impl FnOnce()) -> Vec<u8> {
    let _alone = alone();
    let session = config.record_in_memory().expect("a session");
    work();
    session.finish().0
}

/// Returns a configuration with these options of events.
fn with(config: &TrackEventConfig) -> TraceConfig {
    let data_source = DataSourceConfig::new("track_event").track_event(config);
    TraceConfig::default().add_data_source(data_source)
}

/// Returns each event as text: kind, name, categories and arguments.
fn events(trace: &[u8]) -> Vec<String> {
    let mut reader = TraceReader::new(trace);
    let mut events = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        match record {
            Record::Event(event) => {
                let categories: Vec<_> = event.categories().collect();
                let kind = match event.head.kind {
                    EventKind::Counter(value) => format!("{value:?}"),
                    kind => format!("{kind:?}"),
                };
                events.push(format!(
                    "{kind} {} [{}]{}",
                    event.name(),
                    categories.join(","),
                    words(event.args())
                ));
            }
            Record::Track(_) | Record::Packet(_) => {}
            other => panic!("{other:?}"),
        }
    }
    events
}

fn words(args: Args<'_>) -> String {
    let words = args.map(|arg| {
        let value = match arg.value {
            ArgValue::Text(text) => format!("{text:?}"),
            ArgValue::Bool(value) => value.to_string(),
            ArgValue::Uint(value) => format!("{value}u"),
            ArgValue::Int(value) => value.to_string(),
            ArgValue::Double(value) => value.to_string(),
            ArgValue::Dict(args) => format!("{{{} }}", words(args)),
            ArgValue::Array(args) => format!("[{} ]", words(args)),
            other => format!("{other:?}"),
        };
        format!(" {}={value}", arg.name)
    });
    words.collect()
}

#[test]
fn names_categories_and_arguments_are_those_of_the_macros() {
    let trace = record(TraceConfig::default(), || {
        let _span = span!(
            "io,disk",
            "read",
            path = "a.txt",
            bytes = 12_u64,
            whole = true
        );
        instant!("app", format!("pass {}", 1), ratio = 0.5, delta = -3);
        instant!(
            "app",
            "nested",
            sizes = [1, 2],
            window = dict(|window| {
                window.add("width", &640);
            })
        );
        counter!("app", "queue", 7);
    });
    let expected = [
        "SliceBegin read [io,disk] path=\"a.txt\" bytes=12u whole=true",
        "Instant pass 1 [app] ratio=0.5 delta=-3",
        "Instant nested [app] sizes=[ =1 =2 ] window={ width=640 }",
        "Int(7)  []",
        "SliceEnd  []",
    ];
    assert_eq!(events(&trace), expected);
}

#[test]
fn tracks_say_what_they_are_and_what_they_are_under() {
    let trace = record(TraceConfig::default(), || {
        let heap = CounterTrack::new("heap").unit(Unit::Bytes).multiplier(1024);
        counter!("app", &heap, 3);
        let lane = Track::new("lane").child("inner");
        instant!("app", "here", track: &lane);
    });
    let mut reader = TraceReader::new(&trace[..]);
    let mut values = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Event(event) = record {
            values.push((
                event.head.kind,
                event
                    .tracks()
                    .title(event.head.track, event.names())
                    .to_owned(),
            ));
        }
    }
    let value = CounterValue::Int(3 * 1024);
    let expected = [
        (EventKind::Counter(value), "heap".to_owned()),
        (EventKind::Instant, "inner".to_owned()),
    ];
    assert_eq!(values, expected);

    let (tracks, names) = (reader.tracks(), reader.names());
    let find = |title: &str| {
        let found = tracks
            .iter()
            .find(|(id, _)| tracks.title(*id, names) == title);
        found.expect("such a track").0
    };
    let TrackKind::Counter(counter) = &tracks.track(find("heap")).kind else {
        panic!("{:?}", tracks.track(find("heap")))
    };
    assert_eq!(
        (counter.unit_multiplier, counter.is_incremental),
        (1024, false)
    );
    let above: Vec<_> = tracks
        .ancestry(find("inner"))
        .map(|(id, _)| tracks.title(id, names).to_owned())
        .collect();
    assert_eq!(above[..2], ["inner", "lane"]);
    let pid = i32::try_from(std::process::id()).expect("a pid");
    assert_eq!(tracks.pid_of(find("inner")), Some(pid));
    assert_eq!(tracks.thread_of(find("inner")), None);
    assert!(tracks.iter().all(|(_, track)| track.is_described));
}

#[test]
fn times_are_those_of_the_trace_clock_in_all_units() {
    let configs = [
        TrackEventConfig::new(),
        TrackEventConfig::new().disable_incremental_timestamps(),
        TrackEventConfig::new().timestamp_unit(Duration::from_micros(1)),
    ];
    for config in configs {
        let begin_ns = tracezero::clock::now_ns();
        let trace = record(with(&config), || {
            for _ in 0..5 {
                instant!("app", "tick");
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            instant!("app", "then", at: 123_456_789);
        });
        let end_ns = tracezero::clock::now_ns();
        let mut reader = TraceReader::new(&trace[..]);
        let mut times = Vec::new();
        while let Some(record) = reader.next().expect("it can be read") {
            if let Record::Event(event) = record {
                times.push(event.head.timestamp_ns);
            }
        }
        assert_eq!(times.pop(), Some(123_456_789));
        assert_eq!(times.len(), 5);
        assert!(times.is_sorted());
        // Timestamps in microseconds are rounded.
        assert!(
            times[0] + 1000 >= begin_ns && times[4] <= end_ns,
            "{begin_ns} {times:?} {end_ns}"
        );
        assert!(times[4] - times[0] >= 200_000);
    }
}

/// Returns the processor time of this thread. It advances only while the thread runs.
fn thread_time_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[test]
fn counters_of_threads_come_along_with_events_and_are_added_up() {
    let config = TrackEventConfig::new().thread_time_sampling(Duration::ZERO);
    let trace = record(with(&config), || {
        for _ in 0..3 {
            let busy_until_ns = thread_time_ns() + 300_000;
            while thread_time_ns() < busy_until_ns {}
            instant!("app", "busy");
        }
    });
    let mut reader = TraceReader::new(&trace[..]);
    let mut values = Vec::new();
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Event(event) = record {
            let [(_, CounterValue::Int(value))] = event.extra_counters() else {
                panic!("{:?}", event.extra_counters())
            };
            values.push(*value);
        }
    }
    assert_eq!(values.len(), 3);
    assert!(values.is_sorted(), "sums of differences: {values:?}");
    assert!(values[2] >= values[0] + 600_000, "nanoseconds: {values:?}");
}

#[test]
fn flows_join_threads_and_slices_pair_up() {
    let trace = record(TraceConfig::default(), || {
        let flow = Flow::new();
        let request = span!("http", "request", track: &Track::unique("request"), flow: &flow);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _answer = span!("http", "answer", last_flow: &flow);
                drop(request);
            });
        });
    });
    let mut reader = TraceReader::new(&trace[..]);
    let (mut order, mut slices) = (InTimeOrder::new(), Slices::new());
    let (mut flows, mut ended) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next().expect("it can be read") {
        if let Record::Event(event) = record {
            flows.extend(event.flows().map(|id| (id, "goes on")));
            flows.extend(event.terminating_flows().map(|id| (id, "ends")));
            order.add(&event.head, event.tracks(), |event| {
                slices.add(event, |_| (), |slice| ended.push(slice));
            });
        }
    }
    order.finish(|event| slices.add(event, |_| (), |slice| ended.push(slice)));
    flows.sort_unstable();
    assert_eq!(flows.len(), 2, "{flows:?}");
    assert_eq!(flows[0].0, flows[1].0);
    assert_eq!([flows[0].1, flows[1].1], ["ends", "goes on"]);
    let names: Vec<_> = ended
        .iter()
        .map(|slice| reader.names().text(slice.begin.name))
        .collect();
    assert_eq!(names, ["answer", "request"]);
    assert_eq!(slices.open().count(), 0);
}

#[test]
fn losses_are_reported_in_their_place() {
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .record_all();
    let trace = record(config, || {
        for number in 0..20_000 {
            instant!("app", "many", number);
        }
    });
    let mut reader = TraceReader::new(&trace[..]);
    let (mut losses, mut events) = (Vec::new(), 0);
    while let Some(record) = reader.next().expect("it can be read") {
        match record {
            Record::Loss(loss) => losses.push(loss),
            Record::Event(_) => events += 1,
            _ => {}
        }
    }
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].is_at_start);
    assert_eq!(
        losses[0].causes().collect::<Vec<_>>(),
        ["PRESENT", "OVERWRITE"]
    );
    assert!(events > 100, "a quarter is unreadable at most: {events}");
}

#[test]
fn packets_come_whole_and_in_the_order_of_the_file() {
    let trace = record(TraceConfig::default(), || instant!("app", "here"));
    let mut reader = PacketReader::new(&trace[..]);
    let mut read = Vec::new();
    while let Some(item) = reader.next().expect("it can be read") {
        let PacketItem::Packet(packet) = item else {
            panic!("{item:?}")
        };
        assert_eq!(packet.place.index, read.len() as u64);
        read.push((packet.place.offset as usize, packet.bytes.to_vec()));
    }
    assert_eq!(
        (reader.packets(), reader.offset()),
        (read.len() as u64, trace.len() as u64)
    );
    let ends = read.iter().skip(1).map(|(offset, _)| *offset);
    for ((offset, bytes), end) in read.iter().zip(ends.chain([trace.len()])) {
        assert_eq!(trace[*offset], 0x0a);
        assert!(trace[*offset..end].ends_with(bytes));
    }
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
#[test]
fn compressed_packets_are_the_same_as_others() {
    let compressions = [
        #[cfg(feature = "deflate")]
        tracezero::Compression::Deflate,
        #[cfg(feature = "zstd")]
        tracezero::Compression::Zstd { level: 3 },
    ];
    for compression in compressions {
        let work = || {
            for number in 0..1000 {
                instant!("app", "here", number);
            }
        };
        let trace = record(TraceConfig::default().compression(compression), work);
        assert!(trace.len() < 10_000, "{}", trace.len());
        let events = events(&trace);
        assert_eq!(events.len(), 1000);
        assert_eq!(events[999], "Instant here [app] number=999");

        // Finds the begin of the compressed bytes. Damage there is always noticed; damage of other
        // bytes need not be, because not all bytes are covered by a checksum.
        let begins: [&[u8]; 2] = [&[0x78], &[0x28, 0xb5, 0x2f, 0xfd]];
        let begin =
            (0..trace.len()).find(|at| begins.iter().any(|begin| trace[*at..].starts_with(begin)));
        let mut broken = trace;
        broken[begin.expect("compressed packets")] ^= 0xff;
        let mut reader = TraceReader::new(&broken[..]);
        let mut damages = 0;
        while let Some(record) = reader.next().expect("it can be read") {
            damages += usize::from(matches!(record, Record::Damage(_)));
        }
        assert!(damages > 0);
    }
}

#[cfg(not(feature = "deflate"))]
#[test]
fn compressed_packets_without_feature_are_a_named_error() {
    // A packet with the field for compressed packets.
    let trace = [0x0a, 5, 0x92, 0x03, 2, 0x78, 0x9c];
    let error = TraceReader::new(&trace[..])
        .next()
        .expect_err("it cannot be read");
    assert_eq!(
        error.to_string(),
        "the packets at offset 0 are compressed; build tracezero with its feature `deflate` to read \
         them"
    );
}

#[test]
fn an_empty_file_is_a_trace_without_packets() {
    assert!(
        TraceReader::new(&[][..])
            .next()
            .expect("it can be read")
            .is_none()
    );
    let session = InMemorySession::start().expect("a session");
    drop(session);
}
