//! What cannot be derived says so, and names what can.

use tracezero::ArgValue;

#[derive(ArgValue)]
union Both {
    number: u32,
    bytes: [u8; 4],
}

#[derive(ArgValue)]
struct UnknownOption {
    #[arg(hex)]
    number: u32,
}

#[derive(ArgValue)]
#[arg(rename = "type")]
struct OptionOfAField;

struct NoValue;

#[derive(ArgValue)]
struct FieldWithoutValue {
    field: NoValue,
}

fn main() {}
