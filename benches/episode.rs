//! Counting and mining episodes, as tables: `cargo bench --bench episode -- [SECTION…]`.
//!
//! Sections: `thirty`, `events`, `length`, `candidates`, `levelwise`, `device`, `reading`; all when
//! none is named. `--threads N` sets the threads of the parallel strategies (default 2); `serial`
//! runs on one core whatever the number. `--strategy NAME` leaves the other strategies out.
//! `--device cuda` runs the strategies that can on a CUDA device, with the events kept there;
//! `device` then has warm medians, from events there and from host memory. `--save FOLDER` makes it
//! leave its events, episodes and counts there for `benches/peers/episode_torch.py`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use betz::device::Device;
use betz::episode::count::{CountJob, count, count_on, strategies, strategy_on};
use betz::episode::{Alphabet, Clock, Events, Interval, MineOptions, Order, Pattern, mine};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PER_SECOND: f64 = 1e12;

/// 64 Poisson neurons with four embedded chains of nine.
struct Network {
    seconds: f64,
    /// Total rate of each neuron, chains included, in spikes a second.
    rate: f64,
    seed: u64,
}

/// The four chains: nine different neurons each.
fn chains() -> Vec<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(64);
    (0..4)
        .map(|_| {
            let mut neurons: Vec<u32> = (0..64).collect();
            for i in 0..9 {
                let j = rng.random_range(i..64);
                neurons.swap(i, j);
            }
            neurons.truncate(9);
            neurons
        })
        .collect()
}

impl Network {
    fn events(&self) -> Events {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let chains = chains();
        // Each chain starts 5 times a second and passes on each spike with probability 0.97.
        let (start, pass) = (5.0, 0.97);
        let mut embedded = vec![0.0; 64];
        for chain in &chains {
            for (k, &n) in chain.iter().enumerate() {
                embedded[n as usize] += start * f64::powi(pass, k as i32);
            }
        }
        let gap =
            |rate: f64, rng: &mut ChaCha8Rng| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
        let mut pairs: Vec<(i64, u32)> = Vec::new();
        for n in 0..64_u32 {
            let rate = self.rate - embedded[n as usize];
            let mut t = gap(rate, &mut rng);
            while t < self.seconds {
                pairs.push(((t * PER_SECOND) as i64, n));
                t += gap(rate, &mut rng);
            }
        }
        for chain in &chains {
            let mut begin = gap(start, &mut rng);
            while begin < self.seconds {
                let mut t = begin;
                for &n in chain {
                    pairs.push(((t * PER_SECOND) as i64, n));
                    if !rng.random_bool(pass) {
                        break;
                    }
                    t += rng.random_range(0.0042..0.0058);
                }
                begin += gap(start, &mut rng);
            }
        }
        pairs.sort_unstable();
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
        Events::new(alphabet(64), &ticks, &symbols).unwrap()
    }
}

fn alphabet(symbols: usize) -> Alphabet {
    let labels = (0..symbols).map(|i| format!("n{i}")).collect();
    Alphabet::new(labels, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

fn interval(low: f64, high: f64) -> Interval {
    Interval::from_seconds(low, high, Clock::from_tick_seconds(1e-12).unwrap()).unwrap()
}

/// The four embedded chains and random ones: `count` episodes of `size` symbols.
fn episodes(count: usize, size: usize) -> Vec<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(30);
    let edge = interval(0.004, 0.006);
    let mut list = chains();
    while list.len() < count {
        list.push((0..size.max(9)).map(|_| rng.random_range(0..64)).collect());
    }
    list.truncate(count);
    list.into_iter()
        .map(|mut symbols| {
            symbols.truncate(size);
            Pattern::uniform(symbols, edge).unwrap()
        })
        .collect()
}

/// The fastest of a few runs, and the counts.
fn time(device: &Device, name: &str, threads: usize, job: &CountJob<'_>) -> (Duration, Vec<u64>) {
    let strategy = strategy_on(name, device).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let mut best = Duration::MAX;
    let mut counts = Vec::new();
    let begun = Instant::now();
    for _ in 0..5 {
        let start = Instant::now();
        counts = pool.install(|| strategy.count(job)).unwrap();
        best = best.min(start.elapsed());
        if begun.elapsed() > Duration::from_millis(600) {
            break;
        }
    }
    (best, counts)
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms >= 100.0 {
        format!("{ms:.0}")
    } else if ms >= 10.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.2}")
    }
}

/// Strategies in the tables, and on how many threads each runs.
fn wanted_strategies(options: &Options) -> Vec<(&'static str, usize)> {
    let mut list = Vec::new();
    for strategy in strategies() {
        let name = strategy.name();
        if options.only.as_deref().is_none_or(|only| only == name) {
            let threads = if name == "serial" { 1 } else { options.threads };
            list.push((name, threads));
        }
    }
    list
}

