//! Puts the times of all traces into two tables: names, and stacks, each with a cell per trace.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use tracezero_reader::{NameId, NameTable};

use super::log_times::LogTimes;
use super::read::{TraceAccount, TraceTimes, read};
use super::statistics::Side;
use crate::by_name::ByName;
use crate::error::ToolError;
use crate::stacks::{Frame, NodeId, StackTrees};
use crate::tracks::SpanPlace;

/// The maximum number of cells of both tables together. Further ones are left out. With all that is made
/// of it, a cell takes about 150 bytes.
const MAX_CELLS: usize = 2 << 20;
/// The maximum number of traces that are read at once. Each may take some hundred megabytes if it is
/// hostile.
const MAX_READERS: usize = 8;

/// The times of a row in the traces that have it, by index of the trace.
pub(super) type Cells = Vec<(u32, LogTimes)>;

/// The tables of a comparison.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) traces: Vec<TraceAccount>,
    pub(super) sides: Vec<Side>,
    pub(super) texts: NameTable,
    /// Durations.
    pub(super) names: Vec<NameRow>,
    by_name: HashMap<(SpanPlace, NameId, NameId), usize>,
    /// Self times.
    pub(super) stacks: StackTrees<SpanPlace, Cells>,
    roots: [NodeId; 2],
    cells: usize,
    /// The number of spans that have no cell, for want of room.
    pub(super) left_out: u64,
}

/// The durations of a name.
#[derive(Debug)]
pub(super) struct NameRow {
    pub(super) place: SpanPlace,
    pub(super) category: NameId,
    pub(super) name: NameId,
    pub(super) cells: Cells,
}

impl Tables {
    fn new(sides: Vec<Side>) -> Self {
        let mut stacks = StackTrees::default();
        let roots = [SpanPlace::Thread, SpanPlace::Track].map(|place| stacks.add_root(place));
        Self {
            traces: vec![TraceAccount::default(); sides.len()],
            sides,
            texts: NameTable::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
            stacks,
            roots,
            cells: 0,
            left_out: 0,
        }
    }

    /// Reads all traces, several at once.
    pub(super) fn read(before: &[&Path], after: &[&Path]) -> Result<Self, ToolError> {
        let paths: Vec<&Path> = before.iter().chain(after).copied().collect();
        let sides = before.iter().map(|_| Side::Before);
        let sides = sides.chain(after.iter().map(|_| Side::After));
        let mut tables = Self::new(sides.collect());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let readers = cores.min(MAX_READERS).min(paths.len());
        let next = AtomicUsize::new(0);
        // Without room in the channel, a reader waits until its trace is in the tables.
        let (sender, receiver) = sync_channel(0);
        let mut failed: Option<ToolError> = None;
        thread::scope(|scope| {
            for _ in 0..readers {
                let (sender, paths, next) = (sender.clone(), &paths, &next);
                scope.spawn(move || {
                    loop {
                        // Relaxed: the index says only which file is next.
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(path) = paths.get(index) else {
                            return;
                        };
                        if sender.send((index, read(path))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (index, read) in &receiver {
                match read {
                    Ok(times) => tables.add(index, times),
                    Err(error) => {
                        // Read no further files. The caller prints the last error.
                        next.store(paths.len(), Ordering::Relaxed);
                        if let Some(earlier) = failed.replace(error) {
                            eprintln!("error: {earlier}");
                        }
                    }
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(tables.in_order()),
        }
    }

    fn add(&mut self, trace: usize, times: TraceTimes) {
        self.traces[trace] = times.account;
        let texts = &times.names;
        let [threads, tracks] = times.durations;
        for (place, rows) in [(SpanPlace::Thread, threads), (SpanPlace::Track, tracks)] {
            self.add_names(trace, place, &rows, texts);
        }
        let mut nodes = HashMap::new();
        for node in times.self_times.iter() {
            // Parents come before their children.
            let here = match times.self_times.frame(node) {
                Frame::Root(place) => self.roots[place as usize],
                Frame::Span { parent, name } => {
                    let Some(parent) = nodes.get(&parent) else {
                        continue;
                    };
                    let name = self.texts.intern(texts.text(name));
                    self.stacks.child(*parent, name)
                }
            };
            nodes.insert(node, here);
            let times = *times.self_times.value(node);
            if times.count > 0 {
                let cells = self.stacks.value_mut(here);
                let is_in = add_to(cells, trace, &times, &mut self.cells);
                self.left_out += if is_in { 0 } else { times.count };
            }
        }
    }

    fn add_names(
        &mut self,
        trace: usize,
        place: SpanPlace,
        rows: &ByName<LogTimes>,
        texts: &NameTable,
    ) {
        for row in rows.rows() {
            let name = self.texts.intern(texts.text(row.name));
            let category = self.texts.intern(texts.text(row.category));
            let index = *self
                .by_name
                .entry((place, category, name))
                .or_insert_with(|| {
                    self.names.push(NameRow {
                        place,
                        category,
                        name,
                        cells: Vec::new(),
                    });
                    self.names.len() - 1
                });
            let cells = &mut self.names[index].cells;
            let is_in = add_to(cells, trace, &row.value, &mut self.cells);
            self.left_out += if is_in { 0 } else { row.value.count };
        }
    }

    /// Orders what came in the order in which traces were read.
    fn in_order(mut self) -> Self {
        for row in &mut self.names {
            row.cells.sort_unstable_by_key(|(trace, _)| *trace);
        }
        for node in self.stacks.iter() {
            let cells = self.stacks.value_mut(node);
            cells.sort_unstable_by_key(|(trace, _)| *trace);
        }
        self
    }
}

/// Adds times to the cell of a trace. Returns false if there is no room.
fn add_to(cells: &mut Cells, trace: usize, times: &LogTimes, all_cells: &mut usize) -> bool {
    let trace = trace as u32;
    // Stacks of a trace that share a cell come one after the other, as no other trace is added meanwhile.
    if let Some((last, known)) = cells.last_mut()
        && *last == trace
    {
        known.add_all(times);
        return true;
    }
    if *all_cells >= MAX_CELLS {
        return false;
    }
    *all_cells += 1;
    cells.push((trace, *times));
    true
}
