//! Hot operations of Betz: `scripts/instructions.py` counts their instructions, `scripts/perf` times them.
//!
//! ```sh
//! operations prepare FOLDER   # writes the files that the operations read: a recording and a model
//! operations count FOLDER     # does each operation twice; Valgrind collects the second time
//! operations time FOLDER      # times each operation for a twentieth of a second
//! operations train-sorter FILE    # makes benches/programs/fixtures/sorter again, when the format of sorters changes
//! ```
//! `count` prints one line per case: its name, a tab, and the number of operations that its count is divided by.

#[path = "../decoders.rs"]
mod decoders;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use betz::device::Device;
use betz::device::multiply::{Product, StridedMatrix, multiply};
use betz::episode::{Alphabet, Clock, Events, Interval, Pattern, count};
use betz::model::Decoder;
use betz::network::{NetworkSpec, Plan, Signal, Threshold, Window};
use betz::psc::{Filter, FilterBank};
use betz::recording::{Behavior, Recording, SpikeForm};
use betz::simulate;
use betz::simulate::population::PopulationConfig;
use betz::sort::synthetic::{Synthetic, make};
use betz::sort::{FrontEnd, InMemory, Layout, Reference, Settings, Sorter, Sorting, TrainOptions};
use betz::stream::{
    LateSpikes, Session, SessionConfig, Spike, Step, StepRecord, StepWriter, Tap, spike_queue,
    step_ring,
};
use betz::train;
use betz::train::gram::{GramPath, normal_equations};
use betz::train::solve::{FeatureNames, MaskPolicy, Solver, solve};
use betz::{Error, Result};
use decoders::{Kind, OUTPUTS, counts_of_a_step, decoder, preset};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Steps of a session that are counted together.
const STEPS: usize = 50;
/// Channels of the voltage, and its rows that are counted together.
const ELECTRODES: usize = 32;
const ROWS: usize = 600;
/// Rows that the filters of a front end settle in, and that are not counted.
const SETTLING: usize = 3_000;
/// Rows of a block.
const BLOCK: usize = 30;
/// Rows of the voltage, which the sorting cases go round in.
const VOLTAGE_ROWS: usize = 9_000;
/// A sorter of [`voltage`]: this file is the same on every machine, which a training is not to the last bit.
const SORTER: &[u8] = include_bytes!("../../fixtures/sorter");
/// Time for which an operation is repeated.
const TIMED: Duration = Duration::from_millis(50);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage =
        || Error::argument("expected: operations prepare|count|time FOLDER, or train-sorter FILE");
    let [mode, folder] = &arguments[..] else {
        return Err(usage());
    };
    let folder = Path::new(folder);
    // All work is in one thread, that of the pool: Valgrind collects what the thread of a case does.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|e| Error::argument(e.to_string()))?;
    pool.install(|| match mode.as_str() {
        "prepare" => prepare(folder),
        "count" => run(folder, count_case),
        "time" => run(folder, time_case),
        "train-sorter" => train_sorter(folder),
        _ => Err(usage()),
    })
}

/// Measures a case: its name, the number of operations that one call of the work does, and the work.
type Measure = fn(&str, usize, &mut dyn FnMut() -> Result<()>) -> Result<()>;

/// Does `work` once to warm up, and once while Callgrind collects, which then writes its counts to a file.
fn count_case(name: &str, operations: usize, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    work()?;
    println!("{name}\t{operations}");
    request(TOGGLE_COLLECT);
    let done = work();
    request(TOGGLE_COLLECT);
    request(DUMP_STATS);
    done
}

/// Requests to Callgrind, as `callgrind.h` numbers them: the base is 'C' and 'T' in the two upper bytes.
const DUMP_STATS: u64 = 0x4354_0000;
const TOGGLE_COLLECT: u64 = 0x4354_0002;

/// Asks Callgrind, if the program runs under it; does nothing otherwise.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn request(number: u64) {
    let arguments = [number, 0, 0, 0, 0, 0];
    #[allow(unsafe_code)]
    // SAFETY: the instructions leave every register as it was: `rdi` turns by 128 bits in all. Valgrind, which knows
    // them, reads the six numbers that `rax` leads to, and writes its answer to `rdx`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdi") 0u64 => _,
            inout("rdx") 0u64 => _,
            in("rax") arguments.as_ptr(),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: u64) {}

/// Repeats `work` for [`TIMED`]; prints nanoseconds per operation.
fn time_case(name: &str, operations: usize, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    work()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < TIMED || times.len() < 5 {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("{name}: median {median:.1} ns, least {:.1} ns", times[0]);
    Ok(())
}

fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(3)
}

