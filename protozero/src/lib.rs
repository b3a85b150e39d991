//! Append-only protobuf writers that put bytes straight into memory somebody else provides, and a
//! zero-copy decoder.
//!
//! A generated writer (see `protozero-codegen`) is a borrow of a [`StreamWriter`]: a setter encodes
//! its field at the stream's cursor, a nested message borrows its parent until it ends, and lengths
//! are filled in when messages end. Nothing is collected first, so writing neither allocates nor
//! copies; a setter cannot fail. Memory comes in ranges from a [`RangeSource`]: a growing heap
//! ([`HeapBuffered`]), one fixed slice ([`StaticBuffered`]), or chunks of shared memory.
//!
//! ```
//! use protozero::{Decoder, HeapBuffered, types};
//!
//! let mut buffer = HeapBuffered::<protozero::Message>::new();
//! let mut message = buffer.message();
//! message.append_int32::<2>(42);
//! {
//!     let mut nested = message.begin_nested::<3>();
//!     nested.append_string::<1>("foo");
//! } // the nested message ends here, and its length is filled in
//! drop(message);
//!
//! let bytes = buffer.to_vec();
//! assert_eq!(bytes, b"\x10\x2a\x1a\x05\x0a\x03foo");
//! let decoder = Decoder::new(&bytes);
//! assert_eq!(decoder.last::<types::Int32>(2)?, Some(42));
//! # Ok::<(), protozero::DecodeError>(())
//! ```
//!
//! Misuse that other runtimes catch late, or never, does not compile:
//!
//! ```compile_fail
//! # let mut buffer = protozero::HeapBuffered::<protozero::Message>::new();
//! let mut message = buffer.message();
//! let mut nested = message.begin_nested::<3>();
//! message.append_int32::<2>(42); // the parent, while its child is open
//! nested.append_string::<1>("foo");
//! ```
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;

// In the order of a byte's journey: a setter, a message, the stream, a range of memory.
mod message; // typed appends and nesting
mod packed; // packed repeated fields
mod text; // strings that are formatted in place
mod stream; // the cursor, open length slots, and where ranges come from (all unsafe code)
mod wire; // tags and zigzag: pure functions
mod varint; // varints, both ways
// Ready-made buffers, and the way back.
mod buffered; // a root message with its memory
mod decoder; // messages as their fields
mod index; // where fields are, for generated decoders
mod field; // one field of encoded bytes
#[cfg(feature = "alloc")]
mod framing; // messages in a stream of bytes that arrive in pieces
#[cfg(feature = "alloc")]
pub mod owned; // messages as plain Rust values
mod error; // what the decoder objects to
pub mod types; // one marker per protobuf type, for typed decoding

#[cfg(feature = "alloc")]
pub use buffered::HeapBuffered;
pub use buffered::{NullBuffered, Overflow, StaticBuffered};
pub use decoder::{Decoder, Fields, Repeated};
pub use error::DecodeError;
pub use field::{Field, Value};
#[cfg(feature = "alloc")]
pub use framing::{Frame, FrameReader, Frames, FramingError, MAX_FRAME_BYTES};
pub use index::IndexedMessage;
pub use message::{Message, Writer};
#[cfg(feature = "alloc")]
pub use owned::OwnedMessage;
pub use packed::{PackedType, PackedWriter};
#[cfg(feature = "alloc")]
pub use stream::HeapSource;
pub use stream::{
    CompactValue, DELIMITED_ROOM_BYTES, FixedSource, MAX_DEPTH, MAX_MESSAGE_BYTES, MAX_RANGE_BYTES,
    MIN_RANGE_BYTES, NullSource, Outgoing, PatchId, Range, RangeSource, SlotTarget, StreamWriter,
};
pub use text::StringWriter;
#[cfg(feature = "alloc")]
pub use varint::append_varint;
pub use varint::{MAX_VARINT_BYTES, encode_varint, redundant_varint, split_varint};
pub use wire::{MAX_GROUP_DEPTH, WireType};

/// Includes what `protozero-codegen` generated for a package in `build.rs`.
///
/// The argument is the name of the package as the schema spells it (`"perfetto.protos"`), or
/// `"_"` for files without a package.
///
/// ```ignore
/// protozero::include_protos!("gpu");
/// ```
#[macro_export]
macro_rules! include_protos {
    ($package:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $package, ".rs"));
    };
}

/// The bytes of a package's schema, a serialized `FileDescriptorSet`, from the build script's output
/// folder: a `&'static [u8; N]`.
///
/// The build script asks for it by `protozero_codegen::Config::descriptor_sets`.
///
/// ```ignore
/// const SCHEMA: &[u8] = protozero::include_descriptor_set!("gpu");
/// ```
#[macro_export]
macro_rules! include_descriptor_set {
    ($package:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $package, ".binpb"))
    };
}

/// The examples of `README.md` run as tests.
#[cfg(all(doctest, feature = "alloc"))]
#[doc = include_str!("../README.md")]
struct Readme;
