//! The number of workers of which the highest utility is to be expected.

use super::curve::{curves, worths};
use super::fit::Fit;
use super::losses::Losses;
use crate::optimizer::setting::whole;
use crate::optimizer::{Policy, utility};

/// Up to so many workers every number is a candidate; beyond, numbers this factor apart.
const FINE: u16 = 24;
const COARSE: f64 = 1.06;

/// Of all that promise nearly the highest utility the fewest are taken: this part of it.
const NEARLY: f64 = 0.98;

/// A number this little above the fewest is kept where it runs already: new streams cost more than it.
const NEAR: f64 = 1.1;

/// What is tried where fewer workers may be better, as a part of them, and how likely that has to be.
const FEWER: f64 = 0.85;
const DOUBT: f64 = 0.25;

/// Over how many seconds what other workers bring has to be more than what the trial, and those that join, may cost.
const WORTHWHILE: f64 = 30.0;

/// How likely it is taken to be that fewer prove too few.
const WRONG: f64 = 0.5;

/// Hypotheses less likely than this are not asked.
const UNLIKELY: f64 = 1e-6;

/// What workers cost, and how many there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Price {
    /// K of the utility [Falcon eq. 4].
    pub(super) k: f64,
    /// B of the utility, the weight of loss [Falcon eq. 4].
    pub(super) loss_weight: f64,
    /// Most workers.
    pub(super) limit: u16,
}

impl Price {
    /// The price by a policy, with a limit of its own: beyond so many streams none pays whatever it brings.
    pub(super) fn of(policy: &Policy, limit: u16) -> Self {
        let most = whole(utility::most_that_pay(policy.k));
        Self { k: policy.k, loss_weight: policy.loss_weight, limit: limit.min(most).max(1) }
    }
}

/// The best number of workers by what is believed. `current` run now; `enough` are bytes per second beyond which neighbours take nothing.
pub(super) fn choose(fit: &Fit, losses: &Losses, price: &Price, current: u16, enough: Option<f64>) -> u16 {
    let candidates = candidates(price.limit, current);
    let mut values = expected(fit, losses, price, &candidates, enough);
    for (workers, value) in candidates.iter().zip(&mut values) {
        *value -= moving(losses, price, current, *workers) / WORTHWHILE;
    }
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Where streams lose more than they bring, the best is below zero.
    let nearly = if best > 0.0 { NEARLY * best } else { best };
    let mut good = candidates.iter().zip(&values).filter(|(_, value)| **value >= nearly).map(|(workers, _)| *workers);
    let fewest = good.next().unwrap_or(1);
    let stays = current >= fewest && f64::from(current) <= NEAR * f64::from(fewest) && good.any(|workers| workers == current);
    if stays { current } else { fewest }
}

/// What it costs to go from so many workers to so many: others join, or have to again if that was wrong.
fn moving(losses: &Losses, price: &Price, from: u16, to: u16) -> f64 {
    if to < from { WRONG * joining(losses, price, to, from) } else { joining(losses, price, from, to) }
}

/// What it costs that workers join others, in seconds of what those are worth.
fn joining(losses: &Losses, price: &Price, before: u16, now: u16) -> f64 {
    price.loss_weight * losses.joining.expected(before, now) * price.k.powf(f64::from(before))
}

