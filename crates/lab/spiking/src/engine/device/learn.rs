//! Synapses that learn, on a device: made on the host, changed by `kernels/spiking_learn.cuh`.

use betz_base::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::spiking::{self, SpikingLearnAdvance};
use betz_kernels::{Blocks, LearnRule};
use rayon::prelude::*;

use super::super::learn::{Dopamine, Rates, Synapse};
use super::job::Job;
use crate::connect::{Edge, Wiring, synapse_hash};
use crate::plan::Plan;
use crate::plasticity::Dependence;
use crate::spec::{ListedSynapse, Network};

/// Sources whose rows one task makes.
const SOURCES: u32 = 256;
/// Numbers of a synapse: weight, r, the step of both, rule and place.
const NUMBERS: usize = 4;
/// Numbers of a synapse that triplets and rewards have besides.
const MORE: usize = 2;

/// Facts about a network's synapses that learn.
#[derive(Debug, Default)]
pub(super) struct LearningSums {
    pub(super) synapses: u64,
    /// Part of the hash of all synapses.
    pub(super) hash: u64,
    /// Largest weights onto each (receptor, neuron), in units.
    pub(super) sums: Vec<u64>,
    /// Synapses of each source.
    pub(super) degrees: Vec<u32>,
}

/// Synapses that learn; none of networks that do not.
#[derive(Debug)]
pub(super) struct Learners {
    pub(super) rules: Buffer<LearnRule>,
    pub(super) rows: Buffer<u32>,
    pub(super) delays: Buffer<u32>,
    pub(super) synapses: Buffer<f32>,
    pub(super) more: Buffer<f32>,
    pub(super) onto_offsets: Buffer<u32>,
    pub(super) onto: Buffer<u32>,
    pub(super) traces: Buffer<f32>,
    pub(super) fired: Buffer<u32>,
    pub(super) history: Buffer<u32>,
    pub(super) shape: LearningShape,
    rates: Vec<Rates>,
    dopamine: Vec<Dopamine>,
    /// Row of each (source, delay), and the delays.
    host_rows: Vec<u32>,
    host_delays: Vec<u32>,
    neurons: usize,
}

/// Numbers of a launch of synapses that learn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LearningShape {
    pub(super) rule_count: u32,
    pub(super) delay_count: u32,
    /// Slots of past spikes, a power of two beyond the longest delay.
    pub(super) slots: u32,
    pub(super) unit: f32,
    /// Threads that share a row.
    pub(super) team: u32,
    pub(super) count: u32,
}

/// A synapse while the rows are made.
#[derive(Debug, Clone, Copy)]
struct NewSynapse {
    source: u32,
    delay: u8,
    /// Rule and place.
    key: u32,
    weight: f32,
}

/// Bytes of the host's memory that a synapse that learns takes while a device's are made: as it is drawn, all together, its
/// numbers, its place among those onto its target, its delay.
const HOST_BYTES: f64 = 56.0;

/// Refuses synapses that learn for which the host has less than `limit` bytes while they are made.
///
/// # Errors
/// `OutOfMemory` with both numbers.
pub(super) fn check_host(network: &Network, plan: &Plan, limit: Option<u64>) -> Result<()> {
    let needed = (learning_synapses(network, plan) * HOST_BYTES) as u64;
    match limit {
        Some(limit) if needed > limit => Err(Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "synapses that learn, while they are made for a device: expected {needed} bytes of the host's memory, got {limit}"
            ),
        )),
        _ => Ok(()),
    }
}

fn learning_synapses(network: &Network, plan: &Plan) -> f64 {
    let learns = |p: &usize| network.projections[*p].plasticity.is_some();
    (0..plan.each.len())
        .filter(learns)
        .map(|p| plan.each[p])
        .sum()
}

/// Bytes that a network's synapses that learn take on a device.
pub(super) fn learning_bytes(network: &Network, plan: &Plan) -> u64 {
    let rules = network.rules();
    if rules.is_empty() {
        return 0;
    }
    let synapses = learning_synapses(network, plan);
    let numbers = NUMBERS + 1 + if needs_more(&rules) { MORE } else { 0 };
    let delays = u64::from(plan.longest_delay - plan.shortest_delay + 1);
    let slots = u64::from((plan.longest_delay + 1).next_power_of_two());
    let per_neuron = delays + 2 * rules.len() as u64 + 2 + slots;
    (synapses * 4.0 * numbers as f64) as u64 + 4 * plan.neurons * per_neuron
}

fn needs_more(rules: &[crate::plasticity::Plasticity]) -> bool {
    rules
        .iter()
        .any(|r| r.triplet.is_some() || r.reward.is_some())
}

