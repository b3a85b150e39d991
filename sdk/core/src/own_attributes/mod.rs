//! The attributes of the traces of this process, from four places. Each counts more than those before it: what the
//! system tells, the list in the environment, the service's name in the environment, code.
//! OpenTelemetry's SDKs order them in the same way.

mod environment; // attributes in the environment, as OpenTelemetry has them
mod host; // attributes of the machine
mod host_id; // an id of the machine that does not give away the machine's own
mod sha256; // the hash that the id is made with

use std::env;
use std::sync::LazyLock;

use parking_lot::Mutex;

use self::environment::FromEnvironment;
use self::host::put_host;
use crate::attributes::{TraceAttributeValue, TraceAttributes, keys};
use crate::{forked_child, own_process};

pub use self::environment::RefusedVariable;

/// The attributes that code has set.
static OF_CODE: Mutex<TraceAttributes> = Mutex::new(TraceAttributes::new());

/// The attributes that do not change while the process lives.
static OF_HOST: LazyLock<TraceAttributes> = LazyLock::new(|| {
    let mut attributes = TraceAttributes::new();
    put_host(&mut attributes);
    attributes.set(keys::TELEMETRY_SDK_NAME, "tracezero");
    attributes.set(keys::TELEMETRY_SDK_LANGUAGE, "rust");
    attributes.set(keys::TELEMETRY_SDK_VERSION, env!("CARGO_PKG_VERSION"));
    attributes
});

/// Read once: a program may change its environment later, for programs that it starts.
static OF_ENVIRONMENT: LazyLock<FromEnvironment> =
    LazyLock::new(|| FromEnvironment::read(|name| env::var_os(name)));

/// Sets an attribute of the traces of all sessions that start later. In a forked child, which records
/// nothing, it has no effect.
pub fn set(key: String, value: TraceAttributeValue) {
    // Another thread of the parent may have held the lock at the fork.
    if !forked_child::is_disabled() {
        OF_CODE.lock().set(key, value);
    }
}

/// Returns the attributes of a trace that this process records of itself.
#[must_use]
pub fn of_process() -> TraceAttributes {
    let mut attributes = OF_HOST.clone();
    let executable = own_process::executable_name();
    if executable.is_empty() {
        // OpenTelemetry's name for a service whose name nobody knows.
        attributes.set(keys::SERVICE_NAME, "unknown_service");
    } else {
        attributes.set(keys::SERVICE_NAME, executable.as_str());
        attributes.set(keys::PROCESS_EXECUTABLE_NAME, executable);
    }
    let pid = i64::from(std::process::id());
    attributes.set(keys::PROCESS_PID, pid);
    attributes.put_over(&OF_ENVIRONMENT.attributes);
    attributes.put_over(&OF_CODE.lock());
    attributes
}

/// Returns the attributes of a trace that this process records as a daemon: those of the machine and of
/// the environment. The processes in the trace are those of producers, and may be of several services.
#[must_use]
pub fn of_daemon() -> TraceAttributes {
    let mut attributes = OF_HOST.clone();
    attributes.put_over(&OF_ENVIRONMENT.attributes);
    attributes
}

/// Returns the variables of the environment that were ignored, because they are malformed.
#[must_use]
pub fn refused_environment() -> &'static [RefusedVariable] {
    &OF_ENVIRONMENT.refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_itself_and_its_machine() {
        let attributes = of_process();
        let executable = attributes.text(keys::PROCESS_EXECUTABLE_NAME).unwrap();
        assert!(executable.starts_with("tracezero_core"), "{executable}");
        assert_eq!(attributes.text(keys::SERVICE_NAME), Some(executable));
        let boot_id = attributes.text(keys::HOST_BOOT_ID).unwrap();
        assert_eq!(boot_id.len(), 36, "{boot_id}");
        let pid = i64::from(std::process::id());
        let pid = Some(&TraceAttributeValue::Long(pid));
        assert_eq!(attributes.get(keys::PROCESS_PID), pid);
        let of_daemon = of_daemon();
        assert_eq!(of_daemon.get(keys::SERVICE_NAME), None);
        let host = attributes.get(keys::HOST_NAME);
        assert_eq!(of_daemon.get(keys::HOST_NAME), host);
    }

    #[test]
    fn code_counts_more_than_what_the_system_tells() {
        set("service.instance.id".to_owned(), "a-1".into());
        set("service.instance.id".to_owned(), 2.into());
        let attributes = of_process();
        let id = attributes.get(keys::SERVICE_INSTANCE_ID);
        assert_eq!(id, Some(&TraceAttributeValue::Long(2)));
        assert_eq!(of_daemon().get(keys::SERVICE_INSTANCE_ID), None);
    }
}
