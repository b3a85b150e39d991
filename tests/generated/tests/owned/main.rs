//! Owned messages: scenarios 78 to 85 of the reference implementation,
//! and what it leaves open. The other side is rust-protobuf, with messages made of the same schema
//! at run time.

mod merge; // several encoded messages into one
mod presence; // set, not set, and defaults
mod random; // any message the schema allows
mod recursion; // messages inside each other
mod rival; // rust-protobuf's view of the schema
mod unknown; // what the schema does not know
mod values; // every type, both ways

/// Included as a user's crate would include it.
mod schema {
    include!(concat!(env!("OUT_DIR"), "/owned.rs"));
}
