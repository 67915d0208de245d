//! Launches of many steps, and what comes back between them.

use std::ops::Range;
use std::time::Instant;

use betz_base::{Progress, Result};
use betz_device::cuda::Buffer;
use betz_kernels::spiking::{self, SpikingResident, SpikingSpread};

use super::design::{Design, ROOM, TRACE_STEPS};
use super::share::Share;
use super::{OnDevice, Phases};

/// Steps of the first launch; then as many as take a tenth of a second.
const FIRST_STEPS: u64 = 256;
/// Seconds between two looks whether to go on.
const LOOK_SECONDS: f64 = 0.1;

/// Steps of one launch, and what it is given room for.
struct Launch {
    begin: u64,
    steps: u64,
    /// Spikes that each device has room to record.
    room: usize,
    seed: u64,
    populations: i32,
    longest: i32,
    /// Barriers of a step.
    barriers: u32,
    traced: usize,
    /// Bits that a neuron's number takes in the record.
    bits: u32,
}

/// Buffers in which a device records a launch.
struct Record {
    spikes: Buffer<u32>,
    traces: Buffer<f32>,
}

impl OnDevice {
    pub(super) fn steps(
        &mut self,
        span: Range<u64>,
        listener: &dyn Progress,
    ) -> Result<(u64, Phases)> {
        let mut phases = Phases::default();
        let mut at = span.start;
        let mut length = FIRST_STEPS;
        while at < span.end {
            listener.update("simulating", at - span.start, span.end - span.start);
            if listener.cancelled() {
                break;
            }
            let room = self.room();
            let steps = length.min(span.end - at).min(self.most_steps(room)).max(1);
            let begun = Instant::now();
            self.launch(at, steps, room, &mut phases)?;
            at += steps;
            let seconds = begun.elapsed().as_secs_f64();
            let most = (LOOK_SECONDS / (seconds / steps as f64)) as u64;
            length = most.clamp(FIRST_STEPS, 64 * length);
        }
        for share in &self.shares {
            let own = share.context.download(&share.state.counts, share.neurons)?;
            for (i, count) in own.into_iter().enumerate() {
                self.host.counts[share.part.neuron(i)] = count;
            }
        }
        Ok((at, phases))
    }

    pub(super) fn one_step(&mut self, step: u64, fired: &mut Vec<u32>) -> Result<()> {
        let kept = self.host.recorded.len();
        self.launch(step, 1, self.host.counts.len(), &mut Phases::default())?;
        for packed in &self.host.recorded[kept..] {
            fired.push(*packed as u32);
            self.host.counts[*packed as u32 as usize] += 1;
        }
        let wanted = self.options.record_spikes.max(kept);
        self.host.recorded.truncate(wanted);
        Ok(())
    }

    /// Spikes that each device may have to record in the next launch.
    fn room(&self) -> usize {
        match self.options.record_spikes > self.host.recorded.len() {
            true => ROOM.max(self.host.counts.len()),
            false => 0,
        }
    }

    /// Steps of one launch that cannot have more spikes than there is `room` for, if they are recorded.
    fn most_steps(&self, room: usize) -> u64 {
        let mut most = 1 << 30;
        if room > 0 {
            most = 1 << (32 - self.bits());
            let each = (room / self.host.counts.len().max(1)) as u64;
            most = most.min(each.saturating_sub(1).saturating_mul(self.silence).max(1));
        }
        if !self.host.traces.is_empty() {
            most = most.min(TRACE_STEPS);
        }
        most
    }

    /// Bits that a neuron's number takes.
    fn bits(&self) -> u32 {
        let neurons = self.host.counts.len() as u64;
        neurons.next_power_of_two().ilog2().max(1)
    }

