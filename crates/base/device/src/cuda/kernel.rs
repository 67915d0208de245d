//! Kernels: built in, or compiled when first needed (`compile`) and kept on disk; loaded once a context.
//!
//! A cached entry carries the whole key it was made from (source, options, architecture, NVRTC
//! version) and a checksum, so a changed kernel, another toolkit, a damaged file or two programs
//! writing at once can at worst cost a compilation.

use betz_base::lock::lock;
use std::ffi::c_void;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaFunction, CudaModule, CudaStream, result};
use cudarc::nvrtc::Ptx;

use betz_base::hash::Fnv1a;

use betz_kernels::{Arguments, Blocks, FIXED_OPTIONS, Source, TooShort};

use super::compile::{compile, nvrtc_version};
use super::context::Context;
use super::error::driver_error;
use crate::cache;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::file::write_atomically;

/// Most thread blocks of one launch side by side in the second and the third dimension.
pub const MOST_BLOCKS: u32 = 65_535;

/// First bytes of a cached entry; the digit counts layouts.
const MAGIC: &[u8; 8] = b"betzker1";

/// A compiled kernel on its context's stream, for the arguments that it was loaded for.
#[derive(Clone)]
pub struct Kernel {
    function: CudaFunction,
    stream: Arc<CudaStream>,
    kind: Kind,
    shared_bytes: u32,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} of {}.cu)", self.kind.name, self.kind.file)
    }
}

/// Identity of a kernel: its file, its name and the options of its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    file: &'static str,
    name: &'static str,
    options: &'static [(&'static str, &'static str)],
}

impl Kind {
    const fn of<A: Arguments>() -> Self {
        Self {
            file: A::SOURCE.name,
            name: A::KERNEL,
            options: A::OPTIONS,
        }
    }
}

impl Context {
    /// The kernel of the arguments `A`, compiled with `options` unless this process, or the cache on
    /// disk, has it already. Every launch has `shared_bytes` of dynamic shared memory a block.
    ///
    /// # Errors
    /// [`ErrorKind::KernelCompile`]; [`ErrorKind::Internal`] when `options` lack one that the types of
    /// `A` stand for; those of the device.
    pub fn load<A: Arguments>(&self, options: &[String], shared_bytes: usize) -> Result<Kernel> {
        self.load_kind(A::SOURCE, Kind::of::<A>(), options, shared_bytes)
    }

    fn load_kind(
        &self,
        source: Source,
        kind: Kind,
        options: &[String],
        shared_bytes: usize,
    ) -> Result<Kernel> {
        let place = || format!("kernel {} of {}.cu", kind.name, source.name);
        for (option, value) in kind.options {
            let option = format!("-D{option}={value}");
            if !options.contains(&option) {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("{}: expected the option {option}, got {options:?}", place()),
                ));
            }
        }
        let module = self.module(source, options)?;
        let function = module
            .load_function(kind.name)
            .map_err(|e| driver_error(&place(), e))?;
        let fail = |e| driver_error(&format!("{}: {shared_bytes} bytes shared", place()), e);
        let own = function
            .get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
            .map_err(fail)?
            .max(0) as usize;
        if shared_bytes > 0 && own + shared_bytes > 48 * 1024 {
            // As much as there is, since the next to load the kernel may ask for less than this one.
            let most = self.shared_bytes().saturating_sub(own).max(shared_bytes);
            function
                .set_attribute(
                    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    most as i32,
                )
                .map_err(fail)?;
        }
        Ok(Kernel {
            function,
            stream: Arc::clone(&self.stream),
            kind,
            shared_bytes: shared_bytes as u32,
        })
    }

    fn module(&self, source: Source, options: &[String]) -> Result<Arc<CudaModule>> {
        let short = format!("{} {}", source.name, options.join(" "));
        let mut modules = lock(&self.modules);
        let slot = Arc::clone(modules.entry(short).or_default());
        drop(modules);
        let mut slot = lock(&slot);
        if let Some(module) = &*slot {
            return Ok(Arc::clone(module));
        }
        let capability = self.info().compute_capability;
        let load = |image: &[u8]| self.cuda.load_module(Ptx::from_binary(image.to_vec()));
        let built = source.image(options, capability);
        if let Some(module) = built.and_then(|image| load(image).ok()) {
            *slot = Some(Arc::clone(&module));
            return Ok(module);
        }
        let key = Key::new(source, options, capability, nvrtc_version()?);
        // An entry that reads well but does not load is as damaged as one that does not read.
        let cached = key.read().and_then(|image| load(&image).ok());
        let module = match cached {
            Some(module) => module,
            None => {
                let image = compile(
                    source.name,
                    source.text,
                    source.headers,
                    options,
                    capability,
                )?;
                key.write(&image);
                load(&image).map_err(|e| driver_error(&format!("loading {}.cu", source.name), e))?
            }
        };
        *slot = Some(Arc::clone(&module));
        Ok(module)
    }
}

