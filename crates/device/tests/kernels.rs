//! Every kernel compiles for every architecture Betz supports; no GPU needed, NVRTC is.

use betz_device::cuda::{compile, nvrtc_version};

/// The variants a kernel's file names in lines `// Variants: -DA=1 -DB=2 | -DA=2`; one without
/// options when there is no such line.
fn variants(text: &str) -> Vec<Vec<String>> {
    let listed: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("// Variants: "))
        .flat_map(|line| line.split('|'))
        .map(|variant| variant.split_whitespace().map(str::to_owned).collect())
        .collect();
    if listed.is_empty() {
        vec![Vec::new()]
    } else {
        listed
    }
}

#[test]
fn every_kernel_compiles_for_sm_80_and_sm_90() {
    match nvrtc_version() {
        Ok((major, minor)) => eprintln!("NVRTC {major}.{minor}"),
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            return;
        }
    }
    let mut compiled = 0;
    for kernel in betz_kernels::ALL {
        for options in variants(kernel.text) {
            for capability in [(8, 0), (9, 0)] {
                compile(
                    kernel.name,
                    kernel.text,
                    kernel.headers,
                    &options,
                    capability,
                )
                .unwrap_or_else(|e| panic!("{options:?}: {e}"));
                compiled += 1;
            }
        }
    }
    assert!(compiled >= betz_kernels::ALL.len(), "{compiled} kernels");
}
