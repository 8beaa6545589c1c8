//! A path made of a few numbers, to hold optimizers to: decisions in, observations out, and nothing between them left to chance.

use std::time::Duration;

use super::{Decision, Listed, Observation, Optimizer, PerStage, Policy, PolicyName};

/// What a stream sends at once before it may have to wait for an answer, at most: the smallest chunk of the engine.
const CHUNK: u64 = 16 << 20;

/// A path, and the files that go over it.
#[derive(Debug, Clone)]
pub(crate) struct TestPath {
    /// Bytes per second that a stream gets.
    pub(crate) stream: f64,
    /// Bytes per second that all get.
    pub(crate) capacity: f64,
    /// Share of what streams send beyond the capacity that gets lost and is sent again, 0 to 1.
    pub(crate) loss: f64,
    /// Round trip time.
    pub(crate) rtt: Duration,
    /// Files, which are all listed and never get fewer.
    pub(crate) files: u64,
    /// Bytes of each.
    pub(crate) file_size: u64,
}

impl TestPath {
    /// A path of so many streams of 10 MB/s, without loss, and without anything that parallelism or pipelining could help.
    pub(crate) fn of_streams(best: u16) -> Self {
        Self {
            stream: 10e6,
            capacity: f64::from(best) * 10e6,
            loss: 0.0,
            rtt: Duration::from_millis(50),
            files: 1_000_000,
            file_size: 1 << 30,
        }
    }

    /// Bytes per second, and the share of them that is lost, with so many streams and limits within streams and files.
    pub(crate) fn moves(&self, decision: &Decision) -> (f64, f64) {
        let chunk = self.file_size.min(CHUNK) as f64;
        let in_flight = (self.files as f64) * f64::from(decision.parallelism);
        let streams = f64::from(decision.concurrency.network).min(in_flight);
        // Whoever waits for answers sends so many chunks in the time of one and of a round trip.
        let answered = f64::from(decision.pipelining) * chunk / (chunk / self.stream + self.rtt.as_secs_f64());
        let offered = streams * self.stream.min(answered);
        let beyond = (offered - self.capacity).max(0.0);
        (offered.min(self.capacity), self.loss * beyond / offered)
    }

    fn listed(&self) -> Listed {
        let mut listed = Listed { complete: true, ..Listed::default() };
        listed.add(self.file_size);
        let class = &mut listed.classes[0];
        (class.files, class.bytes) = (self.files, self.files * self.file_size);
        listed
    }
}

/// One optimizer on one path, second by second.
pub(crate) struct Trial<'a> {
    optimizer: &'a mut dyn Optimizer,
    next: Decision,
    seconds: u64,
    pub(crate) path: TestPath,
    pub(crate) policy: Policy,
}

impl<'a> Trial<'a> {
    /// Begins, under a fair policy of so many streams at most.
    pub(crate) fn new(optimizer: &'a mut dyn Optimizer, path: TestPath, limit: u16) -> Self {
        let policy = Policy::new(PolicyName::Fair, limit);
        let next = optimizer.start(&policy);
        Self { optimizer, next, seconds: 0, path, policy }
    }

    /// Lets so many seconds pass, and tells the decisions that were in effect in them.
    pub(crate) fn decisions(&mut self, count: usize) -> Vec<Decision> {
        (0..count).map(|_| self.second()).collect()
    }

    /// The streams of these decisions.
    pub(crate) fn streams(&mut self, count: usize) -> Vec<u16> {
        self.decisions(count).iter().map(|decision| decision.concurrency.network).collect()
    }

    /// The streams, the parallelism and the pipelining of these decisions.
    pub(crate) fn settings(&mut self, count: usize) -> Vec<(u16, u16, u16)> {
        let all = self.decisions(count);
        all.iter().map(|one| (one.concurrency.network, one.parallelism, one.pipelining)).collect()
    }

    fn second(&mut self) -> Decision {
        self.seconds += 1;
        let (throughput, loss) = self.path.moves(&self.next);
        let observation = Observation {
            elapsed: Duration::from_secs(self.seconds),
            rtt: Some(self.path.rtt),
            loss: Some(loss),
            throughput: PerStage::all(throughput),
            listed: self.path.listed(),
            policy: self.policy,
            ..Observation::of_a_test(self.next.clone(), throughput, self.policy.limit.network)
        };
        let next = self.optimizer.decide(&observation).expect("these optimizers answer everything");
        assert!(!next.reason.is_empty(), "a decision without a reason after {} s", self.seconds);
        std::mem::replace(&mut self.next, next)
    }
}
