//! Configurations and sessions that are refused.

use protozero::HeapBuffered;
use tracezero_core::protos::TraceConfig;
use tracezero_core::protos::trace_config::trigger_config::TriggerMode;
use tracezero_ipc::consumer_port::SERVICE;
use tracezero_ipc::consumer_port::requests::Request;
use tracezero_ipc::wire::Body;

use crate::consumer::recording;
use crate::daemon::TestDaemon;

/// The number of consumers that may be connected at once.
const CONSUMERS_MAX: usize = 32;

/// The number of sessions that a user may have.
const SESSIONS_PER_UID_MAX: usize = 5;

/// Encodes a configuration without checks, with one ring.
fn config(write: impl FnOnce(&mut TraceConfig<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<TraceConfig<'_>>::new();
    let mut message = buffer.message();
    message.add_buffers(|buffer| {
        buffer.set_size_kb(64);
    });
    write(&mut message);
    drop(message);
    buffer.to_vec()
}

/// Adds a data source to a configuration, with these fields.
macro_rules! data_source {
    ($($set:ident: $value:expr),*) => {
        |out: &mut TraceConfig<'_>| {
            out.add_data_sources(|out| {
                out.config(|out| {
                    out.set_name("ds");
                    $(out.$set($value);)*
                });
            });
        }
    };
}

fn with_trigger(out: &mut TraceConfig<'_>, mode: TriggerMode, timeout_ms: u32, names: &[&str]) {
    out.trigger_config(|out| {
        out.set_trigger_mode(mode);
        out.set_trigger_timeout_ms(timeout_ms);
        for name in names {
            out.add_triggers(|out| {
                out.set_name(name);
                out.set_stop_delay_ms(1);
            });
        }
    });
}

/// Configurations, each with a part of the reason for which it is refused.
fn wrong_configs() -> Vec<(Vec<u8>, &'static str)> {
    const DAY_MS: u32 = 24 * 60 * 60 * 1000;
    const START: TriggerMode = TriggerMode::START_TRACING;
    const STOP: TriggerMode = TriggerMode::STOP_TRACING;
    vec![
        (vec![0x0a, 9, 0], "the message ends inside the field"),
        (vec![0xff], "the configuration"),
        (
            config(data_source!(set_target_buffer: 1)),
            "targets buffers[1]",
        ),
        (
            config(data_source!(set_target_buffer: u32::MAX)),
            "targets buffers[4294967295]",
        ),
        (
            config(data_source!(set_target_buffer_name: "none")),
            "the buffer \"none\"",
        ),
        (config(|out| with_buffer(out, 0, "")), "size_kb"),
        (config(|out| with_buffer(out, u32::MAX, "")), "size_kb"),
        (
            config(|out| {
                with_buffer(out, 64, "same");
                with_buffer(out, 64, "same");
            }),
            "same",
        ),
        (
            config(|out| (0..128).for_each(|_| with_buffer(out, 4, ""))),
            "buffers",
        ),
        (
            config(|out| {
                out.set_duration_ms(8 * DAY_MS);
            }),
            "duration_ms",
        ),
        (
            config(|out| {
                out.set_duration_ms(2 * DAY_MS);
                out.set_enable_extra_guardrails(true);
            }),
            "duration_ms",
        ),
        (
            config(|out| {
                with_buffer(out, 129 * 1024, "");
                out.set_enable_extra_guardrails(true);
            }),
            "guardrails",
        ),
        (
            config(|out| {
                out.set_deferred_start(true);
                out.set_enable_extra_guardrails(true);
            }),
            "deferred_start",
        ),
        (
            config(|out| with_trigger(out, START, 0, &["t"])),
            "trigger_timeout_ms",
        ),
        (
            config(|out| with_trigger(out, START, 1000, &["t", "t"])),
            "t",
        ),
        (
            config(|out| with_trigger(out, TriggerMode::from(99), 1000, &["t"])),
            "trigger_mode",
        ),
        (
            config(|out| {
                out.set_duration_ms(1000);
                with_trigger(out, START, 1000, &["t"]);
            }),
            "duration_ms",
        ),
        (
            config(|out| {
                out.set_write_into_file(true);
                with_trigger(out, STOP, 1000, &["t"]);
            }),
            "write_into_file",
        ),
        (
            config(|out| {
                out.set_bugreport_filename("../secret");
            }),
            "bugreport_filename",
        ),
        (
            config(|out| {
                out.set_write_into_file(true);
            }),
            "none came with the request",
        ),
        (
            config(|out| {
                out.set_write_into_file(true);
                out.set_output_path("/no/such/folder/trace");
            }),
            "/no/such/folder/trace",
        ),
    ]
}

