//! Makes the table of the messages that a `TraceConfig` holds, for `src/schema.rs`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto};

const ROOT_FILE: &str = "protos/perfetto/config/trace_config.proto";
const ROOT_MESSAGE: &str = ".perfetto.protos.TraceConfig";

/// Declarations by full name, with a leading dot.
#[derive(Default)]
struct Declarations {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // The folder that holds `protos/`.
    let include = std::env::var("DEP_TRACEZERO_CORE_PROTOS")?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={include}/protos");
    let files = protobuf_parse::Parser::new()
        .pure()
        .include(&include)
        .input(Path::new(&include).join(ROOT_FILE))
        .parse_and_typecheck()?
        .file_descriptors;
    let mut declarations = Declarations::default();
    for file in files {
        let scope = format!(".{}", file.package());
        for message in &file.message_type {
            declarations.add(&scope, message);
        }
        for enumeration in &file.enum_type {
            declarations.add_enum(&scope, enumeration);
        }
    }
    let mut out = String::new();
    let mut waiting = vec![ROOT_MESSAGE.to_owned()];
    let mut next = 0;
    while let Some(name) = waiting.get(next).cloned() {
        next += 1;
        let message = &declarations.messages[&name];
        writeln!(
            out,
            "static {}: MessageType = MessageType {{ name: {:?}, fields: &[",
            constant(&name),
            message.name()
        )?;
        for field in &message.field {
            let kind = declarations.kind(field)?;
            writeln!(
                out,
                "    FieldType {{ name: {:?}, number: {}, kind: {kind}, repeated: {}, oneof: {:?} }},",
                field.name(),
                field.number(),
                field.label() == Label::LABEL_REPEATED,
                field.oneof_index
            )?;
            let type_name = field.type_name().to_owned();
            if field.type_() == Type::TYPE_MESSAGE && !waiting.contains(&type_name) {
                waiting.push(type_name);
            }
        }
        out.push_str("] };\n");
    }
    let path = PathBuf::from(std::env::var("OUT_DIR")?).join("schema.rs");
    Ok(std::fs::write(path, out)?)
}

impl Declarations {
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

    /// The source text of a field's `Kind`.
    fn kind(&self, field: &FieldDescriptorProto) -> Result<String, Box<dyn Error>> {
        Ok(match field.type_() {
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
                return Err(format!("field {name} has a type without text form: {other:?}").into());
            }
        })
    }
}

/// The name of a message's static.
fn constant(full_name: &str) -> String {
    full_name[1..].replace('.', "__").to_uppercase()
}
