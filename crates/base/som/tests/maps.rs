//! Maps against their oracle, and maps of odd data.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::random::Random;
use betz_device::Device;
use betz_som::{
    BatchOptions, Fade, Grid, Lattice, Map, Metric, Neighbourhood, Online, OnlineOptions, Samples,
    oracle,
};

/// Numbers that look random and are the same everywhere.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + 13) % 1009) as f32 / 1009.0)
        .collect()
}

/// Six epochs of batch training, each beside the oracle's.
fn batch_equals_the_oracle(grid: Grid, metric: Metric, values: &[f32]) {
    let samples = Samples::new(values, 5).unwrap();
    let map = Map::on_plane(grid.clone(), samples).unwrap();
    let mut map = map.with_metric(metric);
    let mut expected: Vec<f64> = map.weights().iter().map(|w| f64::from(*w)).collect();
    let options = BatchOptions {
        epochs: 6,
        exact: true,
        ..BatchOptions::default()
    };
    let epochs = map.train(samples, &options, &Device::cpu(), &()).unwrap();
    for epoch in &epochs {
        oracle::batch_epoch(&grid, metric, &mut expected, samples, epoch.radius);
    }
    for (got, expected) in map.weights().iter().zip(&expected) {
        assert!(
            (f64::from(*got) - expected).abs() < 1e-4,
            "{grid:?}, {metric:?}: {got} for {expected}"
        );
    }
    assert!(epochs[5].quantisation_error < epochs[0].quantisation_error);
    assert_eq!(map.metric(), metric);
}

#[test]
fn batch_training_is_the_oracles_epoch_for_epoch() {
    let values = numbers(400 * 5);
    for (lattice, torus) in [
        (Lattice::Rectangular, false),
        (Lattice::Rectangular, true),
        (Lattice::Hexagonal, false),
        (Lattice::Hexagonal, true),
    ] {
        let grid = Grid::new(6, 7, lattice, torus).unwrap();
        batch_equals_the_oracle(grid, Metric::Euclidean, &values);
        let body = Grid::new(4, 3, lattice, torus).unwrap().with_layers(5);
        batch_equals_the_oracle(body.unwrap(), Metric::Euclidean, &values);
    }
    let places: Vec<f64> = numbers(60).iter().map(|v| f64::from(*v) * 6.0).collect();
    let listed = Grid::at_positions(&places, 2).unwrap();
    batch_equals_the_oracle(listed, Metric::Euclidean, &values);
    for (_, metric) in Metric::NAMES {
        let grid = Grid::new(4, 5, Lattice::Rectangular, false).unwrap();
        batch_equals_the_oracle(grid, metric, &values);
    }
}

#[test]
fn samples_are_assigned_to_the_oracles_nodes() {
    let values = numbers(300 * 4);
    let samples = Samples::new(&values, 4).unwrap();
    for (_, metric) in Metric::NAMES {
        let grid = Grid::new(3, 3, Lattice::Hexagonal, false).unwrap();
        let map = Map::at_random(grid.with_layers(3).unwrap(), samples, 2).unwrap();
        let map = map.with_metric(metric);
        let wide: Vec<f64> = map.weights().iter().map(|w| f64::from(*w)).collect();
        let assigned = map.assign(samples).unwrap();
        let quality = map.quality(samples).unwrap();
        let mut sum = 0.0;
        for (s, x) in samples.rows().enumerate() {
            let winner = assigned.winners[s] as usize;
            assert_eq!(winner, oracle::nearest_by(metric, x, &wide), "{metric:?}");
            let expected = oracle::distance(metric, x, map.node(winner));
            assert!((f64::from(assigned.distances[s]) - expected).abs() < 1e-6);
            sum += expected;
        }
        assert!((quality.quantisation_error - sum / 300.0).abs() < 1e-9);
        assert!(map.heights().iter().all(|h| *h > 0.0));
    }
}

