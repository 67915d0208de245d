//! The dense path on a CUDA device: responses of a round of steps, then their products on the
//! tensor cores.
//!
//! A response a = h + l + ε is kept as two bf16, h = bf16(a) and l = bf16(a − h). Then
//! a aᵀ ≈ h hᵀ + l hᵀ + (l hᵀ)ᵀ + l lᵀ; products with ε, 2⁻¹⁷ of the result and of either sign,
//! average out. h hᵀ is computed on panels of one triangle, over few steps at a time (the tensor
//! cores round their sums toward zero), and added to Γ in f64; the others, small, stay in f32.

use super::spikes::{DeviceSpikes, Staging};
use super::{DeviceSums, HEADERS, behavior};
use crate::device::cuda::{Buffer, Context, Operand, PushKernelArg, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::psc::FilterBank;
use crate::recording::Dataset;

const SOURCE: Source = Source {
    name: "responses_event",
    text: include_str!("../../../../kernels/responses_event.cu"),
    headers: HEADERS,
};

/// Blocks of a chunk: 256 steps.
const CHUNK_BLOCKS: usize = 8;

/// Chunks that are multiplied in one sum on the tensor cores: their rounding toward zero costs
/// 2.8·10⁻⁹ a step of the sum (measured on an H200 at N = 1,000, T = 400,000).
const PRODUCT_CHUNKS: usize = 1;

/// Rows of a panel of Γ's triangle, at least.
const PANEL_ROWS: usize = 256;

/// Bytes that the products of a round should stay below.
const PRODUCT_BYTES: usize = 256 << 20;

/// Most steps in a round, in chunks.
const MOST_ROUND_CHUNKS: usize = 128;

/// How a recording is cut into rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// Products that are made side by side.
    parts: usize,
    /// Chunks of a round, a multiple of `parts` × [`PRODUCT_CHUNKS`].
    round_chunks: usize,
    /// Rows of a panel.
    panel: usize,
}

impl Plan {
    /// For n features and `chunks` chunks within `memory` bytes beside Γ.
    fn new(n: usize, chunks: usize, memory: u64) -> Result<Self> {
        let all = chunks
            .next_multiple_of(PRODUCT_CHUNKS)
            .min(MOST_ROUND_CHUNKS);
        let parts = (PRODUCT_BYTES / (4 * n * n)).clamp(1, all / PRODUCT_CHUNKS);
        let panel = n.div_ceil(8).next_multiple_of(128).max(PANEL_ROWS);
        let mut plan = Self {
            parts,
            round_chunks: all / (parts * PRODUCT_CHUNKS) * parts * PRODUCT_CHUNKS,
            panel,
        };
        // First fewer steps a round, then fewer products side by side.
        while plan.bytes(n) > memory && plan.round_chunks > plan.parts * PRODUCT_CHUNKS {
            plan.round_chunks -= plan.parts * PRODUCT_CHUNKS;
        }
        while plan.bytes(n) > memory && plan.parts > 1 {
            plan.parts -= 1;
            plan.round_chunks = plan.parts * PRODUCT_CHUNKS;
        }
        if plan.bytes(n) > memory {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "gram of {n} features on a device: expected at least {} bytes, {memory} are available",
                    plan.bytes(n)
                ),
            ));
        }
        Ok(plan)
    }

    /// Γ in f64, products and crossed products in f32, responses in two bf16.
    fn bytes(&self, n: usize) -> u64 {
        let steps = self.round_chunks * CHUNK_BLOCKS * 32;
        (n * n) as u64 * (8 + 4 * self.parts as u64 + 4) + (n * steps) as u64 * 4
    }
}

/// Γ, Υ and the sums of `data` on the device. Does not wait for them.
pub(super) fn sums(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    delay_steps: i64,
) -> Result<DeviceSums> {
    let mut staging = context.take_slot::<Staging>();
    let spikes = DeviceSpikes::new(context, data, bank, delay_steps, CHUNK_BLOCKS, &mut staging)?;
    let gram = gram(&spikes)?;
    let behavior = behavior::sums(&spikes, data, &mut staging)?;
    context.put_slot(staging);
    Ok(DeviceSums::new(&spikes, data.outputs.len(), gram, behavior))
}