/// Fewer workers that may well be better than those that run, if there are any: it takes one interval to know, and where they are not, the
/// others have to join them again.
pub(super) fn fewer(fit: &Fit, losses: &Losses, price: &Price, current: u16) -> Option<u16> {
    let tried = whole(FEWER * f64::from(current)).min(current.saturating_sub(1));
    if tried == 0 {
        return None;
    }
    let law = losses.law(|workers| fit.load(workers));
    let utility = |workers: u16| {
        let (worths, paid) = (worths(workers, fit.filled), price.k.powf(-f64::from(workers)));
        move |index: usize| {
            let load = curves()[index].load(f64::from(workers));
            worths[index] * (paid - price.loss_weight * law.caused(load))
        }
    };
    let (less, same) = (utility(tried), utility(current));
    let brings = |index: usize| (less(index) / same(index).abs().max(f64::MIN_POSITIVE) - same(index).signum()).clamp(-1.0, 1.0);
    let doubt = fit.mean(|index| if brings(index) > 0.0 { 1.0 } else { 0.0 });
    let (gain, cost) = (fit.mean(|index| brings(index).max(0.0)), fit.mean(|index| (-brings(index)).max(0.0)));
    let back = (1.0 - doubt) * joining(losses, price, tried, current);
    (doubt >= DOUBT && WORTHWHILE * gain >= cost + back).then_some(tried)
}

/// The expected utility of each candidate, as a share of the most that each hypothesis holds possible.
///
/// Falcon eq. 4 prices all that is lost. Here what fewer streams would lose as well is left out: at a tenth lost, that price is more than
/// any number of streams brings, and where each brings as much as the one before it makes few of them look best. What streams cause by
/// filling the path costs what the equation says.
fn expected(fit: &Fit, losses: &Losses, price: &Price, candidates: &[u16], enough: Option<f64>) -> Vec<f64> {
    let most = enough.map_or(f64::INFINITY, f64::ln);
    let law = losses.law(|workers| fit.load(workers));
    let prices: Vec<f64> = candidates.iter().map(|workers| price.k.powf(-f64::from(*workers))).collect();
    let worths: Vec<_> = candidates.iter().map(|workers| worths(*workers, fit.filled)).collect();
    let mut sums = vec![0.0; candidates.len()];
    let mut utilities = vec![0.0; candidates.len()];
    for (index, (curve, belief)) in curves().iter().zip(&fit.belief).enumerate().filter(|(_, (_, belief))| **belief > UNLIKELY) {
        // In units of what a worker moves alone, so that no scale is too large or too small.
        let most = (most - fit.scales[index]).exp();
        for (place, utility) in utilities.iter_mut().enumerate() {
            let load = curve.load(f64::from(candidates[place]));
            *utility = worths[place][index].min(most) * (prices[place] - price.loss_weight * law.caused(load));
        }
        let highest = utilities.iter().copied().fold(f64::NEG_INFINITY, f64::max).abs().max(f64::MIN_POSITIVE);
        sums.iter_mut().zip(&utilities).for_each(|(sum, utility)| *sum += belief * utility / highest);
    }
    sums
}

