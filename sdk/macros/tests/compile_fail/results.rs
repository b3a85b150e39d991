#[tracezero::trace(%error)]
fn no_result(number: u32) -> u32 {
    number
}

#[tracezero::trace(%error)]
async fn later(number: u32) -> u32 {
    number
}

struct Unprintable;

#[tracezero::trace(result)]
fn untyped() -> Unprintable {
    Unprintable
}

#[tracezero::trace(%name = "text")]
fn format_of_an_option() {}

fn main() {
    no_result(1);
    drop(later(1));
    untyped();
    format_of_an_option();
}
