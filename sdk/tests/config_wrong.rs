//! Wrong configurations, each with its error text.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use tracezero::TraceConfig;

/// Returns the error of a text that cannot be parsed, or that has an invalid name or value.
fn read_error(text: &str) -> String {
    TraceConfig::from_text(text).unwrap_err().to_string()
}

/// Returns the error of a configuration that can be parsed but not started.
fn check_error(text: &str) -> String {
    let config = TraceConfig::from_text(text).unwrap();
    config.check().unwrap_err().to_string()
}

/// Compares all error texts before it fails.
fn assert_errors(error: impl Fn(&str) -> String, cases: &[(&str, &str)]) {
    let mut differences = String::new();
    for (text, expected) in cases {
        let said = error(text);
        if said != *expected {
            differences += &format!("\n{text}\n  expected: {expected}\n  said:     {said}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn malformed_text_is_refused_at_the_mistake() {
    assert_errors(
        read_error,
        &[
            (
                "buffers {\n  size_kb: 64\n",
                "line 3, column 1: expected '}' for the message at line 1, column 9, found the end of the text",
            ),
            (
                "buffers { size_kb: 64 }}",
                "line 1, column 24: expected a field name, found '}'",
            ),
            (
                "buffers { size_kb 64 }",
                "line 1, column 19: expected ':' or '{', found 64",
            ),
            (
                "buffers { size_kb: }",
                "line 1, column 20: expected a value, found '}'",
            ),
            (
                "buffers < size_kb: 64 }",
                "line 1, column 23: expected a field name or '>', found '}'",
            ),
            (
                r#"buffers { name: "events }"#,
                "line 1, column 17: the string has no closing quote on its line",
            ),
            (
                r#"buffers { name: "\q" }"#,
                r"line 1, column 18: unknown escape \q in a string",
            ),
            (
                r#"buffers { name: "\400" }"#,
                r"line 1, column 18: the escape \400 is more than one byte",
            ),
            (
                r#"buffers { name: "\x" }"#,
                r"line 1, column 18: the escape \x has no digits after it",
            ),
            (
                r#"buffers { name: "\ud800" }"#,
                r"line 1, column 18: the escape \u needs 4 hexadecimal digits of a character",
            ),
            (
                "buffers { size_kb: 64 } | duration_ms: 1",
                "line 1, column 25: unexpected character '|'",
            ),
            (
                r#""buffers" { size_kb: 64 }"#,
                r#"line 1, column 1: expected a field name, found "buffers""#,
            ),
            (
                "producers [ { shm_size_kb: 256 } { shm_size_kb: 256 } ]",
                "line 1, column 34: expected ',' or ']', found '{'",
            ),
            (
                "[com.example.extension] { a: 1 }",
                "line 1, column 1: extensions (names in brackets) are not supported; leave them out",
            ),
            (
                r#"duration_ms: -"5""#,
                r#"line 1, column 15: expected a number, found "5""#,
            ),
            (
                "duration_ms = 5",
                "line 1, column 13: unexpected character '='",
            ),
            (
                &"a { ".repeat(40),
                "line 1, column 131: messages nest deeper than 32 levels",
            ),
        ],
    );
}

#[test]
fn unknown_and_conflicting_fields_are_refused_with_suggestions() {
    assert_errors(
        read_error,
        &[
            (
                "bufers { size_kb: 64 }",
                "line 1, column 1: bufers: unknown field: did you mean buffers?",
            ),
            (
                "buffers {\n  size: 64\n}",
                "line 2, column 3: buffers[0].size: unknown field: did you mean size_kb?",
            ),
            (
                "trigger_timeout_ms: 30000",
                "line 1, column 1: trigger_timeout_ms: unknown field: did you mean trigger_config.trigger_timeout_ms?",
            ),
            (
                "buffers { size_kb: 64 }\nbuffers {\n  fill_policy: RING\n}",
                "line 3, column 3: buffers[1].fill_policy: unknown value RING: did you mean RING_BUFFER?",
            ),
            (
                "lockdown_mode: OPEN_TO_ALL",
                "line 1, column 1: lockdown_mode: unknown value OPEN_TO_ALL: use one of LOCKDOWN_UNCHANGED, LOCKDOWN_CLEAR, LOCKDOWN_SET",
            ),
            (
                r#"data_sources { name: "track_event" }"#,
                "line 1, column 16: data_sources[0].name: unknown field: did you mean config.name?",
            ),
            (
                "duration_ms: 1 duration_ms: 2",
                "line 1, column 16: duration_ms: is given twice; remove one",
            ),
            (
                "duration_ms: [1, 2]",
                "line 1, column 1: duration_ms: takes one value, not a list",
            ),
            (
                r#"trace_attributes { attribute { key: "a" long_value: 1 string_value: "b" } }"#,
                "line 1, column 55: trace_attributes.attribute[0].string_value: conflicts with long_value, which is given before; remove one",
            ),
        ],
    );
}

#[test]
fn values_that_a_field_cannot_have_are_refused_with_the_value() {
    assert_errors(
        read_error,
        &[
            (
                "duration_ms: 4294967296",
                "line 1, column 1: duration_ms: 4294967296 is not within 0 to 4294967295",
            ),
            (
                "duration_ms: -1",
                "line 1, column 1: duration_ms: -1 is not within 0 to 4294967295",
            ),
            (
                r#"duration_ms: "5""#,
                r#"line 1, column 1: duration_ms: "5" is not a whole number"#,
            ),
            (
                "duration_ms: 5s",
                "line 1, column 1: duration_ms: 5s is not a whole number",
            ),
            (
                "duration_ms: 1.5",
                "line 1, column 1: duration_ms: 1.5 is not a whole number",
            ),
            (
                "duration_ms: 099",
                "line 1, column 1: duration_ms: 099 is not a whole number",
            ),
            (
                "bugreport_score: 3000000000",
                "line 1, column 1: bugreport_score: 3000000000 is not within -2147483648 to 2147483647",
            ),
            (
                "write_into_file: yes",
                "line 1, column 1: write_into_file: yes is not true or false",
            ),
            (
                "write_into_file: 2",
                "line 1, column 1: write_into_file: 2 is not true or false",
            ),
            (
                "unique_session_name: one",
                "line 1, column 1: unique_session_name: one is not a string in quotes",
            ),
            (
                r#"unique_session_name: "\xff""#,
                r#"line 1, column 1: unique_session_name: "�" is not UTF-8"#,
            ),
            (
                "trigger_config: STOP_TRACING",
                "line 1, column 1: trigger_config: STOP_TRACING is not a message in braces",
            ),
            (
                "buffers: 64",
                "line 1, column 1: buffers[0]: 64 is not a message in braces",
            ),
            (
                "duration_ms { value: 5 }",
                "line 1, column 1: duration_ms: a message is not a whole number",
            ),
            (
                "buffers { size_kb: 64 fill_policy: 3 }",
                "line 1, column 23: buffers[0].fill_policy: unknown value 3",
            ),
            (
                r#"buffers { size_kb: 64 experimental_mode: "V2" }"#,
                r#"line 1, column 23: buffers[0].experimental_mode: "V2" is not the name of a value"#,
            ),
            (
                r#"trigger_config { triggers { name: "a" skip_probability: half } }"#,
                "line 1, column 39: trigger_config.triggers[0].skip_probability: half is not a number",
            ),
            (
                "builtin_data_sources { primary_trace_clock: BUILTIN_CLOCK_TSC }",
                "line 1, column 24: builtin_data_sources.primary_trace_clock: the value 9 is not supported",
            ),
            (
                "trigger_config { trigger_mode: 3 }",
                "line 1, column 18: trigger_config.trigger_mode: unknown value 3",
            ),
            (
                "trigger_config {\n  triggers { name: \"a\" }\n}",
                "line 1, column 1: trigger_config.trigger_mode: is missing; give START_TRACING, STOP_TRACING or CLONE_SNAPSHOT",
            ),
            (
                "producers { producer_name: \"a\" }\nproducers { producer_name: \"a\" }",
                r#"line 2, column 13: producers[1].producer_name: "a" is already the name of producers[0]; remove one of them"#,
            ),
            (
                "data_sources {\n  config { name: \"x\" }\n  machine_name_filter: \"host\"\n  machine_name_filter: \"guest\"\n}",
                r#"line 4, column 3: data_sources[0].machine_name_filter[1]: the machine "guest" is not supported; use "host""#,
            ),
        ],
    );
}

#[test]
fn unsupported_settings_are_refused_with_advice() {
    assert_errors(
        read_error,
        &[
            (
                "data_sources {\n  config {\n    name: \"android.heapprofd\"\n    heapprofd_config { sampling_interval_bytes: 4096 }\n  }\n}",
                "line 4, column 5: data_sources[0].config.heapprofd_config is not supported; leave it out, or decode the configuration from protobuf (this crate passes its bytes on, but does not have its schema)",
            ),
            (
                r#"data_sources { config { name: "x" interceptor_config { name: "console" } } }"#,
                "line 1, column 35: data_sources[0].config.interceptor_config is not supported; leave it out, and read the packets from the trace",
            ),
            (
                r#"data_sources { config { name: "x" priority_boost { priority: 1 } } }"#,
                "line 1, column 35: data_sources[0].config.priority_boost is not supported; leave it out, and give the process its priority by other means",
            ),
            (
                "priority_boost { policy: POLICY_SCHED_FIFO }",
                "line 1, column 1: priority_boost is not supported; leave it out, and give the process its priority by other means",
            ),
            (
                r#"trace_filter { bytecode: "\001" }"#,
                "line 1, column 1: trace_filter is not supported; leave it out, and filter the finished trace",
            ),
            (
                "statsd_metadata { triggering_alert_id: 1 }",
                "line 1, column 1: statsd_metadata is not supported; leave it out (only Android's own tools use it)",
            ),
            (
                "statsd_logging: STATSD_LOGGING_ENABLED",
                "line 1, column 1: statsd_logging is not supported; leave it out (only Android's own tools use it)",
            ),
            (
                "incident_report_config { skip_incidentd: true }",
                "line 1, column 1: incident_report_config is not supported; leave it out (only Android's own tools use it)",
            ),
            (
                "android_report_config { skip_report: true }",
                "line 1, column 1: android_report_config is not supported; leave it out (only Android's own tools use it)",
            ),
            (
                "cmd_trace_start_delay { min_delay_ms: 1 }",
                "line 1, column 1: cmd_trace_start_delay is not supported; use deferred_start, and start the session after the delay",
            ),
            (
                r#"activate_triggers: "a""#,
                "line 1, column 1: activate_triggers is not supported; activate the triggers once the session has started",
            ),
            (
                "builtin_data_sources { prefer_suspend_clock_for_snapshot: true }",
                "line 1, column 24: builtin_data_sources.prefer_suspend_clock_for_snapshot is not supported; leave it out (intervals do not count suspended time)",
            ),
        ],
    );
}

#[test]
fn limits_and_contradictions_are_refused_before_anything_starts() {
    assert_errors(
        check_error,
        &[
            (
                "duration_ms: 604800001",
                "duration_ms: 604800001 ms is more than the limit of 604800000 ms (168 hours)",
            ),
            (
                "duration_ms: 86400001 enable_extra_guardrails: true",
                "duration_ms: 86400001 ms is more than the limit of 86400000 ms (24 hours)",
            ),
            (
                "trigger_config { trigger_mode: START_TRACING }",
                "trigger_config.trigger_timeout_ms: is 0; give at least 1",
            ),
            (
                "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 604800001 }",
                "trigger_config.trigger_timeout_ms: 604800001 ms is more than the limit of 604800000 ms (168 hours)",
            ),
            (
                "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 1 use_clone_snapshot_if_available: true }",
                "trigger_config.use_clone_snapshot_if_available: needs the trigger_mode STOP_TRACING; set that, or leave it out",
            ),
            (
                "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 triggers { name: \"a\" } }\nduration_ms: 1000",
                "duration_ms: is 1000 together with trigger_config; leave it out and set trigger_timeout_ms",
            ),
            (
                "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 triggers { name: \"a\" } }\nwrite_into_file: true",
                "write_into_file: is set together with trigger_config; use the trigger_mode START_TRACING",
            ),
            (
                r#"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1 triggers { name: "a" } triggers { name: "b" } triggers { name: "a" } }"#,
                r#"trigger_config.triggers[2].name: "a" is already the name of triggers[0]; rename one of them"#,
            ),
            (
                "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1 triggers { stop_delay_ms: 1 } }",
                "trigger_config.triggers[0].name: is missing; give each trigger a name",
            ),
            (
                r#"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1 triggers { name: "a" skip_probability: 1.5 } }"#,
                "trigger_config.triggers[0].skip_probability: 1.5 is not within 0 to 1; give a probability",
            ),
            (
                r#"trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 1 triggers { name: "a" skip_probability: nan } }"#,
                "trigger_config.triggers[0].skip_probability: NaN is not within 0 to 1; give a probability",
            ),
            (
                r#"bugreport_filename: "a/b""#,
                r#"bugreport_filename: '/' in "a/b" is not allowed; use letters, digits, '-', '_' and '.'"#,
            ),
            (
                "enable_extra_guardrails: true deferred_start: true",
                "deferred_start: is not allowed with enable_extra_guardrails; leave one of them out",
            ),
            (
                "enable_extra_guardrails: true buffers { size_kb: 63 }",
                "buffers[0].size_kb: 63 is not a multiple of 4, as enable_extra_guardrails requires; round it up",
            ),
            (
                "enable_extra_guardrails: true buffers { size_kb: 100000 } buffers { size_kb: 100000 }",
                "buffers: 200000 KiB in all are more than the 131072 KiB that enable_extra_guardrails allows; raise guardrail_overrides.max_tracing_buffer_size_kb",
            ),
            (
                "enable_extra_guardrails: true buffers { size_kb: 200004 } guardrail_overrides { max_tracing_buffer_size_kb: 200000 }",
                "buffers: 200004 KiB in all are more than the 200000 KiB that enable_extra_guardrails allows; raise guardrail_overrides.max_tracing_buffer_size_kb",
            ),
            (
                r#"buffers { name: "a" }"#,
                "buffers[0]: size_kb is 0; give at least 1",
            ),
            (
                "buffers { size_kb: 4194304 }",
                "buffers[0].size_kb: 4194304 is more than the limit of 4194303",
            ),
            (
                r#"buffers { size_kb: 4 name: "a" } buffers { size_kb: 4 } buffers { size_kb: 4 name: "a" }"#,
                r#"buffers[2] has the same name as buffers[0], "a"; rename one of them"#,
            ),
            (
                &"buffers { size_kb: 4 } ".repeat(129),
                "the configuration has 129 buffers, more than the limit of 128",
            ),
            (
                r#"buffers { size_kb: 4 } data_sources { producer_name_filter: "a" }"#,
                "data_sources[0].config.name: is missing; give the name of a data source",
            ),
            (
                r#"buffers { size_kb: 4 } data_sources { config { name: "x" target_buffer: 1 } }"#,
                "data_sources[0] (x) targets buffers[1], which does not exist; the number of buffers is 1",
            ),
            (
                r#"buffers { size_kb: 4 } data_sources { config { name: "x" target_buffer_name: "a" } }"#,
                r#"data_sources[0] (x) targets the buffer "a", which does not exist; use the name of a buffer"#,
            ),
            (
                r#"buffers { size_kb: 4 } buffers { size_kb: 4 name: "a" } data_sources { config { name: "x" target_buffer: 0 target_buffer_name: "a" } }"#,
                "data_sources[0] (x) targets buffers[1] by name, but buffers[0] by index; leave one of them out",
            ),
            (
                r#"data_sources { config { name: "x" } }"#,
                "the configuration has data sources, but no buffers; add a buffer",
            ),
            (
                r#"buffers { size_kb: 4 } producers { producer_name: "a" shm_size_kb: 100 page_size_kb: 16 }"#,
                "producers[0] (shared memory): the size of 102400 bytes is not a multiple of the page size of 16384 bytes up to 33554432",
            ),
            (
                r#"output_path: "a.pftrace""#,
                "output_path: is set without write_into_file; set both",
            ),
        ],
    );
}
