//! Gives the shared library its soname: programs linked against it ask for this ABI by name.

use std::env::var;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(betz_std_entries)");
    println!("cargo::rustc-check-cfg=cfg(betz_process_entry)");
    if var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The number is `betz_abi_version()`: it changes when a program must be linked anew.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbetz.so.2");
        // GNU ld drops the exception tables of functions that it drops; LLVM's linker keeps them, 100 to 150 kB.
        if has_gnu_ld() {
            println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
            // The functions of a step, beside each other.
            println!("cargo::rerun-if-changed=step_order.ld");
            if let Ok(folder) = var("CARGO_MANIFEST_DIR") {
                println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{folder}/step_order.ld");
            }
        }
        // Threads of the host's may have something of the library's to run when they end.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // Allocations that std makes directly from the system fall back on the reserve, on systems for
        // which src/system_memory.rs has the functions. scripts/localise.sh does the same for libbetz.a.
        let arch = var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        if ["x86_64", "aarch64"].contains(&arch.as_str()) {
            for function in [
                "malloc",
                "calloc",
                "realloc",
                "posix_memalign",
                "aligned_alloc",
                "free",
            ] {
                println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={function}");
            }
            // src/quiet_panics.rs has the functions that panics and failed allocations enter instead of std's.
            let std = std_archive().unwrap_or_default();
            let panic = symbol(&std, "17rust_begin_unwind");
            let alloc_error = symbol(&std, "26___rust_alloc_error_handler");
            if let (Some(panic), Some(alloc_error)) = (panic, alloc_error) {
                println!("cargo::rustc-cfg=betz_std_entries");
                println!("cargo::rustc-env=BETZ_PANIC_ENTRY={panic}");
                println!("cargo::rustc-env=BETZ_ALLOC_ERROR_ENTRY={alloc_error}");
                println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={panic},--wrap={alloc_error}");
            }
            // src/no_processes.rs has the function in place of `std::process::Command::output`.
            if let Some(output) = method(&std, "3std7process", "7Command6output") {
                println!("cargo::rustc-cfg=betz_process_entry");
                println!("cargo::rustc-env=BETZ_PROCESS_ENTRY={output}");
                println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={output}");
            }
        }
    }
}

/// True if the compiler that links finds GNU ld.
fn has_gnu_ld() -> bool {
    let linker = var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let version = std::process::Command::new(linker)
        .args(["-fuse-ld=bfd", "-Wl,--version"])
        .output();
    version.is_ok_and(|version| version.status.success() && version.stdout.starts_with(b"GNU ld"))
}

/// The bytes of std's archive for the target.
fn std_archive() -> Option<Vec<u8>> {
    let libraries = std::process::Command::new(var("RUSTC").ok()?)
        .args(["--print", "target-libdir", "--target", &var("TARGET").ok()?])
        .output()
        .ok()?;
    let folder = String::from_utf8(libraries.stdout).ok()?;
    let archive = std::fs::read_dir(Path::new(folder.trim()))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libstd-") && name.ends_with(".rlib")
        })?;
    std::fs::read(archive).ok()
}

/// Symbol of a function in std's archive: `_RNvCs<letters and digits>_7___rustc` and the mangled name, different in
/// each toolchain. None if there is no such function.
fn symbol(archive: &[u8], mangled: &str) -> Option<String> {
    let tail = format!("_7___rustc{mangled}");
    let end = (archive.windows(tail.len())).position(|bytes| bytes == tail.as_bytes())?;
    let (head, _) = archive.split_at(end);
    let letters = (head.iter().rev())
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let crate_name = std::str::from_utf8(head.get(head.len() - letters..)?).ok()?;
    let whole =
        crate_name.starts_with("RNvCs") && head.get(head.len() - letters - 1) == Some(&b'_');
    whole.then(|| format!("_{crate_name}{tail}"))
}

/// Symbol of a method in std's archive: it begins with `_RNvM`, contains `module`, and ends in `mangled`. None if there
/// is no such method.
fn method(archive: &[u8], module: &str, mangled: &str) -> Option<String> {
    let mut rest = archive;
    loop {
        let end = (rest.windows(mangled.len())).position(|bytes| bytes == mangled.as_bytes())?
            + mangled.len();
        let (head, tail) = rest.split_at(end);
        rest = tail;
        let length = (head.iter().rev())
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let name = std::str::from_utf8(&head[head.len() - length..]).ok()?;
        let is_whole = tail.first() == Some(&0);
        if is_whole && name.starts_with("_RNvM") && name.contains(module) {
            return Some(name.to_owned());
        }
    }
}
