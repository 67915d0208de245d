//! Sorting end to end, on voltage with a known truth.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::sync::OnceLock;

use betz_sort::score::{Score, Train, score};
use betz_sort::synthetic::{Synthetic, SyntheticRecording, make};
use betz_sort::{
    Edit, InMemory, Reference, Settings, Sorter, Sorting, Spike, TrainOptions, TrainedSorter, train,
};
use proptest::prelude::*;

fn settings(of: &Synthetic) -> Settings {
    let mut settings = Settings::new(of.rate_hz, of.gain);
    if of.places.len() >= 16 {
        settings.reference = Reference::Median;
    }
    settings
}

fn options(of: &Synthetic) -> TrainOptions {
    TrainOptions::new(settings(of), of.places.iter().map(|p| Some(*p)).collect())
}

fn learn(of: &Synthetic, made: &SyntheticRecording) -> TrainedSorter {
    let mut voltage = InMemory::new(&made.samples, of.places.len()).unwrap();
    train(&mut voltage, &options(of), &()).unwrap()
}

fn sort(sorter: &Sorter, samples: &[i16], block: usize) -> Vec<Spike> {
    let mut sorting = Sorting::open(sorter).unwrap();
    let mut spikes = Vec::new();
    for block in samples.chunks(block * sorting.channels()) {
        sorting
            .push(block, &mut |spike| spikes.push(spike))
            .unwrap();
    }
    spikes
}

fn scored(made: &SyntheticRecording, spikes: &[Spike]) -> Score {
    let labelled: Vec<(i64, u32)> = spikes
        .iter()
        .filter_map(|s| Some((s.sample, s.unit?)))
        .collect();
    let (samples, units): (Vec<i64>, Vec<u32>) = labelled.into_iter().unzip();
    score(
        Train {
            samples: &made.spikes,
            units: &made.units,
        },
        Train {
            samples: &samples,
            units: &units,
        },
        12,
    )
    .unwrap()
}

/// Short enough for a test: ten seconds.
fn short(of: Synthetic) -> Synthetic {
    Synthetic {
        seconds: 10.0,
        ..of
    }
}

/// A tetrode, its voltage, and what was learned from it: learned once.
fn tetrode() -> &'static (Synthetic, SyntheticRecording, TrainedSorter) {
    static TETRODE: OnceLock<(Synthetic, SyntheticRecording, TrainedSorter)> = OnceLock::new();
    TETRODE.get_or_init(|| {
        let of = short(Synthetic::tetrode(4));
        let made = make(&of).unwrap();
        let trained = learn(&of, &made);
        (of, made, trained)
    })
}

#[test]
fn units_of_a_probe_a_tetrode_and_an_array_are_found() {
    let array = short(Synthetic {
        units: 5,
        ..Synthetic::array(5, 7)
    });
    let learned = [short(Synthetic::probe(3)), array].map(|of| {
        let made = make(&of).unwrap();
        let trained = learn(&of, &made);
        (of, made, trained)
    });
    let [probe, array] = &learned;
    for (name, (_, made, trained), least) in [
        ("probe", probe, 0.75),
        ("tetrode", tetrode(), 0.7),
        ("array", array, 0.6),
    ] {
        let score = scored(made, &sort(&trained.sorter, &made.samples, 30));
        let accuracy = score.mean(|u| u.accuracy);
        println!(
            "{name}: accuracy {accuracy:.3}, {} of {} units",
            trained.sorter.units().len(),
            score.units.len()
        );
        assert!(accuracy > least, "{name}: {accuracy}");
        assert!(
            trained.sorter.units().len() * 10 <= score.units.len() * 15,
            "{name}"
        );
    }
}

#[test]
fn a_sorter_survives_its_file_and_damage_is_found() {
    let (_, made, trained) = tetrode();
    let sorter = &trained.sorter;
    let bytes = sorter.to_bytes();
    let again = Sorter::from_bytes(&bytes).unwrap();
    assert_eq!(&again, sorter);
    assert_eq!(
        sort(&again, &made.samples, 30),
        sort(sorter, &made.samples, 30)
    );
    for cut in [0, 7, 30, bytes.len() / 2, bytes.len() - 1] {
        assert!(Sorter::from_bytes(&bytes[..cut]).is_err(), "{cut} bytes");
    }
    for at in (0..bytes.len()).step_by(97) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        assert!(Sorter::from_bytes(&wrong).is_err(), "byte {at}");
    }
}

