//! The messages of consumers and their daemon.
//!
//! ```text
//!  events          what a consumer observes: kinds in requests, events in replies
//!  requests        what a consumer asks
//!  replies         what the daemon answers, unless another module has it
//!  service_state   the answer to QueryServiceState, in parts
//!  read_buffers    the answer to ReadBuffers: packets, cut into slices
//! ```
//!
//! The reply to a method that these modules do not name is empty. The daemon passes on configurations,
//! statistics and descriptors as bytes.
//!
//! # Sizes of replies
//!
//! Whatever the daemon is told, a reply of these modules fits into a frame, with two exceptions that their
//! functions name. Texts that come from configurations and producers are cut after [`TEXT_MAX_BYTES`].

pub mod events;
pub mod requests;
pub mod replies;
pub mod service_state;
pub mod read_buffers;

/// The name of the service.
pub const SERVICE: &str = "ConsumerPort";

/// The maximum size of a reply, in bytes. A frame has room for it, whatever the number of the request.
pub const REPLY_MAX_BYTES: usize = 128 * 1024 - 64;

/// The maximum size of a text in a reply, in bytes. Longer texts are cut.
pub const TEXT_MAX_BYTES: usize = 16 * 1024;

/// A method of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Method {
    EnableTracing,
    DisableTracing,
    ReadBuffers,
    FreeBuffers,
    Flush,
    StartTracing,
    ChangeTraceConfig,
    Detach,
    Attach,
    GetTraceStats,
    ObserveEvents,
    QueryServiceState,
    QueryCapabilities,
    SaveTraceForBugreport,
    CloneSession,
    TracezeroPacketTotals,
}

impl Method {
    /// All methods, in the order of their [ids](Self::id).
    pub const ALL: [Self; 16] = [
        Self::EnableTracing,
        Self::DisableTracing,
        Self::ReadBuffers,
        Self::FreeBuffers,
        Self::Flush,
        Self::StartTracing,
        Self::ChangeTraceConfig,
        Self::Detach,
        Self::Attach,
        Self::GetTraceStats,
        Self::ObserveEvents,
        Self::QueryServiceState,
        Self::QueryCapabilities,
        Self::SaveTraceForBugreport,
        Self::CloneSession,
        Self::TracezeroPacketTotals,
    ];

    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnableTracing => "EnableTracing",
            Self::DisableTracing => "DisableTracing",
            Self::ReadBuffers => "ReadBuffers",
            Self::FreeBuffers => "FreeBuffers",
            Self::Flush => "Flush",
            Self::StartTracing => "StartTracing",
            Self::ChangeTraceConfig => "ChangeTraceConfig",
            Self::Detach => "Detach",
            Self::Attach => "Attach",
            Self::GetTraceStats => "GetTraceStats",
            Self::ObserveEvents => "ObserveEvents",
            Self::QueryServiceState => "QueryServiceState",
            Self::QueryCapabilities => "QueryCapabilities",
            Self::SaveTraceForBugreport => "SaveTraceForBugreport",
            Self::CloneSession => "CloneSession",
            Self::TracezeroPacketTotals => "TracezeroPacketTotals",
        }
    }

    /// Returns the number that our daemon gives the method: its position in [`ALL`](Self::ALL), from 1
    /// on. A consumer takes the numbers from the reply to its bind instead.
    #[must_use]
    pub const fn id(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the method with this [id](Self::id); `None` if there is none.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }
}

/// Returns the begin of a text, at most [`TEXT_MAX_BYTES`] of it.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX_BYTES)]
}

/// Joins encoded pieces of one message into parts of at most `part_max_bytes`, and calls `each` with
/// every part and true if more follow: at least once. Returns the number of pieces that are larger than
/// that and are left out.
fn join_pieces(
    pieces: impl Iterator<Item = Vec<u8>>,
    part_max_bytes: usize,
    mut each: impl FnMut(&[u8], bool),
) -> usize {
    let mut part = Vec::new();
    let mut left_out = 0;
    for piece in pieces {
        if piece.len() > part_max_bytes {
            left_out += 1;
            continue;
        }
        if part.len() + piece.len() > part_max_bytes {
            each(&part, true);
            part.clear();
        }
        part.extend_from_slice(&piece);
    }
    each(&part, false);
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_the_numbers_of_their_positions() {
        for (method, id) in Method::ALL.into_iter().zip(1..) {
            assert_eq!((method.id(), Method::from_id(id)), (id, Some(method)));
        }
        for id in [0, 17, u32::MAX] {
            assert_eq!(Method::from_id(id), None);
        }
        assert_eq!((SERVICE, Method::CloneSession.id()), ("ConsumerPort", 15));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let text = format!("a{}", "é".repeat(TEXT_MAX_BYTES));
        assert_eq!(cut(&text).len(), TEXT_MAX_BYTES - 1);
        assert!(text.starts_with(cut(&text)));
    }

    #[test]
    fn pieces_that_are_too_large_are_left_out() {
        let pieces = [vec![1; 3], vec![2; 11], vec![3; 7], vec![4; 1]];
        let mut parts = Vec::new();
        let left_out = join_pieces(pieces.into_iter(), 10, |part, has_more| {
            parts.push((part.to_vec(), has_more));
        });
        assert_eq!(left_out, 1);
        let first = [1, 1, 1, 3, 3, 3, 3, 3, 3, 3].to_vec();
        assert_eq!(parts, [(first, true), (vec![4], false)]);
    }
}
