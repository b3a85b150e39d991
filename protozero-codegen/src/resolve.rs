//! Turns descriptors into the model: selects the types of each unit, and determines their modules
//! and names.

use std::collections::{BTreeMap, BTreeSet};

use protobuf::descriptor::field_descriptor_proto::{Label, Type as ProtoType};
use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

use crate::comments::Comments;
use crate::extern_path::ExternPaths;
use crate::names::{Taken, escaped, snake_case, upper_camel_case, upper_snake_case};
use crate::registry::{
    Entry, Extended, FieldNames, Registry, data_extensions, is_map_entry, join, oneof_index,
    type_name,
};
use crate::schema::{
    Enum, EnumValue, Extension, Field, Message, Module, Oneof, OneofGetter, OneofMember, Path,
    Scalar, Shape, Type, Unit,
};

/// The name of the module for types without a package, in a unit whose package has a name.
const NO_PACKAGE_MODULE: &str = "no_package";

/// Creates one unit for each package of the roots, in the order of the package names.
pub(crate) fn units(
    files: &[FileDescriptorProto],
    roots: &[String],
    extern_paths: &ExternPaths,
    comments: &Comments,
) -> Vec<Unit> {
    let registry = Registry::new(files);
    let packages: BTreeSet<&str> = files
        .iter()
        .filter(|file| roots.iter().any(|root| root == file.name()))
        .map(FileDescriptorProto::package)
        .collect();
    packages
        .into_iter()
        .map(|package| {
            let files = closure(files, roots, package);
            UnitBuilder::new(&registry, extern_paths, comments, package, &files).build(&files)
        })
        .collect()
}

/// Returns the roots of a package with all their imports, in the order of `files`.
pub(crate) fn closure<'a>(
    files: &'a [FileDescriptorProto],
    roots: &[String],
    package: &str,
) -> Vec<&'a FileDescriptorProto> {
    let mut wanted: BTreeSet<&str> = roots.iter().map(String::as_str).collect();
    wanted.retain(|&name| {
        files
            .iter()
            .any(|file| file.name() == name && file.package() == package)
    });
    // Each file comes after its imports, so one pass from the end is enough.
    for file in files.iter().rev() {
        if wanted.contains(file.name()) {
            wanted.extend(file.dependency.iter().map(String::as_str));
        }
    }
    files
        .iter()
        .filter(|file| wanted.contains(file.name()))
        .collect()
}

struct UnitBuilder<'a> {
    registry: &'a Registry<'a>,
    extern_paths: &'a ExternPaths,
    comments: &'a Comments,
    package: &'a str,
    /// The names of the top-level types to emit.
    needed: BTreeSet<String>,
    /// The module path of each package, from the unit's root.
    package_modules: BTreeMap<String, Vec<String>>,
}

impl<'a> UnitBuilder<'a> {
    fn new(
        registry: &'a Registry<'a>,
        extern_paths: &'a ExternPaths,
        comments: &'a Comments,
        package: &'a str,
        files: &[&FileDescriptorProto],
    ) -> Self {
        let mut builder = UnitBuilder {
            registry,
            extern_paths,
            comments,
            package,
            needed: BTreeSet::new(),
            package_modules: BTreeMap::new(),
        };
        builder.find_needed(files);
        builder.place_packages(files);
        builder
    }

    /// Finds the types of the unit's own package, the types that extensions extend or use, and all
    /// types that these reach through fields.
    fn find_needed(&mut self, files: &[&FileDescriptorProto]) {
        let mut pending: Vec<String> = Vec::new();
        for file in files {
            let types = file
                .message_type
                .iter()
                .map(|message| (message.name(), Some(message)));
            let types = types.chain(file.enum_type.iter().map(|item| (item.name(), None)));
            for (name, message) in types {
                let extends = message.is_some_and(declares_extension);
                if file.package() == self.package || extends {
                    pending.push(join(file.package(), name));
                }
            }
            for field in self.file_extensions(file) {
                pending.push(type_name(field.extendee()));
                pending.push(type_name(field.type_name()));
            }
        }
        while let Some(name) = pending.pop() {
            let Some(entry) = self.registry.get(&name) else {
                continue; // a scalar field, whose type has no name
            };
            if self.extern_paths.find(&name).is_some()
                || !self.needed.insert(entry.top_level.clone())
            {
                continue;
            }
            if let Some(message) = self.registry.get(&entry.top_level).and_then(Entry::message) {
                referred_types(message, &mut pending);
            }
        }
    }

