//! Runs a scenario on real buffers and compares the results.

use std::collections::HashMap;
use std::fmt;

use support::trace_buffer::{assert_same_both_ways, counters};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{
    BufferStats, ChunkPayloadHistogram, ClientIdentity, FillPolicy, Packet, TraceBuffer,
    UntrustedChunk,
};

use crate::format::{self, ExpectedLoss, ExpectedPacket, ExpectedSlice, Scenario, Step, Writer};

/// The first step of a scenario with an unexpected result.
#[derive(Debug)]
pub struct Difference {
    line: usize,
    expected: String,
    got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: expected {}, got {}",
            self.line, self.expected, self.got
        )
    }
}

/// The result of a comparison. The error has the expected and the actual value.
type Compared = Result<(), (String, String)>;

/// Runs a scenario until the first difference.
pub fn run(scenario: &Scenario) -> Result<(), Difference> {
    let mut bench = Bench::default();
    for (line, step) in &scenario.steps {
        bench.run_step(step).map_err(|(expected, got)| Difference {
            line: *line,
            expected,
            got,
        })?;
    }
    // The memory beyond the used size has no accessor. The buffer's own tests check it.
    let line = scenario.steps.last().map_or(0, |&(line, _)| line);
    for buffer in bench.buffers.values() {
        if buffer.used_bytes() > buffer.size_bytes() {
            let expected = format!("at most {} used bytes", buffer.size_bytes());
            let got = buffer.used_bytes().to_string();
            return Err(Difference {
                line,
                expected,
                got,
            });
        }
    }
    Ok(())
}

/// The buffers of a scenario.
#[derive(Default)]
struct Bench {
    buffers: HashMap<String, TraceBuffer>,
    current: String,
}

impl Bench {
    fn run_step(&mut self, step: &Step) -> Compared {
        match step {
            Step::Buffer {
                size_bytes,
                discard,
            } => {
                let policy = if *discard {
                    FillPolicy::Discard
                } else {
                    FillPolicy::Ring
                };
                let buffer = TraceBuffer::new(*size_bytes, policy)
                    .map_err(|error| ("a buffer".to_owned(), error.to_string()))?;
                self.current = "main".to_owned();
                self.buffers = HashMap::from([(self.current.clone(), buffer)]);
                Ok(())
            }
            Step::Clone(name) => {
                let clone = self
                    .current()?
                    .clone_read_only()
                    .map_err(|error| ("a clone".to_owned(), error.to_string()))?;
                self.buffers.insert(name.clone(), clone);
                Ok(())
            }
            Step::Use(name) => {
                self.current.clone_from(name);
                self.current().map(drop)
            }
            Step::Drop(name) => match self.buffers.remove(name) {
                Some(_) => Ok(()),
                None => Err((format!("a buffer '{name}'"), "none".to_owned())),
            },
            step => run_on(self.current()?, step),
        }
    }

    fn current(&mut self) -> Result<&mut TraceBuffer, (String, String)> {
        let name = &self.current;
        let missing = || (format!("a buffer '{name}'"), "none".to_owned());
        self.buffers.get_mut(name).ok_or_else(missing)
    }
}

fn run_on(buffer: &mut TraceBuffer, step: &Step) -> Compared {
    match step {
        Step::Commit(commit) => {
            buffer.commit_chunk(&UntrustedChunk {
                producer_id: ProducerId::new(commit.writer.producer),
                client: ClientIdentity {
                    uid: commit.uid,
                    pid: commit.pid,
                },
                writer_id: WriterId(commit.writer.writer),
                chunk_id: ChunkId(commit.chunk),
                fragment_count: commit.declared,
                flags: ChunkFlags::from_bits(commit.flags),
                complete: commit.complete,
                payload: &commit.source,
            });
            Ok(())
        }
        Step::Patch(patch) => compare("patched", patch.succeeds, run_patch(buffer, patch)),
        Step::BeginRead => {
            assert_same_both_ways(buffer);
            buffer.begin_read();
            Ok(())
        }
        Step::Drain => {
            assert_same_both_ways(buffer);
            buffer.begin_read();
            while buffer.read_packet().is_some() {}
            Ok(())
        }
        Step::ReadNone => match buffer.read_packet() {
            None => Ok(()),
            Some(packet) => Err(("no packet".to_owned(), describe(&packet))),
        },
        Step::Read(expected) => match buffer.read_packet() {
            None => Err((format!("{expected:?}"), "no packet".to_owned())),
            Some(packet) => compare_packet(expected, &packet),
        },
        Step::Stats {
            values,
            rest_is_zero,
        } => compare_stats(values, *rest_is_zero, &named(buffer.stats())),
        Step::Histogram { writer, buckets } => {
            let histogram =
                buffer.writer_histogram(ProducerId::new(writer.producer), WriterId(writer.writer));
            compare(
                "histogram",
                buckets.as_deref().map(expected_histogram),
                histogram.map(counted),
            )
        }
        Step::Tail(bytes) => compare("tail", *bytes, buffer.tail_bytes()),
        Step::Used(bytes) => compare("used", *bytes, buffer.used_bytes()),
        Step::Size(bytes) => compare("size", *bytes, buffer.size_bytes()),
        Step::Buffer { .. } | Step::Clone(_) | Step::Use(_) | Step::Drop(_) => {
            unreachable!("steps about buffers as such are the bench's")
        }
    }
}

