//! Configurations in protobuf's text format: each file in `configs/` must give the configuration
//! that a test builds. The files follow the examples in Perfetto's documentation.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::time::Duration;

use tracezero::android::{AndroidConfig, LockdownMode};
use tracezero::{
    BufferConfig, BufferExhaustedPolicy, BuiltinDataSources, Compression, ConfigError,
    DataSourceConfig, PrimaryTraceClock, SessionSemaphore, TraceConfig, TrackEventConfig, Trigger,
    TriggerConfig, TriggerMode, WriteFlushMode,
};

/// Reads a file of `configs/`, and checks it as the start of a session does.
macro_rules! read {
    ($file:literal) => {
        TraceConfig::from_text(include_str!(concat!("configs/", $file, ".txtpb")))
            .inspect(|config| config.check().unwrap())
            .unwrap()
    };
}

fn ring(size_kb: u32) -> TraceConfig {
    TraceConfig::empty().add_buffer(BufferConfig::ring(size_kb))
}

fn track_event() -> DataSourceConfig {
    DataSourceConfig::new("track_event")
}

#[test]
fn buffers_are_rings_unless_they_discard() {
    let expected = ring(4096).add_buffer(BufferConfig::discard(8192));
    assert_eq!(read!("two_policies"), expected);
}

#[test]
fn producers_are_chosen_by_name_or_expression() {
    let source = track_event()
        .producer_name("com.example.editor")
        .producer_name("com.example.viewer")
        .producer_name_regex(r"com\.example\.player(-[0-9]+)?");
    assert_eq!(read!("producer_filter"), ring(4096).add_data_source(source));
}

#[test]
fn triggers_start_stop_or_clone() {
    let start = TriggerConfig::new(TriggerMode::Start, Duration::from_secs(30))
        .add_trigger(Trigger::new("search_is_slow").stop_delay(Duration::from_secs(5)));
    let expected = ring(4096).add_data_source(track_event());
    assert_eq!(read!("start_trigger"), expected.clone().triggers(start));

    let stop = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(30)).add_trigger(
        Trigger::new("missed_frame")
            .producer_name_regex(r"com\.example\..*")
            .stop_delay(Duration::from_secs(1))
            .max_per_24_h(5)
            .skip_probability(0.25),
    );
    assert_eq!(read!("stop_trigger"), expected.triggers(stop));

    let clone = TriggerConfig::new(TriggerMode::CloneSnapshot, Duration::from_secs(3600))
        .add_trigger(
            Trigger::new("com.example.out-of-memory").stop_delay(Duration::from_millis(500)),
        );
    let expected = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(524_288).transfer_on_clone())
        .add_data_source(DataSourceConfig::new("com.example.heap"))
        .add_data_source(DataSourceConfig::new("com.example.packages"))
        .data_source_stop_timeout(Duration::from_secs(100))
        .triggers(clone);
    assert_eq!(read!("clone_trigger"), expected);
}

#[test]
fn a_part_of_a_configuration_is_read_but_not_started() {
    let text = include_str!("configs/one_data_source.txtpb");
    let config = TraceConfig::from_text(text).unwrap();
    let source = DataSourceConfig::new("com.example.power");
    assert_eq!(config, TraceConfig::empty().add_data_source(source));
    assert!(config.check().is_err());
    assert_eq!(config.add_buffer(BufferConfig::ring(64)).check(), Ok(()));
}

#[test]
fn data_sources_of_other_producers_can_be_asked_for() {
    let expected = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(63_488))
        .add_data_source(DataSourceConfig::new("linux.sysfs_power"))
        .add_data_source(DataSourceConfig::new("metatrace"))
        .add_data_source(DataSourceConfig::new("linux.system_info").target_index(0))
        .duration(Duration::from_secs(10));
    assert_eq!(read!("several_data_sources"), expected);
}

#[test]
fn buffers_are_targeted_by_name_by_index_or_by_both() {
    let named = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024).named("small"))
        .add_buffer(BufferConfig::ring(4096).named("frames"));
    let frames = || DataSourceConfig::new("com.example.frames");
    assert_eq!(
        read!("named_buffers"),
        named
            .clone()
            .add_data_source(frames().target_name("frames"))
    );
    assert_eq!(
        read!("named_and_indexed_buffers"),
        named.add_data_source(frames().target_index(1).target_name("frames"))
    );
    assert_eq!(
        read!("indexed_buffers"),
        ring(1024)
            .add_buffer(BufferConfig::ring(4096))
            .add_data_source(frames().target_index(1))
    );
}

#[test]
fn categories_of_track_events_are_chosen_by_pattern() {
    let events = TrackEventConfig::new().disable("*").enable("rendering");
    assert_eq!(
        read!("track_event_categories"),
        ring(1024).add_data_source(track_event().track_event(&events))
    );
}

#[test]
fn long_traces_are_streamed_into_a_file() {
    let expected = ring(16_384)
        .add_data_source(track_event())
        .write_into_file()
        .output_path("/var/tmp/long.pftrace")
        .file_write_period(Duration::from_millis(2500))
        .max_file_size_bytes(1_000_000_000)
        .flush_period(Duration::from_secs(30))
        .incremental_state_clear_period(Duration::from_secs(5));
    assert_eq!(read!("long_trace"), expected);
}

#[test]
fn shared_memory_is_chosen_for_each_producer() {
    let expected = ring(65_536)
        .shared_memory_for("com.example.camera", 4096, 16)
        .shared_memory(1024, 0)
        .add_data_source(
            DataSourceConfig::new("com.example.images")
                .exhausted_policy(BufferExhaustedPolicy::StallThenDrop),
        );
    assert_eq!(read!("shared_memory"), expected);
}

