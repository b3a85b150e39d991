//! Names of attributes. All are OpenTelemetry's, except for [`HOST_BOOT_ID`].

/// The name of the service.
pub const SERVICE_NAME: &str = "service.name";
/// The version of the service.
pub const SERVICE_VERSION: &str = "service.version";
/// The id of one of several processes of a service.
pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";
/// The name of the machine.
pub const HOST_NAME: &str = "host.name";
/// The id of the machine.
pub const HOST_ID: &str = "host.id";
/// The id of the machine's present boot. Times on the trace clock can be compared between traces of the
/// same boot. OpenTelemetry has no name for it.
pub const HOST_BOOT_ID: &str = "host.boot_id";
/// The id of the process.
pub const PROCESS_PID: &str = "process.pid";
/// The name of the program's file, without its folder.
pub const PROCESS_EXECUTABLE_NAME: &str = "process.executable.name";
/// The name of the library that records.
pub const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";
/// The language of the library that records.
pub const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
/// The version of the library that records.
pub const TELEMETRY_SDK_VERSION: &str = "telemetry.sdk.version";
