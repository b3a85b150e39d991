//! Lines, words and numbers of the texts that the kernel makes.

use std::borrow::Cow;

/// Returns the lines of a text that are not empty.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// Returns the words of a line: the parts between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Splits a line at its first colon into a key and a value, without the blanks around them.
pub(crate) fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
}

/// Returns the decimal number that is the whole word. Returns `None` for another word, or if the
/// number does not fit.
pub(crate) fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns the first word of a text as a number: `92` of `92 kB`.
pub(crate) fn first_number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    number(words(text).next()?)
}

/// Returns bytes as a text. Bytes that are not UTF-8 are replaced.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_words_that_fit() {
        assert_eq!(number::<u64>(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number::<i32>(b"-900"), Some(-900));
        for wrong in ["", "18446744073709551616", "-1", "12x", "0x1", "\u{ff}"] {
            assert_eq!(number::<u64>(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(first_number(b"\t 92 kB\n"), Some(92_u32));
        assert_eq!(first_number::<u32>(b"  "), None);
    }

    #[test]
    fn value_may_contain_colons() {
        let split = key_and_value(b"Name:\ta: b ");
        assert_eq!(split, Some((&b"Name"[..], &b"a: b"[..])));
        assert_eq!(key_and_value(b"no colon"), None);
    }

    #[test]
    fn blanks_and_empty_lines_do_not_count() {
        let text = b"\n a  b\t c \n\n";
        let first = lines(text).next().unwrap();
        assert_eq!(words(first).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(lines(text).count(), 1);
    }
}