fn with_buffer(out: &mut TraceConfig<'_>, size_kb: u32, name: &str) {
    out.add_buffers(|out| {
        out.set_size_kb(size_kb);
        if !name.is_empty() {
            out.set_name(name);
        }
    });
}

#[test]
fn wrong_configurations_are_refused_with_a_reason() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    for (config, part) in wrong_configs() {
        let request = consumer.enable_encoded(&config);
        let reason = consumer.ended(request).expect("a reason");
        assert!(reason.contains(part), "{part:?}: {reason}");
        assert!(!daemon.log_lines(&reason).is_empty());
        assert_eq!(daemon.state().num_sessions, 0, "{reason}");
    }
    // No refused configuration has reached the producer, and the same connection can have a
    // session.
    consumer.enable(&recording("ds"));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    assert_eq!(consumer.read_numbers(), [1]);
}

#[test]
fn a_connection_has_one_session() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let first = consumer.enable(&recording("ds"));
    let reason = consumer.refused(&recording("ds"));
    assert!(reason.contains("has a session already"), "{reason}");
    assert_eq!(daemon.state().num_sessions, 1);
    // The first session still ends normally.
    consumer.disable();
    assert_eq!(consumer.ended(first), None);
    // An ended session also counts, until it is freed.
    let reason = consumer.refused(&recording("ds"));
    assert!(reason.contains("has a session already"), "{reason}");
    consumer.call(&Request::FreeBuffers);
    let second = consumer.enable(&recording("ds"));
    consumer.disable();
    assert_eq!(consumer.ended(second), None);
}

#[test]
fn a_user_has_five_sessions() {
    let daemon = TestDaemon::start();
    let mut consumers: Vec<_> = (0..SESSIONS_PER_UID_MAX)
        .map(|_| {
            let mut consumer = daemon.consumer();
            consumer.enable(&recording("ds"));
            consumer
        })
        .collect();
    assert_eq!(daemon.state().num_sessions as usize, SESSIONS_PER_UID_MAX);
    let mut sixth = daemon.consumer();
    let reason = sixth.refused(&recording("ds"));
    assert!(reason.contains("5 sessions exist already"), "{reason}");
    consumers[0].call(&Request::FreeBuffers);
    let enabled = sixth.enable(&recording("ds"));
    sixth.disable();
    assert_eq!(sixth.ended(enabled), None);
}

#[test]
fn a_unique_name_is_unique() {
    let daemon = TestDaemon::start();
    let named = format!("{} unique_session_name: 'name'", recording("ds"));
    let mut first = daemon.consumer();
    first.enable(&named);
    let mut second = daemon.consumer();
    let reason = second.refused(&named);
    assert!(reason.contains("\"name\""), "{reason}");
    assert_eq!(daemon.state().num_sessions, 1);
}

#[test]
fn fields_that_are_not_carried_out_are_named_in_the_log() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.consumer();
    let config = config(|out| {
        data_source!()(out);
        out.as_message_mut().append_raw(&[0xf8, 0x7f, 1]);
    });
    let enabled = consumer.enable_encoded(&config);
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    let lines = daemon.log_lines("has fields that are ignored");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("2047"), "{lines:?}");
}

#[test]
fn at_most_32_consumers_are_connected() {
    let daemon = TestDaemon::start();
    let mut consumers: Vec<_> = (0..CONSUMERS_MAX).map(|_| daemon.consumer()).collect();
    for consumer in &mut consumers {
        consumer.state();
    }
    daemon.consumer_peer().wait_for_end();
    daemon.wait_for_log("there are 32 consumers");
    consumers.pop();
    // Producers can connect all the time. Consumers can connect again.
    daemon.producer("p");
    support::wait_until(|| {
        let mut peer = daemon.consumer_peer();
        peer.send(Body::Bind { service: SERVICE });
        peer.next().is_some()
    });
}
