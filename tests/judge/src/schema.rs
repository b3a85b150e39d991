//! The schemas for decoding a trace: Perfetto's published one, and additions of a test.
//!
//! The library's generated types decode a message first. The judge then decodes the fields that
//! these types do not know, by supplements: messages that have only the additional fields, decoded
//! by reflection.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use perfetto_protos::trace;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use protobuf::reflect::{FileDescriptor, MessageDescriptor};

/// Full names of the messages that custom fields extend.
const TRACE_PACKET: &str = "perfetto.protos.TracePacket";
const TRACK_EVENT: &str = "perfetto.protos.TrackEvent";
const DATA_SOURCE_CONFIG: &str = "perfetto.protos.DataSourceConfig";

/// Returns the published schema as the library contains it: all files that describe a trace.
#[must_use]
pub fn published() -> Vec<FileDescriptorProto> {
    let mut files: Vec<FileDescriptorProto> = Vec::new();
    let mut queue = vec![trace::file_descriptor().clone()];
    while let Some(file) = queue.pop() {
        if files.iter().all(|known| known.name() != file.name()) {
            files.push(file.proto().clone());
            queue.extend(file.deps().iter().cloned());
        }
    }
    files
}

/// Returns the fields that Perfetto published after the library's version, as messages that have
/// only these fields.
///
/// # Panics
///
/// If a file does not parse.
#[must_use]
pub fn published_later() -> Vec<FileDescriptorProto> {
    let files = ["since_v51.proto", "since_v51_ftrace.proto"];
    let parsed = files.map(|file| parse(&package_dir().join(file), &[]).file);
    parsed.concat()
}

/// Fields outside the published schema that a trace may carry in its packets and track events.
///
/// A field is declared by an `extend` block or by one of the methods below:
///
/// ```ignore
/// let extra = ExtraSchema::new()
///     .extensions("examples/protos/gpu.proto")
///     .packet_field(1901, "examples/protos/app.proto", "app.Sample");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ExtraSchema {
    includes: Vec<PathBuf>,
    supplements: HashMap<String, Vec<MessageDescriptor>>,
}

impl ExtraSchema {
    /// Creates a schema without additional fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `folder` to the folders in which later files' imports are searched. A file's own folder
    /// and the SDK's schema are always searched.
    #[must_use]
    pub fn include(mut self, folder: impl AsRef<Path>) -> Self {
        self.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Declares every field that an `extend` block of the file at `path` adds to any message.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or parsed, or extends nothing: then the test is wrong.
    #[must_use]
    pub fn extensions(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let parsed = parse(path, &self.includes);
        let file = parsed.file.last().expect("the file itself");
        let mut fields: Vec<FieldDescriptorProto> = file.extension.clone();
        let mut messages: Vec<&DescriptorProto> = file.message_type.iter().collect();
        while let Some(message) = messages.pop() {
            fields.extend(message.extension.iter().cloned());
            messages.extend(&message.nested_type);
        }
        assert!(!fields.is_empty(), "{}: extends nothing", path.display());
        let mut by_extendee: HashMap<String, Vec<FieldDescriptorProto>> = HashMap::new();
        for mut field in fields {
            let extendee = field.extendee().trim_start_matches('.').to_owned();
            field.clear_extendee();
            by_extendee.entry(extendee).or_default().push(field);
        }
        for (extendee, fields) in by_extendee {
            self.supplement(&extendee, fields, &parsed);
        }
        self
    }

    /// Declares that field `number` of a packet is the message `message` of the file at `path`.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or parsed, or has no such message: then the test is wrong.
    #[must_use]
    pub fn packet_field(self, number: u32, path: impl AsRef<Path>, message: &str) -> Self {
        self.message_field(TRACE_PACKET, number, path.as_ref(), message)
    }

    /// Declares that field `number` of a track event is the message `message` of the file at
    /// `path`.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or parsed, or has no such message: then the test is wrong.
    #[must_use]
    pub fn track_event_field(self, number: u32, path: impl AsRef<Path>, message: &str) -> Self {
        self.message_field(TRACK_EVENT, number, path.as_ref(), message)
    }

    /// Declares that field `number` of a data source's configuration is the message `message` of
    /// the file at `path`.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or parsed, or has no such message: then the test is wrong.
    #[must_use]
    pub fn config_field(self, number: u32, path: impl AsRef<Path>, message: &str) -> Self {
        self.message_field(DATA_SOURCE_CONFIG, number, path.as_ref(), message)
    }

    /// Returns the messages that have additional fields of the message `full_name`.
    pub(crate) fn of(&self, full_name: &str) -> &[MessageDescriptor] {
        self.supplements.get(full_name).map_or(&[], Vec::as_slice)
    }

    fn message_field(mut self, extendee: &str, number: u32, path: &Path, message: &str) -> Self {
        let mut field = FieldDescriptorProto::new();
        field.set_name(field_name_of(message));
        field.set_number(i32::try_from(number).expect("a field number"));
        field.set_label(Label::LABEL_OPTIONAL);
        field.set_type(Type::TYPE_MESSAGE);
        field.set_type_name(format!(".{message}"));
        let parsed = parse(path, &self.includes);
        self.supplement(extendee, vec![field], &parsed);
        self
    }

    /// Adds a supplement with the given `fields`, whose types are declared in `parsed`.
    fn supplement(
        &mut self,
        extendee: &str,
        fields: Vec<FieldDescriptorProto>,
        parsed: &FileDescriptorSet,
    ) {
        let dependencies = dynamic(parsed);
        let mut message = DescriptorProto::new();
        message.set_name("Supplement".to_owned());
        message.field = fields;
        let mut file = FileDescriptorProto::new();
        file.set_name("judge/supplement.proto".to_owned());
        file.set_package("judge".to_owned());
        file.dependency = parsed.file.iter().map(|f| f.name().to_owned()).collect();
        file.message_type.push(message);
        let file = FileDescriptor::new_dynamic(file, &dependencies)
            .unwrap_or_else(|e| panic!("the extra schema for {extendee}: {e}"));
        let supplements = self.supplements.entry(extendee.to_owned()).or_default();
        supplements.extend(file.messages());
    }
}

/// The supplements to the library's schema: fields that were published later, the SDK's own, and
/// the test's own.
#[derive(Debug)]
pub(crate) struct Supplements<'a> {
    later: HashMap<String, MessageDescriptor>,
    own: ExtraSchema,
    extra: &'a ExtraSchema,
}

