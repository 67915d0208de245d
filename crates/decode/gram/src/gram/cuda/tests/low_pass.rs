//! Sums behind a low-pass against the oracle.

use super::caps::MemoryCap;
use super::*;

fn request_behind(case: &Case, low_pass: LowPass) -> Request<'_> {
    Request {
        low_pass: Some(low_pass),
        ..request(case, GramPath::Auto)
    }
}

fn sums(context: &Arc<Context>, case: &Case, low_pass: LowPass) -> NormalEquations {
    let contexts = std::slice::from_ref(context);
    let request = request_behind(case, low_pass);
    let found = device_sums(contexts, &case.data.view(), &request, &())
        .unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let (sums, path) = found.unwrap_or_else(|| panic!("{}: left to the CPU", case.name));
    assert_eq!(path, GramPath::Dense);
    sums.download(context).unwrap()
}

#[test]
fn a_low_pass_equals_the_oracle_and_repeats_bit_by_bit() {
    let Some(context) = context() else { return };
    for case in cases::all() {
        for (order, cutoff_hz) in [(4, 30.0), (1, 120.0), (8, 400.0)] {
            let low_pass = LowPass { order, cutoff_hz };
            let (data, bank) = (&case.data, &case.bank);
            let expected =
                oracle::normal_equations(data, bank, Some(low_pass), case.delay_steps).unwrap();
            let mut got = sums(&context, &case, low_pass);
            assert_eq!(sums(&context, &case, low_pass), got, "{}", case.name);
            close(&case, &expected, &mut got, DENSE_TOLERANCE);
        }
    }
}

/// Several rounds, and blocks of Γ that begin and end inside a channel.
#[test]
fn rounds_and_blocks_behind_a_low_pass_do_not_show() {
    let Some(context) = context() else { return };
    let bounds = [(7, 3000), (3100, 70_000), (70_000, 70_800)];
    let spikes = cases::random_spikes(21, 40, 70_800, 60_000);
    let case = Case {
        name: "rounds".into(),
        data: cases::dataset(40, &bounds, spikes, 2),
        bank: cases::bank(&[(10.0, 1), (200.0, 0), (4.0, 3)]),
        delay_steps: 13,
    };
    let low_pass = LowPass {
        order: 4,
        cutoff_hz: 8.0,
    };
    let (expected, _) = crate::gram::normal_equations(
        &case.data,
        &case.bank,
        Some(low_pass),
        case.delay_steps,
        GramPath::Dense,
        &(),
    )
    .unwrap();
    let mut got = sums(&context, &case, low_pass);
    close(&case, &expected, &mut got, DENSE_TOLERANCE);
    // From the smallest that works up, no run takes more than its cap.
    let capped = MemoryCap::at(&context, 1);
    let contexts = std::slice::from_ref(&*context);
    let request = request_behind(&case, low_pass);
    let refused = device_sums(contexts, &case.data.view(), &request, &());
    drop(capped);
    let least = refused.err().unwrap().needed_bytes().unwrap();
    for cap in [least, 2 * least, 5 * least, 40 * least] {
        let _cap = MemoryCap::at(&context, cap);
        let (mut got, peak) = with_peak(&context, || sums(&context, &case, low_pass));
        close(&case, &expected, &mut got, DENSE_TOLERANCE);
        assert!(peak <= cap, "{peak} bytes used of {cap}");
    }
}

fn with_peak<T>(context: &Context, work: impl FnOnce() -> T) -> (T, u64) {
    context.synchronize().unwrap();
    context.take_peak_memory().unwrap();
    let done = work();
    (done, context.take_peak_memory().unwrap())
}

/// A low-pass of the highest order before the least of banks: its own states are most of what a run
/// takes, and rounds under a cap are far shorter than a tile.
#[test]
fn caps_hold_where_the_low_pass_takes_most() {
    let Some(context) = context() else { return };
    let contexts = std::slice::from_ref(&*context);
    for (channels, filters) in [(400, &[(10.0, 0)][..]), (61, &[(10.0, 1), (3.0, 4)])] {
        let bounds = [(0, 4000), (4100, 9000)];
        let spikes = cases::random_spikes(5, channels as u32, 9000, 20_000);
        let case = Case {
            name: format!("{channels} channels"),
            data: cases::dataset(channels, &bounds, spikes, 2),
            bank: cases::bank(filters),
            delay_steps: 0,
        };
        let low_pass = LowPass {
            order: 8,
            cutoff_hz: 30.0,
        };
        let (expected, peak) = with_peak(&context, || sums(&context, &case, low_pass));
        let request = request_behind(&case, low_pass);
        let least = {
            let _cap = MemoryCap::at(&context, 1);
            let refused = device_sums(contexts, &case.data.view(), &request, &()).err();
            refused.unwrap().needed_bytes().unwrap()
        };
        assert!(least < peak);
        for parts in 0..8 {
            let cap = (least + (peak - least) * parts / 8).max(peak / 20);
            let _cap = MemoryCap::at(&context, cap);
            let (mut got, used) = with_peak(&context, || sums(&context, &case, low_pass));
            close(&case, &expected, &mut got, 2.0 * DENSE_TOLERANCE);
            assert!(used <= cap, "{}: {used} bytes used of {cap}", case.name);
        }
    }
}
