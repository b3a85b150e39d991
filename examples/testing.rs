//! Tests of what functions record: how often, inside of which span, with which arguments, on which
//! thread.
//!
//! `cargo test --example testing` runs the tests at the end of the file. `cargo run --example
//! testing` prints the outline of a trace, which one of the tests compares.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

use tracezero::testing::capture;
use tracezero::{CaptureHandle, counter, instant, span};

/// A cache of pages: each page is read from disk once.
#[derive(Default)]
struct Cache {
    pages: Mutex<HashMap<u32, String>>,
}

impl Cache {
    fn read(&self, page: u32) -> String {
        let _span = span!("cache", "read", page = page);
        let mut pages = self.pages.lock().expect("nobody panicked");
        if let Some(text) = pages.get(&page) {
            instant!("cache", "hit");
            return text.clone();
        }
        let text = read_from_disk(page);
        pages.insert(page, text.clone());
        counter!("cache", "pages", pages.len());
        text
    }

    /// Reads each page on a thread of its own.
    fn read_ahead(&self, pages: &[u32]) {
        let _span = span!("cache", "read_ahead", pages = pages);
        // If a test captures this thread, the new threads join its capture. A library may contain
        // this, too: without the feature `testing` it does nothing and costs nothing.
        let capture = CaptureHandle::current();
        thread::scope(|scope| {
            for &page in pages {
                let read = move || {
                    let _attached = capture.map(CaptureHandle::attach);
                    self.read(page);
                };
                let reader = thread::Builder::new().name("reader".to_owned());
                reader.spawn_scoped(scope, read).expect("a thread");
            }
        });
    }
}

fn read_from_disk(page: u32) -> String {
    let _span = span!("io", "read_from_disk", page = page, bytes = 4096);
    format!("page {page}")
}

fn main() {
    let capture = capture();
    let cache = Cache::default();
    cache.read_ahead(&[1, 2]);
    cache.read(2);
    print!("{}", capture.finish().outline());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_second_read_of_a_page_hits_the_cache() {
        let capture = capture();
        let cache = Cache::default();
        assert_eq!(cache.read(7), cache.read(7));
        let trace = capture.finish();

        trace
            .span("read")
            .times(2)
            .assert_arg("page", 7)
            .assert_at_top();
        trace
            .span("read_from_disk")
            .once()
            .assert_inside("read")
            .assert_arg("bytes", 4096)
            .assert_took_less_than(Duration::from_secs(1));
        trace.instant("hit").once().assert_after("read_from_disk");
        assert_eq!(trace.counter("pages").values(), [1.0]);
        trace.assert_no_loss().assert_well_formed();
    }

    #[test]
    fn read_ahead_uses_a_thread_for_each_page() {
        let capture = capture();
        Cache::default().read_ahead(&[1, 2, 3]);
        let trace = capture.finish();

        trace.span("read").times(3).assert_on_thread("reader");
        trace.span("read_from_disk").times(3).assert_inside("read");
        trace.instant("hit").never();
        assert_eq!(trace.counter("pages").max(), 3.0);
        trace.assert_no_loss().assert_well_formed();
    }

    /// Compares the outline of the trace, a text that changes only if the recorded events change.
    /// Crates for snapshot tests can store it, too.
    #[test]
    fn outline_stays_the_same() {
        let capture = capture();
        let cache = Cache::default();
        for page in [1, 2, 2, 2] {
            cache.read(page);
        }
        let expected = "\
this thread
  read page=1
    read_from_disk page=1 bytes=4096
  read page=2
    read_from_disk page=2 bytes=4096
  read page=2 x2
    * hit
counter \"pages\": 1 2
";
        assert_eq!(capture.finish().outline(), expected);
    }
}
