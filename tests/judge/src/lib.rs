//! x
mod schema;
pub use schema::{ExtraSchema, published, published_later};
