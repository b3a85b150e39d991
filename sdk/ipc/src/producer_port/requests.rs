//! Requests of a producer to its daemon.

use std::sync::Arc;

use protozero::DecodeError;
use tracezero_core::coordination::{
    CategoryDescriptor, DataSourceDescriptor as Descriptor, WriterTotals,
};
use tracezero_core::ids::{BufferId, InstanceId, WriterId};

use super::{Commit, Method, ReceivedIntroduction, buffer_id, writer_id, writer_totals};
use crate::protos::{
    ActivateTriggersRequest, ActivateTriggersRequestDecoder, DataSourceDescriptor,
    DataSourceDescriptorDecoder, NotifyDataSourceStartedRequest,
    NotifyDataSourceStartedRequestDecoder, NotifyDataSourceStoppedRequest,
    NotifyDataSourceStoppedRequestDecoder, RegisterDataSourceRequest,
    RegisterDataSourceRequestDecoder, RegisterTraceWriterRequest,
    RegisterTraceWriterRequestDecoder, UnregisterDataSourceRequest,
    UnregisterDataSourceRequestDecoder, UnregisterTraceWriterRequest,
    UnregisterTraceWriterRequestDecoder, UpdateDataSourceRequest, UpdateDataSourceRequestDecoder,
};
use crate::wire::encoded;

/// A request of a producer.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// The first request of a connection.
    InitializeConnection(ReceivedIntroduction<'a>),
    /// Offers a data source; `None` if the request has no descriptor.
    RegisterDataSource(Option<Descriptor>),
    /// Takes one offer of this name back.
    UnregisterDataSource {
        /// The name of the data source.
        name: &'a str,
    },
    /// Hands chunks over.
    CommitData(Commit<'a>),
    /// Asks for the commands, which are replies to this request.
    GetAsyncCommand,
    /// Names the buffer of a writer; `None` if the numbers are those of no writer and buffer.
    RegisterTraceWriter(Option<TraceWriter>),
    /// The writer with this id writes no more; `None` if no writer has the id.
    UnregisterTraceWriter(Option<WriterId>),
    /// An instance has started.
    NotifyDataSourceStarted(InstanceId),
    /// An instance has stopped.
    NotifyDataSourceStopped(InstanceId),
    /// Activates triggers.
    ActivateTriggers {
        /// Their names.
        names: Vec<&'a str>,
    },
    /// Asks for a reply behind everything before.
    Sync,
    /// Replaces the descriptor of a data source; `None` if the request has none.
    UpdateDataSource(Option<Descriptor>),
    /// Tells what became of the packets of writers.
    WriterTotals(Vec<WriterTotals>),
}

/// A writer and its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceWriter {
    /// The id of the writer, which is valid.
    pub writer_id: WriterId,
    /// The buffer that it writes to, as the producer says.
    pub target_buffer: BufferId,
}

