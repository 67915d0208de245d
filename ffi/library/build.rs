//! Gives the shared library its soname: programs linked against it ask for this ABI by name.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The number is `betz_abi_version()`: it changes when a program must be linked anew.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbetz.so.2");
        // Threads of the host's may have something of the library's to run when they end.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // Allocations that std makes directly from the system fall back on the reserve, on systems for
        // which src/system_memory.rs has the functions. scripts/localise.sh does the same for libbetz.a.
        let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
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
        }
    }
}
