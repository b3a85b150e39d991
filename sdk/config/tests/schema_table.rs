//! The tables in `src/schema/` agree with the schema. After a change to the schema, run
//! `BLESS=1 cargo test -p tracezero-config --test schema_table` to generate the tables again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto};

const CONFIG_FILE: &str = "protos/perfetto/config/trace_config.proto";
/// Beside this package: nobody builds code for it.
const SOURCES_FILE: &str = "protos/tracezero/source_configs.proto";
/// The tables, each with its outermost message: the configuration, and those of data sources that only a
/// text may have.
const TABLES: [(&str, &str); 2] = [
    ("table.rs", ".perfetto.protos.TraceConfig"),
    ("source_configs.rs", ".tracezero.kernel.SourceConfigs"),
];

#[test]
fn tables_are_up_to_date() {
    let declarations = Declarations::read();
    for (file, root) in TABLES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
        let path = path.join(file);
        let table = table(&declarations, root);
        if env::var_os("BLESS").is_some() {
            fs::write(&path, &table).expect("the source folder is writable");
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == table,
            "{file} is out of date: see the head of this test"
        );
    }
}

/// Returns the source text of a table: a static for the message `root` and for each message type inside of
/// it.
fn table(declarations: &Declarations, root: &str) -> String {
    let mut out = "// Made of the schema by `tests/schema_table.rs`.\n\n".to_owned();
    let mut waiting = vec![root.to_owned()];
    let mut next = 0;
    while let Some(name) = waiting.get(next).cloned() {
        next += 1;
        let message = &declarations.messages[&name];
        let (constant, name) = (constant(&name), message.name());
        _ = writeln!(
            out,
            "static {constant}: MessageType = MessageType {{ name: {name:?}, fields: &["
        );
        for field in &message.field {
            let (name, number) = (field.name(), field.number());
            let kind = declarations.kind(field);
            let repeated = field.label() == Label::LABEL_REPEATED;
            let oneof = field.oneof_index;
            _ = writeln!(
                out,
                "    FieldType {{ name: {name:?}, number: {number}, kind: {kind}, repeated: {repeated}, oneof: {oneof:?} }},",
            );
            let type_name = field.type_name().to_owned();
            if field.type_() == Type::TYPE_MESSAGE && !waiting.contains(&type_name) {
                waiting.push(type_name);
            }
        }
        out.push_str("] };\n");
    }
    out
}

/// The schema's declarations by full name, with a leading dot.
#[derive(Default)]
struct Declarations {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
}

impl Declarations {
    fn read() -> Self {
        let schema = Path::new(tracezero_schema::INCLUDE_DIR);
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = protobuf_parse::Parser::new()
            .pure()
            .includes([schema, package])
            .input(schema.join(CONFIG_FILE))
            .input(package.join(SOURCES_FILE))
            .parse_and_typecheck()
            .expect("the schema is valid")
            .file_descriptors;
        let mut declarations = Self::default();
        for file in files {
            let scope = format!(".{}", file.package());
            for message in &file.message_type {
                declarations.add(&scope, message);
            }
            for enumeration in &file.enum_type {
                declarations.add_enum(&scope, enumeration);
            }
        }
        declarations
    }

    fn add(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
        for enumeration in &message.enum_type {
            self.add_enum(&name, enumeration);
        }
        self.messages.insert(name, message.clone());
    }

    fn add_enum(&mut self, scope: &str, enumeration: &EnumDescriptorProto) {
        let name = format!("{scope}.{}", enumeration.name());
        self.enums.insert(name, enumeration.clone());
    }

    /// Returns the source text of a field's `Kind`.
    fn kind(&self, field: &FieldDescriptorProto) -> String {
        match field.type_() {
            Type::TYPE_BOOL => "Kind::Bool".to_owned(),
            Type::TYPE_UINT32 => "Kind::Uint32".to_owned(),
            Type::TYPE_UINT64 => "Kind::Uint64".to_owned(),
            Type::TYPE_INT32 => "Kind::Int32".to_owned(),
            Type::TYPE_INT64 => "Kind::Int64".to_owned(),
            Type::TYPE_DOUBLE => "Kind::Double".to_owned(),
            Type::TYPE_STRING => "Kind::String".to_owned(),
            Type::TYPE_BYTES => "Kind::Bytes".to_owned(),
            Type::TYPE_ENUM => {
                let values = &self.enums[field.type_name()].value;
                let values: Vec<_> = values.iter().map(|v| (v.name(), v.number())).collect();
                format!("Kind::Enum(&{values:?})")
            }
            Type::TYPE_MESSAGE => format!("Kind::Message(&{})", constant(field.type_name())),
            other => {
                let name = field.name();
                panic!("field {name} has a type without text form: {other:?}")
            }
        }
    }
}

/// Returns the name of a message's static.
fn constant(full_name: &str) -> String {
    full_name[1..].replace('.', "__").to_uppercase()
}
