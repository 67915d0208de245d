//! Conductances that a program reads while a network runs.

use super::cases::{conductance, listed};
use betz_spiking::{Engine, Network, Options, Population, Projection, Result, Rule};

/// One spike through each of two channels: the peak is the weight, and the course is that of two exponentials.
#[test]
fn conductances_are_those_of_the_arrivals() -> Result<()> {
    let mut network = Network::new(0.1, 1);
    network.populations.push(listed(vec![vec![1.0]]));
    let source = network.populations[0].name.clone();
    let mut cell = Population::new("cell", 1);
    cell.synapse = conductance(&["ampa", "nmda"]);
    network.populations.push(cell);
    for (receptor, weight) in [("ampa", 0.5), ("nmda", 0.25)] {
        let mut made = Projection::new(source.as_str(), "cell", Rule::All, weight, 0.5);
        made.receptor = Some(receptor.into());
        network.projections.push(made);
    }
    let mut engine = Engine::build(&network, &Options::default(), &())?;
    assert_eq!(engine.channels(1)?, ["ampa", "nmda"]);
    let mut fired = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..2_000 {
        engine.step(&mut fired)?;
        seen.push(engine.conductances(1)?);
    }
    // The spike is emitted in the step at 1 ms and arrives at the end of the step half a millisecond later.
    let first = seen.iter().position(|g| g[0] > 0.0).unwrap();
    assert!((14..=16).contains(&first), "{first}");
    for (step, of) in seen.iter().enumerate() {
        let t = (step as f64 - first as f64) * 0.1;
        let expected = if t < 0.0 { 0.0 } else { 0.5 * (-t / 5.0).exp() };
        assert!(
            (f64::from(of[0]) - expected).abs() < 1e-4,
            "step {step}: {of:?} {expected}"
        );
    }
    let peak = seen.iter().map(|g| g[1]).fold(0.0, f32::max);
    assert!((peak - 0.25).abs() < 1e-3, "{peak}");
    // A source has none, and a neuron with currents no channels.
    assert!(engine.conductances(0).is_err());
    network.populations[1].synapse = betz_spiking::Synapse::Delta;
    network.projections.clear();
    let engine = Engine::build(&network, &Options::default(), &())?;
    assert!(engine.channels(1)?.is_empty() && engine.conductances(1)?.is_empty());
    Ok(())
}
