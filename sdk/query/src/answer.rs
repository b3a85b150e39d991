//! From inputs to printed rows.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::AsArray;
use futures::TryStreamExt;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::select;
use tokio::task::{JoinError, spawn_blocking};
use tracezero_lake::Promoted;

use crate::args::{Args, Format, Input};
use crate::cache::{FileState, KnownFiles, TraceRow};
use crate::error::QueryError;
use crate::progress::QueryProgress;
use crate::resources::Resources;
use crate::signals::Signals;
use crate::tables::LakeTables;
use crate::traces::Stop;
use crate::{engine, output, traces};

/// What a user asks for.
#[derive(Debug)]
pub(crate) struct Request {
    sql: String,
    input: Input,
    promoted: Promoted,
    /// The arguments to promote, as the user has written them.
    promote: String,
    cache: Option<PathBuf>,
    format: Format,
    memory_bytes: Option<u64>,
}

impl Request {
    /// Reads the arguments, and the query if it is a file or the standard input.
    ///
    /// # Errors
    ///
    /// If the arguments are wrong, or a file cannot be read.
    pub(crate) fn new(args: &Args) -> Result<Self, QueryError> {
        Ok(Self {
            input: args.input()?,
            promoted: args.promoted()?,
            promote: args.promote.clone().unwrap_or_default(),
            cache: args.cache.clone(),
            format: args.format,
            memory_bytes: args.memory_bytes(),
            sql: args.sql()?,
        })
    }
}

/// Prints the rows that answer a query.
///
/// # Errors
///
/// If a trace cannot be exported, the engine refuses the query, or a signal arrives.
pub(crate) async fn answer(request: Request) -> Result<(), QueryError> {
    let mut signals = Signals::listen().map_err(QueryError::Runtime)?;
    // Is removed at the end of this function.
    let folder = temporary_folder()?;
    let resources = Resources {
        memory_bytes: request.memory_bytes,
        folder: folder.path().join("spilled"),
    };
    let tables = match (&request.input, &request.cache) {
        (Input::Lake(lake), _) => LakeTables {
            lake: lake.clone(),
            traces: None,
        },
        (Input::Traces(paths), None) => {
            let lake = folder.path().join("lake");
            export(&mut signals, paths.clone(), &lake, &request.promoted).await?;
            LakeTables { lake, traces: None }
        }
        (Input::Traces(paths), Some(lake)) => {
            let traces = update(&mut signals, paths, lake, &request, &resources).await?;
            LakeTables {
                lake: lake.clone(),
                traces: Some(traces),
            }
        }
    };
    // A thread of its own, since it waits for its output.
    let runtime = Handle::current();
    let query = spawn_blocking(move || {
        runtime.block_on(async {
            let progress = QueryProgress::start();
            let rows = engine::rows(&request.sql, &tables, &resources).await?;
            output::print(rows, request.format, progress).await
        })
    });
    select! {
        result = query => result.unwrap_or_else(panicked),
        // The query may wait for its output, which may have stopped for the same signal.
        signal = signals.next() => Err(QueryError::Interrupted(signal)),
    }
}

/// Creates a folder that only this user can read, as traces tell much.
fn temporary_folder() -> Result<TempDir, QueryError> {
    let mut builder = tempfile::Builder::new();
    let folder = builder
        .prefix("tracezero-query-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    folder.map_err(|source| QueryError::File {
        path: std::env::temp_dir(),
        source,
    })
}

/// Exports traces to a lake. Returns the id of each.
async fn export(
    signals: &mut Signals,
    paths: Vec<PathBuf>,
    lake: &Path,
    promoted: &Promoted,
) -> Result<Vec<String>, QueryError> {
    let stop = Stop::default();
    let (lake, promoted, stopped) = (lake.to_owned(), promoted.clone(), stop.clone());
    let mut work = spawn_blocking(move || traces::export(&paths, &lake, &promoted, &stopped));
    select! {
        result = &mut work => result.unwrap_or_else(panicked),
        signal = signals.next() => {
            stop.stop();
            // The export removes what it has written. A second signal ends the wait for it.
            select! {
                _ = work => {}
                _ = signals.next() => {}
            }
            Err(QueryError::Interrupted(signal))
        }
    }
}

/// Exports those traces to a lake that are not there yet. Returns the id of each.
async fn update(
    signals: &mut Signals,
    paths: &[PathBuf],
    lake: &Path,
    request: &Request,
    resources: &Resources,
) -> Result<Vec<String>, QueryError> {
    let mut known = KnownFiles::load(lake);
    let rows = trace_rows(lake, resources).await?;
    let mut ids = Vec::new();
    let mut unknown = Vec::new();
    for path in paths {
        // From before the export, so that a change during it is noticed next time.
        let state = FileState::of(path, &request.promote);
        let id = state
            .as_ref()
            .and_then(|state| known.trace_id(path, state, &rows));
        match id {
            Some(id) => ids.push(id.to_owned()),
            None => unknown.push((path, state)),
        }
    }
    if unknown.is_empty() {
        return Ok(ids);
    }
    let new = unknown
        .iter()
        .map(|(path, _)| PathBuf::clone(path))
        .collect();
    let new = export(signals, new, lake, &request.promoted).await?;
    let rows = trace_rows(lake, resources).await?;
    // Of files with the same trace, the lake has the last.
    let mut seen = HashSet::new();
    for ((path, state), id) in unknown.into_iter().zip(&new).rev() {
        let row = rows.iter().find(|row| row.trace_id == *id);
        if let (Some(state), Some(row)) = (state, row)
            && seen.insert(id)
        {
            known.add(path, state, row);
        }
    }
    known.store(lake)?;
    ids.extend(new);
    Ok(ids)
}

/// Returns what a lake says of its traces; nothing if there is no lake yet.
async fn trace_rows(lake: &Path, resources: &Resources) -> Result<HashSet<TraceRow>, QueryError> {
    let tables = LakeTables {
        lake: lake.to_owned(),
        traces: None,
    };
    let sql = "SELECT trace_id, source_hash, export_format FROM trace";
    let mut batches = match engine::rows(sql, &tables, resources).await {
        Ok(batches) => batches,
        Err(QueryError::NotALake(_) | QueryError::EmptyLake(_)) => return Ok(HashSet::new()),
        Err(error) => return Err(error),
    };
    let mut rows = HashSet::new();
    while let Some(batch) = batches.try_next().await? {
        let texts = [0, 1, 2].map(|column| batch.column(column).as_string_view());
        rows.extend((0..batch.num_rows()).map(|row| {
            let [trace_id, source_hash, export_format] = texts.map(|it| it.value(row).to_owned());
            TraceRow {
                trace_id,
                source_hash,
                export_format,
            }
        }));
    }
    Ok(rows)
}

/// Converts the end of a task that has panicked. The panic's message was printed when it happened.
fn panicked<T>(_: JoinError) -> Result<T, QueryError> {
    Err(QueryError::Panicked)
}
