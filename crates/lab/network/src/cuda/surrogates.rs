//! Phase-randomised surrogates on a CUDA device. The spectra of the signal are there once; each surrogate turns them, and
//! cuFFT transforms them back. The angles are those that the CPU draws, so the surrogates are, too, up to rounding.

use std::collections::HashMap;
use std::sync::Arc;

use betz_base::Result;
use betz_device::cuda::{BlockTransforms, Buffer, Context, Kernel, has_transforms};
use betz_device::{Placement, TransformShape};
use betz_kernels::network::{SurrogatePlace, SurrogateTurn};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::signal::Signal;

/// Most lengths of segments: every length has two plans of cuFFT, and a context keeps 32.
const MOST_LENGTHS: usize = 16;

/// The device needs this many times the memory of the spectra: these, turned ones, samples, and what cuFFT works in.
const ROOM: u64 = 10;

/// Bins that one thread turns, and threads of a block.
const BINS: usize = 8;
const THREADS: usize = 128;

/// Side of a tile that one block of threads writes.
const TILE: usize = 32;

/// A segment's spectra.
struct Segment {
    /// Its number in the signal, which the angles follow from.
    number: u32,
    first: usize,
    length: usize,
    /// (nodes, bins, 2), of values less their mean, in parts of `scale`.
    spectra: Buffer<f32>,
    mean: Buffer<f64>,
    /// Includes the transforms' 1 / length.
    scale: Buffer<f64>,
}

/// The spectra of a signal on a device.
pub(crate) struct DeviceSurrogates<'s> {
    context: Arc<Context>,
    signal: &'s Signal<'s>,
    segments: Vec<Segment>,
    transforms: HashMap<usize, BlockTransforms>,
    turned: Buffer<f32>,
    out: Buffer<f32>,
    turn: Kernel,
    place: Kernel,
    /// Segments and nodes that stay as they are, because a value is not finite.
    kept: Vec<(usize, usize)>,
}

/// A node's values in one segment, ready for f32.
struct Column {
    values: Vec<f32>,
    mean: f64,
    scale: f64,
    is_finite: bool,
}

impl Column {
    fn new(signal: &Signal<'_>, node: usize, first: usize, length: usize) -> Self {
        let mut x = vec![0.0; length];
        signal.column(node, first, &mut x);
        if !x.iter().all(|value| value.is_finite()) {
            return Self {
                values: vec![0.0; length],
                mean: 0.0,
                scale: 0.0,
                is_finite: false,
            };
        }
        let mean = x.iter().map(|value| value / length as f64).sum::<f64>();
        let largest = x
            .iter()
            .fold(0.0_f64, |a, value| a.max((value - mean).abs()));
        let scale = if largest > 0.0 { largest } else { 1.0 };
        Self {
            values: x
                .iter()
                .map(|value| ((value - mean) / scale) as f32)
                .collect(),
            mean,
            scale: scale / length as f64,
            is_finite: true,
        }
    }
}

impl<'s> DeviceSurrogates<'s> {
    /// The spectra of `signal` on the device of `placement`; `None` where the CPU draws: without device or cuFFT, for
    /// segments of many lengths, and where memory is short.
    ///
    /// # Errors
    /// The errors of the device, if it was named.
    pub(crate) fn open(placement: &Placement, signal: &'s Signal<'s>) -> Result<Option<Self>> {
        let [context, ..] = placement.contexts() else {
            return Ok(None);
        };
        let mut lengths: Vec<usize> = (signal.segments().iter()).map(|s| s.len()).collect();
        lengths.retain(|length| *length > 0);
        lengths.sort_unstable();
        lengths.dedup();
        let is_for_cpu = lengths.first().is_none_or(|least| *least < 2)
            || lengths.len() > MOST_LENGTHS
            || signal.samples() > i32::MAX as usize
            || !has_transforms();
        let bytes = 4 * signal.nodes() as u64 * (signal.samples() as u64 + 2);
        if is_for_cpu || ROOM * bytes > context.available_memory()? {
            return Ok(None);
        }
        let made = Self::new(Arc::clone(context), signal, &lengths);
        placement.or_cpu(made)
    }

    fn new(context: Arc<Context>, signal: &'s Signal<'s>, lengths: &[usize]) -> Result<Self> {
        let nodes = signal.nodes();
        let shape = |length: usize| TransformShape {
            length,
            hop: length,
            count: nodes,
        };
        let mut transforms = HashMap::new();
        for &length in lengths {
            transforms.insert(length, context.block_transforms(shape(length), 1)?);
        }
        let (mut segments, mut kept) = (Vec::new(), Vec::new());
        for (number, segment) in signal.segments().iter().enumerate() {
            let (first, length) = (segment.start, segment.len());
            let Some(transforms) = transforms.get_mut(&length) else {
                continue;
            };
            let columns: Vec<Column> = (0..nodes)
                .into_par_iter()
                .map(|node| Column::new(signal, node, first, length))
                .collect();
            let unfit = columns.iter().enumerate().filter(|(_, c)| !c.is_finite);
            kept.extend(unfit.map(|(node, _)| (number, node)));
            let of =
                |value: fn(&Column) -> f64| -> Vec<f64> { columns.iter().map(value).collect() };
            let (mean, scale) = (of(|c| c.mean), of(|c| c.scale));
            let values: Vec<f32> = columns.into_iter().flat_map(|c| c.values).collect();
            let values = context.upload(&values)?;
            let mut spectra = context.alloc(nodes * shape(length).spectrum())?;
            transforms.forward(&context, &values, 0, &mut spectra)?;
            segments.push(Segment {
                number: number as u32,
                first,
                length,
                spectra,
                mean: context.upload(&mean)?,
                scale: context.upload(&scale)?,
            });
        }
        let longest = lengths.iter().max().map_or(0, |l| shape(*l).spectrum());
        Ok(Self {
            turned: context.alloc(nodes * longest)?,
            out: context.zeros(signal.samples() * nodes)?,
            turn: context.load::<SurrogateTurn>(&[], 0)?,
            place: context.load::<SurrogatePlace>(&[], 0)?,
            context,
            signal,
            segments,
            transforms,
            kept,
        })
    }

