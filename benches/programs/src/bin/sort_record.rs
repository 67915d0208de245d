//! Prints the figures of benches/record/sorting.md: `cargo run --release -p betz-programs --bin sort_record [NAME …]`,
//! NAME being front, blocks, latency, sorter, seeds or drift, or one kind of `seeds`: probe, tetrode, array or groups. Maps:
//! `som_record`.

#![allow(clippy::unwrap_used)] // an example stops where something fails

use std::time::Instant;

use betz_sort::score::{Train, score};
use betz_sort::synthetic::{Synthetic, make};
use betz_sort::{
    BlockFrontEnd, BlockOptions, CrossingRule, FrontEnd, InMemory, Layout, Reference, Settings,
    Sorter, Sorting, Spike, TrainOptions, train,
};

fn main() -> betz_sort::Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let asked = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    if asked("front") {
        front()?;
    }
    if asked("blocks") {
        blocks()?;
    }
    if asked("latency") {
        latency()?;
    }
    if asked("sorter") {
        sorter()?;
    }
    seeds(&|kind| asked("seeds") || asked(kind))?;
    if asked("drift") {
        drift()?;
    }
    Ok(())
}

/// Blocks of 1 ms through the front end by blocks, and the same samples through that by rows: nanoseconds per sample and
/// channel, of the median block.
fn blocks() -> betz_sort::Result<()> {
    const ROWS: usize = 30;
    const BLOCKS: usize = 64;
    for channels in [96, 384, 1024] {
        let mut state = 88_172_645_463_325_252_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 48) as i32 - 32_768
        };
        let samples: Vec<i16> = (0..BLOCKS * ROWS * channels)
            .map(|_| ((noise() + noise() + noise() + noise()) / 900) as i16)
            .collect();
        let layout = Layout::with_noise(channels, 5.0);
        let time = |push: &mut dyn FnMut(&[i16]) -> betz_sort::Result<()>| {
            let mut times = Vec::new();
            for _ in 0..12 {
                for block in samples.chunks_exact(ROWS * channels) {
                    let started = Instant::now();
                    push(block)?;
                    times.push(started.elapsed().as_secs_f64());
                }
            }
            times.sort_by(f64::total_cmp);
            Ok::<f64, betz_sort::Error>(1e9 * times[times.len() / 2] / (ROWS * channels) as f64)
        };
        for reference in [Reference::None, Reference::Average, Reference::Median] {
            let settings = Settings {
                reference,
                ..Settings::new(30_000.0, 0.195)
            };
            let mut line = format!("{channels:5} channels, {reference:?}:");
            let mut count = 0;
            for (name, rule, power) in [
                ("once", Some(CrossingRule::Once), false),
                ("once + power", Some(CrossingRule::Once), true),
                ("settled", Some(CrossingRule::Settled), false),
            ] {
                let options = BlockOptions {
                    crossings: rule,
                    power,
                    ..BlockOptions::default()
                };
                let mut front = BlockFrontEnd::new(&settings, &layout, &options)?;
                let ns = time(&mut |block| front.push(block, &mut |_| count += 1))?;
                line += &format!(" {name} {ns:.2},");
            }
            let mut front = FrontEnd::new(&settings, &layout)?;
            let ns = time(&mut |block| {
                for row in block.chunks_exact(channels) {
                    front.step(row);
                    count += std::iter::from_fn(|| front.take()).count();
                }
                Ok(())
            })?;
            println!("{line} by rows {ns:.2} ns per sample-channel; {count} crossings");
        }
    }
    Ok(())
}

