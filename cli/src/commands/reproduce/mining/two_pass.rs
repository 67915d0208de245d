//! Figures 1.9a and 1.9b of Feng et al.: two-pass elimination against the hybrid algorithm.

use betz::Result;
use betz::device::Device;
use betz::episode::count::count;
use betz::episode::{Events, Interval, Pattern};

use super::super::Lab;
use super::super::figure::{Figure, Plot, Style};
use super::super::study::{Answer, Findings, Grid, short, whole};
use super::{counted, data, preferred};

/// Candidates of size four in the paper, of which 22 were left.
const WANTED: usize = 43_656;
const LEFT: usize = 22;

/// Length of the culture and number of candidates of size four.
fn size(lab: &Lab<'_>) -> (f64, usize) {
    lab.pick((910.0, WANTED), (300.0, 1_000), (30.0, 100))
}

/// The threshold that leaves `left` of these candidates.
fn threshold(events: &Events, patterns: &[Pattern], left: usize) -> Result<u64> {
    let mut counts = count(events, patterns)?;
    counts.sort_unstable();
    let at = counts.len().saturating_sub(left.max(1));
    Ok(counts.get(at).copied().unwrap_or(1).max(1))
}

/// The number of episodes whose counterparts without lower bounds stay below the threshold.
fn eliminated(events: &Events, patterns: &[Pattern], threshold: u64) -> Result<usize> {
    let relaxed = |pattern: &Pattern| {
        let edges = pattern.intervals().iter();
        let edges = edges.map(|i| Interval::new(0, i.high));
        Pattern::new(pattern.symbols().to_vec(), edges.collect::<Result<_>>()?)
    };
    let relaxed: Vec<Pattern> = patterns.iter().map(relaxed).collect::<Result<_>>()?;
    let counts = count(events, &relaxed)?;
    Ok(counts
        .into_iter()
        .filter(|count| *count < threshold)
        .count())
}

pub(super) fn by_size(lab: &Lab<'_>) -> Result<Findings> {
    let (device, on) = preferred(lab);
    let (seconds, most) = size(lab);
    let events = data::culture(seconds, 28)?;
    let sizes = data::candidates(&events, most, &lab.quiet())?;
    let four = &sizes[2];
    let left = (LEFT * four.len()).div_ceil(WANTED);
    let threshold = threshold(&events, four, left)?;
    let mut grid = Grid::new(
        format!("Seconds, on the {on}"),
        &["size", "candidates", "hybrid", "two passes", "speedup"],
    );
    let mut plot = Plot::new(
        &format!("Seconds to count all candidates of a size, on the {on}"),
        "symbols of an episode",
        "s",
        false,
        true,
    );
    let mut lines = [Vec::new(), Vec::new()];
    for (i, patterns) in sizes.iter().enumerate() {
        lab.part("figure 1.9a", i, sizes.len())?;
        let (hybrid, two_pass) = both(lab, &device, &events, patterns, threshold)?;
        lines[0].push((i as f64 + 2.0, hybrid));
        lines[1].push((i as f64 + 2.0, two_pass));
        grid.row([
            (i + 2).to_string(),
            whole(patterns.len() as u64),
            short(hybrid),
            short(two_pass),
            format!("{} ×", short(hybrid / two_pass)),
        ]);
    }
    let total = |line: &[(f64, f64)]| line.iter().map(|p| p.1).sum::<f64>();
    let at_four = lines[0][2].1 / lines[1][2].1;
    let whole_run = total(&lines[0]) / total(&lines[1]);
    let gone = eliminated(&events, four, threshold)?;
    let share = 100.0 * gone as f64 / four.len().max(1) as f64;
    let [hybrid, two_pass] = lines;
    plot.add("hybrid algorithm", Style::Measured, hybrid);
    plot.add("two-pass elimination", Style::Measured, two_pass);
    let place = format!(" on the {on}");
    let why = "the data set and the processor are others";
    Ok(Findings {
        sizes: format!(
            "a simulated culture of {} events, threshold {threshold}, {} episodes of size four",
            whole(events.len() as u64),
            whole(four.len() as u64)
        ),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            Answer::decided(
                share > 99.0,
                format!(
                    "{} of {} ({share:.1} %)",
                    whole(gone as u64),
                    whole(four.len() as u64)
                ),
                "bursts of the simulated culture hold more episodes without lower bounds",
            ),
            Answer::ratio(at_four, 3.6, &place, why),
            Answer::ratio(whole_run, 2.53, &place, why),
        ],
    })
}

