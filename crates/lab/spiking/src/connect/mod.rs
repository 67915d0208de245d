//! Synapses from a seed: who is connected with whom, and how strongly and how late.
//!
//! The row of a source, that is all its synapses, is a function of the network and the source: any
//! part of it can be made again anywhere, in any order. Where a rule is by target or by synapse
//! (a fixed in-degree, distinct pairs, a list), a table of targets by source is made first.

mod drawn;
pub mod file;
mod table;
mod unit;

pub(crate) use table::zeros;
pub use unit::RoundedWeights;
pub(crate) use unit::{rounded_weights, weight_unit};

use betz_base::Result;

use crate::model_population::receptor_named;
use crate::random::{
    NORMAL_LIMIT, Normal, Permutation, Purpose, Words, below, binomial_thresholds, mix, wide,
};
use crate::spec::{Draw, ListedSynapse, MAX_DELAY_STEPS, Network, Projection, Rule, Synapse};
use table::Table;

/// One synapse as it is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Neuron of the network.
    pub(crate) target: u32,
    /// Weight in units.
    pub(crate) weight: i16,
    /// Delay in steps.
    pub(crate) delay: u8,
    /// Receptor of the target.
    pub(crate) receptor: u8,
}

/// Rule by which a source's targets are found.
#[derive(Debug)]
enum Kind {
    Ring,
    All,
    OneToOne,
    /// Out-degrees of the sources.
    Total(Vec<u32>),
    Out(u32),
    OutDistinct(u32),
    Pairwise(Blocks),
    Table(Table),
    List {
        offsets: Vec<u64>,
        synapses: Vec<ListedSynapse>,
    },
}

/// Pairwise probability by blocks of targets: a binomial count per block, then so many distinct ones.
#[derive(Debug)]
struct Blocks {
    width: u32,
    whole: Vec<u64>,
    rest: Vec<u64>,
}

/// A projection, ready to give rows.
#[derive(Debug)]
pub(crate) struct Wiring {
    index: u32,
    seed: u64,
    kind: Kind,
    /// First neuron and number of the sources.
    pub(crate) source_first: u32,
    pub(crate) sources: u32,
    /// First neuron and number of the targets.
    pub(crate) target_first: u32,
    pub(crate) targets: u32,
    /// Targets cannot be their own source.
    skip_self: bool,
    weight: Strength,
    delay: Lateness,
    two_receptors: bool,
    /// The receptor of all synapses, where the weight's sign does not choose it.
    receptor: u8,
    unit: f64,
}

#[derive(Debug, Clone)]
enum Strength {
    Constant(i16),
    Normal {
        mean: f32,
        sd: f32,
        keep_sign: bool,
    },
    /// Another distribution, in units.
    Drawn(Draw),
}

#[derive(Debug, Clone)]
enum Lateness {
    Constant(u8),
    Normal {
        mean: f32,
        sd: f32,
    },
    /// Another distribution, in steps; drawn again until it is one at least.
    Drawn(Draw),
}

impl Wiring {
    /// Allocates the table where the rule needs one: four bytes per synapse.
    pub(crate) fn new(network: &Network, index: usize, unit: f64) -> Result<Self> {
        let mut wiring = Self::unprepared(network, index, unit)?;
        wiring.kind = wiring.prepare(&network.projections[index].rule)?;
        Ok(wiring)
    }

    /// All but what finds the targets.
    fn unprepared(network: &Network, index: usize, unit: f64) -> Result<Self> {
        let projection = &network.projections[index];
        let (source, target) = (
            network.population(&projection.source)?,
            network.population(&projection.target)?,
        );
        let firsts = network.firsts();
        let receptor =
            receptor_named(&network.populations[target], projection.receptor.as_deref())?;
        Ok(Self {
            index: index as u32,
            seed: network.seed,
            kind: Kind::All,
            source_first: firsts[source] as u32,
            sources: network.populations[source].neurons,
            target_first: firsts[target] as u32,
            targets: network.populations[target].neurons,
            skip_self: source == target && !projection.autapses,
            weight: strength(&projection.weight, unit),
            delay: lateness(projection, network),
            two_receptors: has_two_receptors(&network.populations[target].synapse),
            receptor: receptor.unwrap_or(0),
            unit,
        })
    }

