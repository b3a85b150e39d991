//! Requests of a consumer to its daemon.

use protozero::{DecodeError, Decoder};
use tracezero_core::coordination::FlushFlags;

use super::Method;
use super::events::ObservedEvents;
use crate::protos::clone_session_request::Selector;
use crate::protos::{
    AttachRequest, AttachRequestDecoder, ChangeTraceConfigRequest, ChangeTraceConfigRequestDecoder,
    CloneSessionRequest, CloneSessionRequestDecoder, DetachRequest, DetachRequestDecoder,
    EnableTracingRequest, EnableTracingRequestDecoder, FlushRequest, FlushRequestDecoder,
    ObserveEventsRequest, ObserveEventsRequestDecoder, QueryServiceStateRequest,
    QueryServiceStateRequestDecoder,
};
use crate::wire::encoded;

/// A request of a consumer. Configurations are encoded messages, and empty if the consumer gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Start a session, or wait for the end of one. The only reply says that the session has ended.
    EnableTracing {
        /// The configuration, a `TraceConfig`.
        config: &'a [u8],
        /// True if the consumer has attached to its session, and only waits for its end.
        attaches_notification_only: bool,
    },
    /// Stop the session.
    DisableTracing,
    /// Read the packets that the session has.
    ReadBuffers,
    /// End the session, and free its buffers.
    FreeBuffers,
    /// Ask data sources to hand over what they hold.
    Flush {
        /// How long to wait for them, in milliseconds; 0 leaves it to the daemon.
        timeout_ms: u32,
        /// Why it is asked for.
        flags: FlushFlags,
    },
    /// Start the data sources of a session that was only set up.
    StartTracing,
    /// Change the configuration of the session.
    ChangeTraceConfig {
        /// The new configuration, a `TraceConfig`.
        config: &'a [u8],
    },
    /// Leave the session without its consumer.
    Detach {
        /// The name by which a consumer attaches to it.
        key: &'a str,
    },
    /// Take over a session that was left without its consumer.
    Attach {
        /// The name that it was given then.
        key: &'a str,
    },
    /// Return the statistics of the session.
    GetTraceStats,
    /// Send these events from now on, in place of those that were asked for before.
    ObserveEvents(ObservedEvents),
    /// Return the producers, data sources and sessions of the daemon.
    QueryServiceState {
        /// True if the consumer wants no producers and data sources.
        sessions_only: bool,
    },
    /// Return what the daemon can do.
    QueryCapabilities,
    /// Save the trace of another session for a bug report. Daemons refuse it.
    SaveTraceForBugreport,
    /// Make a snapshot of another session, and give it to this consumer.
    CloneSession(CloneSession<'a>),
    /// Return how many packets the session has, and how many it has lost. Only daemons of tracezero
    /// have this method.
    TracezeroPacketTotals,
}

/// Which session to clone, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneSession<'a> {
    /// The session.
    pub source: CloneSource<'a>,
    /// True if the clone has all packets, also those that the session's filter removes.
    pub skips_trace_filter: bool,
    /// True if the clone is for a bug report.
    pub is_for_bugreport: bool,
    /// The trigger that asked for the clone.
    pub trigger: Option<Trigger<'a>>,
}

/// How a consumer chooses the session to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneSource<'a> {
    /// The session with this number; 0 if the consumer names none. [`BEST_FOR_BUGREPORT`] stands for the
    /// session with the highest bug report score.
    Id(u64),
    /// The session with this unique name.
    Name(&'a str),
}

/// The number that stands for the session with the highest bug report score.
pub const BEST_FOR_BUGREPORT: u64 = u64::MAX;

/// A trigger that asked for a clone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger<'a> {
    /// The name, which is not empty.
    pub name: &'a str,
    /// The name of the producer that activated it.
    pub producer_name: &'a str,
    /// The user of that producer.
    pub uid: i32,
    /// When it was activated, in nanoseconds of the clock `BOOTTIME`.
    pub boot_time_ns: u64,
    /// The time between the activation and the clone that the configuration asks for, in milliseconds.
    pub delay_ms: u64,
}