/// Seconds of the hybrid algorithm and of two passes; their frequent episodes are the same.
fn both(
    lab: &Lab<'_>,
    device: &Device,
    events: &Events,
    patterns: &[Pattern],
    threshold: u64,
) -> Result<(f64, f64)> {
    let (a, hybrid) = counted(lab, "hybrid", device, events, patterns, Some(threshold))?;
    let (b, two_pass) = counted(lab, "two-pass", device, events, patterns, Some(threshold))?;
    let frequent = |counts: &[u64]| -> Vec<u64> {
        counts
            .iter()
            .map(|c| if *c >= threshold { *c } else { 0 })
            .collect()
    };
    super::same("two-pass", &frequent(&b), &frequent(&a))?;
    Ok((hybrid, two_pass))
}

pub(super) fn by_threshold(lab: &Lab<'_>) -> Result<Findings> {
    let (device, on) = preferred(lab);
    let (seconds, most) = size(lab);
    let (cultures, most) = (lab.pick(3, 3, 1), most / 4);
    let mut grid = Grid::new(
        format!("Speedup of two passes over the hybrid algorithm, on the {on}"),
        &["culture", "threshold", "episodes left", "speedup"],
    );
    let mut plot = Plot::new(
        "Speedup of two-pass elimination by threshold",
        "threshold",
        "hybrid / two passes",
        true,
        false,
    );
    let mut all = Vec::new();
    for culture in 0..cultures {
        let events = data::culture(seconds / 2.0, 33 + culture as u64)?;
        let [_, _, patterns] = data::candidates(&events, most, &lab.quiet())?;
        let mut points = Vec::new();
        let shares = [0.001, 0.01, 0.1];
        for (i, share) in shares.into_iter().enumerate() {
            lab.part(
                "figure 1.9b",
                culture * shares.len() + i,
                cultures * shares.len(),
            )?;
            let left = (share * patterns.len() as f64).ceil() as usize;
            let threshold = threshold(&events, &patterns, left)?;
            let (hybrid, two_pass) = both(lab, &device, &events, &patterns, threshold)?;
            points.push((threshold as f64, hybrid / two_pass));
            grid.row([
                (culture + 1).to_string(),
                threshold.to_string(),
                left.to_string(),
                format!("{} ×", short(hybrid / two_pass)),
            ]);
        }
        all.extend(points.iter().map(|p| p.1));
        plot.add(
            format!("simulated culture {}", culture + 1),
            Style::Measured,
            points,
        );
    }
    let ends = [
        all_thresholds(&plot).fold(f64::INFINITY, f64::min),
        all_thresholds(&plot).fold(0.0, f64::max),
    ];
    plot.add("paper: least", Style::Paper, ends.map(|x| (x, 1.2)));
    plot.add("paper: largest", Style::Paper, ends.map(|x| (x, 2.8)));
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = all.iter().copied().fold(0.0, f64::max);
    let place = format!(" on the {on}");
    let why = "the data sets and the processor are others";
    Ok(Findings {
        sizes: format!("{cultures} simulated cultures of {} s", seconds / 2.0),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            Answer::ratio(least, 1.2, &place, why),
            Answer::ratio(largest, 2.8, &place, why),
        ],
    })
}

/// Thresholds of all points.
fn all_thresholds(plot: &Plot) -> impl Iterator<Item = f64> + '_ {
    plot.series.iter().flat_map(|s| &s.points).map(|p| p.0)
}
