//! Futures in the polls of others: their tracks nest as the futures do.

use judge::{Picture, Verdict, picture, pictures};
use perfetto_protos::trace_packet::TracePacket;
use tracezero::{TraceFuture as _, async_span, trace};

use crate::executor::{Task, pause};
use crate::recording::recorded;

/// The track that the life of a future lies under.
fn parent_uuid(verdict: &Verdict, future: &Picture) -> u64 {
    let descriptors = verdict.packets.iter().map(TracePacket::track_descriptor);
    let mut of_life = descriptors.filter(|it| it.uuid() == future.life.begin.track_uuid);
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
fn what_a_future_awaits_lies_under_it_whichever_thread_polls() {
    let verdict = recorded(|| {
        let mut task = Task::new(branch());
        for thread in ["one", "two", "one"] {
            assert!(task.poll_on(thread).is_pending());
        }
        assert!(task.poll_on("three").is_ready());
    });
    let branch = picture(&verdict, "branch");
    let leaves = pictures(&verdict, "leaf");
    assert_eq!(branch.threads(), ["one", "two", "one", "three"]);
    assert_eq!(leaves[0].threads(), ["one", "two"]);
    assert_eq!(leaves[1].threads(), ["one", "three"]);
    for leaf in &leaves {
        assert_eq!(parent_uuid(&verdict, leaf), branch.life.begin.track_uuid);
        assert!(branch.life.contains(&leaf.life));
        for poll in &leaf.polls {
            assert!(branch.polls.iter().any(|outer| outer.contains(poll)));
        }
    }
}

#[test]
fn a_future_that_is_made_in_the_poll_of_another_lies_under_it_wherever_it_runs() {
    let verdict = recorded(|| {
        let spawner = async { Task::new(pause().traced(async_span!("test", "spawned"))) };
        let mut spawned = Task::new(spawner.traced(async_span!("test", "spawner"))).run();
        assert!(spawned.poll_on("other").is_pending());
    });
    let (spawner, spawned) = (picture(&verdict, "spawner"), picture(&verdict, "spawned"));
    assert_eq!(
        parent_uuid(&verdict, &spawned),
        spawner.life.begin.track_uuid
    );
}

#[test]
fn what_begins_between_polls_lies_under_none() {
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
        let parent_uuid = parent_uuid(&verdict, &picture(&verdict, name));
        assert_eq!(parent_uuid, process_uuid, "{name}");
    }
}

#[test]
fn futures_that_nest_deeper_than_tracks_lie_beside_each_other() {
    fn deep(levels: u32) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if let Some(below) = levels.checked_sub(1) {
                deep(below).traced(async_span!("test", "deep")).await;
            }
        })
    }
    let verdict = recorded(|| Task::new(deep(100)).run());
    assert_eq!(pictures(&verdict, "deep").len(), 100);
}
