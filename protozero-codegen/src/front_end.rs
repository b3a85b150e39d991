//! From paths to descriptors: finds and reads the files, refuses what the parser cannot take, runs
//! the parser, and turns its objections into errors with a place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use protobuf::descriptor::FileDescriptorProto;

use crate::error::{Error, Location};
use crate::source::{self, Declaration, Import, Kind, Outline, Position};

/// The files of one run, parsed and checked.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// One per file, each after the files it imports.
    pub(crate) descriptors: Vec<FileDescriptorProto>,
    /// The import names of the files that were asked for.
    pub(crate) roots: Vec<String>,
    /// Every file that was read, for `rerun-if-changed`.
    pub(crate) files_read: Vec<PathBuf>,
}

/// The files that the parser brings along; an include folder may still override them.
const BUILT_IN: [&str; 12] = [
    "google/protobuf/any.proto",
    "google/protobuf/api.proto",
    "google/protobuf/descriptor.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/empty.proto",
    "google/protobuf/field_mask.proto",
    "google/protobuf/source_context.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/type.proto",
    "google/protobuf/wrappers.proto",
    "rustproto.proto",
];

/// Field numbers that protobuf allows, but for 19000 to 19999.
const FIELD_NUMBERS: std::ops::RangeInclusive<i64> = 1..=(1 << 29) - 1;
const RESERVED_FIELD_NUMBERS: std::ops::RangeInclusive<i64> = 19_000..=19_999;

pub(crate) fn load(roots: &[PathBuf], includes: &[PathBuf]) -> Result<Loaded, Error> {
    let includes: Vec<PathBuf> = includes
        .iter()
        .map(|include| without_dots(include))
        .collect();
    let mut graph = ImportGraph {
        includes,
        ..ImportGraph::default()
    };
    let mut names = Vec::new();
    for root in roots {
        let path = without_dots(root);
        let name = graph.import_name(&path)?;
        graph.add_root(&name, path)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let parsed = parse(&graph, &names);
    if let Err(error @ Error::Syntax { .. }) = parsed {
        return Err(error);
    }
    // The parser lets some of these pass and gives no place for the others.
    for source in &graph.sources {
        check_declarations(source)?;
    }
    Ok(Loaded {
        descriptors: parsed?,
        roots: names,
        files_read: graph
            .sources
            .into_iter()
            .map(|source| source.path)
            .collect(),
    })
}

/// The path without its `.` components; the parser compares paths component by component.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean: PathBuf = path
        .components()
        .filter(|component| *component != Component::CurDir)
        .collect();
    if clean.as_os_str().is_empty() {
        clean.push(".");
    }
    clean
}

/// A file that was read.
#[derive(Debug)]
struct Source {
    /// What an `import` statement calls it.
    name: String,
    path: PathBuf,
    text: String,
    outline: Outline,
}

impl Source {
    fn location(&self, at: Position) -> Location {
        Location {
            file: self.path.clone(),
            line: at.line,
            column: at.column,
        }
    }

    fn line(&self, number: u32) -> &str {
        let index = usize::try_from(number)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        self.text.lines().nth(index).unwrap_or_default().trim()
    }
}

/// All files that the roots reach.
#[derive(Debug, Default)]
struct ImportGraph {
    includes: Vec<PathBuf>,
    /// Each after the files it imports.
    sources: Vec<Source>,
    finished: BTreeSet<String>,
    /// Import names from a root to the file being visited.
    chain: Vec<String>,
}

impl ImportGraph {
    /// A root's path relative to the first include folder that holds it.
    fn import_name(&self, path: &Path) -> Result<String, Error> {
        let relative = self.includes.iter().find_map(|include| {
            if include == Path::new(".") && path.is_relative() {
                return Some(path);
            }
            path.strip_prefix(include).ok()
        });
        let components = relative.map(|relative| {
            relative
                .components()
                .map(|component| component.as_os_str().to_str())
        });
        let name: Option<Vec<&str>> = components.and_then(Iterator::collect);
        name.map(|name| name.join("/"))
            .ok_or_else(|| Error::OutsideIncludes {
                file: path.to_owned(),
                includes: self.includes.clone(),
            })
    }

