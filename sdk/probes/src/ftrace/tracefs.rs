//! The kernel's files: an instance of the tracer for each session, and what earlier processes left.
//!
//! Perfetto's recorder takes the root of tracefs, which all its sessions share and in which it wipes
//! what others have enabled. Here each session has an instance (`instances/NAME`) with events, clock,
//! filters and buffers of its own. So sessions need no common state, and leave that of others alone.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::error::FtraceError;

/// The places where tracefs may be mounted.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The prefix of the names of instances. The namespace, id and start of the process follow, and a
/// number.
const PREFIX: &str = "tracezero_";

/// The instances of others that sessions of this process record with.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The size of the first read of a file. No format of an event is larger.
const READ_BYTES: usize = 1 << 16;

/// The root of tracefs.
#[derive(Clone, Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
}

/// An instance of the tracer.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    /// True if this process has made the instance, and removes it.
    is_own: bool,
}

impl Tracefs {
    /// Finds tracefs, and checks that this process may control it.
    pub(super) fn find() -> Result<Self, FtraceError> {
        let mut denied = None;
        for root in ROOTS {
            let root = PathBuf::from(root);
            // The kernel checks permissions when the file is opened, and lockdown as well.
            match OpenOptions::new().write(true).open(root.join("tracing_on")) {
                Ok(_) => return Ok(Self { root }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => denied = Some(FtraceError::denied(root, error)),
            }
        }
        Err(denied.unwrap_or(FtraceError::NotMounted))
    }

    /// Returns the tracefs below a folder, as tests make one.
    #[cfg(test)]
    pub(super) const fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Creates an instance for a session, with the tracer off.
    pub(super) fn new_instance(&self) -> Result<Instance, FtraceError> {
        // Relaxed: the numbers must only be unique.
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder = self.root.join("instances");
        let owner = Owner::this_process();
        let folder = folder.join(format!("{PREFIX}{owner}_{number}"));
        fs::create_dir(&folder).map_err(|error| FtraceError::create(folder.clone(), error))?;
        let instance = Instance {
            folder,
            is_own: true,
        };
        // A new instance begins with the tracer on.
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    /// Opens an instance that somebody else has made, and does not use.
    pub(super) fn instance(&self, name: &str) -> Result<Instance, FtraceError> {
        let is_name = !name.is_empty() && !name.contains('/') && !name.starts_with("..");
        let folder = self.root.join("instances").join(name);
        if !is_name || !folder.is_dir() {
            return Err(FtraceError::NoInstance(name.to_owned()));
        }
        let in_use = |by: &str| FtraceError::InUse {
            instance: name.to_owned(),
            by: by.to_owned(),
        };
        let tracer = fs::read_to_string(folder.join("current_tracer")).unwrap_or_default();
        match tracer.trim_end() {
            "nop" | "" => {}
            tracer => return Err(in_use(&format!("its current_tracer is {tracer}, not nop"))),
        }
        // Two readers would take each other's pages.
        if !IN_USE.lock().insert(folder.clone()) {
            return Err(in_use("another session records with it"));
        }
        let instance = Instance {
            folder,
            is_own: false,
        };
        // What it has recorded before belongs to no session.
        instance.write("tracing_on", "0")?;
        instance.write("events/enable", "0")?;
        instance.clear()?;
        Ok(instance)
    }

    /// Removes the instances of processes that have ended without removing theirs. The kernel goes on
    /// recording into them.
    pub(super) fn remove_left(&self) {
        let entries = fs::read_dir(self.root.join("instances"));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            if owner.and_then(Owner::parse).is_some_and(|it| it.is_gone()) {
                drop(Instance {
                    folder: entry.path(),
                    is_own: true,
                });
            }
        }
    }

    /// Returns the groups of an event by its name.
    pub(super) fn groups_of(&self, event: &str) -> Vec<String> {
        let groups = names(&self.root.join("events"));
        let has_event = |group: &String| self.events_folder(group).join(event).is_dir();
        groups.into_iter().filter(has_event).collect()
    }

    /// Returns the names of the events of a group.
    pub(super) fn events_of(&self, group: &str) -> Vec<String> {
        let folder = self.events_folder(group);
        let mut events = names(&folder);
        events.retain(|event| folder.join(event).join("format").is_file());
        events
    }

    /// Returns true if the kernel has the event.
    pub(super) fn has_event(&self, group: &str, event: &str) -> bool {
        self.events_folder(group)
            .join(event)
            .join("format")
            .is_file()
    }

    /// Reads the layout of an event's records.
    pub(super) fn format(&self, group: &str, event: &str) -> io::Result<String> {
        read_text(&self.events_folder(group).join(event).join("format"))
    }

    /// Reads the texts that the kernel keeps, which events refer to by their addresses.
    pub(super) fn printk_formats(&self) -> io::Result<String> {
        // A text may contain any bytes.
        let text = fs::read(self.root.join("printk_formats"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Leaves an instance as a process that was killed does. Returns its folder.
    #[cfg(test)]
    pub(super) fn leave_instance_of_another_process(&self) -> PathBuf {
        let owner = Owner {
            start: 0,
            ..Owner::this_process()
        };
        let folder = self.root.join(format!("instances/{PREFIX}{owner}_0"));
        fs::create_dir(&folder).expect("an instance");
        folder
    }

    fn events_folder(&self, group: &str) -> PathBuf {
        self.root.join("events").join(group)
    }
}

impl Instance {
    /// Writes a setting.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), FtraceError> {
        let path = self.folder.join(file);
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut it| it.write_all(text.as_bytes()));
        written.map_err(|source| FtraceError::Write {
            path,
            text: text.to_owned(),
            source,
        })
    }

    /// Removes what the buffers contain.
    fn clear(&self) -> Result<(), FtraceError> {
        let path = self.folder.join("trace");
        let mut options = OpenOptions::new();
        let cleared = options.write(true).truncate(true).open(&path);
        cleared.map(drop).map_err(|source| FtraceError::Write {
            path,
            text: String::new(),
            source,
        })
    }

    /// Appends to a list.
    pub(super) fn append(&self, file: &str, text: &str) -> Result<(), FtraceError> {
        let path = self.folder.join(file);
        let written = OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut it| it.write_all(text.as_bytes()));
        written.map_err(|source| FtraceError::Write {
            path,
            text: text.to_owned(),
            source,
        })
    }

    /// Reads a setting, without the newline at its end.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let text = read_text(&self.folder.join(file))?;
        Ok(text.trim_end().to_owned())
    }

