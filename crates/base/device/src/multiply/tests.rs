//! Products against sums in f64, however they are cut.

use rand::{RngExt, SeedableRng};

use super::*;
use crate::cuda::Context;
use betz_base::error::ErrorKind;

const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (5, 3, 2),
    (64, 96, 300),
    (130, 1, 9000),
    (77, 201, 1025),
    (33, 40, 5000),
];

fn values<T>(seed: u64, len: usize, of: impl Fn(f64) -> T) -> Vec<T> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| of(rng.random::<f64>() - 0.3)).collect()
}

/// C, and how it was computed; every element has to come once.
fn whole<T: Real + PartialEq>(
    device: &Device,
    product: &Product<'_, T>,
) -> Result<(Vec<T>, ProductRun)> {
    let n = product.columns();
    let mut c = vec![None; product.a.rows() * n];
    let mut take = |rows: Range<usize>, columns: Range<usize>, block: &[T]| {
        for (i, row) in rows.zip(block.chunks_exact(columns.len())) {
            for (j, value) in columns.clone().zip(row) {
                assert!(c[i * n + j].is_none(), "element {i}, {j} came twice");
                c[i * n + j] = Some(*value);
            }
        }
        Ok(())
    };
    let done = multiply(device, product, &mut take, &())?;
    Ok((c.into_iter().map(|value| value.unwrap()).collect(), done))
}

/// Largest error of C relative to the sums of magnitudes.
fn worst<T: Copy + Into<f64>>(
    a: &dyn Fn(usize, usize) -> f64,
    b: &dyn Fn(usize, usize) -> f64,
    c: &[T],
    (m, n, k): (usize, usize, usize),
) -> f64 {
    let mut worst = 0.0f64;
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = (0.0f64, 1e-30f64);
            for l in 0..k {
                let term = a(i, l) * b(l, j);
                sum += term;
                size += term.abs();
            }
            worst = worst.max((c[i * n + j].into() - sum).abs() / size);
        }
    }
    worst
}

/// Every shape whole and cut to a few kilobytes, with transposed and strided factors.
fn every_shape<T: Real + Into<f64> + PartialEq + std::fmt::Debug>(
    device: &Device,
    of: impl Fn(f64) -> T,
    tolerance: f64,
    cap: &dyn Fn(Option<u64>),
) {
    for (m, n, k) in SHAPES {
        let (a, b) = (values(1, m * k, &of), values(2, k * n, &of));
        let left = StridedMatrix::row_major(&a, m, k).unwrap();
        // B is stored by columns; the same as a transposed matrix.
        let right = StridedMatrix::new(&b, (k, n), (1, k)).unwrap();
        let rows = StridedMatrix::row_major(&b, n, k).unwrap();
        for host_bytes in [HOST_BYTES, 200_000, 4000] {
            cap(Some(multiply_cap(host_bytes)));
            let product = Product {
                host_bytes,
                ..Product::new(&left, &right)
            };
            let (c, done) = whole(device, &product).unwrap();
            assert_eq!((done.plan.m, done.plan.n, done.plan.k), (m, n, k));
            let error = worst(
                &|i, l| a[i * k + l].into(),
                &|l, j| b[j * k + l].into(),
                &c,
                (m, n, k),
            );
            assert!(error <= tolerance, "{m} {n} {k} {host_bytes}: {error:e}");
            let turned = Transpose(&rows);
            let product = Product {
                b: Some(&turned),
                ..product
            };
            assert_eq!(whole(device, &product).unwrap().0, c);
            // A·Aᵀ, and AᵀA by the transpose.
            let product = Product {
                host_bytes,
                ..Product::with_transpose(&left)
            };
            let (c, _) = whole(device, &product).unwrap();
            let of = |i: usize, l: usize| a[i * k + l].into();
            let error = worst(&of, &|l, j| of(j, l), &c, (m, m, k));
            assert!(error <= tolerance, "{m} {k} {host_bytes}: {error:e}");
            for i in 0..m {
                for j in 0..i {
                    let scale: f64 = c[i * m + i].into();
                    let (low, high): (f64, f64) = (c[i * m + j].into(), c[j * m + i].into());
                    assert!((low - high).abs() <= tolerance * scale.max(1.0));
                }
            }
            if m * k < 20_000 {
                let turned = Transpose(&left);
                let product = Product {
                    a: &turned,
                    ..product
                };
                let (c, _) = whole(device, &product).unwrap();
                let error = worst(&|i, l| of(l, i), &of, &c, (k, k, m));
                assert!(error <= tolerance, "{m} {k} {host_bytes}: {error:e}");
            }
            cap(None);
        }
    }
}

