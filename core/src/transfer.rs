//! A transfer from one endpoint to another: the entry point of the crate.
