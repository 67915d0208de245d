//! The dense path on CUDA devices: responses of a round of steps, then their products on the tensor
//! cores.
//!
//! Time is cut into rounds; the host data of a round are copied while the round before is computed. If Γ does not fit,
//! it is computed block by block of one triangle, each block over all of time, and assembled in host memory (CUSUMMA,
//! [`betz_device::partition`]). Several devices take a part of time each, which begins with as much earlier time as
//! their filters remember.

use std::ops::Range;
use std::sync::Arc;

use super::accumulator::{Accumulator, OperandBuffer, product_chunks};
use super::centre::{Centre, SumSource, steps_in};
use super::filters::Filters;
use super::plan::{CHUNK_BLOCKS, CHUNK_STEPS, DenseDemand, RoundPlan};
use super::source::{ResponseSource, Round};
use super::staging::GramStaging;
use super::store::{self, Gram};
use super::timeline::{Reach, Timeline};
use super::{DeviceSums, SampledError, several};
use crate::gram::output_totals;
use crate::parts::UPSILON;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress, Quiet};
use betz_device::Precision;
use betz_device::cuda::{Buffer, Context, Feed};
use betz_kernels::gram::{AddUpsilon, CarryStates};
use betz_kernels::{Target, TargetShape};
use betz_recording::Segment;

/// Largest number of features in the sample on which a lower precision is measured.
const SAMPLE_FEATURES: usize = 128;

/// The steps and behaviour to sum, for any source of responses.
pub(super) struct Task<'a> {
    pub(super) segments: &'a [Segment],
    /// Steps of the recording.
    pub(super) steps: usize,
    /// Steps × outputs, row-major.
    pub(super) behavior: &'a [f32],
    pub(super) outputs: usize,
    pub(super) delay_steps: i64,
    pub(super) precision: Precision,
    /// Least distance between segments in padded time.
    pub(super) reach: Reach,
}

/// Makes a context's own source of responses.
pub(super) type MakeSource<'a> =
    dyn Fn(&'a Context) -> Result<Box<dyn ResponseSource + 'a>> + Sync + 'a;

/// The share of one device.
struct Share {
    chunks: Range<usize>,
    /// Bytes it may use.
    memory: u64,
    /// Measure a lower precision here.
    sample: bool,
}

/// The sums of one device.
struct Partial {
    gram: Gram,
    /// Υ and Σa: n × (m + 1).
    upsilon: Buffer<f64>,
    sampled: Option<SampledError>,
}

/// Γ, Υ and the sums on the first of `contexts`, or in host memory where Γ does not fit.
pub(super) fn sums<'a>(
    contexts: &'a [Arc<Context>],
    task: &Task<'_>,
    make: &MakeSource<'a>,
    progress: &dyn Progress,
) -> Result<DeviceSums> {
    let (segments, delay) = (task.segments, task.delay_steps);
    let timeline = Timeline::new(segments, task.steps, delay, CHUNK_BLOCKS, task.reach)?;
    let chunks = timeline.block_count / CHUNK_BLOCKS;
    let contexts = &contexts[..contexts.len().min(chunks)];
    let devices = contexts.len();
    let m = task.outputs;
    let work = |i: usize, context: &'a Context| {
        // Start the library before planning memory, because it takes some itself.
        context.start_blas()?;
        let share = Share {
            chunks: i * chunks / devices..(i + 1) * chunks / devices,
            memory: context.available_memory()?,
            sample: i == 0,
        };
        let quiet = Quiet(progress);
        let progress = if i == 0 { progress } else { &quiet };
        partial(
            context,
            task,
            &timeline,
            make(context)?.as_mut(),
            share,
            progress,
        )
    };
    // The host handles the behaviour while the devices compute Γ.
    let (found, totals) = std::thread::scope(|scope| {
        let totals = scope.spawn(|| output_totals(task.segments, task.behavior, m, delay));
        (several::each(contexts, work), totals.join())
    });
    let (mut whole, others) = found?;
    let totals = totals.map_err(|_| Error::new(ErrorKind::Internal, "gram: a thread panicked"))?;
    let first = &contexts[0];
    // Add in the devices' order, so that every run gives the same bits.
    for (partial, context) in others.into_iter().zip(&contexts[1..]) {
        store::add(first, &mut whole.upsilon, context, &partial.upsilon)?;
        whole.gram.add(first, context, partial.gram)?;
    }
    let features = whole.upsilon.len() / (task.outputs + 1);
    let steps = timeline.steps;
    let mean: Vec<f64> = totals[..task.outputs]
        .iter()
        .map(|sum| sum / steps.max(1) as f64)
        .collect();
    Ok(DeviceSums {
        features,
        outputs: task.outputs,
        steps,
        gram: whole.gram,
        upsilon: whole.upsilon,
        totals: first.upload(&totals)?,
        output_mean: first.upload(&mean)?,
        sampled: whole.sampled,
        sampled_way: None,
    })
}