    /// Targets that a source may choose from.
    fn choice(&self) -> u32 {
        self.targets - u32::from(self.skip_self)
    }

    fn prepare(&self, rule: &Rule) -> Result<Kind> {
        Ok(match rule {
            Rule::Ring => Kind::Ring,
            Rule::All => Kind::All,
            Rule::OneToOne => Kind::OneToOne,
            Rule::FixedTotal {
                count,
                distinct: false,
            } => Kind::Total(table::out_degrees(
                self.words(Purpose::Wiring),
                self.index,
                self.sources,
                *count,
            )?),
            Rule::FixedTotal {
                count,
                distinct: true,
            } => {
                let choice = u64::from(self.choice());
                let pairs = u64::from(self.sources) * choice;
                let permutation = Permutation::new(pairs, self.key(u64::MAX));
                Kind::Table(Table::new(self.sources, *count, |place| {
                    for k in 0..*count {
                        let pair = permutation.at(k);
                        place((pair / choice) as u32, (pair % choice) as u32);
                    }
                })?)
            }
            Rule::FixedIn { count, distinct } => self.fixed_in(*count, *distinct)?,
            Rule::FixedOut {
                count,
                distinct: false,
            } => Kind::Out(*count),
            Rule::FixedOut {
                count,
                distinct: true,
            } => Kind::OutDistinct(*count),
            Rule::Pairwise { probability } => {
                let choice = self.choice();
                // About four hits a block: short tables, few draws.
                let width = (4.0 / probability.max(1e-9)).clamp(16.0, 65_536.0) as u32;
                Kind::Pairwise(Blocks {
                    width,
                    whole: binomial(width, *probability),
                    rest: binomial(choice % width, *probability),
                })
            }
            Rule::List { synapses } => {
                let (offsets, synapses) = table::by_source(self.sources, synapses)?;
                Kind::List { offsets, synapses }
            }
        })
    }

    /// In-degrees are drawn by target, so the table's `target` may be any neuron; a source that
    /// would be the target itself is passed over.
    fn fixed_in(&self, count: u32, distinct: bool) -> Result<Kind> {
        let words = self.words(Purpose::Wiring);
        let choice = self.sources - u32::from(self.skip_self);
        let total = u64::from(self.targets) * u64::from(count);
        let table = Table::new(self.sources, total, |place| {
            for target in 0..self.targets {
                let shift = |s: u32| s + u32::from(self.skip_self && s >= target);
                if distinct {
                    let order = Permutation::new(u64::from(choice), self.key(u64::from(target)));
                    for k in 0..count {
                        place(shift(order.at(u64::from(k)) as u32), target);
                    }
                } else {
                    for k in (0..count).step_by(4) {
                        let drawn = words.at([target, k, self.index], 0);
                        for word in drawn.iter().take((count - k) as usize) {
                            place(shift(below(*word, choice)), target);
                        }
                    }
                }
            }
        })?;
        Ok(Kind::Table(table.whole_targets()))
    }

    fn words(&self, purpose: Purpose) -> Words {
        Words::new(self.seed, purpose)
    }

    /// A key for a permutation of this projection.
    fn key(&self, place: u64) -> u64 {
        mix(mix(self.seed ^ 0xC0FF_EE00) ^ mix(u64::from(self.index)) ^ mix(!place))
    }

    /// Delay of every synapse, where they have one and the same.
    pub(crate) fn constant_delay(&self) -> Option<u8> {
        match &self.delay {
            Lateness::Constant(d) if !matches!(self.kind, Kind::List { .. }) => Some(*d),
            _ => None,
        }
    }

