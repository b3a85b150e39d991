#[tracezero::trace(level = "debug")]
fn unknown_option() {}

#[tracezero::trace("io", "read")]
fn name_without_its_key() {}

#[tracezero::trace(3)]
fn number() {}

fn main() {
    unknown_option();
    name_without_its_key();
    number();
}