/// The sums over a device's share of time.
fn partial(
    context: &Context,
    task: &Task<'_>,
    timeline: &Timeline,
    source: &mut dyn ResponseSource,
    share: Share,
    progress: &dyn Progress,
) -> Result<Partial> {
    let n = source.features();
    let demand = demand(task, timeline, source, n, task.precision);
    let plan = demand.plan(share.memory)?.balanced(share.chunks.len());
    let mut upsilon: Buffer<f64> = context.zeros(n * (task.outputs + 1))?;
    let exact = !source.rests_at_zero();
    let mut pass = Pass {
        context,
        task,
        timeline,
        source,
        centre: &mut Centre::new(context, n, task.outputs, exact)?,
        chunks: share.chunks,
        plan,
        precision: task.precision,
        progress,
    };
    let gram = if plan.edge >= n {
        Gram::Device(pass.block(0..n, None, Sums::Add(&mut upsilon))?)
    } else {
        pass.blocks(n, &mut upsilon)?
    };
    let sampled = match task.precision {
        Precision::Tf32 if share.sample => sampled_error(&mut pass, &gram, &upsilon, n)?,
        _ => None,
    };
    Ok(Partial {
        gram,
        upsilon,
        sampled,
    })
}

fn demand(
    task: &Task<'_>,
    timeline: &Timeline,
    source: &dyn ResponseSource,
    features: usize,
    precision: Precision,
) -> DenseDemand {
    DenseDemand {
        features,
        outputs: task.outputs,
        chunks: timeline.block_count / CHUNK_BLOCKS,
        states: source.filters().map_or(0, |f| f.order + 1),
        product_chunks: product_chunks(precision),
        crossed: precision == Precision::F32,
        source: source.costs(timeline),
    }
}

/// A device's walk through its part of time.
struct Pass<'a> {
    context: &'a Context,
    task: &'a Task<'a>,
    timeline: &'a Timeline,
    source: &'a mut dyn ResponseSource,
    centre: &'a mut Centre,
    /// The chunks that are summed.
    chunks: Range<usize>,
    plan: RoundPlan,
    precision: Precision,
    progress: &'a dyn Progress,
}

/// State of the sums Υ and Σa, n × (m + 1), at a block of Γ.
enum Sums<'a> {
    /// Add the sums of the block's rows, and measure the rows' centre.
    Add(&'a mut Buffer<f64>),
    /// Earlier blocks have already added the sums for this block's features.
    Known(&'a Buffer<f64>),
}

impl Sums<'_> {
    fn values(&self) -> &Buffer<f64> {
        match self {
            Self::Add(sums) => sums,
            Self::Known(sums) => sums,
        }
    }
}

/// The responses of one range of features, round by round.
struct ResponseRows {
    features: Range<usize>,
    responses: OperandBuffer,
    /// States at the chunks' starts: chunks × (order + 1) × features.
    states: Buffer<f32>,
    /// States at the round's start: (order + 1) × features.
    carry: Buffer<f64>,
}

/// Memory of a block of Γ, round by round.
struct BlockWork {
    operands: Vec<ResponseRows>,
    behavior: Feed<f32>,
    /// Υ and Σa of each chunk of the round.
    chunk_upsilon: Buffer<f64>,
    /// The centre has been measured, or was known.
    is_centred: bool,
}