/// The papers' sets: 64 neurons; `seconds` long.
fn dataset(seconds: f64, rate: f64) -> Events {
    Network {
        seconds,
        rate,
        seed: 1,
    }
    .events()
}

/// Thirty nine-node episodes on 12.8 M events.
fn thirty(options: &Options) {
    let events = dataset(4000.0, 50.0);
    let patterns = episodes(30, 9);
    println!("## 30 nine-node episodes, {} events\n", events.len());
    println!("| strategy | threads | ms | `serial` / this |\n|---|---|---|---|");
    let job = CountJob::new(&events, &patterns);
    let (serial, expected) = time(&options.device, "serial", 1, &job);
    println!("| serial | 1 | {} | 1 |", milliseconds(serial));
    for (name, threads) in wanted_strategies(options) {
        if name == "serial" {
            continue;
        }
        for threads in [1, threads] {
            let (took, counts) = time(&options.device, name, threads, &job);
            assert_eq!(counts, expected, "{name}");
            println!(
                "| {name} | {threads} | {} | {:.1} |",
                milliseconds(took),
                serial.as_secs_f64() / took.as_secs_f64()
            );
        }
    }
    println!("\nCounts: {expected:?}\n");
}

/// Time against number of events: the papers' data sets 8 to 1, thirty episodes, and one.
fn by_events(options: &Options) {
    let seconds = [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 4000.0];
    for count in [30, 1] {
        println!("## {count} nine-node episodes against the number of events (ms)\n");
        let names = wanted_strategies(options);
        print!("| data set | events |");
        names.iter().for_each(|(n, t)| print!(" {n} ({t}) |"));
        println!("\n|---|---|{}", "---|".repeat(names.len()));
        for (i, &seconds) in seconds.iter().enumerate() {
            let events = dataset(seconds, 50.0);
            let patterns = episodes(count, 9);
            print!("| {} | {} |", 8 - i, events.len());
            for &(name, threads) in &names {
                let (took, _) = time(
                    &options.device,
                    name,
                    threads,
                    &CountJob::new(&events, &patterns),
                );
                print!(" {} |", milliseconds(took));
            }
            println!();
        }
        println!();
    }
}

/// Time against episode length, on data set 1: the first of the embedded chains.
fn by_length(options: &Options) {
    let events = dataset(4000.0, 50.0);
    println!(
        "## One episode against its length, {} events (ms)\n",
        events.len()
    );
    let names = wanted_strategies(options);
    print!("| symbols | count |");
    names.iter().for_each(|(n, t)| print!(" {n} ({t}) |"));
    println!("\n|---|---|{}", "---|".repeat(names.len()));
    for size in 1..=9 {
        let patterns = episodes(1, size);
        let mut row = String::new();
        let mut count = 0;
        for &(name, threads) in &names {
            let (took, counts) = time(
                &options.device,
                name,
                threads,
                &CountJob::new(&events, &patterns),
            );
            count = counts[0];
            row += &format!(" {} |", milliseconds(took));
        }
        println!("| {size} | {count} |{row}");
    }
    println!();
}

/// A culture of 58 channels for 910 s that bursts every ten seconds or so: about 500,000 events.
fn culture() -> Events {
    let mut rng = ChaCha8Rng::seed_from_u64(28);
    let mut gap = |rate: f64| -> f64 { -(1.0 - rng.random::<f64>()).ln() / rate };
    let mut pairs: Vec<(i64, u32)> = Vec::new();
    for n in 0..58 {
        let mut t = gap(2.2);
        while t < 910.0 {
            pairs.push(((t * PER_SECOND) as i64, n));
            t += gap(2.2);
        }
    }
    let mut burst = gap(0.1);
    while burst < 900.0 {
        for n in 0..58 {
            // Each channel joins a little later than the last, and fires ever more slowly.
            let mut t = 0.002 * f64::from(n);
            while t < 1.5 {
                t += gap(200.0 * (-t / 0.45).exp());
                if t < 1.5 {
                    pairs.push((((burst + t) * PER_SECOND) as i64, n));
                }
            }
        }
        burst += gap(0.1);
    }
    pairs.sort_unstable();
    let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    Events::new(alphabet(58), &ticks, &symbols).unwrap()
}

/// All joins of the frequent episodes of one size, in the order of their prefixes.
fn joins(frequent: &[Pattern]) -> Vec<Pattern> {
    let mut by_prefix: HashMap<Option<Pattern>, Vec<&Pattern>> = HashMap::new();
    for tail in frequent {
        by_prefix.entry(tail.without_last()).or_default().push(tail);
    }
    let mut list = Vec::new();
    for head in frequent {
        for tail in by_prefix.get(&head.without_first()).into_iter().flatten() {
            let mut symbols = head.symbols().to_vec();
            let mut intervals = head.intervals().to_vec();
            symbols.extend(tail.symbols().last());
            intervals.extend(tail.intervals().last());
            list.push(Pattern::new(symbols, intervals).unwrap());
        }
    }
    list
}