#[test]
fn maps_of_odd_data_stay_finite() {
    let huge: Vec<f32> = numbers(60).iter().map(|v| v * 1e30).collect();
    let constant: Vec<f32> = (0..60)
        .map(|i| if i % 3 == 1 { 5.0 } else { (i % 11) as f32 })
        .collect();
    for (values, dims) in [
        (vec![2.5; 60], 3),
        (vec![1.0, 2.0, 3.0], 3),
        (huge, 3),
        (constant, 3),
        (numbers(4), 1),
    ] {
        let samples = Samples::new(&values, dims).unwrap();
        for (rows, columns) in [(1, 1), (1, 9), (8, 9)] {
            let grid = Grid::new(rows, columns, Lattice::Rectangular, false).unwrap();
            let mut map = Map::on_plane(grid, samples).unwrap();
            map.train(samples, &BatchOptions::default(), &Device::cpu(), &())
                .unwrap();
            assert!(map.weights().iter().all(|w| w.is_finite()), "{values:?}");
            let quality = map.quality(samples).unwrap();
            assert!(quality.quantisation_error.is_finite());
            assert!((0.0..=1.0).contains(&quality.topographic_error));
            let hits = map.hits(samples).unwrap();
            assert_eq!(hits.iter().sum::<u32>() as usize, samples.count());
            let options = OnlineOptions {
                passes: 2,
                rate: Fade::constant(0.5),
                radius: Fade::constant(3.0),
                neighbourhood: Neighbourhood::MexicanHat,
            };
            let mut online = Online::new(&map, samples, &options, &Device::cpu()).unwrap();
            while online.present(7).unwrap() > 0 {}
            online.write(&mut map).unwrap();
            assert!(map.weights().iter().all(|w| w.is_finite()));
        }
    }
    for bad in [
        vec![],
        vec![1.0, f32::NAN],
        vec![f32::INFINITY, 0.0],
        vec![1.0],
    ] {
        assert!(Samples::new(&bad, 2).is_err());
    }
    // Of equal nodes the lowest wins.
    let grid = Grid::new(2, 2, Lattice::Rectangular, false).unwrap();
    let map = Map::new(grid, 1, vec![3.0, 1.0, 1.0, 3.0]).unwrap();
    let winners = map
        .winners(Samples::new(&[0.0, 1.0, 2.0, 9.0], 1).unwrap())
        .unwrap();
    assert_eq!(winners, [1, 1, 0, 0]);
}

#[test]
fn online_maps_have_the_same_bits_on_a_device() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: {}", error.message()),
    };
    let mut random = Random::new(5);
    // (rows, columns, lattice, torus, samples, dims): one block and many, in shared memory and beyond it.
    let cases = [
        (1, 1, Lattice::Rectangular, false, 40, 2),
        (1, 9, Lattice::Rectangular, false, 300, 1),
        (6, 5, Lattice::Rectangular, true, 257, 3),
        (16, 16, Lattice::Hexagonal, false, 3000, 3),
        (12, 31, Lattice::Hexagonal, true, 1500, 7),
        (90, 70, Lattice::Rectangular, false, 2500, 3),
        (40, 33, Lattice::Rectangular, true, 600, 300),
        (200, 200, Lattice::Hexagonal, true, 20, 200),
        (300, 301, Lattice::Rectangular, false, 60, 33),
    ];
    let shapes = [
        Neighbourhood::Disc,
        Neighbourhood::Window,
        Neighbourhood::Gaussian,
        Neighbourhood::Triangle,
        Neighbourhood::MexicanHat,
    ];
    for (number, (rows, columns, lattice, torus, count, dims)) in cases.into_iter().enumerate() {
        // Quarters: many nodes are equally near.
        let draw = |_| match number % 2 {
            0 => random.uniform() as f32,
            _ => (random.uniform() * 8.0).floor() as f32 / 4.0,
        };
        let values: Vec<f32> = (0..count * dims).map(draw).collect();
        let samples = Samples::new(&values, dims).unwrap();
        let grid = Grid::new(rows, columns, lattice, torus).unwrap();
        for shape in shapes {
            let options = OnlineOptions {
                passes: 2,
                rate: Fade::constant(0.3),
                radius: Fade {
                    first: rows.max(columns) as f64 / 3.0,
                    last: 1.0,
                    ..OnlineOptions::default().radius
                },
                neighbourhood: shape,
            };
            let trained = |device: &Device, at_once: usize| {
                let mut map = Map::at_random(grid.clone(), samples, 4).unwrap();
                let mut online = Online::new(&map, samples, &options, device).unwrap();
                while online.present(at_once).unwrap() > 0 {}
                online.write(&mut map).unwrap();
                (online.ran().device.clone(), map)
            };
            let (there, cuda) = trained(&device, 1 << 20);
            let (_, cpu) = trained(&Device::cpu(), 1 << 20);
            let what = format!("{grid:?}, {dims}, {shape:?}");
            assert_eq!(there, "cuda:0");
            assert!(cuda.weights() == cpu.weights(), "{what}");
            if number < 5 {
                assert!(trained(&device, 7).1 == cpu, "{what}, in parts");
            }
        }
    }
}
