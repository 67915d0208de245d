//! Steps a decoder in a browser: one session, with functions for JavaScript.
//!
//! JavaScript calls [`room`], writes the bytes of a model file there, calls [`open`], writes the counts of a step where
//! [`counts`] says, calls [`step`] and reads where [`estimates`] says. Texts are UTF-8 at [`text`], [`text_length`] bytes
//! long: after a call that failed what was wrong, after [`name`] a name.

use std::cell::RefCell;

use betz_runtime::model::Decoder;
use betz_runtime::stream::{Input, Session, SessionConfig};

/// The session, and the memory that JavaScript reads and writes.
#[derive(Default)]
struct Page {
    session: Option<Session>,
    file: Vec<u8>,
    counts: Vec<u16>,
    estimates: Vec<f32>,
    names: Vec<String>,
    step_seconds: f64,
    text: String,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(work)
}

/// Room for the `length` bytes of a model file.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *mut u8 {
    with(|page| {
        page.file = vec![0; length];
        page.file.as_mut_ptr()
    })
}

/// Opens a session of the model whose file was written. Returns 0, or 1 for a model that was refused; then the session before
/// goes on.
#[unsafe(no_mangle)]
pub extern "C" fn open() -> i32 {
    with(|page| {
        let opened = Decoder::from_bytes(&page.file).and_then(|decoder| {
            let config = SessionConfig {
                statistics: false,
                ..SessionConfig::default()
            };
            Session::open(&decoder, config).map(|session| (decoder, session))
        });
        let (decoder, session) = match opened {
            Ok(both) => both,
            Err(error) => {
                page.text = error.message().to_string();
                return 1;
            }
        };
        page.counts = vec![0; session.channels()];
        page.estimates = vec![0.0; session.outputs()];
        page.names = decoder
            .outputs()
            .iter()
            .map(|output| output.name.clone())
            .collect();
        page.step_seconds = decoder.step_seconds();
        page.session = Some(session);
        page.text.clear();
        0
    })
}

/// Number of channels; 0 without a model.
#[unsafe(no_mangle)]
pub extern "C" fn channels() -> usize {
    with(|page| page.counts.len())
}

/// Number of outputs; 0 without a model.
#[unsafe(no_mangle)]
pub extern "C" fn outputs() -> usize {
    with(|page| page.estimates.len())
}

/// Length of a step in seconds.
#[unsafe(no_mangle)]
pub extern "C" fn step_seconds() -> f64 {
    with(|page| page.step_seconds)
}

/// Address of the counts of a step, which JavaScript writes: u16, one per channel.
#[unsafe(no_mangle)]
pub extern "C" fn counts() -> *mut u16 {
    with(|page| page.counts.as_mut_ptr())
}

/// Address of the estimates of the last step: f32, one per output.
#[unsafe(no_mangle)]
pub extern "C" fn estimates() -> *const f32 {
    with(|page| page.estimates.as_ptr())
}

/// One step with the counts that were written. Returns 0, or 1 where it was refused.
#[unsafe(no_mangle)]
pub extern "C" fn step() -> i32 {
    with(|page| {
        let Some(session) = &mut page.session else {
            page.text = "expected a model, got none".into();
            return 1;
        };
        match session.try_step(&Input::Counts(&page.counts), &mut page.estimates) {
            Ok(_) => 0,
            Err(refused) => {
                page.text = refused.to_string();
                1
            }
        }
    })
}

/// Puts the name of an output into the text.
#[unsafe(no_mangle)]
pub extern "C" fn name(output: usize) {
    with(|page| page.text = page.names.get(output).cloned().unwrap_or_default());
}

/// Address of the text.
#[unsafe(no_mangle)]
pub extern "C" fn text() -> *const u8 {
    with(|page| page.text.as_ptr())
}

/// Bytes of the text.
#[unsafe(no_mangle)]
pub extern "C" fn text_length() -> usize {
    with(|page| page.text.len())
}
