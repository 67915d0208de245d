//! Surrogates on devices, each of which takes the next one whenever it is idle.
//!
//! A device makes the dithered surrogates that it counts: the CPU takes 45 to 59 ns per event and thread to make one,
//! and a device that counts thousands of episodes in the meantime would wait for it. All threads of the CPU make the
//! other surrogates (shuffled intervals, shifted parts), which are counted as they come.

use betz_base::lock::lock;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::surrogate::Dither;
use super::{SurrogateJob, SurrogateSource, Total};
use crate::count::{CountJob, DeviceSurrogates, Moves, PieceSizes, count_on_device, deal, on_each};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress;
use betz_device::Placement;
use betz_device::cuda::Context;

/// Surrogates are dealt one by one.
const ONE: PieceSizes = PieceSizes { least: 1, most: 1 };

/// Most threads that make surrogates for one device.
const MOST_MAKERS: usize = 16;

/// The sums over the surrogates `own` of `kind` for each pattern (sorted by their prefixes), counted on the devices of
/// `placement`. Sums of whole numbers, so that it does not matter which device had which surrogate.
pub(super) fn totals(
    placement: &Placement,
    kind: SurrogateSource<'_>,
    own: Range<u64>,
    wanted: SurrogateJob<'_>,
) -> Result<Vec<Total>> {
    if own.is_empty() {
        return Ok(Vec::new());
    }
    if placement.contexts().is_empty() {
        // Another thread's work may have gone back to the CPU meanwhile.
        let gone = "surrogates: the device was given up meanwhile";
        return Err(Error::new(ErrorKind::DeviceUnavailable, gone));
    }
    match kind {
        SurrogateSource::Dithered(events, delta, seed) if DeviceSurrogates::can_be_made(events) => {
            let there = on_each(placement.contexts(), |context| {
                DeviceSurrogates::new(context, events, wanted.patterns)
            });
            let there: Vec<DeviceSurrogates<'_>> = there.into_iter().collect::<Result<_>>()?;
            deal_surrogates(&there, own, wanted, |there, index| {
                let key = Dither::new(delta, seed, index).key();
                there.count(Moves { delta, key }, wanted.progress)
            })
        }
        _ => {
            let threads = rayon::current_num_threads();
            let contexts = placement.contexts();
            let makers = threads.div_ceil(contexts.len()).min(MOST_MAKERS);
            // One surrogate at a time is on a device; the others are being made, or wait for it.
            let devices: Vec<(&Arc<Context>, Mutex<()>)> =
                contexts.iter().map(|c| (c, Mutex::new(()))).collect();
            let makers: Vec<_> = (0..makers).flat_map(|_| &devices).collect();
            deal_surrogates(&makers, own, wanted, |(context, device), index| {
                let events = kind.make(index)?;
                let _turn = lock(device);
                let job = CountJob {
                    progress: wanted.progress,
                    ..CountJob::new(&events, wanted.patterns)
                };
                count_on_device(context, &job)
            })
        }
    }
}

