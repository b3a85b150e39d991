//! The attribute `trace` on async functions. The tests poll each future by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use judge::{Event, EventKind, Value, Verdict};
use tracezero::trace;

use crate::{outline, recorded};

/// A future that is pending once, then ready.
#[derive(Default)]
struct Pause {
    is_over: bool,
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        Poll::Pending
    }
}

fn pause() -> Pause {
    Pause::default()
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn task<T>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Box::pin(future)
}

/// Polls the task once.
fn step<T>(task: &mut Task<T>) -> Poll<T> {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn run<T>(mut task: Task<T>) -> T {
    loop {
        if let Poll::Ready(result) = step(&mut task) {
            return result;
        }
    }
}

/// Returns the slices of the calls of a function, which are on tracks with its name. The slices of
/// its polls are on tracks of threads.
fn call_slices<'a>(verdict: &'a Verdict, name: &'a str) -> Vec<&'a Event> {
    let events = verdict.events_named(name);
    events
        .filter(|event| event.track_name.as_deref() == Some(name))
        .collect()
}

/// Returns the slice of the only call of a function.
fn call_slice<'a>(verdict: &'a Verdict, name: &'a str) -> &'a Event {
    let [slice] = call_slices(verdict, name)[..] else {
        panic!("{verdict:?}")
    };
    slice
}

/// Returns the events of a slice's track by time. In the file, the events of each thread are
/// together.
fn on_track<'a>(verdict: &'a Verdict, slice: &Event) -> Vec<&'a Event> {
    let events = verdict.events.iter();
    let mut events: Vec<_> = events
        .filter(|event| event.track_uuid == slice.track_uuid)
        .collect();
    events.sort_by_key(|event| event.timestamp_ns);
    events
}

#[trace]
fn synchronous() {}

#[trace(args(pauses))]
async fn fetch(pauses: u32) -> u32 {
    for _ in 0..pauses {
        pause().await;
        synchronous();
    }
    pauses
}

#[test]
fn async_function_is_one_slice_and_a_slice_per_poll() {
    let verdict = recorded(|| assert_eq!(run(task(fetch(2))), 2));
    assert_eq!(
        outline(&verdict),
        [
            "fetch", // the whole call, and its polls
            "fetch",
            "fetch",
            "  synchronous",
            "fetch",
            "  synchronous"
        ]
    );
    let fetch = call_slice(&verdict, "fetch");
    assert_eq!(fetch.args["pauses"], Value::Uint(2));
    let [begin, end] = on_track(&verdict, fetch)[..] else {
        panic!("{verdict:?}")
    };
    let last = verdict.events_named("synchronous").last().unwrap();
    assert!(begin.timestamp_ns <= last.timestamp_ns && last.timestamp_ns <= end.timestamp_ns);
}

#[test]
fn slices_of_async_functions_that_overlap_do_not_share_a_track() {
    let verdict = recorded(|| {
        let (mut first, mut second) = (task(fetch(1)), task(fetch(2)));
        assert!(step(&mut first).is_pending());
        assert!(step(&mut second).is_pending());
        assert_eq!(run(first), 1);
        assert_eq!(run(second), 2);
    });
    let [first, second] = call_slices(&verdict, "fetch")[..] else {
        panic!("{verdict:?}")
    };
    assert_ne!(first.track_uuid, second.track_uuid);
}

#[test]
fn slice_ends_on_its_track_after_future_changes_threads() {
    let verdict = recorded(|| {
        let mut wanderer = task(fetch(3));
        let mut is_done = false;
        while !is_done {
            thread::scope(|scope| {
                scope.spawn(|| is_done = step(&mut wanderer).is_ready());
            });
        }
    });
    let [begin, end] = on_track(&verdict, call_slice(&verdict, "fetch"))[..] else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        (begin.kind, end.kind),
        (EventKind::SliceBegin, EventKind::SliceEnd)
    );
    assert_ne!(begin.sequence_id, end.sequence_id);
}

#[test]
fn a_slice_ends_when_its_future_is_dropped() {
    let verdict = recorded(|| {
        let mut cancelled = task(fetch(2));
        assert!(step(&mut cancelled).is_pending());
        thread::spawn(move || drop(cancelled)).join().unwrap();
    });
    assert_eq!(on_track(&verdict, call_slice(&verdict, "fetch")).len(), 2);
}

#[test]
fn a_future_that_is_never_polled_is_no_slice() {
    let verdict = recorded(|| drop(task(fetch(1))));
    assert!(verdict.events.is_empty(), "{verdict:?}");
}

