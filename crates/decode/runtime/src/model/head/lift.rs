//! The lift: cosines of random projections of the latents, read out linearly.
//!
//! Random Fourier features (Rahimi and Recht 2007) of a few whitened latents: c = cos(2π·(Fz + p)). The
//! cosines make the readout nonlinear, so that the decoder recognises rest. The cost is latents × units
//! multiplications per tick, independent of the number of channels.

use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use super::arithmetic::{Width, add_dots, cosines_of_rows};
use super::readout::{FilteredReadout, PreparedReadout};
use super::{Kind, HeadStep, check_finite, check_radius, clip, expect, refuse};
use betz_base::wire::{Reader, Writer};
use betz_base::error::Result;
use betz_base::hash::Fnv1a;

/// Largest number of units of a lift.
pub const MAX_UNITS: usize = 16_384;

/// Arguments of the cosines are at most so many turns: f32 then still tells 1/8 of a turn.
const MAX_TURNS: f64 = 1048576.0;

/// The features of a lift: latents, clipped, and cosines of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cosines {
    /// R: latents z are clipped radially, z ← z·min(1, R/|z|). About the 99.9 % quantile of |z| in
    /// training, where z has unit variance.
    pub radius: f64,
    /// F, row-major (latent, unit), in turns (of 2π) per unit of the latent: a Gaussian of standard
    /// deviation 0.13 rad is one of 0.13/2π here.
    pub frequencies: Vec<f32>,
    /// p, one per unit, in turns.
    pub phases: Vec<f32>,
}

/// Latents → radial clip → g = [z; cos(2π·(Fz + p))] → readout with one first-order filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lift {
    /// The features g: latents first, then cosines.
    pub cosines: Cosines,
    /// From g to the outputs.
    pub readout: FilteredReadout,
    /// Seed that `cosines` was drawn with: for people; nothing reads it.
    pub seed: u64,
}

impl Cosines {
    /// Number of units, one cosine each.
    pub fn units(&self) -> usize {
        self.phases.len()
    }

    /// Number of latents.
    pub fn latents(&self) -> usize {
        self.frequencies.len().checked_div(self.units()).unwrap_or(0)
    }

    /// The features g of one step's `latents`, which are clipped in place: `features` takes latents, then
    /// cosines. The same arithmetic as in a session, bit for bit. Allocates nothing.
    ///
    /// # Panics
    /// When `latents` or `features` is not as long as [`latents`](Self::latents) and latents + units.
    pub fn features(&self, latents: &mut [f64], features: &mut [f32]) {
        assert_eq!(latents.len(), self.latents());
        assert_eq!(features.len(), latents.len() + self.units());
        clip(latents, self.radius);
        let (z, cosines) = features.split_at_mut(latents.len());
        for (z, latent) in z.iter_mut().zip(latents) {
            *z = *latent as f32;
        }
        cosines.copy_from_slice(&self.phases);
        cosines_of_rows(Width::detect(), cosines, z, &self.frequencies);
    }

    pub(super) fn check(&self, latents: usize) -> Result<()> {
        check_radius(self.radius)?;
        let units = self.units();
        if units == 0 || units > MAX_UNITS {
            return refuse(format!("phases: expected 1 to {MAX_UNITS}, got {units}"));
        }
        expect("frequencies", self.frequencies.len(), latents * units)?;
        check_finite("phases", &self.phases, MAX_TURNS)?;
        check_finite("frequencies", &self.frequencies, MAX_TURNS)?;
        for unit in 0..units {
            let sum: f64 = (0..latents)
                .map(|k| f64::from(self.frequencies[k * units + unit]).powi(2))
                .sum();
            let most = sum.sqrt() * self.radius + f64::from(self.phases[unit]).abs();
            if most > MAX_TURNS {
                return refuse(format!(
                    "frequencies of unit {unit}: expected at most {MAX_TURNS} turns within the radius, got {most}"
                ));
            }
        }
        Ok(())
    }
}

impl Kind for Lift {
    type StepForm = PreparedLift;
    const NAME: &'static str = "lift";
    const TAG: [u8; 4] = *b"LIFT";

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        self.cosines.check(latents)?;
        let radius = self.cosines.radius;
        let bound = |i| if i < latents { radius } else { 1.0 };
        (self.readout).check(latents + self.cosines.units(), outputs, bound)
    }

    fn write(&self, to: &mut Writer) {
        to.f64(self.cosines.radius);
        to.f32s(&self.cosines.frequencies);
        to.f32s(&self.cosines.phases);
        self.readout.write(to);
        to.u64(self.seed);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            cosines: Cosines {
                radius: from.at("radius").f64()?,
                frequencies: from.at("frequencies").f32s()?,
                phases: from.at("phases").f32s()?,
            },
            readout: FilteredReadout::read(from)?,
            seed: from.at("seed").u64()?,
        })
    }

    fn prepare(&self, step_seconds: f64) -> Result<PreparedLift> {
        let (latents, units) = (self.cosines.latents(), self.cosines.units());
        let readout = self.readout.prepare(step_seconds);
        let padded = units.next_multiple_of(16);
        let pad = |row: &[f32]| {
            let mut row = row.to_vec();
            row.resize(padded, 0.0);
            row
        };
        let columns = readout.columns;
        let weights = (0..columns).flat_map(|column| {
            let row: Vec<f32> = (0..units)
                .map(|unit| readout.weight(latents + unit, column) as f32)
                .collect();
            pad(&row)
        });
        Ok(PreparedLift {
            width: Width::detect(),
            radius: self.cosines.radius,
            latents,
            phases: pad(&self.cosines.phases),
            frequencies: (self.cosines.frequencies.chunks_exact(units))
                .flat_map(pad)
                .collect(),
            weights: weights.collect(),
            readout,
        })
    }
}

/// A [`Lift`] in the form that steps use; rows are padded to whole vectors of 16, with weight 0.
#[derive(Debug, Clone)]
pub(crate) struct PreparedLift {
    width: Width,
    radius: f64,
    latents: usize,
    phases: Vec<f32>,
    /// (latent, unit)
    frequencies: Vec<f32>,
    /// (column, unit)
    weights: Vec<f32>,
    readout: PreparedReadout,
}

impl HeadStep for PreparedLift {
    fn states(&self) -> usize {
        self.readout.columns - self.readout.outputs()
    }

    fn scratch(&self) -> usize {
        self.latents + self.phases.len()
    }

    fn memory_steps(&self) -> u64 {
        self.readout.memory_steps
    }

    fn instructions(&self) -> u64 {
        let products = self.frequencies.len() + self.weights.len() + self.readout.weights.len();
        500 + 3 * products as u64 / 2
    }

    fn hash(&self, hash: &mut Fnv1a) {
        hash.number(self.radius);
        hash.word(self.latents as u64);
        for list in [&self.phases, &self.frequencies] {
            list.iter().for_each(|v| hash.number(f64::from(*v)));
        }
        self.readout.hash(hash);
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let clipped = clip(latents, self.radius);
        let (z, cosines) = scratch.split_at_mut(self.latents);
        for (z, latent) in z.iter_mut().zip(latents.iter()) {
            *z = *latent as f32;
        }
        cosines.copy_from_slice(&self.phases);
        cosines_of_rows(self.width, cosines, z, &self.frequencies);
        self.readout.begin(states, outputs);
        self.readout.add(0, latents, states, outputs);
        let (direct, filtered) = self.weights.split_at(outputs.len() * cosines.len());
        add_dots(self.width, outputs, direct, cosines);
        add_dots(self.width, states, filtered, cosines);
        PreparedReadout::end(states, outputs);
        clipped
    }
}
