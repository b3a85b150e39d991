//! The data source: statistics of every file, with the schema in `protos/index_tree.proto`.

use tracezero::{DataSource as _, data_source};

use self::schema::TracePacketExt as _;
use crate::index::Words;

mod schema {
    protozero::include_protos!("index_tree");
}

/// The number of most frequent words that a packet lists.
const TOP_WORDS: usize = 256;

struct FileStats;
data_source!(FileStats, "com.example.index_tree.file_stats");

/// Records the statistics of the file `path`.
pub fn record(path: &str, text: &str, words: &Words<'_>) {
    FileStats::trace(|cx| {
        // Sort before the packet begins, so that the packet is open only for a short time: while it
        // is open, this thread cannot write another packet to the chunk.
        let top_words = words.top(TOP_WORDS);
        let now = cx.now_ns();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.file_stats(|stats| {
                stats.set_path(path);
                stats.set_bytes(text.len() as u64);
                stats.set_lines(text.lines().count() as u64);
                stats.set_words(words.total);
                stats.set_distinct_words(words.distinct() as u64);
                for (word, count) in top_words {
                    stats.add_top_words(|top| {
                        top.set_word(word).set_count(count);
                    });
                }
                stats.set_words_by_length(words.by_length);
            });
        });
    });
}
