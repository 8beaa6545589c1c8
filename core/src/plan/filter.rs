//! Which files are copied: patterns to include and to exclude.

use crate::error::Result;

/// Compiled patterns.
#[derive(Debug, Clone)]
pub struct Filter {}

impl Filter {
    /// Compiles the patterns.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        let _ = (include, exclude);
        Ok(Self {})
    }
}
