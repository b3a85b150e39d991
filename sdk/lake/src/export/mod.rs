//! Reads a trace, and writes its tables.
//!
//! The rows of most tables are known only when the trace was read: a slice has its duration at its end, and a
//! thread may get its name late. So slices, counters and flows are collected in sorters, and written at the end.
//! Arguments are written while the trace is read, so that both cores have work.

mod args; // arguments of slices
mod counters; // values of counters
mod description; // id, origin and wall time of the trace
mod details; // arguments and flows of slices that have not ended
mod findings; // faults of the trace
mod flows; // arrows between slices
mod losses; // what was lost
mod slice_row; // a slice that was read
mod slices; // slices and instants
mod stats; // statistics of the service
mod thread_states; // what threads did
mod threads; // processes, threads and tracks

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use tracezero_reader::kernel::KernelEvents;
use tracezero_reader::{
    CheckSummary, Checker, EventKind, PacketItem, PacketReader, ReadError, Record, TraceIdentity,
    TraceReader,
};
use twox_hash::XxHash3_128;

use self::counters::CounterRows;
use self::description::{Description, day, path_part, write_attributes};
use self::findings::FindingRows;
use self::losses::LossRows;
use self::slices::{CollectedSlices, SliceRows};
use self::stats::StatsRows;
use self::threads::Threads;
use crate::encode::Format;
use crate::error::LakeError;
use crate::promoted::Promoted;
use crate::staging::Staging;
use crate::table::Table;
use crate::table_writer::{TableFiles, TableWriter};
use crate::workers::Workers;

/// The key of the metadata of files that tells how they were exported.
const FORMAT_KEY: &str = "tracezero.export_format";
/// The size of the beginning of a trace that has its uuid, if the trace has one.
const HEAD_BYTES: u64 = 64 << 10;
/// The version of the tables. A new one replaces what older ones have exported.
const VERSION: u32 = 1;

/// The tables of a trace, in files that are not part of the lake yet.
#[derive(Debug)]
pub(crate) struct ExportedTrace {
    pub(crate) trace_id: String,
    pub(crate) source_hash: String,
    pub(crate) day: String,
    pub(crate) service: String,
    pub(crate) tables: Vec<TableFiles>,
    pub(crate) check: CheckSummary,
    pub(crate) lost_packets: u64,
    pub(crate) bytes: u64,
    pub(crate) unused_promoted: Vec<String>,
}

/// What an export needs to know.
pub(crate) struct Request<'r> {
    /// The name of the trace's file.
    pub(crate) source: &'r str,
    pub(crate) promoted: &'r Promoted,
    /// Replaces the service's name that is in the trace.
    pub(crate) service: Option<&'r str>,
    /// Describes the export.
    pub(crate) format: &'r str,
    /// Returns true if the lake has no file of a table but those of the trace with this id, which may be replaced.
    /// Then one is needed even without rows: engines refuse to read a table that has no file.
    pub(crate) needs_file: &'r dyn Fn(Table, &str) -> bool,
}

/// Describes an export; equal for exports of a trace that write the same.
pub(crate) fn export_format(promoted: &Promoted, service: Option<&str>) -> String {
    let columns = promoted.fingerprint();
    match service {
        None => format!("{VERSION}:{columns}"),
        Some(service) => format!("{VERSION}:{columns}:{service}"),
    }
}

/// Returns the id of a trace, and a function that reads the rest of the trace and returns the hash of its bytes.
pub(crate) fn identify<R: Read>(
    mut source: R,
) -> Result<(String, impl FnOnce() -> Result<String, LakeError>), LakeError> {
    let hash = RefCell::new(XxHash3_128::new());
    let head = read_head(&mut Hashed {
        source: &mut source,
        hash: &hash,
    })?;
    let read_rest = move || {
        let mut rest = Hashed {
            source,
            hash: &hash,
        };
        let read = io::copy(&mut rest, &mut io::sink());
        read.map_err(|source| ReadError::Io { offset: 0, source })?;
        Ok(hash_text(&hash))
    };
    Ok((trace_id(&head), read_rest))
}

/// Reads a trace to its end, and writes its tables into files of `staging`.
pub(crate) fn export<R: Read>(
    source: R,
    request: &Request<'_>,
    staging: &Staging,
    workers: &Workers,
) -> Result<ExportedTrace, LakeError> {
    let hash = RefCell::new(XxHash3_128::new());
    let mut source = Hashed {
        source,
        hash: &hash,
    };
    let head = read_head(&mut source)?;
    let tables = Tables {
        trace_id: trace_id(&head).into(),
        request,
        staging,
        workers,
    };
    let mut reader = TraceReader::new(head.chain(source));
    let read = ReadTrace::read(&mut reader, &tables)?;
    tables.write(read, &reader, hash_text(&hash))
}

