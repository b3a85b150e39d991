//! Turns paths into descriptors: finds and reads the `.proto` files, rejects input that the parser
//! cannot handle, runs the parser, and gives its errors a place in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use protobuf::descriptor::FileDescriptorProto;

use crate::comments::Comments;
use crate::error::{Error, Location};
use crate::extension_numbers;
use crate::registry::join;
use crate::source::{self, Declaration, Import, Kind, Outline, Position};

/// The input of one run, parsed and checked.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The descriptors, one per file, each after its imports.
    pub(crate) descriptors: Vec<FileDescriptorProto>,
    /// The import names of the roots: the files for whose packages code is generated.
    pub(crate) roots: Vec<String>,
    pub(crate) comments: Comments,
    /// All files that were read, for `rerun-if-changed`.
    pub(crate) files_read: Vec<PathBuf>,
}

/// The files that the parser contains. A file in an include folder overrides them.
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

/// The longest chain of imports. The parser recurses along it.
const MAX_IMPORT_DEPTH: usize = 100;

/// The field numbers that protobuf allows, except `RESERVED_FIELD_NUMBERS`.
pub(crate) const FIELD_NUMBERS: std::ops::RangeInclusive<i64> = 1..=(1 << 29) - 1;
pub(crate) const RESERVED_FIELD_NUMBERS: std::ops::RangeInclusive<i64> = 19_000..=19_999;

/// The types that the keys of a map may have.
const MAP_KEYS: [&str; 12] = [
    "bool", "fixed32", "fixed64", "int32", "int64", "sfixed32", "sfixed64", "sint32", "sint64",
    "string", "uint32", "uint64",
];

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
    // Check the declarations even if the parser has failed: the parser accepts some invalid
    // declarations, and reports the others without a place.
    let mut declared = Names::new();
    for source in &graph.sources {
        check_declarations(source, &mut declared)?;
    }
    let mut comments = Comments::default();
    for declaration in graph.sources.iter().flat_map(|it| &it.outline.declarations) {
        // An `extend` block is no declaration of its own.
        if declaration.kind != Kind::Extend {
            comments.add(
                full_name(declaration),
                &declaration.leading_comment,
                &declaration.trailing_comment,
            );
        }
    }
    let descriptors = parsed?;
    extension_numbers::check(&descriptors, &|scope, name| graph.number(scope, name))?;
    Ok(Loaded {
        descriptors,
        roots: names,
        comments,
        files_read: graph
            .sources
            .into_iter()
            .map(|source| source.path)
            .collect(),
    })
}

/// Removes `.` components from a path, because the parser compares paths component by component.
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
    /// The name of the file in `import` statements.
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
        self.text.lines().nth(index).unwrap_or_default().trim_end()
    }
}

/// The roots and all files that they import, directly or indirectly.
#[derive(Debug, Default)]
struct ImportGraph {
    includes: Vec<PathBuf>,
    /// The files, each after its imports.
    sources: Vec<Source>,
    finished: BTreeSet<String>,
    /// The import names from a root to the file that is being visited.
    chain: Vec<String>,
}

