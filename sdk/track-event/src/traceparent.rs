//! The context of a request, as services hand it on: W3C's header `traceparent`.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::num::{NonZeroU64, NonZeroU128};
use std::process;
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::correlation::CorrelationId;
use crate::flow::Flow;
use crate::identity;
use tracezero_core::protos::TrackEvent;

/// The length of a header of version 00, in bytes.
const HEADER_BYTES: usize = 55;
/// The flag that says that the caller records the request.
const SAMPLED: u8 = 1;
/// The length of the part of a malformed header that an error shows, in characters.
const SHOWN_CHARS: usize = 80;

/// The context of a request that goes through several services: the id of the trace, which all of them
/// share, and that of the span that made the call. It is the header `traceparent` of
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/), which OpenTelemetry uses, too.
///
/// With it, the traces of two services show one request: an arrow leads from the span that calls to the
/// span that answers, and both have the trace id as their correlation id. `tracezero merge` joins the
/// files.
///
/// ```
/// use tracezero::{Traceparent, span};
///
/// # let session = tracezero::InMemorySession::start()?;
/// // In the service that is called; `header` came with the request.
/// let serve = |header: &str| {
///     let context: Traceparent = header.parse()?;
///     let _span = span!("http", "serve", last_flow: &context.flow(), correlation: &context);
///     Ok::<_, tracezero::TraceparentError>(())
/// };
///
/// // In the service that calls; `incoming` is the context of the request that it works on.
/// let incoming = Traceparent::root();
/// let context = incoming.child();
/// let _span = span!("http", "call", flow: &context.flow(), correlation: &context);
/// serve(&context.to_string())?; // send it as the header `traceparent`
/// # drop(_span);
/// # assert_eq!(session.finish().1.events, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The flow's id is computed from the header alone, so that both services know it. It is the same in every
/// version of this library. With `mix` as the finalizer of splitmix64, `high` and `low` as the halves of the
/// trace id: `mix(mix(mix(high) ^ low) ^ parent_id)`, or 1 instead of 0. It is equal to another flow's with
/// the probability of two random numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traceparent {
    trace_id: NonZeroU128,
    parent_id: NonZeroU64,
    flags: u8,
}

impl Traceparent {
    /// Creates a context from the ids of another tracer, such as OpenTelemetry's. `None` if an id is 0,
    /// which stands for no context.
    #[must_use]
    pub const fn new(trace_id: u128, parent_id: u64, flags: u8) -> Option<Self> {
        match (NonZeroU128::new(trace_id), NonZeroU64::new(parent_id)) {
            (Some(trace_id), Some(parent_id)) => Some(Self {
                trace_id,
                parent_id,
                flags,
            }),
            _ => None,
        }
    }

    /// Creates the context of a request that begins here, with new random ids.
    #[must_use]
    pub fn root() -> Self {
        let high = u128::from(random_id().get()) << 64;
        Self {
            trace_id: NonZeroU128::from(random_id()) | high,
            parent_id: random_id(),
            flags: SAMPLED,
        }
    }

    /// Creates the context for a call to another service within this request: the trace id is the same,
    /// and the span that calls has a new random id.
    #[must_use]
    pub fn child(self) -> Self {
        Self {
            parent_id: random_id(),
            ..self
        }
    }

    /// Returns the id of the trace, which all services of the request share.
    #[must_use]
    pub const fn trace_id(self) -> u128 {
        self.trace_id.get()
    }

    /// Returns the id of the span that makes the call.
    #[must_use]
    pub const fn parent_id(self) -> u64 {
        self.parent_id.get()
    }

    /// Returns the flags of the header.
    #[must_use]
    pub const fn flags(self) -> u8 {
        self.flags
    }

    /// Returns true if the caller records the request, or may do so.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the flow of this call: from the span that makes it to the span that answers it.
    #[must_use]
    pub fn flow(self) -> Flow {
        Flow::global(identity::of_call(self.trace_id(), self.parent_id()))
    }
}

impl Flow {
    /// Returns the flow of a call from one service to another, by the value of the header `traceparent` of
    /// W3C Trace Context. Both services get the same flow. A [`Traceparent`] has more of the header, and
    /// makes headers.
    ///
    /// ```
    /// use tracezero::{Flow, span};
    ///
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let _span = span!("http", "serve", last_flow: &Flow::from_traceparent(header)?);
    /// # Ok::<(), tracezero::TraceparentError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is no such header.
    pub fn from_traceparent(header: &str) -> Result<Self, TraceparentError> {
        header.parse().map(Traceparent::flow)
    }
}

/// Returns an id that no other call in any process returns, with the probability of random numbers.
fn random_id() -> NonZeroU64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        // Relaxed: the numbers must only be unique. A forked child has the keys and the counter of its
        // parent, and another process id.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some(id) = NonZeroU64::new(KEYS.hash_one((process::id(), number))) {
            return id;
        }
    }
}

/// Formats as the value of the header: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, parent_id) = (self.trace_id, self.parent_id);
        write!(f, "00-{trace_id:032x}-{parent_id:016x}-{:02x}", self.flags)
    }
}

impl FromStr for Traceparent {
    type Err = TraceparentError;

