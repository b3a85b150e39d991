//! The slowest files, for people.

use crate::index::IndexedFile;

/// Prints the files that took longest.
pub fn print_slowest(mut files: Vec<IndexedFile>, count: usize) {
    files.sort_unstable_by_key(|file| std::cmp::Reverse(file.duration));
    println!(
        "\n{:>10} {:>10} {:>9}  slowest files",
        "ms", "bytes", "words"
    );
    for file in files.iter().take(count) {
        println!(
            "{:>10.3} {:>10} {:>9}  {}",
            file.duration.as_secs_f64() * 1e3,
            file.bytes,
            file.words,
            file.path.display()
        );
    }
}
