//! PSC filtering on a CUDA device: by the filters' recursion, or by cuFFT.
//!
//! Both give every channel's responses to every filter of a bank, from counts (u8, u16) or f32
//! samples, with any segments, in f32 within 1e-5 of a row's peak (or of a single spike's response
//! where that is larger); both start from rest at each segment. The recursion reads its input twice
//! and writes the responses once; the transforms pass over memory seven times or more, so they pay
//! where other transforms are at hand, and as a check of the recursion by different means.

mod convolve;
mod layout;
mod low_pass;
mod recursive;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use convolve::Convolver;
pub(crate) use layout::{DeviceLayout, Layout, THREADS, TILE, tile_bytes};
pub(crate) use low_pass::LowPassScan;
pub(crate) use recursive::{DeviceBank, Recursion, Rows, grid};
pub(crate) use shape::{Shape, shapes};

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_device::Room;
use betz_device::cuda::{Buffer, Context, Value};
use betz_kernels::Sample;
use betz_recording::{Segment, check_segments};
use betz_runtime::psc::{FilterBank, LowPass};

/// How responses are computed on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Whichever is faster: on every size measured so far, the recursion.
    #[default]
    Auto,
    /// The filters' recursion, in tiles of steps side by side.
    Recursion,
    /// Batched real transforms by cuFFT, overlap-save.
    Transform,
    /// The same, with transforms of (at least) this many samples.
    TransformOf(usize),
}

impl Method {
    /// The length of transform that was asked for.
    const fn length(self) -> Option<usize> {
        match self {
            Self::TransformOf(length) => Some(length),
            _ => None,
        }
    }

    const fn transforms(self) -> bool {
        matches!(self, Self::Transform | Self::TransformOf(_))
    }
}

/// Samples of several channels in host memory, row-major (channels, steps).
#[derive(Debug, Clone, Copy)]
pub enum Samples<'a> {
    /// Spike counts.
    U8(&'a [u8]),
    /// Spike counts.
    U16(&'a [u16]),
    /// Any signal.
    F32(&'a [f32]),
}

impl Samples<'_> {
    /// Number of samples, all channels together.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(s) => s.len(),
            Self::U16(s) => s.len(),
            Self::F32(s) => s.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn bytes(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::F32(_) => 4,
        }
    }

    /// Copies steps `steps` of the channels `channels` to the device, rows of `steps.len()`.
    fn upload(
        &self,
        context: &Context,
        channels: Range<usize>,
        steps: Range<usize>,
        stride: usize,
    ) -> Result<DeviceSamples> {
        fn part<T: Value>(
            context: &Context,
            samples: &[T],
            channels: Range<usize>,
            steps: Range<usize>,
            stride: usize,
        ) -> Result<Buffer<T>> {
            if steps.len() == stride {
                return context.upload(&samples[channels.start * stride..channels.end * stride]);
            }
            let mut buffer = context.alloc(channels.len() * steps.len())?;
            for (row, channel) in channels.enumerate() {
                let from = &samples[channel * stride + steps.start..][..steps.len()];
                context.upload_into(from, &mut buffer, row * steps.len())?;
            }
            Ok(buffer)
        }
        Ok(DeviceSamples(match self {
            Self::U8(s) => Kept::U8(part(context, s, channels, steps, stride)?),
            Self::U16(s) => Kept::U16(part(context, s, channels, steps, stride)?),
            Self::F32(s) => Kept::F32(part(context, s, channels, steps, stride)?),
        }))
    }
}

/// What recordings are filtered with: a bank, behind a low-pass or not.
#[derive(Debug, Clone, Copy)]
pub struct Filters<'a> {
    /// The bank.
    pub bank: &'a FilterBank,
    /// What comes before it.
    pub low_pass: Option<LowPass>,
}

/// How large a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Rows of samples.
    pub channels: usize,
    /// Samples of a row.
    pub steps: usize,
}

/// Steps to filter, `from..to`, and the step of the first sample at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) origin: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Samples of several channels in device memory, row-major (channels, steps).
pub struct DeviceSamples(Kept);

enum Kept {
    U8(Buffer<u8>),
    U16(Buffer<u16>),
    F32(Buffer<f32>),
}

impl DeviceSamples {
    /// Copies `samples` to the device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(context: &Context, samples: Samples<'_>) -> Result<Self> {
        Ok(Self(match samples {
            Samples::U8(s) => Kept::U8(context.upload(s)?),
            Samples::U16(s) => Kept::U16(context.upload(s)?),
            Samples::F32(s) => Kept::F32(context.upload(s)?),
        }))
    }
}

/// A bank, and a low-pass before it, at work on channels of one recording whose samples are in device
/// memory. Opening plans; [`run`](Self::run) takes working memory from the device's pool.
pub struct Filtering<'a> {
    context: &'a Context,
    segments: Vec<Segment>,
    steps: usize,
    channels: usize,
    filters: usize,
    layout: DeviceLayout,
    low_pass: Option<LowPassScan<'a>>,
    engine: Engine<'a>,
}

