//! Training from binned counts on CUDA devices, without turning them into spikes.

use super::device::Trained;
use super::device::cuda::decoder;
use super::fit;
use super::options::{RidgeChoice, TrainOptions};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_device::{Device, Placement};
use betz_gram::gram::GramPath;
use betz_gram::gram::cuda::{CountRecording, device_sums_of_counts};
use betz_recording::{DatasetView, OutputInfo, SpikesView};

/// [`train_on`](super::train_on) for counts, which go through the dense path on the contexts of
/// `device` as they are. `channel_names` and `outputs` name what the recording counts.
///
/// # Errors
/// As [`train_on`](super::train_on); [`ErrorKind::DeviceUnavailable`] for the CPU;
/// [`ErrorKind::InvalidArgument`] for a low-pass, and for noise in parts of the largest response.
pub fn train_counts_on(
    device: &Device,
    recording: &CountRecording<'_>,
    channel_names: &[String],
    outputs: &[OutputInfo],
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Trained> {
    if options.low_pass.is_some() || matches!(options.ridge, RidgeChoice::RelativeNoise(_)) {
        return Err(Error::argument(
            "training from counts: expected no low-pass and a ridge or noise of given size",
        ));
    }
    if (channel_names.len(), outputs.len()) != (recording.channels, recording.outputs) {
        return Err(Error::mismatch(format!(
            "training from counts: expected names of {} channels and {} outputs, got {} and {}",
            recording.channels,
            recording.outputs,
            channel_names.len(),
            outputs.len()
        )));
    }
    let placement = Placement::on(device);
    let Some(context) = placement.contexts().first() else {
        return Err(Error::new(
            ErrorKind::DeviceUnavailable,
            "training from counts: expected a CUDA device, got the CPU",
        ));
    };
    // What the decoder's record says of the data; the counts themselves stay where they are.
    let data = DatasetView {
        step_seconds: recording.step_seconds,
        steps: recording.steps,
        channel_names,
        spikes: SpikesView::default(),
        segments: recording.segments,
        outputs,
        behavior: &[],
    };
    fit::check_form(&data, std::slice::from_ref(&options.bank))?;
    let sums = device_sums_of_counts(
        placement.contexts(),
        recording,
        &options.bank,
        options.delay_steps,
        options.precision,
        progress,
    )?;
    let Some(sums) = sums else {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            "training from counts: expected channels and paired steps, got none",
        ));
    };
    let path = GramPath::Dense;
    Ok(Trained {
        decoder: decoder(context, &data, options, &sums, path, progress)?,
        ran: placement.ran(path.name()),
        gram_error: sums.sampled,
    })
}
