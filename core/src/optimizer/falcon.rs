//! x
use super::{Decision, Observation, Optimizer, Policy};
/// x
pub struct Falcon;
impl Falcon { /// x
 pub fn new() -> Self { Self } }
impl Optimizer for Falcon { fn name(&self) -> &str { "falcon" } fn start(&mut self, _: &Policy) -> Decision { todo!() } fn decide(&mut self, _: &Observation) -> crate::Result<Decision> { todo!() } }
