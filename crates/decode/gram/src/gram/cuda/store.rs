//! Where Γ is once it is summed.

use std::ops::Range;

use super::plan::CHUNK_BLOCKS;
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::gram::AddInto;

/// Γ, n × n, both triangles.
pub(crate) enum Gram {
    Device(Buffer<f64>),
    /// It does not fit the device.
    Host(Vec<f64>),
}

impl Default for Gram {
    fn default() -> Self {
        Self::Host(Vec::new())
    }
}

impl Gram {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Device(buffer) => buffer.len(),
            Self::Host(values) => values.len(),
        }
    }

    /// Its first `len` elements in host memory.
    pub(super) fn to_host(&self, context: &Context, len: usize) -> Result<Vec<f64>> {
        match self {
            Self::Device(buffer) => context.download(buffer, len),
            Self::Host(values) => Ok(values.clone()),
        }
    }

    /// As [`Gram::to_host`], without a copy of what is there.
    pub(super) fn into_host(self, context: &Context, len: usize) -> Result<Vec<f64>> {
        match self {
            Self::Device(buffer) => context.download(&buffer, len),
            Self::Host(values) => Ok(values),
        }
    }

    /// Adds what `peer` has summed, on `context`.
    pub(super) fn add(&mut self, context: &Context, peer: &Context, other: Self) -> Result<()> {
        if let (Self::Device(target), Self::Device(source)) = (&mut *self, &other) {
            return add(context, target, peer, source);
        }
        let len = other.len();
        let mut sum = std::mem::take(self).into_host(context, len)?;
        for (a, b) in sum.iter_mut().zip(other.into_host(peer, len)?) {
            *a += b;
        }
        *self = Self::Host(sum);
        Ok(())
    }

    /// Some of its rows of `n` values.
    pub(super) fn rows(&self, context: &Context, n: usize, rows: Range<usize>) -> Result<Vec<f64>> {
        let range = rows.start * n..rows.end * n;
        match self {
            Self::Device(buffer) => context.download_range(buffer, range),
            Self::Host(values) => Ok(values[range].to_vec()),
        }
    }
}

/// Adds `source` on the device of `peer` to `target` on that of `context`, a piece at a time: a second Γ
/// need not fit.
pub(super) fn add(
    context: &Context,
    target: &mut Buffer<f64>,
    peer: &Context,
    source: &Buffer<f64>,
) -> Result<()> {
    const MOST: usize = 4 << 20;
    // Half as much as Γ at most: what products took is free by then.
    let piece = source.len().div_ceil(2).clamp(1, MOST);
    let mut here: Buffer<f64> = context.alloc(piece)?;
    let kernel = context.load::<AddInto>(&options(), 0)?;
    for from in (0..source.len()).step_by(piece) {
        let range = from..source.len().min(from + piece);
        let len = range.len();
        context.copy_from_peer(peer, source, range, &mut here)?;
        let arguments = AddInto {
            b: here.read(),
            count: len as u64,
            first: from as u64,
            a: target.update(),
        };
        kernel.launch((len.div_ceil(256) as u32, 1, 1), 256, arguments)?;
    }
    Ok(())
}

/// Options of kernels that have to do with no filter.
pub(super) fn options() -> Vec<String> {
    vec!["-DORDER=0".to_owned(), format!("-DBLOCKS={CHUNK_BLOCKS}")]
}

/// Visits the blocks of one triangle of Γ cut in `count` × `count`: (row, column), a row's diagonal
/// block first. Says how far it is, and stops between blocks when asked to.
pub(super) fn triangle(
    count: usize,
    progress: &dyn Progress,
    mut visit: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let total = (count * (count + 1) / 2) as u64;
    let blocks =
        (0..count).flat_map(|row| std::iter::once(row).chain(0..row).map(move |c| (row, c)));
    for ((row, column), done) in blocks.zip(1..) {
        progress::check(progress, "gram")?;
        visit(row, column)?;
        progress.update("gram", done, total);
    }
    Ok(())
}

/// Copies a block of Γ to its place in host memory, and to its mirror image's. Waits.
pub(super) fn place(
    context: &Context,
    block: &Buffer<f64>,
    gram: &mut [f64],
    n: usize,
    rows: &Range<usize>,
    columns: &Range<usize>,
) -> Result<()> {
    let width = columns.len();
    context.download_pieces(block, rows.len() * width, |from, values| {
        for (at, &value) in (from..).zip(values) {
            let (i, j) = (rows.start + at / width, columns.start + at % width);
            gram[i * n + j] = value;
            gram[j * n + i] = value;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use betz_base::error::ErrorKind;

    /// Keeps what it is told, and asks to stop after some blocks.
    struct Listener(Mutex<Vec<(u64, u64)>>, usize);

    impl Progress for Listener {
        fn update(&self, stage: &str, done: u64, total: u64) {
            assert_eq!(stage, "gram");
            self.0.lock().unwrap().push((done, total));
        }

        fn cancelled(&self) -> bool {
            self.0.lock().unwrap().len() >= self.1
        }
    }

    #[test]
    fn a_triangle_is_visited_once_and_left_when_asked_to_stop() {
        let listener = Listener(Mutex::default(), 100);
        let mut seen = Vec::new();
        let visit = |row, column| {
            seen.push((row, column));
            Ok(())
        };
        triangle(3, &listener, visit).unwrap();
        assert_eq!(seen, [(0, 0), (1, 1), (1, 0), (2, 2), (2, 0), (2, 1)]);
        let told = listener.0.into_inner().unwrap();
        assert_eq!(told, (1..=6).map(|done| (done, 6)).collect::<Vec<_>>());
        let listener = Listener(Mutex::default(), 2);
        let mut visits = 0;
        let stopped = triangle(3, &listener, |_, _| {
            visits += 1;
            Ok(())
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(visits, 2);
    }
}
