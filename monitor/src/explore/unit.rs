//! One channel over a whole recording: intervals, autocorrelogram, rate and tuning, as the page shows them of a part.

use betz_base::error::{Error, Result};
use serde_json::{Value, json};

use crate::explore::recorded::DecodedRecording;

/// Bars of intervals and of the autocorrelogram; bars of the rate; sectors of a direction.
const BARS: usize = 100;
const RATE_BARS: usize = 60;
const SECTORS: usize = 8;
/// Least width of a bar of intervals, in seconds.
const NARROWEST: f64 = 0.0005;
/// A part of a bar that is rounding.
const ROUNDING: f64 = 1e-6;

/// Channel, and the two outputs whose direction it may be tuned to.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct UnitQuery {
    #[serde(default)]
    pub(crate) source: usize,
    pub(crate) channel: usize,
    #[serde(default)]
    pub(crate) x: usize,
    #[serde(default)]
    pub(crate) y: usize,
}

/// Spikes of a channel, each as often as it is counted, in the recording's ticks.
struct Train {
    ticks: Vec<i64>,
    tick_seconds: f64,
    /// End of the recording.
    end: i64,
    /// Stretches that were left out, ascending.
    unknown: Vec<[i64; 2]>,
    /// Width of a bar in seconds.
    width: f64,
}

impl Train {
    fn bar(&self, ticks: i64) -> usize {
        (ticks as f64 * self.tick_seconds / self.width + ROUNDING) as usize
    }

    /// Begin of the next stretch after a tick that is not known, or the end.
    fn known_until(&self, tick: i64) -> i64 {
        let next = self.unknown.partition_point(|part| part[0] <= tick);
        self.unknown.get(next).map_or(self.end, |part| part[0])
    }

    /// Intervals by bar, and the number of longer ones; none across time that is not known.
    fn intervals(&self) -> (Vec<u64>, u64) {
        let (mut bars, mut beyond) = (vec![0; BARS], 0);
        for two in self
            .ticks
            .windows(2)
            .filter(|two| two[1] < self.known_until(two[0]))
        {
            match bars.get_mut(self.bar(two[1] - two[0])) {
                Some(bar) => *bar += 1,
                None => beyond += 1,
            }
        }
        (bars, beyond)
    }

    /// Rate at each delay after a spike; a bar counts the spikes that have the whole of it in known time. NaN without any.
    fn autocorrelogram(&self) -> Vec<f64> {
        let (mut pairs, mut possible) = (vec![0u64; BARS], vec![0i64; BARS + 1]);
        for (i, &tick) in self.ticks.iter().enumerate() {
            let whole = self.bar(self.known_until(tick) - tick).min(BARS);
            possible[0] += 1;
            possible[whole] -= 1;
            let later = self.ticks[i + 1..].iter().map(|t| self.bar(t - tick));
            later
                .take_while(|bar| *bar < whole)
                .for_each(|bar| pairs[bar] += 1);
        }
        let mut from = 0;
        let rate = |(n, more): (&u64, &i64)| {
            from += more;
            *n as f64 / from as f64 / self.width
        };
        pairs.iter().zip(&possible).map(rate).collect()
    }

    /// Rate in bars over the recording; NaN where nothing is known.
    fn rate(&self) -> Vec<f64> {
        let edge = |bar: usize| (bar as f64 * self.end as f64 / RATE_BARS as f64).round() as i64;
        (0..RATE_BARS)
            .map(|bar| {
                let (from, to) = (edge(bar), edge(bar + 1));
                let part = self.ticks.partition_point(|t| *t < from)
                    ..self.ticks.partition_point(|t| *t < to);
                let hidden = self
                    .unknown
                    .iter()
                    .map(|u| (to.min(u[1]) - from.max(u[0])).max(0))
                    .sum::<i64>();
                part.len() as f64 / ((to - from - hidden) as f64 * self.tick_seconds)
            })
            .collect()
    }
}

impl DecodedRecording {
    /// Numbers of a channel over the whole recording.
    ///
    /// # Errors
    /// `InvalidArgument` for a channel or outputs that do not exist.
    pub(crate) fn unit(&self, asked: UnitQuery) -> Result<Value> {
        let (channels, outputs) = (self.dataset.channels(), self.source.outputs.len());
        if asked.channel >= channels {
            return Err(Error::argument(format!(
                "channel: expected one of {channels}, got number {}",
                asked.channel
            )));
        }
        if outputs > 1 && asked.x.max(asked.y) >= outputs {
            return Err(Error::argument(format!(
                "outputs: expected two of {outputs}, got numbers {} and {}",
                asked.x, asked.y
            )));
        }
        let train = self.train(asked.channel);
        let (bars, beyond) = train.intervals();
        let tuned = (outputs > 1 && !self.dataset.behavior.is_empty()).then(|| self.sectors(asked));
        Ok(json!({
            "spikes": train.ticks.len(), "from": 0.0, "to": train.end as f64 * train.tick_seconds,
            "width": train.width, "intervals": bars, "beyond": beyond,
            "autocorrelogram": train.autocorrelogram(),
            "rate_width": train.end as f64 * train.tick_seconds / RATE_BARS as f64, "rate": train.rate(),
            "tuning": tuned,
        }))
    }

