//! Planning: lists the sources as a stream, filters, and cuts files into units of work.

mod chosen;
pub mod filter;
mod glance;
pub mod key;
mod pattern;
pub mod walk;

pub(crate) use chosen::{Choice, check_chosen, is_chosen, minimal, walk_chosen};
pub use filter::Filter;
pub(crate) use glance::glance;
pub(crate) use pattern::find_match;
