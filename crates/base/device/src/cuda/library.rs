//! The CUDA libraries, looked for before anything calls into them.
//!
//! cudarc panics on the first call into a library that is absent, so every library is loaded here
//! first. One that the system's loader does not find by name is looked for in the toolkit's folder;
//! once loaded, the loader finds it again by its name, which is what cudarc asks for.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use betz_base::error::{Error, ErrorKind, Result};

/// A library of the CUDA toolkit, or the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    Driver,
    Nvrtc,
    Blas,
    Solver,
    Fourier,
}

impl Library {
    pub(super) const ALL: [Self; 5] = [
        Self::Driver,
        Self::Nvrtc,
        Self::Blas,
        Self::Solver,
        Self::Fourier,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Driver => "CUDA driver",
            Self::Nvrtc => "NVRTC",
            Self::Blas => "cuBLAS",
            Self::Solver => "cuSOLVER",
            Self::Fourier => "cuFFT",
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::Driver => "cuda",
            Self::Nvrtc => "nvrtc",
            Self::Blas => "cublas",
            Self::Solver => "cusolver",
            Self::Fourier => "cufft",
        }
    }

    /// Loads the library for the rest of the process; afterwards calls into it cannot panic for
    /// its absence.
    pub(super) fn load(self) -> Result<()> {
        static LOADED: [OnceLock<Option<String>>; Library::ALL.len()] =
            [const { OnceLock::new() }; Library::ALL.len()];
        let failure = LOADED[self as usize].get_or_init(|| self.find());
        match failure {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                ErrorKind::DeviceUnavailable,
                format!(
                    "expected a {} that can be loaded, got: {reason}",
                    self.name()
                ),
            )),
        }
    }

    fn find(self) -> Option<String> {
        let mut names = cudarc::get_lib_name_candidates(self.stem());
        if cfg!(windows) && self == Self::Driver {
            names.extend(cudarc::get_lib_name_candidates("nvcuda"));
        }
        let mut refusals = Vec::new();
        // Only names with the loader's own version suffix can be found again by name.
        for folder in std::iter::once(PathBuf::new()).chain(toolkit_folders()) {
            for name in &names {
                let path = folder.join(name);
                match keep(&path) {
                    Ok(()) => return None,
                    Err(said) => refusals.push((path, said)),
                }
            }
        }
        Some(refused(&names[0], &refusals))
    }
}

/// Why none of the paths could be loaded, `name` being the first that was looked for: that there is
/// no such file, or what the loader last said of one that is there (too old, for another machine,
/// without a library that it needs).
fn refused(name: &str, refusals: &[(PathBuf, String)]) -> String {
    let absent = |(path, said): &&(PathBuf, String)| {
        // The loader names the file that it misses: one that is needed is not the one asked for.
        said.starts_with(&format!("{}: cannot open", path.display()))
    };
    let nowhere = format!("no {name} in the loader's path or the toolkit's folder (CUDA_HOME)");
    match refusals.iter().rfind(|r| !absent(r)).or(refusals.last()) {
        Some((path, said)) if said.contains(&path.display().to_string()) => {
            format!("{nowhere}; the loader last said: {said}")
        }
        Some((path, said)) => {
            format!(
                "{nowhere}; the loader last said of {}: {said}",
                path.display()
            )
        }
        None => nowhere,
    }
}

/// Folders of a toolkit that the loader may not know.
fn toolkit_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(std::env::var_os)
        .map(|home| PathBuf::from(home).join("lib64"))
        .collect();
    folders.push(PathBuf::from("/usr/local/cuda/lib64"));
    folders
}

/// Loads the library at `path` and never unloads it.
///
/// # Errors
/// The loader's message.
#[allow(unsafe_code)]
fn keep(path: &Path) -> std::result::Result<(), String> {
    // SAFETY: the path names an NVIDIA library, whose initialisers are safe to run on any thread;
    // it stays loaded for the rest of the process.
    match unsafe { libloading::Library::new(path) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        // The loader's own words are the source of the error.
        Err(e) => {
            Err(std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_are_kept_and_those_about_a_file_that_is_there_come_first() {
        let absent = |path: &str| {
            let said = format!("{path}: cannot open shared object file: No such file or directory");
            (PathBuf::from(path), said)
        };
        let none = refused("libx.so", &[absent("libx.so"), absent("/usr/lib/libx.so")]);
        assert!(none.starts_with("no libx.so in"), "{none}");
        assert!(none.contains("/usr/lib/libx.so: cannot open"), "{none}");
        let needed = "liby.so.13: cannot open shared object file: No such file or directory";
        let broken = (PathBuf::from("libx.so.13"), needed.to_owned());
        let found = refused(
            "libx.so",
            &[absent("libx.so"), broken, absent("/usr/lib/libx.so")],
        );
        assert!(
            found.ends_with(&format!("of libx.so.13: {needed}")),
            "{found}"
        );
        assert!(refused("libx.so", &[]).ends_with("(CUDA_HOME)"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_no_library_is_refused_in_the_loaders_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnone.so");
        let missing = keep(&path).unwrap_err();
        assert!(missing.starts_with(&format!("{}: cannot open", path.display())));
        std::fs::write(&path, "text").unwrap();
        let said = keep(&path).unwrap_err();
        assert!(
            said.contains("libnone.so") && !said.contains("cannot open"),
            "{said}"
        );
    }
}
