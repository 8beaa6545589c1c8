//! Planning: lists the sources as a stream, filters, and cuts files into units of work.

pub mod filter;

pub use filter::Filter;
