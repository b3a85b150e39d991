//! Attributes of the machine.

use std::fs;

use super::host_id::host_id;
use crate::attributes::{TraceAttributes, keys};

/// The files that may have the machine's own id.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
/// The file with the id of the present boot.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Sets the attributes of the machine. What the system does not tell is left out, as in a container
/// without an id of the machine.
pub(super) fn put_host(attributes: &mut TraceAttributes) {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    if !name.is_empty() {
        attributes.set(keys::HOST_NAME, name.into_owned());
    }
    let mut machine_ids = MACHINE_ID_FILES.iter().filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        host_id(text.trim_ascii())
    });
    if let Some(id) = machine_ids.next() {
        attributes.set(keys::HOST_ID, id);
    }
    if let Ok(boot_id) = fs::read_to_string(BOOT_ID_FILE) {
        attributes.set(keys::HOST_BOOT_ID, boot_id.trim_ascii());
    }
}
