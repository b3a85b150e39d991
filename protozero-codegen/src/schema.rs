//! The resolved model: what the emitter sees of a schema. Every name in it is a Rust name already,
//! every type is found, and nothing refers back to descriptors.

/// One output file: a package with everything it needs.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The package, as the schema spells it.
    pub(crate) package: String,
    pub(crate) root: Module,
}

/// A Rust module; the root of a unit is one, too.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// From the unit's root, which is empty itself.
    pub(crate) path: Vec<String>,
    /// What it holds, as a sentence.
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
    /// With the package, without a leading dot.
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) writer: String,
    pub(crate) decoder: String,
    pub(crate) fields: Vec<Field>,
    /// The getters of its oneofs.
    pub(crate) oneofs: Vec<OneofGetter>,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) number: u32,
    /// What the writer's methods are called after their verb; a part of an identifier.
    pub(crate) base: String,
    /// The decoder's method.
    pub(crate) getter: String,
    pub(crate) shape: Shape,
    /// The schema's name of the oneof it belongs to.
    pub(crate) oneof: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Singular(Type),
    Repeated(Type),
    /// Repeated, and written in one go by default.
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
    /// As a `.proto` file names it.
    pub(crate) fn proto_name(&self) -> &str {
        match self {
            Type::Scalar(scalar) => scalar.proto_name(),
            Type::Enum { proto_name, .. } | Type::Message { proto_name, .. } => proto_name,
        }
    }

    /// Whether its decoded form refers to the message's bytes.
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
    /// As a `.proto` file names it, and as the runtime's `append_*` methods end.
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

    /// The runtime's marker type for decoding.
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

/// Where a Rust item is.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// In the same unit.
    Local { module: Vec<String>, ident: String },
    /// In another crate or module, by a path that starts with `::` or `crate::`.
    Extern(String),
}

#[derive(Debug)]
pub(crate) struct OneofGetter {
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
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
    /// What the schema says of it, in lines of plain text.
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
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) number: u32,
    pub(crate) variant: String,
    pub(crate) value_type: Type,
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    /// In the order of declaration; several may have the same number.
    pub(crate) values: Vec<EnumValue>,
}

#[derive(Debug)]
pub(crate) struct EnumValue {
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) constant: String,
    pub(crate) number: i32,
}

/// The fields that one scope adds to one message.
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

/// A struct that owns what a message holds.
#[derive(Debug)]
pub(crate) struct OwnedMessage {
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
    pub(crate) comment: String,
    pub(crate) ident: String,
    pub(crate) writer: Path,
    /// In the order of declaration; a oneof stands where its first member does.
    pub(crate) members: Vec<OwnedMember>,
    /// The member for what the schema does not know.
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
    /// Its getter is the member's name, too.
    pub(crate) field: Field,
    pub(crate) shape: OwnedShape,
    pub(crate) default: Option<DefaultValue>,
}

#[derive(Debug)]
pub(crate) enum OwnedShape {
    /// Set if it is not zero or empty.
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
        /// Because it is large, or could contain the message that it is a member of.
        is_boxed: bool,
    },
}

/// The enum that a oneof is in a struct.
#[derive(Debug)]
pub(crate) struct OwnedOneof {
    /// The oneof with its message, as the schema spells them.
    pub(crate) proto_name: String,
    /// What the schema says of it, in lines of plain text.
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

/// What a field of proto2 has when it is not set, where the schema says so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DefaultValue {
    Integer(i128),
    Float(f32),
    Double(f64),
    Bool(bool),
    String(String),
    Bytes(Vec<u8>),
    /// The number of the value.
    Enum(i32),
}