impl<'a> Request<'a> {
    /// Decodes the arguments of a method.
    ///
    /// # Errors
    ///
    /// If they are malformed. Of a commit, [`Commit::decode`] reports that.
    pub fn decode(method: Method, args: &'a [u8]) -> Result<Self, DecodeError> {
        let id = |id: Option<u64>| InstanceId(id.unwrap_or_default());
        Ok(match method {
            Method::InitializeConnection => {
                Self::InitializeConnection(ReceivedIntroduction::decode(args)?)
            }
            Method::RegisterDataSource => {
                let request = RegisterDataSourceRequestDecoder::new(args);
                let descriptor = request.data_source_descriptor()?;
                Self::RegisterDataSource(descriptor.map(|it| described(&it)).transpose()?)
            }
            Method::UpdateDataSource => {
                let request = UpdateDataSourceRequestDecoder::new(args);
                let descriptor = request.data_source_descriptor()?;
                Self::UpdateDataSource(descriptor.map(|it| described(&it)).transpose()?)
            }
            Method::UnregisterDataSource => {
                let request = UnregisterDataSourceRequestDecoder::new(args);
                Self::UnregisterDataSource {
                    name: request.data_source_name()?.unwrap_or_default(),
                }
            }
            Method::CommitData => Self::CommitData(Commit::new(args)),
            Method::GetAsyncCommand => Self::GetAsyncCommand,
            Method::RegisterTraceWriter => {
                let request = RegisterTraceWriterRequestDecoder::new(args);
                let writer_id = writer_id(request.trace_writer_id()?);
                let target_buffer = buffer_id(request.target_buffer()?);
                Self::RegisterTraceWriter(writer_id.zip(target_buffer).map(
                    |(writer_id, target_buffer)| TraceWriter {
                        writer_id,
                        target_buffer,
                    },
                ))
            }
            Method::UnregisterTraceWriter => {
                let request = UnregisterTraceWriterRequestDecoder::new(args);
                Self::UnregisterTraceWriter(writer_id(request.trace_writer_id()?))
            }
            Method::NotifyDataSourceStarted => {
                let request = NotifyDataSourceStartedRequestDecoder::new(args);
                Self::NotifyDataSourceStarted(id(request.data_source_id()?))
            }
            Method::NotifyDataSourceStopped => {
                let request = NotifyDataSourceStoppedRequestDecoder::new(args);
                Self::NotifyDataSourceStopped(id(request.data_source_id()?))
            }
            Method::ActivateTriggers => {
                let request = ActivateTriggersRequestDecoder::new(args);
                Self::ActivateTriggers {
                    names: request.trigger_names().collect::<Result<_, _>>()?,
                }
            }
            Method::Sync => Self::Sync,
            Method::TracezeroWriterTotals => Self::WriterTotals(writer_totals::decode(args)?),
        })
    }
}

/// Encodes [`Method::RegisterDataSource`].
#[must_use]
pub fn register_data_source(descriptor: &Descriptor) -> Vec<u8> {
    encoded::<RegisterDataSourceRequest<'_>>(|out| {
        out.data_source_descriptor(|out| describe(descriptor, out));
    })
}

/// Encodes [`Method::UpdateDataSource`].
#[must_use]
pub fn update_data_source(descriptor: &Descriptor) -> Vec<u8> {
    encoded::<UpdateDataSourceRequest<'_>>(|out| {
        out.data_source_descriptor(|out| describe(descriptor, out));
    })
}

fn describe(descriptor: &Descriptor, out: &mut DataSourceDescriptor<'_>) {
    out.set_name(&descriptor.name);
    out.set_id(descriptor.id);
    out.set_will_notify_on_start(descriptor.notifies_start);
    out.set_will_notify_on_stop(descriptor.notifies_stop);
    out.set_handles_incremental_state_clear(descriptor.clears_incremental_state);
    out.set_no_flush(descriptor.needs_no_flush);
    if !descriptor.protovm_program.is_empty() {
        out.set_protovm_program(&descriptor.protovm_program);
    }
    if !descriptor.categories.is_empty() {
        out.track_event_descriptor(|out| {
            for category in &descriptor.categories {
                out.add_available_categories(|out| {
                    out.set_name(&category.name);
                    if !category.description.is_empty() {
                        out.set_description(&category.description);
                    }
                    for tag in &category.tags {
                        out.add_tags(tag);
                    }
                });
            }
        });
    }
}

/// Encodes [`Method::UnregisterDataSource`].
#[must_use]
pub fn unregister_data_source(name: &str) -> Vec<u8> {
    encoded::<UnregisterDataSourceRequest<'_>>(|out| {
        out.set_data_source_name(name);
    })
}

/// Encodes [`Method::RegisterTraceWriter`].
#[must_use]
pub fn register_trace_writer(writer: WriterId, target: BufferId) -> Vec<u8> {
    encoded::<RegisterTraceWriterRequest<'_>>(|out| {
        out.set_trace_writer_id(writer.0.into());
        out.set_target_buffer(target.0.into());
    })
}

/// Encodes [`Method::UnregisterTraceWriter`].
#[must_use]
pub fn unregister_trace_writer(writer: WriterId) -> Vec<u8> {
    encoded::<UnregisterTraceWriterRequest<'_>>(|out| {
        out.set_trace_writer_id(writer.0.into());
    })
}

/// Encodes [`Method::NotifyDataSourceStarted`].
#[must_use]
pub fn notify_started(instance: InstanceId) -> Vec<u8> {
    encoded::<NotifyDataSourceStartedRequest<'_>>(|out| {
        out.set_data_source_id(instance.0);
    })
}

