//! Generates drivers: for each message type, a function that calls every setter and one that calls
//! every getter. The descriptors of the foreign parser say which setters and getters must exist.

use std::collections::BTreeMap;
use std::fmt::Write;

use prost_reflect::{
    DescriptorPool, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
};

use crate::Result;
use crate::surface::{OpenEnum, Surface, Target, Verb};

/// The generated code of a package.
pub(crate) struct Unit {
    pub(crate) package: String,
    pub(crate) surface: Surface,
}

/// The number of drivers in one module; modules are compiled in parallel.
const DRIVERS_PER_MODULE: usize = 50;

/// Returns the source of a module with the generated code, its drivers, and the lists `DRIVERS` and
/// `ENUMS`.
pub(crate) fn source(schema: &str, pool: &DescriptorPool, units: Vec<Unit>) -> Result<String> {
    let mut source = String::new();
    let mut drivers = String::new();
    let mut enums = String::new();
    for mut unit in units {
        let module = module_name(&unit.package);
        let file = format!("/{schema}/{}.rs", unit.package);
        writeln!(source, "mod {module} {{")?;
        writeln!(source, "include!(concat!(env!(\"OUT_DIR\"), \"{file}\"));")?;
        writeln!(source, "}}")?;
        let messages: Vec<String> = unit.surface.writers.keys().cloned().collect();
        let functions = Functions::new(&messages, &module);
        let mut emitter = Emitter {
            functions: &functions,
            surface: &mut unit.surface,
        };
        for (part, messages_of_part) in messages.chunks(DRIVERS_PER_MODULE).enumerate() {
            writeln!(source, "mod drive_{module}_{part} {{")?;
            for name in messages_of_part {
                let message = pool.get_message_by_name(name).ok_or("an unknown message")?;
                source.push_str(&emitter.message(&message)?);
            }
            writeln!(source, "}}")?;
        }
        for name in &messages {
            writeln!(
                drivers,
                "::schemas::Driver {{ unit: {:?}, name: {name:?}, write: {}, read: {} }},",
                unit.package,
                functions.path(name, "encode").trim_start_matches("super::"),
                functions.path(name, "decode").trim_start_matches("super::"),
            )?;
        }
        for (name, open_enum) in &unit.surface.enums {
            enums.push_str(&enum_driver(&unit.package, name, &module, open_enum));
        }
        let left_over = unit.surface.left_over();
        if !left_over.is_empty() {
            return Err(format!("generated for no field: {left_over:#?}").into());
        }
    }
    writeln!(
        source,
        "pub const DRIVERS: &[::schemas::Driver] = &[{drivers}];"
    )?;
    writeln!(
        source,
        "pub const ENUMS: &[::schemas::EnumDriver] = &[{enums}];"
    )?;
    Ok(source)
}

fn module_name(package: &str) -> String {
    format!("unit_{}", package.replace('.', "_"))
}

fn enum_driver(unit: &str, name: &str, module: &str, open_enum: &OpenEnum) -> String {
    let path = format!("{module}::{}", open_enum.path);
    let constants: Vec<String> = open_enum
        .constants
        .iter()
        .map(|(value, constant)| format!("({value:?}, {module}::{constant}.0)"))
        .collect();
    format!(
        "::schemas::EnumDriver {{ unit: {unit:?}, name: {name:?}, constants: &[{}], \
         name_of: |number| {path}(number).name(), default: || {path}::default().0 }},\n",
        constants.join(", ")
    )
}

/// The names of the driver functions of each message of a unit.
struct Functions<'a> {
    module: &'a str,
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Functions<'a> {
    fn new(messages: &'a [String], module: &'a str) -> Self {
        let places = messages.iter().map(String::as_str).zip(0..).collect();
        Functions { module, places }
    }

    fn path(&self, message: &str, verb: &str) -> String {
        let place = self.places[message];
        let (module, part) = (self.module, place / DRIVERS_PER_MODULE);
        format!("super::drive_{module}_{part}::{verb}_{place}")
    }

    fn name(&self, message: &str, verb: &str) -> String {
        format!("{verb}_{}", self.places[message])
    }
}

struct Emitter<'a> {
    functions: &'a Functions<'a>,
    surface: &'a mut Surface,
}

/// A field or an extension.
struct Field {
    number: u32,
    name: String,
    kind: Kind,
    is_list: bool,
    is_map: bool,
    is_packed: bool,
}

