//! Values of arguments: debug annotations.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::arg_limit::{CutMark, ELEMENT_BYTES, TextLimit, take, take_text, with_budget};
use crate::scalar::Scalar;

use tracezero_core::protos::{DebugAnnotation, TrackEvent};

const STRING_VALUE: u32 = DebugAnnotation::STRING_VALUE_FIELD_NUMBER;

/// A value that an argument of an event can have.
///
/// The trait is implemented for numbers, booleans, characters, strings, paths, raw pointers,
/// durations (as nanoseconds), options, and for slices and maps of all these. A type that
/// implements only [`fmt::Display`] or [`fmt::Debug`] can be written as text, with [`display`] and
/// [`debug`]; in the macros, with `%` and `?` before the value.
///
/// Values longer than [`ARG_MAX_BYTES`](crate::ARG_MAX_BYTES) are cut.
///
/// Derive the trait for your own type, or implement it by calling the implementation of another
/// type or of [`dict`]:
///
/// ```
/// use tracezero::protos::DebugAnnotation;
/// use tracezero::{ArgValue, instant};
///
/// #[derive(ArgValue)]
/// struct Size {
///     width: u32,
///     height: u32,
/// }
///
/// struct Celsius(f32);
///
/// impl ArgValue for Celsius {
///     fn write(&self, annotation: &mut DebugAnnotation<'_>) {
///         (self.0 + 273.15).write(annotation);
///     }
/// }
///
/// let size = Size { width: 640, height: 480 };
/// instant!("ui", "resized", to = size, screen_kelvin = Celsius(31.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of an argument",
    label = "an argument here has the type `{Self}`",
    note = "write `name = ?value` for its `Debug` text, or `name = %value` for its `Display` text",
    note = "or write `#[derive(tracezero::ArgValue)]` on the type; a field of such a type may have `#[arg_value(debug)]`"
)]
pub trait ArgValue {
    /// Sets the value of the annotation.
    fn write(&self, annotation: &mut DebugAnnotation<'_>);

    /// Returns the value if it fits into one scalar field of the annotation. Events that have only
    /// such arguments are encoded without a nested message writer.
    #[doc(hidden)]
    #[inline(always)]
    fn scalar(&self) -> Option<Scalar<'_>> {
        None
    }
}

/// Adds an annotation to an event, under an interned name.
#[inline]
pub(super) fn write_arg(
    value: &(impl ArgValue + ?Sized),
    name_iid: u32,
    event: &mut TrackEvent<'_>,
) {
    match value.scalar() {
        Some(scalar) => match scalar.short(name_iid) {
            Some(short) => short.append_to(event),
            None => write_long_scalar(value, name_iid, event),
        },
        None => write_annotation(value, name_iid, event),
    }
}

/// Not inlined: most scalars are short, and this code would be repeated at every call site with a
/// scalar argument.
#[cold]
#[inline(never)]
fn write_long_scalar(value: &(impl ArgValue + ?Sized), name_iid: u32, event: &mut TrackEvent<'_>) {
    write_annotation(value, name_iid, event);
}

#[inline]
fn write_annotation(value: &(impl ArgValue + ?Sized), name_iid: u32, event: &mut TrackEvent<'_>) {
    event.add_debug_annotations(|annotation| {
        annotation.set_name_iid(u64::from(name_iid));
        with_budget(|| value.write(annotation));
    });
}

macro_rules! scalar_arg {
    ($($type:ty)+ => |$value:ident| $scalar:expr) => {
        $(impl ArgValue for $type {
            #[inline]
            fn write(&self, annotation: &mut DebugAnnotation<'_>) {
                let $value = self;
                write_scalar($scalar, annotation);
            }

            #[inline(always)]
            fn scalar(&self) -> Option<Scalar<'_>> {
                let $value = self;
                Some($scalar)
            }
        })+
    };
}