impl<'a> Request<'a> {
    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// If the request is malformed.
    pub fn decode(method: Method, args: &'a [u8]) -> Result<Self, DecodeError> {
        // Requests without fields must be well-formed, too.
        Decoder::new(args)
            .fields()
            .try_for_each(|field| field.map(drop))?;
        Ok(match method {
            Method::EnableTracing => {
                let args = EnableTracingRequestDecoder::new(args);
                Self::EnableTracing {
                    config: args.trace_config()?.unwrap_or_default(),
                    attaches_notification_only: args
                        .attach_notification_only()?
                        .unwrap_or_default(),
                }
            }
            Method::DisableTracing => Self::DisableTracing,
            Method::ReadBuffers => Self::ReadBuffers,
            Method::FreeBuffers => Self::FreeBuffers,
            Method::Flush => {
                let args = FlushRequestDecoder::new(args);
                Self::Flush {
                    timeout_ms: args.timeout_ms()?.unwrap_or_default(),
                    flags: FlushFlags::from_bits(args.flags()?.unwrap_or_default()),
                }
            }
            Method::StartTracing => Self::StartTracing,
            Method::ChangeTraceConfig => {
                let args = ChangeTraceConfigRequestDecoder::new(args);
                Self::ChangeTraceConfig {
                    config: args.trace_config()?.unwrap_or_default(),
                }
            }
            Method::Detach => Self::Detach {
                key: DetachRequestDecoder::new(args).key()?.unwrap_or_default(),
            },
            Method::Attach => Self::Attach {
                key: AttachRequestDecoder::new(args).key()?.unwrap_or_default(),
            },
            Method::GetTraceStats => Self::GetTraceStats,
            Method::ObserveEvents => {
                let args = ObserveEventsRequestDecoder::new(args);
                Self::ObserveEvents(ObservedEvents::decode(args.events_to_observe())?)
            }
            Method::QueryServiceState => {
                let args = QueryServiceStateRequestDecoder::new(args);
                Self::QueryServiceState {
                    sessions_only: args.sessions_only()?.unwrap_or_default(),
                }
            }
            Method::QueryCapabilities => Self::QueryCapabilities,
            Method::SaveTraceForBugreport => Self::SaveTraceForBugreport,
            Method::CloneSession => Self::CloneSession(CloneSession::decode(args)?),
            Method::TracezeroPacketTotals => Self::TracezeroPacketTotals,
        })
    }

    /// Returns the method that the request invokes.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::EnableTracing { .. } => Method::EnableTracing,
            Self::DisableTracing => Method::DisableTracing,
            Self::ReadBuffers => Method::ReadBuffers,
            Self::FreeBuffers => Method::FreeBuffers,
            Self::Flush { .. } => Method::Flush,
            Self::StartTracing => Method::StartTracing,
            Self::ChangeTraceConfig { .. } => Method::ChangeTraceConfig,
            Self::Detach { .. } => Method::Detach,
            Self::Attach { .. } => Method::Attach,
            Self::GetTraceStats => Method::GetTraceStats,
            Self::ObserveEvents(_) => Method::ObserveEvents,
            Self::QueryServiceState { .. } => Method::QueryServiceState,
            Self::QueryCapabilities => Method::QueryCapabilities,
            Self::SaveTraceForBugreport => Method::SaveTraceForBugreport,
            Self::CloneSession(_) => Method::CloneSession,
            Self::TracezeroPacketTotals => Method::TracezeroPacketTotals,
        }
    }

    /// Encodes the request, for a consumer. It is as long as its configuration and texts, which may be
    /// too long for a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::EnableTracing {
                config,
                attaches_notification_only,
            } => encoded::<EnableTracingRequest<'_>>(|out| {
                if !config.is_empty() {
                    out.set_trace_config(config);
                }
                if *attaches_notification_only {
                    out.set_attach_notification_only(true);
                }
            }),
            Self::Flush { timeout_ms, flags } => encoded::<FlushRequest<'_>>(|out| {
                out.set_timeout_ms(*timeout_ms);
                out.set_flags(flags.bits());
            }),
            Self::ChangeTraceConfig { config } => encoded::<ChangeTraceConfigRequest<'_>>(|out| {
                out.set_trace_config(config);
            }),
            Self::Detach { key } => encoded::<DetachRequest<'_>>(|out| {
                out.set_key(key);
            }),
            Self::Attach { key } => encoded::<AttachRequest<'_>>(|out| {
                out.set_key(key);
            }),
            Self::ObserveEvents(events) => encoded::<ObserveEventsRequest<'_>>(|out| {
                for event in events.types() {
                    out.add_events_to_observe(event);
                }
            }),
            Self::QueryServiceState { sessions_only } => {
                encoded::<QueryServiceStateRequest<'_>>(|out| {
                    if *sessions_only {
                        out.set_sessions_only(true);
                    }
                })
            }
            Self::CloneSession(clone) => encoded::<CloneSessionRequest<'_>>(|out| clone.write(out)),
            Self::DisableTracing
            | Self::ReadBuffers
            | Self::FreeBuffers
            | Self::StartTracing
            | Self::GetTraceStats
            | Self::QueryCapabilities
            | Self::SaveTraceForBugreport
            | Self::TracezeroPacketTotals => Vec::new(),
        }
    }
}

