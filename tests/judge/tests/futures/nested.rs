//! Futures that are polled by other futures: their tracks are nested in the same way.

use judge::{AsyncSpan, Verdict, async_span_named, async_spans_named};
use perfetto_protos::trace_packet::TracePacket;
use tracezero::{TraceFuture as _, async_span, trace};

use crate::executor::{Task, pause};
use crate::recording::recorded;

/// Returns the parent of the track of a future's span.
fn parent_uuid(verdict: &Verdict, future: &AsyncSpan) -> u64 {
    let descriptors = verdict.packets.iter().map(TracePacket::track_descriptor);
    let mut of_life = descriptors.filter(|it| it.uuid() == future.slice.begin.track_uuid);
    of_life.next().unwrap().parent_uuid()
}

#[trace("test")]
async fn leaf() {
    pause().await;
}

#[trace("test")]
async fn branch() {
    leaf().await;
    pause().await;
    leaf().await;
}

#[test]
fn awaited_futures_are_nested_on_any_thread() {
    let verdict = recorded(|| {
        let mut task = Task::new(branch());
        for thread in ["one", "two", "one"] {
            assert!(task.poll_on(thread).is_pending());
        }
        assert!(task.poll_on("three").is_ready());
    });
    let branch = async_span_named(&verdict, "branch");
    let leaves = async_spans_named(&verdict, "leaf");
    assert_eq!(branch.threads(), ["one", "two", "one", "three"]);
    assert_eq!(leaves[0].threads(), ["one", "two"]);
    assert_eq!(leaves[1].threads(), ["one", "three"]);
    for leaf in &leaves {
        assert_eq!(parent_uuid(&verdict, leaf), branch.slice.begin.track_uuid);
        assert!(branch.slice.contains(&leaf.slice));
        for poll in &leaf.polls {
            assert!(branch.polls.iter().any(|outer| outer.contains(poll)));
        }
    }
}

#[test]
fn future_made_in_a_poll_is_nested_on_any_thread() {
    let verdict = recorded(|| {
        let spawner = async { Task::new(pause().traced(async_span!("test", "spawned"))) };
        let mut spawned = Task::new(spawner.traced(async_span!("test", "spawner"))).run();
        assert!(spawned.poll_on("other").is_pending());
    });
    let (spawner, spawned) = (
        async_span_named(&verdict, "spawner"),
        async_span_named(&verdict, "spawned"),
    );
    assert_eq!(
        parent_uuid(&verdict, &spawned),
        spawner.slice.begin.track_uuid
    );
}

#[test]
fn future_made_between_polls_has_no_parent() {
    let verdict = recorded(|| {
        let mut first = Task::new(pause().traced(async_span!("test", "first")));
        assert!(first.poll().is_pending());
        let panics = async { std::panic::resume_unwind(Box::new("on purpose")) };
        let mut second = Task::<()>::new(panics.traced(async_span!("test", "second")));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.poll()));
        assert!(polled.is_err());
        Task::new(pause().traced(async_span!("test", "third"))).run();
    });
    let process_uuid = tracezero::Track::process().uuid();
    for name in ["first", "second", "third"] {
        let parent_uuid = parent_uuid(&verdict, &async_span_named(&verdict, name));
        assert_eq!(parent_uuid, process_uuid, "{name}");
    }
}

#[test]
fn too_deep_futures_are_siblings() {
    fn deep(levels: u32) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if let Some(below) = levels.checked_sub(1) {
                deep(below).traced(async_span!("test", "deep")).await;
            }
        })
    }
    let verdict = recorded(|| Task::new(deep(100)).run());
    assert_eq!(async_spans_named(&verdict, "deep").len(), 100);
}