impl ImportGraph {
    /// Returns the path of a root relative to the first include folder that contains it.
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
        if self.chain.len() >= MAX_IMPORT_DEPTH {
            return Err(Error::ImportsTooDeep {
                at: importer.location(import.at),
                max: MAX_IMPORT_DEPTH,
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

    /// Adds a file after its imports.
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

    /// Returns the place of a field's number, if the field's file was read.
    fn number(&self, scope: &str, name: &str) -> Option<Location> {
        self.sources.iter().find_map(|source| {
            let mut fields = source.outline.declarations.iter().filter(|declaration| {
                declaration.kind == Kind::Field
                    && declaration.scope == scope
                    && declaration.name == name
            });
            let (_, at) = fields.next()?.number?;
            Some(source.location(at))
        })
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
    // A root that another root imports must come first: the parser parses each input again, even if
    // an earlier input has imported it.
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

/// Converts the parser's chain of messages into an error. The chain goes from the outermost message
/// to the cause; each message contains those after it.
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
            message: reworded(cause),
        },
        (source, None) => {
            let file = source.or(graph.sources.last());
            let known = file.and_then(|source| {
                unknown_type(source, cause)
                    .or_else(|| not_imported(source, cause))
                    .or_else(|| json_name_clash(source, cause))
            });
            known.unwrap_or_else(|| Error::Schema {
                file: file.map(|source| source.path.clone()).unwrap_or_default(),
                message: cause.to_owned(),
            })
        }
        (None, Some(_)) => Error::Schema {
            file: PathBuf::new(),
            message: cause.to_owned(),
        },
    }
}

/// Rewords the parser's messages about malformed text that need an explanation.
fn reworded(cause: &str) -> String {
    match cause {
        "incorrect input" | "Incorrect input" => "this is not expected here".to_owned(),
        "label required" => {
            "a field of proto2 starts with `optional`, `required` or `repeated`".to_owned()
        }
        "integer overflow" => "the number is too large".to_owned(),
        other => {
            let mut characters = other.chars();
            let first = characters.next().map(|first| first.to_ascii_lowercase());
            first.into_iter().chain(characters).collect()
        }
    }
}

/// Converts the parser's message about an unknown type, if `cause` is one. Finds the declaration
/// that names the type.
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
    let names_it = |declaration: &Declaration| {
        let written = declaration
            .type_name
            .as_ref()
            .filter(|(written, _)| written == name);
        let extended = declaration.kind == Kind::Extend && declaration.name == name;
        written
            .map(|&(_, at)| at)
            .or(extended.then_some(declaration.at))
    };
    let candidates = || {
        let all = source.outline.declarations.iter();
        all.filter_map(|declaration| Some((declaration, names_it(declaration)?)))
    };
    // For declarations in an `extend` block, the parser's scope may differ from the scanner's.
    let declaration = candidates()
        .find(|(declaration, _)| scope.is_none_or(|scope| declaration.scope == scope))
        .or_else(|| candidates().next());
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

/// Converts the parser's message about a type in a file that is not imported, if `cause` is one.
fn not_imported(source: &Source, cause: &str) -> Option<Error> {
    let (_, rest) = cause.split_once(" `.")?;
    let (full_name, _) = rest.split_once("` not found in files")?;
    let declaration = source.outline.declarations.iter().find_map(|declaration| {
        let (written, at) = declaration.type_name.as_ref()?;
        let written = written.trim_start_matches('.');
        let names_it = full_name == written || full_name.ends_with(&format!(".{written}"));
        names_it.then_some((declaration, *at))
    });
    let (declaration, at) = declaration?;
    Some(Error::UnknownType {
        at: source.location(at),
        name: full_name.to_owned(),
        scope: declaration.scope.clone(),
    })
}

/// Converts the parser's message about two fields with the same JSON name, if `cause` is one. The
/// parser names only one of the two.
fn json_name_clash(source: &Source, cause: &str) -> Option<Error> {
    let name = cause
        .strip_prefix("Non-unique field name: `")?
        .strip_suffix('`')?;
    let fields = source
        .outline
        .declarations
        .iter()
        .filter(|it| it.kind == Kind::Field);
    let mut seen: BTreeMap<(&str, String), &Declaration> = BTreeMap::new();
    for field in fields {
        let json_name = json_name(&field.name);
        let first = seen.insert((&field.scope, json_name.clone()), field);
        if let Some(other) = first.filter(|other| other.name == name || field.name == name) {
            return Some(Error::JsonNameClash {
                at: source.location(field.at),
                field: field.name.clone(),
                json_name,
                other: other.name.clone(),
                other_line: other.at.line,
            });
        }
    }
    None
}

/// Returns the JSON name of a field: underscores are removed, and letters behind them capitalized.
fn json_name(name: &str) -> String {
    let mut after_underscore = false;
    let mut json_name = String::new();
    for character in name.chars() {
        if character == '_' {
            after_underscore = true;
        } else if std::mem::take(&mut after_underscore) {
            json_name.push(character.to_ascii_uppercase());
        } else {
            json_name.push(character);
        }
    }
    json_name
}

/// The places of the declarations in all files, by scope and name.
type Names<'s> = BTreeMap<(&'s str, &'s str), Location>;

fn check_declarations<'s>(source: &'s Source, names: &mut Names<'s>) -> Result<(), Error> {
    let mut numbers = BTreeMap::new();
    let values = source
        .outline
        .declarations
        .iter()
        .filter(|declaration| declaration.kind == Kind::EnumValue);
    let with_values: BTreeSet<(&str, Option<&str>)> = values
        .map(|value| (value.scope.as_str(), value.owner.as_deref()))
        .collect();
    for declaration in &source.outline.declarations {
        check_name(source, declaration, names)?;
        match declaration.kind {
            Kind::Group => {
                return Err(Error::Group {
                    at: source.location(declaration.at),
                    name: declaration.name.clone(),
                });
            }
            Kind::Enum if !with_values.contains(&(&declaration.scope, Some(&declaration.name))) => {
                return Err(Error::EmptyEnum {
                    at: source.location(declaration.at),
                    name: declaration.name.clone(),
                });
            }
            Kind::Field => {
                check_number(source, declaration, &mut numbers)?;
                check_map(source, declaration)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_name<'s>(
    source: &Source,
    declaration: &'s Declaration,
    names: &mut Names<'s>,
) -> Result<(), Error> {
    let Declaration {
        kind, scope, name, ..
    } = declaration;
    let at = source.location(declaration.at);
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    if !name.chars().all(allowed) {
        return Err(Error::Name {
            at,
            name: name.clone(),
        });
    }
    if !matches!(kind, Kind::Message | Kind::Enum | Kind::Field) {
        return Ok(());
    }
    match names.insert((scope, name), at.clone()) {
        None => Ok(()),
        Some(other) => Err(Error::DuplicateName {
            at,
            name: qualified(declaration),
            other,
        }),
    }
}

/// The fields of a file and the places of their numbers, by scope, extended message and number.
type Numbers<'s> = BTreeMap<(&'s str, Option<&'s str>, i64), (&'s Declaration, Position)>;

fn check_number<'s>(
    source: &Source,
    declaration: &'s Declaration,
    numbers: &mut Numbers<'s>,
) -> Result<(), Error> {
    let Some((number, at)) = declaration.number else {
        return Ok(());
    };
    let field = declaration.name.clone();
    if !FIELD_NUMBERS.contains(&number) || RESERVED_FIELD_NUMBERS.contains(&number) {
        return Err(Error::FieldNumber {
            at: source.location(at),
            field,
            number,
        });
    }
    let key = (
        declaration.scope.as_str(),
        declaration.owner.as_deref(),
        number,
    );
    match numbers.insert(key, (declaration, at)) {
        None => Ok(()),
        Some((other, other_at)) => Err(Error::DuplicateFieldNumber {
            at: source.location(at),
            field,
            number,
            other: other.name.clone(),
            other_line: other_at.line,
        }),
    }
}

fn check_map(source: &Source, declaration: &Declaration) -> Result<(), Error> {
    let Some((key, at)) = &declaration.map_key else {
        return Ok(());
    };
    if !MAP_KEYS.contains(&key.as_str()) {
        return Err(Error::MapKey {
            at: source.location(*at),
            key: key.clone(),
        });
    }
    if let Some((label, at)) = &declaration.label {
        return Err(Error::MapLabel {
            at: source.location(*at),
            label: label.clone(),
        });
    }
    if declaration.owner.is_some() {
        return Err(Error::MapExtension {
            at: source.location(declaration.at),
            field: declaration.name.clone(),
        });
    }
    Ok(())
}

/// Returns the name of a declaration with its scope. For an enum value, this includes its enum.
fn full_name(declaration: &Declaration) -> String {
    match (&declaration.owner, declaration.kind) {
        (Some(owner), Kind::EnumValue) => join(&join(&declaration.scope, owner), &declaration.name),
        _ => qualified(declaration),
    }
}

fn qualified(declaration: &Declaration) -> String {
    join(&declaration.scope, &declaration.name)
}