fn multiply_cap(bytes: u64) -> u64 {
    cuda::FIXED_BYTES + bytes
}

#[test]
fn products_equal_sums_in_f64_on_the_cpu_however_they_are_cut() {
    every_shape::<f32>(&Device::cpu(), |x| x as f32, 2e-6, &|_| ());
    every_shape::<f64>(&Device::cpu(), |x| x, 1e-14, &|_| ());
}

#[test]
fn cuda_products_equal_sums_in_f64_under_any_cap() {
    let Ok(context) = Context::open(0) else {
        eprintln!("product: skipped: no CUDA device");
        return;
    };
    let device = Device::open("cuda:0".parse().unwrap()).unwrap();
    let cap = |bytes| context.set_memory_cap(bytes);
    every_shape::<f32>(&device, |x| x as f32, 2e-6, &cap);
    every_shape::<f64>(&device, |x| x, 1e-14, &cap);
    let a = values(1, 64 * 300, |x| x as f32);
    let a = StridedMatrix::row_major(&a, 64, 300).unwrap();
    let product = Product {
        precision: Precision::Tf32,
        ..Product::with_transpose(&a)
    };
    let (c, done) = whole(&device, &product).unwrap();
    assert_eq!(done.ran.device, "cuda:0");
    let full = whole(&Device::cpu(), &Product::with_transpose(&a))
        .unwrap()
        .0;
    for (c, full) in c.iter().zip(full) {
        assert!((c - full).abs() < 2e-3 * 300.0 * 0.2);
    }
    context.set_memory_cap(Some(1000));
    let refused = whole(&device, &Product::with_transpose(&a)).unwrap_err();
    context.set_memory_cap(None);
    assert_eq!(refused.kind(), ErrorKind::DeviceMemory);
    assert!(refused.needed_bytes().is_some());
}

