//! Sources of samples.

use betz_base::{Error, Result};

/// Rows of 16-bit samples, read a block at a time.
pub trait Voltage {
    /// Samples of a row.
    fn channels(&self) -> usize;

    /// Rows there are.
    fn rows(&self) -> u64;

    /// Fills `samples`, whole rows, from row `from` on; how many rows it was, fewer only at the end.
    ///
    /// # Errors
    /// The errors of the file.
    fn read(&mut self, from: u64, samples: &mut [i16]) -> Result<usize>;
}

/// Samples in memory, (rows, channels).
#[derive(Debug, Clone, Copy)]
pub struct InMemory<'a> {
    samples: &'a [i16],
    channels: usize,
}

impl<'a> InMemory<'a> {
    /// Samples of so many channels.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when they make no whole rows.
    pub fn new(samples: &'a [i16], channels: usize) -> Result<Self> {
        if channels == 0 || !samples.len().is_multiple_of(channels) {
            return Err(Error::mismatch(format!(
                "samples: expected whole rows of {channels} channels, got {} samples",
                samples.len()
            )));
        }
        Ok(Self { samples, channels })
    }
}

impl Voltage for InMemory<'_> {
    fn channels(&self) -> usize {
        self.channels
    }

    fn rows(&self) -> u64 {
        (self.samples.len() / self.channels) as u64
    }

    fn read(&mut self, from: u64, samples: &mut [i16]) -> Result<usize> {
        let from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(self.samples.len() / self.channels);
        let there = &self.samples[from * self.channels..];
        let now = there.len().min(samples.len());
        samples[..now].copy_from_slice(&there[..now]);
        Ok(now / self.channels)
    }
}

/// Hands rows `from..until` to `take`, a block at a time, until it says stop (`false`).
#[cfg(feature = "train")]
pub(crate) fn for_each_block(
    voltage: &mut dyn Voltage,
    rows: std::ops::Range<u64>,
    take: &mut dyn FnMut(&[i16]) -> Result<bool>,
) -> Result<()> {
    let channels = voltage.channels();
    let at_once = ((1 << 18) / channels).max(1);
    let mut block = vec![0; at_once * channels];
    let mut at = rows.start;
    while at < rows.end {
        let wanted = (rows.end - at).min(at_once as u64) as usize;
        let got = voltage.read(at, &mut block[..wanted * channels])?;
        if got == 0 || !take(&block[..got * channels])? {
            break;
        }
        at += got as u64;
    }
    Ok(())
}
