//! Commands of the daemon for a producer, as replies to one request of the producer.

use protozero::DecodeError;
use tracezero_core::coordination::{BufferExhaustedPolicy, FlushFlags};
use tracezero_core::ids::{BufferId, FlushId, InstanceId};
use tracezero_core::protos::DataSourceConfigDecoder;
use tracezero_core::protos::data_source_config::BufferExhaustedPolicy as WirePolicy;

use crate::protos::get_async_command_response::Cmd;
use crate::protos::{GetAsyncCommandResponse, GetAsyncCommandResponseDecoder};
use crate::wire::encoded;

/// A command of a daemon for a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Use the shared memory whose descriptor comes with the command.
    SetUpTracing {
        /// The size of its pages, in KiB.
        page_size_kib: u32,
    },
    /// Prepare an instance of a data source.
    SetUp(InstanceId, DataSourceConfig<'a>),
    /// Start an instance.
    Start(InstanceId, DataSourceConfig<'a>),
    /// Stop an instance.
    Stop(InstanceId),
    /// Commit all that these instances hold, and answer.
    Flush {
        /// The number of the flush.
        flush: FlushId,
        /// The instances; there may be none.
        instances: Vec<InstanceId>,
        /// Why it is asked for.
        flags: FlushFlags,
    },
    /// Let later packets of these instances depend on no earlier ones.
    ClearIncrementalState(Vec<InstanceId>),
    /// Change the configuration of an instance: the bytes are an encoded `DataSourceConfig`.
    Change(InstanceId, &'a [u8]),
    /// A command that this version does not know.
    Unknown,
}

/// The configuration of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSourceConfig<'a> {
    /// The name of the data source.
    pub name: &'a str,
    /// The number of the session; 0 if the daemon does not say.
    pub session: u64,
    /// The trace buffer for its packets.
    pub target_buffer: BufferId,
    /// The policy of its writers when there is no room; `None` if the daemon leaves it to the producer.
    pub exhausted_policy: Option<BufferExhaustedPolicy>,
    /// The whole configuration, encoded.
    pub bytes: &'a [u8],
}

impl<'a> DataSourceConfig<'a> {
    fn decode(config: Option<&DataSourceConfigDecoder<'a>>) -> Result<Self, DecodeError> {
        let empty = DataSourceConfigDecoder::new(&[]);
        let config = config.unwrap_or(&empty);
        Ok(Self {
            name: config.name()?.unwrap_or_default(),
            session: config.tracing_session_id()?.unwrap_or_default(),
            target_buffer: BufferId(config.target_buffer()?.unwrap_or_default() as u16),
            exhausted_policy: match config.buffer_exhausted_policy()? {
                Some(WirePolicy::BUFFER_EXHAUSTED_DROP) => Some(BufferExhaustedPolicy::Drop),
                Some(WirePolicy::BUFFER_EXHAUSTED_STALL_THEN_ABORT) => {
                    Some(BufferExhaustedPolicy::Stall)
                }
                Some(WirePolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP) => {
                    Some(BufferExhaustedPolicy::StallThenDrop)
                }
                _ => None,
            },
            bytes: config.as_decoder().bytes(),
        })
    }
}

impl<'a> Command<'a> {
    /// Decodes a reply to [`Method::GetAsyncCommand`](super::Method::GetAsyncCommand).
    ///
    /// # Errors
    ///
    /// If the reply is malformed.
    pub fn decode(reply: &'a [u8]) -> Result<Self, DecodeError> {
        let id = |id: Option<u64>| InstanceId(id.unwrap_or_default());
        Ok(match GetAsyncCommandResponseDecoder::new(reply).cmd()? {
            Some(Cmd::SetupTracing(setup)) => Self::SetUpTracing {
                page_size_kib: setup.shared_buffer_page_size_kb()?.unwrap_or_default(),
            },
            Some(Cmd::SetupDataSource(setup)) => {
                let config = DataSourceConfig::decode(setup.config()?.as_ref())?;
                Self::SetUp(id(setup.new_instance_id()?), config)
            }
            Some(Cmd::StartDataSource(start)) => {
                let config = DataSourceConfig::decode(start.config()?.as_ref())?;
                Self::Start(id(start.new_instance_id()?), config)
            }
            Some(Cmd::StopDataSource(stop)) => Self::Stop(id(stop.instance_id()?)),
            Some(Cmd::Flush(flush)) => Self::Flush {
                flush: FlushId(flush.request_id()?.unwrap_or_default()),
                instances: instances(flush.data_source_ids())?,
                flags: FlushFlags::from_bits(flush.flags()?.unwrap_or_default()),
            },
            Some(Cmd::ClearIncrementalState(clear)) => {
                Self::ClearIncrementalState(instances(clear.data_source_ids())?)
            }
            Some(Cmd::TracezeroChangeDataSource(change)) => {
                let config = change.config()?;
                let bytes = config.map_or(&[][..], |config| config.as_decoder().bytes());
                Self::Change(id(change.instance_id()?), bytes)
            }
            None => Self::Unknown,
        })
    }
}

fn instances(
    ids: impl Iterator<Item = Result<u64, DecodeError>>,
) -> Result<Vec<InstanceId>, DecodeError> {
    ids.map(|id| id.map(InstanceId)).collect()
}

/// Encodes the command to use the shared memory whose descriptor comes with it. `page_size_kib` is
/// `None` if the memory is the producer's own, and no descriptor comes.
#[must_use]
pub fn set_up_tracing(page_size_kib: Option<u32>) -> Vec<u8> {
    command(|out| {
        out.setup_tracing(|out| {
            if let Some(page_size_kib) = page_size_kib {
                out.set_shared_buffer_page_size_kb(page_size_kib);
            }
        });
    })
}

/// Encodes the command to prepare an instance. `config` is an encoded `DataSourceConfig`.
#[must_use]
pub fn set_up(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.setup_data_source(|out| {
            out.set_new_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

/// Encodes the command to start an instance. `config` is that of its set-up.
#[must_use]
pub fn start(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.start_data_source(|out| {
            out.set_new_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

/// Encodes the command to stop an instance.
#[must_use]
pub fn stop(instance: InstanceId) -> Vec<u8> {
    command(|out| {
        out.stop_data_source(|out| {
            out.set_instance_id(instance.0);
        });
    })
}

/// Encodes the command to flush instances.
#[must_use]
pub fn flush(flush: FlushId, instances: &[InstanceId], flags: FlushFlags) -> Vec<u8> {
    command(|out| {
        out.flush(|out| {
            for instance in instances {
                out.add_data_source_ids(instance.0);
            }
            out.set_request_id(flush.0);
            out.set_flags(flags.bits());
        });
    })
}

/// Encodes the command to start the incremental state of instances again.
#[must_use]
pub fn clear_incremental_state(instances: &[InstanceId]) -> Vec<u8> {
    command(|out| {
        out.clear_incremental_state(|out| {
            for instance in instances {
                out.add_data_source_ids(instance.0);
            }
        });
    })
}

/// Encodes the command to change the configuration of an instance, for producers that
/// [take changes](super::ReceivedIntroduction::takes_changes). `config` is an encoded `DataSourceConfig`.
#[must_use]
pub fn change(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.tracezero_change_data_source(|out| {
            out.set_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

fn command(write: impl FnOnce(&mut GetAsyncCommandResponse<'_>)) -> Vec<u8> {
    encoded::<GetAsyncCommandResponse<'_>>(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_decoded() {
        let decode = |bytes| Command::decode(bytes).unwrap();
        let page = Command::SetUpTracing { page_size_kib: 4 };
        assert_eq!(decode(&[0x1a, 2, 8, 4]), page);
        assert_eq!(decode(&[0x12, 2, 8, 7]), Command::Stop(InstanceId(7)));
        let flush = Command::Flush {
            flush: FlushId(9),
            instances: vec![InstanceId(1), InstanceId(2)],
            flags: FlushFlags::from_bits(0x22),
        };
        assert_eq!(decode(&[0x2a, 8, 8, 1, 8, 2, 16, 9, 24, 0x22]), flush);
        // Packed numbers mean the same.
        assert_eq!(decode(&[0x2a, 8, 10, 2, 1, 2, 16, 9, 24, 0x22]), flush);
        let Command::SetUp(InstanceId(3), config) =
            decode(b"\x32\x0b\x08\x03\x12\x07\x0a\x01a\x10\x05\x48\x01")
        else {
            panic!("no set-up");
        };
        assert_eq!((config.name, config.target_buffer), ("a", BufferId(5)));
        assert_eq!(config.exhausted_policy, Some(BufferExhaustedPolicy::Drop));
        assert_eq!(config.bytes, b"\x0a\x01a\x10\x05\x48\x01");
        assert_eq!(decode(&[0x22, 0]), Command::Unknown);
        assert_eq!(decode(&[]), Command::Unknown);
    }

    #[test]
    fn commands_are_decoded_as_the_daemon_encodes_them() {
        let config = b"\x0a\x02ds\x10\x05";
        let instances = [InstanceId(1), InstanceId(300)];
        let flags = FlushFlags::explicit();
        let prepared = set_up(InstanceId(7), config);
        let Command::SetUp(InstanceId(7), received) = Command::decode(&prepared).unwrap() else {
            panic!("no set-up");
        };
        assert_eq!((received.name, received.bytes), ("ds", &config[..]));
        let started = start(InstanceId(7), config);
        let started = Command::decode(&started).unwrap();
        assert_eq!(started, Command::Start(InstanceId(7), received));
        for (command, expected) in [
            (
                set_up_tracing(Some(4)),
                Command::SetUpTracing { page_size_kib: 4 },
            ),
            (stop(InstanceId(9)), Command::Stop(InstanceId(9))),
            (
                flush(FlushId(3), &instances, flags),
                Command::Flush {
                    flush: FlushId(3),
                    instances: instances.to_vec(),
                    flags,
                },
            ),
            (
                change(InstanceId(9), config),
                Command::Change(InstanceId(9), config),
            ),
            (
                clear_incremental_state(&instances),
                Command::ClearIncrementalState(instances.to_vec()),
            ),
        ] {
            assert_eq!(Command::decode(&command).unwrap(), expected);
        }
    }
}
