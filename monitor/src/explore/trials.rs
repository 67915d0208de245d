//! A recording around repeated events: rates, spikes and decoded outputs of every trial.

use betz_base::error::{Error, Result};
use betz_explore::{Events, Window, psth_within, raster};
use betz_recording::Segment;
use bytes::Bytes;
use serde_json::json;

use crate::expected::Fit;
use crate::explore::recorded::DecodedRecording;
use crate::frame::{Kind, Section, Writer};

/// Largest number of points of one trial's outputs; of more steps every second, third … is sent.
const MOST_POINTS: i64 = 512;
/// Largest number of points of all trials' outputs.
const MOST_VALUES: i64 = 1 << 21;
/// Largest number of bins (channels × bins) of rates.
const MOST_RATES: usize = 1 << 20;

/// Window around the events, and the channel and output to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialQuery {
    pub(crate) window: Window,
    pub(crate) channel: usize,
    pub(crate) output: usize,
    /// Time of the recording's first step, in seconds of the session.
    pub(crate) origin_seconds: f64,
}

/// Events, and what is known of each.
#[derive(Debug)]
pub(crate) struct TrialEvents<'a> {
    pub(crate) events: Events,
    /// The trial of each event in ticks of the recording: all that its window is answered for. Empty where no trial covers
    /// the event.
    pub(crate) own: Vec<Segment>,
    /// One name per event, or none at all.
    pub(crate) labels: Vec<&'a str>,
}

impl TrialEvents<'_> {
    /// Events without names, each in the one of `segments` (ascending) that it lies in.
    pub(crate) fn within(name: String, ticks: Vec<i64>, segments: &[Segment]) -> Self {
        let none = |tick| Segment {
            start: tick,
            stop: tick,
        };
        let own = |tick: &i64| {
            let next = segments.partition_point(|s| s.stop <= *tick);
            let found = segments.get(next).filter(|s| s.start <= *tick);
            found.copied().unwrap_or(none(*tick))
        };
        Self {
            own: ticks.iter().map(own).collect(),
            events: Events { name, ticks },
            labels: Vec::new(),
        }
    }
}

/// The answer: rates, spikes of one channel, and one output of every event whose window lies inside the recording. What
/// lies outside the event's own trial is left out.
///
/// # Errors
/// `InvalidArgument` for channels and outputs that do not exist; the errors of [`psth_within`].
pub(crate) fn trials(
    recorded: &DecodedRecording,
    of: &TrialEvents<'_>,
    asked: TrialQuery,
) -> Result<Bytes> {
    let recording = recorded.native(i64::MIN..i64::MAX);
    let channels: Vec<usize> = (0..recording.channels()).collect();
    let width = recorded.source.outputs.len();
    if width > 0 && asked.output >= width {
        return Err(Error::argument(format!(
            "output: expected one of {width}, got number {}",
            asked.output
        )));
    }
    let events = &of.events;
    let spikes = raster(&recording, asked.channel, events, &asked.window)?;
    let bins = asked.window.bins()?;
    // Of very many channels only the chosen one has rates.
    let all = channels.len().saturating_mul(bins) <= MOST_RATES;
    let chosen: &[usize] = if all { &channels } else { &[asked.channel] };
    let found = psth_within(&recording, chosen, events, &of.own, &asked.window)?;
    let rates = &found.psth;
    let place = if all { asked.channel } else { 0 };
    let places = events.places_inside(&recording, &asked.window)?;
    let mut counts = vec![0.0_f64; places.len()];
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    for (row, seconds) in spikes.rows.iter().zip(&spikes.seconds) {
        let place = places[*row as usize];
        let tick = events.ticks[place] + (seconds / recording.tick_seconds).round() as i64;
        if (of.own[place].start..of.own[place].stop).contains(&tick) {
            counts[*row as usize] += weight_at(&recording, tick, asked.channel);
            rows.push(*row);
            times.push(*seconds as f32);
        }
    }
    let course = Course::new(recorded, asked.window, places.len());
    let mut estimates = Vec::new();
    let mut truths = Vec::new();
    let mut told = Vec::with_capacity(places.len());
    for (k, &place) in places.iter().enumerate() {
        let seconds = |tick: i64| tick as f64 * recording.tick_seconds;
        let (at, own) = (seconds(events.ticks[place]), of.own[place]);
        let inside = [own.start, own.stop].map(seconds);
        let shown = (k < course.trials).then_some((&mut estimates, &mut truths));
        let (begin, fit) = course.of(recorded, (at, inside), asked.output, shown);
        let edge =
            |edge: f64| (edge - at).clamp(asked.window.start_seconds, asked.window.stop_seconds);
        told.push(json!({
            "label": of.labels.get(place), "inside": inside.map(edge),
            "seconds": at + asked.origin_seconds, "spikes": counts[k], "begin": begin, "r2": fit.r2(), "rmse": fit.rmse(),
        }));
    }
    let mean = rates.mean_of(place);
    let error = &rates.error_hz[place * bins..(place + 1) * bins];
    let words = json!({
        "align": events.name, "from": asked.window.start_seconds, "to": asked.window.stop_seconds,
        "bin": asked.window.bin_seconds, "bins": bins, "channel": asked.channel, "output": asked.output,
        "left_out": rates.left_out, "outside_segments": rates.outside_segments,
        "trials": told, "mean": mean, "error": error, "events": found.bin_events,
        "fano": rates.fano[place], "fano_bins": [found.fano_bins.start, found.fano_bins.end],
        "point_seconds": course.every as f64 * course.step, "points": course.points, "decoded": course.trials,
        "channels": chosen.len(),
    });
    let heat: Vec<f32> = rates.mean_hz.iter().map(|&v| v as f32).collect();
    let words = words.to_string();
    let room = words.len() + 4 * (heat.len() + 2 * times.len() + 2 * estimates.len()) + 128;
    let mut frame = Writer::new(Kind::Job, 0, 0, 0, 0, room);
    frame.bytes(Section::EVENT, words.as_bytes());
    frame.u32(Section::EVENT_ROW, &rows);
    frame.f32(Section::EVENT_SECONDS, &times);
    frame.f32(Section::VALUE, &heat);
    frame.f32(Section::ESTIMATE, &estimates);
    frame.f32(Section::TRUTH, &truths);
    Ok(frame.finish())
}