fn run_patch(buffer: &mut TraceBuffer, patch: &format::Patch) -> bool {
    let patches: Vec<Patch> = patch
        .patches
        .iter()
        .map(|&(offset, data)| Patch {
            // An offset of more than 16 bits becomes the largest of 16 bits. Both are behind the
            // end of any chunk.
            offset_bytes: u16::try_from(offset).unwrap_or(u16::MAX),
            data,
        })
        .collect();
    let Writer { producer, writer } = patch.writer;
    let chunk_id = ChunkId(patch.chunk);
    buffer.patch_chunk(
        ProducerId::new(producer),
        WriterId(writer),
        chunk_id,
        &patches,
        patch.has_more,
    )
}

fn compare_packet(expected: &ExpectedPacket, packet: &Packet<'_>) -> Compared {
    let slices: Vec<&[u8]> = packet.slices().collect();
    let is_same = slices.len() == expected.slices.len()
        && slices
            .iter()
            .zip(&expected.slices)
            .all(|(&slice, expected)| match expected {
                ExpectedSlice::Bytes(bytes) => slice == bytes,
                ExpectedSlice::Hashed {
                    len_bytes,
                    fnv1a: hash,
                } => slice.len() == *len_bytes && fnv1a(slice) == *hash,
            });
    if !is_same {
        let expected: Vec<String> = expected.slices.iter().map(describe_expected).collect();
        return Err((expected.join(" + "), describe(packet)));
    }
    compare("length", slices.concat().len(), packet.len_bytes())?;
    match expected.loss {
        None => {}
        Some(ExpectedLoss::Mask(mask)) => compare("loss", mask, packet.loss().bits())?,
        Some(ExpectedLoss::Any) => compare("some loss", true, !packet.loss().is_empty())?,
    }
    if let Some(writer) = expected.writer {
        let got = Writer {
            producer: packet.origin().producer_id.value(),
            writer: packet.origin().writer_id.0,
        };
        compare("sequence", writer, got)?;
    }
    if expected.uid.is_some() {
        compare("uid", expected.uid, packet.origin().client.uid)?;
    }
    if expected.pid.is_some() {
        compare("pid", expected.pid, packet.origin().client.pid)?;
    }
    Ok(())
}

fn compare_stats(values: &[(String, u64)], rest_is_zero: bool, stats: &[(&str, u64)]) -> Compared {
    for (name, value) in values {
        let Some(&(_, got)) = stats.iter().find(|(known, _)| known == name) else {
            return Err((
                format!("a counter '{name}'"),
                "none of this name".to_owned(),
            ));
        };
        compare(name, *value, got)?;
    }
    if rest_is_zero {
        for &(name, got) in stats {
            if name != "buffer_size" && values.iter().all(|(listed, _)| listed != name) {
                compare(name, 0, got)?;
            }
        }
    }
    Ok(())
}

/// Returns the counters and the size, by the names that scenarios use.
fn named(stats: &BufferStats) -> Vec<(&'static str, u64)> {
    let mut named = counters(stats).to_vec();
    named.push(("buffer_size", stats.buffer_size));
    named
}

/// The index, count and sum of each bucket that is not empty, in order.
type FilledBuckets = Vec<(usize, u64, u64)>;

fn expected_histogram(buckets: &[format::Bucket]) -> FilledBuckets {
    buckets
        .iter()
        .map(|bucket| (bucket.index, bucket.count, bucket.sum_bytes))
        .collect()
}

fn counted(histogram: &ChunkPayloadHistogram) -> FilledBuckets {
    let buckets = (histogram.counts().into_iter()).zip(histogram.sums_bytes());
    buckets
        .enumerate()
        .filter(|&(_, (count, _))| count != 0)
        .map(|(index, (count, sum))| (index, count, sum))
        .collect()
}

fn compare<T: PartialEq + fmt::Debug>(what: &str, expected: T, got: T) -> Compared {
    if expected == got {
        return Ok(());
    }
    Err((format!("{what} {expected:?}"), format!("{got:?}")))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn describe(packet: &Packet<'_>) -> String {
    let slices: Vec<String> = packet.slices().map(describe_bytes).collect();
    let (producer, writer) = (
        packet.origin().producer_id.value(),
        packet.origin().writer_id.0,
    );
    format!(
        "{} of {producer}.{writer} with {:?}",
        slices.join(" + "),
        packet.loss()
    )
}

fn describe_expected(slice: &ExpectedSlice) -> String {
    match slice {
        ExpectedSlice::Bytes(bytes) => describe_bytes(bytes),
        ExpectedSlice::Hashed { len_bytes, fnv1a } => format!("{len_bytes} bytes #{fnv1a:x}"),
    }
}

fn describe_bytes(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 24;
    let shown = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    format!("{} bytes \"{shown}\"", bytes.len())
}
