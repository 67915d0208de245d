//! Reads every kernel file and writes what Rust needs of it: its code, the arguments of its kernels, and the structs that it
//! shares with the host.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cubins;
mod read;
mod text;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use read::File;
use text::Text;
use write::BuiltImage;

/// Options that every kernel is compiled with.
pub(crate) const FIXED_OPTIONS: &[&str] = &["--std=c++17"];

fn main() -> ExitCode {
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    let folder = variable("CARGO_MANIFEST_DIR")?;
    let out = variable("OUT_DIR")?;
    println!("cargo::rerun-if-changed=build");
    let headers = read_all(&folder, "cuh")?;
    let mut files = Vec::new();
    for text in read_all(&folder, "cu")? {
        files.push(File::new(text, &headers).map_err(|e| e.to_string())?);
    }
    let shared = write::find_structs(&files, &headers).map_err(|e| e.to_string())?;
    for text in files.iter().map(|file| &file.text).chain(&headers) {
        save(&out, &text.name, &write::asserted_code(text, &shared))?;
    }
    let images = images(&out, &files, &headers)?;
    save(
        &out,
        "sources.rs",
        &write::write_sources(&files, &headers, &images),
    )?;
    save(&out, "structs.rs", &write::write_structs(&shared))?;
    let modules: BTreeSet<&str> = files.iter().map(|file| file.module.as_str()).collect();
    for module in modules {
        let own = files.iter().filter(|file| file.module == module);
        save(
            &out,
            &format!("{module}.rs"),
            &write::write_module(own, &shared),
        )?;
    }
    Ok(())
}

/// Machine code of every variant of the kernels, where `BETZ_NVRTC` is set.
fn images(out: &Path, files: &[File], headers: &[Text]) -> Result<Vec<BuiltImage>, String> {
    println!("cargo::rerun-if-env-changed=BETZ_NVRTC");
    let Some(folder) = std::env::var_os("BETZ_NVRTC").filter(|folder| !folder.is_empty()) else {
        return Ok(Vec::new());
    };
    let read = |name: &str| {
        let path = out.join(name);
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let texts: Vec<String> = (files.iter().map(|f| &f.text).chain(headers))
        .map(|text| read(&text.name))
        .collect::<Result<_, _>>()?;
    let (texts, header_texts) = texts.split_at(files.len());
    let without_options = [Vec::new()];
    let mut jobs = Vec::new();
    let mut images = Vec::new();
    for (at, (file, text)) in files.iter().zip(texts).enumerate() {
        let variants = match file.variants.is_empty() {
            true => &without_options[..],
            false => &file.variants,
        };
        for (variant, options) in variants.iter().enumerate() {
            for capability in cubins::CAPABILITIES {
                let header = |&h: &usize| (headers[h].name.as_str(), header_texts[h].as_str());
                jobs.push(cubins::Job {
                    name: &file.text.name,
                    text,
                    headers: file.headers.iter().map(header).collect(),
                    options: options.iter().map(String::as_str).collect(),
                    capability,
                });
                images.push(BuiltImage {
                    source: at,
                    options: options.clone(),
                    capability,
                    name: format!(
                        "{}.{variant}.sm_{}{}.cubin",
                        file.text.name, capability.0, capability.1
                    ),
                });
            }
        }
    }
    let codes = cubins::compile(Path::new(&folder), &jobs)?;
    for (image, code) in images.iter().zip(codes) {
        let path = out.join(&image.name);
        std::fs::write(&path, code).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(images)
}

fn variable(name: &str) -> Result<PathBuf, String> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .ok_or_else(|| format!("expected the variable {name}, found none"))
}

/// The files of `folder` with the extension, by name.
fn read_all(folder: &Path, extension: &str) -> Result<Vec<Text>, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    // A new file changes its folder.
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|e| e == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> Result<Text, String> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Text::new(&name, &text).map_err(|e| e.to_string())
}

fn save(out: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = out.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}