fn candidates(limit: u16, current: u16) -> Vec<u16> {
    let mut all: Vec<u16> = (1..=limit.min(FINE)).collect();
    let mut next = f64::from(FINE) * COARSE;
    while next < f64::from(limit) {
        all.push(whole(next));
        next *= COARSE;
    }
    all.extend([limit, current.clamp(1, limit)]);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::optimizer::model::fit::{Bound, Company, Point, first_noise};
    use crate::optimizer::model::joining::Lost;
    use crate::optimizer::model::losses::Joined;

    const PRICE: Price = Price { k: 1.02, loss_weight: 10.0, limit: 50 };

    fn fit(best: f64) -> Fit {
        let rate = |n: f64| 1e6 * n.min(best);
        let points: Vec<Point> = [1.0, 2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 48.0, best]
            .iter()
            .map(|&n| Point::new(n, rate(n), Bound::Exact))
            .collect();
        Fit::of(&points, first_noise(), Company::default())
    }

    #[test]
    fn where_the_path_is_known_the_choice_is_what_fills_it() {
        for best in [1.0, 3.0, 10.0, 30.0] {
            let chosen = f64::from(choose(&fit(best), &Losses::default(), &PRICE, 4, None));
            assert!((chosen - best).abs() <= (0.1 * best).max(1.0), "{chosen} instead of {best}");
        }
    }

    #[test]
    fn no_more_are_chosen_than_what_neighbours_take_needs() {
        let chosen = choose(&fit(30.0), &Losses::default(), &PRICE, 4, Some(6e6));
        assert!((5..=7).contains(&chosen), "{chosen}");
    }

    #[test]
    fn a_number_just_above_the_fewest_is_kept() {
        let fit = fit(10.0);
        let fewest = choose(&fit, &Losses::default(), &PRICE, 1, None);
        assert_eq!(choose(&fit, &Losses::default(), &PRICE, fewest, None), fewest);
        assert!(choose(&fit, &Losses::default(), &PRICE, 48, None) <= 11);
    }

    #[test]
    fn fewer_are_tried_where_they_do_as_well_and_not_where_each_is_needed() {
        let tried = |best, current| fewer(&fit(best), &Losses::default(), &PRICE, current);
        assert_eq!((tried(10.0, 12), tried(1.0, 2)), (Some(10), Some(1)));
        assert_eq!((tried(10.0, 10), tried(2.0, 2), tried(1.0, 1)), (None, None, None));
        // Of fewer nothing is known, and what they may bring is little.
        let point = |n: f64| Point::new(n, 1e6, Bound::Exact);
        let full = Fit::of(&[point(4.0), point(2.0)], first_noise(), Company::default());
        let tried = |k| fewer(&full, &Losses::default(), &Price { k, ..PRICE }, 2);
        assert_eq!((tried(1.002), tried(1.1)), (None, Some(1)));
    }

    #[test]
    fn loss_that_grows_with_streams_makes_them_fewer_and_base_loss_does_not() {
        let (fit, mut base, mut congestion) = (fit(20.0), Losses::default(), Losses::default());
        for n in [4.0, 10.0, 16.0, 24.0, 30.0, 40.0] {
            base.observe(n, Some(0.01), Joined::Long);
            congestion.observe(n, Some(0.3 * (n / 20.0 - 1.0_f64).max(0.0)), Joined::Long);
        }
        let free = choose(&fit, &Losses::default(), &PRICE, 1, None);
        assert_eq!(choose(&fit, &base, &PRICE, 1, None), free);
        assert!(choose(&fit, &congestion, &PRICE, 1, None) <= free);
        // Even where nearly all that is sent gets lost, fewer streams would not lose less.
        for lost in [0.1, 0.9, 1.0] {
            (0..20).for_each(|_| base.observe(0.5, Some(lost), Joined::Long));
            assert_eq!(choose(&fit, &base, &PRICE, 1, None), free, "{lost}");
        }
    }

    #[test]
    fn others_join_only_where_that_is_worth_what_it_costs_and_to_go_costs_half_of_that() {
        let (fit, mut losses) = (fit(20.0), Losses::default());
        assert!(choose(&fit, &losses, &PRICE, 18, None) >= 19);
        losses.joining.rested(0.0);
        losses.joining.joined(10, 20, Lost { before: 1.0, within: 0.0, time: 0.5 });
        assert_eq!(choose(&fit, &losses, &PRICE, 18, None), 18);
        assert!(choose(&fit, &losses, &PRICE, 10, None) >= 17);
        let [more, fewer] = [(18, 20), (20, 18)].map(|(from, to)| moving(&losses, &PRICE, from, to));
        // However dear, many are not kept for ever where far fewer do.
        assert!(choose(&fit, &losses, &PRICE, 50, None) <= 22);
        assert!(more > 0.5 && (fewer - more / 2.0).abs() < 1e-9, "{more} {fewer}");
    }

    #[test]
    fn the_limit_is_the_policys_and_that_of_what_pays() {
        let policy = Policy::new(PolicyName::Fair, 1000);
        assert_eq!(Price::of(&policy, 1000).limit, 50);
        assert_eq!(Price::of(&policy, 8).limit, 8);
        assert_eq!(candidates(1, 9), [1]);
        assert_eq!(candidates(30, 27), [(1..=24).collect::<Vec<u16>>(), vec![25, 27, 29, 30]].concat());
    }
}