    fn train(&self, channel: usize) -> Train {
        let recording = self.native(i64::MIN..i64::MAX);
        let spikes = &recording.spikes;
        let own = (0..spikes.len()).filter(|i| spikes.channels[*i] as usize == channel);
        let ticks = own.flat_map(|i| {
            let times = spikes.weight(i).round().max(0.0) as usize;
            std::iter::repeat_n(spikes.ticks[i], times)
        });
        let per_step = self.dataset.step_seconds / recording.tick_seconds;
        let tick = |step: i64| (step as f64 * per_step).round() as i64;
        Train {
            ticks: ticks.collect(),
            tick_seconds: recording.tick_seconds,
            end: recording.ticks,
            unknown: self
                .left_out
                .iter()
                .map(|s| [tick(s.start), tick(s.stop)])
                .collect(),
            width: NARROWEST.max(recording.tick_seconds),
        }
    }

    /// Rate, its standard error over steps, and the number of steps by direction of two true outputs, in sectors around 0°, 45° ….
    fn sectors(&self, asked: UnitQuery) -> Vec<Value> {
        let spikes = &self.dataset.spikes;
        let (mut steps, mut sums, mut squares) = ([0u64; SECTORS], [0.0; SECTORS], [0.0; SECTORS]);
        for step in 0..i64::try_from(self.dataset.steps).unwrap_or(i64::MAX) {
            let Some(row) = self.truth(step) else {
                continue;
            };
            let (x, y) = (f64::from(row[asked.x]), f64::from(row[asked.y]));
            if !(x.is_finite() && y.is_finite()) || (x == 0.0 && y == 0.0) {
                continue;
            }
            let own = |i: &usize| spikes.channels[*i] as usize == asked.channel;
            let count = |i: usize| f64::from(spikes.weight(i)).round();
            let n: f64 = spikes.range(step, step + 1).filter(own).map(count).sum();
            let turn = y.atan2(x) / std::f64::consts::TAU * SECTORS as f64;
            let sector = (turn.round() as i64).rem_euclid(SECTORS as i64) as usize;
            steps[sector] += 1;
            sums[sector] += n;
            squares[sector] += n * n;
        }
        let seconds = self.dataset.step_seconds;
        (0..SECTORS)
            .map(|k| {
                let n = steps[k] as f64;
                let mean = sums[k] / n;
                let variance = (squares[k] / n - mean * mean).max(0.0) * n / (n - 1.0);
                json!({"rate": mean / seconds, "error": (variance / n).sqrt() / seconds, "steps": steps[k]})
            })
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::source::Source;
    use betz_recording::{Dataset, OutputInfo, Segment, Spikes};

    #[test]
    fn tuning_is_that_of_a_plain_loop_over_the_steps_of_trials() {
        // Position, and velocity that turns; the channel fires where the velocity points to the right.
        let steps = 900_usize;
        let angle = |t: usize| t as f64 * 0.13;
        let count = |t: usize| (2.0 + 2.0 * angle(t).cos() + (t % 3) as f64 * 0.4).floor() as u32;
        let row = |t: usize| [t as f32, 0.0, angle(t).cos() as f32, angle(t).sin() as f32];
        let fired = (0..steps).filter(|t| count(*t) > 0);
        let (ticks, weights): (Vec<i64>, Vec<f32>) =
            fired.map(|t| (t as i64, count(t) as f32)).unzip();
        let channels = vec![0; ticks.len()];
        let segments = vec![
            Segment {
                start: 0,
                stop: 300,
            },
            Segment {
                start: 500,
                stop: 900,
            },
        ];
        let inside = |t: usize| !(300..500).contains(&t);
        let outputs: Vec<OutputInfo> = ["x", "y", "vx", "vy"].map(OutputInfo::from).to_vec();
        let recorded = DecodedRecording {
            source: Source {
                channel_names: vec!["ch0".into()],
                outputs: outputs.clone(),
                step_seconds: 0.01,
                ..Source::nothing("made")
            },
            dataset: Dataset {
                step_seconds: 0.01,
                steps,
                channel_names: vec!["ch0".into()],
                spikes: Spikes {
                    weights,
                    ..Spikes::new(ticks, channels)
                },
                segments,
                outputs,
                behavior: (0..steps).flat_map(row).collect(),
            },
            estimates: Vec::new(),
            probabilities: Vec::new(),
            delay_steps: 0,
            times: None,
            left_out: Vec::new(),
        };
        let asked = UnitQuery {
            source: 0,
            channel: 0,
            x: 2,
            y: 3,
        };
        let found = recorded.unit(asked).unwrap();
        for sector in 0..SECTORS {
            let middle = sector as f64 * std::f64::consts::TAU / 8.0;
            let near =
                |t: &usize| (angle(*t) - middle).cos() > (std::f64::consts::TAU / 16.0).cos();
            let all: Vec<f64> = (0..steps)
                .filter(|t| inside(*t) && near(t))
                .map(|t| f64::from(count(t)))
                .collect();
            let n = all.len() as f64;
            let mean = all.iter().sum::<f64>() / n;
            let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let told = &found["tuning"][sector];
            assert_eq!(told["steps"], all.len(), "sector {sector}");
            assert!((told["rate"].as_f64().unwrap() - mean / 0.01).abs() < 1e-6);
            assert!((told["error"].as_f64().unwrap() - (variance / n).sqrt() / 0.01).abs() < 1e-6);
        }
        assert!(found["tuning"][0]["rate"].as_f64() > found["tuning"][4]["rate"].as_f64());
        let wrong = recorded.unit(UnitQuery { y: 4, ..asked }).unwrap_err();
        assert!(wrong.message().contains("expected two of 4"), "{wrong}");
    }
}
