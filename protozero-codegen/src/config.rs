//! The configuration of the generator, and the generated files.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protobuf::descriptor::FileDescriptorProto;

use crate::error::Error;
use crate::extern_path::ExternPaths;
use crate::front_end::Loaded;
use crate::vm::VmProgram;
use crate::{descriptor_set, embedded, emit, extern_path, front_end, owned, resolve, vm};

/// A configuration of the generator, made by a build script.
///
/// Relative paths start at the folder of the package, in which the build script runs.
///
/// ```
/// use protozero_codegen::Config;
/// use std::fs;
///
/// # let folder = std::env::temp_dir().join(format!("protozero-config-{}", std::process::id()));
/// # fs::create_dir_all(&folder)?;
/// let schema = "syntax = 'proto3'; package gpu; message Sample { uint32 clock_mhz = 1; }";
/// fs::write(folder.join("gpu.proto"), schema)?;
///
/// let files = Config::new()
///     .include(&folder)
///     .owned(".gpu")
///     .generate(&[folder.join("gpu.proto")])?;
/// assert_eq!(files[0].name, "gpu.rs");
/// assert!(files[0].source.contains("pub fn set_clock_mhz"));
/// # fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Config {
    includes: Vec<PathBuf>,
    extern_paths: Vec<(String, String)>,
    owned: Vec<String>,
    vm_programs: Vec<(String, VmProgram)>,
    descriptor_sets: bool,
    out_dir: Option<PathBuf>,
}

/// The generated code of one protobuf package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GeneratedFile {
    /// The name of the file: the name of the package with `.rs`, or `_.rs` without a package.
    pub name: String,
    /// The Rust source text.
    pub source: String,
}

impl Config {
    /// Creates a configuration without include folders, which writes to `OUT_DIR`.
    #[must_use]
    pub fn new() -> Self {
        Config::default()
    }

    /// Adds an include folder: paths in `import` statements are relative to it. Every file given to
    /// [`compile`](Config::compile) must be in an include folder. Earlier folders are searched
    /// first.
    ///
    /// If a crate has already generated the code of a folder's schema, the folder can hold a file
    /// `extern_paths.txt`. Each of its lines is a pair for [`extern_path`](Config::extern_path),
    /// such as `.perfetto.protos ::tracezero::protos`. [`compile`](Config::compile) warns if it
    /// generates the package again because a build script lacks the pair.
    #[must_use]
    pub fn include(mut self, folder: impl Into<PathBuf>) -> Self {
        self.includes.push(folder.into());
        self
    }

    /// Uses the code of a package or message that another crate or module has generated, instead of
    /// generating it again: `.extern_path(".perfetto.protos", "::tracezero::protos")`.
    ///
    /// The protobuf name `proto` starts with a dot, and covers everything declared inside it. If
    /// several names cover a type, the longest counts. The Rust path `rust` starts with `::` or
    /// `crate::`.
    #[must_use]
    pub fn extern_path(mut self, proto: impl Into<String>, rust: impl Into<String>) -> Self {
        self.extern_paths.push((proto.into(), rust.into()));
        self
    }

    /// Also generates owned structs for a message, or for all messages of a package, and for the
    /// messages declared inside: `.owned(".app.Settings")`.
    ///
    /// The protobuf name starts with a dot. A struct is also generated for each message that
    /// another struct contains as a field.
    ///
    /// The structs are in a module `owned` beside the writers. The struct of message `app.Settings`
    /// is `owned::Settings`; the struct of a message `Window` declared inside it is
    /// `owned::settings::Window`. The structs implement `protozero::OwnedMessage`, whose
    /// documentation describes their members. A member has the same name as in decoder and writer.
    ///
    /// If the schema declares a default for a field, the struct has a method for it, such as
    /// `width_or_default`.
    ///
    /// For a message that an [`extern_path`](Config::extern_path) covers, no struct is generated.
    /// Its struct must already exist, in a module `owned` inside the Rust path. For
    /// `.extern_path(".geo", "::geo::protos")`, the struct of message `geo.Point` must be
    /// `::geo::protos::owned::Point`.
    #[must_use]
    pub fn owned(mut self, proto: impl Into<String>) -> Self {
        self.owned.push(proto.into());
        self
    }

    /// Also compiles a ProtoVM program, with which a service folds patches of a data source into a
    /// state: `.vm_program("app.TABLE", program)`. The page [`vm_programs`](crate::vm_programs)
    /// has a complete example.
    ///
    /// `name` is the full name of the generated constant: the package, a dot, and the name of the
    /// constant. In the example, the code of package `app` contains `pub const TABLE: &[u8]`, a
    /// serialized `perfetto.protos.VmProgram`. At least one file of the package must be compiled.
    /// The program may use all messages and extensions in the compiled files and in their imports.
    #[must_use]
    pub fn vm_program(mut self, name: impl Into<String>, program: VmProgram) -> Self {
        self.vm_programs.push((name.into(), program));
        self
    }

