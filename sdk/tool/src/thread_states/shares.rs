//! Shares of a whole, which add up to 100 % as they are printed.

/// The number of parts of the whole that are told apart: tenths of a percent.
const PARTS: u128 = 1000;

/// Returns the share of each value in tenths of a percent. They add up to 1000, unless all values are
/// 0: the parts that rounding down leaves go to the values that it cuts most.
pub(crate) fn shares(values: &[u64]) -> Vec<u32> {
    let total: u128 = values.iter().copied().map(u128::from).sum();
    if total == 0 {
        return vec![0; values.len()];
    }
    let scaled = |value: &u64| u128::from(*value) * PARTS;
    let mut shares: Vec<u32> = values
        .iter()
        .map(|value| (scaled(value) / total) as u32)
        .collect();
    let left = PARTS as u32 - shares.iter().sum::<u32>();
    let mut by_rest: Vec<usize> = (0..values.len()).collect();
    by_rest.sort_by_key(|index| std::cmp::Reverse(scaled(&values[*index]) % total));
    for index in by_rest.into_iter().take(left as usize) {
        shares[index] += 1;
    }
    shares
}

/// Formats tenths of a percent.
pub(crate) fn percent(tenths: u32) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        let cases: [(&[u64], &[u32]); 5] = [
            (&[1, 1, 1], &[334, 333, 333]),
            (&[0, 5], &[0, 1000]),
            (&[999, 1], &[999, 1]),
            (&[u64::MAX, u64::MAX], &[500, 500]),
            (&[1, 9_999], &[0, 1000]),
        ];
        for (values, expected) in cases {
            assert_eq!(shares(values), expected);
        }
    }

    #[test]
    fn nothing_has_no_shares() {
        assert_eq!(shares(&[0, 0]), [0, 0]);
        assert!(shares(&[]).is_empty());
        assert_eq!(percent(1000), "100.0 %");
        assert_eq!(percent(5), "0.5 %");
    }
}
