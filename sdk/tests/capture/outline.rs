//! Outlines: texts for snapshot tests.

use std::thread;

use tracezero::testing::{Trace, capture};
use tracezero::{CounterTrack, Track, begin, counter, debug, dict, instant, span};

#[derive(Debug)]
struct Key(#[expect(dead_code, reason = "it is printed")] u32);

fn outline_of(work: impl FnOnce()) -> String {
    let capture = capture();
    work();
    let trace = capture.finish();
    trace.assert_no_loss();
    let outline = trace.outline();
    // However it was read.
    assert_eq!(
        Trace::read(trace.bytes())
            .unwrap()
            .outline()
            .lines()
            .count(),
        outline.lines().count()
    );
    outline
}

#[test]
fn an_outline_is_what_happened_without_times_and_ids() {
    let outline = outline_of(|| {
        for key in ["a", "b", "b"] {
            let _read = span!("io", "read", key = key, hit = key == "a", share = 0.5);
            for _ in 0..2 {
                drop(span!(
                    "io",
                    "disk_read",
                    request = dict(|dict| {
                        dict.add("path", "/");
                        dict.add("sizes", &[1_u64, 2]);
                    })
                ));
            }
            instant!("io", "done", key = debug(&Key(3)));
        }
        for value in [1, 2, 1, 0] {
            counter!("io", "queue", value);
        }
        counter!("io", &CounterTrack::new("a load"), 0.25);
        drop(span!("io", "job", track: &Track::named("jobs")));
        instant!("io", "for all", track: &Track::process());
        begin!("io", "never ends");
    });
    let expected = r#"this thread
  read key="a" hit=true share=0.5
    disk_read request={path="/", sizes=[1, 2]} x2
    * done key="Key(3)"
  read key="b" hit=false share=0.5 x2
    disk_read request={path="/", sizes=[1, 2]} x2
    * done key="Key(3)"
  never ends (not ended)
process
  * for all
track "jobs"
  job
counter "a load": 0.25
counter "queue": 1 2 1 0
"#;
    assert_eq!(outline, expected);
}

#[test]
fn an_outline_does_not_depend_on_which_thread_came_first() {
    let expected = r#"this thread
  * started
thread
  * unnamed
thread "odd"
  work number=1
    step
thread "worker" x3
  work
    step
"#;
    for turn in 0..20 {
        let outline = outline_of(|| {
            let handle = tracezero::testing::CaptureHandle::current().unwrap();
            instant!("test", "started");
            thread::scope(|scope| {
                let mut names = vec!["worker", "worker", "odd", "worker", ""];
                names.rotate_left(turn % 5);
                for name in names {
                    let work = handle.wrap(move || {
                        let _work = match name {
                            "" => return instant!("test", "unnamed"),
                            "odd" => span!("test", "work", number = 1),
                            _ => span!("test", "work"),
                        };
                        drop(span!("test", "step"));
                    });
                    let thread = match name {
                        "" => thread::Builder::new(),
                        name => thread::Builder::new().name(name.to_owned()),
                    };
                    thread.spawn_scoped(scope, work).unwrap();
                }
            });
        });
        // Threads without a name inherit that of the process or of their parent.
        assert_eq!(without_inherited_name(&outline), expected);
    }
}

/// The system may give a thread without a name that of whoever started it.
fn without_inherited_name(outline: &str) -> String {
    let line = |line: &str| {
        let is_known = ["thread \"odd\"", "thread \"worker\""]
            .iter()
            .any(|it| line.starts_with(it));
        let line = if line.starts_with("thread") && !is_known {
            "thread"
        } else {
            line
        };
        format!("{line}\n")
    };
    outline.lines().map(line).collect()
}

#[test]
fn packets_with_a_schema_of_their_own_are_counted() {
    use tracezero::{DataSource, data_source};

    struct Outlined;
    data_source!(Outlined, "com.example.outlined");

    let outline = outline_of(|| {
        for _ in 0..3 {
            Outlined::trace(|cx| {
                cx.packet(|packet| {
                    packet.for_testing(|event| {
                        event.set_str("beat");
                    });
                });
            });
        }
    });
    assert!(outline.contains("packets with field 900: 3\n"), "{outline}");
}

#[test]
fn a_trace_without_events_has_an_empty_outline() {
    assert_eq!(outline_of(|| ()), "");
}
