//! What counting costs by so many processes, before all of it is counted: from the recording's size and a sample of it.

use std::time::Instant;

use betz_base::error::Result;
use betz_base::team::share;

use super::over_time::AT_ONCE;
use super::{CountJob, LatestStart, LongEvents, Strategy};
use crate::Pattern;
use crate::mine::{BATCH, BYTES_A_CANDIDATE};
use crate::significance::Surrogate;

/// Candidates that a sample is counted for.
const SAMPLED: usize = 4096;

/// Bytes that an exchange sends at once.
const BLOCK: f64 = 8e6;

/// Words that a process says of one episode: a length, and two steps of three.
const WORDS: f64 = 7.0;

/// Seconds that the first process takes to put one of them after the one before.
const PUT: f64 = 2e-8;

/// Bytes of an event in memory, as it is read and indexed.
const HELD: f64 = 40.0;

/// Processes, and what is between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Processes, each on as many threads as this one has.
    pub ranks: usize,
    /// Bytes a second from one to another.
    pub link: f64,
    /// Seconds until what is sent begins to come.
    pub latency: f64,
}

impl Cluster {
    /// Steps from one process to all.
    fn levels(&self) -> f64 {
        f64::from(self.ranks.max(1).next_power_of_two().ilog2())
    }

    /// Seconds until everyone has `bytes` that are spread over all.
    fn gather(&self, bytes: f64) -> f64 {
        let ranks = self.ranks.max(1) as f64;
        self.levels() * ((1.0 + ranks) * self.latency + bytes / self.link)
    }

    /// Seconds until everyone has the sums of `bytes` that each has.
    fn sums(&self, bytes: f64) -> f64 {
        let blocks = (bytes / BLOCK).ceil();
        2.0 * self.levels() * (bytes / self.link + blocks * self.latency)
    }
}

/// What is to be counted, and what a part of it took here.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Events of the recording.
    pub events: f64,
    /// Candidates of each size that is looked at, the shortest first.
    pub candidates: Vec<usize>,
    /// Surrogates of the last size's.
    pub surrogates: usize,
    /// Bytes of a stretch; `None` where every process holds all events and counts a share of the candidates.
    pub memory: Option<u64>,
    /// Threads of a process.
    pub threads: usize,
    /// Seconds of opening the recording, which every process does.
    pub open_seconds: f64,
    /// Seconds of reading and indexing one event.
    pub read_seconds: f64,
    /// Seconds of counting one candidate, for each event of the recording, on one thread.
    pub count_seconds: f64,
    /// Seconds of making one event of a surrogate.
    pub make_seconds: f64,
}

/// Where the seconds of one process go.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share {
    /// Opening, reading and indexing.
    pub read: f64,
    /// Counting candidates.
    pub count: f64,
    /// Surrogates, made and counted.
    pub surrogates: f64,
    /// Between processes.
    pub exchange: f64,
}

impl Share {
    /// All of them.
    pub fn seconds(&self) -> f64 {
        self.read + self.count + self.surrogates + self.exchange
    }
}

impl Growth {
    /// Fills in what one event and one candidate take: reads the ticks `sample` of `long` and counts some of `patterns`,
    /// which are of the last size, there.
    ///
    /// # Errors
    /// What reading and counting say.
    pub fn measure(
        &mut self,
        long: &LongEvents,
        sample: (i64, i64),
        patterns: &[Pattern],
        surrogate: Option<Surrogate>,
    ) -> Result<()> {
        let started = Instant::now();
        let (Some(events), _) = long.events(sample.0, sample.0, sample.1)? else {
            return Ok(());
        };
        let number = events.len() as f64;
        self.read_seconds = started.elapsed().as_secs_f64() / number;
        let some = &patterns[..patterns.len().min(SAMPLED)];
        if !some.is_empty() {
            let started = Instant::now();
            LatestStart.count(&CountJob::new(&events, some))?;
            let seconds = started.elapsed().as_secs_f64() * self.threads as f64;
            self.count_seconds = seconds / (number * some.len() as f64);
        }
        if let Some(surrogate) = surrogate {
            let started = Instant::now();
            surrogate.make(&events, 1, 0)?;
            self.make_seconds = started.elapsed().as_secs_f64() / number;
        }
        Ok(())
    }