enum Engine<'a> {
    Recursion(Recursion<'a>),
    Transform(Convolver<'a>),
}

impl<'a> Filtering<'a> {
    /// For `channels` rows of `steps` samples of `step_seconds`, at rest at the start of each of
    /// `segments`.
    ///
    /// # Errors
    /// Those of [`check_segments`], of [`LowPass::check`] and of the device.
    pub fn new(
        context: &'a Context,
        Filters { bank, low_pass }: Filters<'_>,
        step_seconds: f64,
        segments: &[Segment],
        Extent { channels, steps }: Extent,
        method: Method,
    ) -> Result<Self> {
        check_segments(segments, steps as i64)?;
        let layout = Layout::new(segments, 0, steps as i64).upload(context)?;
        let low_pass = low_pass
            .map(|l| LowPassScan::new(context, l, step_seconds, channels))
            .transpose()?;
        let engine = match method {
            Method::Auto | Method::Recursion => {
                Engine::Recursion(Recursion::new(context, bank, step_seconds, channels)?)
            }
            Method::Transform | Method::TransformOf(_) => {
                let longest = segments.iter().map(Segment::len).max().unwrap_or(0);
                let length = method.length();
                let convolver = Convolver::new(context, bank, step_seconds, longest, length)?;
                Engine::Transform(convolver)
            }
        };
        Ok(Self {
            context,
            segments: segments.to_vec(),
            steps,
            channels,
            filters: bank.len(),
            layout,
            low_pass,
            engine,
        })
    }

    /// Device memory for the responses, row-major (channel × filters + filter, steps).
    ///
    /// # Errors
    /// Those of the device.
    pub fn make_responses(&self) -> Result<Buffer<f32>> {
        self.context
            .alloc(self.channels * self.filters * self.steps)
    }

    /// Computes all responses; zero outside segments. Does not wait: see [`Context::synchronize`].
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when a buffer is too short; those of the device.
    pub fn run(&mut self, samples: &DeviceSamples, responses: &mut Buffer<f32>) -> Result<()> {
        let all = Stretch {
            origin: 0,
            from: 0,
            to: self.steps as i64,
        };
        if let Engine::Recursion(recursion) = &mut self.engine {
            recursion.reset()?;
        }
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.reset()?;
        }
        self.slice(samples, all, None, responses)
    }

    /// As [`run`](Self::run) for `stretch` alone, which `layout` describes, going on from where the last
    /// left off.
    fn slice(
        &mut self,
        samples: &DeviceSamples,
        stretch: Stretch,
        layout: Option<&DeviceLayout>,
        responses: &mut Buffer<f32>,
    ) -> Result<()> {
        match &samples.0 {
            Kept::U8(s) => self.slice_of(s, stretch, layout, responses),
            Kept::U16(s) => self.slice_of(s, stretch, layout, responses),
            Kept::F32(s) => self.slice_of(s, stretch, layout, responses),
        }
    }

    fn slice_of<T: Sample>(
        &mut self,
        samples: &Buffer<T>,
        stretch: Stretch,
        layout: Option<&DeviceLayout>,
        responses: &mut Buffer<f32>,
    ) -> Result<()> {
        let Stretch { origin, from, to } = stretch;
        let (held, steps) = ((to - origin) as usize, (to - from) as usize);
        let rows = self.channels * self.filters;
        if samples.len() < self.channels * held || responses.len() < rows * steps {
            return Err(Error::mismatch(format!(
                "filters on a device: expected {} samples and room for {} responses, got {} and {}",
                self.channels * held,
                rows * steps,
                samples.len(),
                responses.len()
            )));
        }
        if rows * steps == 0 {
            return Ok(());
        }
        let layout = layout.unwrap_or(&self.layout);
        let input = Rows {
            values: samples.read(),
            stride: held,
        };
        let Some(low_pass) = &mut self.low_pass else {
            return filter(
                &mut self.engine,
                input,
                &self.segments,
                layout,
                stretch,
                self.channels,
                responses,
            );
        };
        let mut lowered: Buffer<f32> = self.context.alloc(self.channels * held)?;
        low_pass.run(input, layout, &mut lowered, held)?;
        filter(
            &mut self.engine,
            Rows {
                values: lowered.read(),
                stride: held,
            },
            &self.segments,
            layout,
            stretch,
            self.channels,
            responses,
        )
    }
}

fn filter<T: Sample>(
    engine: &mut Engine<'_>,
    input: Rows<'_, T>,
    segments: &[Segment],
    layout: &DeviceLayout,
    stretch: Stretch,
    channels: usize,
    responses: &mut Buffer<f32>,
) -> Result<()> {
    let steps = (stretch.to - stretch.from) as usize;
    match engine {
        Engine::Recursion(recursion) => recursion.run(input, layout, responses, steps),
        Engine::Transform(convolver) => {
            convolver.run(input, segments, stretch, channels, responses, steps)
        }
    }
}

