//! Given responses against the oracle, and TF32 against full precision.

use super::*;
use crate::psc::{Block, Responses};

#[test]
fn given_responses_equal_the_oracle() {
    let Some(context) = context() else { return };
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
    let Some(context) = context() else { return };
    let spikes = cases::random_spikes(3, 150, 20_000, 60_000);
    let data = cases::dataset(150, &[(0, 20_000)], spikes, 2);
    let bank = cases::bank(&[(10.0, 1)]);
    let run = |precision| {
        let request = Request {
            precision,
            ..Request::new(&data.view(), &bank, None, 0, GramPath::Dense)
        };
        let contexts = std::slice::from_ref(&*context);
        let sums = device_sums(contexts, &data.view(), &request, &()).unwrap();
        let (sums, _) = sums.unwrap();
        (sums.download(&context).unwrap(), sums.sampled)
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
