//! The windows of a network as words.

use betz_base::{Error, ErrorKind, Result};

use crate::network::Network;
use crate::oracle::UndefinedReason;

/// The windows of `network`, to be sent or kept.
pub(crate) fn to_words(network: &Network) -> Vec<u64> {
    let meta = &network.meta;
    let mut to = vec![meta.rechecked, meta.rebuilt, meta.extreme];
    to.extend(
        [
            network.len(),
            network.r.len(),
            network.lag.len(),
            network.undefined.len(),
        ]
        .map(|n| n as u64),
    );
    to.extend(&network.window_start);
    to.extend(&network.indptr);
    to.extend(&network.undefined_indptr);
    let pair = |(i, j): (&u32, &u32)| u64::from(*i) << 32 | u64::from(*j);
    to.extend(network.i.iter().zip(&network.j).map(pair));
    to.extend(network.r.iter().map(|r| u64::from(r.to_bits())));
    to.extend(network.lag.iter().map(|&lag| lag as u16 as u64));
    let why = |(node, why): (&u32, &UndefinedReason)| {
        u64::from(*node) << 1 | u64::from(*why == UndefinedReason::NonFinite)
    };
    to.extend(network.undefined.iter().zip(&network.why).map(why));
    to
}

/// Appends the windows of [`to_words`], of which nothing but their number is checked.
///
/// # Errors
/// [`ErrorKind::Mismatch`] for fewer words than they promise, or more.
pub(crate) fn absorb(whole: &mut Network, words: &[u64]) -> Result<()> {
    let mut rest = words;
    let mut take = |count: u64| {
        let parts = usize::try_from(count)
            .ok()
            .and_then(|count| rest.split_at_checked(count));
        let (taken, left) = parts.ok_or_else(|| {
            Error::new(
                ErrorKind::Mismatch,
                format!(
                    "a part of a network: expected {count} words more, got {}",
                    rest.len()
                ),
            )
        })?;
        rest = left;
        Ok::<&[u64], Error>(taken)
    };
    let head = take(7)?;
    let (windows, edges, lags, undefined) = (head[3], head[4], head[5], head[6]);
    whole.meta.rechecked += head[0];
    whole.meta.rebuilt += head[1];
    whole.meta.extreme += head[2];
    let (before, gone) = (whole.r.len() as u64, whole.undefined.len() as u64);
    whole.window_start.extend(take(windows)?);
    let ends = |from: &[u64], before: u64| {
        from.iter()
            .skip(1)
            .map(move |at| at + before)
            .collect::<Vec<_>>()
    };
    whole
        .indptr
        .extend(ends(take(windows.saturating_add(1))?, before));
    whole
        .undefined_indptr
        .extend(ends(take(windows.saturating_add(1))?, gone));
    for pair in take(edges)? {
        whole.i.push((pair >> 32) as u32);
        whole.j.push(*pair as u32);
    }
    whole
        .r
        .extend(take(edges)?.iter().map(|&r| f32::from_bits(r as u32)));
    whole
        .lag
        .extend(take(lags)?.iter().map(|&lag| lag as u16 as i16));
    for node in take(undefined)? {
        whole.undefined.push((node >> 1) as u32);
        whole.why.push(if node & 1 == 1 {
            UndefinedReason::NonFinite
        } else {
            UndefinedReason::Constant
        });
    }
    match rest.len() {
        0 => Ok(()),
        more => Err(Error::new(
            ErrorKind::Mismatch,
            format!("a part of a network: expected no more words, got {more}"),
        )),
    }
}
