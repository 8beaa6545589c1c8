//! Arrow Flight for edt: a service that shows a served directory to any Flight client, and a store over any Flight service.
//!
//! Read [`contract`] first: what the two sides say to each other.

pub mod client;
pub mod contract;
mod lengths;
mod pieces;
pub mod service;
pub mod status;

pub use client::register;
