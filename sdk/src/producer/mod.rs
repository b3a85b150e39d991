//! The producer side: from a packet to committed chunks.