    /// True if no pair of neurons has two synapses.
    pub(crate) fn pairs_once(&self) -> bool {
        match &self.kind {
            Kind::All | Kind::OutDistinct(_) | Kind::Pairwise(_) => true,
            Kind::Table(table) => table.distinct,
            _ => false,
        }
    }

    /// The receptor of every synapse, where they have one and the same.
    pub(crate) fn constant_receptor(&self) -> Option<u8> {
        match &self.weight {
            _ if !self.two_receptors => Some(self.receptor),
            Strength::Constant(w) => Some(u8::from(*w < 0)),
            Strength::Normal {
                mean, keep_sign, ..
            } if *keep_sign => Some(u8::from(*mean < 0.0)),
            Strength::Normal { .. } | Strength::Drawn(_) => None,
        }
    }

    fn receptor_of(&self, weight: i16) -> u8 {
        match self.two_receptors {
            true => u8::from(weight < 0),
            false => self.receptor,
        }
    }

    /// Synapses of one source, expected where the rule draws how many.
    pub(crate) fn expected_degree(&self, source: u32, probability: f64) -> f64 {
        match &self.kind {
            Kind::Ring | Kind::OneToOne => 1.0,
            Kind::All => f64::from(self.choice()),
            Kind::Total(degrees) => f64::from(degrees[source as usize]),
            Kind::Out(count) | Kind::OutDistinct(count) => f64::from(*count),
            Kind::Pairwise(_) => probability * f64::from(self.choice()),
            Kind::Table(table) => table.degree(source) as f64,
            Kind::List { offsets, .. } => {
                let source = source as usize;
                (offsets[source + 1] - offsets[source]) as f64
            }
        }
    }

    /// Appends the synapses of a source, counted within its population.
    pub(crate) fn row(&self, source: u32, normal: &Normal, row: &mut Vec<Edge>) {
        let words = self.words(Purpose::Synapse);
        let shift = |t: u32| t + u32::from(self.skip_self && t >= source);
        let fixed = |k: u32, target: u32, row: &mut Vec<Edge>| {
            row.push(self.edge(&words, k, source, target, normal));
        };
        match &self.kind {
            Kind::Ring => fixed(0, (source + 1) % self.targets, row),
            Kind::OneToOne => fixed(0, source, row),
            Kind::All => (0..self.choice()).for_each(|k| fixed(k, shift(k), row)),
            Kind::Total(degrees) => self.random(degrees[source as usize], source, normal, row),
            Kind::Out(count) => self.random(*count, source, normal, row),
            Kind::OutDistinct(count) => {
                let choice = u64::from(self.choice());
                let order = Permutation::new(choice, self.key(u64::from(source)));
                (0..*count).for_each(|k| fixed(k, shift(order.at(u64::from(k)) as u32), row));
            }
            Kind::Pairwise(blocks) => {
                let mut k = 0;
                self.pairwise(blocks, source, |target| {
                    fixed(k, shift(target), row);
                    k += 1;
                });
            }
            Kind::Table(table) => {
                for (k, &target) in (0..).zip(table.row(source)) {
                    let target = if table.whole { target } else { shift(target) };
                    fixed(k, target, row);
                }
            }
            Kind::List { offsets, synapses } => {
                let source = source as usize;
                let listed = &synapses[offsets[source] as usize..offsets[source + 1] as usize];
                row.extend(listed.iter().map(|s| {
                    let weight = (f64::from(s.weight) / self.unit).round_ties_even() as i16;
                    Edge {
                        target: self.target_first + s.target,
                        weight,
                        delay: s.delay_steps as u8,
                        receptor: self.receptor_of(weight),
                    }
                }));
            }
        }
    }

    /// `count` targets with repetition: one call of the generator a synapse.
    fn random(&self, count: u32, source: u32, normal: &Normal, row: &mut Vec<Edge>) {
        let words = self.words(Purpose::Synapse);
        let choice = self.choice();
        for k in 0..count {
            let drawn = words.at([k, source, self.index], 0);
            let target = below(drawn[0], choice);
            let target = target + u32::from(self.skip_self && target >= source);
            row.push(self.strengthen(&words, k, source, target, drawn, normal));
        }
    }

