//! A network on one thread or several: its parts, and the spikes they hand to each other and to other ranks.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use betz_base::team::Team;
use betz_base::{Progress, Result, progress};
use pulp::Arch;
use rayon::prelude::*;

use super::barrier::Barrier;
use super::build::{self, BuildReport};
use super::deliver::Deliver;
use super::learn::{LearnArrivals, LearnSpikes};
use super::part::{Part, Trace};
use super::ranks::{Block, Lists, Ranks};
use super::update::Update;
use super::{Machine, Options, Phases};
use crate::plan::{CHUNK, Layout, Plan, available_bytes};
use crate::random::Normal;
use crate::spec::{ListedSynapse, Network};

/// Blocks between two looks whether to go on.
const LOOK: u64 = 256;

/// State that all threads share.
struct ThreadContext<'a> {
    lists: &'a Lists,
    barrier: Barrier,
    /// Block at whose end all stop.
    last: AtomicU64,
    listener: &'a dyn Progress,
    begin: u64,
    end: u64,
    block: u64,
    recorded: usize,
    timed: bool,
    /// Other ranks run the network, too.
    ranked: bool,
}

/// Neurons shared between threads.
#[derive(Debug)]
pub(super) struct Threads {
    layout: Layout,
    parts: Vec<Part>,
    /// The other ranks, if a team runs the network.
    ranks: Option<Ranks>,
    /// Spikes by (step modulo their number, thread); a last list holds those of other ranks.
    lists: Vec<Vec<RwLock<Vec<u32>>>>,
    block: u64,
    built: BuildReport,
    recorded: usize,
    timed: bool,
    neurons: usize,
    /// Names of the populations.
    names: Vec<String>,
}

impl Threads {
    /// Refuses what does not fit, then builds.
    pub(super) fn build(
        network: &Network,
        plan: &Plan,
        options: &Options,
        team: Option<&'static dyn Team>,
        listener: &dyn Progress,
    ) -> Result<Self> {
        let (limit, recorded) = (options.memory_limit, options.record_spikes);
        let ranks = team
            .map(|team| Ranks::new(team, plan, limit, recorded))
            .transpose()?;
        let own = ranks.as_ref().map_or(0..plan.threads, Ranks::parts);
        if ranks.is_none()
            && let Some(limit) = options.memory_limit.or_else(available_bytes)
        {
            let recorded = 8 * options.record_spikes as u64 / 2;
            plan.fit(limit.saturating_sub(recorded.min(limit / 2)))?;
        }
        progress::check(listener, "building a network")?;
        let layout = Layout::new(network, plan.threads);
        let normal = Normal::new();
        let mut parts = (own.clone())
            .into_par_iter()
            .map(|thread| Part::new(network, plan, &layout, thread, &normal))
            .collect::<Result<Vec<_>>>()?;
        let place = build::Place {
            plan,
            layout: &layout,
            first: own.start,
        };
        let mut built = build::synapses(network, &place, &mut parts, &normal, listener)?;
        if let Some(ranks) = &ranks {
            built.largest_sum = ranks.largest(built.largest_sum)?;
        }
        for &neuron in &options.record_potentials {
            let (part, lane) = layout.place_of(u64::from(neuron));
            let rest = super::rest_of(network, neuron)?;
            let Some(part) = own.contains(&part).then(|| &mut parts[part - own.start]) else {
                continue;
            };
            part.traces.push(Trace {
                neuron,
                lane,
                rest,
                values: Vec::new(),
            });
        }
        // Lists of a block of steps, and of the block before it, which slower threads may still read.
        let kept = 2 * plan.shortest_delay as usize;
        let senders = own.len() + usize::from(ranks.is_some());
        let lists = (0..kept)
            .map(|_| (0..senders).map(|_| RwLock::default()).collect())
            .collect();
        Ok(Self {
            layout,
            parts,
            ranks,
            lists,
            block: u64::from(plan.shortest_delay),
            built,
            recorded: options.record_spikes,
            timed: options.time_phases,
            neurons: plan.neurons as usize,
            names: network.populations.iter().map(|p| p.name.clone()).collect(),
        })
    }
}

