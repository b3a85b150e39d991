//! What a build script says, and the files that it gets.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protobuf::descriptor::FileDescriptorProto;

use crate::error::Error;
use crate::extern_path::ExternPaths;
use crate::front_end::Loaded;
use crate::{descriptor_set, embedded, emit, front_end, owned, resolve};

/// What to generate, and how.
///
/// Paths are relative to the folder that the build script runs in, which is that of the package.
#[derive(Debug, Clone, Default)]
pub struct Config {
    includes: Vec<PathBuf>,
    extern_paths: Vec<(String, String)>,
    owned: Vec<String>,
    descriptor_sets: bool,
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

    /// Writes the schema of each package, too, as a serialized `FileDescriptorSet` for
    /// `protozero::include_descriptor_set!`: its files and what they import, but not what an
    /// [`extern_path`](Config::extern_path) covers. Programs carry it for readers that do not have
    /// the schema.
    #[must_use]
    pub fn descriptor_sets(mut self) -> Self {
        self.descriptor_sets = true;
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
        self.write(|_| self.load(files))
    }

    /// Does what [`compile`](Config::compile) does, but writes and prints nothing.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a schema is wrong; see [`Error`].
    pub fn generate(&self, files: &[impl AsRef<Path>]) -> Result<Vec<GeneratedFile>, Error> {
        Ok(self.run(|_| self.load(files))?.files)
    }

    /// Does what [`compile`](Config::compile) does, with a serialized `FileDescriptorSet` instead
    /// of `.proto` files: for build systems that have it anyway, and schemas that another compiler
    /// has to read. It is made by
    ///
    /// ```sh
    /// protoc --include_imports --include_source_info --descriptor_set_out=app.binpb app.proto
    /// buf build -o app.binpb
    /// ```
    ///
    /// A set does not tell which of its files were asked for, so one file is generated for each
    /// package in it that no [`extern_path`](Config::extern_path) covers. The code is that which
    /// the `.proto` files would give, with their comments if the set has source information.
    /// Include folders mean nothing here.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, the set is malformed or without its imports, or a
    /// schema has what is not supported: groups and editions; see [`Error`].
    pub fn compile_descriptor_set(&self, set: impl AsRef<Path>) -> Result<(), Error> {
        self.write(|extern_paths| load_set(set.as_ref(), extern_paths))
    }

    /// Does what [`compile_descriptor_set`](Config::compile_descriptor_set) does, but writes and
    /// prints nothing.
    ///
    /// # Errors
    ///
    /// If the set cannot be read, is malformed or without its imports, or a schema has what is not
    /// supported: groups and editions; see [`Error`].
    pub fn generate_descriptor_set(
        &self,
        set: impl AsRef<Path>,
    ) -> Result<Vec<GeneratedFile>, Error> {
        let load = |extern_paths: &ExternPaths| load_set(set.as_ref(), extern_paths);
        Ok(self.run(load)?.files)
    }

    fn load(&self, files: &[impl AsRef<Path>]) -> Result<Loaded, Error> {
        let roots: Vec<PathBuf> = files.iter().map(|file| file.as_ref().to_owned()).collect();
        front_end::load(&roots, &self.includes)
    }

    fn write(&self, load: impl FnOnce(&ExternPaths) -> Result<Loaded, Error>) -> Result<(), Error> {
        let out_dir = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => PathBuf::from(env::var_os("OUT_DIR").ok_or(Error::NoOutDir)?),
        };
        let generated = self.run(load)?;
        let sources = generated.files.iter();
        let sources = sources.map(|file| (&file.name, file.source.as_bytes()));
        let sets = generated.descriptor_sets.iter();
        let sets = sets.map(|(name, set)| (name, set.as_slice()));
        for (name, content) in sources.chain(sets) {
            let path = out_dir.join(name);
            replace(&path, content).map_err(|source| Error::Write { file: path, source })?;
        }
        for path in &generated.read {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        Ok(())
    }

    fn run(
        &self,
        load: impl FnOnce(&ExternPaths) -> Result<Loaded, Error>,
    ) -> Result<Generated, Error> {
        let extern_paths = ExternPaths::new(&self.extern_paths)?;
        let loaded = load(&extern_paths)?;
        let mut units = resolve::units(
            &loaded.descriptors,
            &loaded.roots,
            &extern_paths,
            &loaded.comments,
        );
        owned::add(&mut units, &loaded.descriptors, &self.owned, &extern_paths)?;
        let files = units.iter().map(|unit| GeneratedFile {
            name: file_name(&unit.package, "rs"),
            source: emit::file(unit),
        });
        let embedded = units.iter().filter(|_| self.descriptor_sets);
        let descriptor_sets = embedded.map(|unit| {
            let (files, roots) = (&loaded.descriptors, &loaded.roots);
            let set = embedded::descriptor_set(files, roots, &unit.package, &extern_paths);
            (file_name(&unit.package, "binpb"), set)
        });
        Ok(Generated {
            files: files.collect(),
            descriptor_sets: descriptor_sets.collect(),
            read: loaded.files_read,
        })
    }
}

/// A descriptor set, whose roots are all files but those of packages that are generated elsewhere.
fn load_set(set: &Path, extern_paths: &ExternPaths) -> Result<Loaded, Error> {
    let mut loaded = descriptor_set::load(set)?;
    let elsewhere = loaded
        .descriptors
        .iter()
        .filter(|file| extern_paths.find(file.package()).is_some());
    let elsewhere: BTreeSet<&str> = elsewhere.map(FileDescriptorProto::name).collect();
    loaded
        .roots
        .retain(|root| !elsewhere.contains(root.as_str()));
    Ok(loaded)
}

/// What the macros of `protozero` call the file of a package.
fn file_name(package: &str, extension: &str) -> String {
    match package {
        "" => format!("_.{extension}"),
        package => format!("{package}.{extension}"),
    }
}

struct Generated {
    files: Vec<GeneratedFile>,
    /// Names and contents.
    descriptor_sets: Vec<(String, Vec<u8>)>,
    /// Every file that was read.
    read: Vec<PathBuf>,
}

/// Gives a file new content in one step; a file that has it already keeps its time stamp, so that
/// nothing is compiled again.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let temporary = path.with_added_extension("new");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)
}