#[trace]
async fn fails() {
    pause().await;
    std::panic::resume_unwind(Box::new("on purpose"));
}

#[test]
fn a_slice_ends_when_its_future_panics() {
    let verdict = recorded(|| {
        assert!(thread::spawn(|| run(task(fails()))).join().is_err());
    });
    assert_eq!(outline(&verdict), ["fails"; 3]);
    let [_, end] = on_track(&verdict, call_slice(&verdict, "fails"))[..] else {
        panic!("{verdict:?}")
    };
    assert_eq!(end.args["panicked"], Value::Bool(true));
}

struct Client {
    requests: u32,
}

impl Client {
    #[trace("net", name = "Client::get", args(number = self.requests, %path))]
    async fn get<'p>(&mut self, path: &'p str) -> Result<&'p str, String> {
        self.requests += 1;
        self.check(path).await?;
        Ok(path)
    }

    #[trace("net")]
    async fn check(&self, path: impl AsRef<str> + Send) -> Result<(), String> {
        pause().await;
        if path.as_ref().is_empty() {
            return Err("no path".to_owned());
        }
        Ok(())
    }
}

#[test]
fn async_methods_are_slices_whether_they_fail_or_not() {
    let verdict = recorded(|| {
        run(task(async {
            let mut client = Client { requests: 0 };
            assert_eq!(client.get("/a").await, Ok("/a"));
            assert_eq!(client.get("").await, Err("no path".to_owned()));
        }));
    });
    let numbers = call_slices(&verdict, "Client::get").into_iter();
    let numbers: Vec<_> = numbers.map(|event| event.args["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(0), Some(1)]);
    assert_eq!(call_slices(&verdict, "check").len(), 2);
}

#[trace]
async fn countdown(from: u32) -> u32 {
    match from.checked_sub(1) {
        Some(next) => Box::pin(countdown(next)).await + 1,
        None => 0,
    }
}

#[test]
fn each_call_of_an_async_function_that_calls_itself_is_a_slice() {
    let verdict = recorded(|| {
        // Boxed without `Send`: whether this recursive future is `Send` depends on itself.
        let mut counting = Box::pin(countdown(2));
        let context = &mut Context::from_waker(Waker::noop());
        assert_eq!(counting.as_mut().poll(context), Poll::Ready(2));
    });
    assert_eq!(call_slices(&verdict, "countdown").len(), 3);
}

/// Return types that need help to be inferred in the expansion of the attribute.
mod returns {
    use std::fmt::{Debug, Display};

    use tracezero::trace;

    use super::pause;

    #[trace]
    pub async fn boxed(is_number: bool) -> Result<Box<dyn Display + Send>, Box<dyn Debug + Send>> {
        pause().await;
        if is_number {
            return Ok(Box::new(7));
        }
        "seven"
            .parse::<u32>()
            .map_err(|error| Box::new(error) as _)?;
        Ok(Box::new("seven"))
    }

    #[trace]
    pub async fn unnamed(words: &[&str]) -> Result<Vec<impl Display + use<>>, std::fmt::Error> {
        for word in words {
            std::fmt::write(&mut String::new(), format_args!("{word}"))?;
        }
        Ok(words.iter().map(|word| word.len()).collect())
    }

    #[trace]
    pub async fn borrowed<'a>(
        mut words: Vec<&'a str>,
        (first, ..): (&'a str, u8),
    ) -> (&'a str, usize) {
        words.push(first);
        (words[0], words.len())
    }

    #[trace]
    pub async fn never() -> ! {
        pause().await;
        std::panic::resume_unwind(Box::new("on purpose"))
    }
}

#[test]
fn an_async_function_returns_what_it_returned() {
    let verdict = recorded(|| {
        assert_eq!(
            run(task(returns::boxed(true))).ok().unwrap().to_string(),
            "7"
        );
        assert!(run(task(returns::boxed(false))).is_err());
        let lengths = run(task(returns::unnamed(&["a", "bc"]))).unwrap();
        assert_eq!(
            lengths.iter().map(ToString::to_string).collect::<String>(),
            "12"
        );
        assert_eq!(run(task(returns::borrowed(vec![], ("a", 1)))), ("a", 1));
        assert!(
            thread::spawn(|| run(task(returns::never())))
                .join()
                .is_err()
        );
    });
    assert_eq!(call_slices(&verdict, "boxed").len(), 2);
}
