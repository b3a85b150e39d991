//! All declared types of a run by name, and their Rust names. Names depend only on the schema, not
//! on the unit (output file) that contains a type. So one crate can refer to types that another
//! crate has generated.

use std::collections::BTreeMap;

use protobuf::descriptor::field_descriptor_proto::{Label, Type as ProtoType};
use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

use crate::names::{
    Taken, constant_prefix, escaped, snake_case, snake_case_part, upper_camel_case, whole,
};

/// The registry of declared types. Its keys are names of the schema, with the package and without a
/// leading dot.
#[derive(Debug)]
pub(crate) struct Registry<'a> {
    entries: BTreeMap<String, Entry<'a>>,
    /// The Rust names that each package or message takes in its module.
    scopes: BTreeMap<String, Taken>,
    /// The names of writer trait and decoder trait, by declaring scope and extended message.
    extended: BTreeMap<(String, String), (String, String)>,
}

/// A message or an enum.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    declaration: Declaration<'a>,
    pub(crate) package: &'a str,
    /// The name of the outermost type around this type, or of this type itself.
    pub(crate) top_level: String,
    pub(crate) is_proto3: bool,
    /// The path of the type's module inside its package.
    pub(crate) modules: Vec<String>,
    /// The Rust name: of a message's writer, or of the enum.
    pub(crate) ident: String,
    /// The name of a message's decoder; empty for an enum.
    pub(crate) decoder: String,
    /// The module for types that a message declares inside.
    pub(crate) module: String,
    /// The names of a message's fields, in the order of its fields.
    pub(crate) field_names: Vec<FieldNames>,
    pub(crate) oneofs: Vec<OneofNames>,
    /// The names that the methods of a message's fields take.
    methods: Taken,
}

#[derive(Debug, Clone, Copy)]
enum Declaration<'a> {
    Message(&'a DescriptorProto),
    Enum,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldNames {
    /// The part behind the verb in the names of the writer's methods, for instance `name` in
    /// `set_name`.
    pub(crate) base: String,
    /// The name of the decoder's method.
    pub(crate) getter: String,
}

#[derive(Debug)]
pub(crate) struct OneofNames {
    /// The index in the message's list of oneofs.
    pub(crate) index: i32,
    pub(crate) proto_name: String,
    pub(crate) getter: String,
    pub(crate) ident: String,
}

/// The names of the extension traits for one extended message in one scope, and of their methods.
#[derive(Debug)]
pub(crate) struct Extended {
    pub(crate) writer_trait: String,
    pub(crate) decoder_trait: String,
    methods: Taken,
}

impl Extended {
    pub(crate) fn claim(&mut self, field: &FieldDescriptorProto) -> FieldNames {
        claim_field(&mut self.methods, field, false)
    }
}

impl<'a> Entry<'a> {
    pub(crate) fn message(&self) -> Option<&'a DescriptorProto> {
        match self.declaration {
            Declaration::Message(message) => Some(message),
            Declaration::Enum => None,
        }
    }
}

