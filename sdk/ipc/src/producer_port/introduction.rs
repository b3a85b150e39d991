//! The introduction of a producer, and the answer of the daemon.

use protozero::DecodeError;

use crate::protos::initialize_connection_request::ProducerSmbScrapingMode;
use crate::protos::{
    InitializeConnectionRequest, InitializeConnectionRequestDecoder, InitializeConnectionResponse,
    InitializeConnectionResponseDecoder,
};
use crate::wire::encoded;

/// The introduction of a producer: its first request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The name by which configurations choose producers.
    pub producer_name: String,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// The name and version of the producer's library.
    pub sdk_version: String,
    /// True if configurations may change while they are used. Say so only to a daemon of tracezero.
    pub takes_changes: bool,
}

/// Encodes [`Method::InitializeConnection`](super::Method::InitializeConnection). The daemon may read
/// chunks that are not complete.
#[must_use]
pub fn initialize_connection(introduction: &Introduction) -> Vec<u8> {
    encoded::<InitializeConnectionRequest<'_>>(|out| {
        if introduction.page_size_bytes > 0 {
            out.set_shared_memory_page_size_hint_bytes(introduction.page_size_bytes);
        }
        if introduction.memory_size_bytes > 0 {
            out.set_shared_memory_size_hint_bytes(introduction.memory_size_bytes);
        }
        out.set_producer_name(&introduction.producer_name);
        out.set_smb_scraping_mode(ProducerSmbScrapingMode::SMB_SCRAPING_ENABLED);
        out.set_sdk_version(&introduction.sdk_version);
        if introduction.takes_changes {
            out.set_tracezero_takes_changes(true);
        }
    })
}

/// An introduction as the daemon decodes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedIntroduction<'a> {
    /// The name by which configurations choose producers. Nobody checks it.
    pub producer_name: &'a str,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// True if a descriptor of memory that the producer has made comes with the request.
    pub provides_memory: bool,
    /// False if the producer forbids the daemon to read chunks that are not complete.
    pub may_be_scraped: bool,
    /// The name and version of the producer's library.
    pub sdk_version: &'a str,
    /// True if the producer is one of tracezero, and configurations can change while they are used.
    pub takes_changes: bool,
}

impl<'a> ReceivedIntroduction<'a> {
    pub(super) fn decode(args: &'a [u8]) -> Result<Self, DecodeError> {
        let request = InitializeConnectionRequestDecoder::new(args);
        let scraping = request.smb_scraping_mode()?;
        Ok(Self {
            producer_name: request.producer_name()?.unwrap_or_default(),
            memory_size_bytes: request.shared_memory_size_hint_bytes()?.unwrap_or_default(),
            page_size_bytes: request
                .shared_memory_page_size_hint_bytes()?
                .unwrap_or_default(),
            provides_memory: request.producer_provided_shmem()?.unwrap_or_default(),
            may_be_scraped: scraping != Some(ProducerSmbScrapingMode::SMB_SCRAPING_DISABLED),
            sdk_version: request.sdk_version()?.unwrap_or_default(),
            takes_changes: request.tracezero_takes_changes()?.unwrap_or_default(),
        })
    }
}

/// The answer to [`Method::InitializeConnection`](super::Method::InitializeConnection).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitializeReply {
    /// True if the daemon uses the memory that the producer has made.
    pub uses_memory_of_producer: bool,
    /// True if producer and daemon cannot share memory, so that commits carry the chunks.
    pub is_emulated: bool,
}

/// Encodes the answer to [`Method::InitializeConnection`](super::Method::InitializeConnection). The
/// daemon lets producers patch chunks that are complete and not committed.
#[must_use]
pub fn initialized(reply: InitializeReply) -> Vec<u8> {
    encoded::<InitializeConnectionResponse<'_>>(|out| {
        out.set_using_shmem_provided_by_producer(reply.uses_memory_of_producer);
        out.set_direct_smb_patching_supported(true);
        out.set_use_shmem_emulation(reply.is_emulated);
    })
}

/// Returns true if the daemon's answer to
/// [`Method::InitializeConnection`](super::Method::InitializeConnection) says that it cannot share
/// memory.
///
/// # Errors
///
/// If the answer is malformed.
pub fn needs_emulation(reply: &[u8]) -> Result<bool, DecodeError> {
    let reply = InitializeConnectionResponseDecoder::new(reply);
    Ok(reply.use_shmem_emulation()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_is_decoded_as_producers_encode_it() {
        let introduction = Introduction {
            producer_name: "p".to_owned(),
            memory_size_bytes: 1 << 20,
            page_size_bytes: 4096,
            sdk_version: "v".to_owned(),
            takes_changes: true,
        };
        let expected = ReceivedIntroduction {
            producer_name: "p",
            memory_size_bytes: 1 << 20,
            page_size_bytes: 4096,
            provides_memory: false,
            may_be_scraped: true,
            sdk_version: "v",
            takes_changes: true,
        };
        let args = initialize_connection(&introduction);
        assert_eq!(ReceivedIntroduction::decode(&args), Ok(expected));
    }

    #[test]
    fn an_answer_is_decoded_as_the_daemon_encodes_it() {
        for is_emulated in [false, true] {
            let reply = initialized(InitializeReply {
                uses_memory_of_producer: true,
                is_emulated,
            });
            assert_eq!(needs_emulation(&reply), Ok(is_emulated));
        }
    }
}
