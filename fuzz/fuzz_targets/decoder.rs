//! The decoder on any bytes: it returns, reads within them, and agrees with itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protozero::types::{self, FieldType};
use protozero::{Decoder, Value};

/// How deep payloads are looked at as messages.
const DEPTH: u32 = 4;

fuzz_target!(|bytes: &[u8]| read(bytes, DEPTH));

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
