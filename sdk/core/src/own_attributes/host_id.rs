//! The id of the machine in traces.
//!
//! The manual of systemd asks programs to keep the machine's own id (`/etc/machine-id`) to themselves:
//! whoever has it can recognize the machine everywhere. So a trace has an id that is derived of it for
//! this SDK alone, by systemd's own method (`sd_id128_get_machine_app_specific`). It is the same in all
//! traces of the machine, and nobody can compute the machine's own id of it. On a machine at hand,
//! `systemd-id128 machine-id --app-specific=20cbc6ce596b46d5bc017103bb4aff29` prints it.

use std::fmt::Write as _;

use super::sha256::hmac;

/// The id of this SDK among the programs that derive ids. It must never change.
const APPLICATION: u128 = 0x20cb_c6ce_596b_46d5_bc01_7103_bb4a_ff29;

/// Derives the id of the machine from its own id: 32 hexadecimal digits both. `None` if the machine has
/// no id yet.
pub(super) fn host_id(machine_id: &str) -> Option<String> {
    let is_whole = machine_id.len() == 32 && machine_id.bytes().all(|it| it.is_ascii_hexdigit());
    let machine_id = u128::from_str_radix(machine_id, 16).ok()?;
    if !is_whole || machine_id == 0 {
        return None;
    }
    let hash = hmac(machine_id.to_be_bytes(), &APPLICATION.to_be_bytes());
    let (mut id, _) = hash
        .split_first_chunk::<16>()
        .map(|(id, rest)| (*id, rest))?;
    // The marks of a random UUID.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(32);
    for byte in id {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_the_one_that_systemd_derives() {
        // `systemd-id128 machine-id --app-specific=..` on a machine with this id.
        let id = host_id("3d1219c7c4c5404aaa1f6d2a48adfda4");
        assert_eq!(id.as_deref(), Some("a59b7e33d8234a379522561ea21b3f70"));
    }

    #[test]
    fn machines_without_an_id_have_none() {
        for text in [
            "",
            "uninitialized",
            &"0".repeat(32),
            &"a".repeat(31),
            &"é".repeat(16),
        ] {
            assert_eq!(host_id(text), None, "{text}");
        }
    }
}
