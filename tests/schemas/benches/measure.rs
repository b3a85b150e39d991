//! Measures how long the generator takes for the whole published schema of Perfetto, and how long
//! the compiler takes for the generated code:
//!
//! ```sh
//! cargo bench --package schemas --bench measure
//! ```

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use protozero_codegen::{Config, GeneratedFile};

/// The number of measurements; the fastest counts.
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = include_str!(concat!(env!("OUT_DIR"), "/perfetto/files.txt"))
        .lines()
        .map(PathBuf::from)
        .collect();
    let config = Config::new().include(env!("PERFETTO_PROTOS"));
    let (took, generated) = fastest(|| Ok(config.generate(&files)?))?;
    let messages: usize = generated.iter().map(count_messages).sum();
    let lines: usize = generated.iter().map(|it| it.source.lines().count()).sum();
    println!("schema: {} files, {messages} messages", files.len());
    println!("generator: {:.2} s for {lines} lines", took.as_secs_f64());

    let package = Package::new(&generated)?;
    for profile in ["dev", "release"] {
        package.build(profile)?; // builds its dependencies
        let (took, ()) = fastest(|| {
            package.touch()?;
            package.build(profile)
        })?;
        println!(
            "compiler, profile {profile}: {:.2} s, {:.2} s per 1,000 messages",
            took.as_secs_f64(),
            took.as_secs_f64() * 1_000.0 / messages as f64
        );
    }
    Ok(())
}

fn fastest<T>(
    mut work: impl FnMut() -> Result<T, Box<dyn Error>>,
) -> Result<(Duration, T), Box<dyn Error>> {
    let mut measure = || {
        let start = Instant::now();
        let result = work()?;
        Ok::<_, Box<dyn Error>>((start.elapsed(), result))
    };
    let mut best = measure()?;
    for _ in 1..RUNS {
        let next = measure()?;
        if next.0 < best.0 {
            best = next;
        }
    }
    Ok(best)
}

fn count_messages(file: &GeneratedFile) -> usize {
    file.source.matches("/// Writer of `").count()
}

/// A package whose source is the generated files.
struct Package {
    folder: PathBuf,
}

impl Package {
    fn new(generated: &[GeneratedFile]) -> Result<Self, Box<dyn Error>> {
        let folder = Path::new(env!("OUT_DIR")).join("measured");
        fs::create_dir_all(folder.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"measured\"\nedition = \"2024\"\n[workspace]\n\
             [dependencies]\nprotozero = {{ path = \"{}/../../protozero\" }}\n",
            env!("CARGO_MANIFEST_DIR")
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut root = String::new();
        for (number, file) in generated.iter().enumerate() {
            fs::write(folder.join("src").join(&file.name), &file.source)?;
            root += &format!("pub mod unit_{number} {{ include!(\"{}\"); }}\n", file.name);
        }
        fs::write(folder.join("src/lib.rs"), root)?;
        Ok(Package { folder })
    }

    /// Makes the next build compile the package, but not its dependencies.
    fn touch(&self) -> Result<(), Box<dyn Error>> {
        let root = self.folder.join("src/lib.rs");
        Ok(fs::write(&root, fs::read(&root)?)?)
    }

    fn build(&self, profile: &str) -> Result<(), Box<dyn Error>> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--offline", "--profile", profile])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("CARGO_INCREMENTAL", "0")
            .status()?;
        if !status.success() {
            return Err("the generated code does not compile".into());
        }
        Ok(())
    }
}