impl Threads {
    /// Its own part that has a neuron of the network, and the lane there; `None` of another rank's neuron.
    fn own_place(&self, neuron: u32) -> Option<(usize, usize)> {
        let (part, lane) = self.layout.place_of(u64::from(neuron));
        let first = self.ranks.as_ref().map_or(0, |r| r.parts().start);
        let part = part.checked_sub(first)?;
        (part < self.parts.len()).then_some((part, lane))
    }

    /// Refuses to go on where a potential is no number any more.
    fn check_potentials(&self) -> Result<()> {
        match self.parts.iter().filter_map(|part| part.lost).min() {
            Some((step, neuron)) => {
                let lost = step << 32 | u64::from(neuron);
                Err(super::lost_potential(
                    &self.names,
                    &self.layout.firsts,
                    lost,
                ))
            }
            None => Ok(()),
        }
    }
}

impl Machine for Threads {
    fn built(&self) -> BuildReport {
        self.built
    }

    fn threads(&self) -> usize {
        self.parts.len().max(1)
    }

    fn run(&mut self, span: Range<u64>, listener: &dyn Progress) -> Result<(u64, Phases)> {
        self.parts
            .iter_mut()
            .for_each(|p| p.phases = Phases::default());
        let shared = ThreadContext {
            lists: &self.lists,
            barrier: Barrier::new(self.parts.len().max(1)),
            last: AtomicU64::new(u64::MAX),
            listener,
            begin: span.start,
            end: span.end,
            block: self.block,
            recorded: self.recorded,
            timed: self.timed,
            ranked: self.ranks.is_some(),
        };
        let mut parts = self.parts.iter_mut().enumerate();
        // A rank without neurons has none, and still takes part in the exchange.
        let first = parts.next().map(|(_, part)| part);
        let ranks = self.ranks.as_mut();
        let done = std::thread::scope(|scope| {
            let shared = &shared;
            for (thread, part) in parts {
                scope.spawn(move || thread_steps(shared, Some(part), thread, None));
            }
            thread_steps(shared, first, 0, ranks)
        });
        if let Some(ranks) = &mut self.ranks {
            ranks.check()?;
        }
        let mut phases = Phases::default();
        for own in self.parts.iter().map(|p| p.phases) {
            phases.update_seconds = phases.update_seconds.max(own.update_seconds);
            phases.exchange_seconds = phases.exchange_seconds.max(own.exchange_seconds);
            phases.deliver_seconds = phases.deliver_seconds.max(own.deliver_seconds);
        }
        self.check_potentials()?;
        Ok((done, phases))
    }

    fn step(&mut self, step: u64, fired: &mut Vec<u32>) -> Result<()> {
        let arch = Arch::new();
        for (thread, part) in self.parts.iter_mut().enumerate() {
            update(&self.lists, part, thread, step, self.recorded, arch);
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.exchange(&Block {
                lists: &self.lists,
                steps: step..step + 1,
                recorded: self.recorded,
                stop: false,
            });
            ranks.check()?;
        }
        let slot = (step % self.lists.len() as u64) as usize;
        for list in &self.lists[slot] {
            fired.extend_from_slice(&list.read().unwrap_or_else(PoisonError::into_inner));
        }
        for part in &mut self.parts {
            deliver(&self.lists, part, step, arch);
        }
        self.check_potentials()
    }

    fn set_currents(&mut self, population: usize, currents: &[f32]) -> Result<()> {
        let first = self.layout.firsts[population] as usize;
        for part in &mut self.parts {
            for chunk in part.groups[population].chunks.clone() {
                let span = part.spans[chunk];
                let own = span.first as usize - first;
                let lanes = &mut part.current[chunk * CHUNK..][..span.len as usize];
                lanes.copy_from_slice(&currents[own..own + span.len as usize]);
                part.awake[chunk / 64] |= 1 << (chunk % 64);
            }
        }
        Ok(())
    }

