//! Decides which daemons may get the packets of this process.
//!
//! A daemon gets all packets, and shares memory with this process. Anybody can put a socket into a
//! folder that everybody can write to, such as `/tmp`. The user of a daemon on a network is not
//! known, so connections to network addresses are not checked. No default address is on a network,
//! so whoever names such an address trusts it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use tracezero_ipc::address::Address;

/// The permissions to write for the group and for all users.
const OTHERS_WRITE: u32 = 0o022;

/// Returns true if a daemon of user `daemon_uid` may be trusted at this address. Root, the own user
/// and `trusted_uids` are always trusted. Another user is trusted if the socket is in folders that
/// only root and that user can write to.
pub(crate) fn is_trusted(address: &Address, daemon_uid: u32, trusted_uids: &[u32]) -> bool {
    let own = rustix::process::geteuid().as_raw();
    if [0, own].contains(&daemon_uid) || trusted_uids.contains(&daemon_uid) {
        return true;
    }
    match address {
        Address::Path(path) => is_reserved_for(path, daemon_uid).unwrap_or(false),
        Address::Abstract(_) | Address::Network(_) => false,
    }
}

/// Returns true if only root and a user can write to the folders of a path.
fn is_reserved_for(path: &Path, uid: u32) -> io::Result<bool> {
    let path = path.canonicalize()?;
    for folder in path.ancestors().skip(1) {
        let metadata = fs::metadata(folder)?;
        let is_reserved = [0, uid].contains(&metadata.uid()) && metadata.mode() & OTHERS_WRITE == 0;
        if !is_reserved {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: u32 = 65534;

    #[test]
    fn root_the_own_user_and_named_users_are_trusted() {
        let own = rustix::process::geteuid().as_raw();
        let address = Address::Path("/tmp/perfetto-producer".into());
        assert!(is_trusted(&address, 0, &[]) && is_trusted(&address, own, &[]));
        assert!(is_trusted(&address, NOBODY, &[NOBODY]));
    }

    #[test]
    fn another_user_is_trusted_in_folders_of_its_own_alone() {
        let in_tmp = Address::Path("/tmp".into());
        assert!(!is_trusted(
            &Address::Path("/tmp/missing".into()),
            NOBODY,
            &[]
        ));
        assert!(!is_trusted(
            &Address::Abstract("traced".into()),
            NOBODY,
            &[]
        ));
        // The folder of `/tmp` is `/`, which belongs to root.
        assert!(is_trusted(&in_tmp, NOBODY, &[]));
        let folder = std::env::temp_dir().join(format!("tracezero-trust-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("socket"), "").unwrap();
        let address = Address::Path(folder.join("socket"));
        assert!(!is_trusted(&address, NOBODY, &[]), "/tmp is for all");
        fs::remove_dir_all(folder).unwrap();
    }
}