#[test]
fn merging_and_splitting_keep_numbers_and_are_kept() {
    let (_, made, trained) = tetrode();
    let mut sorter = trained.sorter.clone();
    let before = sort(&sorter, &made.samples, 30);
    let ids: Vec<u32> = sorter.units().iter().map(|u| u.id).collect();
    assert!(ids.len() >= 3, "{ids:?}");
    sorter
        .edit(Edit::Merge {
            units: vec![ids[0], ids[2]],
        })
        .unwrap();
    let kept: Vec<u32> = sorter.units().iter().map(|u| u.id).collect();
    assert_eq!(kept.len(), ids.len() - 1);
    assert!(!kept.contains(&ids[2]) && kept.contains(&ids[0]));
    // Units that were neither of the two have their numbers still.
    sorter.set_forget_seconds(0.0).unwrap();
    let after = sort(&sorter, &made.samples, 30);
    let id = |spike: &Spike, ids: &[u32]| spike.unit.map(|u| ids[u as usize]);
    let one = |id: Option<u32>| if id == Some(ids[2]) { Some(ids[0]) } else { id };
    let kept_as: std::collections::HashSet<_> =
        after.iter().map(|a| (a.sample, id(a, &kept))).collect();
    let changed = (before.iter()).filter(|b| !kept_as.contains(&(b.sample, one(id(b, &ids)))));
    // Units followed their spikes before: a few at the borders differ.
    assert!(changed.count() * 20 < before.len());

    let unit = &sorter.units()[0];
    let labels = &sorter.groups()[unit.group as usize].labels;
    let hits = &sorter.groups()[unit.group as usize].hits;
    let own: Vec<u32> = (0..labels.len() as u32)
        .filter(|n| labels[*n as usize] == 0 && hits[*n as usize] > 0)
        .collect();
    let split = Edit::Split {
        unit: unit.id,
        nodes: own[..own.len() / 2].to_vec(),
    };
    sorter.edit(split).unwrap();
    assert_eq!(sorter.units().len(), ids.len());
    let new = sorter.units().last().unwrap().id;
    assert!(!ids.contains(&new), "{new} was in use");
    assert_eq!(sorter.edits().len(), 2);
    assert_eq!(Sorter::from_bytes(&sorter.to_bytes()).unwrap(), sorter);

    let first = sorter.units()[0].id;
    for bad in [
        Edit::Merge { units: vec![] },
        Edit::Merge { units: vec![first] },
        Edit::Merge {
            units: vec![first, first],
        },
        Edit::Merge {
            units: vec![first, 99],
        },
        Edit::Split {
            unit: 99,
            nodes: vec![0],
        },
        Edit::Split {
            unit: first,
            nodes: vec![u32::MAX],
        },
        Edit::Split {
            unit: first,
            nodes: vec![],
        },
    ] {
        let units = sorter.units().to_vec();
        assert!(sorter.edit(bad.clone()).is_err(), "{bad:?}");
        assert_eq!(sorter.units(), units);
    }
}

#[test]
fn a_unit_that_appears_after_training_is_not_labelled_as_another() {
    let (of, made, trained) = tetrode();
    let (mut made, sorter) = (made.clone(), &trained.sorter);
    let before = scored(&made, &sort(sorter, &made.samples, 300)).mean(|u| u.accuracy);
    let newcomer = make(&Synthetic {
        units: 1,
        microvolts: (420.0, 420.0),
        noise_microvolts: 0.0,
        seed: 77,
        ..of.clone()
    })
    .unwrap();
    for (sample, more) in made.samples.iter_mut().zip(&newcomer.samples) {
        *sample += more;
    }
    let spikes = sort(sorter, &made.samples, 300);
    let its: Vec<&Spike> = (spikes.iter())
        .filter(|s| newcomer.spikes.iter().any(|t| (t - s.sample).abs() <= 9))
        .collect();
    let labelled = its.iter().filter(|s| s.unit.is_some()).count();
    assert!(
        its.len() * 10 >= newcomer.spikes.len() * 8,
        "{} spikes",
        its.len()
    );
    assert!(
        labelled * 5 <= its.len(),
        "{labelled} of {} labelled",
        its.len()
    );
    let after = scored(&made, &spikes).mean(|u| u.accuracy);
    assert!(after > before - 0.1, "{before} {after}");
}