/// The declarations directly in a package or in a message. The `bool` is true for proto3.
#[derive(Default)]
struct Scope<'a> {
    messages: Vec<(&'a DescriptorProto, bool)>,
    enums: Vec<(&'a EnumDescriptorProto, bool)>,
    extensions: Vec<&'a FieldDescriptorProto>,
}

impl<'a> Scope<'a> {
    fn add(
        &mut self,
        messages: &'a [DescriptorProto],
        enums: &'a [EnumDescriptorProto],
        extensions: &'a [FieldDescriptorProto],
        is_proto3: bool,
    ) {
        self.messages
            .extend(messages.iter().map(|message| (message, is_proto3)));
        self.enums
            .extend(enums.iter().map(|item| (item, is_proto3)));
        self.extensions.extend(data_extensions(extensions));
    }
}

impl<'a> Registry<'a> {
    pub(crate) fn new(files: &'a [FileDescriptorProto]) -> Self {
        let mut packages: BTreeMap<&str, Scope<'a>> = BTreeMap::new();
        for file in files {
            packages.entry(file.package()).or_default().add(
                &file.message_type,
                &file.enum_type,
                &file.extension,
                file.syntax() == "proto3",
            );
        }
        let mut registry = Registry {
            entries: BTreeMap::new(),
            scopes: BTreeMap::new(),
            extended: BTreeMap::new(),
        };
        for (package, scope) in packages {
            registry.add_scope(package, package, &scope, Taken::default(), &[]);
        }
        registry
    }

    /// Gives names to all declarations in a scope, then in the scopes inside it.
    fn add_scope(
        &mut self,
        package: &'a str,
        scope_name: &str,
        scope: &Scope<'a>,
        mut taken: Taken,
        modules: &[String],
    ) {
        // Names from the schema come first, so that a derived name never displaces one of them.
        let mut declared: Vec<(Entry<'a>, String)> = Vec::new();
        let messages = scope
            .messages
            .iter()
            .map(|&(it, syntax)| (it.name(), Some(it), syntax));
        let enums = scope
            .enums
            .iter()
            .map(|&(it, syntax)| (it.name(), None, syntax));
        for (name, message, is_proto3) in messages.chain(enums) {
            let full_name = join(scope_name, name);
            let top_level = match self.entries.get(scope_name) {
                Some(parent) if scope_name != package => parent.top_level.clone(),
                _ => full_name.clone(),
            };
            let is_hidden = message.is_some_and(is_map_entry);
            let ident = match is_hidden {
                true => String::new(),
                false => taken.claim(&escaped(&upper_camel_case(name))),
            };
            let entry = Entry {
                declaration: message.map_or(Declaration::Enum, Declaration::Message),
                package,
                top_level,
                is_proto3,
                modules: modules.to_vec(),
                ident,
                decoder: String::new(),
                module: String::new(),
                field_names: Vec::new(),
                oneofs: Vec::new(),
                methods: Taken::default(),
            };
            declared.push((entry, full_name));
        }
        for (entry, _) in &mut declared {
            if entry
                .message()
                .is_some_and(|message| !is_map_entry(message))
            {
                // `Self_` becomes `SelfDecoder`.
                let ident = entry.ident.strip_suffix('_').unwrap_or(&entry.ident);
                entry.decoder = taken.claim(&format!("{ident}Decoder"));
            }
        }
        let mut inner = Vec::new();
        for (mut entry, full_name) in declared {
            if let Some(message) = entry.message().filter(|message| !is_map_entry(message)) {
                entry.module = taken.claim(&escaped(&snake_case(message.name())));
                inner.push((
                    full_name.clone(),
                    message,
                    entry.is_proto3,
                    entry.module.clone(),
                ));
            }
            self.entries.insert(full_name, entry);
        }
        for extension in &scope.extensions {
            let extendee = type_name(extension.extendee());
            let base = upper_camel_case(extendee.rsplit('.').next().unwrap_or_default());
            self.extended
                .entry((scope_name.to_owned(), extendee))
                .or_insert_with(|| {
                    (
                        taken.claim(&format!("{base}Ext")),
                        taken.claim(&format!("{base}DecoderExt")),
                    )
                });
        }
        self.scopes.insert(scope_name.to_owned(), taken);

        for (name, message, is_proto3, module) in inner {
            let mut scope = Scope::default();
            scope.add(
                &message.nested_type,
                &message.enum_type,
                &message.extension,
                is_proto3,
            );
            let modules = [modules, &[module]].concat();
            self.add_scope(package, &name, &scope, Taken::default(), &modules);
            self.name_members(&name, message);
        }
    }

    /// Gives names to the fields and oneofs of a message, after its nested types have names.
    fn name_members(&mut self, name: &str, message: &DescriptorProto) {
        let mut methods = Taken::with(&RESERVED_METHODS);
        let field_names = message
            .field
            .iter()
            .map(|field| claim_field(&mut methods, field, is_map(message, field)))
            .collect();
        let taken = self.scopes.entry(name.to_owned()).or_default();
        let mut oneofs = Vec::new();
        for (index, oneof) in (0_i32..).zip(&message.oneof_decl) {
            // Skip the hidden oneof around a proto3 `optional` field.
            if !message
                .field
                .iter()
                .any(|field| oneof_index(field) == Some(index))
            {
                continue;
            }
            let getter = escaped(&snake_case(oneof.name()));
            let getter = methods.claim(&format!("{DECODER}{getter}"));
            oneofs.push(OneofNames {
                index,
                proto_name: oneof.name().to_owned(),
                getter: getter.trim_start_matches(DECODER).to_owned(),
                ident: taken.claim(&escaped(&upper_camel_case(oneof.name()))),
            });
        }
        if let Some(entry) = self.entries.get_mut(name) {
            entry.field_names = field_names;
            entry.oneofs = oneofs;
            entry.methods = methods;
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.get(name)
    }

    /// Returns a type that a descriptor refers to.
    ///
    /// # Panics
    ///
    /// If the type is not declared. This cannot happen: the parser, or `descriptor_set.rs`, has
    /// checked all references.
    pub(crate) fn entry(&self, name: &str) -> &Entry<'a> {
        self.entries
            .get(name)
            .expect("the parser has resolved every type")
    }

    /// Returns the Rust names that are taken in the module of a package or message.
    pub(crate) fn scope(&self, name: &str) -> Taken {
        self.scopes.get(name).cloned().unwrap_or_default()
    }

    /// Returns the names of the traits for the extensions of `extendee` that `scope` declares.
    pub(crate) fn extended(&self, scope: &str, extendee: &str) -> Extended {
        let key = (scope.to_owned(), extendee.to_owned());
        let (writer_trait, decoder_trait) = self.extended.get(&key).cloned().unwrap_or_default();
        let methods = self
            .get(extendee)
            .map(|entry| entry.methods.clone())
            .unwrap_or_default();
        Extended {
            writer_trait,
            decoder_trait,
            methods,
        }
    }
}

// Methods of writers, methods of decoders, and constants cannot collide with each other. These
// prefixes keep them apart in one set.
const WRITER: &str = "writer ";
const DECODER: &str = "decoder ";
const CONSTANT: &str = "constant ";

/// The methods that every writer or decoder has.
const RESERVED_METHODS: [&str; 4] = [
    "writer as_message_mut",
    "decoder new",
    "decoder fields",
    "decoder as_decoder",
];

/// Chooses the names of a field's methods: the field's name in snake case, with the field's number
/// if the name is taken.
fn claim_field(taken: &mut Taken, field: &FieldDescriptorProto, is_map: bool) -> FieldNames {
    let name = match snake_case_part(field.name()).as_str() {
        "" => "field".to_owned(),
        name => name.to_owned(),
    };
    let base = claim_base(taken, &name, field.number(), |base| {
        writer_names(field, is_map, base)
    });
    let getter = claim_base(taken, &base, field.number(), |base| {
        vec![format!("{DECODER}{}", whole(base))]
    });
    FieldNames {
        base,
        getter: whole(&getter),
    }
}

/// Chooses a base for which all `names` are free, and takes these names. Tries the name itself,
/// then the name with the field's number and ever more underscores.
fn claim_base(
    taken: &mut Taken,
    name: &str,
    number: i32,
    names: impl Fn(&str) -> Vec<String>,
) -> String {
    let mut base = name.to_owned();
    let mut suffix = format!("_{number}");
    while !taken.claim_all(&names(&base)) {
        base = format!("{name}{suffix}");
        suffix.push('_');
    }
    base
}

fn writer_names(field: &FieldDescriptorProto, is_map: bool, base: &str) -> Vec<String> {
    let is_repeated = field.label() == Label::LABEL_REPEATED;
    let prefixes: &[&str] = match field.type_() {
        _ if is_map => &["add_"],
        ProtoType::TYPE_MESSAGE if is_repeated => &["add_", "begin_"],
        ProtoType::TYPE_MESSAGE => &["", "begin_"],
        // `set_` is for packed fields.
        _ if is_repeated => &["add_", "set_"],
        _ => &["set_"],
    };
    let method = |prefix: &&str| match *prefix {
        "" => format!("{WRITER}{}", whole(base)),
        prefix => format!("{WRITER}{prefix}{base}"),
    };
    let constant = format!("{CONSTANT}{}", constant_prefix(base));
    prefixes.iter().map(method).chain([constant]).collect()
}

pub(crate) fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() {
        name.to_owned()
    } else {
        format!("{scope}.{name}")
    }
}

/// Removes the leading dot from a type reference of a descriptor.
pub(crate) fn type_name(reference: &str) -> String {
    reference.strip_prefix('.').unwrap_or(reference).to_owned()
}

/// Returns true for the message of a map's entries. The parser makes a map field a repeated field
/// of this message.
pub(crate) fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.map_entry()
}

fn is_map(message: &DescriptorProto, field: &FieldDescriptorProto) -> bool {
    let name = field.type_name().rsplit('.').next();
    field.type_() == ProtoType::TYPE_MESSAGE
        && message
            .nested_type
            .iter()
            .any(|nested| is_map_entry(nested) && Some(nested.name()) == name)
}

/// Returns the index of the oneof in which the schema declares a field, if there is one.
pub(crate) fn oneof_index(field: &FieldDescriptorProto) -> Option<i32> {
    field.oneof_index.filter(|_| !field.proto3_optional())
}

/// Filters out custom options: extensions that annotate a schema and are not part of messages.
pub(crate) fn data_extensions(
    extensions: &[FieldDescriptorProto],
) -> impl Iterator<Item = &FieldDescriptorProto> {
    extensions.iter().filter(|extension| {
        let name = extension
            .extendee()
            .strip_prefix(".google.protobuf.")
            .unwrap_or_default();
        !name.ends_with("Options")
    })
}