fn prepare(folder: &Path) -> Result<()> {
    let data = simulate::poisson(100, 20.0, 2_000, 0.01, 1)?;
    let recording = Recording {
        tick_seconds: data.step_seconds,
        ticks: data.steps as i64,
        channel_names: data.channel_names.clone(),
        spikes: data.spikes.clone(),
        form: SpikeForm::Events,
        behavior: Some(Behavior {
            outputs: data.outputs.clone(),
            values: data.behavior.clone(),
            times: None,
        }),
        segments: data.segments.clone(),
        electrode_um: None,
        meta: None,
    };
    recording.write_npz(&folder.join("recording.npz"))?;
    decoder(&mut random(), 1024, preset("reach")?, Kind::Lift(256))?.save(&folder.join("model"))
}

/// Trains the sorter of [`SORTER`] again.
fn train_sorter(path: &Path) -> Result<()> {
    let (of, samples) = voltage(3.0)?;
    let places = of.places.iter().map(|p| Some(*p)).collect();
    let options = TrainOptions {
        rows: 0..(of.seconds * of.rate_hz) as u64,
        side: 8,
        ..TrainOptions::new(settings(&of), places)
    };
    let trained = betz::sort::train(&mut InMemory::new(&samples, ELECTRODES)?, &options, &())?;
    trained.sorter.save(path)
}

fn run(folder: &Path, measure: Measure) -> Result<()> {
    steps(measure)?;
    skips(measure)?;
    queue(measure)?;
    tap(measure)?;
    front_end(measure)?;
    sorting(measure)?;
    gram(measure)?;
    solution(measure)?;
    product(measure)?;
    training(measure)?;
    mining(measure)?;
    network(measure)?;
    let recording = folder.join("recording.npz");
    measure("read .npz, 100 channels, 20 s", 1, &mut || {
        black_box(Recording::read_npz(&recording)?);
        Ok(())
    })?;
    let model = folder.join("model");
    let name = "load model, reach, lift 256, 1,024 channels";
    measure(name, 1, &mut || {
        black_box(Decoder::load(&model)?);
        Ok(())
    })
}

/// Channels of `spikes` spikes, spread over `channels`.
fn list(channels: usize, spikes: usize) -> Vec<u32> {
    (0..spikes as u32)
        .map(|i| i * 37 % channels as u32)
        .collect()
}

fn one_filter(tau_seconds: f64) -> Result<FilterBank> {
    FilterBank::new(vec![Filter {
        tau_seconds,
        order: 1,
    }])
}

fn steps(measure: Measure) -> Result<()> {
    for channels in [95, 1024] {
        for (name, bank, kind) in [
            ("one filter", one_filter(0.04)?, Kind::Linear),
            ("reach", preset("reach")?, Kind::Linear),
            ("reach, lift 256", preset("reach")?, Kind::Lift(256)),
            ("reach, experts 8", preset("reach")?, Kind::Experts(8)),
            (
                "recurrent 64",
                counts_of_a_step()?,
                Kind::Recurrent(&[64], false),
            ),
            (
                "recurrent 64, 64",
                counts_of_a_step()?,
                Kind::Recurrent(&[64, 64], false),
            ),
            (
                "recurrent 256",
                counts_of_a_step()?,
                Kind::Recurrent(&[256], false),
            ),
            (
                "recurrent 256, bf16",
                counts_of_a_step()?,
                Kind::Recurrent(&[256], true),
            ),
        ] {
            let decoder = decoder(&mut random(), channels, bank, kind)?;
            for spikes in [20, 120] {
                let mut session = Session::open(&decoder, SessionConfig::default())?;
                let list = list(channels, spikes);
                let name = format!("step, {name}, {channels} channels, {spikes} spikes");
                measure(&name, STEPS, &mut || take_steps(&mut session, &list))?;
            }
        }
    }
    Ok(())
}

fn skips(measure: Measure) -> Result<()> {
    for (name, kind) in [
        ("place 10 × 10", Kind::Place(10)),
        ("classes 8", Kind::Classes(8)),
        ("experts 8", Kind::Experts(8)),
    ] {
        let decoder = decoder(&mut random(), 95, preset("reach")?, kind)?;
        let mut session = Session::open(&decoder, SessionConfig::default())?;
        let name = format!("reset, step and skip of 1,000 ticks, reach, {name}, 95 channels");
        let spikes = list(95, 20);
        let mut out = vec![0.0; session.outputs()];
        measure(&name, 1, &mut || {
            session.reset();
            session.step_spikes(&spikes, &mut out)?;
            session.skip(1000);
            Ok(())
        })?;
    }
    Ok(())
}