/// The sums over the surrogates `own`, dealt over `workers`.
fn deal_surrogates<W: Sync>(
    workers: &[W],
    own: Range<u64>,
    wanted: SurrogateJob<'_>,
    count: impl Fn(&W, u64) -> Result<Vec<u64>> + Sync,
) -> Result<Vec<Total>> {
    let all = own.end - own.start;
    let done = AtomicU64::new(0);
    let totals = Mutex::new(vec![Total::default(); wanted.patterns.len()]);
    deal(workers, all as usize, ONE, |worker, piece| {
        for index in piece {
            progress::check(wanted.progress, wanted.stage)?;
            let counts = count(worker, own.start + index as u64)?;
            let mut totals = lock(&totals);
            for ((total, count), &limit) in totals.iter_mut().zip(counts).zip(wanted.limits) {
                *total = total.add(Total::new(count, limit));
            }
            // Reported in order.
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            wanted.progress.update(wanted.stage, done, all);
        }
        Ok(())
    })?;
    Ok(totals.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{bursts, random_case, random_pattern};
    use crate::count::{LatestStart, Strategy};
    use crate::frequency::Frequency;
    use crate::significance::{
        ChainOptions, PartOptions, SignificanceOptions, Surrogate, Workers, chains_by, on_cpu,
        part_significance_by, significance_by,
    };
    use betz_base::error::ErrorKind;
    use betz_base::progress::Progress;
    use betz_base::team::Alone;
    use betz_device::{DeferredPlacement, Device};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn whoever_takes_them_surrogates_say_the_same() {
        let case = random_case(4, 200, 9);
        let kinds = [
            SurrogateSource::Dithered(&case.events, 9, 3),
            SurrogateSource::Shuffled(&case.events, 3),
        ];
        for kind in kinds {
            let wanted = SurrogateJob {
                patterns: &case.patterns,
                frequency: Frequency::NonOverlapped,
                limits: &[4; 9],
                stage: "surrogates",
                progress: &(),
            };
            let expected = on_cpu(kind, 3..40, 40, wanted).unwrap();
            for workers in 1..4 {
                let found = deal_surrogates(&vec![(); workers], 3..40, wanted, |(), index| {
                    LatestStart.count(&CountJob::new(&kind.make(index)?, wanted.patterns))
                });
                assert_eq!(found.unwrap(), expected, "{workers} workers");
            }
        }
    }

    #[test]
    fn a_request_to_stop_ends_the_dealing_and_what_is_done_is_told() {
        #[derive(Default)]
        struct Two(Mutex<Vec<(u64, u64)>>, AtomicBool);
        impl Progress for Two {
            fn update(&self, stage: &str, done: u64, total: u64) {
                assert_eq!(stage, "surrogates");
                self.0.lock().unwrap().push((done, total));
                self.1.store(done >= 2, Ordering::Relaxed);
            }
            fn cancelled(&self) -> bool {
                self.1.load(Ordering::Relaxed)
            }
        }
        let case = random_case(4, 20, 1);
        let two = Two::default();
        let wanted = SurrogateJob {
            patterns: &case.patterns,
            frequency: Frequency::NonOverlapped,
            limits: &[1],
            stage: "surrogates",
            progress: &two,
        };
        let stopped = deal_surrogates(&[()], 0..9, wanted, |(), _| Ok(vec![1])).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
        assert_eq!(*two.0.lock().unwrap(), [(1, 9), (2, 9)]);
    }

    /// One device, and all where there are several.
    fn devices() -> Vec<Device> {
        match (Device::cuda(0), Device::cuda(1)) {
            (Err(error), _) => {
                eprintln!("skipped: {}", error.message());
                Vec::new()
            }
            (Ok(one), Err(_)) => vec![one],
            (Ok(one), Ok(_)) => vec![one, Device::cuda_all().unwrap()],
        }
    }

    #[test]
    fn cuda_significance_is_the_cpus_to_the_bit() {
        let devices = devices();
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for seed in 0..if devices.is_empty() { 0 } else { 8 } {
            let case = bursts(&mut rng, 500..4_000, 6);
            let symbols = case.events.symbols() as u32;
            let mut patterns = case.patterns;
            patterns.extend((0..200).map(|_| random_pattern(&mut rng, symbols, 3)));
            for surrogate in [
                Surrogate::Dither { delta: 20 },
                Surrogate::Dither { delta: 1 << 30 },
                Surrogate::ShuffleIntervals,
            ] {
                let options = SignificanceOptions {
                    surrogate,
                    surrogates: 13,
                    seed,
                    frequency: Frequency::NonOverlapped,
                };
                let test = |workers: Workers<'_>| {
                    significance_by(workers, &case.events, &patterns, &options, &())
                };
                let expected = test(Workers::alone()).unwrap();
                for device in &devices {
                    let placement = &DeferredPlacement::new(device);
                    let workers = Workers {
                        team: &Alone,
                        placement,
                    };
                    assert_eq!(test(workers).unwrap(), expected, "{surrogate:?}");
                    assert_eq!(placement.ran("").device, device.name());
                }
            }
        }
    }

    #[test]
    fn cuda_parts_and_chains_are_the_cpus_to_the_bit() {
        let devices = devices();
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for seed in 0..if devices.is_empty() { 0 } else { 4 } {
            let case = bursts(&mut rng, 2_000..4_000, 6);
            let shifts = (60, 300);
            let parts = PartOptions {
                shifts: 30,
                least: shifts.0,
                most: shifts.1,
                seed,
            };
            let chains = ChainOptions {
                surrogate: Surrogate::Dither { delta: 20 },
                draws: 9,
                shifts,
                rate: 1.0,
                seed,
            };
            let test = |workers: Workers<'_>| {
                let parts =
                    part_significance_by(workers, &case.events, &case.patterns, &parts, &());
                let chains = chains_by(workers, &case.events, &case.patterns, &chains, &());
                (parts.unwrap(), chains.unwrap())
            };
            let expected = test(Workers::alone());
            for device in &devices {
                let placement = &DeferredPlacement::new(device);
                let workers = Workers {
                    team: &Alone,
                    placement,
                };
                assert!(test(workers) == expected, "seed {seed}");
                assert!(placement.ran("").device.ends_with(&device.name()));
            }
        }
    }

    #[test]
    fn cuda_surrogates_of_none_of_the_processes_share_are_none() {
        for device in devices() {
            let case = random_case(4, 20, 1);
            let wanted = SurrogateJob {
                patterns: &case.patterns,
                frequency: Frequency::NonOverlapped,
                limits: &[1],
                stage: "surrogates",
                progress: &(),
            };
            let kind = SurrogateSource::Dithered(&case.events, 3, 1);
            let placement = Placement::on(&device);
            assert!(totals(&placement, kind, 4..4, wanted).unwrap().is_empty());
        }
    }
}
