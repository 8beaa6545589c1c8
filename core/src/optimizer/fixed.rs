//! x
use super::{Decision, Observation, Optimizer, Policy};
/// x
pub struct Fixed;
impl Fixed { /// x
 pub fn new(_: u16) -> Self { Self } }
impl Optimizer for Fixed { fn name(&self) -> &str { "fixed" } fn start(&mut self, _: &Policy) -> Decision { todo!() } fn decide(&mut self, _: &Observation) -> crate::Result<Decision> { todo!() } }