impl Kernel {
    /// Starts `blocks` blocks of `threads` threads. Does not wait.
    ///
    /// The arguments borrow the memory they name, so that a kernel's outputs are nobody else's while
    /// it is asked for; from there on the stream keeps the order (see [`Buffer`](super::Buffer)).
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for arguments of another kernel, or memory that is too short as far as
    /// the arguments tell; [`ErrorKind::DeviceMemory`] for more blocks than a launch takes; those of
    /// the device.
    pub fn launch<A: Arguments>(&self, blocks: Blocks, threads: u32, arguments: A) -> Result<()> {
        self.admit(Kind::of::<A>(), blocks, arguments.check(blocks))?;
        let mut pointers = arguments.pointers();
        #[allow(unsafe_code)]
        // SAFETY: the kernel is that of `A`, whose pointers are its arguments, alive through the call.
        unsafe {
            self.start(blocks, threads, &mut pointers[..A::COUNT])
        }
    }

    /// Starts `blocks` blocks of `threads` threads that run at the same time, so that they may wait for each
    /// other. Does not wait.
    ///
    /// # Errors
    /// As [`Kernel::launch`]; [`ErrorKind::DeviceMemory`] for more blocks than
    /// [`Kernel::resident_blocks`].
    pub fn launch_together<A: Arguments>(
        &self,
        blocks: Blocks,
        threads: u32,
        arguments: A,
    ) -> Result<()> {
        self.admit(Kind::of::<A>(), blocks, arguments.check(blocks))?;
        let most = self.resident_blocks(threads)?;
        let wanted = u64::from(blocks.0) * u64::from(blocks.1) * u64::from(blocks.2);
        if wanted > u64::from(most) {
            return Err(Error::new(
                ErrorKind::DeviceMemory,
                format!(
                    "kernel {}: expected at most {most} blocks at the same time, got {wanted}",
                    self.kind.name
                ),
            ));
        }
        let fail = |e| driver_error(&format!("starting kernel {}", self.kind.name), e);
        self.stream.context().bind_to_thread().map_err(fail)?;
        let mut pointers = arguments.pointers();
        #[allow(unsafe_code)]
        // SAFETY: as in `launch` and `start`.
        unsafe {
            result::launch_cooperative_kernel(
                self.function.cu_function(),
                blocks,
                (threads, 1, 1),
                self.shared_bytes,
                self.stream.cu_stream(),
                &mut pointers[..A::COUNT],
            )
        }
        .map_err(fail)
    }

