//! The configuration of a recording.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use protozero::OwnedMessage as _;
use tracezero_core::attributes::keys;
use tracezero_core::own_attributes;
use tracezero_core::protos;
use tracezero_core::protos::owned::trace_attributes::{Attribute, attribute};
use tracezero_core::protos::owned::trace_config::{BufferConfig, DataSource};
use tracezero_core::protos::owned::{DataSourceConfig, TraceConfig, TrackEventConfig};

use super::{Args, kernel};
use crate::error::ToolError;
use crate::probes;

/// The data source that records the events of the macros, and of Perfetto's SDK.
pub(super) const TRACK_EVENT: &str = "track_event";

/// The period at which the daemon writes buffered packets into the file, if the configuration has
/// none. A recording that is killed lacks the packets of about one period.
const WRITE_PERIOD_MS: u32 = 500;

/// A configuration, and when its trace is written.
#[derive(Debug)]
pub(super) struct Config {
    /// An encoded `TraceConfig`.
    pub(super) encoded: Vec<u8>,
    /// True if the daemon writes the file while it records. Otherwise the buffers are written when the
    /// recording ends.
    pub(super) streams: bool,
    /// True if it has data sources that this command can offer.
    pub(super) wants_kernel: bool,
    /// The names of its data sources.
    pub(super) data_sources: Vec<String>,
}

/// Returns the configuration: from the file of `--config`, or from the other options.
pub(super) fn config(args: &Args) -> Result<Config, ToolError> {
    let mut config = match &args.config {
        Some(path) => of_file(path)?,
        None => of_options(args),
    };
    // A file says whether it wants a ring of the newest packets. A recording that goes on without this
    // command has nobody else to write it.
    let streams =
        args.config.is_none() || args.detach.is_some() || config.write_into_file == Some(true);
    if streams {
        config.write_into_file = Some(true);
        config.file_write_period_ms.get_or_insert(WRITE_PERIOD_MS);
    }
    // A session without a name gets the key as its name. `status` lists names, and `snapshot`
    // accepts them.
    if let Some(key) = &args.detach {
        config
            .unique_session_name
            .get_or_insert_with(|| key.clone());
    }
    if let Some(time) = args.time {
        config.duration_ms = Some(milliseconds(time));
    }
    if let Some(program) = args.program.first() {
        name_service(&mut config, program);
    }
    Ok(Config {
        wants_kernel: kernel::is_wanted(&config),
        data_sources: names(&config),
        encoded: config.encode_to_vec(),
        streams,
    })
}

/// Names the service in the trace's attributes after the program, unless the configuration or the
/// environment names it. The daemon does not, because it may record programs of several services.
fn name_service(config: &mut TraceConfig, program: &OsStr) {
    let Some(executable) = Path::new(program).file_name() else {
        return;
    };
    let executable = executable.to_string_lossy();
    let attributes = &mut config.trace_attributes.get_or_insert_default().attribute;
    let mut add = |key: &str| {
        if attributes.iter().all(|it| it.key.as_deref() != Some(key)) {
            attributes.push(Attribute {
                key: Some(key.to_owned()),
                value: Some(attribute::Value::StringValue(executable.to_string())),
                ..Attribute::default()
            });
        }
    };
    if own_attributes::of_daemon()
        .get(keys::SERVICE_NAME)
        .is_none()
    {
        add(keys::SERVICE_NAME);
    }
    add(keys::PROCESS_EXECUTABLE_NAME);
}

fn names(config: &TraceConfig) -> Vec<String> {
    let data_sources = config.data_sources.iter();
    data_sources
        .filter_map(|data_source| data_source.config.as_ref()?.name.clone())
        .collect()
}

fn of_options(args: &Args) -> TraceConfig {
    let buffer = BufferConfig {
        size_kb: Some(args.buffer),
        ..BufferConfig::default()
    };
    let categories = (!args.categories.is_empty()).then(|| TrackEventConfig {
        enabled_categories: args.categories.clone(),
        disabled_categories: vec!["*".to_owned()],
        ..TrackEventConfig::default()
    });
    let data_source = DataSourceConfig {
        name: Some(TRACK_EVENT.to_owned()),
        track_event_config: categories,
        ..DataSourceConfig::default()
    };
    let mut data_sources = vec![DataSource {
        config: Some(data_source),
        ..DataSource::default()
    }];
    if !args.kernel.is_empty() {
        let of_kernel = kernel::data_sources(&args.kernel, args.kernel_buffer);
        data_sources.extend(of_kernel.into_iter().map(of_this_command));
    }
    TraceConfig {
        buffers: vec![buffer],
        data_sources,
        ..TraceConfig::default()
    }
}

/// Returns a data source that only this command records, not Perfetto's recorder of the kernel.
fn of_this_command((name, fields): (&str, Vec<u8>)) -> DataSource {
    let mut config = DataSourceConfig {
        name: Some(name.to_owned()),
        ..DataSourceConfig::default()
    };
    config
        .unknown_fields
        .append::<protos::DataSourceConfig<'_>>(|config| {
            config.as_message_mut().append_raw(&fields);
        });
    DataSource {
        config: Some(config),
        producer_name_filter: vec![probes::producer_name()],
        ..DataSource::default()
    }
}

/// Reads a configuration in protobuf's text format, or an encoded one.
fn of_file(path: &Path) -> Result<TraceConfig, ToolError> {
    let bytes = fs::read(path).map_err(|source| ToolError::Open {
        path: path.to_owned(),
        source,
    })?;
    let is_text = |text: &&str| !text.contains(|it: char| it.is_control() && !it.is_whitespace());
    let config = match str::from_utf8(&bytes).ok().filter(is_text) {
        Some(text) => tracezero_config::from_text(text).map_err(|error| error.to_string()),
        None => TraceConfig::decode(&bytes).map_err(|error| error.to_string()),
    };
    let config = config.map_err(|message| ToolError::Read {
        path: path.to_owned(),
        message,
    })?;
    if config.output_path.is_some() {
        return Err(ToolError::Usage(format!(
            "{} has an output_path: remove it, and name the file with -o",
            path.display()
        )));
    }
    Ok(config)
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}
