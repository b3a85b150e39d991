//! The thread that works for one instance of a data source: reads files, and writes packets.
//!
//! ```text
//!  callbacks ---ask---> answers ---> thread: work, answer, wait ---> work, answer, wait ---> ...
//!            ---stop--> the last one                                  ---> work, answer, end
//! ```
//!
//! An *answer* is a guard whose drop tells the service that something is done. The thread drops it
//! after the next work, so whatever was pending when somebody asked is written before.

use std::any::Any;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A handle to the thread. The thread ends when it is stopped, not when the handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Worker(Arc<Inbox>);

/// What a thread does after its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Works again when this time has passed since the work began, or earlier if asked.
    After(Duration),
    /// Works again when asked.
    WhenAsked,
    /// Ends: there is nothing left to work for.
    End,
}

#[derive(Debug)]
struct Inbox {
    requests: Mutex<Requests>,
    /// Notified when the thread is asked for something.
    asked: Condvar,
}

#[derive(Debug, Default)]
struct Requests {
    is_asked: bool,
    is_last: bool,
    /// True if no thread will take further requests.
    has_ended: bool,
    answers: Vec<Box<dyn Any + Send>>,
}

impl Worker {
    /// Starts a thread, which calls `work` at once, when it is asked, and when `work` says. Drops
    /// `starting` after the first call.
    ///
    /// If the system has no thread left, nothing works, and answers are dropped at once.
    pub(crate) fn start(
        name: &str,
        starting: impl Send + 'static,
        work: impl FnMut() -> Next + Send + 'static,
    ) -> Self {
        let worker = Self(Arc::new(Inbox {
            requests: Mutex::default(),
            asked: Condvar::new(),
        }));
        worker.ask(starting);
        let end = End(worker.clone());
        let builder = thread::Builder::new().name(name.to_owned());
        // If the thread cannot be started, the closure is dropped, and `end` with it.
        let _ = builder.spawn(move || end.0.run(work));
        worker
    }

    /// Makes the thread work soon, and drop `answer` after that.
    pub(crate) fn ask(&self, answer: impl Send + 'static) {
        self.request(answer, false);
    }

    /// Makes the thread work for the last time, drop `answer`, and end.
    pub(crate) fn stop(&self, answer: impl Send + 'static) {
        self.request(answer, true);
    }

    fn request(&self, answer: impl Send + 'static, is_last: bool) {
        let mut requests = self.0.requests.lock();
        if requests.has_ended {
            // Not locked: an answer may call back.
            drop(requests);
            return drop(answer);
        }
        requests.is_asked = true;
        requests.is_last |= is_last;
        requests.answers.push(Box::new(answer));
        self.0.asked.notify_one();
    }

    fn run(&self, mut work: impl FnMut() -> Next) {
        // The first request is the start.
        let mut deadline = None;
        loop {
            let requests = self.next(deadline);
            let began = Instant::now();
            let next = work();
            drop(requests.answers);
            deadline = match next {
                Next::After(wait) => began.checked_add(wait),
                Next::WhenAsked => None,
                Next::End => return,
            };
            if requests.is_last {
                return;
            }
        }
    }

    /// Waits for a request until the deadline, and takes it.
    fn next(&self, deadline: Option<Instant>) -> Requests {
        let mut requests = self.0.requests.lock();
        while !requests.is_asked {
            match deadline {
                None => self.0.asked.wait(&mut requests),
                Some(deadline) => {
                    if self.0.asked.wait_until(&mut requests, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::take(&mut requests)
    }
}

/// Answers everything when the thread ends, also by a panic.
struct End(Worker);

impl Drop for End {
    fn drop(&mut self) {
        let answers = {
            let mut requests = self.0.0.requests.lock();
            requests.has_ended = true;
            std::mem::take(&mut requests.answers)
        };
        // Not locked: an answer may call back.
        drop(answers);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Notes its drop.
    struct Answer(&'static str, Sender<&'static str>);

    impl Drop for Answer {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    fn worker(next: Next) -> (Worker, Sender<&'static str>, Receiver<&'static str>) {
        let (notes, noted) = channel();
        let works = notes.clone();
        let worker = Worker::start("test", Answer("started", notes.clone()), move || {
            let _ = works.send("work");
            next
        });
        (worker, notes, noted)
    }

    #[test]
    fn each_answer_follows_work_that_began_later() {
        let (worker, notes, noted) = worker(Next::WhenAsked);
        assert_eq!([noted.recv(), noted.recv()], [Ok("work"), Ok("started")]);
        worker.ask(Answer("flushed", notes.clone()));
        assert_eq!([noted.recv(), noted.recv()], [Ok("work"), Ok("flushed")]);
        worker.stop(Answer("stopped", notes.clone()));
        assert_eq!([noted.recv(), noted.recv()], [Ok("work"), Ok("stopped")]);
        drop((worker, notes));
        assert!(noted.recv().is_err(), "the thread has ended");
    }

    #[test]
    fn work_is_repeated_when_its_time_has_passed() {
        let (worker, notes, noted) = worker(Next::After(Duration::from_millis(1)));
        let works = noted.iter().filter(|note| *note == "work").take(3);
        assert_eq!(works.count(), 3);
        worker.stop(notes);
    }

    #[test]
    fn thread_that_has_ended_by_itself_answers_at_once() {
        let (worker, notes, noted) = worker(Next::End);
        assert_eq!([noted.recv(), noted.recv()], [Ok("work"), Ok("started")]);
        worker.ask(Answer("flushed", notes.clone()));
        worker.stop(Answer("stopped", notes.clone()));
        assert_eq!([noted.recv(), noted.recv()], [Ok("flushed"), Ok("stopped")]);
        drop((worker, notes));
        assert!(noted.recv().is_err(), "it has not worked again");
    }

    #[test]
    fn panic_answers_everything() {
        let (notes, noted) = channel();
        let worker = Worker::start("test", Answer("started", notes.clone()), || {
            panic!("in the work, as planned");
        });
        assert_eq!(noted.recv(), Ok("started"));
        worker.ask(Answer("flushed", notes.clone()));
        assert_eq!(noted.recv(), Ok("flushed"));
        worker.stop(Answer("stopped", notes));
        assert_eq!(noted.recv(), Ok("stopped"));
    }
}
