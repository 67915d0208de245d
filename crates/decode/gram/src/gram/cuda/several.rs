//! Work on several devices at once: a thread each.

use std::sync::Arc;

use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::Context;

/// `work` on every context, with its place among them: the first context's result, then the others'
/// in order. The first runs on this thread.
pub(super) fn each<'a, T: Send>(
    contexts: &'a [Arc<Context>],
    work: impl Fn(usize, &'a Context) -> Result<T> + Sync,
) -> Result<(T, Vec<T>)> {
    let [first, others @ ..] = contexts else {
        return Err(Error::new(ErrorKind::Internal, "no device to work on"));
    };
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(others)
            .map(|(i, context)| scope.spawn(move || work(i, context)))
            .collect();
        let first = work(0, first);
        let others: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                let panicked = || Error::new(ErrorKind::Internal, "a device's thread panicked");
                thread.join().unwrap_or_else(|_| Err(panicked()))
            })
            .collect();
        Ok((first?, others.into_iter().collect::<Result<_>>()?))
    })
}