    fn add_root(&mut self, name: &str, path: PathBuf) -> Result<(), Error> {
        if self.finished.contains(name) {
            return Ok(());
        }
        let bytes = fs::read(&path).map_err(|source| Error::Read {
            file: path.clone(),
            source,
        })?;
        self.add_source(name, path, bytes)
    }

    fn add_import(&mut self, importer: &Source, import: &Import) -> Result<(), Error> {
        if self.finished.contains(&import.path) {
            return Ok(());
        }
        if let Some(start) = self.chain.iter().position(|name| *name == import.path) {
            let mut cycle = self.chain[start..].to_vec();
            cycle.push(import.path.clone());
            return Err(Error::ImportCycle {
                at: importer.location(import.at),
                cycle,
            });
        }
        for include in &self.includes {
            let path = include.join(&import.path);
            match fs::read(&path) {
                Ok(bytes) => return self.add_source(&import.path, path, bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Read { file: path, source }),
            }
        }
        if BUILT_IN.contains(&import.path.as_str()) {
            return Ok(());
        }
        Err(Error::MissingImport {
            at: importer.location(import.at),
            import: import.path.clone(),
            includes: self.includes.clone(),
        })
    }

    /// Adds a file after everything it imports.
    fn add_source(&mut self, name: &str, path: PathBuf, bytes: Vec<u8>) -> Result<(), Error> {
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&path, &error))?;
        let outline = Outline::of(&text);
        let source = Source {
            name: name.to_owned(),
            path,
            text,
            outline,
        };
        if let Some((edition, at)) = &source.outline.edition {
            return Err(Error::Edition {
                at: source.location(*at),
                edition: edition.clone(),
            });
        }
        if let Some(at) = source.outline.too_deep {
            return Err(Error::TooDeep {
                at: source.location(at),
                max: source::MAX_DEPTH,
            });
        }
        self.chain.push(name.to_owned());
        for import in &source.outline.imports {
            self.add_import(&source, import)?;
        }
        self.chain.pop();
        self.finished.insert(name.to_owned());
        self.sources.push(source);
        Ok(())
    }

    fn source(&self, path: &str) -> Option<&Source> {
        self.sources
            .iter()
            .find(|source| source.path.to_str() == Some(path))
    }
}

fn not_utf8(file: &Path, error: &std::string::FromUtf8Error) -> Error {
    let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let valid = String::from_utf8_lossy(valid);
    let line_start = valid.rfind('\n').map_or(0, |index| index + 1);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    Error::NotUtf8 {
        at: Location {
            file: file.to_owned(),
            line: count(valid.matches('\n').count()),
            column: count(valid[line_start..].chars().count()),
        },
    }
}

fn parse(graph: &ImportGraph, roots: &[String]) -> Result<Vec<FileDescriptorProto>, Error> {
    let mut parser = protobuf_parse::Parser::new();
    parser.pure().includes(&graph.includes);
    // A root that another root imports must come first: the parser reads every input it is given,
    // also when an earlier one brought it in already.
    for source in graph
        .sources
        .iter()
        .filter(|source| roots.contains(&source.name))
    {
        parser.input(&source.path);
    }
    let parsed = parser.parse_and_typecheck().map_err(|error| {
        let messages: Vec<String> = error.chain().map(ToString::to_string).collect();
        objection(graph, &messages)
    })?;
    Ok(parsed.file_descriptors)
}