impl Learners {
    /// Makes a network's synapses that learn.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 2³² − 1; those of the device.
    pub(super) fn make(
        context: &Context,
        job: Job<'_>,
        plan: &Plan,
    ) -> Result<(Self, LearningSums)> {
        let network = job.network;
        let neurons = plan.neurons as usize;
        let rules = network.rules();
        let rates: Vec<Rates> = (rules.iter())
            .map(|rule| Rates::new(*rule, network.step_ms))
            .collect();
        let dopamine = vec![Dopamine::default(); rates.len()];
        let mut sums = LearningSums::default();
        let mut made = Vec::new();
        if !rules.is_empty() {
            sums.sums = vec![0; plan.receptors * neurons];
            sums.degrees = vec![0; neurons];
            made = make_synapses(job, plan, &rates, &mut sums)?;
        }
        let Ok(count) = u32::try_from(made.len()) else {
            return Err(Error::argument(format!(
                "expected at most {} synapses that learn on a device, got {}",
                u32::MAX,
                made.len()
            )));
        };
        made.par_sort_unstable_by_key(|s| (s.source, s.delay, s.key));
        let mut delays: Vec<u32> = made.iter().map(|s| u32::from(s.delay)).collect();
        delays.par_sort_unstable();
        delays.dedup();
        if delays.is_empty() && !rules.is_empty() {
            // The kernel looks at one delay at least.
            delays.push(1);
        }
        let (mut rows, mut place) = (vec![0u32; neurons * delays.len() + 1], [0usize; 256]);
        for (number, delay) in delays.iter().enumerate() {
            place[*delay as usize] = number;
        }
        for synapse in &made {
            rows[synapse.source as usize * delays.len() + place[usize::from(synapse.delay)] + 1] +=
                1;
        }
        add_up(&mut rows);
        let active = if rules.is_empty() { 1 } else { neurons };
        let (onto_offsets, onto) = list_by_target(&made, active);
        let numbers: Vec<f32> = (made.iter())
            .flat_map(|s| [s.weight, 0.0, 0.0, f32::from_bits(s.key)])
            .collect();
        let slots = delays.last().map_or(1, |d| (d + 1).next_power_of_two());
        let more = if needs_more(&rules) {
            MORE * made.len()
        } else {
            1
        };
        // Rows of one delay, half a synapse of which is a thread's.
        let sources = sums.degrees.iter().filter(|d| **d > 0).count();
        let length = made.len() / (sources * delays.len()).max(1);
        let learners = Self {
            rules: context.upload(&kernel_rules(&rates, &dopamine))?,
            rows: context.upload(&rows)?,
            delays: context.upload(&delays)?,
            synapses: context.upload(&numbers)?,
            more: context.zeros(more)?,
            onto_offsets: context.upload(&onto_offsets)?,
            onto: context.upload(&onto)?,
            traces: context.zeros(2 * active * rates.len().max(1))?,
            fired: context.zeros(active)?,
            history: context.zeros(slots as usize * (active + 1))?,
            shape: LearningShape {
                rule_count: rates.len() as u32,
                delay_count: delays.len() as u32,
                slots,
                unit: plan.weight_unit as f32,
                team: (length.next_power_of_two() as u32).clamp(1, spiking::SPREAD_THREADS),
                count,
            },
            rates,
            dopamine,
            host_rows: rows,
            host_delays: delays,
            neurons,
        };
        Ok((learners, sums))
    }

    /// Adds dopamine at `step`.
    pub(super) fn reward(&mut self, context: &Context, step: u64, amount: f32) -> Result<()> {
        if self.shape.count == 0 {
            return Ok(());
        }
        context
            .load::<SpikingLearnAdvance<'_>>(&["-fmad=false".to_owned()], 0)?
            .launch(
                blocks(self.shape.count),
                spiking::LEARN_THREADS,
                SpikingLearnAdvance {
                    rules: self.rules.read(),
                    step: step as u32,
                    count: self.shape.count,
                    synapses: self.synapses.update(),
                    more: self.more.update(),
                },
            )?;
        for (rates, dopamine) in self.rates.iter().zip(&mut self.dopamine) {
            rates.reward(dopamine, step, amount);
        }
        let rules = kernel_rules(&self.rates, &self.dopamine);
        context.upload_into(&rules, &mut self.rules, 0)
    }

    /// Synapses of a rule with their weights at `step`.
    pub(super) fn weights(
        &self,
        context: &Context,
        rule: u16,
        step: u64,
    ) -> Result<Vec<ListedSynapse>> {
        let count = self.shape.count as usize;
        let delays = self.host_delays.len();
        let rates = &self.rates[usize::from(rule)];
        if count == 0 {
            return Ok(Vec::new());
        }
        let numbers = context.download(&self.synapses, NUMBERS * count)?;
        let extra = rates.rule.triplet.is_some() || rates.rule.reward.is_some();
        let more = match extra {
            true => context.download(&self.more, MORE * count)?,
            false => Vec::new(),
        };
        let mut list = Vec::new();
        for (row, ends) in self.host_rows.windows(2).enumerate() {
            for number in ends[0] as usize..ends[1] as usize {
                let [weight, fast, seen, key] =
                    std::array::from_fn(|i| numbers[NUMBERS * number + i]);
                let key = key.to_bits();
                if key >> spiking::PLACE_BITS != u32::from(rule) {
                    continue;
                }
                let place = key & ((1 << spiking::PLACE_BITS) - 1);
                let lag = (step as u32).wrapping_sub(seen.to_bits());
                let mut synapse = Synapse {
                    place,
                    rule,
                    delay: self.host_delays[row % delays] as u8,
                    weight,
                    fast,
                    slow: if extra { more[MORE * number] } else { 0.0 },
                    eligibility: if extra { more[MORE * number + 1] } else { 0.0 },
                    seen: step - u64::from(lag),
                };
                rates.advance(&mut synapse, step, self.dopamine[usize::from(rule)]);
                list.push(ListedSynapse {
                    source: (row / delays) as u32,
                    target: place % self.neurons as u32,
                    weight: synapse.weight,
                    delay_steps: u32::from(synapse.delay),
                });
            }
        }
        Ok(list)
    }
}