    /// Returns the extensions that a file declares at its top level, or nothing if an extern path
    /// covers the file's package.
    fn file_extensions<'f>(
        &self,
        file: &'f FileDescriptorProto,
    ) -> impl Iterator<Item = &'f FieldDescriptorProto> + use<'f> {
        let is_extern = self.extern_paths.find(file.package()).is_some();
        let fields = if is_extern {
            &[]
        } else {
            file.extension.as_slice()
        };
        data_extensions(fields)
    }

    fn place_packages(&mut self, files: &[&FileDescriptorProto]) {
        let own_names = self.registry.scope(self.package);
        let mut taken = BTreeMap::from([(Vec::new(), own_names)]);
        let mut placed: BTreeMap<Vec<&str>, String> = BTreeMap::new();
        let mut packages: BTreeSet<&str> = self
            .needed
            .iter()
            .filter_map(|name| self.registry.get(name))
            .map(|entry| entry.package)
            .collect();
        // A package may contain only extensions.
        packages.extend(
            files
                .iter()
                .filter(|file| self.file_extensions(file).next().is_some())
                .map(|file| file.package()),
        );
        self.package_modules
            .insert(self.package.to_owned(), Vec::new());
        for &package in packages.iter().filter(|&&package| package != self.package) {
            let segments: Vec<&str> = match package {
                "" => vec![NO_PACKAGE_MODULE],
                _ => package.split('.').collect(),
            };
            let mut module = Vec::new();
            for depth in 1..=segments.len() {
                let taken = taken
                    .entry(segments[..depth - 1].to_vec())
                    .or_insert_with(|| self.registry.scope(&segments[..depth - 1].join(".")));
                let ident = placed
                    .entry(segments[..depth].to_vec())
                    .or_insert_with(|| taken.claim(&escaped(&snake_case(segments[depth - 1]))));
                module.push(ident.clone());
            }
            self.package_modules.insert(package.to_owned(), module);
        }
    }

    fn build(&self, files: &[&FileDescriptorProto]) -> Unit {
        let mut root = Module::default();
        for file in files {
            let Some(path) = self.package_modules.get(file.package()) else {
                continue; // no type of this package is needed
            };
            let module = root.descend(path, file.package());
            self.fill(module, file.package(), &file.message_type, &file.enum_type);
            let is_proto3 = file.syntax() == "proto3";
            let fields = self.file_extensions(file);
            let extensions = self.extensions(file.package(), fields, is_proto3);
            module.add_extensions(extensions);
        }
        Unit {
            package: self.package.to_owned(),
            packages: self.package_modules.keys().cloned().collect(),
            root,
            vm_constants: Vec::new(),
        }
    }

    /// Adds the types that a scope declares to its module.
    fn fill(
        &self,
        module: &mut Module,
        scope: &str,
        messages: &[DescriptorProto],
        enums: &[EnumDescriptorProto],
    ) {
        for item in enums {
            if let Some(entry) = self.emitted(&join(scope, item.name())) {
                let name = join(scope, item.name());
                module.enums.push(self.enumeration(&name, entry, item));
            }
        }
        for message in messages.iter().filter(|message| !is_map_entry(message)) {
            let name = join(scope, message.name());
            let Some(entry) = self.emitted(&name) else {
                continue;
            };
            let mut nested = Module {
                path: [module.path.as_slice(), std::slice::from_ref(&entry.module)].concat(),
                doc: format!("Types nested in `{name}`."),
                ..Module::default()
            };
            module
                .messages
                .push(self.message(&name, entry, message, &nested.path));
            nested.oneofs = self.oneofs(&name, entry, message);
            self.fill(&mut nested, &name, &message.nested_type, &message.enum_type);
            let fields = data_extensions(&message.extension);
            nested.extensions = self.extensions(&name, fields, entry.is_proto3);
            if !nested.is_empty() {
                module.modules.push(nested);
            }
        }
    }

    fn emitted(&self, name: &str) -> Option<&'a Entry<'a>> {
        let entry = self.registry.get(name)?;
        let is_extern = self.extern_paths.find(name).is_some();
        (self.needed.contains(&entry.top_level) && !is_extern).then_some(entry)
    }

    fn message(
        &self,
        name: &str,
        entry: &Entry<'_>,
        message: &DescriptorProto,
        nested_path: &[String],
    ) -> Message {
        let fields = message
            .field
            .iter()
            .zip(&entry.field_names)
            .map(|(field, names)| self.field(name, message, field, names, entry.is_proto3))
            .collect();
        let oneofs = entry
            .oneofs
            .iter()
            .map(|oneof| OneofGetter {
                proto_name: oneof.proto_name.clone(),
                comment: self.comment(name, &oneof.proto_name),
                getter: oneof.getter.clone(),
                path: Path::Local {
                    module: nested_path.to_vec(),
                    ident: oneof.ident.clone(),
                },
                members: self.oneof_members(name, message, oneof.index),
            })
            .collect();
        Message {
            proto_name: name.to_owned(),
            comment: self.comments.of(name).to_owned(),
            writer: entry.ident.clone(),
            decoder: entry.decoder.clone(),
            fields,
            oneofs,
        }
    }

    fn oneofs(&self, name: &str, entry: &Entry<'_>, message: &DescriptorProto) -> Vec<Oneof> {
        entry
            .oneofs
            .iter()
            .map(|oneof| Oneof {
                proto_name: join(name, &oneof.proto_name),
                comment: self.comment(name, &oneof.proto_name),
                ident: oneof.ident.clone(),
                members: self.oneof_members(name, message, oneof.index),
            })
            .collect()
    }

    fn oneof_members(
        &self,
        scope: &str,
        message: &DescriptorProto,
        oneof: i32,
    ) -> Vec<OneofMember> {
        let mut taken = Taken::default();
        let fields = message
            .field
            .iter()
            .filter(|field| oneof_index(field) == Some(oneof));
        fields
            .map(|field| OneofMember {
                proto_name: field.name().to_owned(),
                comment: self.comment(scope, field.name()),
                number: number(field),
                variant: taken.claim(&escaped(&upper_camel_case(field.name()))),
                value_type: self.value_type(field),
            })
            .collect()
    }

    fn field(
        &self,
        scope: &str,
        message: &DescriptorProto,
        field: &FieldDescriptorProto,
        names: &FieldNames,
        is_proto3: bool,
    ) -> Field {
        let oneof = oneof_index(field)
            .and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?))
            .map(|oneof| oneof.name().to_owned());
        Field {
            proto_name: field.name().to_owned(),
            comment: self.comment(scope, field.name()),
            number: number(field),
            base: names.base.clone(),
            getter: names.getter.clone(),
            shape: self.shape(field, is_proto3),
            oneof,
        }
    }

    fn shape(&self, field: &FieldDescriptorProto, is_proto3: bool) -> Shape {
        if field.label() != Label::LABEL_REPEATED {
            return Shape::Singular(self.value_type(field));
        }
        let entry = self
            .registry
            .get(&type_name(field.type_name()))
            .and_then(Entry::message);
        if let Some([key, value]) = entry.filter(|entry| is_map_entry(entry)).map(map_fields) {
            return Shape::Map {
                key: scalar(key.type_()),
                value: self.value_type(value),
            };
        }
        let value_type = self.value_type(field);
        let is_packable = match value_type {
            Type::Scalar(scalar) => !matches!(scalar, Scalar::String | Scalar::Bytes),
            Type::Enum { .. } => true,
            Type::Message { .. } => false,
        };
        if is_packable && field.options.packed.unwrap_or(is_proto3) {
            Shape::Packed(value_type)
        } else {
            Shape::Repeated(value_type)
        }
    }

    fn value_type(&self, field: &FieldDescriptorProto) -> Type {
        let proto_name = type_name(field.type_name());
        match field.type_() {
            ProtoType::TYPE_ENUM => {
                let path = self.paths(&proto_name).0;
                Type::Enum { proto_name, path }
            }
            ProtoType::TYPE_MESSAGE | ProtoType::TYPE_GROUP => {
                let (writer, decoder) = self.paths(&proto_name);
                Type::Message {
                    proto_name,
                    writer,
                    decoder,
                }
            }
            other => Type::Scalar(scalar(other)),
        }
    }

    /// Returns the paths of a type and of its decoder.
    fn paths(&self, name: &str) -> (Path, Path) {
        let entry = self.registry.entry(name);
        if let Some(found) = self.extern_paths.find(name) {
            return found.paths(self.registry, name);
        }
        let mut module = self
            .package_modules
            .get(entry.package)
            .cloned()
            .unwrap_or_default();
        module.extend(entry.modules.iter().cloned());
        let local = |ident: &String| Path::Local {
            module: module.clone(),
            ident: ident.clone(),
        };
        (local(&entry.ident), local(&entry.decoder))
    }

    fn enumeration(&self, name: &str, entry: &Entry<'_>, item: &EnumDescriptorProto) -> Enum {
        let prefix = format!("{}_", upper_snake_case(item.name()));
        let full = |value: &str| upper_snake_case(value);
        let stripped = |value: &str| {
            let full = full(value);
            let rest = full.strip_prefix(&prefix).unwrap_or(&full);
            let is_identifier = rest.starts_with(|first: char| first.is_ascii_alphabetic());
            if is_identifier { rest.to_owned() } else { full }
        };
        let shorts: Vec<String> = item
            .value
            .iter()
            .map(|value| stripped(value.name()))
            .collect();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for short in &shorts {
            *uses.entry(short).or_default() += 1;
        }
        let mut taken = Taken::default();
        let values = item.value.iter().zip(&shorts).map(|(value, short)| {
            let constant = if uses[short.as_str()] == 1 {
                short.clone()
            } else {
                full(value.name())
            };
            EnumValue {
                proto_name: value.name().to_owned(),
                comment: self.comment(name, value.name()),
                constant: taken.claim(&escaped(&constant)),
                number: value.number(),
            }
        });
        let values = values.collect();
        Enum {
            proto_name: name.to_owned(),
            comment: self.comments.of(name).to_owned(),
            ident: entry.ident.clone(),
            values,
        }
    }

    /// Returns the comment of a declaration inside a message or an enum.
    fn comment(&self, scope: &str, name: &str) -> String {
        self.comments.of(&join(scope, name)).to_owned()
    }

    /// Creates one [`Extension`] for each message that the fields of a scope extend.
    fn extensions(
        &self,
        scope: &str,
        fields: impl Iterator<Item = &'a FieldDescriptorProto>,
        is_proto3: bool,
    ) -> Vec<Extension> {
        let mut extensions: Vec<Extension> = Vec::new();
        let mut names: Vec<Extended> = Vec::new();
        let nobody = DescriptorProto::default();
        for field in fields {
            let extendee = type_name(field.extendee());
            let index = extensions
                .iter()
                .position(|extension| extension.extendee == extendee);
            let index = index.unwrap_or_else(|| {
                let (writer, decoder) = self.paths(&extendee);
                let extended = self.registry.extended(scope, &extendee);
                extensions.push(Extension {
                    writer,
                    decoder,
                    writer_trait: extended.writer_trait.clone(),
                    decoder_trait: extended.decoder_trait.clone(),
                    extendee,
                    fields: Vec::new(),
                });
                names.push(extended);
                extensions.len() - 1
            });
            let field_names = names[index].claim(field);
            extensions[index].fields.push(self.field(
                scope,
                &nobody,
                field,
                &field_names,
                is_proto3,
            ));
        }
        extensions
    }
}

