//! Exports traces as tables that other programs read.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tracezero_lake::{ExportOptions, ExportOutcome, Exported, Lake, LakeError, Promoted, Table};

use crate::Outcome;
use crate::error::ToolError;
use crate::input::Input;
use crate::units::{bytes, plural};

/// Exports traces as tables that other programs read
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example: tracezero export parquet *.pftrace -o lake")]
pub(crate) enum Command {
    Parquet(ParquetArgs),
}

/// Exports traces as Parquet files for SQL engines
///
/// Writes the tables trace, trace_attr, process, thread, track, slice, counter, flow, args, thread_state,
/// loss, stats and finding into the folder LAKE, under LAKE/TABLE/day=DAY/service=SERVICE/. Names of tables
/// and columns are those of Perfetto's trace processor where it has them, so that queries move over. DuckDB,
/// Spark, DataFusion, ClickHouse and others read the files as they are.
///
/// A trace that is in the lake is not exported twice. If it was exported with other promoted arguments, its
/// files are replaced. Files get their names when all tables of a trace are complete, so an export that fails
/// or is killed leaves none behind. Several exports may write to a lake at the same time.
///
/// The exit status is 1 if a trace has errors; table finding tells which. Other traces are exported although
/// one cannot be; the exit status is then 2.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tracezero export parquet *.pftrace -o lake --promote http.status:int\n\
                  duckdb -c \"SELECT name, quantile_cont(dur, 0.99) FROM 'lake/slice/**/*.parquet' GROUP BY name\""
)]
pub(crate) struct ParquetArgs {
    /// The traces, or - for the standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The folder of the lake; it is created if there is none
    #[arg(short, long, value_name = "LAKE")]
    output: PathBuf,
    /// Arguments of slices that get a column of their own in table slice, each with a type: int, real or text
    ///
    /// Argument http.status becomes column a_http_status. Without a type, it is text.
    #[arg(long, value_name = "NAME[:TYPE],..", default_value = "")]
    promote: String,
    /// The name of the service, in place of the one that the traces have
    #[arg(long)]
    service: Option<String>,
}

pub(crate) fn run(command: &Command) -> Result<Outcome, ToolError> {
    match command {
        Command::Parquet(args) => export_parquet(args),
    }
}

fn export_parquet(args: &ParquetArgs) -> Result<Outcome, ToolError> {
    let mut options = ExportOptions::default();
    options.promoted =
        Promoted::parse(&args.promote).map_err(|error| ToolError::Usage(error.to_string()))?;
    options.service = args.service.clone();
    let mut lake = Lake::open(&args.output).map_err(|error| lake_error(&args.output, error))?;
    let mut total = Total::default();
    let mut unreadable = None;
    let start = Instant::now();
    for path in &args.traces {
        match export_trace(path, &mut lake, &options) {
            Ok(Some(exported)) => total.add(&exported),
            Ok(None) => total.unchanged += 1,
            // The other traces are exported all the same. The caller prints the last error.
            Err(error @ (ToolError::Open { .. } | ToolError::Read { .. })) => {
                if let Some(earlier) = unreadable.replace(error) {
                    eprintln!("error: {earlier}");
                }
            }
            Err(error) => return Err(error),
        }
    }
    total.print(&args.output, start);
    match unreadable {
        Some(error) => Err(error),
        None if total.errors > 0 => Ok(Outcome::Findings),
        None => Ok(Outcome::Fine),
    }
}

/// Exports a trace. Returns `None` if the lake has it already.
fn export_trace(
    path: &Path,
    lake: &mut Lake,
    options: &ExportOptions,
) -> Result<Option<Exported>, ToolError> {
    let failed = |error| match error {
        error @ (LakeError::Read(_) | LakeError::Compacted { .. }) => ToolError::Read {
            path: path.to_owned(),
            message: error.to_string(),
        },
        error => lake_error(path, error),
    };
    // Pipes and the standard input can be read only once.
    if path.is_file() && lake.has(Input::open(path)?, options).map_err(failed)? {
        return Ok(None);
    }
    let exported = lake.export(Input::open(path)?, &path.to_string_lossy(), options);
    exported.map(Some).map_err(failed)
}

/// Converts an error about a lake, or about the trace at `path`.
pub(crate) fn lake_error(path: &Path, error: LakeError) -> ToolError {
    match error {
        LakeError::File { path, source } => ToolError::Write { path, source },
        error => ToolError::Write {
            path: path.to_owned(),
            source: io::Error::other(error),
        },
    }
}

/// What was exported so far.
#[derive(Debug, Default)]
struct Total {
    added: u64,
    replaced: u64,
    unchanged: u64,
    slices: u64,
    trace_bytes: u64,
    lake_bytes: u64,
    lost_packets: u64,
    errors: u64,
    /// Promoted arguments that no exported trace has.
    unused_promoted: Option<Vec<String>>,
}

impl Total {
    fn add(&mut self, exported: &Exported) {
        match exported.outcome {
            ExportOutcome::Replaced => self.replaced += 1,
            ExportOutcome::Unchanged => {
                self.unchanged += 1;
                return;
            }
            _ => self.added += 1,
        }
        let slices = exported
            .rows
            .iter()
            .find(|(table, _)| *table == Table::Slice);
        self.slices += slices.map_or(0, |(_, rows)| *rows);
        self.trace_bytes += exported.trace_bytes;
        self.lake_bytes += exported.lake_bytes;
        self.lost_packets += exported.lost_packets;
        self.errors += u64::from(exported.errors > 0);
        let unused = &exported.unused_promoted;
        match &mut self.unused_promoted {
            Some(all) => all.retain(|name| unused.contains(name)),
            None => self.unused_promoted = Some(unused.clone()),
        }
    }

    fn print(&self, lake: &Path, start: Instant) {
        let exported = self.added + self.replaced;
        if exported > 0 {
            let exported = plural(exported, "trace");
            let (lake, seconds) = (lake.display(), start.elapsed().as_secs_f64());
            eprintln!(
                "{exported} exported to {lake} in {seconds:.1} s: {} of traces, {}, {} of tables",
                bytes(self.trace_bytes),
                plural(self.slices, "slice"),
                bytes(self.lake_bytes),
            );
        }
        if self.replaced > 0 {
            let replaced = plural(self.replaced, "trace");
            eprintln!(
                "{replaced} had another export in the lake, which was replaced: of less of the trace, or with \
                 other promoted arguments, or of another service"
            );
        }
        if self.unchanged > 0 {
            let unchanged = plural(self.unchanged, "trace");
            eprintln!("{unchanged} in the lake already");
        }
        if self.lost_packets > 0 {
            let lost = plural(self.lost_packets, "packet");
            eprintln!("{lost} are known to be lost; table loss tells where");
        }
        for name in self.unused_promoted.iter().flatten() {
            let plain = name.strip_prefix("debug.");
            let remedy = match plain {
                Some(plain) => format!("call it {plain}, as the program does"),
                None => "check its name and type".to_owned(),
            };
            eprintln!("warning: no slice has a value for promoted argument {name}; {remedy}");
        }
        if self.errors > 0 {
            let errors = plural(self.errors, "trace");
            eprintln!("{errors} with errors; table finding tells which");
        }
    }
}
