//! Links without a C library and without the start-up code of one.

fn main() {
    // Rust's own linker for bare targets adds neither.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        return;
    }
    for argument in ["-nostdlib", "-nostartfiles", "-static"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
