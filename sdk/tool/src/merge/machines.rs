//! Groups files by the machine that they were recorded on.

use std::path::{Path, PathBuf};

use super::host::Host;
use super::survey::Survey;
use crate::error::ToolError;

/// The machines of the merged trace. The first is that of the first file.
#[derive(Debug, Default)]
pub(super) struct Machines(Vec<Machine>);

/// A machine between two boots: its files have the same boot time, and its processes have different
/// ids.
#[derive(Debug)]
pub(super) struct Machine {
    /// The indexes of its files.
    pub(super) files: Vec<usize>,
    /// What its files tell of it.
    pub(super) host: Host,
    /// The name that the user gave it.
    given_name: Option<String>,
}

/// A value that the user gives for a file.
#[derive(Clone, Debug)]
pub(super) struct OfFile<T> {
    pub(super) path: PathBuf,
    pub(super) value: T,
}

impl Machines {
    /// Adds a file. `given_name` is the name of its machine if the user gave one; otherwise its
    /// attributes tell. A file that tells nothing is of the first machine. Returns the index of the
    /// machine.
    pub(super) fn add(&mut self, file: usize, host: &Host, given_name: Option<&str>) -> usize {
        let is_of = |machine: &Machine| match (given_name, &machine.given_name) {
            (Some(name), Some(other)) => name == other,
            (None, None) => !host.differs_from(&machine.host),
            _ => false,
        };
        let tells_nothing = given_name.is_none() && host.id.is_none() && host.boot_id.is_none();
        let known = self.0.iter().position(is_of);
        let index = match known {
            _ if tells_nothing && file > 0 => 0,
            Some(known) => known,
            None => {
                self.0.push(Machine {
                    files: Vec::new(),
                    host: host.clone(),
                    given_name: given_name.map(ToOwned::to_owned),
                });
                self.0.len() - 1
            }
        };
        let machine = &mut self.0[index];
        machine.files.push(file);
        machine.host.learn(host);
        index
    }

    /// Returns the machines with their indexes, without the first.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, &Machine)> {
        self.0.iter().enumerate().skip(1)
    }

    /// Returns the number of machines.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn all(&self) -> &[Machine] {
        &self.0
    }
}

impl Machine {
    /// Returns the name of the machine: the given one, or the one that its files tell.
    pub(super) fn name(&self) -> Option<&str> {
        let given = self.given_name.as_deref();
        given
            .or(self.host.name.as_deref())
            .or(self.host.id.as_deref())
    }

    /// Names the files of the machine for a note.
    pub(super) fn label(&self, surveys: &[Survey]) -> String {
        let mut files = self.files.iter().map(|file| surveys[*file].path.display());
        let first = files.next().map(|path| path.to_string());
        let first = first.unwrap_or_default();
        match files.len() {
            0 => first,
            more => format!("{first} and {more} more of its machine"),
        }
    }
}

impl<T> OfFile<T> {
    /// Checks that each value is of an input file.
    ///
    /// # Errors
    ///
    /// If there is a value for another file, or a second one for the same.
    pub(super) fn check(option: &str, values: &[Self], files: &[PathBuf]) -> Result<(), ToolError> {
        for (index, value) in values.iter().enumerate() {
            let path = value.path.display();
            if !files.contains(&value.path) {
                return Err(ToolError::Usage(format!(
                    "{option} names {path}, which is not one of the traces; write it like the trace"
                )));
            }
            if values[..index].iter().any(|other| other.path == value.path) {
                return Err(ToolError::Usage(format!(
                    "{option} names {path} twice; give one value for it"
                )));
            }
        }
        Ok(())
    }

    /// Returns the value for a file.
    pub(super) fn find<'a>(values: &'a [Self], path: &Path) -> Option<&'a T> {
        let found = values.iter().find(|value| value.path == path);
        found.map(|found| &found.value)
    }
}
