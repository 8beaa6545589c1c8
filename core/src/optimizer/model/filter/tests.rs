//! What the filter believes after hand-made measurements.

use super::*;

fn taught(rates: &[(f64, f64)]) -> Filter {
    let mut filter = Filter::default();
    for &(workers, rate) in rates {
        assert_eq!(see(&mut filter, workers, rate), News::Expected, "{workers} {rate}");
    }
    filter
}

fn see(filter: &mut Filter, workers: f64, rate: f64) -> News {
    filter.observe(Point::new(workers, rate, Bound::Exact), None)
}

/// Ten workers fill it.
fn settled() -> Filter {
    taught(&[(4.0, 40.0), (12.0, 100.0), (10.0, 100.0), (10.0, 100.0), (10.0, 100.0)])
}

#[test]
fn one_surprise_is_an_error_and_two_on_one_side_are_a_change() {
    let mut filter = settled();
    assert_eq!(see(&mut filter, 10.0, 50.0), News::Surprise(Side::Less));
    assert_eq!(see(&mut filter, 10.0, 100.0), News::Expected);
    assert_eq!(see(&mut filter, 10.0, 50.0), News::Surprise(Side::Less));
    assert_eq!(see(&mut filter, 10.0, 50.0), News::Changed);
    let fit = filter.fit().unwrap();
    assert!((fit.worker_rate() / 10.0 - 1.0).abs() < 0.1, "{}", fit.worker_rate());
    let (ten, _) = fit.predict(10.0);
    assert!((ten.exp() / 50.0 - 1.0).abs() < 0.05, "{}", ten.exp());
}

#[test]
fn what_a_path_carried_before_others_came_is_known_until_it_carries_more() {
    let mut filter = settled();
    (0..3).for_each(|_| _ = see(&mut filter, 10.0, 100.0));
    see(&mut filter, 10.0, 50.0);
    see(&mut filter, 10.0, 50.0);
    let known = filter.company.capacity.unwrap().exp();
    assert!((known / 100.0 - 1.0).abs() < 0.05, "{known}");
    // Ten of others leave five of ten, a third to five.
    see(&mut filter, 5.0, 33.0);
    assert!(filter.fit().unwrap().load(5.0) > 1.3, "{}", filter.fit().unwrap().load(5.0));
    (0..2).for_each(|_| _ = see(&mut filter, 15.0, 140.0));
    assert_eq!(filter.company.capacity, None);
    // Too little was measured before.
    let mut filter = settled();
    (0..2).for_each(|_| _ = see(&mut filter, 10.0, 50.0));
    assert_eq!(filter.company.capacity, None);
}

#[test]
fn streams_that_are_slow_to_find_their_share_do_not_hide_the_end_of_the_capacity() {
    let mut filter = Filter::default();
    for (workers, rate) in [(8.0, 147.0), (14.0, 306.0), (15.0, 382.0), (30.0, 500.0), (30.0, 500.0)] {
        see(&mut filter, workers, rate);
    }
    assert!(filter.fit().unwrap().saturation() < 30.0, "{}", filter.fit().unwrap().saturation());
}

#[test]
fn only_a_change_without_growth_tells_of_others_and_that_is_forgotten() {
    let changed = |workers: [f64; 2]| {
        let mut filter = settled();
        for workers in workers {
            see(&mut filter, workers, 50.0);
        }
        filter
    };
    assert!(changed([14.0, 20.0]).company.told < 1e-12);
    let mut filter = changed([10.0, 10.0]);
    assert!((filter.company.told - 1.0).abs() < 1e-12);
    (0..40).for_each(|_| _ = see(&mut filter, 5.0, 50.0));
    assert!(filter.company.told < 0.3);
}

#[test]
fn a_path_that_is_again_what_it_was_is_known_at_once() {
    let mut filter = settled();
    see(&mut filter, 10.0, 50.0);
    see(&mut filter, 10.0, 50.0);
    (0..4).for_each(|_| _ = see(&mut filter, 6.0, 50.0));
    assert_eq!(see(&mut filter, 8.0, 80.0), News::Returned);
    assert!((9.0..11.0).contains(&filter.fit().unwrap().saturation()));
}

#[test]
fn growth_that_meets_the_same_capacity_is_no_return() {
    let mut filter = settled();
    // Streams move half from now on, so that twenty fill the path.
    for (workers, rate) in [(10.0, 50.0), (10.0, 50.0), (5.0, 25.0), (5.0, 25.0), (18.0, 88.0)] {
        see(&mut filter, workers, rate);
    }
    assert_ne!(see(&mut filter, 34.0, 100.0), News::Returned);
}

#[test]
fn a_former_state_of_which_little_is_known_is_not_what_every_wild_measurement_returns_to() {
    let mut filter = settled();
    for rate in [50.0, 50.0, 25.0, 25.0] {
        see(&mut filter, 10.0, rate);
    }
    let former = Fit::of(&filter.former, 0.02, filter.company);
    let (mean, deviation) = former.predict(30.0);
    assert!(2.0 * deviation > 0.3, "{deviation}: the former state knows too much for this test");
    (0..3).for_each(|_| _ = see(&mut filter, 5.0, 25.0));
    let wild = (mean + 0.25).exp();
    assert!(!filter.is_familiar(&Point::new(30.0, wild, Bound::Exact), 0.02));
    assert!(filter.is_familiar(&Point::new(30.0, mean.exp(), Bound::Exact), 0.02));
}

