//! A consumer that reads traces.

use std::os::fd::OwnedFd;

use protozero::{OwnedMessage as _, append_varint};
use tracezero_core::coordination::FlushFlags;
use tracezero_ipc::consumer_port::read_buffers::decode_slices;
use tracezero_ipc::consumer_port::replies::{Cloned, decode_cloned, decode_tracing_disabled};
use tracezero_ipc::consumer_port::requests::{CloneSession, CloneSource, Request};
use tracezero_ipc::consumer_port::service_state::decode_service_state;
use tracezero_ipc::protos::TracingServiceStateDecoder;

use crate::peer::Peer;

/// A consumer.
pub struct Consumer {
    pub peer: Peer,
}

impl Consumer {
    pub fn new(peer: Peer) -> Self {
        Self { peer }
    }

    /// Sends a request, and returns its number.
    pub fn ask(&mut self, request: &Request<'_>) -> u64 {
        self.peer.invoke(request.method().id(), &request.encode())
    }

    pub fn ask_with(&mut self, request: &Request<'_>, descriptor: OwnedFd) -> u64 {
        let id = request.method().id();
        self.peer.invoke_with(id, &request.encode(), descriptor)
    }

    /// Returns the only reply to a request. `None` says that it has failed.
    #[track_caller]
    pub fn call(&mut self, request: &Request<'_>) -> Option<Vec<u8>> {
        let request_id = self.ask(request);
        self.peer.reply(request_id)
    }

    /// Asks for a session. Returns the number of the request, which is answered at the end.
    pub fn enable(&mut self, config: &str) -> u64 {
        self.enable_encoded(&encoded(config))
    }

    /// Asks for a session with an encoded configuration, which may be wrong.
    pub fn enable_encoded(&mut self, config: &[u8]) -> u64 {
        self.ask(&enabling(config))
    }

    /// Asks for a session that writes into a file.
    pub fn enable_with(&mut self, config: &str, file: impl Into<OwnedFd>) -> u64 {
        self.ask_with(&enabling(&encoded(config)), file.into())
    }

    /// Asks to be told of the end of the session that was attached. Returns the number of the request.
    pub fn ask_for_end(&mut self) -> u64 {
        self.ask(&Request::EnableTracing {
            config: &[],
            attaches_notification_only: true,
        })
    }

    /// Waits for the end of a session. Returns the reason, if it was not asked to end.
    #[track_caller]
    pub fn ended(&mut self, enable_request: u64) -> Option<String> {
        let reply = self.peer.reply(enable_request).expect("a success");
        let reason = decode_tracing_disabled(&reply).unwrap();
        reason.map(str::to_owned)
    }

    /// Asks for a session that is refused, and returns the reason.
    #[track_caller]
    pub fn refused(&mut self, config: &str) -> String {
        let request = self.enable(config);
        self.ended(request).expect("a reason")
    }

    pub fn ask_to_flush(&mut self, timeout_ms: u32) -> u64 {
        let flags = FlushFlags::explicit();
        self.ask(&Request::Flush { timeout_ms, flags })
    }

    /// Ends the session, and waits for the reply.
    #[track_caller]
    pub fn disable(&mut self) {
        let reply = self.call(&Request::DisableTracing);
        assert_eq!(reply, Some(vec![]));
    }

    /// Reads the trace.
    #[track_caller]
    pub fn read(&mut self) -> Vec<u8> {
        let request = self.ask(&Request::ReadBuffers);
        self.read_replies(request)
    }

    /// Collects the replies to ReadBuffers.
    #[track_caller]
    pub fn read_replies(&mut self, request: u64) -> Vec<u8> {
        self.read_replies_and(request, || ())
    }