/// 43,656 four-node candidates on a culture-like set.
fn candidates(options: &Options) {
    const WANTED: usize = 43_656;
    let events = culture();
    let intervals = [(0.0, 0.005), (0.005, 0.01), (0.01, 0.015)];
    let intervals: Vec<Interval> = intervals.iter().map(|&(l, h)| interval(l, h)).collect();
    // The joins of the strongest pairs, as many of those as it takes; and the threshold that leaves
    // 22 candidates, as in Feng et al., Fig. 1.9 (43,634 of 43,656 eliminated).
    let mut options_of_pairs = MineOptions::new(intervals, 1);
    options_of_pairs.max_size = Some(2);
    let mut pairs = mine(&events, &options_of_pairs, &()).unwrap().episodes;
    pairs.retain(|e| e.pattern.size() == 2);
    pairs.sort_by_key(|e| std::cmp::Reverse(e.count));
    let mut patterns = Vec::new();
    for strongest in (50..=pairs.len()).step_by(10) {
        let mut strong: Vec<Pattern> = pairs[..strongest]
            .iter()
            .map(|e| e.pattern.clone())
            .collect();
        strong.sort_by(|a, b| a.prefix_key().cmp(b.prefix_key()));
        patterns = joins(&joins(&strong));
        if patterns.len() >= WANTED {
            break;
        }
    }
    patterns.truncate(WANTED);
    let mut counts = count(&events, &patterns).unwrap();
    counts.sort_unstable();
    let threshold = counts[counts.len() - 22];
    println!(
        "## {} four-node candidates, {} events, threshold {threshold}\n",
        patterns.len(),
        events.len()
    );
    println!(
        "| strategy | threads | candidates timed | s for all | frequent |\n|---|---|---|---|---|"
    );
    for (name, threads) in wanted_strategies(options) {
        // The slow ones on an even sample, scaled up.
        let every = match name {
            "latest-start" => 1,
            "map-concat" => 1024,
            _ => 64,
        };
        let sample: Vec<Pattern> = patterns.iter().step_by(every).cloned().collect();
        let mut job = CountJob::new(&events, &sample);
        job.threshold = Some(threshold);
        let (took, counts) = time(&options.device, name, threads, &job);
        let frequent = counts.iter().filter(|&&c| c >= threshold).count();
        let all = took.as_secs_f64() * patterns.len() as f64 / sample.len() as f64;
        println!(
            "| {name} | {threads} | {} | {all:.2} | {frequent} |",
            sample.len()
        );
    }
    println!();
}

/// Everything frequent up to nine symbols on 12.8 M events.
fn levelwise(options: &Options) {
    let events = dataset(4000.0, 50.0);
    let intervals = [(0.002, 0.004), (0.004, 0.006), (0.006, 0.008)];
    let intervals = intervals.iter().map(|&(l, h)| interval(l, h)).collect();
    let threshold = events.len() as u64 / 1000;
    let mut wanted = MineOptions::new(intervals, threshold);
    wanted.max_size = Some(9);
    wanted.strategy = strategy_on("latest-start", &options.device).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build()
        .unwrap();
    let start = Instant::now();
    let mined = pool.install(|| mine(&events, &wanted, &())).unwrap();
    println!(
        "## Levelwise to size 9, {} events, threshold {threshold}, {} threads, {}: {:.2} s\n",
        events.len(),
        options.threads,
        options.device.name(),
        start.elapsed().as_secs_f64()
    );
    println!("| size | candidates | frequent | s |\n|---|---|---|---|");
    for level in &mined.levels {
        println!(
            "| {} | {} | {} | {:.3} |",
            level.size, level.candidates, level.frequent, level.seconds
        );
    }
    let chains: Vec<Pattern> = episodes(4, 9);
    let longest = mined.episodes.iter().filter(|e| e.pattern.size() == 9);
    let (hits, others): (Vec<_>, Vec<_>) = longest.partition(|e| chains.contains(&e.pattern));
    println!(
        "\nOf the 4 embedded chains {} were found; other episodes of nine: {}.\n",
        hits.len(),
        others.len()
    );
}

/// The median of `runs` runs after two more, and the last result.
fn median<T>(runs: usize, mut run: impl FnMut() -> T) -> (Duration, T) {
    run();
    let mut result = run();
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            result = run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[runs / 2], result)
}