fn take_steps(session: &mut Session, list: &[u32]) -> Result<()> {
    let mut out = [0.0; OUTPUTS];
    for _ in 0..STEPS {
        session.step_spikes(black_box(list), &mut out)?;
        black_box(&mut out);
    }
    Ok(())
}

/// A session of 95 channels with the filters of `reach`.
fn session() -> Result<Session> {
    let decoder = decoder(&mut random(), 95, preset("reach")?, Kind::Linear)?;
    Session::open(&decoder, SessionConfig::default())
}

fn queue(measure: Measure) -> Result<()> {
    let mut session = session()?;
    let (mut producer, mut consumer) = spike_queue(1024, LateSpikes::Take)?;
    let (list, mut out, mut tick) = (list(95, 20), [0.0; OUTPUTS], 0);
    let name = "step through a queue, reach, 95 channels, 20 spikes";
    measure(name, STEPS, &mut || {
        for _ in 0..STEPS {
            for &channel in &list {
                producer.push(&[Spike { tick, channel }]);
            }
            producer.mark(tick);
            consumer.step(&mut session, &mut out)?;
            tick += 1;
        }
        Ok(())
    })
}

/// The session's end of a ring of steps.
struct RingTap(StepWriter);

impl Tap for RingTap {
    fn take(&mut self, step: &Step<'_>) {
        self.0.push(step);
    }
}

fn tap(measure: Measure) -> Result<()> {
    let mut session = session()?;
    let (writer, mut reader) = step_ring("steps", 2 * STEPS, 64, Some(OUTPUTS))?;
    session.attach(Box::new(RingTap(writer)), 0)?;
    let list = list(95, 20);
    let mut record = StepRecord::default();
    let name = "step with a tap, and its reader, reach, 95 channels, 20 spikes";
    measure(name, STEPS, &mut || {
        take_steps(&mut session, &list)?;
        while reader.take(&mut record) {
            black_box(&mut record);
        }
        Ok(())
    })
}

/// `seconds` of the simulated voltage of a probe.
fn voltage(seconds: f64) -> Result<(Synthetic, Vec<i16>)> {
    let of = Synthetic {
        seconds,
        ..Synthetic::probe(2)
    };
    let samples = make(&of)?.samples;
    Ok((of, samples))
}

fn settings(of: &Synthetic) -> Settings {
    Settings {
        reference: Reference::Median,
        ..Settings::new(of.rate_hz, of.gain)
    }
}

/// The samples of `rows` rows from `first` on; the voltage goes round.
fn rows_of(samples: &[i16], first: usize, rows: usize) -> &[i16] {
    &samples[first % VOLTAGE_ROWS * ELECTRODES..][..rows * ELECTRODES]
}

fn front_end(measure: Measure) -> Result<()> {
    let (of, samples) = voltage(0.3)?;
    let layout = Layout {
        row_channels: ELECTRODES,
        used: (0..ELECTRODES as u32).collect(),
        places: of.places.clone(),
        noise: vec![8.0; ELECTRODES],
        focused: vec![1.0; ELECTRODES],
        regression: Vec::new(),
    };
    let mut front = FrontEnd::new(&settings(&of), &layout)?;
    let mut from = 0;
    let mut take_rows = |n: usize| {
        for at in from..from + n {
            front.step(rows_of(&samples, at, 1));
            while let Some(crossing) = front.take() {
                black_box(crossing);
            }
        }
        from += n;
    };
    take_rows(SETTLING);
    let name = "front end, row of 32 channels, median reference";
    measure(name, ROWS, &mut || {
        take_rows(ROWS);
        Ok(())
    })
}

fn sorting(measure: Measure) -> Result<()> {
    let (_, samples) = voltage(0.3)?;
    let sorter = Sorter::from_bytes(SORTER)?;
    for (name, by_block) in [("row", false), ("row of a block of 30", true)] {
        let mut sorting = Sorting::open(&sorter)?;
        let mut from = 0;
        let mut take_rows = |n: usize| {
            for first in (from..from + n).step_by(BLOCK) {
                if by_block {
                    let block = rows_of(&samples, first, BLOCK);
                    sorting.push(block, &mut |spike| {
                        black_box(spike);
                    })?;
                    continue;
                }
                for at in first..first + BLOCK {
                    sorting.step(rows_of(&samples, at, 1));
                    while let Some(spike) = sorting.take() {
                        black_box(spike);
                    }
                }
            }
            from += n;
            Ok(())
        };
        take_rows(SETTLING)?;
        let name = format!("sort and label, {name}, 32 channels");
        measure(&name, ROWS, &mut || take_rows(ROWS))?;
    }
    Ok(())
}

