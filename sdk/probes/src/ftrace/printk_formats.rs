//! Texts that the kernel refers to by their address, from the file `printk_formats`.

use std::collections::HashMap;

/// Texts by address.
#[derive(Debug, Default)]
pub(crate) struct PrintkFormats {
    texts: HashMap<u64, String>,
}

impl PrintkFormats {
    /// Reads the lines `0xADDRESS : "text"`. Other lines, empty texts and the address 0, which
    /// stands for a hidden address, are left out.
    pub(crate) fn parse(text: &str) -> Self {
        let texts = text.lines().filter_map(entry);
        Self {
            texts: texts.collect(),
        }
    }

    /// Returns the text at `address`, or an empty one if the kernel has not listed it.
    pub(crate) fn text(&self, address: u64) -> &str {
        self.texts.get(&address).map_or("", String::as_str)
    }
}

fn entry(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(':')?;
    let address = address.trim();
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let address = u64::from_str_radix(digits, 16).ok()?;
    let text = text.trim();
    let text = text.strip_prefix('"').unwrap_or(text);
    let text = text.strip_suffix('"').unwrap_or(text);
    (address != 0 && !text.is_empty()).then(|| (address, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_address() {
        let formats = PrintkFormats::parse(
            "0xffffffff92349439 : \"thaw_processes\"\n\
             0xffffffff92349439 : \"thaw_processes\"\n\
             0xffff : \"one: two\"\n\
             0x3:\"No gap\"\n",
        );
        assert_eq!(formats.text(0xffff_ffff_9234_9439), "thaw_processes");
        assert_eq!(formats.text(0xffff), "one: two");
        assert_eq!(formats.text(3), "No gap");
        assert_eq!(formats.text(4), "");
    }

    #[test]
    fn hidden_addresses_and_odd_lines_are_left_out() {
        let formats = PrintkFormats::parse(
            "0x0 : \"hidden\"\n0x1 : \"\"\n0xnot : \"hex\"\n0x2\n: \"none\"\n\n",
        );
        assert!(formats.texts.is_empty(), "{formats:?}");
    }
}