/// Warm medians on a CUDA device: events there, events in host memory, and the CPU beside it.
fn on_device(options: &Options) {
    if options.device.is_cpu() {
        println!("## On a device\n\nskipped: needs `--device cuda`\n");
        return;
    }
    let events = dataset(4000.0, 50.0);
    println!(
        "## On {}, {} events (median ms)\n",
        options.device.name(),
        events.len()
    );
    println!(
        "| episodes | symbols | events there | from host memory | CPU, {} threads | CPU, 1 thread |",
        options.threads
    );
    println!("|---|---|---|---|---|---|");
    let there = strategy_on("latest-start", &options.device).unwrap();
    let pool = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap()
    };
    let (all, one) = (pool(options.threads), pool(1));
    for (number, size) in [(30, 9), (1, 9), (30, 4), (1, 2), (1, 1), (64 * 63, 4)] {
        let patterns = episodes(number, size);
        let job = CountJob::new(&events, &patterns);
        let (resident, counts) = all.install(|| median(21, || there.count(&job).unwrap()));
        let (host, again) = all.install(|| median(11, || count_on(&options.device, &job).unwrap()));
        let cpu_runs = if number > 30 { 1 } else { 5 };
        let (cpu, expected) =
            all.install(|| median(cpu_runs, || count(&events, &patterns).unwrap()));
        let (core, _) = if number > 30 {
            (Duration::ZERO, Vec::new())
        } else {
            one.install(|| median(3, || count(&events, &patterns).unwrap()))
        };
        assert_eq!(counts, expected);
        assert_eq!(again, expected);
        println!(
            "| {number} | {size} | {} | {} | {} | {} |",
            milliseconds(resident),
            milliseconds(host),
            milliseconds(cpu),
            milliseconds(core)
        );
        if let (Some(folder), (30, 9)) = (&options.save, (number, size)) {
            save(folder, &events, &patterns, &counts);
        }
    }
    println!();
}

/// Leaves events and nine-node episodes as raw 64-bit integers.
fn save(folder: &str, events: &Events, patterns: &[Pattern], counts: &[u64]) {
    let write = |name: &str, values: &mut dyn Iterator<Item = i64>| {
        let bytes: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
        std::fs::write(std::path::Path::new(folder).join(name), bytes).unwrap();
    };
    let (offsets, ticks) = events.index();
    write("offsets.i64", &mut offsets.iter().map(|&o| o as i64));
    write("ticks.i64", &mut ticks.iter().copied());
    let rows = patterns.iter().flat_map(|p| p.symbols().iter());
    write("symbols.i64", &mut rows.map(|&s| i64::from(s)));
    let edge = patterns[0].intervals()[0];
    write("interval.i64", &mut [edge.low, edge.high].into_iter());
    write("counts.i64", &mut counts.iter().map(|&c| c as i64));
}

/// Reading a text file of 12.8 M lines.
fn reading() {
    use std::io::Write;
    let events = dataset(4000.0, 50.0);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut text = std::io::BufWriter::new(&mut file);
    for (tick, symbol) in events.iter() {
        writeln!(text, "n{symbol},{}", tick as f64 / PER_SECOND).unwrap();
    }
    drop(text);
    let start = Instant::now();
    let read = Events::read_csv(file.path(), Order::Required).unwrap();
    println!(
        "## Reading `label,seconds`\n\n{} lines, {:.0} MB: {:.2} s\n",
        read.len(),
        file.path().metadata().unwrap().len() as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    assert_eq!(read.len(), events.len());
}

/// The command line.
struct Options {
    threads: usize,
    /// Only this strategy, beside `serial` where the table needs it.
    only: Option<String>,
    device: Device,
    /// Where `device` leaves its data.
    save: Option<String>,
}

fn main() {
    let mut sections: Vec<String> = Vec::new();
    let mut options = Options {
        threads: 2,
        only: None,
        device: Device::cpu(),
        save: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => options.threads = arguments.next().unwrap().parse().unwrap(),
            "--strategy" => options.only = arguments.next(),
            "--device" => {
                let spec = arguments.next().unwrap().parse().unwrap();
                options.device = Device::open(spec).unwrap();
            }
            "--save" => options.save = arguments.next(),
            "--bench" => {}
            name => sections.push(name.to_owned()),
        }
    }
    let wanted = |name: &str| sections.is_empty() || sections.iter().any(|s| s == name);
    if wanted("thirty") {
        thirty(&options);
    }
    if wanted("events") {
        by_events(&options);
    }
    if wanted("length") {
        by_length(&options);
    }
    if wanted("candidates") {
        candidates(&options);
    }
    if wanted("levelwise") {
        levelwise(&options);
    }
    if wanted("device") {
        on_device(&options);
    }
    if wanted("reading") {
        reading();
    }
}
