//! The treatment of those parts of a configuration that this service does not carry out.

use crate::place::Place;

/// The largest number of ignored fields that are listed. A configuration may have more of them.
pub const LISTED_FIELDS_MAX: usize = 64;

/// The treatment of those parts of a configuration that this service does not carry out.
#[derive(Debug)]
pub(crate) enum Omissions {
    /// They are errors: the configuration was made for this service.
    Refused,
    /// They are ignored: the configuration was made by another program. Contains the paths of their
    /// fields, each once, at most [`LISTED_FIELDS_MAX`].
    Listed(Vec<String>),
}

impl Omissions {
    /// Returns true if the configuration was made by another program.
    pub(crate) const fn is_foreign(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Returns the paths of the ignored fields.
    pub(crate) fn into_paths(self) -> Vec<String> {
        match self {
            Self::Refused => Vec::new(),
            Self::Listed(paths) => paths,
        }
    }

    /// Returns true and lists the field at this place, if it is to be ignored. Returns false if the
    /// configuration is to be refused because of it.
    pub(crate) fn ignores(&mut self, at: &Place<'_>) -> bool {
        let Self::Listed(paths) = self else {
            return false;
        };
        if paths.len() < LISTED_FIELDS_MAX {
            let path = at.to_string();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        true
    }
}