    fn pairwise(&self, blocks: &Blocks, source: u32, mut take: impl FnMut(u32)) {
        let words = self.words(Purpose::Wiring);
        for begin in (0..self.choice()).step_by(blocks.width as usize) {
            let width = blocks.width.min(self.choice() - begin);
            let table = match width == blocks.width {
                true => &blocks.whole,
                false => &blocks.rest,
            };
            let drawn = words.at([source, begin, self.index], 0);
            let word = wide(drawn[0], drawn[1]);
            let hits = table.partition_point(|t| *t <= word) as u64;
            if hits == u64::from(width) {
                (begin..begin + width).for_each(&mut take);
                continue;
            }
            let order = Permutation::new(u64::from(width), wide(drawn[2], drawn[3]) ^ self.seed);
            (0..hits).for_each(|k| take(begin + order.at(k) as u32));
        }
    }

    #[inline]
    fn edge(&self, words: &Words, k: u32, source: u32, target: u32, normal: &Normal) -> Edge {
        let constant = matches!(self.weight, Strength::Constant(_))
            && matches!(self.delay, Lateness::Constant(_));
        let drawn = match constant {
            true => [0; 4],
            false => words.at([k, source, self.index], 0),
        };
        self.strengthen(words, k, source, target, drawn, normal)
    }

    /// Weight from the second word, delay from the third; drawn again with the next ones until they
    /// are what they must be.
    #[inline(always)]
    fn strengthen(
        &self,
        words: &Words,
        k: u32,
        source: u32,
        target: u32,
        drawn: [u32; 4],
        normal: &Normal,
    ) -> Edge {
        let weight = match &self.weight {
            Strength::Constant(w) => *w,
            Strength::Normal {
                mean,
                sd,
                keep_sign,
            } => {
                let mut z = normal.quantile(drawn[1]);
                let mut again = 1;
                loop {
                    let w = sd.mul_add(z, *mean);
                    if !*keep_sign || w * *mean >= 0.0 {
                        break w.round_ties_even() as i16;
                    }
                    z = normal.quantile(words.at([k, source, self.index], again)[1]);
                    again += 1;
                }
            }
            Strength::Drawn(draw) => {
                let word = |again| words.at([k, source, self.index], again)[1];
                draw.sample(word, normal).round_ties_even() as i16
            }
        };
        let delay = match &self.delay {
            Lateness::Constant(d) => *d,
            Lateness::Normal { mean, sd } => {
                let mut z = normal.quantile(drawn[2]);
                let mut again = 1;
                loop {
                    let d = sd.mul_add(z, *mean).round_ties_even();
                    if d >= 1.0 {
                        break d.min(MAX_DELAY_STEPS as f32) as u8;
                    }
                    z = normal.quantile(words.at([k, source, self.index], again)[2]);
                    again += 1;
                }
            }
            Lateness::Drawn(draw) => {
                let word = |again| words.at([k, source, self.index], again)[2];
                let steps = draw.sample(word, normal).round_ties_even();
                steps.clamp(1.0, f64::from(MAX_DELAY_STEPS)) as u8
            }
        };
        Edge {
            target: self.target_first + target,
            weight,
            delay,
            receptor: self.receptor_of(weight),
        }
    }
}

/// True if the weight's sign chooses between two time constants.
pub(crate) fn has_two_receptors(synapse: &Synapse) -> bool {
    match *synapse {
        Synapse::Exponential {
            tau_ms,
            tau_inhibitory_ms,
            ..
        }
        | Synapse::Alpha {
            tau_ms,
            tau_inhibitory_ms,
            ..
        } => tau_inhibitory_ms.is_some_and(|other| other != tau_ms),
        _ => false,
    }
}

