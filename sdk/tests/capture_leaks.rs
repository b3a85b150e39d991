//! Consecutive captures leak nothing. In a process of its own, because the test looks at the whole
//! process.

use std::sync::mpsc;
use std::{fs, process, thread};

use support::{resident_bytes, wait_for};
use tracezero::testing::capture;
use tracezero::{InMemorySession, instant, service_state, span};

/// The resources of the process.
#[derive(Debug)]
struct Usage {
    threads: usize,
    mappings: usize,
    files: usize,
    resident_bytes: usize,
}

impl Usage {
    /// Returns the usage once at most `threads` threads are left. The system lists a joined thread
    /// for a moment longer.
    fn with_at_most(threads: usize) -> Self {
        let now = || Some(Self::now()).filter(|usage| usage.threads <= threads);
        wait_for(now).unwrap_or_else(Self::now)
    }

    fn now() -> Self {
        let entries = |path| fs::read_dir(path).expect("procfs").count();
        Self {
            threads: entries("/proc/self/task"),
            mappings: fs::read_to_string("/proc/self/maps")
                .expect("procfs")
                .lines()
                .count(),
            files: entries("/proc/self/fd"),
            resident_bytes: resident_bytes(process::id()),
        }
    }
}

#[test]
fn thousands_of_captures_leave_nothing_behind() {
    // The thread of a pool. All captures use it, and it outlives all of them.
    let (send, receive) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let pool = thread::spawn(move || receive.into_iter().for_each(|work| work()));
    let capture_once = || {
        let capture = capture();
        let _span = span!("test", "span");
        let (tell, told) = mpsc::channel();
        let work = capture.handle().wrap(move || {
            instant!("test", "on a pool");
            let _ = tell.send(());
        });
        send.send(Box::new(work)).expect("the pool");
        told.recv().expect("an answer");
        capture
            .spawn(|| instant!("test", "spawned"))
            .join()
            .expect("joined");
        let trace = capture.finish();
        assert_eq!(trace.instants().count(), 2);
    };
    // Captures leave no threads behind, so this number stays the same.
    let threads = Usage::now().threads;
    (0..200).for_each(|_| capture_once());
    let before = Usage::with_at_most(threads);
    (0..1500).for_each(|_| capture_once());
    let after = Usage::with_at_most(threads);

    assert_eq!((before.threads, after.threads), (threads, threads));
    assert_eq!(after.files, before.files, "{before:?} {after:?}");
    assert!(
        after.mappings <= before.mappings + 8,
        "{before:?} {after:?}"
    );
    assert!(
        after.resident_bytes <= before.resident_bytes + (4 << 20),
        "{before:?} {after:?}"
    );

    // All slots for sessions are free.
    let sessions: Vec<_> = (0..15)
        .map(|_| InMemorySession::start().expect("a place"))
        .collect();
    assert_eq!(service_state().session_count, 15);
    instant!("test", "in all of them");
    for session in sessions {
        assert_eq!(session.finish().1.events, 1);
    }
    drop(send);
    pool.join().expect("joined");
}
