//! Memory shared between a producer and the service.

pub mod layout;