    /// `steps` steps from `begin`, in one launch on each device; spikes, hash, record and traces come back.
    fn launch(&mut self, begin: u64, steps: u64, room: usize, phases: &mut Phases) -> Result<()> {
        let started = Instant::now();
        let launch = Launch {
            begin,
            steps,
            room,
            seed: self.seed,
            populations: self.populations as i32,
            longest: self.longest_filter as i32,
            barriers: if self.shortest == 1 { 2 } else { 1 },
            traced: self.host.traces.len(),
            bits: self.bits(),
        };
        let sources = std::mem::take(&mut self.emitting);
        // Devices wait for each other's kernels: all is ready before the first one starts.
        let mut records = Vec::new();
        for share in &mut self.shares {
            share.mark(&sources, spiking::EMITS)?;
            records.push(share.prepare(&launch)?);
        }
        for share in &self.shares {
            share.context.synchronize()?;
        }
        for (share, record) in self.shares.iter_mut().zip(&mut records) {
            share.start(&launch, record)?;
        }
        (self.host.spikes, self.host.hash) = (0, 0);
        for (share, record) in self.shares.iter_mut().zip(&records) {
            let tally = share.context.download(&share.state.tally, spiking::TALLY)?;
            share.mark(&sources, 0)?;
            if let Some(lost) = tally[spiking::LOST].checked_sub(1) {
                return Err(super::super::lost_potential(
                    &self.names,
                    &self.firsts,
                    lost,
                ));
            }
            self.host.spikes += tally[spiking::SPIKES];
            self.host.hash = self.host.hash.wrapping_add(tally[spiking::HASH]);
            let new = (tally[spiking::RECORDED] as usize).min(room);
            if new > 0 {
                let own = share.context.download(&record.spikes, new)?;
                let neuron = u32::MAX >> (32 - launch.bits);
                let packed = own
                    .iter()
                    .map(|p| (begin + u64::from(p >> launch.bits)) << 32 | u64::from(p & neuron));
                self.host.recorded.extend(packed);
            }
            for (number, (neuron, rest, values)) in self.host.traces.iter_mut().enumerate() {
                if share.part.own(*neuron as usize).is_some() {
                    let own = number * steps as usize..(number + 1) * steps as usize;
                    let own = share.context.download_range(&record.traces, own)?;
                    values.extend(own.iter().map(|v| v + *rest));
                }
            }
            if self.options.time_phases && share.part.number == 0 {
                let cycles = tally[spiking::CYCLES].max(1) as f64;
                let seconds = started.elapsed().as_secs_f64() / cycles;
                phases.update_seconds += tally[spiking::UPDATE] as f64 * seconds;
                phases.exchange_seconds += tally[spiking::EXCHANGE] as f64 * seconds;
                phases.deliver_seconds += tally[spiking::DELIVER] as f64 * seconds;
            }
        }
        Ok(())
    }
}

impl Share {
    /// Marks those of `sources` that are its own.
    fn mark(&mut self, sources: &[u32], mark: u32) -> Result<()> {
        for &neuron in sources {
            if let Some(own) = self.part.own(neuron as usize) {
                (self.context).upload_into(&[mark], &mut self.state.marks, own)?;
            }
        }
        Ok(())
    }

    /// Room for what a launch records.
    fn prepare(&mut self, launch: &Launch) -> Result<Record> {
        // All from RECORDED on: nothing yet, and what is given.
        let (room, bits) = (launch.room as u64, u64::from(launch.bits));
        let given = [0, 0, 0, 0, 0, room, bits];
        (self.context).upload_into(&given, &mut self.state.tally, spiking::RECORDED)?;
        Ok(Record {
            spikes: self.context.alloc(launch.room.max(1))?,
            traces: (self.context).alloc((launch.traced * launch.steps as usize).max(1))?,
        })
    }