impl<'a> CloneSession<'a> {
    fn decode(args: &'a [u8]) -> Result<Self, DecodeError> {
        let args = CloneSessionRequestDecoder::new(args);
        let trigger = Trigger {
            name: args.clone_trigger_name()?.unwrap_or_default(),
            producer_name: args.clone_trigger_producer_name()?.unwrap_or_default(),
            uid: args
                .clone_trigger_trusted_producer_uid()?
                .unwrap_or_default(),
            boot_time_ns: args.clone_trigger_boot_time_ns()?.unwrap_or_default(),
            delay_ms: args.clone_trigger_delay_ms()?.unwrap_or_default(),
        };
        Ok(Self {
            source: match args.selector()? {
                Some(Selector::SessionId(id)) => CloneSource::Id(id),
                Some(Selector::UniqueSessionName(name)) => CloneSource::Name(name),
                None => CloneSource::Id(0),
            },
            skips_trace_filter: args.skip_trace_filter()?.unwrap_or_default(),
            is_for_bugreport: args.for_bugreport()?.unwrap_or_default(),
            trigger: (!trigger.name.is_empty()).then_some(trigger),
        })
    }

    fn write(&self, out: &mut CloneSessionRequest<'_>) {
        match self.source {
            CloneSource::Id(id) => out.set_session_id(id),
            CloneSource::Name(name) => out.set_unique_session_name(name),
        };
        if self.skips_trace_filter {
            out.set_skip_trace_filter(true);
        }
        if self.is_for_bugreport {
            out.set_for_bugreport(true);
        }
        if let Some(trigger) = &self.trigger {
            out.set_clone_trigger_name(trigger.name);
            out.set_clone_trigger_producer_name(trigger.producer_name);
            out.set_clone_trigger_trusted_producer_uid(trigger.uid);
            out.set_clone_trigger_boot_time_ns(trigger.boot_time_ns);
            out.set_clone_trigger_delay_ms(trigger.delay_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_EVENTS: ObservedEvents = ObservedEvents {
        instances: true,
        all_started: true,
        clone_triggers: true,
    };

    const CLONE: CloneSession<'_> = CloneSession {
        source: CloneSource::Id(BEST_FOR_BUGREPORT),
        skips_trace_filter: true,
        is_for_bugreport: true,
        trigger: Some(Trigger {
            name: "t",
            producer_name: "p",
            uid: -1,
            boot_time_ns: 300,
            delay_ms: 5,
        }),
    };

    const CLONE_OF_NAME: CloneSession<'_> = CloneSession {
        source: CloneSource::Name("n"),
        skips_trace_filter: false,
        is_for_bugreport: false,
        trigger: None,
    };

    /// At least one request of each method, with its bytes.
    fn golden() -> Vec<(&'static [u8], Request<'static>)> {
        let flags = FlushFlags::from_bits(0x22);
        let enable = |config, attaches_notification_only| Request::EnableTracing {
            config,
            attaches_notification_only,
        };
        let state = |sessions_only| Request::QueryServiceState { sessions_only };
        let uid = b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let best = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let rest = [
            b"\x10\x01\x18\x01\x2a\x01t\x32\x01p",
            &uid[..],
            b"\x40\xac\x02\x48\x05",
        ];
        let clone = [&best[..], &rest.concat()].concat();
        vec![
            (b"\x0a\x02\x18\x07", enable(&[0x18, 7], false)),
            (b"\x10\x01", enable(&[], true)),
            (b"", Request::DisableTracing),
            (b"", Request::ReadBuffers),
            (b"", Request::FreeBuffers),
            (
                b"\x08\x00\x10\x22",
                Request::Flush {
                    timeout_ms: 0,
                    flags,
                },
            ),
            (b"", Request::StartTracing),
            (
                b"\x0a\x02\x18\x07",
                Request::ChangeTraceConfig { config: &[0x18, 7] },
            ),
            (b"\x0a\x03key", Request::Detach { key: "key" }),
            (b"\x0a\x03key", Request::Attach { key: "key" }),
            (b"", Request::GetTraceStats),
            (b"", Request::ObserveEvents(ObservedEvents::default())),
            (
                b"\x08\x01\x08\x02\x08\x04",
                Request::ObserveEvents(ALL_EVENTS),
            ),
            (b"", state(false)),
            (b"\x08\x01", state(true)),
            (b"", Request::QueryCapabilities),
            (b"", Request::TracezeroPacketTotals),
            (b"", Request::SaveTraceForBugreport),
            (clone.leak(), Request::CloneSession(CLONE)),
            (b"\x22\x01n", Request::CloneSession(CLONE_OF_NAME)),
        ]
    }

    #[test]
    fn requests_have_their_bytes_in_both_directions() {
        for (bytes, request) in golden() {
            assert_eq!(request.encode(), bytes, "{request:?}");
            assert_eq!(Request::decode(request.method(), bytes), Ok(request));
        }
        for method in Method::ALL {
            let mut methods = golden().into_iter().map(|(_, request)| request.method());
            assert!(methods.any(|other| other == method), "{method:?}");
        }
    }

    #[test]
    fn missing_fields_have_defaults() {
        let decode = |method| Request::decode(method, &[]).unwrap();
        let Request::CloneSession(clone) = decode(Method::CloneSession) else {
            panic!("no clone");
        };
        assert_eq!((clone.source, clone.trigger), (CloneSource::Id(0), None));
        let request = decode(Method::EnableTracing);
        assert_eq!(
            Request::decode(Method::EnableTracing, &request.encode()),
            Ok(request)
        );
        assert_eq!(decode(Method::Attach), Request::Attach { key: "" });
    }

    #[test]
    fn kinds_of_events_may_be_packed_and_unknown() {
        let decode = |bytes| Request::decode(Method::ObserveEvents, bytes).unwrap();
        let all = Request::ObserveEvents(ALL_EVENTS);
        assert_eq!(decode(&[0x0a, 3, 1, 2, 4]), all);
        assert_eq!(decode(&[0x0a, 2, 1, 2, 8, 99, 8, 4]), all);
        let none = ObservedEvents::default();
        assert_eq!(decode(&[8, 0, 8, 99]), Request::ObserveEvents(none));
        assert!(none.is_empty() && !ALL_EVENTS.is_empty());
    }

    #[test]
    fn malformed_requests_are_errors_or_values() {
        for (bytes, _) in golden() {
            for method in Method::ALL {
                for len in 0..bytes.len() {
                    // The outcome depends on where the bytes end. None is a panic.
                    let _ = Request::decode(method, &bytes[..len]);
                }
            }
        }
        for method in Method::ALL {
            assert!(
                Request::decode(method, &[0x0a, 2, 1]).is_err(),
                "{method:?}"
            );
            assert!(Request::decode(method, &[0xff]).is_err(), "{method:?}");
        }
        assert!(Request::decode(Method::Detach, b"\x0a\x01\xff").is_err());
    }
}
