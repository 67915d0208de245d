//! Facts about the channels that training learns before it looks for units: which are of no use, their noise, what others say of
//! them, and what their spikes look like.

use betz_base::{Error, ErrorKind, Result, memory};
use betz_linear::{Cholesky, Mat, eigen};

use crate::feature::{WAVES, Waves};
use crate::front::{Crossing, FrontEnd, Layout, MAD};
use crate::settings::{Reference, Settings, Window};
use crate::voltage::{Voltage, for_each_block};

/// Seconds that noise is measured over.
pub(crate) const NOISE_SECONDS: f64 = 10.0;
/// Samples of a channel that its noise is found from.
const NOISE_SAMPLES: usize = 20_000;
/// Spikes that waveforms are found from.
const WAVE_SPIKES: usize = 6000;
/// Ridge of the regression reference, by the channels' mean variance.
const RIDGE: f64 = 1e-2;
/// Part of the samples at an end of a channel's range from which on it is clipped.
const CLIPPED: f64 = 0.01;

/// Channels that never change, and those at an end of their range too often; refuses samples of the wrong byte order.
pub(crate) fn bad_channels(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let n = voltage.channels();
    let until = rows
        .end
        .min(rows.start + (NOISE_SECONDS * settings.rate_hz) as u64);
    let mut ends = vec![(i16::MAX, 0_u64, i16::MIN, 0_u64); n];
    let (mut seen, mut steps, mut swapped) = (0_u64, 0.0_f64, 0.0_f64);
    let mut before = vec![0_i16; n];
    for_each_block(voltage, rows.start..until, &mut |block| {
        for row in block.chunks_exact(n) {
            for ((&x, end), before) in row.iter().zip(&mut ends).zip(&mut before) {
                match x.cmp(&end.0) {
                    std::cmp::Ordering::Less => (end.0, end.1) = (x, 1),
                    std::cmp::Ordering::Equal => end.1 += 1,
                    std::cmp::Ordering::Greater => {}
                }
                match x.cmp(&end.2) {
                    std::cmp::Ordering::Greater => (end.2, end.3) = (x, 1),
                    std::cmp::Ordering::Equal => end.3 += 1,
                    std::cmp::Ordering::Less => {}
                }
                if seen > 0 {
                    steps += (f64::from(x) - f64::from(*before)).abs();
                    swapped += (f64::from(x.swap_bytes()) - f64::from(before.swap_bytes())).abs();
                }
                *before = x;
            }
            seen += 1;
        }
        Ok(true)
    })?;
    // Voltage is smooth from sample to sample; with its bytes exchanged it is noise over the whole range.
    if steps > 8.0 * swapped && swapped > 0.0 {
        return Err(Error::recording(
            "samples: expected 16-bit little-endian, got what is smooth only with its bytes exchanged (big-endian?)",
        ));
    }
    let mut silent = Vec::new();
    let mut clipped = Vec::new();
    for (c, (low, at_low, high, at_high)) in ends.into_iter().enumerate() {
        if low == high {
            silent.push(c as u32);
        } else if (at_low.max(at_high)) as f64 > CLIPPED * seen as f64
            && (i32::from(high) - i32::from(low)) > 64
        {
            clipped.push(c as u32);
        }
    }
    Ok((silent, clipped))
}

/// The answers of `see` about rows after filter and reference, every so many, (samples, channels).
fn filtered(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
    reference: Reference,
    see: fn(&FrontEnd) -> &[f32],
) -> Result<Vec<f32>> {
    let mut settings = settings.clone();
    settings.reference = reference;
    let mut plain = layout.clone();
    if reference != Reference::Regression {
        plain.regression.clear();
    }
    let mut front = FrontEnd::new(&settings, &plain)?;
    let until = rows
        .end
        .min(rows.start + (NOISE_SECONDS * settings.rate_hz) as u64);
    let count = (until - rows.start) as usize;
    let every = count.div_ceil(NOISE_SAMPLES).max(1);
    let n = layout.channels();
    memory::plan(
        "voltage to measure noise",
        (count / every + 1) as u128 * n as u128 * 4,
    )?;
    let mut kept = memory::room("voltage", (count / every + 1) * n)?;
    let settle = (count / 10).min((0.05 * settings.rate_hz) as usize);
    let mut at = 0;
    for_each_block(voltage, rows.start..until, &mut |block| {
        for row in block.chunks_exact(layout.row_channels) {
            front.step(row);
            while front.take().is_some() {}
            if at >= settle && at % every == 0 {
                kept.extend_from_slice(see(&front));
            }
            at += 1;
        }
        Ok(true)
    })?;
    Ok(kept)
}

/// Standard deviation of each channel's noise: median of |y| by 0.6745.
pub(crate) fn noise(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
) -> Result<Vec<f32>> {
    deviations(voltage, rows, settings, layout, FrontEnd::newest)
}

