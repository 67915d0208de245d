//! From the text of a kernel file to machine code, by NVRTC.

use std::ffi::{CStr, CString};

use cudarc::nvrtc::sys;

use betz_kernels::FIXED_OPTIONS;

use super::library::Library;
use betz_base::error::{Error, ErrorKind, Result};

/// The version of NVRTC, such as (13, 0).
///
/// # Errors
/// [`ErrorKind::DeviceUnavailable`] when NVRTC is absent.
#[allow(unsafe_code)]
pub fn nvrtc_version() -> Result<(i32, i32)> {
    Library::Nvrtc.load()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two integers.
    check("asking NVRTC for its version", unsafe {
        sys::nvrtcVersion(&mut major, &mut minor)
    })?;
    Ok((major, minor))
}

/// Compiles `text`, which may include `headers` by name, for compute capability `capability` and
/// returns machine code, or PTX where this NVRTC is older than the device. Needs no device.
///
/// # Errors
/// [`ErrorKind::KernelCompile`] with NVRTC's log; [`ErrorKind::DeviceUnavailable`] when NVRTC is
/// absent.
#[allow(unsafe_code)]
pub fn compile(
    name: &str,
    text: &str,
    headers: &[(&str, &str)],
    options: &[String],
    capability: (u32, u32),
) -> Result<Vec<u8>> {
    Library::Nvrtc.load()?;
    let newest = newest_architecture()?;
    let wanted = (capability.0 * 10 + capability.1) as i32;
    let machine_code = wanted <= newest;
    let mut all = vec![if machine_code {
        format!("--gpu-architecture=sm_{wanted}")
    } else {
        format!("--gpu-architecture=compute_{newest}")
    }];
    all.extend(FIXED_OPTIONS.iter().map(ToString::to_string));
    all.extend_from_slice(options);
    let text = c_string(text)?;
    let file = c_string(&format!("{name}.cu"))?;
    let all: Vec<CString> = all.iter().map(|o| c_string(o)).collect::<Result<_>>()?;
    let pointers: Vec<_> = all.iter().map(|o| o.as_ptr()).collect();
    let (names, texts): (Vec<CString>, Vec<CString>) = headers
        .iter()
        .map(|(name, text)| Ok((c_string(name)?, c_string(text)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let names: Vec<_> = names.iter().map(|n| n.as_ptr()).collect();
    let texts: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();

    let mut program = Program(std::ptr::null_mut());
    // SAFETY: strings end in zero and live through the call; as many names as texts.
    check("creating an NVRTC program", unsafe {
        sys::nvrtcCreateProgram(
            &mut program.0,
            text.as_ptr(),
            file.as_ptr(),
            headers.len() as i32,
            texts.as_ptr(),
            names.as_ptr(),
        )
    })?;
    // SAFETY: the program was created above; the options end in zero.
    let outcome =
        unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    if outcome != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(Error::new(
            ErrorKind::KernelCompile,
            format!("{name}.cu for sm_{wanted}: {outcome:?}\n{}", program.log()?),
        ));
    }
    program.image(machine_code)
}

struct Program(sys::nvrtcProgram);

#[allow(unsafe_code)]
impl Program {
    fn log(&self) -> Result<String> {
        let mut size = 0;
        // SAFETY: the program is alive; the buffer has the size asked for.
        check("reading NVRTC's log", unsafe {
            sys::nvrtcGetProgramLogSize(self.0, &mut size)
        })?;
        let mut log = vec![0u8; size];
        // SAFETY: as above.
        check("reading NVRTC's log", unsafe {
            sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast())
        })?;
        Ok(CStr::from_bytes_until_nul(&log)
            .map(|s| s.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    fn image(&self, machine_code: bool) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: the program is compiled; each buffer has the size asked for.
        check("reading a compiled kernel", unsafe {
            if machine_code {
                sys::nvrtcGetCUBINSize(self.0, &mut size)
            } else {
                sys::nvrtcGetPTXSize(self.0, &mut size)
            }
        })?;
        let mut image = vec![0u8; size];
        // SAFETY: as above.
        check("reading a compiled kernel", unsafe {
            if machine_code {
                sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast())
            } else {
                sys::nvrtcGetPTX(self.0, image.as_mut_ptr().cast())
            }
        })?;
        Ok(image)
    }
}

impl Drop for Program {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: created by NVRTC, destroyed once.
            let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
        }
    }
}

fn check(what: &str, result: sys::nvrtcResult) -> Result<()> {
    if result == sys::nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::DeviceFailure,
        format!("{what}: {result:?}"),
    ))
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::argument("kernel: expected text without zero bytes, found one"))
}

/// Newest architecture this NVRTC compiles for, as in `sm_90`.
#[allow(unsafe_code)]
fn newest_architecture() -> Result<i32> {
    let mut count = 0;
    // SAFETY: writes one integer.
    check("asking NVRTC for architectures", unsafe {
        sys::nvrtcGetNumSupportedArchs(&mut count)
    })?;
    let mut architectures = vec![0; count.max(0) as usize];
    // SAFETY: the buffer has room for as many as were counted.
    check("asking NVRTC for architectures", unsafe {
        sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr())
    })?;
    architectures.into_iter().max().ok_or_else(|| {
        Error::new(
            ErrorKind::DeviceUnavailable,
            "NVRTC supports no architecture",
        )
    })
}