fn hash_text(hash: &RefCell<XxHash3_128>) -> String {
    format!("{:032x}", hash.borrow().finish_128())
}

/// Reads the beginning of a trace.
fn read_head(source: &mut impl Read) -> Result<Vec<u8>, LakeError> {
    let mut head = Vec::new();
    let read = source.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|source| ReadError::Io { offset: 0, source })?;
    Ok(head)
}

/// Returns the id of a trace that begins with `head`: its uuid if it has one, or else a hash of the beginning. So the
/// id is known before rows are written, and a part of a trace has the same id as the whole.
fn trace_id(head: &[u8]) -> String {
    let mut packets = PacketReader::new(head);
    let mut description = Description::default();
    while description.uuid.is_none()
        && let Ok(Some(item)) = packets.next()
    {
        if let PacketItem::Packet(packet) = item {
            let _ = description.add(packet.bytes, 0);
        }
    }
    let hash = || format!("{:032x}", XxHash3_128::oneshot(head));
    description.uuid.unwrap_or_else(hash)
}

/// Computes a hash of the bytes that are read.
struct Hashed<'h, R> {
    source: R,
    hash: &'h RefCell<XxHash3_128>,
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.hash.borrow_mut().write(&buffer[..count]);
        Ok(count)
    }
}

/// What was read of a trace.
struct ReadTrace<'s> {
    description: Description,
    slices: CollectedSlices<'s>,
    counters: CounterRows,
    losses: LossRows,
    stats: StatsRows,
    findings: FindingRows,
    check: CheckSummary,
    kernel: KernelEvents,
    /// The times of the first and the last event.
    range_ns: Option<(u64, u64)>,
}

impl<'s> ReadTrace<'s> {
    fn read<R: Read>(reader: &mut TraceReader<R>, tables: &Tables<'s>) -> Result<Self, LakeError> {
        let (workers, staging) = (tables.workers, tables.staging);
        let args = tables.writer(Table::Args)?;
        let mut slices = SliceRows::new(args, tables.request.promoted, workers, staging);
        let mut counters = CounterRows::new(workers, |name| staging.path(name));
        let mut description = Description::default();
        let mut losses = LossRows::default();
        let mut stats = StatsRows::default();
        let mut findings = FindingRows::default();
        let mut kernel = KernelEvents::new();
        let mut range_ns: Option<(u64, u64)> = None;
        let mut checker = Checker::new(|finding| findings.add(finding));
        while let Some(record) = checker.next(reader)? {
            match record {
                Record::Event(event) => {
                    let head = &event.head;
                    let (time_ns, packet) = (head.timestamp_ns, head.place.index);
                    let end_ns = match head.kind {
                        EventKind::Slice { duration_ns } => time_ns.saturating_add(duration_ns),
                        _ => time_ns,
                    };
                    let (first_ns, last_ns) = range_ns.get_or_insert((time_ns, end_ns));
                    (*first_ns, *last_ns) = (time_ns.min(*first_ns), end_ns.max(*last_ns));
                    losses.note_time(head.sequence_id, time_ns);
                    for (track, value) in event.extra_counters() {
                        counters.add(time_ns, packet, *track, *value)?;
                    }
                    match head.kind {
                        EventKind::Counter(value) => {
                            counters.add(time_ns, packet, head.track, value)?;
                        }
                        _ => slices.add(&event)?,
                    }
                }
                Record::Packet(packet) => {
                    if let Some(time_ns) = packet.timestamp_ns {
                        losses.note_time(packet.packet.head.sequence_id, time_ns);
                    }
                    let bytes = reader.packet().bytes;
                    // Errors are among the findings.
                    let _ = losses.losses.add_packet(bytes);
                    let _ = stats.set(bytes);
                    let _ = description.add(bytes, reader.trace_clock_id());
                    kernel.add(reader);
                }
                Record::Loss(loss) => losses.add(&loss),
                // The checker has found damage and skipped packets.
                _ => {}
            }
        }
        let check = checker.finish(reader);
        if check.packets == 0 {
            return Err(ReadError::NotATrace { found: None }.into());
        }
        Ok(Self {
            description,
            slices: slices.finish()?,
            counters,
            losses,
            stats,
            findings,
            check,
            kernel,
            range_ns,
        })
    }
}

