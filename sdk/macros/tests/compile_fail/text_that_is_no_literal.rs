const CATEGORY: &str = "io";

#[tracezero::trace(category = CATEGORY)]
fn constant() {}

#[tracezero::trace(name = format!("read {}", 1))]
fn expression() {}

#[tracezero::trace(name = 1)]
fn number() {}

fn main() {
    constant();
    expression();
    number();
}
