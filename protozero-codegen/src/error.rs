//! Everything that can be wrong with a build script's input, each with its place and its remedy.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A place in a `.proto` file, printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file, as the build script or an include path spells it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why no code was generated. Nothing has been written when it is returned, except after
/// [`Error::Write`].
///
/// `Debug` prints the same text as `Display`: it is what Cargo shows when a build script's `main`
/// returns the error.
#[non_exhaustive]
pub enum Error {
    /// No output folder was set and `OUT_DIR` is not in the environment.
    NoOutDir,
    /// A file could not be read.
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A generated file could not be written.
    Write {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not UTF-8 text.
    NotUtf8 {
        /// Where the first wrong byte is.
        at: Location,
    },
    /// A file given to `compile` lies in none of the include folders.
    OutsideIncludes {
        /// The file.
        file: PathBuf,
        /// The include folders.
        includes: Vec<PathBuf>,
    },
    /// An imported file was not found.
    MissingImport {
        /// The path in the `import` statement.
        at: Location,
        /// That path.
        import: String,
        /// The include folders.
        includes: Vec<PathBuf>,
    },
    /// Files import each other in a circle.
    ImportCycle {
        /// The `import` statement that closes the circle.
        at: Location,
        /// Import paths, each importing the next; the last is the first again.
        cycle: Vec<String>,
    },
    /// Files import each other over too many steps for the parser.
    ImportsTooDeep {
        /// The `import` statement that is one too many.
        at: Location,
        /// The limit.
        max: usize,
    },
    /// A file declares an edition.
    Edition {
        /// The declaration.
        at: Location,
        /// The edition.
        edition: String,
    },
    /// Brackets nest deeper than the parser is trusted with.
    TooDeep {
        /// The bracket that is one too many.
        at: Location,
        /// The limit.
        max: usize,
    },
    /// The text is not a `.proto` file.
    Syntax {
        /// Where the parser stopped.
        at: Location,
        /// The line it stopped in.
        text: String,
        /// What the parser said.
        message: String,
    },
    /// A field is a group.
    Group {
        /// The name of the group.
        at: Location,
        /// That name.
        name: String,
    },
    /// A name has letters that protobuf does not allow.
    Name {
        /// The declaration.
        at: Location,
        /// The name.
        name: String,
    },
    /// A field number is outside of what protobuf allows.
    FieldNumber {
        /// The number.
        at: Location,
        /// The field.
        field: String,
        /// Its number.
        number: i64,
    },
    /// Two fields of a message have the same number.
    DuplicateFieldNumber {
        /// The number of the second field.
        at: Location,
        /// The second field.
        field: String,
        /// The number.
        number: i64,
        /// The field that has it already.
        other: String,
        /// The line of that field.
        other_line: u32,
    },
    /// An extension has the number of another field of the message that it extends.
    ExtensionNumberTaken {
        /// The number.
        at: Location,
        /// The extension.
        field: String,
        /// The extended message.
        message: String,
        /// The number.
        number: i32,
        /// The field that has it already.
        other: String,
        /// Where the number of that field is, in a file that was read.
        other_at: Option<Box<Location>>,
    },
    /// An extension has a number that the message keeps for itself.
    ExtensionNumberOutside {
        /// The number.
        at: Location,
        /// The extension.
        field: String,
        /// The extended message.
        message: String,
        /// The number.
        number: i32,
        /// The numbers that extensions of the message may have.
        ranges: Vec<RangeInclusive<i32>>,
    },
    /// The keys of a map have a type that keys cannot have.
    MapKey {
        /// The type.
        at: Location,
        /// That type.
        key: String,
    },
    /// A map field has a label.
    MapLabel {
        /// The label.
        at: Location,
        /// That label.
        label: String,
    },
    /// An extension field is a map.
    MapExtension {
        /// The field.
        at: Location,
        /// Its name.
        field: String,
    },
    /// An enum has no values.
    EmptyEnum {
        /// Its name.
        at: Location,
        /// That name.
        name: String,
    },
    /// Two declarations of a scope have the same name, be it in one file or in two.
    DuplicateName {
        /// The second declaration.
        at: Location,
        /// Their name, with its scope.
        name: String,
        /// The first declaration.
        other: Location,
    },
    /// Two fields of a message have the same name in JSON.
    JsonNameClash {
        /// The second field.
        at: Location,
        /// Its name.
        field: String,
        /// The name in JSON.
        json_name: String,
        /// The first field.
        other: String,
        /// The line of the first field.
        other_line: u32,
    },
    /// A type is not declared, or not imported.
    UnknownType {
        /// Where it is named.
        at: Location,
        /// Its name, as written.
        name: String,
        /// The message or package that names it.
        scope: String,
    },
    /// A file given to `compile_descriptor_set` is none.
    DescriptorSet {
        /// The file.
        set: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A file of a descriptor set imports one that does not stand before it in the set.
    ImportNotInSet {
        /// The descriptor set.
        set: PathBuf,
        /// The importing file, as the set names it.
        file: String,
        /// The imported file.
        import: String,
    },
    /// A file of a descriptor set declares what no code can be made for.
    Descriptor {
        /// The descriptor set.
        set: PathBuf,
        /// The file, as the set names it.
        file: String,
        /// Line and column of the declaration, from 1, if the set tells.
        place: Option<(u32, u32)>,
        /// The full name of what is declared; empty if it is about the whole file.
        name: String,
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// A type given to `extern_path`, or its Rust path, is malformed.
    ExternPath {
        /// The type or package.
        proto: String,
        /// The Rust path.
        rust: String,
    },
    /// What was given to `owned` is none of the messages that are generated, nor a package of such.
    UnknownOwned {
        /// The message or package.
        proto: String,
        /// A name that may have been meant.
        suggestion: Option<String>,
    },
    /// What was given to `owned` is generated elsewhere.
    OwnedElsewhere {
        /// The message or package.
        proto: String,
    },
    /// The owned form of a message that is generated elsewhere has an unknown place.
    OwnedExternPath {
        /// The message.
        proto: String,
        /// Where its writer is.
        rust: String,
    },
    /// The default of a field is not a value of its type.
    DefaultValue {
        /// The field, with its message.
        field: String,
        /// Its type.
        proto_type: String,
        /// The default.
        value: String,
    },
    /// Anything else the parser objects to.
    Schema {
        /// The file.
        file: PathBuf,
        /// What the parser said.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoOutDir => f.write_str(
                "OUT_DIR is not set; call this from build.rs, or name a folder with `out_dir`",
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
                    "{}: lies in none of the include folders ({}); add its root with `include`",
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
                "{at}: import cycle: {}; move what they share into a file of its own",
                cycle.join(" -> ")
            ),
            Error::ImportsTooDeep { at, max } => write!(
                f,
                "{at}: a chain of imports is longer than {max} files; import what is needed directly"
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
                // Tabs before the place are kept, so that both lines are indented alike.
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
                    19_000..=19_999 => "is in 19000 to 19999, which protobuf keeps for itself",
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
                    f.write_str("but the message declares no numbers for extensions; add `extensions 1000 to max;` to it, or extend another message")?;
                } else {
                    f.write_str("which is none of its numbers for extensions")?;
                }
                for range in ranges {
                    write!(f, "{separator}{} to {}", range.start(), range.end())?;
                    separator = ", ";
                }
                Ok(())
            }
            Error::MapKey { at, key } => write!(
                f,
                "{at}: `{key}` cannot be the key of a map; use bool, string or a type of integers"
            ),
            Error::MapLabel { at, label } => write!(
                f,
                "{at}: a map cannot be `{label}`; remove that word, a map holds any number of entries"
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
                "{at}: field `{field}` is \"{json_name}\" in JSON, as `{other}` is (line {other_line}); rename one of them"
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
                "owned(\"{proto}\"): an `extern_path` says that this is generated elsewhere; ask for the owned messages in the build script there"
            ),
            Error::OwnedExternPath { proto, rust } => write!(
                f,
                "the owned form of `{proto}` cannot be found beside `{rust}`, because that does not end as the schema nests it; give the path of its package with `extern_path`"
            ),
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
            Error::Read { source, .. } | Error::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}

fn list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "there are none".to_owned();
    }
    let folders: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    folders.join(", ")
}
