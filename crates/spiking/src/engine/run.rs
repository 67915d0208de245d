//! Steps on one thread or several.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use betz_base::{Error, ErrorKind, Progress, Result};
use pulp::Arch;

use super::barrier::Barrier;
use super::deliver::Deliver;
use super::part::Part;
use super::update::Update;
use super::{Engine, Phases, Report};

/// Blocks between two looks whether to go on.
const LOOK: u64 = 256;

/// What all threads share.
struct Shared<'a> {
    lists: &'a [Vec<RwLock<Vec<u32>>>],
    barrier: Barrier,
    /// Block at whose end all stop.
    last: AtomicU64,
    listener: &'a dyn Progress,
    begin: u64,
    end: u64,
    block: u64,
    recorded: usize,
    timed: bool,
}

pub(super) fn run(engine: &mut Engine, steps: u64, listener: &dyn Progress) -> Result<Report> {
    let begin = engine.step;
    let before = engine.synaptic_events();
    engine
        .parts
        .iter_mut()
        .for_each(|p| p.phases = Phases::default());
    let shared = Shared {
        lists: &engine.lists,
        barrier: Barrier::new(engine.parts.len()),
        last: AtomicU64::new(u64::MAX),
        listener,
        begin,
        end: begin.saturating_add(steps),
        block: u64::from(engine.plan.shortest_delay),
        recorded: engine.options.record_spikes,
        timed: engine.options.time_phases,
    };
    let started = Instant::now();
    let mut parts = engine.parts.iter_mut().enumerate();
    let first = parts.next();
    let done = std::thread::scope(|scope| {
        let shared = &shared;
        for (thread, part) in parts {
            scope.spawn(move || thread_steps(shared, part, thread));
        }
        first.map_or(begin, |(thread, part)| thread_steps(shared, part, thread))
    });
    let seconds = started.elapsed().as_secs_f64();
    engine.step = done;
    if done < begin.saturating_add(steps) {
        return Err(Error::new(
            ErrorKind::Interrupted,
            format!("simulating: stopped on request at step {done}"),
        ));
    }
    let events = engine.synaptic_events() - before;
    Ok(engine.report(steps, events, seconds))
}

/// All steps of one thread; the step it ended at.
fn thread_steps(shared: &Shared<'_>, part: &mut Part, thread: usize) -> u64 {
    let _guard = shared.barrier.guard();
    let arch = Arch::new();
    let mut step = shared.begin;
    let mut block = 0;
    while step < shared.end {
        let steps = shared.block.min(shared.end - step);
        let started = shared.timed.then(Instant::now);
        for t in step..step + steps {
            update(shared.lists, part, thread, t, shared.recorded, arch);
        }
        let updated = shared.timed.then(Instant::now);
        if thread == 0 && block % LOOK == 0 {
            shared
                .listener
                .update("simulating", step - shared.begin, shared.end - shared.begin);
            if shared.listener.cancelled() {
                // Nobody is past this block's meeting, so all end with it.
                shared.last.store(block, Ordering::Release);
            }
        }
        if !shared.barrier.meet() {
            return step;
        }
        let met = shared.timed.then(Instant::now);
        for t in step..step + steps {
            deliver(shared.lists, part, t, arch);
        }
        if let (Some(started), Some(updated), Some(met)) = (started, updated, met) {
            part.phases.update_seconds += (updated - started).as_secs_f64();
            part.phases.exchange_seconds += (met - updated).as_secs_f64();
            part.phases.deliver_seconds += met.elapsed().as_secs_f64();
        }
        step += steps;
        if shared.last.load(Ordering::Acquire) <= block {
            break;
        }
        block += 1;
    }
    step
}

pub(super) fn step(engine: &mut Engine, fired: &mut Vec<u32>) {
    let arch = Arch::new();
    let step = engine.step;
    let recorded = engine.options.record_spikes;
    for (thread, part) in engine.parts.iter_mut().enumerate() {
        update(&engine.lists, part, thread, step, recorded, arch);
    }
    let slot = (step % engine.lists.len() as u64) as usize;
    for list in &engine.lists[slot] {
        fired.extend_from_slice(&list.read().unwrap_or_else(PoisonError::into_inner));
    }
    for part in &mut engine.parts {
        deliver(&engine.lists, part, step, arch);
    }
    engine.step += 1;
}

fn update(
    lists: &[Vec<RwLock<Vec<u32>>>],
    part: &mut Part,
    thread: usize,
    step: u64,
    recorded: usize,
    arch: Arch,
) {
    let slot = (step % lists.len() as u64) as usize;
    let mut list = lists[slot][thread]
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    list.clear();
    if !part.emitted.is_empty() {
        part.emit(step, &mut list);
    }
    arch.dispatch(Update {
        part,
        step,
        list: &mut list,
    });
    if recorded > 0 {
        let room = recorded.saturating_sub(part.recorded.len());
        let kept = list.iter().take(room).map(|n| step << 32 | u64::from(*n));
        part.recorded.extend(kept);
    }
    for trace in &mut part.traces {
        trace.values.push(part.v[trace.lane] + trace.rest);
    }
}

fn deliver(lists: &[Vec<RwLock<Vec<u32>>>], part: &mut Part, step: u64, arch: Arch) {
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
    /// Spikes by call.
    fn emit(&mut self, step: u64, list: &mut Vec<u32>) {
        for i in 0..self.emitted.len() {
            let neuron = self.emitted[i];
            list.push(neuron);
            let span = self
                .spans
                .iter()
                .position(|s| neuron >= s.first && neuron - s.first < s.len);
            if let Some(chunk) = span {
                let k = (neuron - self.spans[chunk].first) as usize;
                self.counts[chunk * crate::plan::CHUNK + k] += 1;
            }
            self.spikes += 1;
            let hash = crate::random::mix(step << 32 | u64::from(neuron));
            self.hash = self.hash.wrapping_add(hash);
        }
        self.emitted.clear();
    }
}
