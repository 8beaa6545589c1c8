//! How often the guard decided instead of the optimizer.

/// What the reason of a decision begins with that the guard made.
const GUARD: &str = "guard: ";

/// What the guard says where it lets go of what it brought back, and the optimizer decides again.
const LETS_GO: &str = "forgotten; ";

/// Counts over a session.
#[derive(Debug, Default)]
pub(super) struct Interventions {
    pub(super) count: u32,
    /// Whether the guard made the last decision.
    lasts: bool,
}

impl Interventions {
    /// Takes the reason of the next decision: those that the guard makes one after the other are one intervention.
    pub(super) fn follow(&mut self, reason: &str) {
        let by_guard = reason.starts_with(GUARD) && !reason.contains(LETS_GO);
        let before = std::mem::replace(&mut self.lasts, by_guard);
        self.count += u32::from(by_guard && !before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(reasons: &[&str]) -> u32 {
        let mut interventions = Interventions::default();
        for reason in reasons {
            interventions.follow(reason);
        }
        interventions.count
    }

    #[test]
    fn decisions_of_the_guard_in_a_row_are_one_intervention() {
        let (cut, back, held) = ("guard: throughput fell to 5 %", "guard: back to them", "guard: staying with them for a while");
        assert_eq!(count(&["it grows", back, back, held, held, held, "it grows"]), 1);
        assert_eq!(count(&[cut, "it grows", back, held]), 2);
        assert_eq!(count(&["it grows", "it grows (guard: 8 instead of 40 streams)"]), 0);
    }

    #[test]
    fn where_the_guard_lets_go_the_optimizer_has_decided() {
        let gone = "guard: 16 streams no longer bring what they did, forgotten; it grows";
        assert_eq!(count(&["guard: back to them", gone, "it grows"]), 1);
        assert_eq!(count(&["it grows", gone]), 0);
    }
}