    fn emit(&mut self, neurons: &[u32]) {
        for &neuron in neurons {
            // Another rank hears of it by the exchange.
            if let Some((part, _)) = self.own_place(neuron) {
                self.parts[part].emitted.push(neuron);
            }
        }
    }

    fn emitting(&self) -> Vec<u32> {
        self.parts
            .iter()
            .flat_map(|p| p.emitted.iter().copied())
            .collect()
    }

    fn spikes(&self) -> u64 {
        let others = self.ranks.as_ref().map_or(0, Ranks::spikes);
        others + self.parts.iter().map(|p| p.spikes).sum::<u64>()
    }

    fn events(&self) -> u64 {
        match &self.ranks {
            Some(ranks) => ranks.events(),
            None => self.parts.iter().map(|p| p.events).sum(),
        }
    }

    fn settle(&mut self) -> Result<()> {
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let events = self.parts.iter().map(|p| p.events).sum();
        ranks.settle(events, self.parts.iter().flat_map(|p| &p.traces))
    }

    fn hash(&self) -> u64 {
        let others = self.ranks.as_ref().map_or(0, Ranks::hash);
        (self.parts.iter()).fold(others, |sum, p| sum.wrapping_add(p.hash))
    }

    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.neurons];
        for part in &self.parts {
            for (chunk, span) in part.spans.iter().enumerate() {
                let own = &part.counts[chunk * CHUNK..][..span.len as usize];
                counts[span.first as usize..][..own.len()].copy_from_slice(own);
            }
        }
        if let Some(ranks) = &self.ranks {
            ranks.add_counts(&mut counts);
        }
        counts
    }

    fn recorded(&self) -> Vec<u64> {
        // Each thread keeps as many as are wanted in all, so the first of them are complete.
        let others = self.ranks.iter().flat_map(Ranks::recorded);
        (self.parts.iter().flat_map(|p| &p.recorded))
            .chain(others)
            .copied()
            .collect()
    }

    fn weights(&self, rule: u16, step: u64) -> Result<Vec<ListedSynapse>> {
        let own: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| part.weights(rule, step))
            .collect();
        match &self.ranks {
            Some(ranks) => ranks.synapses(&own),
            None => Ok(own),
        }
    }

    fn reward(&mut self, step: u64, amount: f32) -> Result<()> {
        for part in &mut self.parts {
            part.learning.reward(step, amount);
        }
        Ok(())
    }

    fn potential(&self, neuron: u32) -> Result<f32> {
        let own = (self.own_place(neuron)).map(|(part, lane)| self.parts[part].v[lane]);
        match (&self.ranks, own) {
            (None, Some(own)) => Ok(own),
            (Some(ranks), own) => ranks.potential(own),
            (None, None) => Err(betz_base::Error::argument(format!(
                "potentials: expected neurons below {}, got {neuron}",
                self.neurons
            ))),
        }
    }

    fn conductances(&self, neuron: u32) -> Vec<f32> {
        let own = self.own_place(neuron);
        own.map_or_else(Vec::new, |(part, lane)| self.parts[part].conductances(lane))
    }

    fn potentials(&self, neuron: u32) -> Option<&[f32]> {
        let mut traces = self.parts.iter().flat_map(|p| &p.traces);
        match traces.find(|t| t.neuron == neuron) {
            Some(trace) => Some(trace.values.as_slice()),
            None => self.ranks.as_ref()?.potentials(neuron),
        }
    }
}