#[test]
fn what_a_probe_finds_is_believed_at_once() {
    let mut filter = settled();
    (0..4).for_each(|_| _ = see(&mut filter, 13.0, 100.0));
    let found = Point::new(13.0, 130.0, Bound::Exact);
    assert_eq!(filter.observe(found, Some(10.0)), News::Changed);
    let (mean, _) = filter.fit().unwrap().predict(13.0);
    assert!((mean.exp() / 130.0 - 1.0).abs() < 0.1, "{}", mean.exp());
}

#[test]
fn where_a_probe_finds_half_of_what_it_might_that_is_measured_again() {
    for (again, news) in [(100.0, News::Expected), (112.0, News::Changed)] {
        let mut filter = settled();
        (0..4).for_each(|_| _ = see(&mut filter, 12.0, 100.0));
        see(&mut filter, 10.0, 100.0);
        assert_eq!(filter.observe(Point::new(12.0, 112.0, Bound::Exact), Some(10.0)), News::Surprise(Side::More));
        assert_eq!(see(&mut filter, 12.0, again), news);
        assert!(filter.company.told < 1e-12, "{}", filter.company.told);
    }
}

#[test]
fn what_fewer_than_ever_move_is_no_surprise() {
    let mut filter = taught(&[(32.0, 100.0), (16.0, 100.0), (16.0, 100.0)]);
    assert_eq!(see(&mut filter, 8.0, 60.0), News::Expected);
    assert!((11.0..15.0).contains(&filter.fit().unwrap().saturation()));
    assert_eq!(see(&mut filter, 8.0, 30.0), News::Surprise(Side::Less));
    // Half of the workers that move an eighth: the path has changed.
    let mut filter = taught(&[(32.0, 100.0), (16.0, 100.0), (16.0, 100.0)]);
    assert_eq!(see(&mut filter, 8.0, 12.0), News::Surprise(Side::Less));
}

#[test]
fn of_many_measurements_the_rare_settings_stay() {
    let mut filter = settled();
    (0..100).for_each(|_| _ = see(&mut filter, 10.0, 100.0));
    assert_eq!(filter.points.len(), WINDOW);
    assert!(filter.points.iter().any(|point| point.workers < 5.0));
}

#[test]
fn a_stage_that_waited_surprises_nobody_by_moving_less() {
    let mut filter = settled();
    let waited = |rate| Point::new(10.0, rate, Bound::AtLeast);
    assert_eq!(filter.observe(waited(20.0), None), News::Expected);
    assert_eq!(filter.observe(waited(200.0), None), News::Surprise(Side::More));
}

#[test]
fn where_no_queue_tells_that_a_path_is_full_it_is_the_streams_that_carry_less() {
    let changed = |open: bool| {
        let mut filter = taught(&[(4.0, 100.0), (2.0, 100.0), (2.0, 100.0), (2.0, 100.0), (2.0, 100.0), (2.0, 100.0)]);
        for news in [News::Surprise(Side::Less), News::Changed] {
            let less = Point::new(2.0, 40.0, Bound::Exact).filling(open.then_some(false));
            assert_eq!(filter.observe(less, None), news);
        }
        let fit = filter.fit().unwrap();
        (fit.capacity(), fit.worker_rate(), filter.company.told)
    };
    let (capacity, each, others) = changed(true);
    assert!((85.0..115.0).contains(&capacity) && (18.0..23.0).contains(&each) && others < 0.1, "{capacity} {each} {others}");
    let (_, each, others) = changed(false);
    assert!(each > 40.0 && others > 0.9, "{each} {others}");
}

#[test]
fn a_path_without_a_queue_is_not_full_unless_more_streams_carry_no_more() {
    let believed = |open: bool, rates: &[(f64, f64)]| {
        let mut filter = Filter::default();
        for &(workers, rate) in rates {
            filter.observe(Point::new(workers, rate, Bound::Exact).filling(open.then_some(false)), None);
        }
        filter.fit().unwrap().load(rates[0].0)
    };
    let alike = [(4.0, 40.0), (4.0, 41.0), (4.0, 40.0)];
    assert!(believed(true, &alike) < 0.9 && believed(true, &alike) <= believed(false, &alike));
    let full = [(4.0, 40.0), (8.0, 40.0), (4.0, 41.0), (6.0, 40.0)];
    assert!(believed(true, &full) > 0.9, "{}", believed(true, &full));
}

#[test]
fn what_a_probe_finds_after_an_error_is_more_also_where_no_queue_tells() {
    let mut filter = settled();
    assert_eq!(see(&mut filter, 10.0, 50.0), News::Surprise(Side::Less));
    let more = Point::new(12.0, 200.0, Bound::Exact).filling(Some(false));
    assert_eq!(filter.observe(more, Some(10.0)), News::Changed);
    let known: Vec<f64> = filter.points.iter().filter(|point| point.derived).map(|point| point.workers).collect();
    assert!(known.len() == 1 && known[0] <= 1.0, "a worker alone, and no capacity that is too small: {known:?}");
}
