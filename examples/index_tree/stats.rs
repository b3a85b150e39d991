//! What a trace says about a file: packets of the schema `examples/protos/index_tree.proto`.

use std::collections::HashMap;
use std::path::Path;

use tracezero::{TraceContext, data_source};

/// The generated writers, and the trait that adds `file_stats` to a trace packet.
mod protos {
    protozero::include_protos!("index_tree");
}

use protos::TracePacketExt as _;

/// Words that are listed of one file. The packets of large files are longer than a chunk.
const TOP_WORDS: usize = 500;
/// Buckets of word lengths.
const LENGTHS: usize = 24;

/// The data source of file statistics.
pub struct FileStatsSource;

data_source!(FileStatsSource, "com.example.index_tree.file_stats");

/// Writes the statistics of one file.
pub fn write(
    cx: &mut TraceContext<'_>,
    path: &Path,
    text: &str,
    words: &HashMap<&str, u32>,
    total: u64,
) {
    let mut top: Vec<_> = words.iter().collect();
    // By frequency, then by name, so that the same file gives the same packet.
    top.sort_unstable_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let mut by_length = [0; LENGTHS];
    for word in crate::index::words_of(text) {
        by_length[word.chars().count().min(LENGTHS) - 1] += 1;
    }
    let now = cx.now();
    cx.packet(|packet| {
        packet.set_timestamp(now);
        packet.file_stats(|stats| {
            stats.set_path(&path.to_string_lossy());
            stats.set_bytes(text.len() as u64);
            stats.set_lines(text.lines().count() as u32);
            stats.set_words(total);
            stats.set_distinct_words(words.len() as u32);
            for (word, count) in top.iter().take(TOP_WORDS) {
                stats.add_top_words(|out| {
                    out.set_word(word);
                    out.set_count(**count);
                });
            }
            stats.set_words_by_length(by_length);
        });
    });
}