    /// Collects the replies to ReadBuffers. Calls `between` after each that others follow.
    #[track_caller]
    pub fn read_replies_and(&mut self, request: u64, mut between: impl FnMut()) -> Vec<u8> {
        let (mut trace, mut packet) = (Vec::new(), Vec::new());
        loop {
            let (reply, has_more) = self.peer.reply_part(request);
            for slice in decode_slices(&reply.expect("a success")) {
                let slice = slice.unwrap();
                packet.extend_from_slice(slice.data);
                if slice.ends_packet {
                    trace.push(0x0a);
                    append_varint(packet.len() as u64, &mut trace);
                    trace.append(&mut packet);
                }
            }
            if !has_more {
                assert!(packet.is_empty(), "the last packet has no end");
                return trace;
            }
            between();
        }
    }

    /// Reads the numbers of the packets.
    #[track_caller]
    pub fn read_numbers(&mut self) -> Vec<u64> {
        support::numbers(&self.read())
    }

    /// Asks what the daemon has.
    #[track_caller]
    pub fn state(&mut self) -> State {
        let sessions_only = false;
        let request = self.ask(&Request::QueryServiceState { sessions_only });
        let mut encoded = Vec::new();
        loop {
            let (reply, has_more) = self.peer.reply_part(request);
            encoded.extend_from_slice(decode_service_state(&reply.unwrap()).unwrap());
            if !has_more {
                return State::decode(&encoded);
            }
        }
    }

    /// Clones a session, and returns what the daemon says.
    #[track_caller]
    pub fn clone_session(&mut self, source: CloneSource<'_>) -> Result<Cloned, String> {
        let request = self.ask(&cloning(source));
        self.cloned(request)
    }

    #[track_caller]
    pub fn cloned(&mut self, request: u64) -> Result<Cloned, String> {
        let reply = self.peer.reply(request).expect("a success");
        decode_cloned(&reply).unwrap().map_err(str::to_owned)
    }
}

/// Returns a request to clone a session.
pub fn cloning(source: CloneSource<'_>) -> Request<'_> {
    Request::CloneSession(CloneSession {
        source,
        skips_trace_filter: false,
        is_for_bugreport: false,
        trigger: None,
    })
}

/// Returns a request for a session.
pub fn enabling(config: &[u8]) -> Request<'_> {
    Request::EnableTracing {
        config,
        attaches_notification_only: false,
    }
}

/// Encodes a configuration.
#[track_caller]
pub fn encoded(text: &str) -> Vec<u8> {
    tracezero_config::from_text(text).unwrap().encode_to_vec()
}

/// A configuration that records a data source into a ring of 256 KiB.
pub fn recording(data_source: &str) -> String {
    format!("buffers {{ size_kb: 256 }} data_sources {{ config {{ name: '{data_source}' }} }}")
}

/// The state of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The names of the producers.
    pub producers: Vec<String>,
    /// The encoded descriptors of the data sources.
    pub data_sources: Vec<Vec<u8>>,
    pub sessions: Vec<SessionState>,
    pub num_sessions: i32,
    pub num_sessions_started: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    pub id: u64,
    pub state: String,
    pub name: String,
    pub is_started: bool,
}

impl State {
    fn decode(encoded: &[u8]) -> Self {
        let state = TracingServiceStateDecoder::new(encoded);
        let sessions = state.tracing_sessions().map(|session| {
            let session = session.unwrap();
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            SessionState {
                id: session.id().unwrap().unwrap_or_default(),
                state: text(session.state().unwrap()),
                name: text(session.unique_session_name().unwrap()),
                is_started: session.is_started().unwrap().unwrap_or_default(),
            }
        });
        let producers = state.producers().map(|producer| {
            let name = producer.unwrap().name().unwrap();
            name.unwrap_or_default().to_owned()
        });
        let data_sources = state.data_sources().map(|data_source| {
            let descriptor = data_source.unwrap().ds_descriptor().unwrap();
            descriptor.unwrap_or_default().to_vec()
        });
        Self {
            producers: producers.collect(),
            data_sources: data_sources.collect(),
            sessions: sessions.collect(),
            num_sessions: state.num_sessions().unwrap().unwrap_or_default(),
            num_sessions_started: state.num_sessions_started().unwrap().unwrap_or_default(),
        }
    }
}
