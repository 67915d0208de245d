//! The part of frames that is used: a channel, a rectangle, blocks of pixels.

use std::f64::consts::{FRAC_PI_3, TAU};

use betz::network::file::Positions;
use betz::recording::arrays::Values;
use betz::{Error, Result};
use clap::ValueEnum;

use super::super::args::{InputArgs, Rectangle, Region};
use super::{Frame, FrameSamples};

/// A value of every pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Channel {
    /// Brightness: 0.299 red + 0.587 green + 0.114 blue; of a video, its luma
    #[default]
    #[value(alias = "gray")]
    Grey,
    /// Hue in radians from 0 (red) to 2π; a pixel without colour has none
    Hue,
    /// Red
    Red,
    /// Green
    Green,
    /// Blue
    Blue,
}

/// The part of every frame that is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct View {
    channel: Channel,
    region: Option<Rectangle>,
    /// Width and height of the blocks whose mean is a node.
    block: usize,
}

impl View {
    pub(in super::super) fn of(from: &InputArgs) -> Self {
        Self {
            channel: from.channel.unwrap_or_default(),
            region: match from.region {
                Some(Region::Rectangle(rectangle)) => Some(rectangle),
                _ => None,
            },
            block: from.downsample.map_or(1, |n| n.get()),
        }
    }

    /// True if every pixel of a grey frame is a node.
    pub(super) fn is_whole(self) -> bool {
        self.channel == Channel::Grey && self.region.is_none() && self.block == 1
    }

    /// True if grey alone is not enough.
    pub(super) fn needs_colour(self) -> bool {
        self.channel != Channel::Grey
    }

    /// The rectangle that is used of frames of this size.
    fn rectangle(self, width: usize, height: usize) -> Rectangle {
        self.region.unwrap_or(Rectangle {
            x: 0,
            y: 0,
            width,
            height,
        })
    }

    /// Middles of the nodes, in pixels of the frame: (x, y), x to the right, y down.
    pub(super) fn positions(self, width: usize, height: usize) -> Positions {
        let of = self.rectangle(width, height);
        let middle = (self.block - 1) as f64 / 2.0;
        let along = |first: usize, at: usize| (first + at * self.block) as f64 + middle;
        let (columns, rows) = (of.width / self.block, of.height / self.block);
        Positions {
            values: (0..rows)
                .flat_map(|row| {
                    (0..columns).flat_map(move |column| [along(of.x, column), along(of.y, row)])
                })
                .collect(),
            axes: 2,
        }
    }

    /// Refuses a view that does not fit a frame.
    fn check(self, frame: &Frame<'_>) -> Result<Rectangle> {
        let of = self.rectangle(frame.width, frame.height);
        let within = |first: usize, length: usize, all: usize| {
            first.checked_add(length).is_some_and(|end| end <= all)
        };
        if !within(of.x, of.width, frame.width) || !within(of.y, of.height, frame.height) {
            return Err(Error::argument(format!(
                "--region: expected a rectangle within frames of {} × {} pixels (width × height), got x {}, y {}, width {}, height {}",
                frame.width, frame.height, of.x, of.y, of.width, of.height
            )));
        }
        if self.block > of.width || self.block > of.height {
            return Err(Error::argument(format!(
                "--downsample: expected at most {}, the shorter side of {} × {} pixels, got {}",
                of.width.min(of.height),
                of.width,
                of.height,
                self.block
            )));
        }
        if self.needs_colour() && frame.channels == 1 {
            return Err(Error::argument(format!(
                "--channel: expected grey, as the frames have no colour, got {}",
                self.channel.name()
            )));
        }
        Ok(of)
    }

