//! Frames: a client binds a service, and invokes its methods.
//!
//! A reply has the number of its request. A method may reply several times; all replies but the last
//! say that more follow.

use protozero::{DecodeError, HeapBuffered, Writer};

use crate::frame::{FRAME_MAX_BYTES, append_frame};
use crate::protos::ipc_frame::Msg;
use crate::protos::{IpcFrame, IpcFrameDecoder};

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The number of the request, which its client has chosen.
    pub request_id: u64,
    /// The content of the frame.
    pub body: Body<'a>,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A client asks for the methods of a service.
    Bind {
        /// The name of the service, such as `ProducerPort`.
        service: &'a str,
    },
    /// The host answers; `None` if it has no such service.
    Bound(Option<BoundService<'a>>),
    /// A client invokes a method.
    Invoke {
        /// The number of the service.
        service_id: u32,
        /// The number of the method.
        method_id: u32,
        /// The encoded request.
        args: &'a [u8],
        /// True if the client wants no reply.
        drops_reply: bool,
    },
    /// The host replies; `None` if the method failed or does not exist.
    Reply {
        /// The encoded reply.
        reply: Option<&'a [u8]>,
        /// True if more replies follow.
        has_more: bool,
    },
    /// The host does not know what the request is.
    Error {
        /// The reason.
        text: &'a str,
    },
    /// A body that this version does not know.
    Unknown,
}

/// The methods of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundService<'a> {
    /// The number of the service, which is not 0.
    pub service_id: u32,
    /// The names and numbers of the methods.
    pub methods: Vec<(&'a str, u32)>,
}

impl BoundService<'_> {
    /// Returns the number of a method; `None` if the host does not have it.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<u32> {
        let found = self.methods.iter().find(|(other, _)| *other == name);
        found.map(|(_, id)| *id)
    }
}

impl<'a> Frame<'a> {
    /// Decodes a frame, without its length.
    ///
    /// # Errors
    ///
    /// If the frame is malformed.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let frame = IpcFrameDecoder::new(bytes);
        let body = match frame.msg()? {
            Some(Msg::MsgBindService(bind)) => Body::Bind {
                service: bind.service_name()?.unwrap_or_default(),
            },
            Some(Msg::MsgBindServiceReply(reply)) => {
                let service_id = reply.service_id()?.unwrap_or_default();
                let mut bound = BoundService {
                    service_id,
                    methods: Vec::new(),
                };
                for method in reply.methods() {
                    let method = method?;
                    let (name, id) = (method.name()?.unwrap_or_default(), method.id()?);
                    // Methods without a name or a number cannot be invoked.
                    if let Some(id) = id.filter(|id| *id > 0 && !name.is_empty()) {
                        bound.methods.push((name, id));
                    }
                }
                let is_bound = reply.success()?.unwrap_or_default() && service_id > 0;
                Body::Bound(is_bound.then_some(bound))
            }
            Some(Msg::MsgInvokeMethod(invoke)) => Body::Invoke {
                service_id: invoke.service_id()?.unwrap_or_default(),
                method_id: invoke.method_id()?.unwrap_or_default(),
                args: invoke.args_proto()?.unwrap_or_default(),
                drops_reply: invoke.drop_reply()?.unwrap_or_default(),
            },
            Some(Msg::MsgInvokeMethodReply(reply)) => {
                let bytes = reply.reply_proto()?.unwrap_or_default();
                Body::Reply {
                    reply: reply.success()?.unwrap_or_default().then_some(bytes),
                    has_more: reply.has_more()?.unwrap_or_default(),
                }
            }
            Some(Msg::MsgRequestError(error)) => Body::Error {
                text: error.error()?.unwrap_or_default(),
            },
            None => Body::Unknown,
        };
        Ok(Self {
            request_id: frame.request_id()?.unwrap_or_default(),
            body,
        })
    }

    /// Appends the frame with its length to a stream.
    ///
    /// # Panics
    ///
    /// If the frame is too long: see [`append_frame`].
    pub fn append_to(&self, stream: &mut Vec<u8>) {
        assert!(self.append_if_it_fits(stream), "a frame is too long");
    }

    /// Appends the frame with its length to a stream. Returns false, and appends nothing, if it is
    /// longer than [`FRAME_MAX_BYTES`].
    #[must_use]
    pub fn append_if_it_fits(&self, stream: &mut Vec<u8>) -> bool {
        let bytes = encoded::<IpcFrame<'_>>(|out| self.write(out));
        let fits = bytes.len() <= FRAME_MAX_BYTES;
        if fits {
            append_frame(stream, &bytes);
        }
        fits
    }

    fn write(&self, frame: &mut IpcFrame<'_>) {
        frame.set_request_id(self.request_id);
        match &self.body {
            Body::Bind { service } => {
                frame.msg_bind_service(|bind| {
                    bind.set_service_name(service);
                });
            }
            Body::Bound(bound) => {
                frame.msg_bind_service_reply(|reply| {
                    let Some(bound) = bound else {
                        return;
                    };
                    reply.set_success(true);
                    reply.set_service_id(bound.service_id);
                    for (name, id) in &bound.methods {
                        reply.add_methods(|method| {
                            method.set_id(*id);
                            method.set_name(name);
                        });
                    }
                });
            }
            Body::Invoke {
                service_id,
                method_id,
                args,
                drops_reply,
            } => {
                frame.msg_invoke_method(|invoke| {
                    invoke.set_service_id(*service_id);
                    invoke.set_method_id(*method_id);
                    invoke.set_args_proto(args);
                    invoke.set_drop_reply(*drops_reply);
                });
            }
            Body::Reply { reply, has_more } => {
                frame.msg_invoke_method_reply(|out| {
                    let Some(bytes) = reply else {
                        return;
                    };
                    out.set_success(true);
                    out.set_has_more(*has_more);
                    out.set_reply_proto(bytes);
                });
            }
            Body::Error { text } => {
                frame.msg_request_error(|error| {
                    error.set_error(text);
                });
            }
            Body::Unknown => {}
        }
    }
}

/// Encodes a message.
pub(crate) fn encoded<M: Writer>(write: impl FnOnce(&mut M::At<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<M>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

#[cfg(test)]
mod tests;
