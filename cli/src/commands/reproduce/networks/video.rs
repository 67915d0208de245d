//! A made video in place of the thesis' brain slice.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HEIGHT: usize = 130;
const WIDTH: usize = 172;

/// Frames of 130 × 172 pixels of a byte: sixty slow sources with a place each, and noise.
pub(super) struct Video {
    /// (frames, pixels).
    frames: Vec<u8>,
    /// Pixels in an order drawn at random.
    order: Vec<usize>,
}

impl Video {
    pub(super) fn new(count: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(2016);
        let sources: Vec<(f64, f64, f64, Vec<f64>)> = (0..60)
            .map(|_| {
                let y = rng.random_range(0.0..HEIGHT as f64);
                let x = rng.random_range(0.0..WIDTH as f64);
                let mut value = 0.0;
                let mut next = || {
                    value = 0.95 * value + rng.random_range(-1.0..1.0);
                    value
                };
                let course = (0..count).map(|_| next()).collect();
                (y, x, rng.random_range(4.0..14.0), course)
            })
            .collect();
        let mut frames = vec![0_u8; count * HEIGHT * WIDTH];
        let mut course = vec![0.0; count];
        for pixel in 0..HEIGHT * WIDTH {
            let (y, x) = ((pixel / WIDTH) as f64, (pixel % WIDTH) as f64);
            course.fill(0.0);
            for (sy, sx, radius, of) in &sources {
                let far = ((y - sy).powi(2) + (x - sx).powi(2)) / (2.0 * radius * radius);
                if far < 6.0 {
                    let share = 8.0 * (-far).exp();
                    course.iter_mut().zip(of).for_each(|(c, s)| *c += share * s);
                }
            }
            for (t, value) in course.iter().enumerate() {
                let grey = 120.0 + value + rng.random_range(-12.0..12.0);
                frames[t * HEIGHT * WIDTH + pixel] = grey.clamp(0.0, 255.0) as u8;
            }
        }
        let mut order: Vec<usize> = (0..HEIGHT * WIDTH).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
        Self { frames, order }
    }

    /// The courses of `nodes` pixels: (frames, nodes).
    pub(super) fn pixels(&self, nodes: usize) -> Vec<u8> {
        let mut chosen = self.order[..nodes].to_vec();
        chosen.sort_unstable();
        let frames = self.frames.chunks_exact(HEIGHT * WIDTH);
        let samples = frames.flat_map(|frame| chosen.iter().map(|pixel| frame[*pixel]));
        samples.collect()
    }
}