/// Writes the tables of a trace.
struct Tables<'r> {
    trace_id: Arc<str>,
    request: &'r Request<'r>,
    staging: &'r Staging,
    workers: &'r Workers,
}

impl Tables<'_> {
    fn write<R>(
        self,
        read: ReadTrace<'_>,
        reader: &TraceReader<R>,
        source_hash: String,
    ) -> Result<ExportedTrace, LakeError> {
        let (tracks, names) = (reader.tracks(), reader.names());
        let kernel = read.kernel.finish();
        let threads = Threads::new(tracks, names, &kernel);
        let staging = self.staging;
        let mut tables = Vec::new();
        let mut finish = |table: TableWriter| -> Result<(), LakeError> {
            let is_empty = table.rows() == 0;
            let needs_file = is_empty && (self.request.needs_file)(table.table(), &self.trace_id);
            tables.push(table.finish(staging, needs_file)?);
            Ok(())
        };

        let mut table = self.writer(Table::TraceAttr)?;
        write_attributes(reader.identities(), &mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Process)?;
        threads.write_processes(&mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Thread)?;
        threads.write_threads(&mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Track)?;
        threads.write_tracks(&mut table, staging, tracks, names)?;
        finish(table)?;

        let open_slices = read.slices.open;
        let mut table = self.writer(Table::Slice)?;
        let (args, flows) = read.slices.write(&mut table, staging, &threads, names)?;
        finish(table)?;

        let mut table = self.writer(Table::Counter)?;
        read.counters.write(&mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Flow)?;
        flows.write(&mut table, staging)?;
        finish(table)?;

        let unused_promoted = args.unused_promoted(self.request.promoted);
        finish(args.finish()?)?;

        let mut table = self.writer(Table::ThreadState)?;
        thread_states::write(&kernel, &threads, self.workers, &mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Loss)?;
        read.losses.write(&mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Stats)?;
        read.stats.write(&mut table, staging)?;
        finish(table)?;

        let mut table = self.writer(Table::Finding)?;
        read.findings.write(&mut table, staging)?;
        finish(table)?;

        let description = &read.description;
        // A trace that was merged from several has several identities.
        let identity = reader.identities().first();
        let exe = identity.and_then(TraceIdentity::executable_name);
        let exe = exe.or_else(|| threads.only_process());
        let service = identity.and_then(TraceIdentity::service_name);
        let service = self.request.service.or(service).or(exe);
        let start_us = read
            .range_ns
            .and_then(|(first_ns, _)| description.wall_time_us(first_ns));
        let losses = &read.losses.losses;
        let mut table = self.writer(Table::Trace)?;
        table
            .row(staging)?
            .maybe_text(service)
            .maybe_text(identity.and_then(TraceIdentity::service_version))
            .maybe_text(identity.and_then(TraceIdentity::host_name))
            .maybe_text(identity.and_then(TraceIdentity::host_id))
            .maybe_text(identity.and_then(TraceIdentity::host_boot_id))
            .maybe_text(exe)
            .maybe_int(start_us)
            .maybe_int(read.range_ns.map(|(first_ns, _)| first_ns.cast_signed()))
            .maybe_int(
                read.range_ns
                    .map(|(first_ns, last_ns)| (last_ns - first_ns).cast_signed()),
            )
            .uint(read.check.packets)
            .uint(read.check.events)
            .uint(reader.offset())
            .uint(losses.packets())
            .uint(losses.gaps())
            .uint(open_slices)
            .uint(read.check.errors)
            .text(self.request.source)
            .text(&source_hash)
            .text(self.request.format);
        finish(table)?;

        Ok(ExportedTrace {
            day: day(start_us),
            service: path_part(service.unwrap_or("unknown")),
            trace_id: self.trace_id.to_string(),
            source_hash,
            tables,
            check: read.check,
            lost_packets: losses.packets(),
            bytes: reader.offset(),
            unused_promoted,
        })
    }

    fn writer(&self, table: Table) -> Result<TableWriter, LakeError> {
        let mut columns = table.columns().to_vec();
        if table == Table::Slice {
            columns.extend(self.request.promoted.columns().cloned());
        }
        let export_format = self.request.format.to_owned();
        let metadata = vec![KeyValue::new(FORMAT_KEY.to_owned(), export_format)];
        let format = Format::new(table, columns, metadata);
        let path = self.staging.path(table.name());
        let format = Arc::new(format.map_err(LakeError::in_parquet(&path))?);
        Ok(TableWriter::new(
            table,
            format,
            Arc::clone(&self.trace_id),
            self.workers,
        ))
    }
}
