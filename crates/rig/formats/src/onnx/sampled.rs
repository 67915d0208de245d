//! Sampled filters as one Conv over the weighted counts of the latest steps.

use betz_base::Result;
use betz_runtime::psc::SampledFilter;

use super::proto::{DOUBLE, FLOAT, Graph};
use super::slice;

/// From `drive`, (filters, latents), to the sum of the filters' responses, (1, latents); its name. A latent is an item of
/// the batch, and a filter is a channel: Σ over filters f and ages m of h_f\[m\]·x_f\[t − m\].
///
/// # Errors
/// `InvalidArgument` for a filter that looks ahead.
pub(super) fn response(
    graph: &mut Graph,
    filters: &[SampledFilter],
    drive: &str,
    latents: usize,
) -> Result<String> {
    let samples: Vec<Vec<f64>> = (filters.iter())
        .map(SampledFilter::causal_samples)
        .collect::<Result<_>>()?;
    let (count, length) = (
        samples.len(),
        samples.iter().map(Vec::len).max().unwrap_or(0),
    );
    // The newest step is the last one.
    let kernel: Vec<f32> = (samples.iter())
        .flat_map(|h| {
            let ages = (0..length).rev();
            ages.map(|age| h.get(age).copied().unwrap_or(0.0) as f32)
        })
        .collect();
    let kernel = graph.floats(&[1, count, length], &kernel);
    let newest = graph.node("Transpose", &[drive]);
    let shape = graph.integers(&[latents as i64, count as i64, 1]);
    let newest = graph.node("Reshape", &[&newest, &shape]);
    let mut steps = newest;
    if length > 1 {
        let dims = [latents, count, length - 1];
        let before = graph.state("history", &dims);
        steps = graph.node_with("Concat", &[&before, &steps], &[("axis", 2)]);
        let next = slice(graph, &steps, 1..length, 2);
        graph.next_state("history", &next, &dims);
    }
    let single = graph.node_with("Cast", &[&steps], &[("to", FLOAT)]);
    let sum = graph.node("Conv", &[&single, &kernel]);
    let shape = graph.integers(&[1, latents as i64]);
    let sum = graph.node("Reshape", &[&sum, &shape]);
    Ok(graph.node_with("Cast", &[&sum], &[("to", DOUBLE)]))
}