impl Pass<'_> {
    /// Γ in host memory, from blocks of one triangle.
    fn blocks(&mut self, n: usize, upsilon: &mut Buffer<f64>) -> Result<Gram> {
        let edges: Vec<Range<usize>> = (0..n)
            .step_by(self.plan.edge)
            .map(|start| start..n.min(start + self.plan.edge))
            .collect();
        let mut gram = vec![0.0; n * n];
        // Every block says how far it is, round by round.
        store::triangle(edges.len(), &(), |row, column| {
            let (rows, columns) = (&edges[row], &edges[column]);
            let block = if row == column {
                self.block(rows.clone(), None, Sums::Add(&mut *upsilon))?
            } else {
                self.block(rows.clone(), Some(columns.clone()), Sums::Known(upsilon))?
            };
            store::place(self.context, &block, &mut gram, n, rows, columns)
        })?;
        Ok(Gram::Host(gram))
    }

    /// Compile-time constants of the kernels.
    fn options(&self) -> Vec<String> {
        match self.source.filters() {
            Some(filters) => filters.options(CHUNK_BLOCKS),
            None => store::options(),
        }
    }

    /// Computes one block of Γ: `rows` × `columns`, or rows × rows. If the rows' centre is measured, waits to check
    /// that it fits them, and computes the block again if it does not.
    fn block(
        &mut self,
        rows: Range<usize>,
        columns: Option<Range<usize>>,
        sums: Sums<'_>,
    ) -> Result<Buffer<f64>> {
        let Sums::Add(upsilon) = sums else {
            return self.block_about_centre(&rows, columns, sums);
        };
        let block = self.block_about_centre(&rows, columns.clone(), Sums::Add(&mut *upsilon))?;
        let (context, options) = (self.context, self.options());
        let over = SumSource {
            context,
            options: &options,
            timeline: self.timeline,
            chunks: &self.chunks,
        };
        if self.centre.suited(over, &rows, &block)? {
            return Ok(block);
        }
        self.centre.take_means(over, &rows, upsilon)?;
        // Given back before the same is taken again.
        drop(block);
        context.synchronize()?;
        self.block_about_centre(&rows, columns, Sums::Known(upsilon))
    }

    /// Memory of a block of Γ whose rows, and columns if they are others, are `features`.
    fn block_work(
        &self,
        features: Vec<Range<usize>>,
        is_centred: bool,
        staging: &mut GramStaging,
    ) -> Result<BlockWork> {
        let (context, round_chunks) = (self.context, self.plan.round_chunks);
        let states = self.source.filters().map_or(0, |filters| filters.order + 1);
        let (rows, outputs) = (features[0].len(), self.task.outputs);
        let operand = |features: Range<usize>| {
            let n = features.len();
            Ok(ResponseRows {
                features,
                responses: OperandBuffer::new(context, n, round_chunks * CHUNK_STEPS)?,
                states: context.alloc(round_chunks * states * n)?,
                carry: context.zeros(states * n)?,
            })
        };
        let behavior_values = round_chunks * CHUNK_STEPS * outputs;
        Ok(BlockWork {
            operands: (features.into_iter().map(operand)).collect::<Result<_>>()?,
            behavior: Feed::new(context, behavior_values, &mut staging.f32s)?,
            chunk_upsilon: context.alloc(round_chunks * (outputs + 1) * rows)?,
            is_centred,
        })
    }

    fn block_about_centre(
        &mut self,
        rows: &Range<usize>,
        columns: Option<Range<usize>>,
        mut sums: Sums<'_>,
    ) -> Result<Buffer<f64>> {
        let (context, round_chunks) = (self.context, self.plan.round_chunks);
        let features: Vec<_> = std::iter::once(rows.clone())
            .chain(columns.clone())
            .collect();
        let mut staging = context.take_slot::<GramStaging>();
        let options = self.options();
        self.source
            .begin(self.timeline, &features, round_chunks, &mut staging)?;
        let block_count = round_chunks * CHUNK_BLOCKS + 1;
        let mut blocks = Feed::new(context, block_count, &mut staging.blocks)?;
        let is_centred = !matches!(sums, Sums::Add(_));
        let mut work = self.block_work(features, is_centred, &mut staging)?;
        let mut sum = Accumulator::new(
            context,
            options.clone(),
            self.plan,
            self.precision,
            rows.len(),
            columns.as_ref().map(Range::len),
        )?;
        for (chunks, summed) in self.rounds() {
            progress::check(self.progress, "gram")?;
            let values = chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS + 1;
            blocks.send(values.len(), |target| {
                target.copy_from_slice(&self.timeline.blocks[values.clone()]);
                Ok(())
            })?;
            let round = Round {
                context,
                timeline: self.timeline,
                delay_steps: self.task.delay_steps,
                chunks: chunks.clone(),
                blocks: blocks.piece(),
            };
            context.phase("responses")?;
            self.source.load(&round)?;
            for (i, operand) in work.operands.iter_mut().enumerate() {
                if let Some(filters) = self.source.filters() {
                    self.source.chunk_states(&round, i, &mut operand.states)?;
                    carry(&round, filters, &options, operand)?;
                }
            }
            if summed {
                self.sum_round(&round, &options, rows, &mut work, &mut sums)?;
            }
            self.source.release()?;
            blocks.release()?;
            context.phase("products")?;
            if summed && let [a, .., b] | [a @ b] = work.operands.as_slice() {
                sum.add(&a.responses, &b.responses, chunks.len())?;
            }
            let done = chunks.end.saturating_sub(self.chunks.start);
            self.progress
                .update("gram", done as u64, self.chunks.len() as u64);
        }
        context.phase("sums")?;
        blocks.keep(&mut staging.blocks);
        work.behavior.keep(&mut staging.f32s);
        self.source.end(&mut staging)?;
        context.put_slot(staging);
        let mut block = sum.finish()?;
        self.centre.put_back(
            SumSource {
                context,
                options: &options,
                timeline: self.timeline,
                chunks: &self.chunks,
            },
            rows,
            columns.as_ref().unwrap_or(rows),
            sums.values(),
            &mut block,
        )?;
        Ok(block)
    }

    /// Responses of a round whose products are summed, and its part of Υ and Σa where they are wanted.
    fn sum_round(
        &mut self,
        round: &Round<'_>,
        options: &[String],
        rows: &Range<usize>,
        work: &mut BlockWork,
        sums: &mut Sums<'_>,
    ) -> Result<()> {
        let (m, chunks) = (self.task.outputs, &round.chunks);
        let wanted = matches!(sums, Sums::Add(_));
        if wanted {
            let padded = chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS;
            work.behavior
                .send(chunks.len() * CHUNK_STEPS * m, |target| {
                    let (x, delay) = (self.task.behavior, self.task.delay_steps);
                    self.timeline.pack_behavior(x, m, delay, padded, target);
                    Ok(())
                })?;
        }
        let behavior = work.behavior.piece();
        round.context.phase("operands")?;
        for (i, operand) in work.operands.iter_mut().enumerate() {
            let own = i == 0 && wanted;
            let upsilon = own.then_some(&mut work.chunk_upsilon);
            self.fill(round, i, operand, behavior, upsilon)?;
            if !work.is_centred && steps_in(self.timeline, chunks) > 0 {
                (self.centre).measure(round, options, rows, &work.chunk_upsilon)?;
                work.is_centred = true;
                // Once more, now centred; Υ and Σa come out as they were.
                let upsilon = own.then_some(&mut work.chunk_upsilon);
                self.fill(round, i, operand, behavior, upsilon)?;
            }
        }
        if let Sums::Add(upsilon) = sums {
            round.context.phase(UPSILON)?;
            work.behavior.release()?;
            add_upsilon(round, options, rows, m, &work.chunk_upsilon, upsilon)?;
        }
        Ok(())
    }

    /// Computes the responses of operand `i` over `round` and, if `upsilon` is given, Υ and Σa of its chunks.
    fn fill(
        &self,
        round: &Round<'_>,
        i: usize,
        operand: &mut ResponseRows,
        behavior: &Buffer<f32>,
        upsilon: Option<&mut Buffer<f64>>,
    ) -> Result<()> {
        let shape = TargetShape {
            columns: operand.features.len() as i32,
            stride: operand.responses.stride as i32,
            outputs: self.task.outputs as i32,
            whole: self.precision == Precision::Tf32,
        };
        let target = Target::new(
            operand.responses.bits.write(),
            behavior.read(),
            upsilon.map(Buffer::write),
            self.centre.read(operand.features.start),
            shape,
        );
        self.source.fill(round, i, &operand.states, target)
    }

    /// Rounds in order, each with a flag: false for the first rounds, which only carry states and are not summed.
    fn rounds(&self) -> Vec<(Range<usize>, bool)> {
        let start = self.chunks.start;
        let history = self.source.filters().map_or(0, |filters| {
            let since = self.timeline.blocks[start * CHUNK_BLOCKS].since.max(0) as usize;
            // Reach beyond `since` does not matter, and may exceed any number of steps.
            let reach = filters.reach_steps().min(since as f64) as usize;
            reach.div_ceil(CHUNK_STEPS).min(start)
        });
        let cut = |range: Range<usize>, summed| {
            let (end, length) = (range.end, self.plan.round_chunks);
            range
                .step_by(length)
                .map(move |first| (first..end.min(first + length), summed))
        };
        cut(start - history..start, false)
            .chain(cut(self.chunks.clone(), true))
            .collect()
    }
}

