//! `fastrace`: spans form the tree of a request, and are collected when its root ends.

use std::time::{Duration, Instant};

use ::fastrace::Span;
use ::fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use ::fastrace::local::LocalSpan;

use crate::{BATCH, Recording};

/// The number of spans of one request.
const SPANS_PER_ROOT: u32 = 100;

/// The recording of this process, with a reporter that discards everything.
#[derive(Debug)]
pub struct Fastrace;

struct Nowhere;

impl Reporter for Nowhere {
    fn report(&mut self, _: Vec<SpanRecord>) {}
}

impl Recording for Fastrace {
    const SDK: &str = "fastrace";

    fn start() -> Self {
        ::fastrace::set_reporter(Nowhere, Config::default());
        Self
    }

    #[inline]
    fn instant() {
        LocalSpan::add_event(::fastrace::Event::new("instant"));
    }

    #[inline]
    fn span() {
        let _span = LocalSpan::enter_with_local_parent("span");
    }

    /// The properties of spans are texts.
    #[inline]
    fn span_3_args(number: i32, size: u64, text: &'static str) {
        let _span = LocalSpan::enter_with_local_parent("span_3_args").with_properties(|| {
            [
                ("number", number.to_string().into()),
                ("size", size.to_string().into()),
                ("text", std::borrow::Cow::Borrowed(text)),
            ]
        });
    }

    /// Measures the creation of root spans, too, but not the collection of finished spans.
    fn time_batch(&mut self, record: impl Fn()) -> Duration {
        let start = Instant::now();
        for _ in 0..BATCH / SPANS_PER_ROOT {
            let root = Span::root("request", SpanContext::random());
            let _parent = root.set_local_parent();
            for _ in 0..SPANS_PER_ROOT {
                record();
            }
        }
        let duration = start.elapsed();
        ::fastrace::flush();
        duration
    }

    fn finish(self) -> Option<u64> {
        None
    }
}
