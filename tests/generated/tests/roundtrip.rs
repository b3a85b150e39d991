//! Generated code, compiled: what its writers write, its decoders and prost read.

use std::collections::HashMap;

use prost::Message as _;
use protozero::{DecodeError, HeapBuffered, Writer};

// Included as a user's crate would include it.
mod basic {
    include!(concat!(env!("OUT_DIR"), "/basic.rs"));
}
mod comments {
    include!(concat!(env!("OUT_DIR"), "/comments.rs"));
}
mod extensions {
    include!(concat!(env!("OUT_DIR"), "/extensions.rs"));
}
mod names {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}
mod packages {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}
// Those of the golden files: they are compiled, and nothing calls them.
mod fields {
    include!(concat!(env!("OUT_DIR"), "/fields.rs"));
}
mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}
mod renamed {
    include!(concat!(env!("OUT_DIR"), "/renamed.rs"));
}
mod structs {
    include!(concat!(env!("OUT_DIR"), "/structs.rs"));
}
mod vm_programs {
    include!(concat!(env!("OUT_DIR"), "/vm_programs.rs"));
}

use basic::{Color, Lists, ListsDecoder, Scalars, ScalarsDecoder, Tree, TreeDecoder, tree};

/// Prost's view of the same schema, written by hand.
mod rival {
    use std::collections::HashMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Scalars {
        #[prost(int32, tag = "1")]
        pub int32_value: i32,
        #[prost(int64, tag = "2")]
        pub int64_value: i64,
        #[prost(uint32, tag = "3")]
        pub uint32_value: u32,
        #[prost(uint64, tag = "4")]
        pub uint64_value: u64,
        #[prost(sint32, tag = "5")]
        pub sint32_value: i32,
        #[prost(sint64, tag = "6")]
        pub sint64_value: i64,
        #[prost(bool, tag = "7")]
        pub bool_value: bool,
        #[prost(fixed32, tag = "8")]
        pub fixed32_value: u32,
        #[prost(fixed64, tag = "9")]
        pub fixed64_value: u64,
        #[prost(sfixed32, tag = "10")]
        pub sfixed32_value: i32,
        #[prost(sfixed64, tag = "11")]
        pub sfixed64_value: i64,
        #[prost(float, tag = "12")]
        pub float_value: f32,
        #[prost(double, tag = "13")]
        pub double_value: f64,
        #[prost(string, tag = "14")]
        pub string_value: String,
        #[prost(bytes = "vec", tag = "15")]
        pub bytes_value: Vec<u8>,
        #[prost(enumeration = "Color", tag = "16")]
        pub color: i32,
        #[prost(int32, optional, tag = "2047")]
        pub maybe: Option<i32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Lists {
        #[prost(int32, repeated, tag = "1")]
        pub int32_values: Vec<i32>,
        #[prost(int64, repeated, tag = "2")]
        pub int64_values: Vec<i64>,
        #[prost(uint32, repeated, tag = "3")]
        pub uint32_values: Vec<u32>,
        #[prost(uint64, repeated, tag = "4")]
        pub uint64_values: Vec<u64>,
        #[prost(sint32, repeated, tag = "5")]
        pub sint32_values: Vec<i32>,
        #[prost(sint64, repeated, tag = "6")]
        pub sint64_values: Vec<i64>,
        #[prost(bool, repeated, tag = "7")]
        pub bool_values: Vec<bool>,
        #[prost(fixed32, repeated, tag = "8")]
        pub fixed32_values: Vec<u32>,
        #[prost(fixed64, repeated, tag = "9")]
        pub fixed64_values: Vec<u64>,
        #[prost(sfixed32, repeated, tag = "10")]
        pub sfixed32_values: Vec<i32>,
        #[prost(sfixed64, repeated, tag = "11")]
        pub sfixed64_values: Vec<i64>,
        #[prost(float, repeated, tag = "12")]
        pub float_values: Vec<f32>,
        #[prost(double, repeated, tag = "13")]
        pub double_values: Vec<f64>,
        #[prost(string, repeated, tag = "14")]
        pub string_values: Vec<String>,
        #[prost(bytes = "vec", repeated, tag = "15")]
        pub bytes_values: Vec<Vec<u8>>,
        #[prost(enumeration = "Color", repeated, tag = "16")]
        pub colors: Vec<i32>,
        #[prost(int32, repeated, packed = "false", tag = "17")]
        pub unpacked: Vec<i32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Tree {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, boxed, tag = "2")]
        pub left: Option<Box<Tree>>,
        #[prost(message, repeated, tag = "3")]
        pub children: Vec<Tree>,
        #[prost(map = "string, int32", tag = "4")]
        pub counts: HashMap<String, i32>,
        #[prost(map = "int64, message", tag = "5")]
        pub by_id: HashMap<i64, Tree>,
        #[prost(map = "string, enumeration(Color)", tag = "6")]
        pub colors: HashMap<String, i32>,
        #[prost(oneof = "Value", tags = "7, 8, 9, 10")]
        pub value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        #[prost(int64, tag = "7")]
        Number(i64),
        #[prost(string, tag = "8")]
        Text(String),
        #[prost(message, tag = "9")]
        Leaf(Leaf),
        #[prost(enumeration = "Kind", tag = "10")]
        Kind(i32),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Leaf {
        #[prost(enumeration = "Kind", tag = "1")]
        pub kind: i32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Color {
        Unspecified = 0,
        Red = 1,
        Green = 2,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Kind {
        None = 0,
        Green = 5,
    }
}

/// The bytes of one message.
fn encode<M: Writer>(write: impl FnOnce(&mut M::At<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<M>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

fn all<T>(values: impl Iterator<Item = Result<T, DecodeError>>) -> Vec<T> {
    values.collect::<Result<_, _>>().expect("well-formed bytes")
}

/// Writes the extremes of each type (the smallest values if `low`) and reads them back.
#[track_caller]
fn assert_scalars(low: bool) {
    let pick = |smallest: i64, largest: i64| if low { smallest } else { largest };
    let signed32 =
        i32::try_from(pick(i32::MIN.into(), i32::MAX.into())).expect("well-formed bytes");
    let signed64 = pick(i64::MIN, i64::MAX);
    let unsigned32 = if low { 0 } else { u32::MAX };
    let unsigned64 = if low { 0 } else { u64::MAX };
    let text = if low { "" } else { "naïve \0 text" };
    let color = if low { Color(-7) } else { Color::GREEN };
    let bytes = encode::<Scalars>(|message| {
        message
            .set_int32_value(signed32)
            .set_int64_value(signed64)
            .set_uint32_value(unsigned32)
            .set_uint64_value(unsigned64)
            .set_sint32_value(signed32)
            .set_sint64_value(signed64)
            .set_bool_value(!low)
            .set_fixed32_value(unsigned32)
            .set_fixed64_value(unsigned64)
            .set_sfixed32_value(signed32)
            .set_sfixed64_value(signed64)
            .set_float_value(if low { f32::MIN } else { f32::MAX })
            .set_double_value(if low { f64::MIN } else { f64::MAX })
            .set_string_value(text)
            .set_bytes_value(text.as_bytes())
            .set_color(color)
            .set_maybe(0);
    });

    let expected = rival::Scalars {
        int32_value: signed32,
        int64_value: signed64,
        uint32_value: unsigned32,
        uint64_value: unsigned64,
        sint32_value: signed32,
        sint64_value: signed64,
        bool_value: !low,
        fixed32_value: unsigned32,
        fixed64_value: unsigned64,
        sfixed32_value: signed32,
        sfixed64_value: signed64,
        float_value: if low { f32::MIN } else { f32::MAX },
        double_value: if low { f64::MIN } else { f64::MAX },
        string_value: text.to_owned(),
        bytes_value: text.as_bytes().to_vec(),
        color: color.0,
        maybe: Some(0),
    };
    assert_eq!(
        rival::Scalars::decode(bytes.as_slice()).expect("well-formed bytes"),
        expected
    );

    let decoder = ScalarsDecoder::new(&bytes);
    assert_eq!(decoder.int32_value(), Ok(Some(expected.int32_value)));
    assert_eq!(decoder.int64_value(), Ok(Some(expected.int64_value)));
    assert_eq!(decoder.uint32_value(), Ok(Some(expected.uint32_value)));
    assert_eq!(decoder.uint64_value(), Ok(Some(expected.uint64_value)));
    assert_eq!(decoder.sint32_value(), Ok(Some(expected.sint32_value)));
    assert_eq!(decoder.sint64_value(), Ok(Some(expected.sint64_value)));
    assert_eq!(decoder.bool_value(), Ok(Some(expected.bool_value)));
    assert_eq!(decoder.fixed32_value(), Ok(Some(expected.fixed32_value)));
    assert_eq!(decoder.fixed64_value(), Ok(Some(expected.fixed64_value)));
    assert_eq!(decoder.sfixed32_value(), Ok(Some(expected.sfixed32_value)));
    assert_eq!(decoder.sfixed64_value(), Ok(Some(expected.sfixed64_value)));
    assert_eq!(decoder.float_value(), Ok(Some(expected.float_value)));
    assert_eq!(decoder.double_value(), Ok(Some(expected.double_value)));
    assert_eq!(decoder.string_value(), Ok(Some(text)));
    assert_eq!(decoder.bytes_value(), Ok(Some(text.as_bytes())));
    assert_eq!(decoder.color(), Ok(Some(color)));
    assert_eq!(decoder.maybe(), Ok(Some(0)));
    assert_eq!(decoder.fields().count(), 17);
}

#[test]
fn smallest_value_of_every_scalar_type() {
    assert_scalars(true);
}

#[test]
fn largest_value_of_every_scalar_type() {
    assert_scalars(false);
}

#[test]
fn field_that_was_not_written_is_none() {
    let decoder = ScalarsDecoder::new(b"");
    assert_eq!(decoder.int32_value(), Ok(None));
    assert_eq!(decoder.string_value(), Ok(None));
    assert_eq!(decoder.color(), Ok(None));
    assert!(TreeDecoder::new(b"").left().unwrap().is_none());
}

#[test]
fn every_field_number_is_the_one_in_the_schema() {
    let bytes = encode::<Scalars>(|message| {
        message.set_int32_value(1).set_maybe(1);
    });
    let decoder = ScalarsDecoder::new(&bytes);
    let numbers: Vec<u32> = decoder
        .fields()
        .map(|field| field.unwrap().number)
        .collect();
    assert_eq!(
        numbers,
        [
            Scalars::INT32_VALUE_FIELD_NUMBER,
            Scalars::MAYBE_FIELD_NUMBER
        ]
    );
    assert_eq!(numbers, [1, 2047]);
    assert_eq!(<Scalars<'_> as Writer>::NAME, "basic.Scalars");
}

/// The same lists, packed or element by element.
#[track_caller]
fn assert_lists(packed: bool) {
    /// Calls the setter for all values, or the one for each.
    macro_rules! write_all {
        ($message:ident, $set:ident, $add:ident, $values:expr) => {
            if packed {
                $message.$set($values);
            } else {
                for value in $values {
                    $message.$add(value);
                }
            }
        };
    }
    let bytes = encode::<Lists>(|message| {
        write_all!(
            message,
            set_int32_values,
            add_int32_values,
            [i32::MIN, -1, 0, i32::MAX]
        );
        write_all!(
            message,
            set_int64_values,
            add_int64_values,
            [i64::MIN, -1, 0, i64::MAX]
        );
        write_all!(
            message,
            set_uint32_values,
            add_uint32_values,
            [0, 300, u32::MAX]
        );
        write_all!(
            message,
            set_uint64_values,
            add_uint64_values,
            [0, 300, u64::MAX]
        );
        write_all!(
            message,
            set_sint32_values,
            add_sint32_values,
            [i32::MIN, -1, i32::MAX]
        );
        write_all!(
            message,
            set_sint64_values,
            add_sint64_values,
            [i64::MIN, -1, i64::MAX]
        );
        write_all!(message, set_bool_values, add_bool_values, [true, false]);
        write_all!(
            message,
            set_fixed32_values,
            add_fixed32_values,
            [0, u32::MAX]
        );
        write_all!(
            message,
            set_fixed64_values,
            add_fixed64_values,
            [0, u64::MAX]
        );
        write_all!(
            message,
            set_sfixed32_values,
            add_sfixed32_values,
            [i32::MIN, i32::MAX]
        );
        write_all!(
            message,
            set_sfixed64_values,
            add_sfixed64_values,
            [i64::MIN, i64::MAX]
        );
        write_all!(
            message,
            set_float_values,
            add_float_values,
            [0.0, -1.5, f32::INFINITY]
        );
        write_all!(
            message,
            set_double_values,
            add_double_values,
            [0.0, -1.5, f64::INFINITY]
        );
        write_all!(
            message,
            set_colors,
            add_colors,
            [Color::GREEN, Color(-1), Color::RED]
        );
        message.add_string_values("").add_string_values("two");
        message.add_bytes_values(b"\xff").add_bytes_values(b"");
        message.add_unpacked(-1).add_unpacked(2);
    });

    let expected = rival::Lists {
        int32_values: vec![i32::MIN, -1, 0, i32::MAX],
        int64_values: vec![i64::MIN, -1, 0, i64::MAX],
        uint32_values: vec![0, 300, u32::MAX],
        uint64_values: vec![0, 300, u64::MAX],
        sint32_values: vec![i32::MIN, -1, i32::MAX],
        sint64_values: vec![i64::MIN, -1, i64::MAX],
        bool_values: vec![true, false],
        fixed32_values: vec![0, u32::MAX],
        fixed64_values: vec![0, u64::MAX],
        sfixed32_values: vec![i32::MIN, i32::MAX],
        sfixed64_values: vec![i64::MIN, i64::MAX],
        float_values: vec![0.0, -1.5, f32::INFINITY],
        double_values: vec![0.0, -1.5, f64::INFINITY],
        string_values: vec![String::new(), "two".to_owned()],
        bytes_values: vec![vec![0xff], vec![]],
        colors: vec![2, -1, 1],
        unpacked: vec![-1, 2],
    };
    assert_eq!(
        rival::Lists::decode(bytes.as_slice()).expect("well-formed bytes"),
        expected
    );

    let decoder = ListsDecoder::new(&bytes);
    assert_eq!(all(decoder.int32_values()), expected.int32_values);
    assert_eq!(all(decoder.int64_values()), expected.int64_values);
    assert_eq!(all(decoder.uint32_values()), expected.uint32_values);
    assert_eq!(all(decoder.uint64_values()), expected.uint64_values);
    assert_eq!(all(decoder.sint32_values()), expected.sint32_values);
    assert_eq!(all(decoder.sint64_values()), expected.sint64_values);
    assert_eq!(all(decoder.bool_values()), expected.bool_values);
    assert_eq!(all(decoder.fixed32_values()), expected.fixed32_values);
    assert_eq!(all(decoder.fixed64_values()), expected.fixed64_values);
    assert_eq!(all(decoder.sfixed32_values()), expected.sfixed32_values);
    assert_eq!(all(decoder.sfixed64_values()), expected.sfixed64_values);
    assert_eq!(all(decoder.float_values()), expected.float_values);
    assert_eq!(all(decoder.double_values()), expected.double_values);
    assert_eq!(all(decoder.string_values()), ["", "two"]);
    assert_eq!(all(decoder.bytes_values()), [b"\xff".as_slice(), b""]);
    assert_eq!(all(decoder.colors()), [Color::GREEN, Color(-1), Color::RED]);
    assert_eq!(all(decoder.unpacked()), expected.unpacked);
}

#[test]
fn packed_lists() {
    assert_lists(true);
}

#[test]
fn lists_written_element_by_element() {
    assert_lists(false);
}

#[test]
fn packed_list_is_one_field() {
    let bytes = encode::<Lists>(|message| {
        message.set_int32_values([1, 2, 3]);
    });
    assert_eq!(ListsDecoder::new(&bytes).fields().count(), 1);
}

#[test]
fn nested_messages_by_closure_and_by_guard() {
    let bytes = encode::<Tree>(|tree| {
        tree.set_name("root");
        let returned = tree.left(|left| {
            left.set_name("left");
            left.left(|deeper| {
                deeper.set_name("deeper").set_number(9);
            });
            "what the closure returns"
        });
        assert_eq!(returned, "what the closure returns");
        tree.add_children(|child| {
            child.set_name("one");
        });
        tree.begin_children().set_name("two");
        let mut third = tree.begin_children();
        third.begin_left().set_name("third's");
    });

    let tree = rival::Tree::decode(bytes.as_slice()).unwrap();
    let named = |name: &str| rival::Tree {
        name: name.to_owned(),
        ..Default::default()
    };
    let deeper = rival::Tree {
        value: Some(rival::Value::Number(9)),
        ..named("deeper")
    };
    let left = rival::Tree {
        left: Some(Box::new(deeper)),
        ..named("left")
    };
    let third = rival::Tree {
        left: Some(Box::new(named("third's"))),
        ..named("")
    };
    let expected = rival::Tree {
        left: Some(Box::new(left)),
        children: vec![named("one"), named("two"), third],
        ..named("root")
    };
    assert_eq!(tree, expected);

    let tree = TreeDecoder::new(&bytes);
    let left = tree.left().unwrap().unwrap();
    assert_eq!(left.name(), Ok(Some("left")));
    assert_eq!(left.left().unwrap().unwrap().number(), Ok(Some(9)));
    let names: Vec<_> = all(tree.children()).iter().map(TreeDecoder::name).collect();
    assert_eq!(names, [Ok(Some("one")), Ok(Some("two")), Ok(None)]);
}

#[test]
fn maps_of_scalars_messages_and_enums() {
    let bytes = encode::<Tree>(|tree| {
        tree.add_counts("one", 1).add_counts("", -2);
        let returned = tree.add_by_id(i64::MIN, |value| {
            value.set_name("min");
            7
        });
        assert_eq!(returned, 7);
        tree.add_by_id(2, |_| ());
        tree.add_colors("grass", Color::GREEN);
    });

    let named = |name: &str| rival::Tree {
        name: name.to_owned(),
        ..Default::default()
    };
    let expected = rival::Tree {
        counts: HashMap::from([("one".to_owned(), 1), (String::new(), -2)]),
        by_id: HashMap::from([(i64::MIN, named("min")), (2, named(""))]),
        colors: HashMap::from([("grass".to_owned(), 2)]),
        ..named("")
    };
    assert_eq!(rival::Tree::decode(bytes.as_slice()).unwrap(), expected);

    let tree = TreeDecoder::new(&bytes);
    assert_eq!(all(tree.counts()), [("one", 1), ("", -2)]);
    assert_eq!(all(tree.colors()), [("grass", Color::GREEN)]);
    let by_id = all(tree.by_id());
    assert_eq!(by_id[0].0, i64::MIN);
    assert_eq!(by_id[0].1.name(), Ok(Some("min")));
    assert_eq!(by_id[1].1.name(), Ok(None));
}

#[test]
fn map_entry_without_key_or_value_has_the_defaults() {
    // Field 4, an entry of no bytes.
    let tree = TreeDecoder::new(b"\x22\x00");
    assert_eq!(all(tree.counts()), [("", 0)]);
}

#[test]
fn last_member_of_a_oneof_wins() {
    let bytes = encode::<Tree>(|tree| {
        tree.set_number(1).set_text("two");
    });
    let tree = TreeDecoder::new(&bytes);
    assert!(matches!(tree.value(), Ok(Some(tree::Value::Text("two")))));

    let bytes = encode::<Tree>(|tree| {
        tree.set_text("one");
        tree.leaf(|leaf| {
            leaf.set_kind(tree::leaf::Kind::GREEN);
        });
    });
    let tree = TreeDecoder::new(&bytes);
    let Ok(Some(tree::Value::Leaf(leaf))) = tree.value() else {
        panic!("{:?}", tree.value());
    };
    assert_eq!(leaf.kind(), Ok(Some(tree::leaf::Kind::GREEN)));
    let prost = rival::Tree::decode(bytes.as_slice()).unwrap();
    assert_eq!(
        prost.value,
        Some(rival::Value::Leaf(rival::Leaf { kind: 5 }))
    );
    assert!(matches!(TreeDecoder::new(b"").value(), Ok(None)));
}

#[test]
fn malformed_bytes_are_errors() {
    // Field 1 of 5 bytes, of which there are 2.
    let tree = TreeDecoder::new(b"\x0a\x05ab");
    assert!(tree.name().is_err());
    assert!(tree.value().is_err());
    assert!(tree.children().next().unwrap().is_err());
    // Field 7 as a string; it is a number.
    let tree = TreeDecoder::new(b"\x3a\x01a");
    assert!(tree.number().is_err());
    assert!(tree.value().is_err());
}

#[test]
fn enum_keeps_unknown_numbers_and_prints_names() {
    assert_eq!(Color::from(2), Color::GREEN);
    assert_eq!(i32::from(Color::RED), 1);
    assert_eq!(Color::default(), Color::UNSPECIFIED);
    assert_eq!(Color::RED.name(), Some("COLOR_RED"));
    assert_eq!(Color(-9).name(), None);
    assert_eq!(
        format!("{:?} {:?}", Color::GREEN, Color(-9)),
        "COLOR_GREEN -9"
    );
}

#[test]
fn enum_aliases_and_extremes() {
    use names::Http2Code;
    // `A` is a value of its own, so the one with the enum's name in front keeps that.
    assert_eq!(Http2Code::A.0, 4);
    assert_eq!(Http2Code::HTTP2_CODE_A, Http2Code::HTTP2_CODE_B);
    assert_eq!(Http2Code::HTTP2_CODE_B.name(), Some("HTTP2_CODE_A"));
    assert_eq!(Http2Code::MIN.0, i32::MIN);
    let bytes = encode::<names::R>(|message| {
        message.set_option(names::Option(i32::MIN));
    });
    assert_eq!(
        names::RDecoder::new(&bytes).option(),
        Ok(Some(names::Option(i32::MIN)))
    );
}

#[test]
fn default_of_an_enum_is_its_first_value() {
    assert_eq!(names::Option::default(), names::Option::SOME);
    assert_eq!(names::Option::SOME.0, 1);
}

#[test]
fn map_entry_without_enum_value_has_its_first_value() {
    // Field 5: an entry with the key "a" alone.
    let bytes = b"\x2a\x03\x0a\x01a";
    let decoder = names::RDecoder::new(bytes);
    assert_eq!(all(decoder.options()), [("a", names::Option::SOME)]);
}

#[test]
fn extension_fields_are_written_and_read_through_traits() {
    use extensions::base::{Base, BaseDecoder};
    use extensions::wrapper::{
        BaseDecoderExt as _, BaseExt as _, InnerDecoderExt as _, InnerExt as _,
    };
    use extensions::{BaseDecoderExt as _, BaseExt, ExtraDecoder, Mode};

    let bytes = encode::<Base>(|message| {
        message.set_name("base");
        message.set_label("label").set_sizes([1, 2]);
        message.extra(|extra| {
            extra.set_mode(Mode::ON);
        });
        message.add_modes(Mode::ON).set_name_1005(5);
        message.add_extras(|_| ());
        message.inner(|inner| {
            inner.set_flag(true);
        });
    });
    let base = BaseDecoder::new(&bytes);
    assert_eq!(base.name(), Ok(Some("base")));
    assert_eq!(base.label(), Ok(Some("label")));
    assert_eq!(all(base.sizes()), [1, 2]);
    assert_eq!(base.extra().unwrap().unwrap().mode(), Ok(Some(Mode::ON)));
    assert_eq!(all(base.modes()), [Mode::ON]);
    assert_eq!(base.name_1005(), Ok(Some(5)));
    let modes: Vec<_> = all(base.extras()).iter().map(ExtraDecoder::mode).collect();
    assert_eq!(modes, [Ok(None)]);
    assert_eq!(base.inner().unwrap().unwrap().flag(), Ok(Some(true)));
    assert_eq!(<Base<'_> as BaseExt>::LABEL_FIELD_NUMBER, 1000);
}

#[test]
fn types_of_other_packages() {
    use packages::shapes::shape::Color;

    let bytes = encode::<packages::Frame>(|frame| {
        frame.at(|at| {
            at.set_seconds(7);
        });
        frame.add_shapes(|shape| {
            shape.set_color(Color::RED);
            shape.add_outline(|point| {
                point.set_x(-1).set_y(1);
            });
        });
        frame.unpackaged(|message| {
            message.set_x(3);
        });
    });
    let frame = packages::FrameDecoder::new(&bytes);
    assert_eq!(frame.at().unwrap().unwrap().seconds(), Ok(Some(7)));
    let shape = frame.shapes().next().unwrap().unwrap();
    assert_eq!(shape.color(), Ok(Some(Color::RED)));
    assert_eq!(shape.outline().next().unwrap().unwrap().x(), Ok(Some(-1)));
    assert_eq!(frame.unpackaged().unwrap().unwrap().x(), Ok(Some(3)));
}

#[test]
fn escaped_names_are_usable() {
    let bytes = encode::<names::Fields>(|fields| {
        fields
            .set_type("t")
            .set_foo_bar(4)
            .set_foo_bar_5(5)
            .set_foo_bar_6(6)
            .set_1st(8);
        fields.self_(|inner| {
            inner.r#match(|_| ());
        });
        fields.set_max(1);
    });
    let fields = names::FieldsDecoder2::new(&bytes);
    assert_eq!(fields.r#type(), Ok(Some("t")));
    assert_eq!(fields.foo_bar(), Ok(Some(4)));
    assert_eq!(fields.foo_bar_5(), Ok(Some(5)));
    assert_eq!(fields.foo_bar_6(), Ok(Some(6)));
    assert_eq!(fields._1st(), Ok(Some(8)));
    assert!(
        fields
            .self_()
            .unwrap()
            .unwrap()
            .r#match()
            .unwrap()
            .is_some()
    );
    assert_eq!(fields.max(), Ok(Some(1)));
}

/// Prost's view of Perfetto's `VmProgram`, written by hand.
mod vm {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct VmProgram {
        #[prost(message, repeated, tag = "2")]
        pub instructions: Vec<Instruction>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Instruction {
        #[prost(oneof = "Operation", tags = "1, 2, 3, 4, 5")]
        pub operation: Option<Operation>,
        #[prost(int32, optional, tag = "6")]
        pub abort_level: Option<i32>,
        #[prost(message, repeated, tag = "7")]
        pub nested_instructions: Vec<Instruction>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Operation {
        #[prost(message, tag = "1")]
        Select(Select),
        #[prost(message, tag = "2")]
        RegLoad(RegLoad),
        #[prost(message, tag = "3")]
        Merge(Merge),
        #[prost(message, tag = "4")]
        Set(Empty),
        #[prost(message, tag = "5")]
        Del(Empty),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Select {
        #[prost(int32, optional, tag = "1")]
        pub cursor: Option<i32>,
        #[prost(message, repeated, tag = "2")]
        pub relative_path: Vec<PathComponent>,
        #[prost(bool, optional, tag = "3")]
        pub create_if_not_exist: Option<bool>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct PathComponent {
        #[prost(uint32, optional, tag = "1")]
        pub field_id: Option<u32>,
        #[prost(uint32, optional, tag = "3")]
        pub map_key_field_id: Option<u32>,
        #[prost(bool, optional, tag = "5")]
        pub is_repeated: Option<bool>,
        #[prost(uint32, optional, tag = "6")]
        pub register_to_match: Option<u32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RegLoad {
        #[prost(int32, optional, tag = "1")]
        pub cursor: Option<i32>,
        #[prost(uint32, optional, tag = "2")]
        pub dst_register: Option<u32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Merge {
        #[prost(bool, optional, tag = "1")]
        pub skip_submessages: Option<bool>,
        #[prost(bool, optional, tag = "2")]
        pub del_if_src_empty: Option<bool>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Empty {}
}

/// Prost would drop fields that it does not know, and would write others in another order.
#[test]
fn vm_program_is_what_prost_writes() {
    let program = vm::VmProgram::decode(vm_programs::TABLE).unwrap();
    assert_eq!(program.encode_to_vec(), vm_programs::TABLE);

    let [patch] = program.instructions.as_slice() else {
        panic!("{program:?}");
    };
    let path = [1000].map(|number| vm::PathComponent {
        field_id: Some(number),
        ..Default::default()
    });
    let table = vm::Select {
        cursor: Some(2),
        relative_path: path.to_vec(),
        create_if_not_exist: Some(true),
    };
    let [instruction] = patch.nested_instructions.as_slice() else {
        panic!("{patch:?}");
    };
    assert_eq!(instruction.operation, Some(vm::Operation::Select(table)));
    let levels = instruction.nested_instructions.iter();
    let levels: Vec<_> = levels.map(|command| command.abort_level).collect();
    assert_eq!(levels, [Some(1), Some(1), None]);
}
