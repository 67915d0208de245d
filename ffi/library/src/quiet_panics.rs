//! A panic in a thread of the host's prints nothing: it is the call's status and message. A loop that moves
//! something must not wait for a terminal. A panic in a thread of Betz's own has no call that could report it and
//! goes to stderr.
#![allow(
    unsafe_code,
    reason = "a section whose functions run when the library is loaded"
)]

use std::panic::{PanicHookInfo, set_hook};

extern "C" fn at_load() {
    set_hook(Box::new(hook));
}

#[used]
#[unsafe(link_section = ".init_array")]
static RUN_AT_LOAD: extern "C" fn() = at_load;

fn hook(panic: &PanicHookInfo<'_>) {
    if let Some(name) = std::thread::current().name()
        && name.starts_with("betz-")
    {
        eprintln!("thread '{name}' {panic}");
    }
}