/// All steps of one thread; the step it ended at. The first thread speaks to the other `ranks`; it has no part in a rank
/// without neurons.
fn thread_steps(
    shared: &ThreadContext<'_>,
    mut part: Option<&mut Part>,
    thread: usize,
    mut ranks: Option<&mut Ranks>,
) -> u64 {
    let _guard = shared.barrier.guard();
    let arch = Arch::new();
    let mut step = shared.begin;
    let mut block = 0;
    while step < shared.end {
        let steps = shared.block.min(shared.end - step);
        let started = shared.timed.then(Instant::now);
        if let Some(part) = &mut part {
            for t in step..step + steps {
                update(shared.lists, part, thread, t, shared.recorded, arch);
            }
        }
        let updated = shared.timed.then(Instant::now);
        let mut stop = false;
        if thread == 0 && block % LOOK == 0 {
            shared
                .listener
                .update("simulating", step - shared.begin, shared.end - shared.begin);
            stop = shared.listener.cancelled();
        }
        if stop && !shared.ranked {
            // Nobody is past this block's meeting, so all end with it.
            shared.last.store(block, Ordering::Release);
        }
        if !shared.barrier.meet() {
            return step;
        }
        if shared.ranked {
            if let Some(ranks) = &mut ranks {
                let agreed = ranks.exchange(&Block {
                    lists: shared.lists,
                    steps: step..step + steps,
                    recorded: shared.recorded,
                    stop,
                });
                if agreed {
                    shared.last.store(block, Ordering::Release);
                }
            }
            if !shared.barrier.meet() {
                return step;
            }
        }
        let met = shared.timed.then(Instant::now);
        if let Some(part) = &mut part {
            for t in step..step + steps {
                deliver(shared.lists, part, t, arch);
            }
            if let (Some(started), Some(updated), Some(met)) = (started, updated, met) {
                part.phases.update_seconds += (updated - started).as_secs_f64();
                part.phases.exchange_seconds += (met - updated).as_secs_f64();
                part.phases.deliver_seconds += met.elapsed().as_secs_f64();
            }
        }
        step += steps;
        if shared.last.load(Ordering::Acquire) <= block {
            break;
        }
        block += 1;
    }
    step
}

fn update(lists: &Lists, part: &mut Part, thread: usize, step: u64, recorded: usize, arch: Arch) {
    let slot = (step % lists.len() as u64) as usize;
    let mut list = lists[slot][thread]
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    list.clear();
    part.take_listed(step);
    if !part.emitted.is_empty() {
        part.emit(step, &mut list);
    }
    if !part.learning.is_empty() {
        arch.dispatch(LearnArrivals { part, step });
    }
    arch.dispatch(Update {
        part,
        step,
        list: &mut list,
    });
    if !part.learning.is_empty() {
        let fired = &list;
        arch.dispatch(LearnSpikes { part, step, fired });
    }
    if recorded > 0 {
        let room = recorded.saturating_sub(part.recorded.len());
        let kept = list.iter().take(room).map(|n| step << 32 | u64::from(*n));
        part.recorded.extend(kept);
    }
    for trace in &mut part.traces {
        trace.values.push(part.v[trace.lane] + trace.rest);
    }
}

fn deliver(lists: &Lists, part: &mut Part, step: u64, arch: Arch) {
    for list in &lists[(step % lists.len() as u64) as usize] {
        let list = list.read().unwrap_or_else(PoisonError::into_inner);
        if !list.is_empty() {
            arch.dispatch(Deliver {
                part,
                step,
                list: &list,
            });
        }
    }
}

impl Part {
    /// Lets listed sources fire whose time has come.
    fn take_listed(&mut self, step: u64) {
        while let Some((_, neuron)) = self.listed.get(self.next_listed).filter(|s| s.0 <= step) {
            self.emitted.push(*neuron);
            self.next_listed += 1;
        }
    }

    /// Spikes by call, and of lists.
    fn emit(&mut self, step: u64, list: &mut Vec<u32>) {
        for i in 0..self.emitted.len() {
            let neuron = self.emitted[i];
            list.push(neuron);
            if let Some(lane) = self.lane_of(neuron) {
                self.counts[lane] += 1;
            }
            self.spikes += 1;
            let hash = crate::random::mix(step << 32 | u64::from(neuron));
            self.hash = self.hash.wrapping_add(hash);
        }
        self.emitted.clear();
    }
}