    /// Blocks of `threads` threads that run at the same time on the device, when nothing else does.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn resident_blocks(&self, threads: u32) -> Result<u32> {
        let fail = |e| driver_error(&format!("asking about kernel {}", self.kind.name), e);
        let each = (self.function)
            .occupancy_max_active_blocks_per_multiprocessor(
                threads,
                self.shared_bytes as usize,
                None,
            )
            .map_err(fail)?;
        let multiprocessors = (self.stream.context())
            .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(fail)?;
        Ok(each * multiprocessors.max(0) as u32)
    }

    fn admit(
        &self,
        kind: Kind,
        blocks: Blocks,
        sizes: std::result::Result<(), TooShort>,
    ) -> Result<()> {
        let refuse = |what: String| {
            let place = format!("kernel {} of {}.cu", self.kind.name, self.kind.file);
            Err(Error::new(ErrorKind::Internal, format!("{place}: {what}")))
        };
        if kind != self.kind {
            return refuse(format!("expected its own arguments, got {kind:?}"));
        }
        if let Err(short) = sizes {
            let (argument, expected, got) = (short.argument, short.expected, short.got);
            return refuse(format!(
                "{argument}: expected at least {expected} values for {blocks:?} blocks, got {got}"
            ));
        }
        check_blocks(self.kind.name, blocks)
    }

    /// Starts the kernel with the arguments that `pointers` lead to.
    ///
    /// # Safety
    /// `arguments` holds as many pointers as the kernel has parameters, in their order, each to an argument of its type.
    #[allow(unsafe_code)]
    unsafe fn start(
        &self,
        blocks: Blocks,
        threads: u32,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        let fail = |e| driver_error(&format!("starting kernel {}", self.kind.name), e);
        self.stream.context().bind_to_thread().map_err(fail)?;
        // SAFETY: the caller's promise. Buffers have no events of their own to wait for or to record
        // (`Context::new` turns them off): all that uses them is on this stream, or waits for it.
        unsafe {
            result::launch_kernel(
                self.function.cu_function(),
                blocks,
                (threads, 1, 1),
                self.shared_bytes,
                self.stream.cu_stream(),
                pointers,
            )
        }
        .map_err(fail)
    }
}

/// Refuses what the driver would call an invalid argument, without saying which.
fn check_blocks(name: &str, (x, y, z): (u32, u32, u32)) -> Result<()> {
    if y.max(z) > MOST_BLOCKS || x > i32::MAX as u32 {
        return Err(Error::new(
            ErrorKind::DeviceMemory,
            format!(
                "kernel {name}: expected at most 2^31 × {MOST_BLOCKS} × {MOST_BLOCKS} thread blocks, got {x} × {y} × {z}: too many features, channels or outputs for a device"
            ),
        ));
    }
    Ok(())
}

/// Cache key of a compiled kernel, and its file.
struct Key {
    text: String,
    path: Option<PathBuf>,
}

impl Key {
    fn new(source: Source, options: &[String], capability: (u32, u32), nvrtc: (i32, i32)) -> Self {
        let text = format!(
            "{}\nsm_{}{}\nnvrtc {}.{}\n{}\n{}\n{}",
            source.name,
            capability.0,
            capability.1,
            nvrtc.0,
            nvrtc.1,
            FIXED_OPTIONS.join("\n"),
            options.join("\n"),
            source.text
        );
        let text = source.headers.iter().fold(text, |text, (name, header)| {
            format!("{text}\n{name}\n{header}")
        });
        // The hash names the file; the entry's own key decides.
        let mut hash = Fnv1a::new();
        hash.bytes(text.as_bytes());
        let path = cache::folder().map(|folder| {
            folder
                .join("kernels")
                .join(format!("{}-{:016x}.kernel", source.name, hash.finish()))
        });
        Self { text, path }
    }

    /// The cached image; `None` when there is none, or it is damaged, or made from another key.
    fn read(&self) -> Option<Vec<u8>> {
        let entry = std::fs::read(self.path.as_ref()?).ok()?;
        let rest = entry.strip_prefix(MAGIC)?;
        let (checksum, rest) = rest.split_first_chunk::<4>()?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (key, image) = rest.split_at_checked(length)?;
        (key == self.text.as_bytes()).then(|| image.to_vec())
    }