    fn start_resident(
        &mut self,
        launch: &Launch,
        record: &mut Record,
        (blocks, slots, deep): (u32, usize, u32),
    ) -> Result<()> {
        let (state, wired) = (&mut self.state, &self.wired);
        self.kernel.launch_together(
            (blocks, 1, 1),
            spiking::RESIDENT_THREADS,
            SpikingResident {
                cells: state.cells.read(),
                populations: launch.populations,
                thresholds: state.thresholds.read(),
                starts: state.starts.read(),
                seed: launch.seed,
                neurons: self.neurons as i32,
                slots: slots as i32,
                longest: launch.longest,
                begin: launch.begin,
                steps: launch.steps as u32,
                membranes: state.membranes.update(),
                silent: state.silent.update(),
                ring: state.ring.update(),
                past: state.past.update(),
                counts: state.counts.update(),
                tally: state.tally.update(),
                offsets: wired.offsets.read(),
                words: wired.words.read(),
                deep: deep as i32,
                mail: state.mail.update(),
                recorded: record.spikes.update(),
                marks: state.marks.read(),
                traces: record.traces.update(),
            },
        )
    }

    fn start(&mut self, launch: &Launch, record: &mut Record) -> Result<()> {
        let (state, wired, learners) = (&mut self.state, &self.wired, &mut self.learners);
        let shape = learners.shape;
        let neurons = self.neurons as i32;
        let steps = launch.steps as u32;
        match self.design {
            Design::Resident {
                blocks,
                slots,
                deep,
                ..
            } => self.start_resident(launch, record, (blocks, slots, deep)),
            Design::Spread {
                blocks,
                slots,
                team,
                each,
                parts,
                target_blocks,
                learns,
            } => {
                // A warp of a network that learns is enough for a block, whose others take arrivals.
                let threads = if learns {
                    32
                } else {
                    spiking::SPREAD_THREADS * each
                };
                let blocks = blocks.min((self.neurons as u32).div_ceil(threads).max(1));
                let arrived = self.arrived;
                // Alone, blocks do not meet after the last step.
                let meetings = match parts {
                    1 if learns => (2 * u64::from(steps) - 1) as u32,
                    1 => steps - 1,
                    _ => steps.wrapping_mul(launch.barriers),
                };
                self.arrived = arrived.wrapping_add(blocks.wrapping_mul(meetings));
                self.kernel.launch_together(
                    (blocks, 1, 1),
                    spiking::SPREAD_THREADS,
                    SpikingSpread {
                        cells: state.cells.read(),
                        models: state.models.read(),
                        values: state.values.read(),
                        populations: launch.populations,
                        thresholds: state.thresholds.read(),
                        starts: state.starts.read(),
                        seed: launch.seed,
                        neurons,
                        slots: slots as i32,
                        longest: launch.longest,
                        begin: launch.begin,
                        steps,
                        membranes: state.membranes.update(),
                        silent: state.silent.update(),
                        ring: state.ring.update(),
                        past: state.past.update(),
                        counts: state.counts.update(),
                        tally: state.tally.update(),
                        offsets: wired.offsets.read(),
                        words: wired.words.read(),
                        team: team as i32,
                        barrier: state.barrier.update(),
                        arrived,
                        share: state.share.read(),
                        post: state.post.update(),
                        streams: wired.streams.read(),
                        target_blocks: target_blocks.map_or(0, |blocks| blocks.all),
                        rules: learners.rules.read(),
                        rule_count: shape.rule_count,
                        rows_of: learners.rows.read(),
                        delays: learners.delays.read(),
                        delay_count: shape.delay_count,
                        synapses: learners.synapses.update(),
                        more: learners.more.update(),
                        onto_offsets: learners.onto_offsets.read(),
                        onto: learners.onto.read(),
                        after: learners.traces.update(),
                        last: learners.fired.update(),
                        noted: learners.history.update(),
                        noted_slots: shape.slots,
                        unit: shape.unit,
                        learn_team: shape.team as i32,
                        recorded: record.spikes.update(),
                        marks: state.marks.read(),
                        traces: record.traces.update(),
                    },
                )
            }
        }
    }
}
