//! Spans of `tracing` that are entered once.

use std::fmt;

use judge::{Value, slice, slices, slices_named};
use tracezero::InMemorySession;
use tracing::field::Empty;
use tracing::{Span, debug_span, info, info_span, instrument};

use crate::executor::on;
use crate::recording::{alone, finish, recorded, recorded_by};

#[test]
fn span_is_a_slice_with_target_as_category_and_source_place() {
    let verdict = recorded(|| {
        on("worker", || {
            let _outer = info_span!("outer").entered();
            let _inner = debug_span!(target: "io::disk", "inner").entered();
        });
    });
    let (outer, inner) = (slice(&verdict, "outer"), slice(&verdict, "inner"));
    assert_eq!(slices(&verdict).len(), 2);
    assert_eq!(outer.begin.thread_name.as_deref(), Some("worker"));
    assert_eq!(outer.begin.categories, ["tracing_layer::spans"]);
    assert_eq!(inner.begin.categories, ["io::disk"]);
    assert_eq!((outer.depth, inner.depth), (0, 1));
    assert!(outer.contains(&inner));
    let place = outer.begin.source_location.unwrap();
    assert!(place.file_name().ends_with("tracing_layer/spans.rs"));
    let inner_place = inner.begin.source_location.unwrap();
    assert_eq!(inner_place.line_number(), place.line_number() + 1);
}

#[test]
fn fields_are_arguments_of_their_types() {
    let error = std::io::Error::other("no such luck");
    let verdict = recorded(|| {
        let _span = info_span!(
            "typed",
            signed = -5_i64,
            unsigned = 7_u32,
            wide = u128::MAX,
            ratio = 0.5,
            yes = true,
            text = "sixteen bytes ..",
            debug = ?Some(1),
            display = %17,
            error = &error as &(dyn std::error::Error + 'static),
            absent = Empty,
        )
        .entered();
    });
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = [
        ("signed", Value::Int(-5)),
        ("unsigned", Value::Uint(7)),
        ("wide", text(&u128::MAX.to_string())),
        ("ratio", Value::Double(0.5)),
        ("yes", Value::Bool(true)),
        ("text", text("sixteen bytes ..")),
        ("debug", text("Some(1)")),
        ("display", text("17")),
        ("error", text("no such luck")),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(slice(&verdict, "typed").begin.args, expected.into());
}

#[test]
fn values_recorded_before_entering_are_on_the_begin() {
    let verdict = recorded(|| {
        let span = info_span!("late", early = Empty, late = Empty);
        span.record("early", 1);
        let _entered = span.enter();
        span.record("late", "done");
    });
    let late = slice(&verdict, "late");
    assert_eq!(late.begin.args["early"], Value::Int(1));
    assert!(!late.begin.args.contains_key("late"));
    let end = late.end.unwrap();
    assert_eq!(end.args["late"], Value::Text("done".to_owned()));
    assert_eq!(end.args.len(), 1);
}

#[test]
fn a_span_that_goes_on_recording_is_cut_off_at_some_point() {
    let verdict = recorded(|| {
        let span = info_span!("endless", value = Empty);
        let _entered = span.enter();
        for _ in 0..200 {
            span.record("value", "x".repeat(1000));
        }
    });
    assert!(slice(&verdict, "endless").end.is_some());
}

#[test]
fn functions_with_the_attribute_are_slices() {
    #[instrument(skip(name))]
    fn work(number: u32, name: &str) -> usize {
        info!("inside");
        name.len() + number as usize
    }
    let verdict = recorded(|| assert_eq!(work(3, "ab"), 5));
    let work = slice(&verdict, "work");
    assert_eq!(work.begin.args["number"], Value::Uint(3));
    assert_eq!(work.begin.args.len(), 1);
}

#[test]
fn chosen_fields_stand_in_the_names_of_spans() {
    let layer = tracezero::layer().name_fields(["name", "part"]);
    let verdict = recorded_by(layer, || {
        for name in ["movement", "physics"] {
            drop(info_span!("system", name, other = 1).entered());
        }
        drop(info_span!("system", part = 2, name = ?"x").entered());
        drop(info_span!("system", other = 1).entered());
    });
    let names: Vec<_> = slices(&verdict)
        .into_iter()
        .map(|slice| slice.begin.name.unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "system{name=movement}",
            "system{name=physics}",
            "system{part=2, name=\"x\"}",
            "system"
        ]
    );
}

#[test]
fn span_older_than_session_appears_without_its_values() {
    let _guard = alone();
    let early = info_span!("early", number = 1, later = Empty);
    let entered = info_span!("entered before").entered();
    let session = InMemorySession::start().unwrap();
    early.record("later", 2);
    early.in_scope(|| ());
    drop(entered);
    drop(early);
    let verdict = finish(session);
    assert_eq!(slices(&verdict).len(), 1);
    assert!(slice(&verdict, "early").end.is_some());
}

#[test]
fn open_span_does_not_end_in_the_next_session() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let entered = info_span!("open").entered();
    let first = finish(session);
    let session = InMemorySession::start().unwrap();
    drop(entered);
    let _next = info_span!("next").entered();
    let second = finish(session);
    assert!(slice(&first, "open").end.is_none());
    assert_eq!(second.events.len(), 1);
}

#[test]
fn spans_that_are_entered_once_carry_no_flow() {
    let verdict = recorded(|| {
        for _ in 0..3 {
            drop(info_span!("once").entered());
        }
    });
    let slices = slices_named(&verdict, "once");
    assert_eq!(slices.len(), 3);
    assert!(slices.iter().all(|slice| slice.begin.flow_ids.is_empty()));
}

#[test]
fn follower_is_joined_once_its_call_site_is_known() {
    let verdict = recorded(|| {
        for _ in 0..2 {
            let cause = info_span!("cause");
            cause.in_scope(|| ());
            let effect = info_span!("effect");
            effect.follows_from(&cause);
            effect.follows_from(Span::none());
            drop(effect.entered());
        }
    });
    let flows = |name| {
        slices_named(&verdict, name)
            .into_iter()
            .map(|it| it.begin.flow_ids)
    };
    let [first, second] = <[_; 2]>::try_from(flows("cause").collect::<Vec<_>>()).unwrap();
    assert_eq!((first.len(), second.len()), (0, 1));
    assert_eq!(flows("effect").collect::<Vec<_>>(), [first, second]);
}

#[test]
fn span_is_joined_to_follower_before_it_is_entered() {
    let verdict = recorded(|| {
        let early = info_span!("early");
        let late = info_span!("late");
        late.follows_from(&early);
        drop(early.entered());
        drop(late.entered());
    });
    let flows = |name| slice(&verdict, name).begin.flow_ids;
    assert_eq!(flows("early").len(), 1);
    assert_eq!(flows("early"), flows("late"));
}

#[test]
fn values_may_trace_while_they_are_formatted() {
    struct Noisy;
    impl fmt::Debug for Noisy {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let _inside = info_span!("formatting", value = ?1).entered();
            f.write_str("noisy")
        }
    }
    let verdict = recorded(|| {
        let _span = info_span!("formatted", first = 1, value = ?Noisy, last = 2).entered();
    });
    let args = slice(&verdict, "formatted").begin.args;
    assert_eq!(args["value"], Value::Text("noisy".to_owned()));
    assert_eq!(args.len(), 3);
    assert!(slice(&verdict, "formatting").end.is_some());
}
