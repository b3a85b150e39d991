//! Errors in a traced body point at the user's own statements.

#[tracezero::trace]
fn wrong_type() -> u32 {
    let number = "7";
    number
}

#[tracezero::trace]
async fn wrong_type_later() -> u32 {
    std::future::ready(()).await;
    "7"
}

#[tracezero::trace]
fn no_result() -> u32 {
    wrong_type();
}

#[tracezero::trace]
fn borrows_what_it_drops() -> &'static str {
    let text = String::new();
    &text
}

fn main() {
    no_result();
    borrows_what_it_drops();
    wrong_type();
    drop(wrong_type_later());
}