/// Number of spikes of one entry of a raster.
fn weight_at(recording: &betz_recording::Recording, tick: i64, channel: usize) -> f64 {
    let spikes = &recording.spikes;
    if spikes.weights.is_empty() {
        return 1.0;
    }
    let same = |i: &usize| spikes.channels[*i] as usize == channel;
    let found = spikes.range(tick, tick + 1).find(same);
    found.map_or(0.0, |i| f64::from(spikes.weight(i)))
}

/// Steps of the window around an event.
struct Course {
    step: f64,
    /// First step after the event's step, and the number of steps.
    first: i64,
    steps: i64,
    /// Every so many steps become a point.
    every: i64,
    points: i64,
    /// Number of trials whose points are sent.
    trials: usize,
}

impl Course {
    fn new(recorded: &DecodedRecording, window: Window, trials: usize) -> Self {
        let step = recorded.dataset.step_seconds;
        let first = (window.start_seconds / step).ceil() as i64;
        let steps = ((window.stop_seconds / step).ceil() as i64 - first).max(0);
        let decoded = !recorded.estimates.is_empty() || !recorded.dataset.behavior.is_empty();
        let every = (steps + MOST_POINTS - 1) / MOST_POINTS;
        let every = every.max(1);
        let points = (steps + every - 1) / every;
        let most = usize::try_from(MOST_VALUES / points.max(1)).unwrap_or(0);
        Self {
            step,
            first,
            steps,
            every,
            points,
            trials: if decoded { trials.min(most) } else { 0 },
        }
    }

    /// Time of the first point after the event at `at` seconds, and the accuracy over the window. Adds the points to
    /// `shown`. Steps outside `inside`, in seconds, have no values.
    fn of(
        &self,
        recorded: &DecodedRecording,
        (at, inside): (f64, [f64; 2]),
        output: usize,
        mut shown: Option<(&mut Vec<f32>, &mut Vec<f32>)>,
    ) -> (f64, Fit) {
        let event = (at / self.step).round() as i64;
        let mut fit = Fit::default();
        let own = inside.map(|edge| (edge / self.step).round() as i64);
        for k in 0..self.steps {
            let step = event + self.first + k;
            let known = own[0] <= step && step < own[1];
            let value =
                |row: Option<&[f32]>| row.filter(|_| known).map_or(f32::NAN, |row| row[output]);
            let (estimate, truth) = (value(recorded.estimate(step)), value(recorded.truth(step)));
            if !(estimate.is_nan() || truth.is_nan()) {
                fit.add(truth, estimate);
            }
            if let Some((estimates, truths)) = shown.as_mut().filter(|_| k % self.every == 0) {
                estimates.push(estimate);
                truths.push(truth);
            }
        }
        let begin = (event + self.first) as f64 * self.step - at;
        (begin, fit)
    }
}