/// From the states that chunks leave by themselves to those at their starts.
fn carry(
    round: &Round<'_>,
    filters: &Filters,
    options: &[String],
    operand: &mut ResponseRows,
) -> Result<()> {
    let arguments = CarryStates {
        block: round.blocks.read(),
        filter: filters.table.read(),
        filters: filters.shapes.len() as i32,
        first_column: operand.features.start as i32,
        columns: operand.features.len() as i32,
        chunks: round.chunks.len() as i32,
        states: operand.states.update(),
        carry: operand.carry.update(),
    };
    let grid = (operand.features.len().div_ceil(32) as u32, 1, 1);
    round
        .context
        .load::<CarryStates>(options, 0)?
        .launch(grid, 32, arguments)
}

fn add_upsilon(
    round: &Round<'_>,
    options: &[String],
    rows: &Range<usize>,
    outputs: usize,
    partial: &Buffer<f64>,
    upsilon: &mut Buffer<f64>,
) -> Result<()> {
    let arguments = AddUpsilon {
        partial: partial.read(),
        chunks: round.chunks.len() as i32,
        columns: rows.len() as i32,
        first_column: rows.start as i32,
        outputs: outputs as i32,
        upsilon: upsilon.update(),
    };
    let grid = (rows.len().div_ceil(64) as u32, outputs as u32 + 1, 1);
    round
        .context
        .load::<AddUpsilon>(options, 0)?
        .launch(grid, 64, arguments)
}

