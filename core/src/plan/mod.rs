//! Planning: lists the sources as a stream, filters, and cuts files into units of work.

pub mod filter;
pub mod key;
pub mod walk;

pub use filter::Filter;