impl From<FieldDescriptor> for Field {
    fn from(field: FieldDescriptor) -> Self {
        Field {
            number: field.number(),
            name: field.name().to_owned(),
            kind: field.kind(),
            is_list: field.is_list(),
            is_map: field.is_map(),
            is_packed: field.is_packed(),
        }
    }
}

impl From<ExtensionDescriptor> for Field {
    fn from(field: ExtensionDescriptor) -> Self {
        Field {
            number: field.number(),
            name: field.name().to_owned(),
            kind: field.kind(),
            is_list: field.is_list(),
            is_map: field.is_map(),
            is_packed: field.is_packed(),
        }
    }
}

impl Emitter<'_> {
    fn message(&mut self, message: &MessageDescriptor) -> Result<String> {
        let name = message.full_name();
        let fields: Vec<Field> = message
            .fields()
            .map(Field::from)
            .chain(message.extensions().map(Field::from))
            .collect();
        let (mut setters, mut getters) = (String::new(), String::new());
        for field in &fields {
            self.surface.take_number(name, &field.name, field.number)?;
            let setter = self.setter(name, field)?;
            let number = field.number;
            writeln!(
                setters,
                "if let Some(content) = m.fields.get(&{number}) {{ {setter} }}"
            )?;
            writeln!(getters, "{}", self.getter(name, field)?)?;
        }
        for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            writeln!(getters, "{}", self.oneof(name, &oneof)?)?;
        }
        let writer = self.item(self.surface.writers.get(name))?;
        let decoder = self.item(self.surface.decoders.get(name))?;
        let [write, read, encode, decode] =
            ["write", "read", "encode", "decode"].map(|verb| self.functions.name(name, verb));
        let input = "m: &::schemas::Message, form: ::schemas::Form";
        let error = "::protozero::DecodeError";
        Ok(format!(
            "
pub(super) fn {write}(w: &mut {writer}<'_>, {input}) {{
let _ = (&w, m, form);
{setters}}}
pub(super) fn {encode}({input}) -> Vec<u8> {{
::schemas::encode::<{writer}<'static>>(|w| {write}(w, m, form))
}}
pub(super) fn {read}(d: &{decoder}<'_>, out: &mut ::schemas::Reader) -> Result<(), {error}> {{
let _ = (d, &out);
{getters}Ok(())
}}
pub(super) fn {decode}(bytes: &[u8]) -> Result<::schemas::Message, {error}> {{
::schemas::Reader::read(&{decoder}::new(bytes), {read})
}}
"
        ))
    }

    fn item(&self, path: Option<&String>) -> Result<String> {
        let path = path.ok_or("a message without a writer or decoder")?;
        Ok(format!("super::{}::{path}", self.functions.module))
    }

    fn method(&mut self, message: &str, verb: Verb, field: &Field) -> Result<String> {
        let path = self
            .surface
            .take(message, verb, Target::Field(field.number))?;
        self.item(Some(&path))
    }

    /// Returns statements that write the value of `content` with `w`.
    fn setter(&mut self, message: &str, field: &Field) -> Result<String> {
        let append = self.method(message, Verb::Append, field)?;
        if field.is_map {
            let [key, value] = entry(&field.kind)?;
            let key = argument(&key, "k");
            let value = match &value {
                Kind::Message(value) => {
                    let write = self.functions.path(value.full_name(), "write");
                    format!("|w| {write}(w, v.message(), form)")
                }
                value => argument(value, "v"),
            };
            return Ok(format!(
                "for (k, v) in content.map() {{ {append}(w, {key}, {value}); }}"
            ));
        }
        if let Kind::Message(child) = &field.kind {
            let begin = self.method(message, Verb::Begin, field)?;
            let write = self.functions.path(child.full_name(), "write");
            let one = format!(
                "if form.has_guards() {{ {write}(&mut {begin}(w), v.message(), form); }} \
                 else {{ {append}(w, |w| {write}(w, v.message(), form)); }}"
            );
            return Ok(if field.is_list {
                format!("for v in content.many() {{ {one} }}")
            } else {
                format!("let v = content.one(); {one}")
            });
        }
        let value = argument(&field.kind, "v");
        Ok(if field.is_packed {
            let append_all = self.method(message, Verb::AppendAll, field)?;
            let each = match &field.kind {
                Kind::Enum(_) => format!("|v| {value}"),
                kind => format!("::schemas::Value::{}", accessor(kind)),
            };
            format!(
                "let (single, packed) = form.split(content.many()); \
                 for v in single {{ {append}(w, {value}); }} \
                 if !packed.is_empty() {{ {append_all}(w, packed.iter().map({each})); }}"
            )
        } else if field.is_list {
            format!("for v in content.many() {{ {append}(w, {value}); }}")
        } else {
            format!("let v = content.one(); {append}(w, {value});")
        })
    }

    /// Returns a statement that puts the result of a getter of `d` into `out`.
    fn getter(&mut self, message: &str, field: &Field) -> Result<String> {
        let getter = self.method(message, Verb::Get, field)?;
        let number = field.number;
        if field.is_map {
            let [_, value] = entry(&field.kind)?;
            return Ok(match value {
                Kind::Message(value) => {
                    let read = self.functions.path(value.full_name(), "read");
                    format!("out.map_of_messages({number}, &mut {getter}(d), {read})?;")
                }
                Kind::Enum(_) => format!("out.map_of_enums({number}, &mut {getter}(d))?;"),
                _ => format!("out.map({number}, &mut {getter}(d))?;"),
            });
        }
        Ok(match (&field.kind, field.is_list) {
            (Kind::Message(child), is_list) => {
                let read = self.functions.path(child.full_name(), "read");
                if is_list {
                    format!("out.children({number}, &mut {getter}(d), {read})?;")
                } else {
                    format!("out.child({number}, {getter}(d)?, {read})?;")
                }
            }
            (Kind::Enum(_), true) => format!("out.enums({number}, &mut {getter}(d))?;"),
            (Kind::Enum(_), false) => format!("out.one({number}, {getter}(d)?.map(i32::from));"),
            (_, true) => format!("out.many({number}, &mut {getter}(d))?;"),
            (_, false) => format!("out.one({number}, {getter}(d)?);"),
        })
    }

    /// Returns a statement that compares the result of a oneof's getter with those of its members.
    fn oneof(&mut self, message: &str, oneof: &prost_reflect::OneofDescriptor) -> Result<String> {
        let target = Target::Oneof(oneof.name().to_owned());
        let getter = self.surface.take(message, Verb::Get, target)?;
        let getter = self.item(Some(&getter))?;
        let mut arms = String::new();
        for member in oneof.fields() {
            let number = member.number();
            let variant = self.surface.take_variant(oneof.full_name(), number)?;
            let variant = self.item(Some(&variant))?;
            let value = match member.kind() {
                Kind::Message(child) => {
                    let read = self.functions.path(child.full_name(), "read");
                    format!("::schemas::Reader::read(&v, {read})?.into()")
                }
                Kind::Enum(_) => "i32::from(v).into()".to_owned(),
                _ => "v.into()".to_owned(),
            };
            write!(arms, "{variant}(v) => ({number}, {value}), ")?;
        }
        let members: Vec<String> = oneof.fields().map(|it| it.number().to_string()).collect();
        let members = members.join(", ");
        Ok(format!(
            "let mut answer = None; \
             if let Some(member) = {getter}(d)? {{ answer = Some(match member {{ {arms} }}); }} \
             out.oneof(&[{members}], answer);"
        ))
    }
}

/// Returns the types of a map's keys and values.
fn entry(kind: &Kind) -> Result<[Kind; 2]> {
    let entry = kind.as_message().ok_or("a map has entries")?;
    Ok([
        entry.map_entry_key_field().kind(),
        entry.map_entry_value_field().kind(),
    ])
}

/// Returns a value as the argument of a setter.
fn argument(kind: &Kind, value: &str) -> String {
    let accessor = accessor(kind);
    match kind {
        Kind::Enum(_) => format!("{value}.{accessor}().into()"),
        _ => format!("{value}.{accessor}()"),
    }
}

/// Returns the method of `schemas::Value` for values of a type.
fn accessor(kind: &Kind) -> &'static str {
    match kind {
        Kind::Double => "f64",
        Kind::Float => "f32",
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => "i32",
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "i64",
        Kind::Uint32 | Kind::Fixed32 => "u32",
        Kind::Uint64 | Kind::Fixed64 => "u64",
        Kind::Bool => "bool",
        Kind::String => "str",
        Kind::Bytes => "bytes",
        Kind::Message(_) => "message",
    }
}
