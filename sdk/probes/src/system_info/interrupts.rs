//! The names of interrupts: `/proc/interrupts`.

use tracezero_kernel::protos::InterruptInfo;

use crate::words::{lines, number, text_of, words};

/// The ends of words that tell how an interrupt is triggered. The name follows such a word.
const TRIGGERS: [&[u8]; 3] = [b"-edge", b"-fasteoi", b"-level"];

/// Returns the number and the name of each interrupt that has both.
///
/// A row is `NUMBER: COUNTS CONTROLLER NUMBER TRIGGER NAME`, with a count per processor. Controllers
/// and names may have several words. If no word is known as a trigger, the name is the last word.
pub(super) fn parse(text: &[u8]) -> Vec<(u32, String)> {
    let mut lines = lines(text);
    let head = words(lines.next().unwrap_or_default());
    let cpus = head.filter(|word| word.starts_with(b"CPU")).count();
    if cpus == 0 {
        return Vec::new();
    }
    lines.filter_map(|line| interrupt(line, cpus)).collect()
}

fn interrupt(line: &[u8], cpus: usize) -> Option<(u32, String)> {
    let words: Vec<&[u8]> = words(line).collect();
    // Other rows are sums of the kernel, for example `NMI:`.
    let irq = number(words.first()?.strip_suffix(b":")?)?;
    let behind_counts = words.get(1 + cpus..)?;
    let trigger = behind_counts.iter().rposition(|word| is_trigger(word));
    let name_at = match trigger {
        Some(trigger) => trigger + 1,
        None => behind_counts.len().checked_sub(1)?,
    };
    // The first word is the controller.
    let name = behind_counts.get(name_at..).filter(|_| name_at > 0)?;
    let name: Vec<_> = name.iter().map(|word| text_of(word)).collect();
    (!name.is_empty()).then(|| (irq, name.join(" ")))
}

fn is_trigger(word: &[u8]) -> bool {
    matches!(word, b"Level" | b"Edge") || TRIGGERS.iter().any(|trigger| word.ends_with(trigger))
}

/// Writes the names of interrupts.
pub(super) fn write(names: &[(u32, String)], out: &mut InterruptInfo<'_>) {
    for (irq, name) in names {
        out.add_irq_mapping(|mapping| {
            mapping.set_irq_id(*irq).set_name(name);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_a_head_has_no_names() {
        for text in ["", "\n", "  9: 1 GICv3 25 Level vgic\n", "CPU0\n"] {
            assert_eq!(parse(text.as_bytes()), [], "{text}");
        }
    }

    #[test]
    fn trigger_without_a_name_is_no_name() {
        assert_eq!(
            parse(b" CPU0\n 1: 5 IO-APIC 1-edge\n 2: 5 Level timer\n"),
            [(2, "timer".to_owned())]
        );
    }
}
