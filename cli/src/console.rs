//! The end of a console of Windows: its window is closed, or the user logs off.

use std::sync::OnceLock;
use std::time::Duration;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(handler: Option<extern "system" fn(u32) -> i32>, add: i32) -> i32;
}

/// `CTRL_CLOSE_EVENT`, `CTRL_LOGOFF_EVENT` and `CTRL_SHUTDOWN_EVENT`.
const ENDS: [u32; 3] = [2, 5, 6];

static ON_END: OnceLock<fn()> = OnceLock::new();

/// Calls `on_end` when the console ends. Windows then gives the process some seconds to end by itself.
///
/// # Errors
/// The error of the system.
pub(crate) fn on_end(on_end: fn()) -> std::io::Result<()> {
    if ON_END.set(on_end).is_err() {
        return Ok(());
    }
    // SAFETY: the handler lives as long as the process.
    match unsafe { SetConsoleCtrlHandler(Some(handle), 1) } {
        0 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Hears every event of the console in a thread of its own. Ctrl-C and Ctrl-Break are left to the handler before this one.
extern "system" fn handle(event: u32) -> i32 {
    if !ENDS.contains(&event) {
        return 0;
    }
    if let Some(on_end) = ON_END.get() {
        on_end();
    }
    // Windows ends the process as soon as this returns.
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
