//! Shows on the standard error how far the program is, if that is a terminal.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two changes of a line that has no news.
const TICK: Duration = Duration::from_millis(200);

/// How much of the traces has been exported. The line is removed on drop.
#[derive(Debug)]
pub(crate) struct ExportProgress {
    bar: ProgressBar,
    traces: usize,
}

impl ExportProgress {
    pub(crate) fn start(paths: &[PathBuf]) -> Self {
        // The standard input has no size.
        let files = paths.iter().filter_map(|path| fs::metadata(path).ok());
        let bytes = files.map(|file| file.len()).sum();
        let template = "exporting {msg} {wide_bar} {bytes}/{total_bytes}, {eta} left";
        Self {
            bar: ProgressBar::new(bytes).with_style(style(template)),
            traces: paths.len(),
        }
    }

    /// Tells that a trace begins, the first of which has the index 0.
    pub(crate) fn begin(&self, index: usize) {
        let (number, traces) = (index + 1, self.traces);
        self.bar.set_message(format!("trace {number} of {traces}"));
    }

    /// Tells that bytes were read.
    pub(crate) fn add(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    /// Prints a line above this one.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for ExportProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How long a query takes. The line is removed on drop.
#[derive(Debug)]
pub(crate) struct QueryProgress {
    bar: ProgressBar,
}

impl QueryProgress {
    pub(crate) fn start() -> Self {
        let bar = ProgressBar::no_length().with_style(style("{spinner} querying, {elapsed}{msg}"));
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Tells how many rows there are so far.
    pub(crate) fn rows(&self, rows: u64) {
        self.bar.set_message(format!(", {rows} rows"));
    }
}

impl Drop for QueryProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a constant that is right")
}