    /// Also writes the schema of each package, as a serialized `FileDescriptorSet` for
    /// `protozero::include_descriptor_set!`. The set contains the files of the package and their
    /// imports, except files that an [`extern_path`](Config::extern_path) covers. A program can
    /// embed the set for readers that do not know the schema.
    #[must_use]
    pub fn descriptor_sets(mut self) -> Self {
        self.descriptor_sets = true;
        self
    }

    /// Writes to a folder other than `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Generates one file for each package that the given `.proto` files belong to, for
    /// `protozero::include_protos!`. Tells Cargo to run the build script again if one of the input
    /// files changes.
    ///
    /// Nothing is written before all code is generated. A file is written only if its content
    /// changes.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or if a schema is invalid; see [`Error`].
    pub fn compile(&self, files: &[impl AsRef<Path>]) -> Result<(), Error> {
        self.write(|_| self.load(files))
    }

    /// Generates code like [`compile`](Config::compile), and returns it instead of writing it.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or if a schema is invalid; see [`Error`].
    pub fn generate(&self, files: &[impl AsRef<Path>]) -> Result<Vec<GeneratedFile>, Error> {
        Ok(self.run(|_| self.load(files))?.files)
    }

    /// Generates code like [`compile`](Config::compile), but from a serialized `FileDescriptorSet`
    /// instead of `.proto` files. Use it if the build system already has a set, or if the schema
    /// needs another compiler. One of these commands makes a set:
    ///
    /// ```sh
    /// protoc --include_imports --include_source_info --descriptor_set_out=app.binpb app.proto
    /// buf build -o app.binpb
    /// ```
    ///
    /// One file is generated for each package in the set, except packages that an
    /// [`extern_path`](Config::extern_path) covers. Files are generated for imported packages too,
    /// because a set does not tell imports from other files. The generated code is the same as from
    /// the `.proto` files, and has their comments if the set contains source information. Include
    /// folders are ignored.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, if the set is malformed or lacks an import, or if a
    /// schema uses groups or editions, which are not supported; see [`Error`].
    pub fn compile_descriptor_set(&self, set: impl AsRef<Path>) -> Result<(), Error> {
        self.write(|extern_paths| load_set(set.as_ref(), extern_paths))
    }

    /// Generates code like [`compile_descriptor_set`](Config::compile_descriptor_set), and returns
    /// it instead of writing it.
    ///
    /// # Errors
    ///
    /// If the set cannot be read, if it is malformed or lacks an import, or if a schema uses groups
    /// or editions, which are not supported; see [`Error`].
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
        let sets = sets.map(|(name, content)| (name, content.as_slice()));
        for (name, content) in sources.chain(sets) {
            let path = out_dir.join(name);
            replace(&path, content).map_err(|source| Error::Write { file: path, source })?;
        }
        for path in &generated.read {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        for warning in &generated.warnings {
            println!("cargo::warning={warning}");
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
        vm::add(&mut units, &loaded.descriptors, &self.vm_programs)?;
        let files = units.iter().map(|unit| GeneratedFile {
            name: file_name(&unit.package, "rs"),
            source: emit::file(unit),
        });
        let mut descriptor_sets = Vec::new();
        for unit in &units {
            let name = file_name(&unit.package, "binpb");
            let expression = embedded::expression(&name, self.descriptor_sets);
            descriptor_sets.push((format!("{name}.rs"), expression.into_bytes()));
            if self.descriptor_sets {
                let (files, roots) = (&loaded.descriptors, &loaded.roots);
                let set = embedded::descriptor_set(files, roots, &unit.package, &extern_paths);
                descriptor_sets.push((name, set));
            }
        }
        Ok(Generated {
            files: files.collect(),
            descriptor_sets,
            warnings: extern_path::missing(&self.includes, &extern_paths, &units),
            read: loaded.files_read,
        })
    }
}

/// Loads a descriptor set. Its roots are all files except those that an extern path covers.
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

/// Returns the name under which the macros of `protozero` include the file of a package.
fn file_name(package: &str, extension: &str) -> String {
    match package {
        "" => format!("_.{extension}"),
        package => format!("{package}.{extension}"),
    }
}

struct Generated {
    files: Vec<GeneratedFile>,
    /// The names and contents of the descriptor sets, and of the `.rs` files through which
    /// `protozero::include_descriptor_set!` includes them.
    descriptor_sets: Vec<(String, Vec<u8>)>,
    /// Warnings for Cargo to show.
    warnings: Vec<String>,
    /// All files that were read.
    read: Vec<PathBuf>,
}

/// Replaces the content of a file in one step. If the content is unchanged, the file keeps its time
/// stamp, so that Cargo compiles nothing again.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let temporary = path.with_added_extension("new");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)
}