#[test]
fn a_unit_between_two_groups_is_one() {
    // 48 channels are two groups, cut in the middle.
    let of = Synthetic {
        places: (0..48)
            .map(|c| [(c % 2) as f32 * 20.0, (c / 2) as f32 * 20.0])
            .collect(),
        units: 30,
        seconds: 5.0,
        microvolts: (120.0, 250.0),
        rates_hz: (8.0, 20.0),
        ..Synthetic::probe(5)
    };
    let made = make(&of).unwrap();
    let sorter = learn(&of, &made).sorter;
    assert_eq!(sorter.groups().len(), 2);
    let both = (sorter.units().iter()).position(|unit| !unit.beyond.is_empty());
    let both = both.expect("a unit on either side of the border");
    // Both maps give it its one label, and its file has it.
    assert_eq!(Sorter::from_bytes(&sorter.to_bytes()).unwrap(), sorter);
    let spikes = sort(&sorter, &made.samples, 300);
    let on = |above: bool| {
        let its = spikes.iter().filter(|s| s.unit == Some(both as u32));
        its.filter(|s| (s.channel >= 24) == above).count()
    };
    assert!(
        on(false) > 10 && on(true) > 10,
        "{} {}",
        on(false),
        on(true)
    );
}

fn drifting() -> Synthetic {
    Synthetic {
        places: (0..12).map(|c| [0.0, c as f32 * 20.0]).collect(),
        units: 3,
        seconds: 24.0,
        microvolts: (150.0, 250.0),
        drift_um: 50.0,
        ..Synthetic::probe(3)
    }
}

/// Trains on the first six seconds and sorts all, forgetting over two.
fn follow(of: &Synthetic, made: &SyntheticRecording) -> (Vec<Spike>, Sorting) {
    let options = TrainOptions {
        rows: 0..(6.0 * of.rate_hz) as u64,
        forget_seconds: 2.0,
        ..options(of)
    };
    let mut voltage = InMemory::new(&made.samples, of.places.len()).unwrap();
    let sorter = train(&mut voltage, &options, &()).unwrap().sorter;
    let mut sorting = Sorting::open(&sorter).unwrap();
    let mut spikes = Vec::new();
    sorting
        .push(&made.samples, &mut |spike| spikes.push(spike))
        .unwrap();
    (spikes, sorting)
}

#[test]
fn drift_changes_no_numbers() {
    let of = drifting();
    let made = make(&of).unwrap();
    let (spikes, sorting) = follow(&of, &made);
    let part = |from: f64, until: f64| {
        let range = (from * of.rate_hz) as i64..(until * of.rate_hz) as i64;
        let mut part = made.clone();
        let keep: Vec<bool> = made.spikes.iter().map(|s| range.contains(s)).collect();
        let mut each = keep.iter();
        part.spikes.retain(|_| *each.next().unwrap());
        let mut each = keep.iter();
        part.units.retain(|_| *each.next().unwrap());
        let its: Vec<Spike> = (spikes.iter().copied())
            .filter(|s| range.contains(&s.sample))
            .collect();
        let score = scored(&part, &its);
        score.units.iter().map(|u| u.found).collect::<Vec<_>>()
    };
    assert_eq!(part(0.0, 6.0), part(18.0, 24.0));
    assert!(sorting.moves().all(|moved| moved.reported));
}

#[test]
fn units_that_stay_are_not_reported_as_moved() {
    let of = Synthetic {
        drift_um: 0.0,
        ..drifting()
    };
    let (_, sorting) = follow(&of, &make(&of).unwrap());
    assert_eq!(sorting.moves().count(), of.units);
    for moved in sorting.moves() {
        assert!(!moved.reported, "{moved:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    #[test]
    fn what_comes_out_does_not_depend_on_blocks(seed in 0_u64..1000, blocks in prop::collection::vec(1_usize..5000, 1..5)) {
        let of = Synthetic { seconds: 1.5, artefact_seconds: 0.31, ..Synthetic::tetrode(seed) };
        let made = make(&of).unwrap();
        let sorter = learn(&of, &made).sorter;
        let whole = sort(&sorter, &made.samples, made.samples.len());
        prop_assert!(!whole.is_empty());
        for block in blocks.into_iter().chain([1, 7, 30_000]) {
            prop_assert_eq!(&sort(&sorter, &made.samples, block), &whole);
        }
    }
}
