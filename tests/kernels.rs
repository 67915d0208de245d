//! Every kernel compiles for every architecture Betz supports; no GPU needed, NVRTC is.
#![cfg(feature = "cuda")]

use betz::device::cuda::{compile, nvrtc_version};

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
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels");
    let mut compiled = 0;
    let read = |path: &std::path::Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    let with = |extension: &str| {
        let entries = std::fs::read_dir(folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let wanted = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
        wanted.map(|path| read(&path)).collect::<Vec<_>>()
    };
    let headers = with("cuh");
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, t)| (n.as_str(), t.as_str()))
        .collect();
    for (name, text) in with("cu") {
        let name = name.trim_end_matches(".cu");
        for options in variants(&text) {
            for capability in [(8, 0), (9, 0)] {
                compile(name, &text, &headers, &options, capability).unwrap_or_else(|e| {
                    panic!("{options:?}: {e}");
                });
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 4, "{compiled} kernels in {folder}");
}
