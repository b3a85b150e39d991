//! Fuzzes the decoder with any bytes: it returns, reads within bounds, and agrees with itself and
//! with two independent decoders.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use protobuf::well_known_types::empty::Empty;
use protobuf::{Message as _, UnknownValueRef};
use protozero::types::{self, FieldType};
use protozero::{DecodeError, Decoder, IndexedMessage, Value};

/// The depth to which payloads are decoded as messages.
const DEPTH: u32 = 4;

fuzz_target!(|bytes: &[u8]| {
    read(bytes, DEPTH);
    compare(bytes);
});

/// The content of a message: for each field number the values of each wire type, in order.
type Content<'a> = BTreeMap<u32, [Vec<WireValue<'a>>; 4]>;

#[derive(Debug, PartialEq)]
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn compare(bytes: &[u8]) {
    let fields: Result<Vec<_>, DecodeError> = Decoder::new(bytes).fields().collect();
    if let Err(DecodeError::GroupsTooDeep { .. }) = fields {
        return;
    }
    // For prost, `()` is a message type that knows no fields, so prost checks and skips every
    // field. Its limit for nested groups is lower than that of our decoder.
    match <()>::decode(bytes) {
        Ok(()) => assert!(fields.is_ok(), "{fields:?}"),
        Err(error) if error.to_string().contains("recursion limit") => {}
        Err(error) => assert!(fields.is_err(), "{error}"),
    }
    // The other library, rust-protobuf, rejects some tags and lengths that are longer than needed.
    let (Ok(fields), Ok(empty)) = (fields, Empty::parse_from_bytes(bytes)) else {
        return;
    };
    let mut ours = Content::new();
    for field in fields {
        let (kind, value) = match field.value {
            Value::Varint(value) => (0, WireValue::Number(value)),
            Value::Fixed64(value) => (1, WireValue::Number(value)),
            Value::Fixed32(value) => (2, WireValue::Number(value.into())),
            Value::Bytes(value) => (3, WireValue::Bytes(value)),
        };
        ours.entry(field.number).or_default()[kind].push(value);
    }
    let mut theirs = Content::new();
    for (number, value) in empty.unknown_fields() {
        let (kind, value) = match value {
            UnknownValueRef::Varint(value) => (0, WireValue::Number(value)),
            UnknownValueRef::Fixed64(value) => (1, WireValue::Number(value)),
            UnknownValueRef::Fixed32(value) => (2, WireValue::Number(value.into())),
            UnknownValueRef::LengthDelimited(value) => (3, WireValue::Bytes(value)),
        };
        theirs.entry(number).or_default()[kind].push(value);
    }
    assert_eq!(ours, theirs);
}

fn read(bytes: &[u8], depth_left: u32) {
    let decoder = Decoder::new(bytes);
    let mut fields = decoder.fields();
    let mut well_formed = true;
    let mut offset = 0;
    let mut numbers = [None; 4];
    for (index, field) in fields.by_ref().enumerate() {
        let Ok(field) = field else {
            well_formed = false;
            continue;
        };
        assert!(well_formed, "an error is the last item");
        numbers[index % 4] = Some(field.number);
        if let Value::Bytes(payload) = field.value {
            let payload_range = payload.as_ptr_range();
            assert!(payload_range.start >= bytes[offset..].as_ptr());
            assert!(payload_range.end <= bytes.as_ptr_range().end);
            offset = payload_range.end.addr() - bytes.as_ptr().addr();
            if depth_left > 0 {
                read(payload, depth_left - 1);
            }
        }
    }
    assert_eq!(fields.offset(), bytes.len());
    look_up(bytes, numbers.map(Option::unwrap_or_default));
    for number in numbers.into_iter().flatten() {
        read_as::<types::Int32>(decoder, number, well_formed);
        read_as::<types::Sint64>(decoder, number, well_formed);
        read_as::<types::Bool>(decoder, number, well_formed);
        read_as::<types::Fixed32>(decoder, number, well_formed);
        read_as::<types::Double>(decoder, number, well_formed);
        read_as::<types::Str>(decoder, number, well_formed);
        read_as::<types::Bytes>(decoder, number, well_formed);
    }
}

/// Checks that the index and a search agree. The first two numbers are singular fields.
fn look_up(bytes: &[u8], numbers: [u32; 4]) {
    let slot_of = |number| numbers.iter().position(|it| *it == number).unwrap_or(4);
    let index = IndexedMessage::<4>::new(bytes, 2, slot_of);
    let decoder = Decoder::new(bytes);
    for number in numbers {
        match slot_of(number) {
            slot @ 0..2 => {
                assert_eq!(
                    index.last::<types::Bytes>(slot),
                    decoder.last::<types::Bytes>(number)
                );
                assert_eq!(
                    index.last::<types::Int64>(slot),
                    decoder.last::<types::Int64>(number)
                );
            }
            slot => {
                let found = index.repeated::<types::Int64>(slot, number);
                assert!(found.eq(decoder.repeated::<types::Int64>(number)));
            }
        }
    }
}

fn read_as<T: FieldType>(decoder: Decoder<'_>, number: u32, well_formed: bool) {
    let last = decoder.last::<T>(number);
    assert!(well_formed || last.is_err());
    let repeated = decoder.repeated::<T>(number);
    let mut failed = false;
    let mut count = 0;
    for value in repeated {
        assert!(!failed, "an error is the last item");
        failed = value.is_err();
        count += 1;
    }
    assert!(count <= decoder.bytes().len());
    assert!(well_formed || failed);
}
