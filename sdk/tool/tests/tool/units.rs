//! Tests the units of the service manager. `ci/tool.sh` also lets the service manager check them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use support::Folder;

use crate::process::command;
use crate::serving::{Manager, Running, without_variables};

/// The values of a unit's section `Service`.
struct Unit(HashMap<String, String>);

impl Unit {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("systemd")
            .join(name);
        let text = fs::read_to_string(path).unwrap();
        let (_, service) = text.split_once("\n[Service]\n").unwrap();
        let (service, _) = service.split_once("\n[Install]\n").unwrap();
        let lines = service
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let pairs = lines.map(|line| line.split_once('=').unwrap());
        Self(
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    #[track_caller]
    fn expect(&self, expected: &[(&str, &str)]) {
        for (key, value) in expected {
            assert_eq!(self.0.get(*key).map(String::as_str), Some(*value), "{key}");
        }
    }

    /// Returns the program and its arguments.
    fn command_line(&self) -> (&str, Vec<&str>) {
        let mut words = self.0["ExecStart"].split(' ');
        (words.next().unwrap(), words.collect())
    }
}

/// Starts the tool as a unit does, and plays the service manager until the daemon is ready.
#[track_caller]
fn start_and_end(args: &[String], folder: &Folder, producers: &Path, consumers: &Path) {
    let notify = folder.file("notify");
    let manager = Manager::new(UnixDatagram::bind(&notify).unwrap());
    let mut command = command(args);
    without_variables(&mut command);
    let daemon = Running::spawn(
        command
            .env("NOTIFY_SOCKET", &notify)
            .env("PERFETTO_PRODUCER_SOCK_NAME", producers)
            .env("PERFETTO_CONSUMER_SOCK_NAME", consumers)
            .stderr(Stdio::null()),
    );
    manager.expect_ready();
    for path in [producers, consumers] {
        UnixStream::connect(path).unwrap();
    }
    daemon.end(Signal::TERM);
}

#[test]
fn the_daemon_of_the_machine_has_no_rights_and_limits() {
    let unit = Unit::read("tracezero-daemon.service");
    unit.expect(&[
        ("Type", "notify"),
        ("User", "tracezero"),
        ("RuntimeDirectory", "perfetto"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("PrivateNetwork", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX"),
        ("MemoryMax", "75%"),
        ("LimitNOFILE", "8320"),
    ]);
    // With `PrivateUsers`, the kernel would report another user than each peer's own.
    assert!(!unit.0.contains_key("PrivateUsers"));
}

#[test]
fn the_command_of_the_machines_unit_starts_the_daemon() {
    let unit = Unit::read("tracezero-daemon.service");
    let (program, args) = unit.command_line();
    assert_eq!(program, "/usr/local/bin/tracezero");
    // The group `tracezero` may not exist on this machine.
    let own = rustix::process::getegid().as_raw();
    let own = format!(":666:{own}:660");
    let args: Vec<String> = args
        .iter()
        .map(|arg| arg.replace(":666:tracezero:660", &own))
        .collect();
    assert!(args.contains(&own), "{args:?}");
    let folder = Folder::empty();
    start_and_end(&args, &folder, &folder.file("p"), &folder.file("c"));
}

#[test]
fn the_command_of_a_users_unit_listens_where_its_programs_look() {
    let unit = Unit::read("user/tracezero-daemon.service");
    unit.expect(&[
        ("Type", "notify"),
        ("RuntimeDirectory", "perfetto"),
        ("RuntimeDirectoryMode", "0700"),
        ("NoNewPrivileges", "yes"),
        ("LimitNOFILE", "8320"),
    ]);
    let folder = Folder::empty();
    let run = folder.path().to_str().unwrap();
    fs::create_dir(folder.file("perfetto")).unwrap();
    let (program, args) = unit.command_line();
    assert_eq!(program, "%h/.cargo/bin/tracezero");
    let args: Vec<String> = args.iter().map(|arg| arg.replace("%t", run)).collect();

    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/user");
    let environment = fs::read_to_string(units.join("tracezero-environment.conf")).unwrap();
    let value = |variable: &str| {
        let line = environment
            .lines()
            .find_map(|line| line.strip_prefix(variable));
        let value = line.unwrap().strip_prefix('=').unwrap();
        Path::new(&value.replace("${XDG_RUNTIME_DIR}", run)).to_owned()
    };
    let producers = value("PERFETTO_PRODUCER_SOCK_NAME");
    let consumers = value("PERFETTO_CONSUMER_SOCK_NAME");
    start_and_end(&args, &folder, &producers, &consumers);
}