fn gram(spikes: &DeviceSpikes<'_>) -> Result<Buffer<f64>> {
    let (context, n, chunks) = (spikes.context, spikes.columns(), spikes.chunks);
    let every: Vec<i32> = (0..chunks as i32).collect();
    let states = spikes.states_at(&context.upload(&every)?, chunks)?;
    let plan = Plan::new(n, chunks, context.available_memory()?)?;
    let stride = plan.round_chunks * spikes.chunk_steps();
    let high: Buffer<u16> = context.alloc(n * stride)?;
    let low: Buffer<u16> = context.alloc(n * stride)?;
    let mut gram: Buffer<f64> = context.zeros(n * n)?;
    let mut products: Buffer<f32> = context.alloc(plan.parts * n * n)?;
    let mut cross: Buffer<f32> = context.alloc(n * n)?;
    let shared = spikes.chunk_steps() * 33 * 4;
    let get = |name, shared| context.kernel(SOURCE, &spikes.options(), name, shared);
    let respond = get("responses_event", shared)?;
    let (add, finish) = (get("add_products", 0)?, get("finish_gram", 0)?);
    let blas = context.blas()?;
    let (filters, channels) = (spikes.shapes.len() as i32, spikes.channels as i32);
    let (order, panel_rows, row_stride) = (n as i32, plan.panel as i32, stride as i32);
    let mut first = 0;
    while first < chunks {
        let here = plan.round_chunks.min(chunks - first);
        let (first_chunk, first_column) = (first as i32, 0i32);
        respond.launch(
            (n.div_ceil(32) as u32, here as u32, 1),
            (32 * spikes.chunk_blocks) as u32,
            shared,
            |a| {
                a.arg(&spikes.ticks)
                    .arg(&spikes.offsets)
                    .arg(&spikes.blocks);
                a.arg(&spikes.filter).arg(&filters).arg(&channels);
                a.arg(&states).arg(&first_chunk).arg(&first_column);
                a.arg(&order).arg(&row_stride).arg(&high).arg(&low);
            },
        )?;
        let steps = spikes.chunk_steps();
        let round = Operand {
            offset: 0,
            stride,
            batch_stride: 0,
        };
        let whole = Operand {
            offset: 0,
            stride: n,
            batch_stride: 0,
        };
        let beta = if first == 0 { 0.0 } else { 1.0 };
        blas.products_bf16(
            1,
            (n, n, here * steps),
            (&low, round),
            (&high, round),
            (1.0, beta),
            (&mut cross, whole),
        )?;
        // Half of l lᵀ, which finishing doubles: without it a copy of a channel would not be one.
        blas.products_bf16(
            1,
            (n, n, here * steps),
            (&low, round),
            (&low, round),
            (0.5, 1.0),
            (&mut cross, whole),
        )?;
        // Full sums of PRODUCT_CHUNKS, then what is left over in one shorter sum.
        let mut done = 0;
        let mut used = 0;
        while done < here {
            let length = PRODUCT_CHUNKS.min(here - done);
            let count = ((here - done) / length).min(plan.parts);
            for panel in (0..n).step_by(plan.panel) {
                let rows = plan.panel.min(n - panel);
                let source = |row: usize| Operand {
                    offset: row * stride + done * steps,
                    stride,
                    batch_stride: length * steps,
                };
                blas.products_bf16(
                    count,
                    (rows, panel + rows, length * steps),
                    (&high, source(panel)),
                    (&high, source(0)),
                    // Parts that were not yet written this round begin afresh.
                    (1.0, if used >= count { 1.0 } else { 0.0 }),
                    (
                        &mut products,
                        Operand {
                            offset: panel * n,
                            stride: n,
                            batch_stride: n * n,
                        },
                    ),
                )?;
            }
            used = used.max(count);
            done += count * length;
        }
        let parts = used as i32;
        add.launch((n.div_ceil(256) as u32, n as u32, 1), 256, 0, |a| {
            a.arg(&products)
                .arg(&parts)
                .arg(&order)
                .arg(&panel_rows)
                .arg(&mut gram);
        })?;
        first += here;
    }
    let (tiles, parts) = (n.div_ceil(32) as u32, 1i32);
    finish.launch((tiles, tiles, 1), 256, 0, |a| {
        a.arg(&cross).arg(&parts).arg(&order).arg(&mut gram);
    })?;
    Ok(gram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_use_what_they_say_and_name_the_least() {
        for n in [1, 31, 1000, 8000, 20_000] {
            for chunks in [1, 2, 7, 800, 100_000] {
                let free = Plan::new(n, chunks, u64::MAX).unwrap();
                assert_eq!(free.round_chunks % (free.parts * PRODUCT_CHUNKS), 0);
                assert!(free.round_chunks >= PRODUCT_CHUNKS && free.parts >= 1);
                // Any cap down to the least that can work gives a plan inside it.
                let error = Plan::new(n, chunks, 1).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DeviceMemory);
                let least = Plan {
                    parts: 1,
                    round_chunks: PRODUCT_CHUNKS,
                    panel: free.panel,
                }
                .bytes(n);
                assert!(error.message().contains(&least.to_string()), "{error}");
                for cap in [least, least + 1, least * 2, least * 17] {
                    assert!(Plan::new(n, chunks, cap).unwrap().bytes(n) <= cap);
                }
            }
        }
    }
}
