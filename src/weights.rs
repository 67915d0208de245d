//! A decoder's weights as the matrices of other crates, without a copy.
//!
//! Weights φ of the linear engine have a row per channel and filter (channel × filters + filter), and a column per latent.
//! Latents are the outputs, unless the decoder has a head. Add `Decoder::intercept` to the product.

use crate::model::Decoder;

/// Channels × filters, and latents.
fn shape(decoder: &Decoder) -> (usize, usize) {
    let latents = decoder.latents();
    (decoder.weights().len() / latents.max(1), latents)
}

/// φ for `nalgebra`, (channels × filters, latents).
#[cfg(feature = "nalgebra")]
pub fn nalgebra(decoder: &Decoder) -> NalgebraView<'_> {
    let (rows, columns) = shape(decoder);
    NalgebraView::from_slice_with_strides(decoder.weights(), rows, columns, columns, 1)
}

/// A view of a matrix whose rows lie one after the other.
#[cfg(feature = "nalgebra")]
pub type NalgebraView<'a> = nalgebra::DMatrixView<'a, f64, nalgebra::Dyn, nalgebra::Dyn>;

/// φ for `ndarray`, (channels × filters, latents).
#[cfg(feature = "ndarray")]
#[allow(clippy::expect_used, reason = "the shape is that of the weights")]
pub fn ndarray(decoder: &Decoder) -> ndarray::ArrayView2<'_, f64> {
    ndarray::ArrayView2::from_shape(shape(decoder), decoder.weights())
        .expect("as many weights as the shape says")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::DecoderParts;
    use crate::psc::{Filter, FilterBank};

    #[test]
    fn rows_are_channels_by_filters_and_columns_latents() {
        let filter = |tau_seconds| Filter {
            tau_seconds,
            order: 0,
        };
        let bank = FilterBank::new(vec![filter(0.1), filter(0.2)]).unwrap();
        let channels = ["a", "b", "c"].map(Into::into).to_vec();
        let weights: Vec<f64> = (0..12).map(f64::from).collect();
        let decoder = Decoder::new(DecoderParts {
            weights: weights.clone(),
            intercept: vec![0.0; 2],
            ..DecoderParts::linear(0.01, bank, channels, vec!["x".into(), "y".into()])
        });
        let decoder = decoder.unwrap();
        // Channel 2, filter 1, output 0.
        let expected = weights[(2 * 2 + 1) * 2];
        #[cfg(feature = "nalgebra")]
        {
            let view = nalgebra(&decoder);
            assert_eq!((view.shape(), view[(5, 0)]), ((6, 2), expected));
        }
        #[cfg(feature = "ndarray")]
        {
            let view = ndarray(&decoder);
            assert_eq!((view.dim(), view[[5, 0]]), ((6, 2), expected));
        }
    }
}
