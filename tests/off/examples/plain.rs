//! The function of `traced.rs` without its trace points.

#![deny(warnings)]

/// Returns the product of the numbers, except some.
#[inline(never)]
pub fn product_of_some(numbers: &[u64], _salt: &str) -> u64 {
    let mut product = 1_u64;
    for number in numbers {
        if number % 3 == 0 {
            continue;
        }
        product = product.wrapping_mul(*number);
    }
    product
}