impl Module {
    /// Adds extensions. Merges extensions of the same message, because several files of a package
    /// may extend it.
    fn add_extensions(&mut self, extensions: Vec<Extension>) {
        for extension in extensions {
            let same = |other: &&mut Extension| other.extendee == extension.extendee;
            match self.extensions.iter_mut().find(same) {
                Some(other) => other.fields.extend(extension.fields),
                None => self.extensions.push(extension),
            }
        }
    }

    /// Returns the module at a path below this one; creates missing modules.
    fn descend(&mut self, path: &[String], package: &str) -> &mut Module {
        let Some((first, rest)) = path.split_first() else {
            return self;
        };
        let index = self
            .modules
            .iter()
            .position(|module| module.path.last() == Some(first));
        let index = index.unwrap_or_else(|| {
            self.modules.push(Module {
                path: [self.path.as_slice(), std::slice::from_ref(first)].concat(),
                doc: String::new(),
                ..Module::default()
            });
            self.modules.len() - 1
        });
        let module = &mut self.modules[index];
        if rest.is_empty() {
            module.doc = match package {
                "" => "Types without a package.".to_owned(),
                _ => format!("Package `{package}`."),
            };
        } else if module.doc.is_empty() {
            "Packages below this name.".clone_into(&mut module.doc);
        }
        module.descend(rest, package)
    }

