//! Configurations of data sources, for sessions of this process.

use protozero::HeapBuffered;
use tracezero::{BufferExhaustedPolicy, DataSourceConfig};
use tracezero_kernel::protos::SourceConfigs;

/// Returns the configuration of the data source with this name. `write` writes its message.
///
/// Threads of this package wait while the shared memory is full: no thread of the application waits
/// for them.
pub(crate) fn source_config(
    name: &str,
    write: impl FnOnce(&mut SourceConfigs<'_>),
) -> DataSourceConfig {
    DataSourceConfig::new(name)
        .source_specific(&encode(write))
        .exhausted_policy(BufferExhaustedPolicy::StallThenDrop)
}

/// Returns the encoded message that `write` writes.
pub(crate) fn encode(write: impl FnOnce(&mut SourceConfigs<'_>)) -> Vec<u8> {
    let mut fields = HeapBuffered::<SourceConfigs<'_>>::new();
    write(&mut fields.message());
    fields.to_vec()
}
