//! Neurons that are tuned to a movement.

use betz_spiking::{Draw, Engine, Movement, Network, Options, Population, Result, TuningProfile};

/// Four neurons that point right, up, left and down.
fn tuned() -> Network {
    let mut network = Network::new(0.5, 4);
    let mut population = Population::new("m1", 4);
    population.tuning = Some(TuningProfile {
        direction_deg: vec![0.0, 90.0, 180.0, 270.0].into(),
        gain_pa: 500.0.into(),
        offset_pa: vec![0.0, 100.0, 200.0, 300.0].into(),
    });
    network.populations.push(population);
    network
}

/// Right, then up and to the left, then down; a second in all.
fn movement() -> Result<Movement> {
    let rows = vec![(0, [1.0, 0.0]), (700, [-0.8, 0.6]), (1_500, [0.0, -1.5])];
    Movement::new(rows, 2_000)
}

fn run(network: &Network, threads: usize, follow: bool) -> Result<Engine> {
    let options = Options {
        threads,
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &())?;
    if follow {
        engine.follow(&movement()?)?;
    }
    Ok(engine)
}

#[test]
fn neurons_get_the_current_of_their_tuning() -> Result<()> {
    let mut engine = run(&tuned(), 1, true)?;
    engine.run(5_000, &())?;
    // The same currents by hand, in every step.
    let mut plain = tuned();
    plain.populations[0].tuning = None;
    let mut by_hand = run(&plain, 1, false)?;
    let mut fired = Vec::new();
    for step in 0..5_000 {
        let [x, y] = movement()?.at(step).map(f64::from);
        let along = [x, y, -x, -y];
        let current = |i: usize| 100.0 * i as f64 + 500.0 * along[i];
        by_hand.set_currents(0, &[0, 1, 2, 3].map(current))?;
        by_hand.step(&mut fired)?;
    }
    assert_eq!(engine.counts(), by_hand.counts());
    assert!(engine.counts().iter().all(|count| *count > 10));
    Ok(())
}

#[test]
fn drawn_tuning_is_the_same_on_any_number_of_threads() -> Result<()> {
    let mut network = tuned();
    network.populations[0].neurons = 300;
    let spread = Draw::Uniform {
        low: 300.0,
        high: 900.0,
    };
    network.populations[0].tuning = Some(TuningProfile::new(spread));
    let hash = |network: &Network, threads| {
        let mut engine = run(network, threads, true)?;
        Ok::<_, betz_spiking::Error>(engine.run(2_000, &())?.hash)
    };
    let one = hash(&network, 1)?;
    assert_eq!(hash(&network, 2)?, one);
    let text = network.to_json()?;
    assert_eq!(hash(&Network::from_json(&text)?, 1)?, one);
    network.seed += 1;
    assert_ne!(hash(&network, 1)?, one);
    Ok(())
}

#[test]
fn a_movement_holds_and_repeats() -> Result<()> {
    let read = Movement::read("seconds,x,y\n0.001,1,2\n\n0.003,3,4\n", "m.csv", 0.5)?;
    // The last line holds for 2 ms as the one before it, so it begins again after 5 ms.
    let expected = [
        (0, 0.0),
        (1, 0.0),
        (2, 1.0),
        (5, 1.0),
        (6, 3.0),
        (9, 3.0),
        (10, 0.0),
        (12, 1.0),
    ];
    for (step, x) in expected {
        assert_eq!(read.at(step)[0], x, "step {step}");
    }
    let single = Movement::read("0,1,-1", "m.csv", 0.5)?;
    assert_eq!(single.at(u64::MAX - 1), [1.0, -1.0]);
    for (text, words) in [
        ("", "m.csv: movement: expected at least one position"),
        ("0,1\n", "m.csv: line 1: expected three finite numbers"),
        ("0,1,2\n1,nan,2\n", "line 2: expected three finite numbers"),
        ("0,1,2\n1,2,x,3\n", "line 2: expected three finite numbers"),
        ("0,1,2\n1,,2\n", "line 2: expected three finite numbers"),
        ("-1,1,2\n", "expected a time from 0 s on"),
        (
            "1,1,2\n1,2,3\n",
            "line 2: expected a time at least one step after",
        ),
        ("0,1e300,2\n", "expected finite positions"),
    ] {
        let message = Movement::read(text, "m.csv", 0.5).unwrap_err();
        assert!(message.message().contains(words), "{text:?}: {message}");
    }
    assert!(Movement::new(vec![(5, [0.0; 2])], 5).is_err());
    assert!(Movement::new(vec![(5, [0.0; 2]), (5, [1.0; 2])], 9).is_err());
    Ok(())
}

#[test]
fn tuning_that_is_none_is_refused_by_population_and_name() -> Result<()> {
    let mut engine = run(
        &{
            let mut plain = tuned();
            plain.populations[0].tuning = None;
            plain
        },
        1,
        false,
    )?;
    let message = engine.follow(&movement()?).unwrap_err();
    assert!(
        message
            .message()
            .contains("expected a population with \"tuning\""),
        "{message}"
    );
    let text = tuned().to_json()?;
    for (from, to, words) in [
        (
            "\"gain_pa\": 500.0",
            "\"gain_pa\": [1, 2]",
            "population \"m1\": tuning: gain_pa: expected one value per neuron, 4, got 2",
        ),
        ("\"gain_pa\": 500.0", "\"gain\": 500.0", "gain"),
        (
            "\"gain_pa\": 500.0",
            "\"gain_pa\": {\"low\": 2, \"high\": 1}",
            "population \"m1\": tuning: gain_pa",
        ),
        (
            "\"gain_pa\": 500.0",
            "\"gain_pa\": {\"file\": \"none.csv\"}",
            "population \"m1\": tuning: gain_pa",
        ),
    ] {
        let message = Network::from_json(&text.replace(from, to)).unwrap_err();
        assert!(message.message().contains(words), "{to}: {message}");
    }
    let mut network = tuned();
    network.populations[0].neuron = betz_spiking::Neuron::Source;
    let message = network.check().unwrap_err();
    assert!(
        message.message().contains("no stimuli and no tuning"),
        "{message}"
    );
    Ok(())
}
