//! Errors in a body are where they were.

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

fn main() {
    wrong_type();
    drop(wrong_type_later());
}
