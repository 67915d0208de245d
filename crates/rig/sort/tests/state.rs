//! Sorters and front ends go on from their state as bytes.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::Result;
use betz_base::state::StateBytes;
use betz_sort::synthetic::{Synthetic, make};
use betz_sort::{
    BlockFrontEnd, BlockOptions, CrossingRule, InMemory, Reference, Settings, Sorting,
    TrainOptions, train,
};

const CHANNELS: usize = 32;

/// Sample and channel or unit.
type Spike = (i64, u32);

/// Something at work whose state is bytes.
struct Worker<'a, T> {
    open: &'a dyn Fn() -> T,
    push: &'a dyn Fn(&mut T, &[i16]) -> Vec<Spike>,
    state: &'a dyn Fn(&mut T, &mut StateBytes<'_>) -> Result<()>,
}

impl<T> Worker<'_, T> {
    fn save(&self, one: &mut T) -> Vec<u8> {
        let mut bytes = Vec::new();
        (self.state)(one, &mut StateBytes::save(&mut bytes)).unwrap();
        bytes
    }

    fn load(&self, bytes: &[u8]) -> Result<T> {
        let mut one = (self.open)();
        let mut state = StateBytes::load(bytes);
        (self.state)(&mut one, &mut state)?;
        state.end()?;
        Ok(one)
    }

    fn check(&self, samples: &[i16]) {
        for rows in [0, 1, 999, 7_777, 31_001] {
            let (before, after) = samples.split_at(rows * CHANNELS);
            let mut one = (self.open)();
            (self.push)(&mut one, before);
            let bytes = self.save(&mut one);
            let mut other = self.load(&bytes).unwrap();
            let expected = (self.push)(&mut one, after);
            assert!(expected.len() > 20, "{}", expected.len());
            assert_eq!((self.push)(&mut other, after), expected);
            assert!(self.save(&mut one) == self.save(&mut other));
            self.check_damage(&bytes, after);
        }
    }

    /// Cut bytes are refused; others with a bit turned over are, or do no harm.
    fn check_damage(&self, bytes: &[u8], after: &[i16]) {
        for part in 0..8 {
            assert!(self.load(&bytes[..bytes.len() * part / 8]).is_err());
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert!(self.load(&longer).is_err());
        for flip in 0..40 {
            let mut damaged = bytes.to_vec();
            let at = match flip {
                // Counts and places are at the end.
                0..20 => bytes.len() - 1 - flip * 7 % bytes.len(),
                _ => flip * 7_919_017 % bytes.len(),
            };
            damaged[at] ^= 0x80;
            if let Ok(mut one) = self.load(&damaged) {
                (self.push)(&mut one, &after[..100 * CHANNELS]);
            }
        }
    }
}

#[test]
fn sorters_and_front_ends_go_on_from_their_state() {
    let of = Synthetic {
        seconds: 2.0,
        artefact_seconds: 0.5,
        ..Synthetic::probe(2)
    };
    let samples = make(&of).unwrap().samples;
    let settings = Settings {
        reference: Reference::Median,
        ..Settings::new(of.rate_hz, of.gain)
    };
    let places = of.places.iter().map(|p| Some(*p)).collect();
    let options = TrainOptions::new(settings.clone(), places);
    let sorter = train(
        &mut InMemory::new(&samples, CHANNELS).unwrap(),
        &options,
        &(),
    )
    .unwrap()
    .sorter;
    Worker {
        open: &|| Sorting::open(&sorter).unwrap(),
        push: &|sorting: &mut Sorting, samples| {
            let mut spikes = Vec::new();
            (sorting.push(samples, &mut |s| {
                spikes.push((s.sample, s.unit.unwrap_or(99)))
            }))
            .unwrap();
            spikes
        },
        state: &Sorting::state,
    }
    .check(&samples);
    for (crossings, calibrate_seconds) in [
        (Some(CrossingRule::Once), 0.3),
        (Some(CrossingRule::Settled), 0.0),
    ] {
        let options = BlockOptions {
            crossings,
            power: true,
            calibrate_seconds,
            ..BlockOptions::default()
        };
        Worker {
            open: &|| BlockFrontEnd::new(&settings, sorter.layout(), &options).unwrap(),
            push: &|front: &mut BlockFrontEnd, samples| {
                let mut crossings = Vec::new();
                (front.push(samples, &mut |c| {
                    crossings.push((c.sample, c.channel as u32))
                }))
                .unwrap();
                crossings
            },
            state: &BlockFrontEnd::state,
        }
        .check(&samples);
    }
}