/// Encodes [`Method::NotifyDataSourceStopped`].
#[must_use]
pub fn notify_stopped(instance: InstanceId) -> Vec<u8> {
    encoded::<NotifyDataSourceStoppedRequest<'_>>(|out| {
        out.set_data_source_id(instance.0);
    })
}

/// Encodes [`Method::ActivateTriggers`].
#[must_use]
pub fn activate_triggers(names: &[String]) -> Vec<u8> {
    encoded::<ActivateTriggersRequest<'_>>(|out| {
        for name in names {
            out.add_trigger_names(name);
        }
    })
}

fn described(descriptor: &DataSourceDescriptorDecoder<'_>) -> Result<Descriptor, DecodeError> {
    let mut categories = Vec::new();
    if let Some(track_events) = descriptor.track_event_descriptor()? {
        for category in track_events.available_categories() {
            let category = category?;
            let tags = category.tags().map(|tag| tag.map(str::to_owned));
            categories.push(CategoryDescriptor {
                name: category.name()?.unwrap_or_default().to_owned(),
                description: category.description()?.unwrap_or_default().to_owned(),
                tags: tags.collect::<Result<_, _>>()?,
            });
        }
    }
    Ok(Descriptor {
        name: descriptor.name()?.unwrap_or_default().to_owned(),
        id: descriptor.id()?.unwrap_or_default(),
        notifies_start: descriptor.will_notify_on_start()?.unwrap_or_default(),
        notifies_stop: descriptor.will_notify_on_stop()?.unwrap_or_default(),
        needs_no_flush: descriptor.no_flush()?.unwrap_or_default(),
        clears_incremental_state: descriptor
            .handles_incremental_state_clear()?
            .unwrap_or_default(),
        extension_descriptors: Arc::default(),
        protovm_program: descriptor.protovm_program()?.unwrap_or_default().into(),
        categories,
        encoded: descriptor.as_decoder().bytes().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(method: Method, args: &[u8]) -> Request<'_> {
        Request::decode(method, args).unwrap()
    }

    #[test]
    fn requests_are_decoded_as_producers_encode_them() {
        let mut descriptor = Descriptor {
            name: "ds".to_owned(),
            id: 7,
            notifies_stop: true,
            categories: vec![CategoryDescriptor {
                name: "c".to_owned(),
                description: "d".to_owned(),
                tags: vec!["t".to_owned()],
            }],
            ..Descriptor::default()
        };
        let args = register_data_source(&descriptor);
        let Request::RegisterDataSource(Some(received)) = decode(Method::RegisterDataSource, &args)
        else {
            panic!("no data source");
        };
        descriptor.encoded = args[2..].into();
        assert_eq!(received, descriptor);

        let args = unregister_data_source("ds");
        let request = decode(Method::UnregisterDataSource, &args);
        assert!(matches!(
            request,
            Request::UnregisterDataSource { name: "ds" }
        ));
        let args = activate_triggers(&["a".to_owned(), "b".to_owned()]);
        let request = decode(Method::ActivateTriggers, &args);
        assert!(matches!(request, Request::ActivateTriggers { names } if names == ["a", "b"]));
    }

    #[test]
    fn writers_that_cannot_be_are_refused() {
        for (writer, buffer, is_valid) in [
            (1, 1, true),
            (0, 1, false),
            (0x7fff, 0xffff, true),
            (0x8000, 1, false),
            (1, 0x1_0000, false),
        ] {
            let args = encoded::<RegisterTraceWriterRequest<'_>>(|out| {
                out.set_trace_writer_id(writer);
                out.set_target_buffer(buffer);
            });
            let Request::RegisterTraceWriter(found) = decode(Method::RegisterTraceWriter, &args)
            else {
                panic!("no writer");
            };
            assert_eq!(found.is_some(), is_valid, "{writer} {buffer}");
        }
        let args = register_trace_writer(WriterId(3), BufferId(4));
        let Request::RegisterTraceWriter(Some(writer)) = decode(Method::RegisterTraceWriter, &args)
        else {
            panic!("no writer");
        };
        assert_eq!(
            (writer.writer_id, writer.target_buffer),
            (WriterId(3), BufferId(4))
        );
    }
}
