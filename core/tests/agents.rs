//! Agent files that PyTorch made: the evaluator gives what PyTorch gave, the optimizers decide by it, and damaged files do no harm.
//!
//! The files, and how they were made, are in `tests/parity` of the repository.

use std::time::Duration;

use edt::optimizer::network::{LayerSpec, Network, Tensors};
use edt::optimizer::{Buffers, Decision, Listed, Observation, Optimizer, PerStage, Policy, PolicyName, Sampling, Setup, by_name};
use proptest::prelude::*;

const EDT: &[u8] = include_bytes!("agents/edt.safetensors");
const AUTOMDT: &[u8] = include_bytes!("agents/automdt.safetensors");
const DRL: &[u8] = include_bytes!("agents/drl.safetensors");
const RECURRENT: &[u8] = include_bytes!("agents/recurrent.safetensors");

const ALL: [(&str, &[u8]); 4] = [("edt", EDT), ("automdt", AUTOMDT), ("drl", DRL), ("edt", RECURRENT)];

/// Streams that `drl` asked for with seed 1 when this was recorded.
const DRL_RECORDED: [u16; 10] = [4, 1, 2, 1, 1, 4, 4, 1, 4, 7];

/// Workers that read, streams, and workers that write, which `automdt` asked for with seed 1.
const AUTOMDT_RECORDED: [[u16; 3]; 10] = [
    [31, 26, 14],
    [28, 17, 7],
    [22, 20, 42],
    [37, 14, 25],
    [24, 21, 20],
    [12, 19, 11],
    [29, 20, 1],
    [7, 32, 10],
    [23, 36, 23],
    [47, 7, 3],
];

/// The limit, which this `edt` asks for at whatever it sees of that path; the recurrent one asks for others.
const EDT_RECORDED: [u16; 10] = [48; 10];
const RECURRENT_RECORDED: [u16; 10] = [40, 35, 29, 36, 25, 20, 30, 29, 48, 47];

fn layers(tensors: &Tensors<'_>) -> Vec<LayerSpec> {
    let text = tensors.text("edt.agent").expect("the header is whole").expect("it describes an agent");
    let description: serde_json::Value = serde_json::from_str(&text).expect("the description is JSON");
    serde_json::from_value(description["network"].clone()).expect("it lists layers")
}

fn optimizer(name: &str, bytes: &[u8], sampling: Sampling) -> Box<dyn Optimizer> {
    by_name(name, &setup(bytes, sampling)).expect("the agent suits its optimizer")
}

fn setup(bytes: &[u8], sampling: Sampling) -> Setup<'_> {
    Setup { streams: 1, agent: Some(bytes), sampling, rtt: None, history: &[], knowledge: None }
}

fn observed(applied: Decision, throughput: f64) -> Observation {
    Observation {
        elapsed: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        workers: applied.concurrency.map(f64::from),
        applied,
        throughput: PerStage { read: 1.1 * throughput, network: throughput, write: 0.9 * throughput },
        busy: PerStage::all(1.0),
        rtt: None,
        loss: None,
        loss_before: None,
        delivery_rate: None,
        received: None,
        fills_queues: false,
        spread: None,
        buffer_free: Buffers { sender: 1 << 20, receiver: 2 << 20, sender_capacity: 4 << 20, receiver_capacity: 4 << 20 },
        bytes_left: None,
        files_left: None,
        listed: Listed::default(),
        held_back: false,
        cpu_bound: false,
        work_unit: None,
        first_window: 14_480.0,
        policy: Policy::new(PolicyName::Fair, 48),
    }
}

/// The concurrencies of so many decisions on a path that gives each stream 10 MB/s up to 130 MB/s.
fn trace(optimizer: &mut dyn Optimizer, count: usize) -> Vec<PerStage<u16>> {
    let mut decision = optimizer.start(&Policy::new(PolicyName::Fair, 48));
    let mut trace = Vec::new();
    for _ in 0..count {
        let throughput = 1e7 * f64::from(decision.concurrency.network.min(13));
        decision = optimizer.decide(&observed(decision, throughput)).expect("an agent answers everything");
        let PerStage { read, network, write } = decision.concurrency;
        assert!([read, network, write].iter().all(|workers| (1..=48).contains(workers)), "{decision:?}");
        assert!(decision.reason.contains("the agent's"), "{decision:?}");
        trace.push(decision.concurrency);
    }
    trace
}