/// Error of `gram` against full precision among some consecutive features; `None` if there is no memory to compute
/// those.
fn sampled_error(
    pass: &mut Pass<'_>,
    gram: &Gram,
    sums: &Buffer<f64>,
    n: usize,
) -> Result<Option<SampledError>> {
    let memory = pass.context.available_memory()?;
    let mut size = n.min(SAMPLE_FEATURES);
    let plan = loop {
        let demand = demand(pass.task, pass.timeline, pass.source, size, Precision::F32);
        match demand.plan(memory) {
            Ok(plan) if plan.edge >= size => break plan,
            _ if size > 1 => size /= 2,
            _ => return Ok(None),
        }
    };
    let start = (n - size) / 2;
    let features = start..start + size;
    let mut exact = Pass {
        context: pass.context,
        task: pass.task,
        timeline: pass.timeline,
        source: &mut *pass.source,
        centre: &mut *pass.centre,
        chunks: pass.chunks.clone(),
        plan,
        precision: Precision::F32,
        progress: &(),
    };
    let block = exact.block(features.clone(), None, Sums::Known(sums))?;
    let exact = pass.context.download(&block, size * size)?;
    let rows = gram.rows(pass.context, n, features.clone())?;
    let own = |i: usize| exact[i * size + i].max(0.0).sqrt();
    let (mut largest, mut squares) = (0.0f64, 0.0);
    for i in 0..size {
        for j in 0..size {
            let error = (rows[i * n + start + j] - exact[i * size + j]).abs();
            let relative = error / (own(i) * own(j)).max(f64::MIN_POSITIVE);
            largest = largest.max(relative);
            squares += relative * relative;
        }
    }
    Ok(Some(SampledError {
        elements: size * size,
        largest,
        rms: (squares / (size * size) as f64).sqrt(),
    }))
}
