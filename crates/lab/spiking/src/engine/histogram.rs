//! Histograms of the weights of synapses that learn.

use betz_base::{Error, Result};

use super::Engine;

impl Engine {
    /// Numbers of a projection's synapses whose weights lie in each of `bins` equal parts of the range from the lower to the
    /// upper bound of its plasticity, as they are now. It takes the time of [`Engine::weights`].
    ///
    /// # Errors
    /// `InvalidArgument` for a projection that does not exist or does not learn, and for no bins.
    pub fn weight_histogram(&self, projection: usize, bins: usize) -> Result<Vec<u64>> {
        let of = self.network.projections.get(projection);
        let Some(plasticity) = of.and_then(|of| of.plasticity).filter(|_| bins > 0) else {
            return Err(Error::argument(format!(
                "histogram of weights: expected a projection that learns and at least one bin, got projection {projection} and {bins} bins"
            )));
        };
        let mut counts = vec![0; bins];
        let width = (plasticity.high - plasticity.low) / bins as f64;
        for synapse in self.weights(projection)? {
            let bin = (f64::from(synapse.weight) - plasticity.low) / width;
            // Weights at the bounds may be rounded beyond them.
            counts[(bin.max(0.0) as usize).min(bins - 1)] += 1;
        }
        Ok(counts)
    }
}
