//! Names of recordings' sums, by which none is added twice.
//!
//! A name is a hash of the sums. Equal sums of a few steps, such as two rows of counts, do not show that they are of the
//! same rows. Their names say that they are short; one that is there already is replaced by the next of a chain of names
//! that the first one determines. So the names of merged sums do not depend on the order of merging either.

use betz_base::hash::Fnv1a;

/// Fewest steps whose equal sums are taken for those of the same recording.
const LEAST_STEPS: u64 = 32;

/// The first 16 bits of names of shorter recordings.
const SHORT: u64 = 0x5b07;

/// The name of sums over `steps` steps whose hash is `hash`.
pub(super) fn of(hash: u64, steps: u64) -> u64 {
    if steps < LEAST_STEPS {
        return short(hash);
    }
    hash
}

/// True if a recording of more than a few steps is in both lists, which are ascending.
pub(super) fn share(names: &[u64], others: &[u64]) -> bool {
    let long = others.iter().filter(|name| !is_short(**name));
    long.into_iter()
        .any(|name| names.binary_search(name).is_ok())
}

/// Adds `others` to `names`, which share none of more than a few steps; both are ascending.
pub(super) fn add(names: &mut Vec<u64>, others: &[u64]) {
    for &other in others {
        let mut name = other;
        let place = loop {
            match names.binary_search(&name) {
                Ok(_) => name = next(name),
                Err(place) => break place,
            }
        };
        names.insert(place, name);
    }
}

fn is_short(name: u64) -> bool {
    name >> 48 == SHORT
}

fn short(hash: u64) -> u64 {
    SHORT << 48 | hash >> 16
}

/// The name after `name`, of sums that equal its own.
fn next(name: u64) -> u64 {
    let mut hash = Fnv1a::new();
    hash.bytes(&name.to_le_bytes());
    short(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_short_recordings_are_all_added_in_any_order() {
        let [a, b, long] = [of(1 << 40, 3), of(7 << 50, 1), of(9, 1000)];
        let merged = |parts: &[&[u64]]| {
            let mut names = Vec::new();
            parts.iter().for_each(|part| add(&mut names, part));
            names
        };
        let pair = merged(&[&[a], &[a]]);
        let one = merged(&[&[a], &[b], &[a], &[long], &[a]]);
        let other = merged(&[&[long], &pair, &[a], &[b]]);
        assert_eq!((one.len(), &one), (5, &other));
        assert!(one.is_sorted_by(|x, y| x < y));
        assert!(share(&one, &[long]) && !share(&one, &pair));
    }
}