/// 96 electrodes of an array: the front end alone.
fn front() -> betz_sort::Result<()> {
    let of = Synthetic {
        seconds: 10.0,
        ..Synthetic::array(96, 3)
    };
    let made = make(&of)?;
    for reference in [
        Reference::None,
        Reference::Average,
        Reference::Median,
        Reference::Regression,
    ] {
        let settings = Settings {
            reference,
            ..Settings::new(of.rate_hz, of.gain)
        };
        let layout = Layout {
            row_channels: 96,
            used: (0..96).collect(),
            places: of.places.clone(),
            noise: vec![5.0; 96],
            focused: vec![1.0; 96],
            regression: if reference == Reference::Regression {
                vec![0.001; 96 * 96]
            } else {
                Vec::new()
            },
        };
        let mut front = FrontEnd::new(&settings, &layout)?;
        let started = Instant::now();
        let mut crossings = 0;
        for row in made.samples.chunks_exact(96) {
            front.step(row);
            while front.take().is_some() {
                crossings += 1;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "front end, 96 channels at 30 kHz, reference {reference:?}: {:.1} % of a core, {crossings} crossings",
            100.0 * seconds / of.seconds
        );
    }
    Ok(())
}

fn settings(of: &Synthetic) -> Settings {
    Settings {
        reference: if of.places.len() >= 16 {
            Reference::Median
        } else {
            Reference::None
        },
        ..Settings::new(of.rate_hz, of.gain)
    }
}

fn learn(of: &Synthetic, samples: &[i16], seconds: f64) -> betz_sort::Result<Sorter> {
    let places = of.places.iter().map(|p| Some(*p)).collect();
    let options = TrainOptions {
        rows: 0..(seconds * of.rate_hz) as u64,
        side: 16,
        ..TrainOptions::new(settings(of), places)
    };
    Ok(train(&mut InMemory::new(samples, of.places.len())?, &options, &())?.sorter)
}

/// Time of the push that has a spike's last sample, less that of pushes without spikes.
fn latency() -> betz_sort::Result<()> {
    let of = Synthetic {
        seconds: 30.0,
        ..Synthetic::probe(2)
    };
    let made = make(&of)?;
    let sorter = learn(&of, &made.samples, of.seconds)?;
    let mut sorting = Sorting::open(&sorter)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for row in made.samples.chunks_exact(32) {
        let mut spikes = 0;
        let started = Instant::now();
        sorting.push(row, &mut |_| spikes += 1)?;
        let nanoseconds = started.elapsed().as_nanos() as u64;
        match spikes {
            0 => without.push(nanoseconds),
            1 => with.push(nanoseconds),
            _ => {}
        }
    }
    for (name, times) in [
        ("with a spike's last sample", &mut with),
        ("without", &mut without),
    ] {
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e3;
        println!(
            "32 channels, map of 16 x 16, a push of one sample {name}: {} pushes, median {:.2} µs, 99 % {:.2} µs, 99.9 % {:.2} µs",
            times.len(),
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
    Ok(())
}

fn sort(sorter: &Sorter, samples: &[i16]) -> betz_sort::Result<(Vec<Spike>, Sorting)> {
    let mut sorting = Sorting::open(sorter)?;
    let mut spikes = Vec::new();
    for block in samples.chunks(30 * sorting.channels()) {
        sorting.push(block, &mut |spike| spikes.push(spike))?;
    }
    Ok((spikes, sorting))
}

fn accuracy(truth: (&[i64], &[u32]), spikes: &[Spike], from: i64) -> betz_sort::Result<f64> {
    let first = truth.0.partition_point(|s| *s < from);
    let all = spikes.iter().filter(|s| s.sample >= from);
    let (samples, units): (Vec<i64>, Vec<u32>) =
        all.filter_map(|s| Some((s.sample, s.unit?))).unzip();
    let score = score(
        Train {
            samples: &truth.0[first..],
            units: &truth.1[first..],
        },
        Train {
            samples: &samples,
            units: &units,
        },
        12,
    )?;
    Ok(score.mean(|u| u.accuracy))
}

/// A minute of 32 channels through the whole sorter.
fn sorter() -> betz_sort::Result<()> {
    let of = Synthetic::probe(1);
    let made = make(&of)?;
    let started = Instant::now();
    let sorter = learn(&of, &made.samples, of.seconds)?;
    let learned = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (spikes, _) = sort(&sorter, &made.samples)?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "sorter, 32 channels at 30 kHz: {:.1} times real time; trained in {learned:.1} s, {} units of {}, accuracy {:.3}",
        of.seconds / seconds,
        sorter.units().len(),
        of.units,
        accuracy((&made.spikes, &made.units), &spikes, 0)?
    );
    Ok(())
}

/// Ten seeds of each kind of recording: accuracy, and units found a true one that can be found.
fn seeds(asked: &dyn Fn(&str) -> bool) -> betz_sort::Result<()> {
    type Kind = fn(u64) -> Synthetic;
    let long = |seed| Synthetic {
        places: (0..96)
            .map(|c| [(c % 2) as f32 * 20.0, (c / 2) as f32 * 20.0])
            .collect(),
        units: 30,
        ..Synthetic::probe(seed)
    };
    let kinds: [(&str, &str, Kind); 4] = [
        ("probe", "32 channels, 10 units", Synthetic::probe),
        ("tetrode", "tetrode, 6 units", Synthetic::tetrode),
        ("array", "array of 16, 16 units", |seed| {
            Synthetic::array(16, seed)
        }),
        ("groups", "96 channels in three groups, 30 units", long),
    ];
    for (_, name, kind) in kinds.into_iter().filter(|(short, ..)| asked(short)) {
        let (mut found, mut mean, mut found_well, mut units) = (0, 0.0, 0, 0);
        for seed in 101..=110 {
            let of = kind(seed);
            let made = make(&of)?;
            let sorter = learn(&of, &made.samples, of.seconds)?;
            let (spikes, _) = sort(&sorter, &made.samples)?;
            let (samples, labels): (Vec<i64>, Vec<u32>) = spikes
                .iter()
                .filter_map(|s| Some((s.sample, s.unit?)))
                .unzip();
            let truth = Train {
                samples: &made.spikes,
                units: &made.units,
            };
            let sorted = Train {
                samples: &samples,
                units: &labels,
            };
            let score = score(truth, sorted, 12)?;
            mean += score.mean(|u| u.accuracy) / 10.0;
            found_well += score.units.iter().filter(|u| u.accuracy >= 0.8).count();
            found += sorter.units().len();
            units += of.units;
        }
        println!(
            "{name}, ten seeds: accuracy {mean:.3}, {found_well} of {units} found with 0.8 or more, {:.2} units found a true one",
            found as f64 / units as f64
        );
    }
    Ok(())
}

/// Ten minutes in which the tissue moves by 50 µm, and ten in which it does not; trained on the first two.
fn drift() -> betz_sort::Result<()> {
    for drift_um in [0.0, 50.0] {
        let of = Synthetic {
            seconds: 600.0,
            drift_um,
            ..Synthetic::probe(1)
        };
        let made = make(&of)?;
        let mut sorter = learn(&of, &made.samples, 120.0)?;
        for forget in [0.0, 20.0, 60.0, 300.0] {
            sorter.set_forget_seconds(forget)?;
            let (spikes, sorting) = sort(&sorter, &made.samples)?;
            let late = (480.0 * of.rate_hz) as i64;
            println!(
                "drift {drift_um} µm in 10 minutes, forgetting {forget} s: accuracy {:.3} (last two minutes {:.3}), {} units reported as moved",
                accuracy((&made.spikes, &made.units), &spikes, 0)?,
                accuracy((&made.spikes, &made.units), &spikes, late)?,
                sorting.moves().filter(|m| m.reported).count()
            );
        }
    }
    Ok(())
}
