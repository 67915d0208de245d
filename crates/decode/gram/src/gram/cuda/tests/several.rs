//! Time shared between devices.

use super::*;
use betz_device::Device;

/// Every case shared between three contexts gives the oracle's sums and repeats bit by bit. Where
/// there is one device it takes all three parts, which cuts time in the same way.
#[test]
fn devices_that_share_time_add_up() {
    let Some(first) = context() else { return };
    let there = Device::cuda_all().unwrap();
    let contexts: Vec<Arc<Context>> = if there.contexts().len() > 1 {
        there.contexts().to_vec()
    } else {
        eprintln!("several devices: one device takes three parts");
        vec![Arc::clone(&first); 3]
    };
    for case in cases::all() {
        let (data, bank, delay) = (&case.data, &case.bank, case.delay_steps);
        let expected = oracle::normal_equations(data, bank, None, delay).unwrap();
        for (path, tolerance) in [
            (GramPath::Event, TOLERANCE),
            (GramPath::Dense, DENSE_TOLERANCE),
        ] {
            let run = || {
                let (sums, _) =
                    normal_equations(&contexts, data, bank, None, delay, path, &()).unwrap();
                sums
            };
            let mut got = run();
            assert_eq!(got, run(), "{}", case.name);
            close(&case, &expected, &mut got, tolerance);
        }
    }
    // Long enough for each part to begin with a history of its own, filters that remember it.
    for filters in [vec![(10.0, 1)], vec![(300.0, 2), (5.0, 0)]] {
        let spikes = cases::random_spikes(21, 20, 9000, 3000);
        let data = cases::dataset(20, &[(0, 7000), (7100, 9000)], spikes, 2);
        let bank = cases::bank(&filters);
        let case = Case {
            name: format!("{filters:?}"),
            data,
            bank,
            delay_steps: 11,
        };
        let (data, bank) = (&case.data, &case.bank);
        let expected = oracle::normal_equations(data, bank, None, 11).unwrap();
        for (path, tolerance) in [
            (GramPath::Event, TOLERANCE),
            (GramPath::Dense, DENSE_TOLERANCE),
        ] {
            let (mut got, _) =
                normal_equations(&contexts, data, bank, None, 11, path, &()).unwrap();
            close(&case, &expected, &mut got, tolerance);
        }
    }
}
