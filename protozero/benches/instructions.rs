//! Counts the instructions of the fast path for each kind of field. See the module `callgrind` for
//! the method.
//!
//! ```sh
//! cargo bench -p protozero --bench instructions
//! ```

mod callgrind;

use std::hint::black_box;
use std::process::ExitCode;

use protozero::{Message, StaticBuffered};

/// The values that are written. The compiler cannot see them (`black_box`).
struct Values {
    small: u32,
    five_bytes: u64,
    time_stamp: u64,
    fixed: u64,
    flag: bool,
    variant: i32,
    name: String,
    payload: Vec<u8>,
}

impl Values {
    fn new() -> Self {
        Self {
            small: 42,
            five_bytes: 1 << 33,
            time_stamp: 1_700_000_000_000_000,
            fixed: 0x1234_5678_9abc_def0,
            flag: true,
            variant: 3,
            name: "sixteen bytes ..".to_owned(),
            payload: vec![7; 127],
        }
    }
}

callgrind::subjects! {
    |m: &mut Message<'_>, v: &Values|
    uint32_of_one_byte: 10, m.append_uint32::<1>(v.small);
    bool_: 8, m.append_bool::<2>(v.flag);
    enum_of_one_byte: 9, m.append_enum::<3>(v.variant);
    uint64_of_five_bytes: 33, m.append_uint64::<4>(v.five_bytes);
    uint64_of_eight_bytes: 55, m.append_uint64::<5>(v.time_stamp);
    fixed64: 7, m.append_fixed64::<6>(v.fixed);
    string_of_16_bytes: 21, m.append_string::<7>(&v.name);
    bytes_of_127_bytes: 41, m.append_bytes::<8>(&v.payload);
    // Begin and end of a nested message.
    nested: 30 - uint32_of_one_byte, m.begin_nested::<10>().append_uint32::<1>(v.small);
    // Begin and end of a message that is too long for a length of one byte, so its slot grows.
    nested_grown: 159 - bytes_of_127_bytes, m.begin_nested::<9>().append_bytes::<8>(&v.payload);
}

/// Enough room for nine fields of any kind.
const BUFFER_BYTES: usize = 4096;

fn main() -> ExitCode {
    let values = black_box(Values::new());
    callgrind::main(SUBJECTS, |append| {
        let mut memory = [0; BUFFER_BYTES];
        let mut buffer = StaticBuffered::<Message<'_>>::new(&mut memory);
        append(&mut buffer.message(), &values);
        buffer.finish().expect("there is room for nine fields");
    })
}
