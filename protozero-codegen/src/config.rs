//! What a build script says, and the files that it gets.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::extern_path::ExternPaths;
use crate::{emit, front_end, owned, resolve};

/// What to generate, and how.
///
/// Paths are relative to the folder that the build script runs in, which is that of the package.
#[derive(Debug, Clone, Default)]
pub struct Config {
    includes: Vec<PathBuf>,
    extern_paths: Vec<(String, String)>,
    owned: Vec<String>,
    out_dir: Option<PathBuf>,
}

/// The code of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GeneratedFile {
    /// The file's name: that of the package, and `.rs`.
    pub name: String,
    /// Rust source.
    pub source: String,
}

impl Config {
    /// A configuration without include folders, which writes to `OUT_DIR`.
    #[must_use]
    pub fn new() -> Self {
        Config::default()
    }

    /// Adds a folder that imports are relative to. Every file given to
    /// [`compile`](Config::compile) must be in one. Earlier folders are searched first.
    #[must_use]
    pub fn include(mut self, folder: impl AsRef<Path>) -> Self {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Refers to a package or message that was generated elsewhere, instead of generating it again:
    /// `.extern_path(".perfetto.protos", "::tracezero::protos")`.
    ///
    /// The protobuf name starts with a dot and covers everything inside it; the longest one that
    /// covers a type counts. The Rust path starts with `::` or `crate::`.
    #[must_use]
    pub fn extern_path(mut self, proto: impl Into<String>, rust: impl Into<String>) -> Self {
        self.extern_paths.push((proto.into(), rust.into()));
        self
    }

    /// Generates owned structs, too, for a message or for all messages of a package, and for what
    /// is declared inside: `.owned(".app.Settings")`.
    ///
    /// The protobuf name starts with a dot. Messages that a struct reaches through its fields get
    /// structs without being named.
    ///
    /// The structs are in a module `owned` beside the writers: that of message `app.Settings` is
    /// `owned::Settings`, and that of a message `Window` inside of it is `owned::settings::Window`.
    /// They implement `protozero::OwnedMessage`, which says what their members are. Decoder and
    /// writer of a message have the same names for its fields.
    ///
    /// A field for which the schema declares a default has a method, such as `width_or_default`.
    ///
    /// Where a field's message is covered by an [`extern_path`](Config::extern_path), its struct is
    /// expected in such a module `owned`, too: for `.extern_path(".geo", "::geo::protos")` and a
    /// message `geo.Point` that is `::geo::protos::owned::Point`.
    #[must_use]
    pub fn owned(mut self, proto: impl Into<String>) -> Self {
        self.owned.push(proto.into());
        self
    }

    /// Writes to a folder other than `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.out_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// Generates one file for each package that the given files are in, for
    /// `protozero::include_protos!`, and tells Cargo which files they were made of.
    ///
    /// A file is written only if its content changes, and none before all are generated.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or a schema is wrong; see [`Error`].
    pub fn compile(&self, files: &[impl AsRef<Path>]) -> Result<(), Error> {
        let out_dir = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => PathBuf::from(env::var_os("OUT_DIR").ok_or(Error::NoOutDir)?),
        };
        let generated = self.run(files)?;
        for file in &generated.files {
            let path = out_dir.join(&file.name);
            replace(&path, &file.source).map_err(|source| Error::Write { file: path, source })?;
        }
        for path in &generated.read {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        Ok(())
    }

    /// Does what [`compile`](Config::compile) does, but writes and prints nothing.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a schema is wrong; see [`Error`].
    pub fn generate(&self, files: &[impl AsRef<Path>]) -> Result<Vec<GeneratedFile>, Error> {
        Ok(self.run(files)?.files)
    }

    fn run(&self, files: &[impl AsRef<Path>]) -> Result<Generated, Error> {
        let extern_paths = ExternPaths::new(&self.extern_paths)?;
        let roots: Vec<PathBuf> = files.iter().map(|file| file.as_ref().to_owned()).collect();
        let loaded = front_end::load(&roots, &self.includes)?;
        let mut units = resolve::units(&loaded.descriptors, &loaded.roots, &extern_paths);
        owned::add(&mut units, &loaded.descriptors, &self.owned, &extern_paths)?;
        let files = units.iter().map(|unit| GeneratedFile {
            name: match unit.package.as_str() {
                "" => "_.rs".to_owned(),
                package => format!("{package}.rs"),
            },
            source: emit::file(unit),
        });
        Ok(Generated {
            files: files.collect(),
            read: loaded.files_read,
        })
    }
}

struct Generated {
    files: Vec<GeneratedFile>,
    /// Every `.proto` file that was read.
    read: Vec<PathBuf>,
}

/// Gives a file new content in one step; a file that has it already keeps its time stamp, so that
/// nothing is compiled again.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(());
    }
    let temporary = path.with_extension("rs.new");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)
}
