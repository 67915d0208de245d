//! Counting and mining episodes, as tables: `cargo bench -p betz --bench episode -- [SECTION…]`.
//!
//! Sections: `thirty`, `events`, `length`, `candidates`, `levelwise`, `device`, `reading`; all when
//! none is named, and only when named `crossover` (a thread or several an episode, by their number)
//! and `large` (10⁸ events; 8 GB of memory). `--threads N` sets the threads of the parallel
//! strategies (default 2); `serial` runs on one core whatever the number. `--strategy NAME`
//! (repeatable) leaves the other strategies out. `candidates` times the slow strategies on a sample
//! unless `--full`. `--device cuda` runs the strategies on a CUDA device, with the events kept there;
//! `device` then has warm medians, from events there and from host memory. `--save FOLDER` makes it
//! leave its events, episodes and counts there for `benches/peers/episode_torch.py`.

#![allow(clippy::unwrap_used, missing_docs)]

mod data;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use betz::device::Device;
use betz::episode::count::{CountJob, InMemory, Strategy, count, latest_start_on};
use betz::episode::{Events, Interval, MineOptions, Order, Pattern, mine, mine_by};

use betz_episode_published::{strategies, strategy_on};
use data::{PER_SECOND, culture, dataset, episodes, interval, joins};

/// The fastest of a few runs, and the counts. On a device the first run, which copies the events and
/// compiles the kernels, is not timed.
fn time(device: &Device, name: &str, threads: usize, job: &CountJob<'_>) -> (Duration, Vec<u64>) {
    let strategy = strategy_on(name, device).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let mut best = Duration::MAX;
    let mut counts = Vec::new();
    if !device.is_cpu() {
        let first = &job.patterns[..1];
        let first = CountJob {
            patterns: first,
            ..*job
        };
        strategy.count(&first).unwrap();
        assert_eq!(strategy.ran().device, device.name());
    }
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
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            let on_one_core = name == "serial" && options.device.is_cpu();
            let threads = if on_one_core { 1 } else { options.threads };
            list.push((name, threads));
        }
    }
    list
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
        let on_cpu = options.device.is_cpu();
        let numbers = if on_cpu {
            vec![1, threads]
        } else {
            vec![threads]
        };
        for threads in numbers {
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

/// A table's cells with the milliseconds of each strategy, and the counts, which all strategies must agree on.
fn cells(
    options: &Options,
    names: &[(&'static str, usize)],
    events: &Events,
    patterns: &[Pattern],
) -> (String, Vec<u64>) {
    let expected = count(events, patterns).unwrap();
    let mut row = String::new();
    for &(name, threads) in names {
        let job = CountJob::new(events, patterns);
        let (took, counts) = time(&options.device, name, threads, &job);
        assert_eq!(counts, expected, "{name}");
        row += &format!(" {} |", milliseconds(took));
    }
    (row, expected)
}

/// Time against number of events: the papers' data sets 8 to 1, thirty episodes, and one.
fn by_events(options: &Options) {
    let seconds = [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 4000.0];
    for number in [30, 1] {
        println!("## {number} nine-node episodes against the number of events (ms)\n");
        let names = wanted_strategies(options);
        print!("| data set | events |");
        names.iter().for_each(|(n, t)| print!(" {n} ({t}) |"));
        println!("\n|---|---|{}", "---|".repeat(names.len()));
        for (i, &seconds) in seconds.iter().enumerate() {
            let events = dataset(seconds, 50.0);
            let patterns = episodes(number, 9);
            print!("| {} | {} |", 8 - i, events.len());
            println!("{}", cells(options, &names, &events, &patterns).0);
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
        let (row, counts) = cells(options, &names, &events, &patterns);
        println!("| {size} | {} |{row}", counts[0]);
    }
    println!();
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
            _ if options.full => 1,
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
            "| {name} | {threads} | {} | {all:.3} | {frequent} |",
            sample.len()
        );
    }
    println!();
}

/// A strategy that adds up how long it counts.
struct StrategyTimer {
    inner: Box<dyn Strategy>,
    spent: Arc<Mutex<HashMap<usize, Duration>>>,
}

impl Strategy for StrategyTimer {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn count(&self, job: &CountJob<'_>) -> betz::Result<Vec<u64>> {
        let start = Instant::now();
        let counts = self.inner.count(job);
        let size = job.patterns.first().map_or(0, Pattern::size);
        *self.spent.lock().unwrap().entry(size).or_default() += start.elapsed();
        counts
    }
}

/// Everything frequent up to nine symbols on 12.8 M events.
fn levelwise(options: &Options) {
    let events = dataset(4000.0, 50.0);
    let intervals = [(0.002, 0.004), (0.004, 0.006), (0.006, 0.008)];
    let intervals = intervals.iter().map(|&(l, h)| interval(l, h)).collect();
    let threshold = events.len() as u64 / 1000;
    let mut wanted = MineOptions::new(intervals, threshold);
    wanted.max_size = Some(9);
    let spent = Arc::new(Mutex::new(HashMap::new()));
    let timed = StrategyTimer {
        inner: latest_start_on(&options.device),
        spent: Arc::clone(&spent),
    };
    let counter = InMemory {
        events: &events,
        strategy: &timed,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build()
        .unwrap();
    let start = Instant::now();
    let mined = pool.install(|| mine_by(&counter, &wanted, &())).unwrap();
    println!(
        "## Levelwise to size 9, {} events, threshold {threshold}, {} threads, {}: {:.2} s\n",
        events.len(),
        options.threads,
        options.device.name(),
        start.elapsed().as_secs_f64()
    );
    println!("| size | candidates | frequent | s | of which counting |\n|---|---|---|---|---|");
    let spent = spent.lock().unwrap();
    for level in &mined.levels {
        let counting = spent.get(&level.size).map_or(0.0, Duration::as_secs_f64);
        println!(
            "| {} | {} | {} | {:.3} | {counting:.3} |",
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

/// Counts on a device from events in host memory.
fn from_host(device: &Device, job: &CountJob<'_>) -> Vec<u64> {
    latest_start_on(device).count(job).unwrap()
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
    let there = latest_start_on(&options.device);
    let pool = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap()
    };
    let (all, one) = (pool(options.threads), pool(1));
    for (number, size) in [(30, 9), (1, 9), (30, 4), (1, 2), (1, 1), (64 * 63, 4)] {
        let patterns = episodes(number, size);
        let job = CountJob::new(&events, &patterns);
        let (resident, counts) = all.install(|| median(21, || there.count(&job).unwrap()));
        let (host, again) = all.install(|| median(11, || from_host(&options.device, &job)));
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

/// A thread an episode against several, by the number of episodes: where `hybrid` should switch.
fn crossover(options: &Options) {
    let events = dataset(200.0, 50.0);
    println!(
        "## `serial` and `map-concat` by the number of episodes, {} events (ms)\n",
        events.len()
    );
    println!("| symbols | episodes | serial | map-concat |\n|---|---|---|---|");
    for size in [3, 4, 9] {
        for number in [30, 1_000, 4_000, 16_000, 64_000] {
            let patterns = episodes(number, size);
            let job = CountJob::new(&events, &patterns);
            let took = ["serial", "map-concat"]
                .map(|name| milliseconds(time(&options.device, name, options.threads, &job).0));
            println!("| {size} | {number} | {} | {} |", took[0], took[1]);
        }
    }
    println!();
}

/// Resident memory of this process in bytes; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Thirty episodes on 10⁸ events.
fn large(options: &Options) {
    let before = resident_bytes();
    let start = Instant::now();
    let events = dataset(31_270.0, 50.0);
    let each = |bytes: u64| bytes as f64 / events.len() as f64;
    println!(
        "## {} events\n\nGenerated and indexed in {:.1} s. Resident memory afterwards: {:.2} GB, {:.1} bytes an event \
         (time order {:.1}, index by symbol and tables by time the rest).\n",
        events.len(),
        start.elapsed().as_secs_f64(),
        (resident_bytes() - before) as f64 / 1e9,
        each(resident_bytes() - before),
        each(size_of_val(events.stream()) as u64),
    );
    println!("| episodes | symbols | strategy | device | ms |\n|---|---|---|---|---|");
    let cpu = Device::cpu();
    for (number, size) in [(30, 9), (1, 9)] {
        let patterns = episodes(number, size);
        let job = CountJob::new(&events, &patterns);
        let (took, expected) = time(&cpu, "latest-start", options.threads, &job);
        let threads = options.threads;
        println!(
            "| {number} | {size} | latest-start | cpu, {threads} threads | {} |",
            milliseconds(took)
        );
        if options.device.is_cpu() {
            continue;
        }
        let device = &options.device;
        for (name, _) in wanted_strategies(options) {
            let (took, counts) = time(device, name, threads, &job);
            assert_eq!(counts, expected, "{name}");
            println!(
                "| {number} | {size} | {name} | {} | {} |",
                device.name(),
                milliseconds(took)
            );
        }
        let (took, counts) = median(5, || from_host(device, &job));
        assert_eq!(counts, expected);
        println!(
            "| {number} | {size} | latest-start, from host memory | {} | {} |",
            device.name(),
            milliseconds(took)
        );
    }
    println!(
        "\nResident memory at the end: {:.2} GB\n",
        resident_bytes() as f64 / 1e9
    );
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
    /// Only these strategies, beside `serial` where the table needs it; all when empty.
    only: Vec<String>,
    /// All candidates for every strategy.
    full: bool,
    device: Device,
    /// Where `device` leaves its data.
    save: Option<String>,
}

fn main() {
    let mut sections: Vec<String> = Vec::new();
    let mut options = Options {
        threads: 2,
        only: Vec::new(),
        full: false,
        device: Device::cpu(),
        save: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => options.threads = arguments.next().unwrap().parse().unwrap(),
            "--strategy" => options.only.extend(arguments.next()),
            "--full" => options.full = true,
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
    // Long, or large: only on request.
    let named = |name: &str| sections.iter().any(|s| s == name);
    if named("crossover") {
        crossover(&options);
    }
    if named("large") {
        large(&options);
    }
    if wanted("reading") {
        reading();
    }
}