fn gram(measure: Measure) -> Result<()> {
    let events = simulate::poisson(64, 20.0, 4_000, 0.00025, 1)?;
    let bins = simulate::poisson(64, 13.0, 500, 0.1, 1)?;
    let name = "Γ by events, 64 channels, 1 s at 20 Hz, 1 filter";
    let bank = one_filter(0.01)?;
    measure(name, 1, &mut || {
        let sums = normal_equations(&events, &bank, None, 0, GramPath::Event, &())?;
        black_box(sums);
        Ok(())
    })?;
    let name = "Γ dense, 64 channels, 500 bins of 1.3 spikes, 1 filter";
    let bank = one_filter(0.1)?;
    measure(name, 1, &mut || {
        let sums = normal_equations(&bins, &bank, None, 0, GramPath::Dense, &())?;
        black_box(sums);
        Ok(())
    })
}

fn solution(measure: Measure) -> Result<()> {
    let data = simulate::poisson(100, 13.0, 500, 0.1, 1)?;
    let bank = one_filter(0.1)?;
    let (sums, _) = normal_equations(&data, &bank, None, 0, GramPath::Dense, &())?;
    let names = FeatureNames {
        channels: &data.channel_names,
        bank: &bank,
    };
    measure("solve, 100 features, 2 outputs", 1, &mut || {
        let solution = solve(&sums, 1.0, Solver::Cholesky, MaskPolicy::Refuse, names)?;
        black_box(solution);
        Ok(())
    })
}

fn product(measure: Measure) -> Result<()> {
    const SIDE: usize = 64;
    let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 1013) as f32).collect();
    let a = StridedMatrix::row_major(&values, SIDE, SIDE)?;
    let product = Product::new(&a, &a);
    measure("product of f32, side 64", 1, &mut || {
        multiply(&Device::cpu(), &product, &mut |_, _, _| Ok(()), &()).map(drop)
    })
}

fn training(measure: Measure) -> Result<()> {
    let config = PopulationConfig {
        neurons: 40,
        train_seconds: 20.0,
        test_seconds: 1.0,
        ..PopulationConfig::default()
    };
    let data = simulate::population::simulate(&config, 1)?
        .train
        .align(0.02)?;
    let options = train::TrainOptions::new(one_filter(0.1)?);
    let name = "train linear, 40 channels, 20 s, one filter, ridge by cross-validation";
    measure(name, 1, &mut || {
        let decoder = train::train_validated(&data, &options, &train::Search::ridge(), &())?;
        black_box(decoder);
        Ok(())
    })
}

fn mining(measure: Measure) -> Result<()> {
    let data = simulate::poisson(26, 20.0, 20_000, 0.001, 1)?;
    let clock = Clock::from_tick_seconds(0.001)?;
    let alphabet = Alphabet::new(data.channel_names.clone(), clock)?;
    let events = Events::new(alphabet, &data.spikes.ticks, &data.spikes.channels)?;
    let interval = Interval::new(0, 10)?;
    let patterns = (0..200)
        .map(|i| {
            let symbols = [i, i + 5, 3 * i + 1, i / 2 + 7].map(|symbol| symbol % 26);
            Pattern::uniform(symbols.to_vec(), interval)
        })
        .collect::<Result<Vec<_>>>()?;
    let name = "count 200 episodes of 4, 26 neurons, 20 s at 20 Hz";
    measure(name, 1, &mut || {
        black_box(count::count(&events, &patterns)?);
        Ok(())
    })
}

fn network(measure: Measure) -> Result<()> {
    let (nodes, samples) = (128, 200);
    let rng = &mut random();
    let samples: Vec<f32> = (0..nodes * samples)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let signal = Signal::new(&samples[..], nodes)?;
    let window = Window {
        length: 100,
        step: 1,
    };
    let measure_of_pairs = betz::network::Measure::Pearson;
    let spec = NetworkSpec::new(measure_of_pairs, window).threshold(Threshold::Absolute(0.3));
    let plan = Plan::new(&spec, &signal)?;
    let name = "network, 128 nodes, 101 windows of 100 samples";
    measure(name, 1, &mut || {
        black_box(plan.run(&signal, &())?);
        Ok(())
    })
}
