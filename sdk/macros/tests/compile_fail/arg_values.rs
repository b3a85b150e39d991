//! If a type cannot derive `ArgValue`, the error names the supported forms.

use tracezero::ArgValue;

#[derive(ArgValue)]
union Both {
    number: u32,
    bytes: [u8; 4],
}

#[derive(ArgValue)]
struct UnknownOption {
    #[arg_value(hex)]
    number: u32,
}

#[derive(ArgValue)]
#[arg_value(rename = "type")]
struct OptionOfAField;

#[derive(ArgValue)]
enum OptionOfAVariant {
    #[arg_value(display)]
    Variant,
}

struct NoValue;

#[derive(ArgValue)]
struct FieldWithoutValue {
    field: NoValue,
}

fn main() {}
