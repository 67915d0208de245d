//! Targets by source, for rules that do not go by source.

use betz_base::{Error, Result};
use rayon::prelude::*;

use crate::random::{Words, below};
use crate::spec::ListedSynapse;

/// Targets of each source, in the order they were drawn.
#[derive(Debug)]
pub(crate) struct Table {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    /// No pair twice.
    pub(crate) distinct: bool,
    /// Targets are numbers of neurons; otherwise of choices, with the source left out.
    pub(crate) whole: bool,
}

/// A vector of `n` zeros, or an error.
pub(crate) fn zeros<T: Clone + Default>(what: &str, n: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector
        .try_reserve_exact(n)
        .map_err(|_| Error::no_memory(what, n.saturating_mul(size_of::<T>())))?;
    vector.resize(n, T::default());
    Ok(vector)
}

impl Table {
    /// `draw` calls its argument with (source, target) of each of `total` synapses, twice the same.
    pub(crate) fn new(
        sources: u32,
        total: u64,
        draw: impl Fn(&mut dyn FnMut(u32, u32)),
    ) -> Result<Self> {
        let mut offsets: Vec<u64> = zeros("offsets of synapses", sources as usize + 1)?;
        let mut targets: Vec<u32> = zeros("targets of synapses", total as usize)?;
        draw(&mut |source, _| offsets[source as usize + 1] += 1);
        for i in 0..sources as usize {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        draw(&mut |source, target| {
            let next = &mut next[source as usize];
            targets[*next as usize] = target;
            *next += 1;
        });
        Ok(Self {
            offsets,
            targets,
            distinct: true,
            whole: false,
        })
    }

    pub(crate) fn whole_targets(mut self) -> Self {
        self.whole = true;
        // Targets ascend within a row: a pair that is there twice stands side by side.
        self.distinct = (0..self.offsets.len() - 1)
            .all(|s| self.row(s as u32).windows(2).all(|pair| pair[0] != pair[1]));
        self
    }

    pub(crate) fn row(&self, source: u32) -> &[u32] {
        let source = source as usize;
        &self.targets[self.offsets[source] as usize..self.offsets[source + 1] as usize]
    }

    pub(crate) fn degree(&self, source: u32) -> u64 {
        self.offsets[source as usize + 1] - self.offsets[source as usize]
    }
}

/// Refuses more synapses of one projection than are drawn by total number.
pub(crate) fn check_total(total: u64) -> Result<()> {
    if total > u64::from(u32::MAX) {
        return Err(Error::argument(format!(
            "expected at most {} synapses of a projection by total number, got {total}",
            u32::MAX
        )));
    }
    Ok(())
}

/// Number of synapses of each source, if each of `total` synapses draws its source.
pub(crate) fn out_degrees(
    words: Words,
    projection: u32,
    sources: u32,
    total: u64,
) -> Result<Vec<u32>> {
    check_total(total)?;
    let calls = total.div_ceil(4);
    let ranges = rayon::current_num_threads().max(1) as u64;
    let counted = (0..ranges).into_par_iter().map(|r| {
        let mut degrees: Vec<u32> = zeros("out-degrees", sources as usize)?;
        for call in calls * r / ranges..calls * (r + 1) / ranges {
            let drawn = words.at([call as u32, (call >> 32) as u32, projection], 0);
            for word in drawn.iter().take((total - 4 * call).min(4) as usize) {
                degrees[below(*word, sources) as usize] += 1;
            }
        }
        Ok(degrees)
    });
    counted.reduce(
        || Ok(Vec::new()),
        |a: Result<Vec<u32>>, b| {
            let (a, b) = (a?, b?);
            let (mut sum, other) = if a.len() >= b.len() { (a, b) } else { (b, a) };
            sum.iter_mut().zip(other).for_each(|(s, o)| *s += o);
            Ok(sum)
        },
    )
}

/// A list's synapses by source, in their order otherwise.
pub(crate) fn by_source(
    sources: u32,
    listed: &[ListedSynapse],
) -> Result<(Vec<u64>, Vec<ListedSynapse>)> {
    let mut offsets: Vec<u64> = zeros("offsets of synapses", sources as usize + 1)?;
    listed
        .iter()
        .for_each(|s| offsets[s.source as usize + 1] += 1);
    for i in 0..sources as usize {
        offsets[i + 1] += offsets[i];
    }
    let mut sorted = listed.to_vec();
    sorted.sort_by_key(|s| s.source);
    Ok((offsets, sorted))
}