#[test]
fn every_field_that_is_supported_can_be_written() {
    let events = TrackEventConfig::new()
        .disable("*")
        .enable("app")
        .disable_tag("slow")
        .enable_tag("fast")
        .disable_incremental_timestamps()
        .timestamp_unit(Duration::from_micros(1))
        .filter_debug_annotations()
        .thread_time_sampling(Duration::from_millis(1))
        .filter_dynamic_event_names();
    let source = track_event()
        .target_index(0)
        .target_name("only")
        .exhausted_policy(BufferExhaustedPolicy::Stall)
        .track_event(&events)
        .producer_name("a")
        .producer_name_regex("b.*");
    let buffer = BufferConfig::ring(64)
        .named("only")
        .transfer_on_clone()
        .clear_before_clone();
    let builtin = BuiltinDataSources::new()
        .without_clock_snapshots()
        .without_trace_config()
        .without_system_info()
        .without_service_events()
        .without_chunk_usage_histograms()
        .without_extension_descriptors()
        .with_concurrent_session_events()
        .primary_trace_clock(PrimaryTraceClock::Monotonic)
        .snapshot_interval(Duration::from_millis(500));
    let android = AndroidConfig::new()
        .bugreport_score(-1)
        .bugreport_filename("a-b_c.pftrace")
        .enable_extra_guardrails()
        .guardrail_max_buffers_kib(200_000)
        .lockdown_mode(LockdownMode::Clear);
    let expected = TraceConfig::empty()
        .add_buffer(buffer)
        .add_data_source(source)
        // Field 1000, a string of 7 bytes.
        .add_data_source(
            DataSourceConfig::new("com.example.old").source_specific(b"\xc2\x3e\x07verbose"),
        )
        .builtin_data_sources(builtin)
        .shared_memory_for("a", 256, 4)
        .incremental_state_clear_period(Duration::from_secs(1))
        .duration(Duration::from_secs(5))
        .prefer_suspend_clock_for_duration()
        .data_source_stop_timeout(Duration::from_secs(6))
        .write_into_file()
        .output_path("trace.pftrace")
        .file_write_period(Duration::from_millis(200))
        .max_file_size_bytes(5_000_000_000)
        .flush_period(Duration::from_millis(700))
        .flush_timeout(Duration::from_millis(800))
        .write_flush_mode(WriteFlushMode::Enabled)
        .sync_after_write()
        .compression(Compression::Zstd { level: 7 })
        .unique_session_name("one")
        .trace_uuid(-2, 0x1234)
        .add_trace_attribute("build", 42)
        .add_trace_attribute("branch", "main")
        .android(android)
        .add_session_semaphore(SessionSemaphore::new("gpu", 3))
        .exclusive_prio(9);
    let config = TraceConfig::from_text(include_str!("configs/every_field.txtpb")).unwrap();
    assert_eq!(config, expected);
    // Without the feature `zstd`, its compression is rejected.
    assert_eq!(config.check().is_ok(), cfg!(feature = "zstd"));
}

#[test]
fn every_notation_of_the_text_format_is_understood() {
    let quotes = "quotes \" ' ? \\ ' and bytes AB\t\nä😀 \x07\x08\x0c\r\x0b";
    let trigger = |name, probability| Trigger::new(name).skip_probability(probability);
    let triggers = TriggerConfig::new(TriggerMode::Stop, Duration::from_secs(1))
        .add_trigger(trigger("a", 1.0))
        .add_trigger(trigger("b", 0.5))
        .add_trigger(trigger("c", 0.25))
        .add_trigger(trigger("d", 0.1));
    let expected = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64).named("one"))
        .add_buffer(BufferConfig::ring(64))
        .add_buffer(BufferConfig::ring(64).named("two"))
        .add_data_source(DataSourceConfig::new(quotes))
        .add_data_source(
            DataSourceConfig::new("x")
                .target_index(2)
                .producer_name("a")
                .producer_name("b"),
        )
        .prefer_suspend_clock_for_duration()
        .android(AndroidConfig::new().bugreport_score(-7))
        .triggers(triggers);
    assert_eq!(read!("every_notation"), expected);
    assert_eq!(TraceConfig::from_text(""), Ok(TraceConfig::empty()));
    assert_eq!(
        TraceConfig::from_text("\u{feff}# nothing"),
        Ok(TraceConfig::empty())
    );
}

#[test]
fn no_text_makes_the_reader_panic() {
    let texts = [
        include_str!("configs/every_field.txtpb"),
        include_str!("configs/every_notation.txtpb"),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut refused = 0;
    for round in 0..4000 {
        let mut characters: Vec<char> = texts[round % 2].chars().collect();
        for _ in 0..=random(4) {
            let at = random(characters.len());
            let other = characters[random(characters.len())];
            match random(4) {
                0 => characters[at] = other,
                1 => characters.insert(at, other),
                2 => drop(characters.remove(at)),
                _ => characters.truncate(at.max(1)),
            }
        }
        let text: String = characters.into_iter().collect();
        match TraceConfig::from_text(&text) {
            Ok(_) => {}
            Err(ConfigError::InText { line, column, .. }) => {
                refused += 1;
                // The error may be at the end, on a line of its own.
                let lines = text.lines().count() + 1;
                assert!((1..=lines).contains(&line) && column >= 1, "{text}");
            }
            Err(other) => panic!("an error without a place: {other}"),
        }
    }
    assert!(refused > 1000, "{refused}");
}
