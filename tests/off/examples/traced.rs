//! A function full of trace points: its instructions must be those of the one in `plain.rs`.

#![deny(warnings)]

use tracezero::{
    CaptureHandle, DataSource as _, Flow, Track, async_span, begin, counter, enabled, end, instant,
    span, trace,
};
use tracezero_off::Probe;

/// Returns the product of the numbers, except some.
#[inline(never)]
#[trace("off", args(count = numbers.len(), salt), result)]
pub fn product_of_some(numbers: &[u64], salt: &str) -> u64 {
    let capture = CaptureHandle::current();
    let _attached = capture.map(CaptureHandle::attach);
    let mut product = 1_u64;
    for (index, number) in numbers.iter().enumerate() {
        let _pass = span!("off", "pass", index, number, flow: &Flow::new());
        let _of_future = async_span!("off", format!("{salt} {index}"), number);
        let _on_track = span!("off", format!("{salt} {index}"), track: &Track::unique("pass"));
        if number % 3 == 0 {
            instant!("off, grouped", "left out", number, why = %salt, salt = ?salt);
            continue;
        }
        begin!("off", "multiply", at: product);
        product = product.wrapping_mul(*number);
        end!("off", product);
        counter!("off", "product", product);
        let of_library = tracezero_events::span!("off", format!("{salt} {index}"), number);
        tracezero_events::instant!("off", "of a library", why = %salt, salt = ?salt);
        tracezero_events::counter!("off", "of a library", product);
        tracezero_events::end!(of_library, product);
        if enabled!("off") {
            println!("{product} is recorded");
        }
    }
    Probe::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_str(salt);
            });
        });
    });
    product
}