    /// The surrogate of `seed`, (samples, nodes).
    ///
    /// # Errors
    /// The errors of the device.
    pub(crate) fn draw(&mut self, seed: u64) -> Result<Vec<f32>> {
        let (context, nodes) = (&self.context, self.signal.nodes());
        let key: Vec<u32> = (ChaCha8Rng::seed_from_u64(seed).get_seed())
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        let key = context.upload(&key)?;
        for segment in &self.segments {
            let length = segment.length;
            let bins = length / 2 + 1;
            let groups = (bins - 1).div_ceil(BINS);
            let turn = SurrogateTurn {
                spectra: segment.spectra.read(),
                key: key.read(),
                bins: bins as i32,
                // At even lengths the highest frequency stays real.
                drawn: ((length - 1) / 2) as i32,
                segment: segment.number,
                turned: self.turned.write(),
            };
            let blocks = groups.div_ceil(THREADS) as u32;
            (self.turn).launch((blocks, nodes as u32, 1), THREADS as u32, turn)?;
            if let Some(transforms) = self.transforms.get_mut(&length) {
                transforms.inverse(context, &mut self.turned)?;
            }
            let place = SurrogatePlace {
                values: self.turned.read(),
                stride: 2 * bins as i32,
                length: length as i32,
                nodes: nodes as i32,
                mean: segment.mean.read(),
                scale: segment.scale.read(),
                first: segment.first as i32,
                out: self.out.update(),
            };
            let tiles = [length, nodes].map(|side| side.div_ceil(TILE) as u32);
            (self.place).launch((tiles[0], tiles[1], 1), 8 * TILE as u32, place)?;
        }
        let mut samples = context.download(&self.out, self.signal.samples() * nodes)?;
        for &(number, node) in &self.kept {
            let segment = self.signal.segments()[number].clone();
            let mut own = vec![0.0; segment.len()];
            self.signal.column(node, segment.start, &mut own);
            for (t, value) in segment.zip(own) {
                samples[t * nodes + node] = value as f32;
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::surrogate::{Surrogate, surrogate};
    use betz_device::Device;

    /// The same angles give the same samples, up to rounding of f32; nodes that are not finite stay.
    #[test]
    fn cuda_surrogates_are_those_of_the_cpu() {
        let device = match Device::open("cuda".parse().unwrap()) {
            Ok(device) if has_transforms() => device,
            Ok(_) => return eprintln!("skipped: no cuFFT"),
            Err(error) => return eprintln!("skipped: {}", error.message()),
        };
        let placement = Placement::on(&device);
        for (nodes, samples, segments) in [
            (10, 301, vec![0..120, 130..301]),
            (33, 1000, vec![0..400, 400..1000]),
            (70, 257, vec![0..3, 3..5, 10..257]),
        ] {
            let case = cases::communities(nodes, samples, 4);
            let mut values: Vec<f32> = (0..samples * nodes)
                .map(|i| case.signal().value(i / nodes, i % nodes) as f32 + 100.0)
                .collect();
            values[2 * nodes + 1] = f32::NAN;
            let signal = Signal::new(&values, nodes).unwrap();
            let signal = signal.with_segments(segments).unwrap();
            let mut there = DeviceSurrogates::open(&placement, &signal)
                .unwrap()
                .unwrap();
            for seed in [0, 5, u64::MAX] {
                let here = surrogate(&signal, Surrogate::PhaseRandomised, seed).unwrap();
                let found = there.draw(seed).unwrap();
                assert_eq!(found.len(), here.len());
                for (i, (a, b)) in found.iter().zip(&here).enumerate() {
                    let same = (a.is_nan() && b.is_nan()) || (a - b).abs() < 2e-4;
                    assert!(same, "{nodes} nodes, seed {seed}, value {i}: {a} and {b}");
                }
            }
        }
    }

    /// A search for a threshold has the same result on both.
    #[test]
    fn cuda_thresholds_are_those_of_the_cpu() {
        use crate::surrogate::{Significance, significant_threshold, significant_threshold_on};
        let Ok(device) = Device::open("cuda".parse().unwrap()) else {
            return eprintln!("skipped: no device");
        };
        let case = cases::communities(40, 600, 6);
        let spec = crate::NetworkSpec::pearson(crate::Window::new(200, 100));
        let asked = Significance::default();
        let signal = case.signal();
        let here = significant_threshold(&spec, &signal, &asked, &()).unwrap();
        let there = significant_threshold_on(&device, &spec, &signal, &asked, &()).unwrap();
        for (a, b) in here.maxima.iter().zip(&there.maxima) {
            assert!((a - b).abs() < 1e-5, "{a} and {b}");
        }
        assert_eq!(here.maxima.len(), there.maxima.len());
    }
}
