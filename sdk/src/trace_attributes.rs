//! Attributes of this process's traces, from code.

use tracezero_core::attributes::{TraceAttributeValue, keys};
use tracezero_core::own_attributes;

/// Sets the name and the version of this service. Every trace says which service, process, machine and
/// boot it comes from, in attributes with OpenTelemetry's names; call this at the start of `main` to name
/// the first two.
///
/// ```
/// use tracezero::Session;
///
/// tracezero::set_service("api", env!("CARGO_PKG_VERSION"));
/// tracezero::set_trace_attribute("deployment.environment.name", "production");
/// # let path = std::env::temp_dir().join(format!("service-{}.pftrace", std::process::id()));
/// let session = Session::record_to_file(&path)?;
/// session.finish()?;
/// # let trace = std::fs::read(&path).unwrap();
/// # std::fs::remove_file(&path).unwrap();
/// # let has = |text: &[u8]| trace.windows(text.len()).any(|it| it == text);
/// # assert!(has(b"service.name") && has(b"production") && has(b"host.boot_id"));
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// `tracezero summary app.pftrace` prints them. In trace processor, `SELECT name, str_value FROM metadata
/// WHERE name GLOB 'trace_attribute.*'` lists them.
///
/// | attribute | value |
/// |---|---|
/// | `service.name` | the name; without this call, that of the executable |
/// | `service.version` | the version |
/// | `process.executable.name`, `process.pid` | the name of the executable without its folder, and the id of the process |
/// | `host.name` | the name of the machine |
/// | `host.id` | an id of the machine, made of `/etc/machine-id` for tracezero alone: `systemd-id128 machine-id --app-specific=20cbc6ce596b46d5bc017103bb4aff29` prints the same |
/// | `host.boot_id` | the id of the machine's boot, from `/proc/sys/kernel/random/boot_id`. OpenTelemetry has no name for it |
/// | `telemetry.sdk.name`, `.language`, `.version` | `tracezero`, `rust`, the version of tracezero |
///
/// The environment can set attributes, too, as for OpenTelemetry's SDKs: `OTEL_SERVICE_NAME=api`, and
/// `OTEL_RESOURCE_ATTRIBUTES=service.version=1.2,team=a%2Cb`. It is read once. What counts, from most to
/// least: the [configuration](crate::TraceConfig::add_trace_attribute) of the session, code,
/// `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, the system. A malformed variable is ignored as a whole,
/// and the [`Report`](crate::Report) has a [`Warning`](crate::Warning).
///
/// A session has the attributes of the time when it starts; later calls have no effect on it. Snapshots of
/// a session, files of a flight recorder and traces of crash files have those of their session. The
/// captures of tests have none, so that they are the same on every machine. A trace that a daemon records
/// has the attributes of the daemon's machine and environment, because its processes may be of several
/// services. [`BuiltinDataSources::without_trace_attributes`](crate::BuiltinDataSources) leaves all of
/// them out.
pub fn set_service(name: impl Into<String>, version: impl Into<String>) {
    set_trace_attribute(keys::SERVICE_NAME, name.into());
    set_trace_attribute(keys::SERVICE_VERSION, version.into());
}

/// Sets an attribute of the traces of all sessions of this process that start later; see
/// [`set_service`]. The value is an `i64`, `&str` or `String`. An earlier value of the key is replaced,
/// also one that the environment or the system gives.
///
/// ```
/// tracezero::set_trace_attribute("service.instance.id", "api-7");
/// tracezero::set_trace_attribute("com.example.shard", 12);
/// // The machine's own id, to join traces with other telemetry that has it.
/// if let Ok(id) = std::fs::read_to_string("/etc/machine-id") {
///     tracezero::set_trace_attribute("host.id", id.trim());
/// }
/// ```
pub fn set_trace_attribute(key: impl Into<String>, value: impl Into<TraceAttributeValue>) {
    own_attributes::set(key.into(), value.into());
}
