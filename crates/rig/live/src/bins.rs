//! The recording to train on: the input of each step, by the front end that will decode.

use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Arrival, Block, Rig, Samples};

use crate::binner::Binner;
use crate::event::{Content, Event, StepInput};
use crate::front_end::FrontEnd;
use crate::plan::{Feature, Plan};
use crate::record::{self, Facts, Record};

/// Input of steps, collected.
#[derive(Debug, Clone)]
pub struct Bins {
    step_seconds: f64,
    spikes: Spikes,
    steps: i64,
    segments: Vec<Segment>,
    /// First step of the segment that is open.
    begun: Option<i64>,
    row: Vec<f32>,
    /// True while every value is a count.
    whole: bool,
    /// Device time of the end of each step; 0 for steps that never came.
    ends: Vec<u64>,
    /// True if the features were made of voltage.
    voltage: bool,
}

impl Bins {
    /// No steps yet, of `channels`.
    pub fn new(channels: usize, step_seconds: f64) -> Self {
        Self {
            step_seconds,
            spikes: Spikes {
                ticks: Vec::new(),
                channels: Vec::new(),
                weights: Vec::new(),
            },
            steps: 0,
            segments: Vec::new(),
            begun: None,
            row: vec![0.0; channels],
            whole: true,
            ends: Vec::new(),
            voltage: false,
        }
    }

    /// Adds an event of a binner.
    pub fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Restart => self.close(),
            Event::Skip(steps) => {
                self.close();
                self.steps += *steps as i64;
                self.ends.resize(self.steps as usize, 0);
            }
            Event::Step(input) => self.step(input),
        }
    }

    fn step(&mut self, input: &StepInput<'_>) {
        // A new epoch begins with another step than the one that was open.
        while self.steps < input.number as i64 {
            self.steps += 1;
            self.ends.push(0);
        }
        let known = match input.content {
            Content::Nothing => false,
            _ if input.partial => false,
            Content::Spikes(spikes) => {
                for spike in spikes {
                    if let Some(count) = self.row.get_mut(*spike as usize) {
                        *count += 1.0;
                    }
                }
                true
            }
            // A recording holds whole counts.
            Content::Counts(row) => {
                (self.row.iter_mut().zip(row)).for_each(|(to, count)| *to = count.round());
                true
            }
            Content::Features(row) => {
                self.row.copy_from_slice(row);
                self.whole &= row.iter().all(|v| *v >= 0.0 && v.fract() == 0.0);
                true
            }
        };
        if known {
            self.begun.get_or_insert(self.steps);
            for (channel, value) in self.row.iter_mut().enumerate().filter(|(_, v)| **v != 0.0) {
                self.spikes.ticks.push(self.steps);
                self.spikes.channels.push(channel as u32);
                self.spikes.weights.push(std::mem::take(value));
            }
        } else {
            self.close();
        }
        self.ends.push(input.end);
        self.steps += 1;
    }

    /// The outputs of each step; segments are cut where there are none.
    fn label(
        &mut self,
        outputs: usize,
        behavior: &dyn Fn(u64, u64) -> Option<Vec<f32>>,
    ) -> Vec<f32> {
        if outputs == 0 {
            return Vec::new();
        }
        let mut values = vec![0.0; outputs * self.ends.len()];
        let segments = std::mem::take(&mut self.segments);
        for segment in &segments {
            let mut begun = None;
            for step in segment.start..segment.stop {
                let row = behavior(step as u64, self.ends[step as usize])
                    .filter(|row| row.len() == outputs && row.iter().all(|v| v.is_finite()));
                if let Some(row) = row {
                    let at = step as usize * outputs;
                    values[at..at + outputs].copy_from_slice(&row);
                    begun.get_or_insert(step);
                } else if let Some(start) = begun.take() {
                    self.segments.push(Segment { start, stop: step });
                }
            }
            if let Some(start) = begun {
                self.segments.push(Segment {
                    start,
                    stop: segment.stop,
                });
            }
        }
        values
    }

    fn close(&mut self) {
        if let Some(start) = self.begun.take()
            && start < self.steps
        {
            self.segments.push(Segment {
                start,
                stop: self.steps,
            });
        }
    }

    /// The recording; `behavior` gives the outputs of a step by its number and the device time of its end. Steps without data
    /// or without outputs lie outside of all segments.
    ///
    /// # Errors
    /// `InsufficientData` if no step has data.
    pub fn into_recording(
        mut self,
        plan: &Plan,
        outputs: Vec<OutputInfo>,
        behavior: &dyn Fn(u64, u64) -> Option<Vec<f32>>,
    ) -> Result<Recording> {
        self.close();
        let values = self.label(outputs.len(), behavior);
        if self.segments.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "expected steps with data and labels, got {} without: the noise is measured for {} first",
                    self.steps, plan.voltage.noise.calibrate
                ),
            ));
        }
        let counts = plan.voltage.feature != Feature::Sbp && self.whole;
        let meta = FrontEnd::of_plan(plan, self.voltage)?.meta();
        Ok(Recording {
            tick_seconds: self.step_seconds,
            ticks: self.steps,
            spikes: self.spikes,
            channel_names: (0..self.row.len()).map(|c| format!("c{c}")).collect(),
            behavior: (!outputs.is_empty()).then_some(Behavior {
                outputs,
                values,
                times: None,
            }),
            segments: self.segments,
            electrode_um: None,
            form: if counts {
                SpikeForm::Counts
            } else {
                SpikeForm::Signal
            },
            meta: Some(meta),
        })
    }
}