/// Written as nanoseconds, up to 584 years. Put the unit into the argument's name: `wait_ns =
/// duration`.
impl ArgValue for Duration {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        nanoseconds(*self).write(annotation);
    }

    #[inline(always)]
    fn scalar(&self) -> Option<Scalar<'_>> {
        Some(Scalar::Uint(nanoseconds(*self)))
    }
}

#[inline]
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

macro_rules! number_arg {
    ($($type:ty)+ => $Scalar:ident as $Wide:ty) => {
        scalar_arg!($($type)+ => |value| Scalar::$Scalar(*value as $Wide));
    };
}

macro_rules! non_zero_arg {
    ($($type:ty)+ => $Scalar:ident as $Wide:ty) => {
        scalar_arg!($(NonZero<$type>)+ => |value| Scalar::$Scalar(value.get() as $Wide));
    };
}

number_arg!(i8 i16 i32 i64 isize => Int as i64);
number_arg!(u8 u16 u32 u64 usize => Uint as u64);
number_arg!(f32 f64 => Double as f64);
non_zero_arg!(i8 i16 i32 i64 isize => Int as i64);
non_zero_arg!(u8 u16 u32 u64 usize => Uint as u64);
scalar_arg!(bool => |value| Scalar::Bool(*value));
scalar_arg!(str String Cow<'_, str> => |value| Scalar::Text(value));

#[inline]
pub(super) fn write_scalar(value: Scalar<'_>, annotation: &mut DebugAnnotation<'_>) {
    match value {
        Scalar::Bool(value) => _ = annotation.set_bool_value(value),
        Scalar::Int(value) => _ = annotation.set_int_value(value),
        Scalar::Uint(value) => _ = annotation.set_uint_value(value),
        Scalar::Double(value) => _ = annotation.set_double_value(value),
        Scalar::Text(text) => write_str(annotation, text),
    }
}

impl ArgValue for char {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        annotation.set_string_value(self.encode_utf8(&mut [0; 4]));
    }
}

macro_rules! arg_by_display {
    ($($type:ty)+ => |$value:ident| $display:expr) => {
        $(impl ArgValue for $type {
            fn write(&self, annotation: &mut DebugAnnotation<'_>) {
                let $value = self;
                display($display).write(annotation);
            }
        })+
    };
}

// Written as text: no integer field is wide enough.
arg_by_display!(i128 u128 => |value| value);
arg_by_display!(fmt::Arguments<'_> => |value| value);
// Bytes that are not Unicode are replaced.
arg_by_display!(Path PathBuf => |value| &value.display());
arg_by_display!(OsStr OsString => |value| &value.display());

/// Written as an address.
impl<T> ArgValue for *const T {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        annotation.set_pointer_value(self.addr() as u64);
    }
}

/// Written as an address.
impl<T> ArgValue for *mut T {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        self.cast_const().write(annotation);
    }
}

macro_rules! arg_by_reference {
    ($($type:ty)+) => {
        $(impl<T: ArgValue + ?Sized> ArgValue for $type {
            #[inline]
            fn write(&self, annotation: &mut DebugAnnotation<'_>) {
                (**self).write(annotation);
            }

            #[inline(always)]
            fn scalar(&self) -> Option<Scalar<'_>> {
                (**self).scalar()
            }
        })+
    };
}

arg_by_reference!(&T &mut T Box<T> Rc<T> Arc<T>);

/// Writes the value, or an argument without a value for `None`.
impl<T: ArgValue> ArgValue for Option<T> {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        if let Some(value) = self {
            value.write(annotation);
        }
    }
}

/// Written as an array.
impl<T: ArgValue> ArgValue for [T] {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        let mut elements = ArrayWriter::new(annotation);
        if !self.iter().all(|value| elements.add(value)) {
            elements.count = self.len();
        }
    }
}

