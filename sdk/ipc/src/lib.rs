//! The messages of producers, consumers and a tracing daemon.
//!
//! ```text
//!  producer_port   messages of producers and their daemon, to and from the types of `tracezero-core`
//!  consumer_port   messages of consumers and their daemon
//!  wire            frames: requests and replies
//!  frame           where frames begin and end in a stream of bytes
//!  socket          the stream, which may carry a descriptor with a frame
//!  send_queue      what waits until the stream has room
//!  listener        takes connections
//!  waker           wakes a thread that waits for one of these
//!  address         where the daemon listens
//! ```
//!
//! The protocol is Perfetto's, so either side may be a program of Perfetto. Nothing here knows of data
//! sources or sessions. Nothing that a peer sends is trusted: whatever arrives is a value or an error.

pub mod address;
pub mod frame;
pub mod listener;
pub mod producer_port;
pub mod consumer_port;
#[doc(hidden)]
pub mod protos;
pub mod send_queue;
pub mod socket;
pub mod waker;
pub mod wire;
