//! The resolved model of a schema, the input of the emitter. All names have been converted to Rust
//! names, all types have been found, and nothing refers back to descriptors.

/// One output file: a package with all types that it needs.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The package, as the schema spells it.
    pub(crate) package: String,
    /// All packages with types in this file, as the schema spells them.
    pub(crate) packages: Vec<String>,
    pub(crate) root: Module,
    /// The ProtoVM programs, constants at the root.
    pub(crate) vm_constants: Vec<VmConstant>,
}

/// A constant with a serialized ProtoVM program.
#[derive(Debug)]
pub(crate) struct VmConstant {
    pub(crate) ident: String,
    /// The full name of the program's root message.
    pub(crate) root: String,
    /// The lines of the program's text.
    pub(crate) text: Vec<String>,
    pub(crate) bytes: Vec<u8>,
}

/// A Rust module, or the root of a unit.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// The path from the unit's root; empty for the root.
    pub(crate) path: Vec<String>,
    /// The documentation, one sentence.
    pub(crate) doc: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) oneofs: Vec<Oneof>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) owned_messages: Vec<OwnedMessage>,
    pub(crate) owned_oneofs: Vec<OwnedOneof>,
    pub(crate) modules: Vec<Module>,
}

#[derive(Debug)]
pub(crate) struct Message {
    /// The full name, with the package and without a leading dot.
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) writer: String,
    pub(crate) decoder: String,
    pub(crate) fields: Vec<Field>,
    /// The getters of the message's oneofs.
    pub(crate) oneofs: Vec<OneofGetter>,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) number: u32,
    /// The part behind the verb in the names of the writer's methods, for instance `name` in
    /// `set_name`.
    pub(crate) base: String,
    /// The name of the decoder's method.
    pub(crate) getter: String,
    pub(crate) shape: Shape,
    /// The name of the oneof that the field belongs to, as the schema spells it.
    pub(crate) oneof: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Singular(Type),
    Repeated(Type),
    /// A repeated field that is packed.
    Packed(Type),
    Map {
        key: Scalar,
        value: Type,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Type {
    Scalar(Scalar),
    Enum {
        proto_name: String,
        path: Path,
    },
    Message {
        proto_name: String,
        writer: Path,
        decoder: Path,
    },
}

impl Type {
    /// Returns the name of the type in a `.proto` file.
    pub(crate) fn proto_name(&self) -> &str {
        match self {
            Type::Scalar(scalar) => scalar.proto_name(),
            Type::Enum { proto_name, .. } | Type::Message { proto_name, .. } => proto_name,
        }
    }

    /// Returns true if a decoded value borrows from the message's bytes.
    pub(crate) fn borrows(&self) -> bool {
        match self {
            Type::Scalar(scalar) => matches!(scalar, Scalar::String | Scalar::Bytes),
            Type::Enum { .. } => false,
            Type::Message { .. } => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Bool,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Float,
    Double,
    String,
    Bytes,
}

impl Scalar {
    /// Returns the name of the type in a `.proto` file. The runtime's `append_*` methods end in it.
    pub(crate) fn proto_name(self) -> &'static str {
        match self {
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Uint32 => "uint32",
            Scalar::Uint64 => "uint64",
            Scalar::Sint32 => "sint32",
            Scalar::Sint64 => "sint64",
            Scalar::Bool => "bool",
            Scalar::Fixed32 => "fixed32",
            Scalar::Fixed64 => "fixed64",
            Scalar::Sfixed32 => "sfixed32",
            Scalar::Sfixed64 => "sfixed64",
            Scalar::Float => "float",
            Scalar::Double => "double",
            Scalar::String => "string",
            Scalar::Bytes => "bytes",
        }
    }

    /// Returns the name of the runtime's marker type for decoding.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Scalar::Int32 => "Int32",
            Scalar::Int64 => "Int64",
            Scalar::Uint32 => "Uint32",
            Scalar::Uint64 => "Uint64",
            Scalar::Sint32 => "Sint32",
            Scalar::Sint64 => "Sint64",
            Scalar::Bool => "Bool",
            Scalar::Fixed32 => "Fixed32",
            Scalar::Fixed64 => "Fixed64",
            Scalar::Sfixed32 => "Sfixed32",
            Scalar::Sfixed64 => "Sfixed64",
            Scalar::Float => "Float",
            Scalar::Double => "Double",
            Scalar::String => "Str",
            Scalar::Bytes => "Bytes",
        }
    }
}

