//! A sorter at work takes no memory.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use betz_sort::synthetic::{Synthetic, make};
use betz_sort::{
    BandPower, BlockFrontEnd, BlockOptions, CrossingRule, InMemory, Reference, Settings, Sorting,
    TrainOptions, train,
};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

#[test]
fn pushing_samples_does_not_allocate() {
    let of = Synthetic {
        seconds: 2.0,
        artefact_seconds: 0.5,
        ..Synthetic::probe(2)
    };
    let made = make(&of).unwrap();
    let places: Vec<_> = of.places.iter().map(|p| Some(*p)).collect();
    for reference in [Reference::None, Reference::Median] {
        let settings = Settings {
            reference,
            ..Settings::new(of.rate_hz, of.gain)
        };
        let mut voltage = InMemory::new(&made.samples, 32).unwrap();
        let options = TrainOptions::new(settings, places.clone());
        let sorter = train(&mut voltage, &options, &()).unwrap().sorter;
        let mut sorting = Sorting::open(&sorter).unwrap();
        let mut power = BandPower::new(of.rate_hz, of.gain, 32, 600).unwrap();
        let (mut labelled, mut bins) = (0, 0);
        assert_no_alloc(|| {
            for block in made.samples.chunks(32 * 7) {
                let pushed = sorting.push(block, &mut |spike| {
                    labelled += u32::from(spike.unit.is_some())
                });
                assert!(pushed.is_ok());
                for row in block.chunks_exact(32) {
                    bins += u32::from(power.step(row).is_some());
                }
            }
        });
        assert!(
            labelled > 50 && bins == 100,
            "{labelled} spikes, {bins} bins"
        );
        // A signal that all channels share is gone with a median taken off, and an artefact without.
        let artefacts = sorting.blanked().artefacts;
        assert_eq!(artefacts >= 3, reference == Reference::None, "{artefacts}");
        assert_eq!(sorting.moves().count(), sorter.units().len());
    }
}

#[test]
fn pushing_blocks_does_not_allocate() {
    let of = Synthetic {
        seconds: 2.0,
        artefact_seconds: 0.5,
        ..Synthetic::probe(2)
    };
    let made = make(&of).unwrap();
    let places: Vec<_> = of.places.iter().map(|p| Some(*p)).collect();
    let settings = Settings {
        reference: Reference::Median,
        ..Settings::new(of.rate_hz, of.gain)
    };
    let mut voltage = InMemory::new(&made.samples, 32).unwrap();
    let options = TrainOptions::new(settings.clone(), places);
    let sorter = train(&mut voltage, &options, &()).unwrap().sorter;
    for rule in [CrossingRule::Once, CrossingRule::Settled] {
        let options = BlockOptions {
            crossings: Some(rule),
            power: true,
            calibrate_seconds: if rule == CrossingRule::Once { 0.5 } else { 0.0 },
            ..BlockOptions::default()
        };
        let mut front = BlockFrontEnd::new(&settings, sorter.layout(), &options).unwrap();
        let mut power = vec![0.0; front.layout().channels()];
        let mut crossings = 0;
        assert_no_alloc(|| {
            for block in made.samples.chunks(32 * 47) {
                assert!(front.push(block, &mut |_| crossings += 1).is_ok());
                assert!(front.take_power(&mut power).is_ok());
            }
            front.restart();
        });
        assert!(front.is_calibrated() && crossings > 50, "{crossings}");
    }
}
