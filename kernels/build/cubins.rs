//! Machine code of the kernels, made when Betz is built, where `BETZ_NVRTC` names the folder of NVRTC.
//!
//! A program that carries it starts its first work on a GPU without compiling. What is not among the variants that the
//! kernel files list is compiled at run time, as everything is without it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libloading::Library;

/// Compute capabilities that machine code is made for: it runs on those of the same major number, too.
pub(crate) const CAPABILITIES: [(u32, u32); 2] = [(8, 0), (9, 0)];

/// A kernel file with the headers that it includes and its options.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// Names and texts.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) options: Vec<&'a str>,
    pub(crate) capability: (u32, u32),
}

/// Machine code of every job, in their order.
///
/// # Errors
/// NVRTC's log of the job that failed, or the reason why NVRTC cannot be used.
pub(crate) fn compile(folder: &Path, jobs: &[Job<'_>]) -> Result<Vec<Vec<u8>>, String> {
    let nvrtc = Nvrtc::load(folder)?;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![None; jobs.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, job)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(at).map(|job| (at, job))
                } {
                    let code = nvrtc.compile(job);
                    if let Ok(mut done) = done.lock() {
                        done[at] = Some(code);
                    }
                }
            });
        }
    });
    let done = done.into_inner().map_err(|e| e.to_string())?;
    done.into_iter().flatten().collect()
}

type Program = *mut c_void;

/// NVRTC's functions, as <nvrtc.h> declares them.
struct Nvrtc {
    library: Library,
    /// Loaded before, because NVRTC looks for it by name.
    _builtins: Library,
}

impl Nvrtc {
    #[allow(unsafe_code)]
    fn load(folder: &Path) -> Result<Self, String> {
        let find = |stem: &str| {
            let entries = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
            let mut names: Vec<PathBuf> = entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    name.starts_with(&format!("{stem}.so"))
                })
                .collect();
            names.sort();
            names.pop().ok_or_else(|| format!("found no {stem}.so"))
        };
        let load = |stem: &str| {
            let path = find(stem)?;
            // SAFETY: the library's initialisation is NVIDIA's.
            unsafe { Library::new(path) }.map_err(|e| e.to_string())
        };
        let both = || {
            Ok(Self {
                _builtins: load("libnvrtc-builtins")?,
                library: load("libnvrtc")?,
            })
        };
        both().map_err(|e: String| format!("BETZ_NVRTC={}: {e}", folder.display()))
    }

    #[allow(unsafe_code)]
    fn compile(&self, job: &Job<'_>) -> Result<Vec<u8>, String> {
        let what = || {
            format!(
                "{} {:?} for sm_{}{}",
                job.name, job.options, job.capability.0, job.capability.1
            )
        };
        let string = |text: &str| CString::new(text).map_err(|e| format!("{}: {e}", what()));
        let strings = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(string).collect::<Result<Vec<_>, _>>()
        };
        let (text, name) = (string(job.text)?, string(job.name)?);
        let names = strings(&mut job.headers.iter().map(|h| h.0))?;
        let texts = strings(&mut job.headers.iter().map(|h| h.1))?;
        let architecture = format!(
            "--gpu-architecture=sm_{}{}",
            job.capability.0, job.capability.1
        );
        let fixed =
            std::iter::once(architecture.as_str()).chain(super::FIXED_OPTIONS.iter().copied());
        let options = strings(&mut fixed.chain(job.options.iter().copied()))?;
        let pointers = |strings: &[CString]| {
            strings
                .iter()
                .map(|s| s.as_ptr())
                .collect::<Vec<*const c_char>>()
        };
        let (names, texts, options) = (pointers(&names), pointers(&texts), pointers(&options));
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: declared as in <nvrtc.h>; strings end in zero and live through the calls; buffers have the sizes that
        // NVRTC gives; the program is destroyed once, at the end.
        unsafe {
            let create = self.function::<unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCreateProgram\0")?;
            let compile = self.function::<unsafe extern "C" fn(
                Program,
                c_int,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCompileProgram\0")?;
            let destroy = self.function::<unsafe extern "C" fn(*mut Program) -> c_int>(
                b"nvrtcDestroyProgram\0",
            )?;
            let count = names.len() as c_int;
            if create(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            ) != 0
            {
                return Err(format!("{}: NVRTC takes no program", what()));
            }
            let outcome = compile(program, options.len() as c_int, options.as_ptr());
            let output = match outcome {
                0 => self.output(program, b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0"),
                _ => self.output(
                    program,
                    b"nvrtcGetProgramLogSize\0",
                    b"nvrtcGetProgramLog\0",
                ),
            };
            destroy(&mut program);
            match outcome {
                0 => output,
                _ => Err(format!("{}: {}", what(), String::from_utf8_lossy(&output?))),
            }
        }
    }

    /// Output that `read` writes, of the size that `size` gives.
    ///
    /// # Safety
    /// `program` is alive, and the functions are a pair.
    #[allow(unsafe_code)]
    unsafe fn output(&self, program: Program, size: &[u8], read: &[u8]) -> Result<Vec<u8>, String> {
        // SAFETY: as declared in <nvrtc.h>; the buffer has the size that NVRTC gives.
        unsafe {
            let size = self.function::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?;
            let read =
                self.function::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(read)?;
            let mut bytes = 0;
            if size(program, &mut bytes) != 0 {
                return Err("NVRTC gives no size".to_owned());
            }
            let mut output = vec![0_u8; bytes];
            match read(program, output.as_mut_ptr().cast()) {
                0 => Ok(output),
                code => Err(format!("NVRTC gives no output: {code}")),
            }
        }
    }

    /// # Safety
    /// The function has the type `F`.
    #[allow(unsafe_code)]
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F, String> {
        // SAFETY: the caller's promise.
        unsafe { self.library.get::<F>(name) }
            .map(|f| *f)
            .map_err(|e| e.to_string())
    }
}
