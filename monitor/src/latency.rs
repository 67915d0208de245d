//! Time that steps take to compute: a histogram of every second of the last minute, and of the whole session, with exact
//! maxima. Pages that are opened later show the same seconds as those that were there.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::frame::{BUCKETS, latency_bucket};

/// Seconds that are kept.
const KEPT: usize = 60;

/// Steps of one second of the session's clock.
#[derive(Debug, Clone)]
struct Second {
    /// Its number on that clock.
    at: i64,
    counts: [u32; BUCKETS],
    longest_ns: u32,
}

/// Histograms of the time that steps take.
#[derive(Debug)]
pub(crate) struct LatencyHistory {
    seconds: VecDeque<Second>,
    all: [u64; BUCKETS],
    longest_ns: u32,
}

impl Default for LatencyHistory {
    fn default() -> Self {
        Self {
            seconds: VecDeque::new(),
            all: [0; BUCKETS],
            longest_ns: 0,
        }
    }
}

impl LatencyHistory {
    /// Counts a step of `nanoseconds` in second `at`. Where the session's clock goes back, the seconds after are no more.
    pub(crate) fn push(&mut self, at: i64, nanoseconds: u32) {
        while self.seconds.back().is_some_and(|newest| newest.at > at) {
            self.seconds.pop_back();
        }
        if self.seconds.back().is_none_or(|newest| newest.at < at) {
            self.seconds.push_back(Second {
                at,
                counts: [0; BUCKETS],
                longest_ns: 0,
            });
        }
        while (self.seconds.front()).is_some_and(|oldest| oldest.at <= at - KEPT as i64) {
            self.seconds.pop_front();
        }
        let bucket = latency_bucket(nanoseconds);
        if let Some(newest) = self.seconds.back_mut() {
            newest.counts[bucket] += 1;
            newest.longest_ns = newest.longest_ns.max(nanoseconds);
        }
        self.all[bucket] += 1;
        self.longest_ns = self.longest_ns.max(nanoseconds);
    }

    /// `{"seconds": [{"at", "counts", "longest_ns"}], "all", "longest_ns"}`: counts by bucket, without the zeros at the end.
    pub(crate) fn json(&self) -> Value {
        let seconds: Vec<Value> = (self.seconds.iter())
            .map(|s| json!({"at": s.at, "counts": counted(&s.counts), "longest_ns": s.longest_ns}))
            .collect();
        json!({"seconds": seconds, "all": counted(&self.all), "longest_ns": self.longest_ns})
    }
}

fn counted<T: Default + PartialEq>(counts: &[T]) -> &[T] {
    let end = counts.iter().rposition(|count| *count != T::default());
    &counts[..end.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second, its buckets that are not empty with their counts, and its longest step.
    type PlainSecond = (i64, Vec<(usize, u32)>, u32);

    /// The same by a loop over all steps.
    fn plain(steps: &[(i64, u32)], newest: i64) -> Vec<PlainSecond> {
        let mut all = Vec::new();
        for at in newest - 59..=newest {
            let mine: Vec<u32> = steps.iter().filter(|s| s.0 == at).map(|s| s.1).collect();
            if mine.is_empty() {
                continue;
            }
            let mut counts = Vec::new();
            for bucket in 0..BUCKETS {
                let n = mine.iter().filter(|&&ns| latency_bucket(ns) == bucket);
                counts.push((bucket, n.count() as u32));
            }
            counts.retain(|c| c.1 > 0);
            all.push((at, counts, mine.iter().copied().max().unwrap_or(0)));
        }
        all
    }

    #[test]
    fn every_second_of_the_last_minute_is_what_a_plain_loop_counts() {
        let mut latency = LatencyHistory::default();
        let mut steps = Vec::new();
        let mut state = 7_u64;
        for i in 0..9_000_i64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // From 64 ns to a second and a half.
            let ns = 64 << ((state >> 33) % 24) | (state >> 60) as u32;
            // A pause of 20 s in the middle.
            let at = i / 100 + if i > 5_000 { 20 } else { 0 };
            latency.push(at, ns);
            steps.push((at, ns));
        }
        let newest = steps[steps.len() - 1].0;
        let json = latency.json();
        let got: Vec<PlainSecond> = json["seconds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| {
                let counts = s["counts"].as_array().unwrap().iter().enumerate();
                let counts = counts.map(|(b, n)| (b, n.as_u64().unwrap() as u32));
                (
                    s["at"].as_i64().unwrap(),
                    counts.filter(|c| c.1 > 0).collect(),
                    s["longest_ns"].as_u64().unwrap() as u32,
                )
            })
            .collect();
        assert_eq!(got, plain(&steps, newest));
        let all: u64 = json["all"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .sum();
        assert_eq!(all, 9_000);
        let longest = steps.iter().map(|s| s.1).max();
        assert_eq!(json["longest_ns"].as_u64(), longest.map(u64::from));
    }

    #[test]
    fn a_clock_that_goes_back_takes_its_seconds_along() {
        let mut latency = LatencyHistory::default();
        for at in 0..10 {
            latency.push(at, 1_000);
        }
        latency.push(4, 2_000);
        let json = latency.json();
        let seconds = json["seconds"].as_array().unwrap();
        assert_eq!(seconds.len(), 5);
        assert_eq!(seconds[4]["longest_ns"], 2_000);
    }
}