/// All synapses that learn, in no order, and what they add to the facts about the network.
fn make_synapses(
    job: Job<'_>,
    plan: &Plan,
    rates: &[Rates],
    sums: &mut LearningSums,
) -> Result<Vec<NewSynapse>> {
    let Job {
        network, normal, ..
    } = job;
    let neurons = plan.neurons as usize;
    let unit = plan.weight_unit as f32;
    let mut all = Vec::new();
    let mut rule = 0u32;
    for (p, projection) in network.projections.iter().enumerate() {
        if projection.plasticity.is_none() {
            continue;
        }
        let wiring = Wiring::new(network, p, plan.weight_unit)?;
        let most = rates[rule as usize].most_units(unit);
        let starts: Vec<u32> = (0..wiring.sources).step_by(SOURCES as usize).collect();
        let batches: Vec<(Vec<NewSynapse>, u64)> = (starts.into_par_iter())
            .map(|start| {
                let (mut row, mut made, mut hash) = (Vec::<Edge>::new(), Vec::new(), 0u64);
                for own in start..start.saturating_add(SOURCES).min(wiring.sources) {
                    row.clear();
                    wiring.row(own, normal, &mut row);
                    let source = wiring.source_first + own;
                    for edge in &row {
                        hash = hash.wrapping_add(synapse_hash(source, edge));
                        let place = usize::from(edge.receptor) * neurons + edge.target as usize;
                        made.push(NewSynapse {
                            source,
                            delay: edge.delay,
                            key: rule << spiking::PLACE_BITS | place as u32,
                            weight: f32::from(edge.weight) * unit,
                        });
                    }
                }
                (made, hash)
            })
            .collect();
        for (made, hash) in batches {
            sums.hash = sums.hash.wrapping_add(hash);
            sums.synapses += made.len() as u64;
            for synapse in &made {
                sums.degrees[synapse.source as usize] += 1;
                sums.sums[(synapse.key & ((1 << spiking::PLACE_BITS) - 1)) as usize] += most;
            }
            all.extend(made);
        }
        rule += 1;
    }
    Ok(all)
}

/// Numbers of the synapses onto each neuron.
fn list_by_target(made: &[NewSynapse], neurons: usize) -> (Vec<u32>, Vec<u32>) {
    let target = |s: &NewSynapse| (s.key & ((1 << spiking::PLACE_BITS) - 1)) as usize % neurons;
    let mut offsets = vec![0u32; neurons + 1];
    for synapse in made {
        offsets[target(synapse) + 1] += 1;
    }
    add_up(&mut offsets);
    let (mut next, mut onto) = (offsets.clone(), vec![0u32; made.len()]);
    for (number, synapse) in (0u32..).zip(made) {
        let place = &mut next[target(synapse)];
        onto[*place as usize] = number;
        *place += 1;
    }
    (offsets, onto)
}

fn add_up(counts: &mut [u32]) {
    for i in 1..counts.len() {
        counts[i] += counts[i - 1];
    }
}

fn blocks(count: u32) -> Blocks {
    (count.div_ceil(spiking::LEARN_THREADS).clamp(1, 4096), 1, 1)
}

/// Rules as the kernels have them; one that is never used where there is none.
fn kernel_rules(rates: &[Rates], dopamine: &[Dopamine]) -> Vec<LearnRule> {
    let mut rules: Vec<LearnRule> = (rates.iter().zip(dopamine))
        .map(|(rates, dopamine)| {
            let rule = &rates.rule;
            let (triplet_plus, triplet_minus) = rates.triplets();
            LearnRule {
                plus: rates.plus,
                minus: rates.minus,
                x: rates.x,
                y: rates.y,
                eligibility: rates.eligibility,
                dopamine: rates.dopamine,
                seconds: rates.seconds,
                low: rule.low as f32,
                high: rule.high as f32,
                a_plus: rule.a_plus as f32,
                a_minus: rule.a_minus as f32,
                triplet_plus,
                triplet_minus,
                multiplicative: u32::from(rule.dependence == Dependence::Multiplicative),
                triplet: u32::from(rule.triplet.is_some()),
                reward: u32::from(rule.reward.is_some()),
                level: dopamine.level,
                at: dopamine.at as u32,
            }
        })
        .collect();
    if rules.is_empty() {
        rules.push(LearnRule::default());
    }
    rules
}
