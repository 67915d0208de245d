//! Every kernel compiles for every architecture Betz supports; no GPU needed, NVRTC is.

use std::sync::atomic::{AtomicUsize, Ordering};

use betz_device::cuda::{compile, nvrtc_version};

#[test]
fn every_kernel_compiles_for_sm_80_and_sm_90() {
    match nvrtc_version() {
        Ok((major, minor)) => eprintln!("NVRTC {major}.{minor}"),
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            return;
        }
    }
    let mut all = Vec::new();
    for kernel in betz_kernels::ALL {
        let variants = match kernel.variants {
            [] => &[[].as_slice()],
            variants => variants,
        };
        for variant in variants {
            let options: Vec<String> = variant.iter().map(ToString::to_string).collect();
            all.extend([(8, 0), (9, 0)].map(|capability| (kernel, options.clone(), capability)));
        }
    }
    // This test is all that runs meanwhile: every processor takes the next kernel there is.
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((kernel, options, capability)) =
                    all.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    compile(
                        kernel.name,
                        kernel.text,
                        kernel.headers,
                        options,
                        *capability,
                    )
                    .unwrap_or_else(|e| panic!("{options:?}: {e}"));
                }
            });
        }
    });
    let compiled = all.len();
    assert!(compiled >= betz_kernels::ALL.len(), "{compiled} kernels");
}
