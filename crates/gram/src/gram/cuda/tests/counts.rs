//! Counts and given responses against the oracle.

use super::*;
use crate::psc::{Block, Responses};

/// A dataset's spikes as counts; `None` where some are none: a signal, or too large.
pub(super) fn counts_of(data: &Dataset) -> Option<Vec<u16>> {
    let (n, spikes) = (data.channels(), data.spikes.view());
    let mut counts = vec![0u16; data.steps * n];
    for i in 0..spikes.len() {
        let weight = spikes.weight(i);
        let count = weight as u16;
        let cell = &mut counts[spikes.ticks[i] as usize * n + spikes.channels[i] as usize];
        *cell = (f32::from(count) == weight).then(|| cell.checked_add(count))??;
    }
    Some(counts)
}

pub(super) fn recording<'a>(data: &'a Dataset, counts: Counts<'a>) -> CountRecording<'a> {
    CountRecording {
        counts,
        channels: data.channels(),
        steps: data.steps,
        step_seconds: data.step_seconds,
        segments: &data.segments,
        behavior: &data.behavior,
        outputs: data.outputs.len(),
    }
}

#[test]
fn counts_equal_the_oracle_wherever_they_are() {
    let Some(context) = device("counts") else {
        return;
    };
    let contexts = std::slice::from_ref(&context);
    for case in cases::all() {
        let expected =
            oracle::normal_equations(&case.data, &case.bank, None, case.delay_steps).unwrap();
        let Some(wide) = counts_of(&case.data) else {
            continue;
        };
        let wide_there = context.upload(&wide).unwrap();
        let mut places = vec![Counts::U16(&wide), Counts::DeviceU16(&wide_there)];
        let narrow: Option<Vec<u8>> = wide.iter().map(|&c| u8::try_from(c).ok()).collect();
        let narrow_there = narrow.as_ref().map(|n| context.upload(n).unwrap());
        if let (Some(here), Some(there)) = (&narrow, &narrow_there) {
            places.extend([Counts::U8(here), Counts::DeviceU8(there)]);
        }
        let mut first: Option<NormalEquations> = None;
        for counts in places {
            if case.data.channels() == 0 || case.data.steps == 0 {
                continue;
            }
            let (mut got, _) = normal_equations_of_counts(
                contexts,
                &recording(&case.data, counts),
                &case.bank,
                case.delay_steps,
                Precision::F32,
                &(),
            )
            .unwrap_or_else(|e| panic!("{}: {e}", case.name));
            // Where counts are and how wide they are makes no difference to any bit.
            let first = first.get_or_insert_with(|| got.clone());
            assert_eq!(*first, got, "{}", case.name);
            close(&case, &expected, &mut got, DENSE_TOLERANCE);
        }
    }
}

#[test]
fn given_responses_equal_the_oracle() {
    let Some(context) = device("responses") else {
        return;
    };
    for case in cases::all() {
        let data = &case.data;
        let features = data.channels() * case.bank.len();
        let length = data.steps + 3;
        // NaN wherever nothing may be read.
        let mut values = vec![f32::NAN; features * length];
        let mut responses = Responses::new(data, &case.bank, None).unwrap();
        let mut block = Block::<f64>::default();
        while responses.next_block(100, &mut block) {
            for (feature, row) in block.values.chunks_exact(block.steps.len()).enumerate() {
                for (&step, &a) in block.steps.iter().zip(row) {
                    values[feature * length + step] = a as f32;
                }
            }
        }
        let there = context.upload(&values).unwrap();
        let given = DeviceResponses {
            responses: &there,
            features,
            length,
            steps: data.steps,
            segments: &data.segments,
            behavior: &data.behavior,
            outputs: data.outputs.len(),
        };
        let expected = oracle::normal_equations(data, &case.bank, None, case.delay_steps).unwrap();
        let (mut got, _) =
            normal_equations_of_responses(&context, &given, case.delay_steps, Precision::F32, &())
                .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        close(&case, &expected, &mut got, DENSE_TOLERANCE);
    }
}

#[test]
fn tf32_is_as_far_off_as_it_says() {
    let Some(context) = device("tf32") else {
        return;
    };
    let spikes = cases::random_spikes(3, 150, 20_000, 60_000);
    let data = cases::dataset(150, &[(0, 20_000)], spikes, 2);
    let bank = cases::bank(&[(10.0, 1)]);
    let counts = counts_of(&data).unwrap();
    let run = |precision| {
        normal_equations_of_counts(
            std::slice::from_ref(&context),
            &recording(&data, Counts::U16(&counts)),
            &bank,
            0,
            precision,
            &(),
        )
        .unwrap()
    };
    let ((full, none), (fast, sampled)) = (run(Precision::F32), run(Precision::Tf32));
    assert_eq!(none, None);
    let sampled = sampled.unwrap();
    let n = full.features;
    let mut largest = 0.0f64;
    for i in 0..n {
        for j in 0..n {
            let error = (full.gram[i * n + j] - fast.gram[i * n + j]).abs();
            assert_eq!(fast.gram[i * n + j], fast.gram[j * n + i]);
            largest = largest.max(error / (full.gram[i * n + i] * full.gram[j * n + j]).sqrt());
        }
    }
    assert_eq!(sampled.elements, 128 * 128);
    assert!(sampled.largest > 0.0 && sampled.rms <= sampled.largest);
    assert!(largest <= 1e-3, "{largest:e}");
    assert!(
        sampled.largest <= 1.01 * largest && sampled.largest >= 0.2 * largest,
        "{sampled:?}, {largest:e}"
    );
    assert_eq!(full.upsilon, fast.upsilon);
}