    /// Keeps `image`. A folder that cannot be written costs a compilation the next time, no more.
    fn write(&self, image: &[u8]) {
        let Some(path) = &self.path else { return };
        let mut body = Vec::with_capacity(8 + self.text.len() + image.len());
        body.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
        body.extend_from_slice(self.text.as_bytes());
        body.extend_from_slice(image);
        if let Some(folder) = path.parent()
            && std::fs::create_dir_all(folder).is_ok()
        {
            let _ = write_atomically(path, |file| {
                file.write_all(MAGIC)?;
                file.write_all(&crc32fast::hash(&body).to_le_bytes())?;
                file.write_all(&body)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_in(folder: &std::path::Path, text: &str) -> Key {
        Key {
            text: text.to_owned(),
            path: Some(folder.join("sub").join("k.kernel")),
        }
    }

    #[test]
    fn the_cache_gives_back_what_was_kept_and_nothing_damaged_or_foreign() {
        let folder = tempfile::tempdir().unwrap();
        let key = key_in(folder.path(), "source and options");
        assert_eq!(key.read(), None);
        key.write(b"machine code");
        assert_eq!(key.read().unwrap(), b"machine code");
        // The same file under another key (a collision of names).
        assert_eq!(key_in(folder.path(), "other source").read(), None);
        let path = key.path.as_ref().unwrap();
        let whole = std::fs::read(path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(path, &whole[..cut]).unwrap();
            assert_eq!(key.read(), None, "cut at {cut}");
        }
        for i in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[i] ^= 1;
            std::fs::write(path, &flipped).unwrap();
            assert_eq!(key.read(), None, "flipped byte {i}");
        }
        key.write(b"rebuilt");
        assert_eq!(key.read().unwrap(), b"rebuilt");
    }

    #[test]
    fn the_key_names_everything_a_kernel_is_compiled_from() {
        let source = Source {
            name: "sums",
            text: "the text",
            headers: &[("part.cuh", "the header")],
            variants: &[],
            images: &[],
        };
        let key = Key::new(source, &["-DORDER=3".to_owned()], (9, 0), (13, 1));
        let parts = [
            "sums",
            "sm_90",
            "nvrtc 13.1",
            "-DORDER=3",
            "the text",
            "part.cuh",
        ];
        for part in parts.iter().chain(FIXED_OPTIONS).chain(&["the header"]) {
            assert!(key.text.lines().any(|line| line == *part), "{part}");
        }
    }

    #[test]
    fn more_blocks_than_a_launch_has_are_refused_by_number() {
        let (most, wide) = (MOST_BLOCKS, i32::MAX as u32);
        check_blocks("f", (wide, most, most)).unwrap();
        for blocks in [(1, most + 1, 1), (1, 1, most + 1), (wide + 1, 1, 1)] {
            let error = check_blocks("centre_gram", blocks).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeviceMemory);
            assert!(error.message().contains("centre_gram"), "{error}");
            assert!(error.message().contains("65535"), "{error}");
        }
    }

    #[test]
    fn a_compile_error_shows_the_compilers_log() {
        if let Err(error) = nvrtc_version() {
            eprintln!("skipped: {}", error.message());
            return;
        }
        let error = compile(
            "broken",
            "__global__ void f() { nonsense; }",
            &[],
            &[],
            (9, 0),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KernelCompile);
        assert!(error.message().contains("nonsense"), "{error}");
        assert!(error.message().contains("broken.cu"), "{error}");
        // A device newer than this NVRTC gets PTX, which its driver finishes.
        let image = compile(
            "fine",
            "extern \"C\" __global__ void f() {}",
            &[],
            &[],
            (99, 0),
        )
        .unwrap();
        assert!(image.starts_with(b"//") || image.windows(8).any(|w| w == b".version"));
    }
}