/// Writes the elements of an array.
pub(super) struct ArrayWriter<'a, 'w> {
    annotation: &'a mut DebugAnnotation<'w>,
    /// The number of elements so far, including those that were cut off.
    count: usize,
    is_cut: bool,
}

impl<'a, 'w> ArrayWriter<'a, 'w> {
    pub(super) const fn new(annotation: &'a mut DebugAnnotation<'w>) -> Self {
        Self {
            annotation,
            count: 0,
            is_cut: false,
        }
    }

    /// Adds an element. Returns false if there is no room left.
    #[inline]
    pub(super) fn add(&mut self, value: &(impl ArgValue + ?Sized)) -> bool {
        self.count += 1;
        self.is_cut |= !take(ELEMENT_BYTES);
        if !self.is_cut {
            self.annotation
                .add_array_values(|element| value.write(element));
        }
        !self.is_cut
    }
}

impl Drop for ArrayWriter<'_, '_> {
    fn drop(&mut self) {
        if self.is_cut {
            let mark = CutMark {
                count: self.count,
                of: "elements",
            };
            self.annotation
                .add_array_values(|element| write_mark(element, mark));
        }
    }
}

impl<T: ArgValue, const N: usize> ArgValue for [T; N] {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        self.as_slice().write(annotation);
    }
}

impl<T: ArgValue> ArgValue for Vec<T> {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        self.as_slice().write(annotation);
    }
}

/// Written as a dictionary.
impl<K: AsRef<str>, V: ArgValue, S> ArgValue for HashMap<K, V, S> {
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        let mut entries = DictWriter::new(annotation);
        for (name, value) in self {
            entries.add(name.as_ref(), value);
        }
    }
}

/// Written as a dictionary.
impl<K: AsRef<str>, V: ArgValue> ArgValue for BTreeMap<K, V> {
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        let mut entries = DictWriter::new(annotation);
        for (name, value) in self {
            entries.add(name.as_ref(), value);
        }
    }
}

/// Creates a dictionary as an argument's value; `write` adds its entries.
///
/// ```
/// use tracezero::{dict, instant};
///
/// let (width, height) = (640, 480);
/// instant!("ui", "resized", to = dict(|size| {
///     size.add("width", &width).add("height", &height);
///     size.add("corner", &dict(|at| {
///         at.add("x", &0).add("y", &0);
///     }));
/// }));
/// ```
pub const fn dict<F: Fn(&mut DictWriter<'_, '_>)>(write: F) -> Dict<F> {
    Dict(write)
}

/// A dictionary as an argument's value, created by [`dict`].
#[derive(Clone, Copy)]
pub struct Dict<F>(F);

impl<F: Fn(&mut DictWriter<'_, '_>)> ArgValue for Dict<F> {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        self.0(&mut DictWriter::new(annotation));
    }
}

impl<F> fmt::Debug for Dict<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dict").finish_non_exhaustive()
    }
}

/// Writes the entries of a dictionary.
#[derive(Debug)]
pub struct DictWriter<'a, 'w> {
    annotation: &'a mut DebugAnnotation<'w>,
    /// The number of entries so far, including those that were cut off.
    count: usize,
    is_cut: bool,
}

impl<'a, 'w> DictWriter<'a, 'w> {
    pub(super) const fn new(annotation: &'a mut DebugAnnotation<'w>) -> Self {
        Self {
            annotation,
            count: 0,
            is_cut: false,
        }
    }

    /// Adds an entry.
    #[inline]
    pub fn add(&mut self, name: &str, value: &(impl ArgValue + ?Sized)) -> &mut Self {
        self.count += 1;
        if self.is_cut || !take(ELEMENT_BYTES + name.len()) {
            self.is_cut = true;
            return self;
        }
        self.annotation.add_dict_entries(|entry| {
            entry.set_name(name);
            value.write(entry);
        });
        self
    }
}