#[test]
fn every_network_gives_what_pytorch_gave() {
    for (name, bytes) in ALL {
        let tensors = Tensors::parse(bytes).unwrap();
        let (input, output) = (tensors.tensor("golden.input").unwrap(), tensors.tensor("golden.output").unwrap());
        let (inputs, outputs) = (input.shape[1], output.shape[1]);
        let mut network = Network::build(&layers(&tensors), inputs, &tensors).unwrap();
        assert_eq!((network.inputs(), network.outputs()), (inputs, outputs));
        let mut furthest = 0f32;
        for (row, expected) in input.values.chunks_exact(inputs).zip(output.values.chunks_exact(outputs)) {
            let found = network.evaluate(row);
            assert!(found.iter().all(|value| value.is_finite()), "{name}: {found:?}");
            furthest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(furthest, f32::max);
        }
        println!("{name}: {} vectors, at most {furthest:e} apart", input.shape[0]);
        assert!(input.shape[0] >= 16 && furthest < 1e-5, "{name}: {furthest:e}");
    }
}

#[test]
fn a_seed_repeats_its_decisions_and_another_seed_makes_others() {
    for (name, bytes) in ALL {
        let run = |sampling| trace(&mut *optimizer(name, bytes, sampling), 30);
        assert_eq!(run(Sampling::Seeded(1)), run(Sampling::Seeded(1)), "{name}");
        assert_ne!(run(Sampling::Seeded(1)), run(Sampling::Seeded(2)), "{name}");
        assert_eq!(run(Sampling::MostLikely), run(Sampling::MostLikely), "{name}");
    }
}

#[test]
fn the_decisions_of_each_agent_are_those_that_were_recorded() {
    let seeded = |name, bytes| trace(&mut *optimizer(name, bytes, Sampling::Seeded(1)), 10);
    let found = seeded("automdt", AUTOMDT).into_iter().map(|workers| [workers.read, workers.network, workers.write]);
    assert_eq!(found.collect::<Vec<_>>(), AUTOMDT_RECORDED);
    let recorded = [("edt", EDT, EDT_RECORDED), ("edt", RECURRENT, RECURRENT_RECORDED), ("drl", DRL, DRL_RECORDED)];
    for (name, bytes, expected) in recorded {
        let found: Vec<_> = seeded(name, bytes).into_iter().map(|workers| workers.network).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn one_stage_agents_give_all_stages_the_same_and_the_other_does_not() {
    let same = |workers: &PerStage<u16>| workers.read == workers.network && workers.write == workers.network;
    for (name, bytes) in ALL {
        let trace = trace(&mut *optimizer(name, bytes, Sampling::Seeded(0)), 20);
        assert_eq!(trace.iter().all(same), name != "automdt", "{name}: {trace:?}");
    }
}

#[test]
fn a_discrete_agent_moves_by_its_moves_only() {
    let trace = trace(&mut *optimizer("drl", DRL, Sampling::Seeded(3)), 60);
    let mut before = 4;
    for workers in trace {
        let by = i32::from(workers.network) - before;
        let at_an_end = workers.network == 1 || workers.network == 48;
        assert!([-3, -1, 0, 1, 3].contains(&by) || at_an_end, "{before} to {}", workers.network);
        before = i32::from(workers.network);
    }
}

#[test]
fn an_agent_serves_no_other_optimizer() {
    for (name, bytes) in [("edt", AUTOMDT), ("automdt", DRL), ("drl", EDT)] {
        let setup = setup(bytes, Sampling::Seeded(0));
        let error = by_name(name, &setup).err().unwrap();
        assert!(error.hint().unwrap().contains("--optimizer"), "{error:?}");
    }
}

/// Loads and asks; what becomes of it does not matter as long as it ends.
fn try_out(bytes: &[u8]) {
    for name in ["edt", "automdt", "drl"] {
        let setup = setup(bytes, Sampling::Seeded(0));
        if let Ok(mut optimizer) = by_name(name, &setup) {
            let decision = optimizer.start(&Policy::new(PolicyName::Fair, 48));
            let decision = optimizer.decide(&observed(decision, 1e8)).expect("an agent answers everything");
            assert!((1..=48).contains(&decision.concurrency.network), "{decision:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_damaged_file_does_no_harm(
        file in 0..ALL.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = ALL[file].1.to_vec();
        // All of it goes to the header, where it can do most.
        let header = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        for (place, value) in damage {
            bytes[place.index(header)] = value;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        try_out(&bytes);
    }

    #[test]
    fn any_description_does_no_harm(text in "\\PC{0,200}") {
        let header = serde_json::json!({"__metadata__": {"edt.agent": text}}).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        try_out(&bytes);
    }
}