/// Synapses of a projection as they are simulated, by source; neurons are counted within their populations.
pub(crate) fn synapses(network: &Network, index: usize, unit: f64) -> Result<Vec<ListedSynapse>> {
    let wiring = Wiring::new(network, index, unit)?;
    let normal = Normal::new();
    let (mut list, mut row) = (Vec::new(), Vec::new());
    for source in 0..wiring.sources {
        row.clear();
        wiring.row(source, &normal, &mut row);
        list.extend(row.iter().map(|edge| ListedSynapse {
            source,
            target: edge.target - wiring.target_first,
            weight: (f64::from(edge.weight) * unit) as f32,
            delay_steps: u32::from(edge.delay),
        }));
    }
    Ok(list)
}

fn strength(weight: &Draw, unit: f64) -> Strength {
    match weight {
        Draw::Normal { mean, sd } if *sd > 0.0 => Strength::Normal {
            mean: (mean / unit) as f32,
            sd: (sd / unit) as f32,
            keep_sign: *mean != 0.0,
        },
        Draw::Constant(mean) | Draw::Normal { mean, .. } => {
            Strength::Constant((mean / unit).round_ties_even() as i16)
        }
        _ => Strength::Drawn(weight.scaled(1.0 / unit)),
    }
}

fn lateness(projection: &Projection, network: &Network) -> Lateness {
    let steps = |ms: f64| ms / network.step_ms;
    match &projection.delay_ms {
        Draw::Normal { mean, sd } if *sd > 0.0 => Lateness::Normal {
            mean: steps(*mean) as f32,
            sd: steps(*sd) as f32,
        },
        Draw::Constant(ms) | Draw::Normal { mean: ms, .. } => {
            Lateness::Constant(steps(*ms).round().clamp(1.0, 255.0) as u8)
        }
        _ => Lateness::Drawn(projection.delay_ms.scaled(1.0 / network.step_ms)),
    }
}

fn binomial(trials: u32, p: f64) -> Vec<u64> {
    match p {
        // Never beyond the first threshold, or beyond all of them.
        _ if trials == 0 || p == 0.0 => Vec::new(),
        _ if p == 1.0 => vec![0; trials as usize],
        _ => binomial_thresholds(trials, p),
    }
}

/// Smallest and largest delay in steps that a network's synapses can have; `None` without any.
pub(crate) fn delay_range(network: &Network) -> Option<(u32, u32)> {
    let mut range: Option<(u32, u32)> = None;
    let mut take = |low: u32, high: u32| {
        let (a, b) = range.unwrap_or((low, high));
        range = Some((a.min(low), b.max(high)));
    };
    for projection in &network.projections {
        if let Rule::List { synapses } = &projection.rule {
            synapses
                .iter()
                .for_each(|s| take(s.delay_steps, s.delay_steps));
            continue;
        }
        match lateness(projection, network) {
            Lateness::Constant(d) => take(u32::from(d), u32::from(d)),
            Lateness::Normal { mean, sd } => {
                let (mean, sd) = (f64::from(mean), f64::from(sd) * NORMAL_LIMIT);
                let low = (mean - sd).floor().max(1.0);
                take(low as u32, ((mean + sd).ceil() as u32).min(MAX_DELAY_STEPS));
            }
            Lateness::Drawn(draw) => {
                // Checked before.
                let (low, high) = draw.bounds().unwrap_or((1.0, f64::from(MAX_DELAY_STEPS)));
                let low = low.round().max(1.0) as u32;
                take(low, (high.ceil() as u32).clamp(low, MAX_DELAY_STEPS));
            }
        }
    }
    range
}

/// One synapse's addition to the hash of a network's synapses, which is a sum and so free of order.
#[inline(always)]
pub(crate) fn synapse_hash(source: u32, edge: &Edge) -> u64 {
    let ends = wide(edge.target, source);
    let strength = u64::from(edge.delay) << 16 | u64::from(edge.weight as u16);
    mix(mix(ends) ^ strength)
}