    /// Returns true if an item of the module has this Rust name.
    pub(crate) fn declares(&self, ident: &str) -> bool {
        self.messages
            .iter()
            .any(|it| it.writer == ident || it.decoder == ident)
            || self.enums.iter().any(|it| it.ident == ident)
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
            && self.enums.is_empty()
            && self.oneofs.is_empty()
            && self.extensions.is_empty()
            && self.modules.is_empty()
    }
}

fn declares_extension(message: &DescriptorProto) -> bool {
    data_extensions(&message.extension).next().is_some()
        || message.nested_type.iter().any(declares_extension)
}

/// Adds the names of all types that a message and its nested messages refer to.
fn referred_types(message: &DescriptorProto, names: &mut Vec<String>) {
    names.extend(
        message
            .field
            .iter()
            .map(|field| type_name(field.type_name())),
    );
    for field in data_extensions(&message.extension) {
        names.push(type_name(field.extendee()));
        names.push(type_name(field.type_name()));
    }
    for nested in &message.nested_type {
        referred_types(nested, names);
    }
}

/// Returns the key field and the value field of a map's entry message.
fn map_fields(entry: &DescriptorProto) -> [&FieldDescriptorProto; 2] {
    match entry.field.as_slice() {
        [key, value] => [key, value],
        _ => unreachable!("the parser makes map entries of two fields"),
    }
}

