//! Append-only protobuf writers that encode straight into memory of the caller's choice, and a
//! zero-copy decoder.
//!
//! The crate `protozero-codegen` generates a typed writer for each message of a schema. A writer
//! borrows a [`StreamWriter`], and each setter encodes its field at the stream's cursor. A nested
//! message borrows its parent until it ends; its length is filled in at its end. Fields are not
//! collected first, so a setter allocates nothing and copies each value only once. A setter cannot
//! fail. The stream gets its memory in ranges from a [`RangeSource`]: from the heap
//! ([`HeapBuffered`]), from one fixed slice ([`StaticBuffered`]), or from chunks of shared memory.
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
//! Some mistakes that other runtimes detect late, or never, do not compile with this crate:
//!
//! ```compile_fail
//! # let mut buffer = protozero::HeapBuffered::<protozero::Message>::new();
//! let mut message = buffer.message();
//! let mut nested = message.begin_nested::<3>();
//! message.append_int32::<2>(42); // error: the parent is borrowed while its child is open
//! nested.append_string::<1>("foo");
//! ```

// With this attribute, docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;

// Writing, in the order in which a field passes through: setter, message, stream, memory.
mod message; // typed appends and nesting
mod packed; // packed repeated fields
mod text; // strings that are formatted in place
mod stream; // the cursor, open length slots, and sources of memory (all unsafe code)
mod wire; // tags and zigzag: pure functions
mod varint; // varints, both ways
// Ready-made buffers, and decoding.
mod buffered; // a root message with its memory
mod decoder; // iterates over the fields of an encoded message
mod index; // positions of fields, for generated decoders
mod field; // one field of encoded bytes
#[cfg(feature = "alloc")]
mod framing; // messages in a stream of bytes that arrive in pieces
#[cfg(feature = "alloc")]
pub mod owned; // messages as plain Rust values
mod error; // errors of decoding
pub mod types; // one marker per protobuf type, for typed decoding

#[cfg(feature = "alloc")]
pub use buffered::HeapBuffered;
pub use buffered::{NullBuffered, OverflowError, StaticBuffered};
pub use decoder::{Decoder, Fields, Repeated};
pub use error::DecodeError;
pub use field::{Field, Value};
#[cfg(feature = "alloc")]
pub use framing::{FRAME_MAX_BYTES, Frame, FrameReader, Frames, FramingError};
pub use index::IndexedMessage;
pub use message::{Message, Writer};
#[cfg(feature = "alloc")]
pub use owned::OwnedMessage;
pub use packed::{PackedType, PackedWriter};
#[cfg(feature = "alloc")]
pub use stream::HeapSource;
pub use stream::{
    CompactValue, DELIMITED_ROOM_BYTES, FixedSource, MESSAGE_MAX_BYTES, MESSAGES_MAX_DEPTH,
    NullSource, Outgoing, PatchId, RANGE_MAX_BYTES, RANGE_MIN_BYTES, Range, RangeSource,
    SlotTarget, StreamWriter,
};
pub use text::StringWriter;
#[cfg(feature = "alloc")]
pub use varint::append_varint;
pub use varint::{VARINT_MAX_BYTES, encode_varint, redundant_varint, split_varint, spread_varint};
pub use wire::{GROUPS_MAX_DEPTH, WireType};

/// Includes the code that `protozero-codegen` generated for one protobuf package in `build.rs`.
///
/// The argument is the package name as the schema spells it (`"perfetto.protos"`), or `"_"` for
/// files without a package.
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

/// Embeds the schema of one protobuf package, a serialized `FileDescriptorSet`, as a
/// `&'static [u8; N]`.
///
/// The build script writes the schema into its output folder if it calls
/// `protozero_codegen::Config::descriptor_sets`.
///
/// ```ignore
/// const SCHEMA: &[u8] = protozero::include_descriptor_set!("gpu");
/// ```
#[macro_export]
macro_rules! include_descriptor_set {
    ($package:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $package, ".binpb.rs"))
    };
}

/// Runs the examples of `README.md` as tests.
#[cfg(all(doctest, feature = "alloc"))]
#[doc = include_str!("../README.md")]
struct Readme;