/// Makes an error of the parser's chain of messages, which goes from the outermost to the cause;
/// each link repeats those after it.
fn objection(graph: &ImportGraph, messages: &[String]) -> Error {
    let in_file = messages.iter().find_map(|message| {
        let (path, _) = message.strip_prefix("error in `")?.split_once("`: ")?;
        graph.source(path)
    });
    let cause = messages.last().map_or("", String::as_str);
    let place = messages.iter().find_map(|message| {
        let (place, _) = message.strip_prefix("at ")?.split_once(": ")?;
        let (line, column) = place.split_once(':')?;
        Some(Position {
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    });
    match (in_file, place) {
        (Some(source), Some(at)) => Error::Syntax {
            at: source.location(at),
            text: source.line(at.line).to_owned(),
            message: cause.to_owned(),
        },
        (Some(source), None) => unknown_type(source, cause).unwrap_or_else(|| Error::Schema {
            file: source.path.clone(),
            message: cause.to_owned(),
        }),
        (None, _) => Error::Schema {
            file: graph
                .sources
                .last()
                .map(|source| source.path.clone())
                .unwrap_or_default(),
            message: cause.to_owned(),
        },
    }
}

/// Finds the declaration that the parser's message about an unknown type is about.
fn unknown_type(source: &Source, cause: &str) -> Option<Error> {
    let rest = cause.strip_prefix("object is not found by path")?;
    let (name, scope) = match rest.strip_prefix(" `") {
        Some(relative) => {
            let (name, scope) = relative.split_once("` in scope `")?;
            (name, Some(scope.strip_suffix('`')?.trim_start_matches('.')))
        }
        // An absolute name, which has no scope.
        None => (rest.strip_prefix(": ")?, None),
    };
    let in_scope =
        |declaration: &&Declaration| scope.is_none_or(|scope| declaration.scope == scope);
    let declaration = source
        .outline
        .declarations
        .iter()
        .filter(in_scope)
        .find_map(|declaration| {
            let type_name = declaration
                .type_name
                .as_ref()
                .filter(|(written, _)| written == name);
            let extended = (declaration.kind == Kind::Extend && declaration.name == name)
                .then_some(declaration.at);
            Some((declaration, type_name.map(|&(_, at)| at).or(extended)?))
        });
    let (scope, at) = match declaration {
        Some((declaration, at)) => (declaration.scope.clone(), at),
        None => (
            scope.unwrap_or_default().to_owned(),
            Position { line: 1, column: 1 },
        ),
    };
    Some(Error::UnknownType {
        at: source.location(at),
        name: name.to_owned(),
        scope,
    })
}

fn check_declarations(source: &Source) -> Result<(), Error> {
    let mut names: BTreeMap<(&str, &str), &Declaration> = BTreeMap::new();
    let mut numbers: BTreeMap<(&str, Option<&str>, i64), (&Declaration, Position)> =
        BTreeMap::new();
    for declaration in &source.outline.declarations {
        check_name(source, declaration)?;
        if matches!(declaration.kind, Kind::Message | Kind::Enum | Kind::Field) {
            let key = (declaration.scope.as_str(), declaration.name.as_str());
            if let Some(other) = names.insert(key, declaration) {
                return Err(Error::DuplicateName {
                    at: source.location(declaration.at),
                    name: qualified(declaration),
                    other_at: source.location(other.at),
                });
            }
        }
        let Some((number, at)) = declaration
            .number
            .filter(|_| declaration.kind == Kind::Field)
        else {
            continue;
        };
        if !FIELD_NUMBERS.contains(&number) || RESERVED_FIELD_NUMBERS.contains(&number) {
            return Err(Error::FieldNumber {
                at: source.location(at),
                field: declaration.name.clone(),
                number,
            });
        }
        let key = (
            declaration.scope.as_str(),
            declaration.extendee.as_deref(),
            number,
        );
        if let Some((other, other_at)) = numbers.insert(key, (declaration, at)) {
            return Err(Error::DuplicateFieldNumber {
                at: source.location(at),
                field: declaration.name.clone(),
                number,
                other: other.name.clone(),
                other_at: source.location(other_at),
            });
        }
    }
    Ok(())
}

fn check_name(source: &Source, declaration: &Declaration) -> Result<(), Error> {
    let (at, name) = (source.location(declaration.at), declaration.name.clone());
    if declaration.kind == Kind::Group {
        return Err(Error::Group { at, name });
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    if !name.chars().all(allowed) {
        return Err(Error::Name { at, name });
    }
    Ok(())
}

fn qualified(declaration: &Declaration) -> String {
    if declaration.scope.is_empty() {
        declaration.name.clone()
    } else {
        format!("{}.{}", declaration.scope, declaration.name)
    }
}