/// Bins of all that a rig sends until it ends, and the noise of each channel at the end. With `noise`, as an earlier session's
/// [`Binner::noise`], nothing is calibrated.
///
/// # Errors
/// The errors of the rig and of the front end.
pub fn bin(
    plan: &Plan,
    rig: &mut dyn Rig,
    step_seconds: f64,
    noise: Option<&[f32]>,
) -> Result<(Bins, Option<Vec<f32>>)> {
    let mut block: Block = Block::new();
    let mut work: Option<(Binner, Bins)> = None;
    loop {
        match rig.take(&mut block, Duration::from_secs(1))? {
            Arrival::Nothing => continue,
            Arrival::Ended => break,
            Arrival::Block => {}
        }
        if work.is_none() {
            let signal = rig.signal().ok_or_else(|| {
                Error::new(
                    ErrorKind::Internal,
                    "the source has sent a block and no facts about it",
                )
            })?;
            let voltage = matches!(block.samples, Samples::Voltage(_));
            let mut binner = Binner::new(plan, &signal, voltage, step_seconds)?;
            if let Some(noise) = noise {
                binner.set_noise(noise)?;
            }
            let mut bins = Bins::new(binner.channels(), step_seconds);
            bins.voltage = voltage;
            work = Some((binner, bins));
        }
        if let Some((binner, bins)) = &mut work {
            binner.take(&block, &mut |event| {
                bins.add(&event);
                Ok(())
            })?;
        }
    }
    let (binner, bins) = work.ok_or_else(nothing_came)?;
    Ok((bins, binner.noise()))
}

/// Bins of all that a session has recorded, with its noise or, if `noise` is absent, with noise that is measured again. Reads
/// its labels.
///
/// # Errors
/// The errors of the recording and of the front end; `InvalidArgument` for steps of another length than the session's if
/// it has several sources.
pub fn bin_recording(
    recording: &mut record::Recording,
    step_seconds: f64,
    noise: Option<&[f32]>,
) -> Result<Bins> {
    let (plan, facts) = (&recording.plan, &recording.facts);
    let length = recording.model.step_seconds();
    if plan.source.len() > 1 && step_seconds != length {
        return Err(Error::argument(format!(
            "step: expected the {length} s of a session of several sources, got {step_seconds} s"
        )));
    }
    let mut binner = Binner::new(plan, &facts.signal(), facts.voltage, step_seconds)?;
    if let Some(noise) = noise {
        binner.set_noise(noise)?;
    }
    let mut bins = Bins::new(binner.channels(), step_seconds);
    bins.voltage = facts.voltage;
    let mut heard = false;
    while let Some(record) = recording.reader.next_record()? {
        let mut add = |event: Event<'_>| {
            bins.add(&event);
            Ok(())
        };
        match record {
            Record::Block(source, block) if binner.has_source(source) => {
                heard = true;
                binner.take_from(source, &block, &mut add)?;
            }
            Record::Configuration(source, json) if source > 0 => {
                let facts = Facts::from_json(&json)?;
                binner.add_source(plan, source, &facts.signal(), facts.voltage)?;
            }
            Record::Alignment(source, at) if binner.has_source(source) => {
                binner.align(source, &at, &mut add)?;
            }
            Record::Note {
                step,
                content: NoteContent::Label(values),
            } => {
                recording.labels.insert(step, values);
            }
            _ => {}
        }
    }
    match heard {
        true => Ok(bins),
        false => Err(nothing_came()),
    }
}

fn nothing_came() -> Error {
    let message = "expected data from the source, got none";
    Error::new(ErrorKind::InsufficientData, message)
}