    /// The seconds of the rank that has most to do.
    pub fn share(&self, cluster: &Cluster) -> Share {
        let (ranks, threads) = (cluster.ranks.max(1), self.threads.max(1) as f64);
        let longest = |count: usize| {
            let lengths = (0..ranks).map(|rank| share(count, rank, ranks).len());
            lengths.max().unwrap_or(0) as f64
        };
        let reading = self.events * self.read_seconds;
        let one = self.events * self.count_seconds / threads;
        let mut all = Share {
            read: self.open_seconds,
            ..Share::default()
        };
        if self.memory.is_none() {
            all.read += reading;
        }
        for &candidates in self.candidates.iter().filter(|c| **c > 0) {
            let passes = candidates.div_ceil(BATCH) as f64;
            let answers = candidates as f64 * 8.0;
            match self.memory {
                None => {
                    all.count += longest(candidates) * one;
                    all.exchange += cluster.gather(answers) + (passes - 1.0) * cluster.gather(0.0);
                }
                Some(_) => {
                    all.read += passes * reading / ranks as f64;
                    all.count += candidates as f64 * one / ranks as f64;
                    if ranks > 1 {
                        let others = ranks as f64 - 1.0;
                        let turns = (candidates * ranks).div_ceil(AT_ONCE).max(1) as f64;
                        let said = others * candidates as f64 * WORDS * 8.0;
                        all.exchange += said / cluster.link
                            + candidates as f64 * ranks as f64 * PUT
                            + turns * (others * cluster.latency + cluster.gather(0.0))
                            + cluster.gather(answers);
                    }
                }
            }
        }
        if let Some(&tested) = self.candidates.last()
            && self.surrogates > 0
            && tested > 0
        {
            let each = self.events * self.make_seconds + tested as f64 * one * threads;
            all.surrogates = (longest(self.surrogates) / threads).ceil() * each;
            all.exchange += cluster.sums(tested as f64 * 48.0);
        }
        if ranks == 1 {
            all.exchange = 0.0;
        }
        all
    }

    /// Bytes of one rank: its events, a batch of candidates, and for the first what all say of one.
    pub fn bytes(&self) -> f64 {
        let most = self.candidates.iter().copied().max().unwrap_or(0);
        let batch = most.min(BATCH) as f64 * BYTES_A_CANDIDATE as f64;
        let held = self.events * HELD;
        match self.memory {
            Some(memory) => (memory as f64).min(held) + batch + AT_ONCE as f64 * WORDS * 8.0,
            // A surrogate is as large, and every thread has one.
            None if self.surrogates > 0 => held * (1.0 + self.threads as f64) + batch,
            None => held + batch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(memory: Option<u64>) -> Growth {
        Growth {
            events: 1e8,
            candidates: vec![100, 10_000],
            surrogates: if memory.is_none() { 99 } else { 0 },
            memory,
            threads: 1,
            open_seconds: 0.5,
            read_seconds: 4e-8,
            count_seconds: 1e-11,
            make_seconds: 1e-7,
        }
    }

    fn by(ranks: usize) -> Cluster {
        Cluster {
            ranks,
            link: 1e9,
            latency: 2e-5,
        }
    }

    #[test]
    fn one_rank_takes_what_its_parts_take() {
        let one = growth(None).share(&by(1));
        assert!((one.read - 4.5).abs() < 1e-9, "{one:?}");
        assert!((one.count - 10.1).abs() < 1e-9, "{one:?}");
        assert!(
            (one.surrogates - 99.0 * (10.0 + 10.0)).abs() < 1e-6,
            "{one:?}"
        );
        assert_eq!(one.exchange, 0.0);
        // Read once for each size.
        let long = growth(Some(1 << 30)).share(&by(1));
        assert!((long.read - 8.5).abs() < 1e-9, "{long:?}");
        assert!((long.count - 10.1).abs() < 1e-9 && long.exchange == 0.0);
    }

    #[test]
    fn more_ranks_share_what_is_shared_and_nothing_else() {
        let (held, long) = (growth(None), growth(Some(1 << 30)));
        for ranks in [2, 4, 16, 64, 1024] {
            let share = held.share(&by(ranks));
            assert_eq!(share.read, 4.5);
            assert!(share.count >= 10.1 / ranks as f64);
            let least = 99_usize.div_ceil(ranks) as f64 * 20.0;
            assert!((share.surrogates - least).abs() < 1e-6);
            let share = long.share(&by(ranks));
            assert!((share.read - 0.5 - 8.0 / ranks as f64).abs() < 1e-9);
            assert!((share.count - 10.1 / ranks as f64).abs() < 1e-9);
            assert!(share.exchange > 0.0);
        }
        // The first rank hears all others: that grows with them.
        assert!(long.share(&by(1024)).exchange > 100.0 * long.share(&by(4)).exchange);
        assert!(held.share(&by(1024)).exchange < long.share(&by(1024)).exchange);
    }
}
