//! Errors of the generator. Each error names a place and a remedy.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A place in a `.proto` file, printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Location {
    /// The path under which the file was opened. For a file given to `compile`, this is the path
    /// from the build script. For an imported file, it is the include folder joined with the path
    /// in the `import` statement. In both cases, `.` components are left out.
    pub file: PathBuf,
    /// The line, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// The reason why code was not generated, or not written. With [`Error::Write`], files before the
/// failed one may have been written. With any other error, no file has been written.
///
/// `Debug` prints the same text as `Display`, because Cargo shows the `Debug` text if the `main`
/// function of a build script returns the error.
///
/// ```
/// use protozero_codegen::{Config, Error};
///
/// # let folder = std::env::temp_dir().join(format!("protozero-error-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("gpu.proto"), "edition = \"2023\";")?;
///
/// let error = Config::new()
///     .include(&folder)
///     .generate(&[folder.join("gpu.proto")])
///     .unwrap_err();
/// let Error::Edition { at, edition } = &error else {
///     panic!("{error}");
/// };
/// assert_eq!((at.line, at.column, edition.as_str()), (1, 1, "2023"));
/// assert!(error.to_string().contains("gpu.proto:1:1: edition \"2023\" is not supported"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub enum Error {
    /// No output folder was set, and the environment variable `OUT_DIR` is missing.
    NoOutDir,
    /// A file could not be read.
    Read {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A generated file could not be written.
    Write {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A `.proto` file is not UTF-8 text.
    NotUtf8 {
        /// The place of the first invalid byte.
        at: Location,
    },
    /// A file given to `compile` is in none of the include folders.
    OutsideIncludes {
        /// The path of the file.
        file: PathBuf,
        /// The include folders.
        includes: Vec<PathBuf>,
    },
    /// An imported file was not found.
    MissingImport {
        /// The place of the path in the `import` statement.
        at: Location,
        /// The path in the `import` statement.
        import: String,
        /// The include folders.
        includes: Vec<PathBuf>,
    },
    /// Files import each other in a cycle.
    ImportCycle {
        /// The place of the `import` statement that closes the cycle.
        at: Location,
        /// The import paths. Each file imports the next; the last path equals the first.
        cycle: Vec<String>,
    },
    /// A chain of imports is too long for the parser.
    ImportsTooDeep {
        /// The place of the first `import` statement beyond the limit.
        at: Location,
        /// The maximum number of files in a chain.
        max: usize,
    },
    /// A file declares an edition, which is not supported.
    Edition {
        /// The place of the `edition` statement.
        at: Location,
        /// The edition.
        edition: String,
    },
    /// Brackets nest too deep for the parser.
    TooDeep {
        /// The place of the first bracket beyond the limit.
        at: Location,
        /// The maximum nesting depth.
        max: usize,
    },
    /// A `.proto` file has a syntax error.
    Syntax {
        /// The place where the parser stopped.
        at: Location,
        /// The text of this line.
        text: String,
        /// The message of the parser.
        message: String,
    },
    /// A field is a group, which is not supported.
    Group {
        /// The place of the group's name.
        at: Location,
        /// The name of the group.
        name: String,
    },
    /// A name contains characters that protobuf does not allow.
    Name {
        /// The place of the declaration.
        at: Location,
        /// The name.
        name: String,
    },
    /// A field number is outside the range that protobuf allows.
    FieldNumber {
        /// The place of the number.
        at: Location,
        /// The name of the field.
        field: String,
        /// The number of the field.
        number: i64,
    },
    /// Two fields of a message have the same number.
    DuplicateFieldNumber {
        /// The place of the second field's number.
        at: Location,
        /// The name of the second field.
        field: String,
        /// The number of both fields.
        number: i64,
        /// The name of the first field.
        other: String,
        /// The line of the first field.
        other_line: u32,
    },
    /// An extension has the number of another field of the extended message.
    ExtensionNumberTaken {
        /// The place of the extension's number.
        at: Location,
        /// The name of the extension.
        field: String,
        /// The extended message.
        message: String,
        /// The number of the extension.
        number: i32,
        /// The name of the other field.
        other: String,
        /// The place of the other field's number, if its file was read.
        other_at: Option<Box<Location>>,
    },
    /// An extension has a number that the extended message does not declare for extensions.
    ExtensionNumberOutside {
        /// The place of the extension's number.
        at: Location,
        /// The name of the extension.
        field: String,
        /// The extended message.
        message: String,
        /// The number of the extension.
        number: i32,
        /// The numbers that the message declares for extensions.
        ranges: Vec<RangeInclusive<i32>>,
    },
    /// The key type of a map is not allowed.
    MapKey {
        /// The place of the key type.
        at: Location,
        /// The key type.
        key: String,
    },
    /// A map field has a label.
    MapLabel {
        /// The place of the label.
        at: Location,
        /// The label, for instance `repeated`.
        label: String,
    },
    /// An extension field is a map.
    MapExtension {
        /// The place of the field.
        at: Location,
        /// The name of the field.
        field: String,
    },
    /// An enum has no values.
    EmptyEnum {
        /// The place of the enum's name.
        at: Location,
        /// The name of the enum.
        name: String,
    },
    /// Two declarations in the same scope have the same name, in one file or in two.
    DuplicateName {
        /// The place of the second declaration.
        at: Location,
        /// The name of both declarations, with its scope.
        name: String,
        /// The place of the first declaration.
        other: Location,
    },
    /// Two fields of a message have the same name in JSON.
    JsonNameClash {
        /// The place of the second field.
        at: Location,
        /// The name of the second field.
        field: String,
        /// The name of both fields in JSON.
        json_name: String,
        /// The name of the first field.
        other: String,
        /// The line of the first field.
        other_line: u32,
    },
    /// A type is not declared, or its file is not imported.
    UnknownType {
        /// The place where the type is used.
        at: Location,
        /// The name of the type, as written.
        name: String,
        /// The message or package that uses the type.
        scope: String,
    },
    /// A file given to `compile_descriptor_set` is not a descriptor set.
    DescriptorSet {
        /// The path of the file.
        set: PathBuf,
        /// The reason.
        message: String,
    },
    /// A file in a descriptor set imports a file that does not come before it in the set.
    ImportNotInSet {
        /// The path of the descriptor set.
        set: PathBuf,
        /// The name of the importing file in the set.
        file: String,
        /// The name of the imported file.
        import: String,
    },
    /// A declaration in a descriptor set is invalid or not supported.
    Descriptor {
        /// The path of the descriptor set.
        set: PathBuf,
        /// The name of the declaring file in the set.
        file: String,
        /// The line and column of the declaration, starting at 1, if the set contains them.
        place: Option<(u32, u32)>,
        /// The full name of the declaration; empty if the error concerns the whole file.
        name: String,
        /// The reason and the remedy.
        message: String,
    },
    /// An argument of `extern_path` is malformed.
    ExternPath {
        /// The protobuf name of the type or package.
        proto: String,
        /// The Rust path.
        rust: String,
    },
    /// The name given to `owned` is neither a message for which code is generated, nor a package
    /// that contains such a message.
    UnknownOwned {
        /// The name given to `owned`.
        proto: String,
        /// A similar name that exists.
        suggestion: Option<String>,
    },
    /// The name given to `owned` is covered by an `extern_path`, so it is not generated here.
    OwnedElsewhere {
        /// The name given to `owned`.
        proto: String,
    },
    /// The struct of a message that an `extern_path` covers cannot be located.
    OwnedExternPath {
        /// The full name of the message.
        proto: String,
        /// The Rust path of the message's writer.
        rust: String,
    },
    /// A program given to `vm_program` does not fit the schema, or exceeds a limit of the machine.
    VmProgram {
        /// The name given to `vm_program`.
        name: String,
        /// The command, as the build script calls it; empty if the error concerns the whole
        /// program.
        command: String,
        /// The reason and the remedy.
        message: String,
    },
    /// The default of a field is not a value of the field's type.
    DefaultValue {
        /// The name of the field, with its message.
        field: String,
        /// The type of the field.
        proto_type: String,
        /// The default, as text.
        value: String,
    },
    /// The parser reported another error, without a place.
    Schema {
        /// The path of the file.
        file: PathBuf,
        /// The message of the parser.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoOutDir => f.write_str(
                "OUT_DIR is not set; call this from build.rs, or set the output folder with `out_dir`",
            ),
            Error::Read { file, source } => {
                write!(
                    f,
                    "{}: cannot be read: {source}; check the path, which is relative to the package's folder",
                    file.display()
                )
            }
            Error::Write { file, source } => {
                write!(f, "{}: cannot be written: {source}", file.display())
            }
            Error::NotUtf8 { at } => {
                write!(f, "{at}: not UTF-8; save the file in that encoding")
            }
            Error::OutsideIncludes { file, includes } => {
                write!(
                    f,
                    "{}: not in any include folder ({}); add its root with `include`",
                    file.display(),
                    list(includes)
                )
            }
            Error::MissingImport {
                at,
                import,
                includes,
            } => write!(
                f,
                "{at}: cannot find the import \"{import}\" in the include folders ({}); add the folder that it is relative to with `include`",
                list(includes)
            ),
            Error::ImportCycle { at, cycle } => write!(
                f,
                "{at}: import cycle: {}; move the shared declarations into a file of their own",
                cycle.join(" -> ")
            ),
            Error::ImportsTooDeep { at, max } => write!(
                f,
                "{at}: a chain of imports is longer than {max} files; import the needed files directly"
            ),
            Error::Edition { at, edition } => write!(
                f,
                "{at}: edition \"{edition}\" is not supported; use `syntax = \"proto3\";` or \"proto2\""
            ),
            Error::TooDeep { at, max } => {
                write!(
                    f,
                    "{at}: brackets nest deeper than {max} levels; flatten the schema"
                )
            }
            Error::Syntax { at, text, message } => {
                write!(f, "{at}: syntax error: {message}")?;
                if text.is_empty() {
                    return Ok(());
                }
                let column = usize::try_from(at.column).unwrap_or(usize::MAX);
                // Keep tabs before the place, so that both lines have the same indentation.
                let indent: String = text
                    .chars()
                    .take(column.saturating_sub(1))
                    .map(|character| if character == '\t' { '\t' } else { ' ' })
                    .collect();
                write!(f, "\n{text}\n{indent}^")
            }
            Error::Group { at, name } => write!(
                f,
                "{at}: groups are not supported; make `{name}` a nested message with a field of its type"
            ),
            Error::Name { at, name } => write!(
                f,
                "{at}: the name `{name}` has letters other than a-z, A-Z, 0-9 and _; rename it"
            ),
            Error::FieldNumber { at, field, number } => {
                let why = match number {
                    19_000..=19_999 => "is in 19000 to 19999, which protobuf reserves",
                    ..=0 => "is less than 1",
                    _ => "is greater than 536870911",
                };
                write!(
                    f,
                    "{at}: the number {number} of field `{field}` {why}; choose another"
                )
            }
            Error::DuplicateFieldNumber {
                at,
                field,
                number,
                other,
                other_line,
            } => write!(
                f,
                "{at}: field `{field}` has number {number}, which belongs to `{other}` (line {other_line}); choose another"
            ),
            Error::ExtensionNumberTaken {
                at,
                field,
                message,
                number,
                other,
                other_at,
            } => {
                write!(
                    f,
                    "{at}: field `{field}` extends `{message}` with number {number}, which belongs to `{other}`"
                )?;
                if let Some(other_at) = other_at {
                    write!(f, " ({other_at})")?;
                }
                f.write_str("; choose another")
            }
            Error::ExtensionNumberOutside {
                at,
                field,
                message,
                number,
                ranges,
            } => {
                write!(
                    f,
                    "{at}: field `{field}` extends `{message}` with number {number}, "
                )?;
                let mut separator = "; choose one of ";
                if ranges.is_empty() {
                    f.write_str("but the message declares no extension numbers; add `extensions 1000 to max;` to it, or extend another message")?;
                } else {
                    f.write_str("which is not one of its extension numbers")?;
                }
                for range in ranges {
                    write!(f, "{separator}{} to {}", range.start(), range.end())?;
                    separator = ", ";
                }
                Ok(())
            }
            Error::MapKey { at, key } => write!(
                f,
                "{at}: `{key}` cannot be the key of a map; use bool, string or an integer type"
            ),
            Error::MapLabel { at, label } => write!(
                f,
                "{at}: a map cannot be `{label}`; remove that word, since a map holds any number of entries"
            ),
            Error::MapExtension { at, field } => write!(
                f,
                "{at}: extension `{field}` cannot be a map; make it a repeated message with a key and a value"
            ),
            Error::EmptyEnum { at, name } => {
                write!(
                    f,
                    "{at}: enum `{name}` has no values; declare one with number 0"
                )
            }
            Error::DuplicateName { at, name, other } if at.file == other.file => write!(
                f,
                "{at}: `{name}` is declared already (line {}); rename one of them",
                other.line
            ),
            Error::DuplicateName { at, name, other } => write!(
                f,
                "{at}: `{name}` is declared already ({other}); rename one of them, or leave out one file"
            ),
            Error::JsonNameClash {
                at,
                field,
                json_name,
                other,
                other_line,
            } => write!(
                f,
                "{at}: fields `{other}` (line {other_line}) and `{field}` have the same JSON name, \"{json_name}\"; rename one of them"
            ),
            Error::UnknownType { at, name, scope } => {
                let place = if scope.is_empty() {
                    "the empty package"
                } else {
                    scope
                };
                write!(
                    f,
                    "{at}: type `{name}` is not known in {place}; check its spelling, or import the file that declares it"
                )
            }
            Error::DescriptorSet { set, message } => write!(
                f,
                "{}: not a descriptor set: {message}; make it with `protoc --include_imports --descriptor_set_out` or `buf build`",
                set.display()
            ),
            Error::ImportNotInSet { set, file, import } => write!(
                f,
                "{}: {file}: imports \"{import}\", which is not in the set before it; make the set with `protoc --include_imports`",
                set.display()
            ),
            Error::Descriptor {
                set,
                file,
                place,
                name,
                message,
            } => {
                write!(f, "{}: {file}", set.display())?;
                if let Some((line, column)) = place {
                    write!(f, ":{line}:{column}")?;
                }
                if !name.is_empty() {
                    write!(f, ": `{name}`")?;
                }
                write!(f, ": {message}")
            }
            Error::ExternPath { proto, rust } => write!(
                f,
                "extern_path(\"{proto}\", \"{rust}\"): expected a protobuf name that starts with a dot and an absolute Rust path, such as (\".perfetto.protos\", \"::tracezero::protos\")"
            ),
            Error::UnknownOwned { proto, suggestion } => {
                write!(
                    f,
                    "owned(\"{proto}\"): no message or package of that name is generated; "
                )?;
                match suggestion {
                    Some(suggestion) => write!(f, "did you mean \"{suggestion}\"?"),
                    None => f.write_str("write its full name with a dot in front, such as \".perfetto.protos.TraceConfig\""),
                }
            }
            Error::OwnedElsewhere { proto } => write!(
                f,
                "owned(\"{proto}\"): an `extern_path` says that another crate generates this; call `owned` in the build script of that crate"
            ),
            Error::OwnedExternPath { proto, rust } => write!(
                f,
                "the owned form of `{proto}` cannot be found next to `{rust}`, because that path does not end with the nesting of the schema; pass the path of its package to `extern_path`"
            ),
            Error::VmProgram {
                name,
                command,
                message,
            } => {
                write!(f, "vm_program(\"{name}\"): ")?;
                if !command.is_empty() {
                    write!(f, "{command}: ")?;
                }
                f.write_str(message)
            }
            Error::DefaultValue {
                field,
                proto_type,
                value,
            } => write!(
                f,
                "the default of field `{field}`, {value}, is not a value of type {proto_type}; correct it"
            ),
            Error::Schema { file, message } => write!(f, "{}: {message}", file.display()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Error::Read { source, .. } | Error::Write { source, .. } => source.source(),
            _ => None,
        }
    }
}

fn list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "none".to_owned();
    }
    let folders: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    folders.join(", ")
}