    /// Parses the value of the header. Of a version after 00, takes what version 00 has.
    fn from_str(text: &str) -> Result<Self, TraceparentError> {
        let malformed = || TraceparentError::Malformed {
            text: text.chars().take(SHOWN_CHARS).collect(),
        };
        let (header, rest) = text.split_at_checked(HEADER_BYTES).ok_or_else(malformed)?;
        let mut fields = header.split('-');
        let mut field = |digits: usize| {
            let text = fields.next().filter(|text| text.len() == digits)?;
            let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let value = u128::from_str_radix(text, 16).ok()?;
            text.bytes().all(is_digit).then_some(value)
        };
        let all = (field(2), field(32), field(16), field(2));
        let (Some(version), Some(trace_id), Some(parent_id), Some(flags)) = all else {
            return Err(malformed());
        };
        match (version, rest.as_bytes()) {
            (0xff, _) => return Err(TraceparentError::Version),
            (0, []) | (1.., [] | [b'-', ..]) => {}
            _ => return Err(malformed()),
        }
        Self::new(trace_id, parent_id as u64, flags as u8).ok_or(match trace_id {
            0 => TraceparentError::NoTraceId,
            _ => TraceparentError::NoParentId,
        })
    }
}

/// The trace id as 32 hexadecimal digits, as in the header.
impl CorrelationId for Traceparent {
    #[inline(never)]
    fn write(&self, event: &mut TrackEvent<'_>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        let mut rest = self.trace_id();
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[(rest & 0xf) as usize];
            rest >>= 4;
        }
        event.set_correlation_id_str(str::from_utf8(&text).unwrap_or_default());
    }
}

/// The reason why a header `traceparent` is no context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceparentError {
    /// The text does not have the form of the header.
    Malformed {
        /// The begin of the text.
        text: String,
    },
    /// The version is ff, which the standard forbids.
    Version,
    /// The trace id is 0: the caller has no trace.
    NoTraceId,
    /// The id of the calling span is 0.
    NoParentId,
}

impl fmt::Display for TraceparentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { text } => write!(
                f,
                "{text:?} is no traceparent: it must have the form \
                 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, with lower-case digits"
            ),
            Self::Version => {
                f.write_str("the traceparent has the version ff, which is not allowed")
            }
            Self::NoTraceId => {
                f.write_str("the trace id of the traceparent is 0, so there is no trace")
            }
            Self::NoParentId => {
                f.write_str("the span id of the traceparent is 0, so nobody knows who has called")
            }
        }
    }
}

impl std::error::Error for TraceparentError {}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn header_reads_and_prints_the_same() {
        let context: Traceparent = HEADER.parse().unwrap();
        assert_eq!(
            context.trace_id(),
            0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736
        );
        assert_eq!(context.parent_id(), 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), HEADER);
        let later = HEADER.replace("00-4", "cc-4");
        assert_eq!(later.parse(), Ok(context));
        assert_eq!(format!("{later}-what-ever").parse(), Ok(context));
        let unsampled: Traceparent = HEADER.replace("-01", "-00").parse().unwrap();
        assert!(!unsampled.is_sampled());
        assert_eq!(unsampled.flow(), context.flow());
    }

    #[test]
    fn what_the_standard_forbids_is_an_error() {
        let malformed = [
            String::new(),
            HEADER[..54].to_owned(),
            format!("{HEADER}-"),
            format!("{HEADER} "),
            format!("{}.", HEADER.replace("00-4", "01-4")),
            HEADER.to_uppercase(),
            HEADER.replace('-', "_"),
            HEADER.replace("4bf9", "+bf9"),
            HEADER.replace("-01", "é1"),
            "é".repeat(40),
            "-".repeat(55),
        ];
        for text in malformed {
            let error = text.parse::<Traceparent>().unwrap_err();
            assert_eq!(error, TraceparentError::Malformed { text });
        }
        for (text, error) in [
            (HEADER.replace("00-4", "ff-4"), TraceparentError::Version),
            (
                HEADER.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
                TraceparentError::NoTraceId,
            ),
            (
                HEADER.replace("00f067aa0ba902b7", &"0".repeat(16)),
                TraceparentError::NoParentId,
            ),
        ] {
            assert_eq!(text.parse::<Traceparent>(), Err(error), "{text}");
        }
        let long = "x".repeat(1 << 20).parse::<Traceparent>().unwrap_err();
        assert!(long.to_string().len() < 300, "{long}");
    }

    #[test]
    fn flow_id_of_a_header_never_changes() {
        // Services with other versions of this library compute the same.
        let flow = Flow::from_traceparent(HEADER).unwrap();
        assert_eq!(flow.id(), 424_223_784_483_882_993);
    }

    #[test]
    fn each_call_of_a_request_has_a_flow_and_an_id_of_its_own() {
        let root = Traceparent::root();
        let calls = [root, root.child(), root.child(), Traceparent::root()];
        for (index, call) in calls.iter().enumerate() {
            for other in &calls[..index] {
                assert_ne!(call.flow(), other.flow());
                assert_ne!(call.parent_id(), other.parent_id());
            }
        }
        assert_eq!(calls[1].trace_id(), root.trace_id());
        assert_ne!(calls[3].trace_id(), root.trace_id());
        assert_eq!(calls[1].to_string().parse(), Ok(calls[1]));
    }

    #[test]
    fn correlation_is_the_trace_id_in_hexadecimal() {
        let mut event = HeapBuffered::<TrackEvent<'_>>::new();
        let context = Traceparent::new(0xab, 1, 0).unwrap();
        context.write(&mut event.message());
        let text = format!("{:032x}", 0xab);
        assert!(event.to_vec().ends_with(text.as_bytes()));
    }
}