    /// Adds the nodes' values in `frame` to `out`: of the frame's type if they are some of its samples, else f32, or
    /// f64 if the frame's are.
    pub(super) fn take(self, frame: &Frame<'_>, out: &mut Option<Values>) -> Result<()> {
        let of = self.check(frame)?;
        let one = match (self.channel, frame.channels) {
            (Channel::Grey, 1) | (Channel::Red, _) => Some(0),
            (Channel::Green, _) => Some(1),
            (Channel::Blue, _) => Some(2),
            _ => None,
        };
        let (columns, rows) = (of.width / self.block, of.height / self.block);
        macro_rules! copied {
            ($kind:ident, $samples:expr, $channel:expr) => {{
                let Values::$kind(to) = out.get_or_insert(Values::$kind(Vec::new())) else {
                    return Err(mixed());
                };
                make_room(to, columns * rows)?;
                for y in of.y..of.y + of.height {
                    let row = &$samples[y * frame.width * frame.channels..];
                    to.extend((of.x..of.x + of.width).map(|x| row[x * frame.channels + $channel]));
                }
            }};
        }
        if let (Some(channel), 1) = (one, self.block) {
            match frame.samples {
                FrameSamples::U8(v) => copied!(U8, v, channel),
                FrameSamples::U16(v) => copied!(U16, v, channel),
                FrameSamples::I16(v) => copied!(I16, v, channel),
                FrameSamples::F32(v) => copied!(F32, v, channel),
                FrameSamples::F64(v) => copied!(F64, v, channel),
            }
            return Ok(());
        }
        let mut put: Box<dyn FnMut(f64) + '_> = match frame.samples {
            FrameSamples::F64(_) => {
                let Values::F64(to) = out.get_or_insert(Values::F64(Vec::new())) else {
                    return Err(mixed());
                };
                make_room(to, columns * rows)?;
                Box::new(|v| to.push(v))
            }
            _ => {
                let Values::F32(to) = out.get_or_insert(Values::F32(Vec::new())) else {
                    return Err(mixed());
                };
                make_room(to, columns * rows)?;
                Box::new(|v| to.push(v as f32))
            }
        };
        for row in 0..rows {
            for column in 0..columns {
                let (x, y) = (of.x + column * self.block, of.y + row * self.block);
                put(self.mean(frame, x, y));
            }
        }
        Ok(())
    }

    /// Mean over the block whose first pixel is (x, y); of angles the mean direction.
    fn mean(self, frame: &Frame<'_>, x: usize, y: usize) -> f64 {
        let pixels =
            || (y..y + self.block).flat_map(move |y| (x..x + self.block).map(move |x| (x, y)));
        let value = |(x, y)| self.value(frame, x, y);
        if self.block == 1 {
            return value((x, y));
        }
        if self.channel != Channel::Hue {
            return pixels().map(value).sum::<f64>() / (self.block * self.block) as f64;
        }
        let (mut sin, mut cos, mut count) = (0.0, 0.0, 0.0);
        for hue in pixels().map(value).filter(|hue| !hue.is_nan()) {
            (sin, cos, count) = (sin + hue.sin(), cos + hue.cos(), count + 1.0);
        }
        // Opposite hues have no mean direction.
        if sin.hypot(cos) > 1e-9 * count {
            sin.atan2(cos).rem_euclid(TAU)
        } else {
            f64::NAN
        }
    }

    fn value(self, frame: &Frame<'_>, x: usize, y: usize) -> f64 {
        let at = (y * frame.width + x) * frame.channels;
        let one = |channel: usize| frame.samples.at(at + channel);
        if frame.channels == 1 {
            return one(0);
        }
        match self.channel {
            Channel::Grey => (299.0 * one(0) + 587.0 * one(1) + 114.0 * one(2)) / 1000.0,
            Channel::Hue => hue(one(0), one(1), one(2)),
            Channel::Red => one(0),
            Channel::Green => one(1),
            Channel::Blue => one(2),
        }
    }
}

impl Channel {
    fn name(self) -> &'static str {
        match self {
            Self::Grey => "grey",
            Self::Hue => "hue",
            Self::Red => "red",
            Self::Green => "green",
            Self::Blue => "blue",
        }
    }
}

/// Angle of a colour in the hexagon of hues (HSV), in radians: red 0, green 2π/3, blue 4π/3; NaN for greys.
fn hue(red: f64, green: f64, blue: f64) -> f64 {
    let most = red.max(green).max(blue);
    let spread = most - red.min(green).min(blue);
    if spread.is_nan() || spread <= 0.0 {
        return f64::NAN;
    }
    let sixths = if most == red {
        (green - blue) / spread
    } else if most == green {
        (blue - red) / spread + 2.0
    } else {
        (red - green) / spread + 4.0
    };
    (sixths * FRAC_PI_3).rem_euclid(TAU)
}

fn make_room<T>(of: &mut Vec<T>, more: usize) -> Result<()> {
    let length = of.len() + more;
    if length > of.capacity() {
        // A list that grows doubles.
        let grown = length.max(2 * of.capacity());
        betz::memory::plan("frames", grown as u128 * size_of::<T>() as u128)?;
    }
    (of.try_reserve(more)).map_err(|_| Error::no_memory("frames", more * size_of::<T>()))
}

/// Every frame has the first one's type.
fn mixed() -> Error {
    Error::recording("expected frames of one type, got another")
}
