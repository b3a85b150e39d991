//! The traces that the tests use.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::LazyLock;
use std::task::{Context, Waker};
use std::thread;

use support::{Folder, alone};
use tracezero::{
    BufferConfig, DataSourceConfig, Flow, InMemorySession, TraceConfig, TraceFuture, Track,
    async_span, counter, end, instant, span,
};
use tracezero_lake::{ExportOptions, Lake, Promoted};

/// The arguments that get a column in the tests' lake.
pub(crate) const PROMOTE: &str = "http.status:int,tenant";

/// Trace files, and lakes of the same traces.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) lake: PathBuf,
    /// A lake whose small files were joined.
    pub(crate) compacted: PathBuf,
    _folder: Folder,
}

/// Returns traces of two services, one of which has lost events, and one that was cut off.
pub(crate) fn traces() -> &'static Traces {
    static TRACES: LazyLock<Traces> = LazyLock::new(Traces::record);
    &TRACES
}

impl Traces {
    fn record() -> Self {
        let _alone = alone();
        let folder = Folder::empty();
        let cut = checkout();
        let cut = &cut[..cut.len() * 3 / 4];
        let files = vec![
            folder.write(
                "checkout.pftrace",
                of_service("check-out / v2", &checkout()),
            ),
            folder.write("cut.pftrace", of_service("check-out / v2", cut)),
            folder.write("search.pftrace", of_service("search", &search())),
            folder.write("lossy.pftrace", of_service("search", &lossy())),
        ];
        let (lake, compacted) = (folder.file("lake"), folder.file("compacted"));
        for lake in [&lake, &compacted] {
            export(&files, lake, PROMOTE);
        }
        Lake::open(&compacted).unwrap().compact().unwrap();
        Self {
            files,
            lake,
            compacted,
            _folder: folder,
        }
    }
}

/// Exports traces as `tracezero export parquet` does.
pub(crate) fn export(files: &[PathBuf], lake: &Path, promote: &str) {
    let mut lake = Lake::open(lake).unwrap();
    let mut options = ExportOptions::default();
    options.promoted = Promoted::parse(promote).unwrap();
    for path in files {
        let file = std::fs::File::open(path).unwrap();
        lake.export(file, path.to_str().unwrap(), &options).unwrap();
    }
}

/// Returns a trace that begins with the name of its service: the packet's field 126 is a list of attributes.
fn of_service(name: &str, trace: &[u8]) -> Vec<u8> {
    let field = |number: u32, bytes: &[u8]| {
        let tag = number << 3 | 2;
        let mut field = match tag {
            0..0x80 => vec![tag as u8],
            _ => vec![tag as u8 | 0x80, (tag >> 7) as u8],
        };
        field.push(u8::try_from(bytes.len()).unwrap());
        field.extend_from_slice(bytes);
        field
    };
    let attribute = [field(1, b"service.name"), field(3, name.as_bytes())].concat();
    let mut trace_of_service = field(1, &field(126, &field(1, &attribute)));
    trace_of_service.extend_from_slice(trace);
    trace_of_service
}

/// Records what `events` does.
pub(crate) fn record(config: TraceConfig, events: impl FnOnce()) -> Vec<u8> {
    let session = config.record_in_memory().unwrap();
    events();
    session.finish().0
}

/// A trace of threads, arguments, flows, counters, futures and a span that stays open.
fn checkout() -> Vec<u8> {
    let track = Track::new("requests");
    let mut open = None;
    let trace = record(TraceConfig::default(), || {
        let flows: Vec<Flow> = (0..8).map(|_| Flow::new()).collect();
        for (number, flow) in flows.iter().enumerate() {
            drop(span!("queue", "enqueue", flow: flow, job = number));
            counter!("queue", "jobs", number as i64 + 1);
        }
        thread::scope(|scope| {
            for worker in 0..2 {
                let flows = &flows;
                let name = format!("worker-{worker}");
                let work = move || flows.iter().skip(worker).step_by(2).for_each(serve);
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, work)
                    .unwrap();
            }
        });
        counter!("queue", "load", 0.25);
        counter!("queue", "load", 1.0 / 3.0);
        counter!("queue", "largest", i64::MAX);
        cancelled();
        finished();
        instant!("app", "done", note = "two\nlines, \"quoted\"", empty = "");
        open = Some(span!("app", "shut down", track: &track));
    });
    drop(open);
    trace
}

/// Serves a request that was enqueued.
fn serve(flow: &Flow) {
    let request = span!("app", "request", last_flow: flow, tenant = "blue", "http.method" = "GET");
    for rows in 0..3 {
        drop(span!("db", "query", rows = rows));
    }
    {
        let _render = span!("app", "render");
        drop(span!("app", "größe"));
    }
    end!(request, "http.status" = 200);
    drop(span!("app", "request", "http.status" = 503, tenant = 7));
}

/// Polls a future once, and drops it.
fn cancelled() {
    let future = std::future::pending::<()>().traced(async_span!("app", "subscription"));
    let mut future = Box::pin(future);
    let _ = pin!(&mut future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Polls a future to its end.
fn finished() {
    let future = async { 1 }.traced(async_span!("app", "answer", size = 0.5));
    let mut future = Box::pin(future);
    assert!(
        pin!(&mut future)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
}

/// A trace of another service, with other arguments.
fn search() -> Vec<u8> {
    record(TraceConfig::default(), || {
        for number in 0..40 {
            let _search = span!(
                "app",
                "search",
                terms = number % 4,
                cached = number % 2 == 0
            );
            for _ in 0..number % 3 {
                drop(span!("db", "query"));
            }
        }
    })
}

/// A trace of more events than its ring has room for.
fn lossy() -> Vec<u8> {
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new("track_event"));
    record(config, || {
        for number in 0..20_000 {
            drop(span!("app", "loop", number = number));
        }
    })
}

/// A small trace of one span.
pub(crate) fn span_trace() -> Vec<u8> {
    let session = InMemorySession::start().unwrap();
    drop(span!("app", "work", size = 3, "userId" = 7));
    session.finish().0
}