    /// Returns true if the instance has a file.
    pub(super) fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    /// Returns true if this process has made the instance.
    pub(super) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns the numbers of the machine's CPUs that have a buffer.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let names = names(&self.folder.join("per_cpu"));
        let mut cpus: Vec<u32> = names
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        cpus
    }

    /// Opens the raw pages of a CPU. Reads do not wait.
    pub(super) fn pages_of(&self, cpu: u32) -> Result<File, FtraceError> {
        use std::os::unix::fs::OpenOptionsExt as _;

        let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(&path);
        opened.map_err(|error| FtraceError::denied(path, error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance that cannot be removed, because somebody reads it, should at least be idle.
        let _ = self.write("tracing_on", "0");
        let _ = self.write("events/enable", "0");
        match self.is_own {
            true => drop(fs::remove_dir(&self.folder)),
            false => drop(IN_USE.lock().remove(&self.folder)),
        }
    }
}

/// The process that an instance belongs to. Its id alone may be given to another process later.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    /// The namespace of the id. Instances are the same in all namespaces, ids are not.
    namespace: u64,
    pid: u32,
    /// When the process started, in ticks since the boot; 0 if unknown.
    start: u64,
}

impl Owner {
    fn this_process() -> Self {
        let pid = process::id();
        Self {
            namespace: pid_namespace(),
            pid,
            start: start_of(pid).unwrap_or_default(),
        }
    }

    /// Parses what `Display` writes. A number may follow.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        Some(Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        })
    }

    /// Returns true if the process has ended. Nothing is known of processes in other namespaces, and of
    /// those whose files this process may not read.
    fn is_gone(&self) -> bool {
        if self.namespace != pid_namespace() {
            return false;
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let exists = pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
        let is_another = start_of(self.pid).is_some_and(|start| start != self.start);
        !exists || is_another
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            namespace,
            pid,
            start,
        } = self;
        write!(f, "{namespace}_{pid}_{start}")
    }
}

/// Returns the number of this process's namespace of process ids.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.ino())
}

/// Returns when a process started, in ticks since the boot.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process may contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Reads a file. The first read must take it as a whole: some files of tracefs have nothing more to say
/// in the second one.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::with_capacity(READ_BYTES);
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names: BTreeSet<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_in_the_name_of_an_instance() {
        let owner = Owner::this_process();
        assert_eq!(Owner::parse(&format!("{owner}_7")), Some(owner));
        assert_eq!(Owner::parse("by_hand"), None);
    }

    #[test]
    fn process_is_gone_if_its_id_belongs_to_another_one() {
        let owner = Owner::this_process();
        assert!(!owner.is_gone());
        let earlier = Owner {
            start: owner.start - 1,
            ..owner.clone()
        };
        assert!(earlier.is_gone());
        let elsewhere = Owner {
            namespace: owner.namespace + 1,
            ..earlier
        };
        assert!(!elsewhere.is_gone());
    }
}