/// The path of a Rust item.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// An item in the same unit.
    Local { module: Vec<String>, ident: String },
    /// An item in another crate or module, by a path that starts with `::` or `crate::`.
    Extern(String),
}

#[derive(Debug)]
pub(crate) struct OneofGetter {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) getter: String,
    pub(crate) path: Path,
    pub(crate) members: Vec<OneofMember>,
}

impl OneofGetter {
    pub(crate) fn borrows(&self) -> bool {
        self.members
            .iter()
            .any(|member| member.value_type.borrows())
    }
}

/// The enum that a oneof's getter returns.
#[derive(Debug)]
pub(crate) struct Oneof {
    /// The oneof with its message, as the schema spells them.
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    pub(crate) members: Vec<OneofMember>,
}

impl Oneof {
    pub(crate) fn borrows(&self) -> bool {
        self.members
            .iter()
            .any(|member| member.value_type.borrows())
    }
}

#[derive(Debug)]
pub(crate) struct OneofMember {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) number: u32,
    pub(crate) variant: String,
    pub(crate) value_type: Type,
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    /// The values in the order of declaration. Several may have the same number.
    pub(crate) values: Vec<EnumValue>,
}

#[derive(Debug)]
pub(crate) struct EnumValue {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) constant: String,
    pub(crate) number: i32,
}

/// The extension fields that one scope declares for one message.
#[derive(Debug)]
pub(crate) struct Extension {
    /// The extended message, as the schema spells it.
    pub(crate) extendee: String,
    pub(crate) writer: Path,
    pub(crate) decoder: Path,
    pub(crate) writer_trait: String,
    pub(crate) decoder_trait: String,
    pub(crate) fields: Vec<Field>,
}

/// The owned struct of a message.
#[derive(Debug)]
pub(crate) struct OwnedMessage {
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    pub(crate) writer: Path,
    /// The members in the order of declaration. A oneof is at the position of its first field.
    pub(crate) members: Vec<OwnedMember>,
    /// The name of the member for fields that the schema does not know.
    pub(crate) unknown_fields: String,
}

#[derive(Debug)]
pub(crate) enum OwnedMember {
    Field(Box<OwnedField>),
    Oneof {
        proto_name: String,
        comment: String,
        name: String,
        path: Path,
        cases: Vec<OwnedCase>,
    },
}

#[derive(Debug)]
pub(crate) struct OwnedField {
    /// The field. The name of its getter is also the name of the member.
    pub(crate) field: Field,
    pub(crate) shape: OwnedShape,
    pub(crate) default: Option<DefaultValue>,
}

#[derive(Debug)]
pub(crate) enum OwnedShape {
    /// A field without presence, which counts as set if it is not zero or empty.
    Implicit(OwnedType),
    Optional(OwnedType),
    Repeated(OwnedType),
    Packed(OwnedType),
    Map {
        key: Scalar,
        value: OwnedType,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum OwnedType {
    Scalar(Scalar),
    Enum(Path),
    Message {
        path: Path,
        /// True if the message is large, or could contain the message that it is a member of.
        is_boxed: bool,
    },
}

/// The enum of a oneof in a struct.
#[derive(Debug)]
pub(crate) struct OwnedOneof {
    /// The oneof with its message, as the schema spells them.
    pub(crate) proto_name: String,
    /// The comment in the schema, as lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    pub(crate) cases: Vec<OwnedCase>,
}

#[derive(Debug, Clone)]
pub(crate) struct OwnedCase {
    pub(crate) field: Field,
    pub(crate) variant: String,
    pub(crate) value_type: OwnedType,
}

/// The default value that the schema declares for a field of proto2.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DefaultValue {
    Integer(i128),
    Float(f32),
    Double(f64),
    Bool(bool),
    String(String),
    Bytes(Vec<u8>),
    /// The number of the enum value.
    Enum(i32),
}
