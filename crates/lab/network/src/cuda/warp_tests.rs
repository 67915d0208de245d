//! Time warping on a device against the CPU's, to the last bit; skipped, with a word, where no CUDA device works.

use betz_device::Device;

use super::limits::can;
use super::tests::device;
use super::warps::MOST_BAND;
use super::*;
use crate::cases::{self, Case};
use crate::oracle;
use crate::spec::{NetworkSpec, Threshold};
use crate::{Network, Window};

/// The same edges, values and undefined nodes.
fn same(cpu: &Network, cuda: &Network, what: &str) {
    assert_eq!(cpu.len(), cuda.len(), "{what}");
    for (a, b) in cpu.windows().zip(cuda.windows()) {
        let at = a.index;
        assert_eq!((a.start, a.undefined, a.why), (b.start, b.undefined, b.why));
        assert_eq!((a.i, a.j, a.r), (b.i, b.j, b.r), "{what}, window {at}");
    }
}

fn check(device: &Device, case: &Case, spec: &NetworkSpec) -> Network {
    let signal = case.signal();
    let plan = Plan::new(spec, &signal).unwrap();
    let cpu = plan.run(&signal, &()).unwrap();
    let cuda = plan.on(device).unwrap().run(&signal, &()).unwrap();
    let name = &cuda.meta().device;
    assert!(name.starts_with("cuda"), "{name}");
    same(&cpu, &cuda, &format!("{}, {spec:?}", case.name));
    cuda
}

/// Communities with a constant node and one that is not finite for a while.
fn mixed(nodes: usize, samples: usize) -> Case {
    let mut case = cases::communities(nodes, samples, 8);
    case.change(|t, node, v| match node {
        5 => 2.0,
        6 if t == 50 => f32::NAN,
        _ => v / 20.0,
    });
    case
}

fn spec(band: usize, normalised: bool, window: Window) -> NetworkSpec {
    NetworkSpec::new(Measure::Warping { band, normalised }, window)
}

#[test]
fn cuda_warping_is_that_of_the_cpu_to_the_last_bit() {
    let Some(device) = device() else { return };
    let case = mixed(70, 150);
    let (mut edges, mut aligned) = (0, 0);
    for (length, step, band) in [
        (2, 60, 0),
        (2, 60, 1),
        (20, 13, 2),
        (20, 13, 40),
        (33, 20, 0),
        (33, 20, 5),
        (64, 40, 15),
        (64, 40, 16),
        (100, 25, 31),
        (100, 25, 32),
        (120, 25, 63),
        (150, 1, 149),
    ] {
        for normalised in [false, true] {
            let spec = spec(band, normalised, Window::new(length, step));
            for threshold in [
                Threshold::Absolute(0.0),
                Threshold::Absolute(3.0),
                Threshold::Absolute(12.0),
                Threshold::Absolute(1e9),
                Threshold::Top(9),
                Threshold::Density(0.1),
                Threshold::TopPerNode(2),
            ] {
                let network = check(&device, &case, &spec.threshold(threshold));
                edges += network.edges();
                aligned += network.meta().rechecked;
            }
        }
    }
    assert!(edges > 1000 && aligned >= edges, "{edges} of {aligned}");
}

#[test]
fn cuda_warping_of_long_windows_and_wide_bands_is_that_of_plain_loops() {
    let Some(device) = device() else { return };
    let case = cases::communities(7, 1300, 3);
    let signal = case.signal();
    for band in [100, 255, 256, MOST_BAND] {
        let spec = spec(band, true, Window::new(1200, 100)).threshold(Threshold::Absolute(1e9));
        let network = check(&device, &case, &spec);
        assert_eq!(network.edges(), 2 * 21);
        let first = network.window(0).unwrap();
        let samples =
            |node: usize| -> Vec<f64> { (0..1200).map(|t| signal.value(t, node)).collect() };
        let expected = oracle::warping(&samples(0), &samples(1), band, true).unwrap();
        assert_eq!(first.r[0], expected as f32, "band {band}");
    }
}

#[test]
fn cuda_warping_leaves_pairs_out_and_shares_them_with_all_devices() {
    let Some(device) = device() else { return };
    let case = mixed(300, 120);
    let spec = spec(6, true, Window::new(60, 30));
    // The largest of each window's 50 shortest distances.
    let strongest = cases::run(&spec.threshold(Threshold::Top(50)), &case.signal());
    let distances = strongest.windows().flat_map(|window| window.r.to_vec());
    let least = f64::from(distances.fold(0.0, f32::max));
    let spec = spec.threshold(Threshold::Absolute(least));
    let network = check(&device, &case, &spec);
    let pairs = 3 * 300 * 299 / 2;
    let aligned = network.meta().rechecked;
    assert!(
        aligned < pairs && network.edges() >= 150,
        "{aligned} of {pairs}"
    );
    let plan = Plan::new(&spec, &case.signal()).unwrap();
    let all = plan.on(&Device::cuda_all().unwrap()).unwrap();
    same(
        &network,
        &all.run(&case.signal(), &()).unwrap(),
        "all devices",
    );
}

#[test]
fn cuda_warping_stays_within_its_memory() {
    let Some(device) = device() else { return };
    let case = mixed(200, 90);
    let spec = spec(4, false, Window::new(60, 30)).threshold(Threshold::Absolute(9.0));
    let cpu = cases::run(&spec, &case.signal());
    let context = &device.contexts()[0];
    let plan = Plan::new(&spec, &case.signal())
        .unwrap()
        .on(&device)
        .unwrap();
    for cap in [2 << 20, 1 << 14] {
        context.set_memory_cap(Some(cap));
        context.take_peak_memory().unwrap();
        let got = plan.run(&case.signal(), &());
        let peak = context.take_peak_memory().unwrap();
        context.set_memory_cap(None);
        match got {
            Ok(cuda) => {
                same(&cpu, &cuda, "within a cap");
                assert!(peak <= cap, "{peak} of {cap}");
            }
            Err(error) => assert_eq!((error.kind(), cap), (ErrorKind::DeviceMemory, 1 << 14)),
        }
    }
}

#[test]
fn bands_that_no_warp_holds_are_refused_by_name() {
    let wide = spec(MOST_BAND + 1, false, Window::new(2000, 1));
    let error = can(&wide, 10).unwrap_err();
    assert!(error.message().contains("512"), "{error}");
    can(&spec(MOST_BAND, false, Window::new(2000, 1)), 10).unwrap();
    // A band ends with the window.
    can(&spec(9999, false, Window::new(500, 1)), 10).unwrap();
}
