//! Foreign SQL engines, which read the tables of a lake.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value as Json;

/// SQL engines as packages for Python.
#[derive(Clone, Debug)]
pub struct Engines {
    packages: PathBuf,
}

impl Engines {
    /// The names of the engines.
    pub const NAMES: [&str; 2] = ["duckdb", "datafusion"];
    /// Where the engines come from.
    pub const SOURCE: &str = "DuckDB and DataFusion, which ci/fetch.sh installs by pip";

    /// Finds the engines in the folder that the environment variable `TRACEZERO_ENGINES` names, or
    /// else where `ci/fetch.sh` installs them. `None` if they are missing.
    #[must_use]
    pub fn find() -> Option<Self> {
        let fetched = package_dir().join("../../target/engines");
        let packages = env::var_os("TRACEZERO_ENGINES").map_or(fetched, PathBuf::from);
        let has = |name: &&str| packages.join(name).is_dir();
        Self::NAMES.iter().all(has).then_some(Self { packages })
    }

    /// Compares the tables of `lake`, as an engine reads them, with what [`tables`](crate::tables)
    /// has returned for each trace, by the path of the trace. Returns a line for each difference.
    ///
    /// # Panics
    ///
    /// If the engine cannot read the lake.
    #[must_use]
    pub fn differences(&self, engine: &str, lake: &Path, expected: &Json) -> Vec<String> {
        let file = lake.join("_expected.json");
        fs::write(&file, expected.to_string()).unwrap();
        let output = Command::new("python3")
            .arg(package_dir().join("engines/compare.py"))
            .arg(engine)
            .args([lake, &file])
            .env("PYTHONPATH", &self.packages)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
        let last = lines.pop().unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(last.ends_with(" differences"), "{said}{errors}");
        lines
    }
}

fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