/// Responses of every channel of `samples`, `steps` samples each, to every filter of the bank,
/// row-major (channel × filters + filter, steps); zero outside `segments`, at rest at
/// each one's start.
///
/// What does not fit the device's free memory (or its cap) goes in groups of channels, and where not
/// even one channel fits, in slices of time. Allocates the result.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `samples` are not whole rows; those of [`check_segments`], of
/// [`LowPass::check`] and of the device: [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) when not even one tile of one
/// channel fits, with how much would.
pub fn responses(
    context: &Context,
    samples: Samples<'_>,
    steps: usize,
    segments: &[Segment],
    filters: Filters<'_>,
    step_seconds: f64,
    method: Method,
) -> Result<Vec<f32>> {
    responses_within(
        Room::of(context)?,
        samples,
        steps,
        segments,
        filters,
        step_seconds,
        method,
    )
}

fn responses_within(
    Room { context, memory }: Room<'_>,
    samples: Samples<'_>,
    steps: usize,
    segments: &[Segment],
    filters: Filters<'_>,
    step_seconds: f64,
    method: Method,
) -> Result<Vec<f32>> {
    if steps == 0 || !samples.len().is_multiple_of(steps) {
        return Err(Error::mismatch(format!(
            "filters on a device: expected rows of {steps} samples, got {}",
            samples.len()
        )));
    }
    let Filters { bank, low_pass } = filters;
    let (channels, rows_each) = (samples.len() / steps, bank.len());
    check_segments(segments, steps as i64)?;
    let taps = if method.transforms() && low_pass.is_none() {
        let longest = segments.iter().map(Segment::len).max().unwrap_or(0);
        Convolver::new(context, bank, step_seconds, longest, method.length())?.taps - 1
    } else {
        0
    };
    let size = samples.bytes() + 4 * rows_each + if low_pass.is_some() { 4 } else { 0 };
    let parts = Parts::new(memory, channels, steps, size, bank, taps)?;
    // Behind a low-pass the transforms would want its output's past, which no slice holds.
    let method = match low_pass {
        Some(_) if parts.steps < steps => Method::Recursion,
        _ => method,
    };
    let mut result = vec![0.0; channels * rows_each * steps];
    let mut first = 0;
    while first < channels {
        let group = first..channels.min(first + parts.channels);
        let mut filtering = Filtering::new(
            context,
            filters,
            step_seconds,
            segments,
            Extent {
                channels: group.len(),
                steps,
            },
            method,
        )?;
        if let Engine::Transform(convolver) = &mut filtering.engine {
            convolver.room = Some(memory / 2);
        }
        for from in (0..steps).step_by(parts.steps) {
            let to = steps.min(from + parts.steps);
            let origin = from - taps.min(from);
            let layout = Layout::new(segments, from as i64, to as i64).upload(context)?;
            let here = samples.upload(context, group.clone(), origin..to, steps)?;
            let mut responses = context.alloc(group.len() * rows_each * (to - from))?;
            let stretch = Stretch {
                origin: origin as i64,
                from: from as i64,
                to: to as i64,
            };
            filtering.slice(&here, stretch, Some(&layout), &mut responses)?;
            drop(here);
            let rows = group.start * rows_each..group.end * rows_each;
            if to - from == steps {
                let target = &mut result[rows.start * steps..rows.end * steps];
                context.download_into(&responses, 0, target)?;
            } else {
                for (i, row) in rows.enumerate() {
                    let target = &mut result[row * steps + from..row * steps + to];
                    context.download_into(&responses, i * (to - from), target)?;
                }
            }
        }
        first = group.end;
    }
    Ok(result)
}

/// How much of a recording is on the device at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    channels: usize,
    steps: usize,
}

impl Parts {
    /// Within `memory` bytes: `size` bytes per step and channel and the rows' own, with `history`
    /// steps before each slice. Half of the memory is left to the transforms' rows.
    fn new(
        memory: u64,
        channels: usize,
        steps: usize,
        size: usize,
        bank: &FilterBank,
        history: usize,
    ) -> Result<Self> {
        let room = (memory / 2) as usize;
        let bytes = |steps: usize| {
            let tiles = steps.div_ceil(TILE);
            (steps + history) * size + tiles * (Recursion::tile_bytes(bank) + 8 * THREADS + 128)
        };
        if channels == 0 || bytes(steps) <= room {
            let channels = (room / bytes(steps).max(1)).clamp(1, channels.max(1));
            return Ok(Self { channels, steps });
        }
        let mut slice = steps.div_ceil(TILE);
        while slice > 1 && bytes(slice * TILE) > room {
            slice = slice.div_ceil(2);
        }
        if bytes(slice * TILE) > room {
            let needed = 2 * bytes(TILE) as u64;
            return Err(Error::device_memory("filters on a device", needed, memory));
        }
        Ok(Self {
            channels: 1,
            steps: slice * TILE,
        })
    }
}