impl<'a> Supplements<'a> {
    pub(crate) fn new(extra: &'a ExtraSchema) -> Self {
        let mut set = FileDescriptorSet::new();
        set.file = published_later();
        let mut later = HashMap::new();
        let mut queue: Vec<MessageDescriptor> = dynamic(&set)
            .iter()
            .flat_map(FileDescriptor::messages)
            .collect();
        while let Some(message) = queue.pop() {
            queue.extend(message.nested_messages());
            later.insert(message.full_name().to_owned(), message);
        }
        let own = ExtraSchema::default()
            .extensions(package_dir().join("../../sdk/schema/protos/tracezero/sequences.proto"));
        Self { later, own, extra }
    }

    /// Returns the fields of the message `full_name` that were published later.
    pub(crate) fn later(&self, full_name: &str) -> Option<&MessageDescriptor> {
        self.later.get(full_name)
    }

    /// Returns the fields of the message `full_name` that the SDK's service adds.
    pub(crate) fn own(&self, full_name: &str) -> &[MessageDescriptor] {
        self.own.of(full_name)
    }

    /// Returns the fields of the message `full_name` that the test declared.
    pub(crate) fn extra(&self, full_name: &str) -> &[MessageDescriptor] {
        self.extra.of(full_name)
    }
}

/// Parses the file at `path` and its imports; the file itself comes last.
fn parse(path: &Path, includes: &[PathBuf]) -> FileDescriptorSet {
    let folder = path.parent().expect("a file has a folder");
    // The parser needs a path that it can strip as a prefix, and an empty one does not work.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let parsed = protobuf_parse::Parser::new()
        .pure()
        .includes(includes)
        .include(folder)
        .include(package_dir().join("../../sdk/schema"))
        .input(path)
        .parse_and_typecheck()
        .unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
    let own_name = parsed.relative_paths[0].to_string();
    let mut set = FileDescriptorSet::new();
    set.file = parsed.file_descriptors;
    set.file.sort_by_key(|file| file.name() == own_name);
    set
}

fn dynamic(set: &FileDescriptorSet) -> Vec<FileDescriptor> {
    FileDescriptor::new_dynamic_fds(set.file.clone(), &[])
        .unwrap_or_else(|e| panic!("a parsed schema has descriptors: {e}"))
}

/// Converts `app.GpuSample` to `gpu_sample`.
fn field_name_of(message: &str) -> String {
    let simple = message.rsplit('.').next().unwrap_or(message);
    let mut name = String::new();
    for letter in simple.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
