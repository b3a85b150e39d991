//! The expansion compiles where the user has defined items with the names that it uses.

#![allow(dead_code, unused_macros)]

mod tracezero {}
mod std {}
mod core {}

struct Option;
struct Track;
enum Never {}

macro_rules! span {
    ($($any:tt)*) => {
        compile_error!("not this one")
    };
}

#[::tracezero::trace(args(_span, slots))]
fn function(_span: u32, slots: u32) -> u32 {
    _span + slots
}

#[::tracezero::trace(args(track, placement, parts))]
async fn asynchronous(track: u32, placement: u32, parts: u32) -> u32 {
    track + placement + parts
}

#[::tracezero::trace(result = output + _span, error)]
fn with_result(output: u32, _span: u32) -> Result<u32, u32> {
    Ok(output + _span)
}

fn main() {
    assert_eq!(function(1, 2), 3);
    assert_eq!(with_result(1, 2), Ok(3));
    drop(asynchronous(1, 2, 3));
}