impl Drop for DictWriter<'_, '_> {
    fn drop(&mut self) {
        if self.is_cut {
            let mark = CutMark {
                count: self.count,
                of: "entries",
            };
            self.annotation.add_dict_entries(|entry| {
                entry.set_name("…");
                write_mark(entry, mark);
            });
        }
    }
}

/// Wraps a value to be written as its [`fmt::Display`] text. The text is written straight into the
/// trace, without a buffer in between.
///
/// If the formatting code contains a trace point, its event is dropped and counted, because trace
/// points do not nest.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use tracezero::{display, instant};
///
/// let address = Ipv4Addr::LOCALHOST;
/// # let session = tracezero::InMemorySession::start()?;
/// instant!("net", "connected", address = display(&address));
/// instant!("net", "connected", %address); // the same
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub const fn display<T: fmt::Display + ?Sized>(value: &T) -> AsDisplay<'_, T> {
    AsDisplay(value)
}

/// Wraps a value to be written as its [`fmt::Debug`] text. The text is written straight into the
/// trace, without a buffer in between.
///
/// If the formatting code contains a trace point, its event is dropped and counted, because trace
/// points do not nest.
///
/// ```
/// use tracezero::{debug, instant};
///
/// let range = 3..7;
/// # let session = tracezero::InMemorySession::start()?;
/// instant!("io", "read", range = debug(&range));
/// instant!("io", "read", ?range); // the same
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub const fn debug<T: fmt::Debug + ?Sized>(value: &T) -> AsDebug<'_, T> {
    AsDebug(value)
}

/// A value that is written as text, created by [`display`].
#[derive(Clone, Copy, Debug)]
pub struct AsDisplay<'a, T: ?Sized>(&'a T);

/// A value that is written as text, created by [`debug`].
#[derive(Clone, Copy, Debug)]
pub struct AsDebug<'a, T: ?Sized>(&'a T);

impl<T: fmt::Display + ?Sized> ArgValue for AsDisplay<'_, T> {
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        write_text(annotation, format_args!("{}", self.0));
    }
}

impl<T: fmt::Debug + ?Sized> ArgValue for AsDebug<'_, T> {
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        write_text(annotation, format_args!("{:?}", self.0));
    }
}

#[inline]
fn write_str(annotation: &mut DebugAnnotation<'_>, text: &str) {
    if take_text(text) {
        annotation.set_string_value(text);
    } else {
        write_text(annotation, format_args!("{text}"));
    }
}

fn write_text(annotation: &mut DebugAnnotation<'_>, text: fmt::Arguments<'_>) {
    let mut pieces = CutString {
        value: annotation.as_message_mut().begin_nested::<STRING_VALUE>(),
        limit: TextLimit::new(),
    };
    // If formatting fails, the argument keeps the text that was written before.
    let _ = fmt::write(&mut pieces, text);
    let CutString { mut value, limit } = pieces;
    if let Some(mark) = limit.end() {
        // Writing the mark cannot fail: it goes straight into the message.
        let _ = fmt::write(&mut OpenString(&mut value), format_args!("{mark}"));
    }
}

fn write_mark(annotation: &mut DebugAnnotation<'_>, mark: CutMark) {
    let mut value = annotation.as_message_mut().begin_nested::<STRING_VALUE>();
    // Cannot fail, as in `write_text`.
    let _ = fmt::write(&mut OpenString(&mut value), format_args!("{mark}"));
}

/// An open string field, written as the raw bytes of a nested message.
struct OpenString<'a, 'w>(&'a mut protozero::Message<'w>);

impl fmt::Write for OpenString<'_, '_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0.append_raw(piece.as_bytes());
        Ok(())
    }
}

/// An open string field that cuts the text where the argument's budget ends.
struct CutString<'w> {
    value: protozero::Message<'w>,
    limit: TextLimit,
}

impl fmt::Write for CutString<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.value.append_raw(self.limit.admit(piece).as_bytes());
        Ok(())
    }
}
