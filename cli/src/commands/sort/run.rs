//! `betz sort run`: a recording through the sorter, as a controller would send it.

use std::time::Instant;

use betz::recording::{Recording, Segment, SpikeForm, Spikes};
use betz::sort::{BandPower, FrontEnd, Sorter, Sorting, UnitMove, Voltage};
use betz::text::count;
use betz::{Error, Progress, Result, progress};
use serde::Serialize;

use super::args::{Feature, SortRun};
use super::input::{Info, Source};
use super::phy;
use super::row_clock::RowClock;
use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome, Table};

/// Rows read from the file at once; they are handed on in blocks of `--block`.
const READ_ROWS: usize = 1 << 13;
/// Values of spike-band power that are kept at most.
const MOST_VALUES: usize = 1 << 28;

#[derive(Default, Serialize)]
struct SortReport {
    file: String,
    feature: &'static str,
    channels: usize,
    spikes: u64,
    unlabelled: u64,
    artefacts: u64,
    /// Crossings that artefacts blanked.
    blanked: u64,
    saturated_samples: u64,
    recorded_seconds: f64,
    /// Seconds of the sorter's own work.
    seconds: f64,
    times_real_time: f64,
    /// Stream that was used.
    stream: String,
    /// Spikes left out because they lie beside a gap.
    near_gaps: usize,
    /// Units whose centre or rate has left its band; their labels stay what they were.
    moved: Vec<UnitMoved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Units that have less than this part of the spikes that they had in training are hardly in the file.
const FEW: f64 = 0.1;

/// Spikes that units must have had in so much time of training before their lack says anything.
const ENOUGH: f64 = 50.0;

/// A warning if units that had `rate_hz` spikes per second in training have only `spikes` in `seconds`.
fn few_spikes(spikes: usize, rate_hz: f64, seconds: f64) -> Option<String> {
    let expected = rate_hz * seconds;
    (expected >= ENOUGH && (spikes as f64) < FEW * expected).then(|| {
        format!(
            "expected about {expected:.0} spikes of units by their rates in training, got {spikes}: check that the file has the channels of training, in their order (--channels, --gain)"
        )
    })
}

#[derive(Serialize)]
struct UnitMoved {
    unit: u32,
    /// Distance of its mean spike from that of training, and size of the latter, in standard deviations of the noise.
    distance: f32,
    size: f32,
    rate_hz: f64,
    trained_hz: f64,
}

/// Features extracted from the voltage.
#[derive(Default)]
struct Out {
    ticks: Vec<i64>,
    channels: Vec<u32>,
    weights: Vec<f32>,
    microvolts: Vec<f32>,
    seconds: f64,
}

impl Out {
    /// Keeps the entries that `kept` marks.
    fn retain(&mut self, kept: &[bool]) {
        fn only<T>(values: &mut Vec<T>, kept: &[bool]) {
            // Values that a feature does not have are absent for all.
            let mut marks = kept.iter();
            if values.len() == kept.len() {
                values.retain(|_| marks.next() == Some(&true));
            }
        }
        only(&mut self.ticks, kept);
        only(&mut self.channels, kept);
        only(&mut self.weights, kept);
        only(&mut self.microvolts, kept);
    }
}

pub(super) fn run(args: &SortRun) -> Result<()> {
    let sorter = Sorter::load(&args.sorter)?;
    let (info, source) = Info::of(&args.raw, Some(&sorter))?;
    let mut files = Files::new(&args.common)
        .reads("SORTER", &args.sorter)
        .reads("RAW", &args.raw.raw)
        .reads("RAW", &info.path);
    files.writes("--out", &args.out, Kind::Sorted)?;
    check_options(args)?;
    let phy = (args.phy.as_deref())
        .map(|folder| phy::Folder::of(folder, &info, args.common.force))
        .transpose()?;
    let meta = meta(args, &source);
    let (mut voltage, rows) = source.open(&info, &args.raw.part)?;
    let clock = RowClock::new(&info, rows.clone());
    if args.feature == Feature::Sbp && clock.pieces.len() > 1 {
        return Err(Error::argument(format!(
            "--feature sbp: expected a recording without gaps, got {}; --from and --until take a part of it",
            count(clock.pieces.len() as u128 - 1, "gap")
        )));
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let mut blocks = Blocks {
        voltage: voltage.as_mut(),
        rows: rows.clone(),
        block: args.block,
        bar: &bar,
    };
    let mut out = Out::default();
    let mut ran = SortReport {
        file: args.out.display().to_string(),
        feature: "sorted",
        recorded_seconds: (rows.end - rows.start) as f64 / info.rate_hz,
        stream: info.stream.name.clone(),
        ..SortReport::default()
    };
    let mut recording = Recording {
        tick_seconds: 1.0 / info.rate_hz,
        ticks: clock.ticks,
        spikes: Spikes::default(),
        channel_names: Vec::new(),
        behavior: None,
        segments: Vec::new(),
        electrode_um: None,
        form: SpikeForm::Events,
        meta: Some(meta.to_string()),
    };
    extract(
        args,
        &sorter,
        &info,
        &mut blocks,
        &mut out,
        &mut ran,
        &mut recording,
    )?;
    drop(bar);
    if args.feature != Feature::Sbp {
        let kept = clock.away_from_gaps(&out.ticks);
        ran.near_gaps = kept.iter().filter(|kept| !**kept).count();
        out.retain(&kept);
    }
    if let Some(folder) = &phy {
        // Phy counts the rows of the file.
        let rows: Vec<i64> = out.ticks.iter().map(|t| t + rows.start as i64).collect();
        let spikes = phy::PhySpikes {
            rows: &rows,
            units: &out.channels,
            microvolts: &out.microvolts,
        };
        folder.write(&info, &sorter, &spikes)?;
        ran.phy = Some(folder.path.display().to_string());
    }
    recording.segments = match args.feature {
        Feature::Sbp => vec![Segment {
            start: 0,
            stop: recording.ticks,
        }],
        Feature::Sorted | Feature::Crossings => clock.segments(),
    };
    if args.feature != Feature::Sbp {
        out.ticks
            .iter_mut()
            .for_each(|tick| *tick = clock.tick(*tick));
    }
    ran.channels = recording.channel_names.len();
    ran.spikes = out.ticks.len() as u64;
    ran.seconds = out.seconds;
    ran.times_real_time = ran.recorded_seconds / out.seconds.max(f64::MIN_POSITIVE);
    recording.spikes = Spikes {
        ticks: out.ticks,
        channels: out.channels,
        weights: out.weights,
    };
    recording.write_npz(&args.out)?;
    if let Some(warning) = &ran.warning {
        report::note(&format!("warning: {warning}"));
    }
    report::tell(&ran, args.common.json)
}

/// Refuses options that do not fit together.
fn check_options(args: &SortRun) -> Result<()> {
    if args.block == 0 {
        return Err(Error::argument(
            "--block: expected one sample at least, got 0",
        ));
    }
    match &args.phy {
        Some(folder) if args.feature != Feature::Sorted => Err(Error::argument(format!(
            "--phy {}: expected --feature sorted",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The origin of the spikes, as JSON.
fn meta(args: &SortRun, source: &Source) -> serde_json::Value {
    let mut meta = serde_json::json!({
        "source": "betz sort",
        "sorter": args.sorter.display().to_string(),
    });
    if let Source::Series(series) = source {
        meta["series"] = series.name().into();
        meta["origin_seconds"] = (series.start_seconds() + args.raw.part.from).into();
    }
    meta
}

/// Extracts the feature that was asked for from all blocks; fills in what `ran` and `recording` hold of it.
fn extract(
    args: &SortRun,
    sorter: &Sorter,
    info: &Info,
    blocks: &mut Blocks<'_>,
    out: &mut Out,
    ran: &mut SortReport,
    recording: &mut Recording,
) -> Result<()> {
    match args.feature {
        Feature::Sorted => {
            sort_units(sorter, blocks, out, ran, recording).map_err(|e| e.at(args.sorter.display()))
        }
        Feature::Crossings => {
            ran.feature = "crossings";
            let mut front = FrontEnd::new(sorter.settings(), sorter.layout())?;
            crossings(blocks, &mut front, out)?;
            ran.count_blanked(front.blanked());
            recording.channel_names = names(&sorter.layout().used);
            recording.electrode_um = Some(sorter.layout().places.clone());
            Ok(())
        }
        Feature::Sbp => {
            ran.feature = "sbp";
            let samples = samples_of_bin(args.bin, info)?;
            let mut power = BandPower::new(info.rate_hz, info.microvolts, info.channels, samples)?;
            recording.ticks = sbp(blocks, &mut power, out)?;
            recording.tick_seconds = samples as f64 / info.rate_hz;
            recording.form = SpikeForm::Signal;
            let all: Vec<u32> = (0..info.channels as u32).collect();
            recording.channel_names = names(&all);
            Ok(())
        }
    }
}

/// Sorts all blocks into units; fills in what `ran` and `recording` hold of them.
fn sort_units(
    sorter: &Sorter,
    blocks: &mut Blocks<'_>,
    out: &mut Out,
    ran: &mut SortReport,
    recording: &mut Recording,
) -> Result<()> {
    let units = sorter.units();
    if units.is_empty() {
        return Err(Error::mismatch("expected a sorter with units, got none"));
    }
    let mut sorting = Sorting::open(sorter)?;
    sorted(blocks, &mut sorting, out)?;
    ran.unlabelled = sorting.unlabelled();
    let rate_hz: f64 = units.iter().map(|unit| unit.rate_hz).sum();
    ran.warning = few_spikes(out.ticks.len(), rate_hz, ran.recorded_seconds);
    ran.count_blanked(sorting.blanked());
    ran.moved = (sorting.moves().filter(|m| m.reported))
        .map(|m: UnitMove| UnitMoved {
            unit: units[m.unit as usize].id,
            distance: m.distance,
            size: m.size,
            rate_hz: m.rate_hz,
            trained_hz: units[m.unit as usize].rate_hz,
        })
        .collect();
    recording.channel_names = units.iter().map(|u| format!("unit{}", u.id)).collect();
    let position = |channel: u32| {
        let used = sorter.layout().used.iter().position(|c| *c == channel);
        used.map_or([f32::NAN; 2], |at| sorter.layout().places[at])
    };
    recording.electrode_um = Some(units.iter().map(|u| position(u.channel)).collect());
    Ok(())
}

fn names(channels: &[u32]) -> Vec<String> {
    channels.iter().map(|c| format!("ch{c}")).collect()
}

fn samples_of_bin(seconds: f64, info: &Info) -> Result<usize> {
    let samples = (seconds * info.rate_hz).round();
    if (1.0..=1e9).contains(&samples) {
        return Ok(samples as usize);
    }
    Err(Error::argument(format!(
        "--bin: expected a sample at least, in seconds, got {seconds}"
    )))
}

/// The rows that were asked for, a block at a time.
struct Blocks<'a> {
    voltage: &'a mut dyn Voltage,
    rows: std::ops::Range<u64>,
    block: usize,
    bar: &'a Bar,
}

impl Blocks<'_> {
    /// Hands every block to `take`; seconds that `take` took, without the reading.
    fn each(&mut self, mut take: impl FnMut(&[i16]) -> Result<()>) -> Result<f64> {
        let channels = self.voltage.channels();
        let at_once = (READ_ROWS / self.block).max(1).saturating_mul(self.block);
        let at_once = at_once.min((self.rows.end - self.rows.start) as usize);
        let mut samples = vec![0; at_once * channels];
        let (mut at, mut seconds) = (self.rows.start, 0.0);
        while at < self.rows.end {
            progress::check(self.bar, "sorting")?;
            let wanted = (self.rows.end - at).min(at_once as u64) as usize;
            let got = self.voltage.read(at, &mut samples[..wanted * channels])?;
            if got == 0 {
                break;
            }
            let started = Instant::now();
            for block in samples[..got * channels].chunks(self.block * channels) {
                take(block)?;
            }
            seconds += started.elapsed().as_secs_f64();
            at += got as u64;
            self.bar.update(
                "sorting",
                at - self.rows.start,
                self.rows.end - self.rows.start,
            );
        }
        Ok(seconds)
    }
}

fn sorted(blocks: &mut Blocks<'_>, sorting: &mut Sorting, out: &mut Out) -> Result<()> {
    out.seconds = blocks.each(|block| {
        sorting.push(block, &mut |spike| {
            if let Some(unit) = spike.unit {
                // Those that lay under others come after them, by little.
                let at = out
                    .ticks
                    .iter()
                    .rposition(|t| *t <= spike.sample)
                    .map_or(0, |i| i + 1);
                out.ticks.insert(at, spike.sample);
                out.channels.insert(at, unit);
                out.microvolts.insert(at, spike.microvolts);
            }
        })
    })?;
    Ok(())
}

fn crossings(blocks: &mut Blocks<'_>, front: &mut FrontEnd, out: &mut Out) -> Result<()> {
    let row = front.layout().row_channels;
    out.seconds = blocks.each(|block| {
        for samples in block.chunks_exact(row) {
            front.step(samples);
            while let Some(crossing) = front.take() {
                out.ticks.push(crossing.sample);
                out.channels.push(crossing.channel as u32);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Bins of power as entries of a signal; how many there are.
fn sbp(blocks: &mut Blocks<'_>, power: &mut BandPower, out: &mut Out) -> Result<i64> {
    let channels = blocks.voltage.channels();
    let mut bins = 0;
    out.seconds = blocks.each(|block| {
        for samples in block.chunks_exact(channels) {
            let Some(bin) = power.step(samples) else {
                continue;
            };
            if out.weights.len() + bin.len() > MOST_VALUES {
                return Err(Error::argument(format!(
                    "--bin: expected at most {MOST_VALUES} values; a longer bin has fewer"
                )));
            }
            for (channel, &value) in bin.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                out.ticks.push(bins);
                out.channels.push(channel as u32);
                out.weights.push(value);
            }
            bins += 1;
        }
        Ok(())
    })?;
    if bins == 0 {
        return Err(Error::argument(
            "--bin: expected no more than the recording, got more",
        ));
    }
    Ok(bins)
}

impl SortReport {
    fn count_blanked(&mut self, blanked: betz::sort::ArtefactCounts) {
        self.artefacts = blanked.artefacts;
        self.blanked = blanked.crossings;
        self.saturated_samples = blanked.saturated;
    }
}

impl Outcome for SortReport {
    fn print(&self) -> Result<()> {
        if !self.moved.is_empty() {
            let mut table = Table::new(&["moved unit", "of its size", "Hz", "trained Hz"]);
            for moved in &self.moved {
                table.row([
                    moved.unit.to_string(),
                    format!("{:.0} %", 100.0 * moved.distance / moved.size),
                    format!("{:.2}", moved.rate_hz),
                    format!("{:.2}", moved.trained_hz),
                ]);
            }
            table.print()?;
        }
        let entry = if self.feature == "sbp" {
            "value"
        } else {
            "spike"
        };
        report::line(&format!(
            "{}: {} on {}, {} unlabelled, {} ({} blanked)",
            self.file,
            count(self.spikes, entry),
            count(self.channels as u128, "channel"),
            self.unlabelled,
            count(self.artefacts, "artefact"),
            count(self.blanked, "crossing")
        ))?;
        report::line(&format!(
            "{:.1} s in {:.2} s: {:.1} times real time",
            self.recorded_seconds, self.seconds, self.times_real_time
        ))
    }
}
