//! Fuzzes the generator with any text, as one schema or as two that may import each other: it
//! returns, and the code that it generates parses.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use protozero_codegen::Config;

/// The line between the two files.
const SEPARATOR: &str = "=====";

/// A folder of this process. The fuzz target does not remove it; the system removes it with other
/// temporary files.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("tracezero-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
});

fuzz_target!(|text: &str| {
    let (input, imported) = text.split_once(SEPARATOR).unwrap_or((text, ""));
    let path = FOLDER.join("input.proto");
    fs::write(&path, input).expect("the input is written");
    fs::write(FOLDER.join("imported.proto"), imported).expect("the import is written");
    if let Err(error) = Config::new().include(&*FOLDER).generate(&[&path]) {
        assert!(!error.to_string().is_empty());
    }
});