pub(crate) fn number(field: &FieldDescriptorProto) -> u32 {
    u32::try_from(field.number()).expect("field numbers have been checked")
}

pub(crate) fn scalar(proto_type: ProtoType) -> Scalar {
    match proto_type {
        ProtoType::TYPE_INT32 => Scalar::Int32,
        ProtoType::TYPE_INT64 => Scalar::Int64,
        ProtoType::TYPE_UINT32 => Scalar::Uint32,
        ProtoType::TYPE_UINT64 => Scalar::Uint64,
        ProtoType::TYPE_SINT32 => Scalar::Sint32,
        ProtoType::TYPE_SINT64 => Scalar::Sint64,
        ProtoType::TYPE_BOOL => Scalar::Bool,
        ProtoType::TYPE_FIXED32 => Scalar::Fixed32,
        ProtoType::TYPE_FIXED64 => Scalar::Fixed64,
        ProtoType::TYPE_SFIXED32 => Scalar::Sfixed32,
        ProtoType::TYPE_SFIXED64 => Scalar::Sfixed64,
        ProtoType::TYPE_FLOAT => Scalar::Float,
        ProtoType::TYPE_DOUBLE => Scalar::Double,
        ProtoType::TYPE_STRING => Scalar::String,
        ProtoType::TYPE_BYTES => Scalar::Bytes,
        ProtoType::TYPE_MESSAGE | ProtoType::TYPE_GROUP | ProtoType::TYPE_ENUM => {
            unreachable!("not a scalar")
        }
    }
}
