//! Captures of tests.
use std::thread;
use tracezero::testing::{CaptureHandle, capture};
use tracezero::{InMemorySession, instant, span};

fn has(trace: &[u8], name: &str) -> bool {
    trace
        .windows(name.len())
        .any(|window| window == name.as_bytes())
}

#[test]
fn smoke() {
    let session = InMemorySession::start().unwrap();
    thread::scope(|scope| {
        for number in 0..64 {
            scope.spawn(move || {
                for round in 0..20 {
                    let capture = capture();
                    {
                        let _span = span!("test", "mine", me = format!("n{number}r{round}."));
                        instant!("test", "inside");
                        let handle = capture.handle();
                        thread::spawn(move || {
                            instant!("test", "free");
                            let _a = handle.attach();
                            instant!("test", "attached");
                        })
                        .join()
                        .unwrap();
                    }
                    let (trace, report) = capture.finish();
                    assert_eq!(report.events, 4, "{report}");
                    assert_eq!(report.losses.total(), 0);
                    assert!(has(&trace, &format!("n{number}r{round}.")));
                    assert!(!has(&trace, "free"));
                    assert_eq!(CaptureHandle::current(), None);
                }
            });
        }
    });
    let (trace, report) = session.finish();
    assert_eq!(report.events, 64 * 20 * 5, "{report}");
    assert!(has(&trace, "free"));
}