#[test]
fn cuda_devices_share_the_blocks_of_a_product() {
    let Ok(device) = Device::cuda_all() else {
        eprintln!("product on all devices: skipped: no CUDA device");
        return;
    };
    every_shape::<f32>(&device, |x| x as f32, 2e-6, &|_| ());
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let some = [1.0f32; 12];
    let (a, b) = (
        StridedMatrix::row_major(&some, 3, 4).unwrap(),
        StridedMatrix::row_major(&some, 3, 4).unwrap(),
    );
    let refused = whole(&Device::cpu(), &Product::new(&a, &b)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    assert!(
        refused.message().contains("A of 3 × 4 and B of 3 × 4"),
        "{refused}"
    );
    let empty = StridedMatrix::row_major(&some[..0], 0, 4).unwrap();
    let refused = whole(&Device::cpu(), &Product::with_transpose(&empty)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let product = Product {
        host_bytes: 10,
        ..Product::with_transpose(&a)
    };
    let refused = whole(&Device::cpu(), &product).unwrap_err();
    assert_eq!(refused.needed_bytes(), Some(12));
    for (shape, strides) in [
        ((3, 5), (4, 1)),
        ((4, 4), (4, 1)),
        ((2, 2), (usize::MAX, 1)),
    ] {
        let refused = StridedMatrix::new(&some, shape, strides).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Mismatch, "{shape:?}");
    }
}

/// An error of the taker ends the product.
#[test]
fn a_taker_that_refuses_ends_the_product() {
    let some = vec![1.0f64; 100];
    let a = StridedMatrix::row_major(&some, 10, 10).unwrap();
    let mut blocks = 0;
    let mut take = |_: Range<usize>, _: Range<usize>, _: &[f64]| {
        blocks += 1;
        Err(betz_base::error::Error::argument("full"))
    };
    let product = Product {
        host_bytes: 400,
        ..Product::new(&a, &a)
    };
    let refused = multiply(&Device::cpu(), &product, &mut take, &()).unwrap_err();
    assert_eq!((refused.message(), blocks), ("full", 1));
}

/// Plans keep to their room and count what moves; the paper's are what its formulas give.
#[test]
fn plans_count_what_moves() {
    let some = vec![0.0f32; 1000 * 60];
    let a = StridedMatrix::row_major(&some, 60, 1000).unwrap();
    let b = StridedMatrix::row_major(&some, 1000, 60).unwrap();
    for bytes in [300, 5000, 20_000, 1 << 20] {
        for product in [Product::new(&a, &b), Product::with_transpose(&a)] {
            let plan = MultiplyPlan::new(&product, bytes, 0, 1, 1).unwrap();
            let operands = (plan.m_max + plan.n_max) * plan.k_max;
            let held = if plan.symmetric && plan.m_max == 60 {
                operands / 2
            } else {
                operands
            };
            assert!(
                4 * (held + plan.m_max * plan.n_max) as u64 <= bytes,
                "{plan:?}"
            );
            let mut covered = vec![0; 60 * 60];
            for number in 0..plan.blocks() {
                let (rows, columns) = plan.block(number).unwrap();
                for i in rows.clone() {
                    for j in columns.clone() {
                        covered[i * 60 + j] += 1;
                        if plan.symmetric && rows != columns {
                            covered[j * 60 + i] += 1;
                        }
                    }
                }
            }
            assert!(covered.iter().all(|&times| times == 1), "{plan:?}");
            assert!(plan.block(plan.blocks()).is_none());
            assert!(plan.bytes_moved() >= 4 * (60 * 1000 + 60 * 60));
        }
    }
    // All at once moves three blocks; A·Aᵀ two.
    let at_once = MultiplyPlan::new(&Product::new(&b, &a), 1 << 30, 0, 1, 1).unwrap();
    assert_eq!(
        (at_once.transfers(), at_once.paper.unwrap().transfers),
        (3, 3)
    );
    let at_once = MultiplyPlan::new(&Product::with_transpose(&a), 1 << 30, 0, 1, 1).unwrap();
    assert_eq!(
        (at_once.transfers(), at_once.paper.unwrap().transfers),
        (2, 2)
    );
    // Eq. 5.14: k_max = S/m − m.
    let plan = MultiplyPlan::new(&Product::with_transpose(&a), 4 * 60 * 160, 0, 1, 1).unwrap();
    assert_eq!(
        plan.paper,
        Some(PaperPlan {
            m_max: 60,
            k_max: 100,
            transfers: 11
        })
    );
    // Several devices have blocks each.
    let plan = MultiplyPlan::new(&Product::new(&a, &b), 1 << 30, 0, 1, 4).unwrap();
    assert_eq!(plan.blocks(), 4);
}

/// Where all would fit at once, a device still has several blocks, so that copies and products overlap; small products do
/// not.
#[test]
fn blocks_on_devices_are_copied_while_others_are_multiplied() {
    let one = [0.5_f32];
    for (side, expected) in [(16_000, 10..200), (8000, 10..200), (1000, 1..2)] {
        let a = StridedMatrix::new(&one, (side, side), (0, 0)).unwrap();
        let plan = |bytes| MultiplyPlan::for_devices(&Product::new(&a, &a), bytes, 0, 2, 1);
        let ample = plan(1 << 40).unwrap();
        let (t_m, t_n, t_k) = ample.cuts();
        assert!(expected.contains(&(t_m * t_n * t_k)), "{ample:?}");
        // Less where the device has less.
        let least = plan(1 << 20).unwrap();
        assert!(4 * (least.m_max * least.n_max) < 1 << 20, "{least:?}");
    }
}
