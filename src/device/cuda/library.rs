//! The CUDA libraries, looked for before anything calls into them.
//!
//! cudarc panics on the first call into a library that is absent, so every library is loaded here
//! first. One that the system's loader does not find by name is looked for in the toolkit's folder;
//! once loaded, the loader finds it again by its name, which is what cudarc asks for.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};

/// A library of the CUDA toolkit, or the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    Driver,
    Nvrtc,
    Blas,
    Solver,
    Fft,
}

impl Library {
    pub(super) const ALL: [Self; 5] = [
        Self::Driver,
        Self::Nvrtc,
        Self::Blas,
        Self::Solver,
        Self::Fft,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Driver => "CUDA driver",
            Self::Nvrtc => "NVRTC",
            Self::Blas => "cuBLAS",
            Self::Solver => "cuSOLVER",
            Self::Fft => "cuFFT",
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::Driver => "cuda",
            Self::Nvrtc => "nvrtc",
            Self::Blas => "cublas",
            Self::Solver => "cusolver",
            Self::Fft => "cufft",
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
                format!("{} cannot be loaded: {reason}", self.name()),
            )),
        }
    }

    fn find(self) -> Option<String> {
        let mut names = cudarc::get_lib_name_candidates(self.stem());
        if cfg!(windows) && self == Self::Driver {
            names.extend(cudarc::get_lib_name_candidates("nvcuda"));
        }
        if names.iter().any(|name| keep(name.into())) {
            return None;
        }
        for folder in toolkit_folders() {
            // Only names with the loader's own version suffix can be found again by name.
            if names.iter().any(|name| keep(folder.join(name))) {
                return None;
            }
        }
        Some(format!(
            "no {} in the loader's path or the toolkit's folder (CUDA_HOME)",
            names[0]
        ))
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

/// Loads the library at `path` and never unloads it; false when it cannot be loaded.
#[allow(unsafe_code)]
fn keep(path: PathBuf) -> bool {
    // SAFETY: the path names an NVIDIA library, whose initialisers are safe to run on any thread;
    // it stays loaded for the rest of the process.
    match unsafe { libloading::Library::new(path) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(_) => false,
    }
}