/// Standard deviation of the noise of what the channels around each see together, for a layout whose `noise` is known and
/// whose `focused` is 1.
pub(crate) fn focused_noise(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
) -> Result<Vec<f32>> {
    deviations(voltage, rows, settings, layout, FrontEnd::newest_focused)
}

fn deviations(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
    see: fn(&FrontEnd) -> &[f32],
) -> Result<Vec<f32>> {
    let kept = filtered(voltage, rows, settings, layout, settings.reference, see)?;
    let n = layout.channels();
    let mut one = Vec::with_capacity(kept.len() / n);
    let mut noise = Vec::with_capacity(n);
    for c in 0..n {
        one.clear();
        one.extend(kept.iter().skip(c).step_by(n).map(|y| y.abs()));
        let middle = one.len() / 2;
        let (_, median, _) = one.select_nth_unstable_by(middle, f32::total_cmp);
        let sigma = *median / MAD as f32;
        if sigma.is_nan() || sigma <= 0.0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "channel {}: expected noise, got a signal that is mostly 0 in the band",
                    layout.used[c]
                ),
            )
            .with_channel(layout.used[c] as usize));
        }
        noise.push(sigma);
    }
    Ok(noise)
}

/// Weights of each channel's voltage, by a ridge regression on those further off than spikes reach; (from, to).
pub(crate) fn regression(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
) -> Result<Vec<f32>> {
    let n = layout.channels();
    let kept = filtered(
        voltage,
        rows,
        settings,
        layout,
        Reference::None,
        FrontEnd::newest,
    )?;
    let mut products = vec![0.0_f64; n * n];
    for row in kept.chunks_exact(n) {
        for i in 0..n {
            for j in 0..=i {
                products[i * n + j] += f64::from(row[i]) * f64::from(row[j]);
            }
        }
    }
    let product = |i: usize, j: usize| products[i.max(j) * n + i.min(j)];
    let ridge = RIDGE * (0..n).map(|i| product(i, i)).sum::<f64>() / n as f64;
    let mut weights = vec![0.0; n * n];
    for to in 0..n {
        let far =
            |c: &usize| *c != to && f64::from(layout.distance(*c, to)) > settings.exclusive_um;
        let from: Vec<usize> = (0..n).filter(far).collect();
        if from.is_empty() {
            continue;
        }
        let system = Mat::from_fn(from.len(), from.len(), |i, j| {
            product(from[i], from[j]) + if i == j { ridge } else { 0.0 }
        });
        let right = Mat::from_fn(from.len(), 1, |i, _| product(from[i], to));
        let factor = Cholesky::new(system.as_ref())
            .map_err(|e| Error::new(ErrorKind::NotPositiveDefinite, format!("regression: {e}")))?;
        let solved = factor.solve(right.as_ref());
        for (i, &from) in from.iter().enumerate() {
            weights[from * n + to] = solved[(i, 0)] as f32;
        }
    }
    Ok(weights)
}

/// The first principal components of waveforms on their own channels, in units of the noise.
pub(crate) fn waves(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    settings: &Settings,
    layout: &Layout,
    window: Window,
) -> Result<Waves> {
    let length = window.len();
    let mut products = Mat::<f64>::zeros(length, length);
    let mut wave = vec![0.0_f64; length];
    let mut count = 0;
    let mut front = FrontEnd::new(settings, layout)?;
    for_each_block(voltage, rows.clone(), &mut |block| {
        for row in block.chunks_exact(layout.row_channels) {
            front.step(row);
            while let Some(crossing) = front.take() {
                snippet(&front, window, &crossing, &mut wave);
                for i in 0..length {
                    for j in 0..=i {
                        products[(i, j)] += wave[i] * wave[j];
                    }
                }
                count += 1;
            }
        }
        Ok(count < WAVE_SPIKES)
    })?;
    if count < 2 * WAVES {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "recording: expected crossings of {} standard deviations to learn from, got {count} in {:.1} s",
                settings.threshold,
                (rows.end - rows.start) as f64 / settings.rate_hz
            ),
        ));
    }
    let found = eigen(products.as_ref())
        .ok_or_else(|| Error::new(ErrorKind::NonFinite, "waveforms: no principal components"))?;
    let mut all = Vec::with_capacity(WAVES * length);
    for w in 0..WAVES {
        all.extend((0..length).map(|i| found.vectors[(i, length - 1 - w)] as f32));
    }
    Waves::new(window, all)
}

/// The waveform on a crossing's own channel, in units of its noise.
pub(crate) fn snippet(front: &FrontEnd, window: Window, crossing: &Crossing, wave: &mut [f64]) {
    let noise = f64::from(front.layout().noise[crossing.channel]);
    for (i, value) in wave.iter_mut().enumerate() {
        let row = front.row(crossing.sample - window.before as i64 + i as i64);
        *value = f64::from(row[crossing.channel]) / noise;
    }
}
