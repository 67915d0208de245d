//! Bytes that somebody has been at: every flipped byte of a model and of a checkpoint, and random changes
//! with the checksum mended. A step that says `BETZ_OK` gives finite numbers.
//!
//! `BETZ_HOSTILE=100000 cargo test -p betz-ffi --test calls hostile` tries so many random changes.

use std::mem::MaybeUninit;
use std::ptr;

use betz_ffi::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{model_load_bytes, trained};

/// Bytes before and after what a frame holds.
const HEADER: usize = 20;
const CHECKSUM: usize = 4;

fn load(bytes: &[u8]) -> *mut betz_model {
    let mut model = ptr::null_mut();
    // SAFETY: a live slice and a place for the result.
    let status = unsafe { betz_model_load_bytes(bytes.as_ptr(), bytes.len(), &mut model) };
    assert_eq!(status, betz_status::BETZ_OK);
    model
}

fn checkpoint_of(session: *const betz_session) -> Vec<u8> {
    let mut len = 0;
    // SAFETY: a live session, and slices of the lengths that are said.
    unsafe {
        let status = betz_session_checkpoint(session, ptr::null_mut(), 0, &mut len);
        assert_eq!(status, betz_status::BETZ_OK);
        let mut bytes = vec![0; len];
        let status = betz_session_checkpoint(session, bytes.as_mut_ptr(), len, &mut len);
        assert_eq!(status, betz_status::BETZ_OK);
        bytes
    }
}

fn open(model: *const betz_model) -> *mut betz_session {
    let mut config = MaybeUninit::<betz_session_config>::uninit();
    let mut session = ptr::null_mut();
    // SAFETY: a live model and places for the results.
    unsafe {
        let size = size_of_val(&config);
        betz_session_config_default(config.as_mut_ptr(), size);
        let status = betz_session_open(model, config.as_ptr(), &mut session);
        assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
    }
    session
}

/// Steps a session in all the ways that make numbers large; how many estimates that were said to be fine
/// are not finite.
fn step_all(model: *const betz_model, session: *mut betz_session) -> usize {
    // SAFETY: live handles, and slices of the lengths that are said.
    unsafe {
        let (channels, outputs) = (betz_model_channels(model), betz_model_outputs(model));
        // Longer than any model of these bytes has: not allocated in proportion to a number in the file.
        if channels > 4096 || outputs > 4096 {
            return 0;
        }
        let mut out = vec![0.0f32; outputs as usize];
        let mut wrong = 0;
        for t in 0..24u32 {
            let count = if t % 8 == 7 { u16::MAX } else { (t % 3) as u16 };
            let counts = vec![count; channels as usize];
            let status = betz_session_step_counts(
                session,
                counts.as_ptr(),
                counts.len(),
                out.as_mut_ptr(),
                out.len(),
            );
            assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
            let finite = out.iter().all(|x| x.is_finite());
            wrong += usize::from(status == betz_status::BETZ_OK && !finite);
        }
        wrong
    }
}

/// Loads a model's bytes: returns true if they load, and the number of estimates that are not finite.
fn try_model(bytes: &[u8]) -> (bool, usize) {
    let mut model = ptr::null_mut();
    // SAFETY: live slices and handles.
    unsafe {
        let status = betz_model_load_bytes(bytes.as_ptr(), bytes.len(), &mut model);
        assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
        if status != betz_status::BETZ_OK {
            return (false, 0);
        }
        let session = open(model);
        let wrong = if session.is_null() {
            0
        } else {
            step_all(model, session)
        };
        betz_session_close(session);
        betz_model_free(model);
        (true, wrong)
    }
}

/// Values that files of honest programs do not have.
fn hostile(random: &mut ChaCha8Rng) -> [u8; 8] {
    let values = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        -f64::MAX,
        3.4e38,
        1e300,
        1e-300,
        f64::MIN_POSITIVE / 2.0,
        -0.0,
    ];
    match random.random_range(0..4) {
        0 => random.random::<u64>().to_le_bytes(),
        1 => u64::MAX.to_le_bytes(),
        _ => values[random.random_range(0..values.len())].to_le_bytes(),
    }
}

fn change(payload: &mut [u8], random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..payload.len());
        match random.random_range(0..3) {
            0 => payload[at] ^= 1 << random.random_range(0..8),
            1 => payload[at] = random.random(),
            _ => {
                let value = hostile(random);
                let end = (at + 8).min(payload.len());
                payload[at..end].copy_from_slice(&value[..end - at]);
            }
        }
    }
}

fn tries() -> usize {
    std::env::var("BETZ_HOSTILE").map_or(4_000, |n| n.parse().unwrap())
}

#[test]
fn no_change_of_a_model_gives_estimates_that_are_not_finite() {
    let bytes = trained::model_bytes(0).to_vec();
    assert_eq!(try_model(&bytes), (true, 0));
    let mut flipped = bytes.clone();
    for at in 0..bytes.len() {
        flipped[at] ^= 0xFF;
        assert!(!try_model(&flipped).0, "byte {at} flipped and not seen");
        flipped[at] = bytes[at];
    }
    let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let payload = &bytes[HEADER..bytes.len() - CHECKSUM];
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut loaded, mut wrong) = (0, 0);
    for _ in 0..tries() {
        let mut changed = payload.to_vec();
        change(&mut changed, &mut random);
        let (loads, not_finite) = try_model(&model_load_bytes::framed(version, &changed));
        loaded += usize::from(loads);
        wrong += not_finite;
    }
    println!(
        "models: {} flipped bytes refused; {} changes with the checksum mended: {loaded} loaded, {wrong} \
         estimates not finite with BETZ_OK",
        bytes.len(),
        tries()
    );
    assert!(
        loaded > 0,
        "no change loaded: the frame is not what this test makes"
    );
    assert_eq!(wrong, 0);
}

#[test]
fn no_change_of_a_checkpoint_gives_estimates_that_are_not_finite() {
    let model = load(trained::model_bytes(1));
    let session = open(model);
    assert_eq!(step_all(model, session), 0);
    let bytes = checkpoint_of(session);
    // SAFETY: a live session and live bytes.
    let restore =
        |bytes: &[u8]| unsafe { betz_session_restore(session, bytes.as_ptr(), bytes.len()) };
    assert_eq!(restore(&bytes), betz_status::BETZ_OK);
    let mut flipped = bytes.clone();
    for at in 0..bytes.len() {
        flipped[at] ^= 0xFF;
        assert_ne!(
            restore(&flipped),
            betz_status::BETZ_OK,
            "byte {at} flipped and not seen"
        );
        flipped[at] = bytes[at];
    }
    let payload = &bytes[HEADER..bytes.len() - CHECKSUM];
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let (mut loaded, mut wrong) = (0, 0);
    for _ in 0..tries() {
        let mut changed = payload.to_vec();
        change(&mut changed, &mut random);
        let mut framed = bytes[..HEADER].to_vec();
        framed.extend(&changed);
        framed.extend(model_load_bytes::crc32(&framed).to_le_bytes());
        if restore(&framed) == betz_status::BETZ_OK {
            loaded += 1;
            wrong += step_all(model, session);
        }
    }
    println!(
        "checkpoints: {} flipped bytes refused; {} changes with the checksum mended: {loaded} loaded, \
         {wrong} estimates not finite with BETZ_OK",
        bytes.len(),
        tries()
    );
    assert!(
        loaded > 0,
        "no change loaded: the frame is not what this test makes"
    );
    assert_eq!(wrong, 0);
    // SAFETY: live, and not used any more.
    unsafe {
        betz_session_close(session);
        betz_model_free(model);
    }
}

/// More filters than any model has are refused before the first is read: the array has two.
#[test]
fn a_wrong_number_of_filters_is_refused_before_they_are_read() {
    let filters = [(); 2].map(|()| betz_filter {
        tau_seconds: 0.1,
        order: 0,
    });
    let (counts, behavior) = ([0u16; 80], [0.0f32; 10]);
    let mut config = MaybeUninit::<betz_train_config>::uninit();
    let mut model = ptr::null_mut();
    // SAFETY: places and slices of the lengths that are said, but for the filters, which are not read.
    let status = unsafe {
        betz_train_config_default(config.as_mut_ptr(), size_of_val(&config));
        let config = config.assume_init_mut();
        (config.channels, config.step_seconds) = (8, 0.02);
        (config.filters, config.n_filters) = (filters.as_ptr(), 1 << 24);
        config.folds = 0;
        betz_train_counts(
            config,
            counts.as_ptr(),
            behavior.as_ptr(),
            10,
            1,
            &mut model,
        )
    };
    assert_eq!(status, betz_status::BETZ_ERROR_INVALID_ARGUMENT);
    assert!(model.is_null());
}

/// A handle that two threads use, which it does not allow.
#[derive(Clone, Copy)]
struct SessionPointer(*mut betz_session);

// SAFETY: every call on the handle is checked.
unsafe impl Send for SessionPointer {}

#[test]
fn two_threads_that_step_one_session_lose_no_step_unsaid() {
    const STEPS: u64 = 100_000;
    let model = load(trained::model_bytes(0));
    let session = SessionPointer(open(model));
    let step = move || {
        let (session, mut taken) = (session, 0);
        for _ in 0..STEPS {
            let (counts, mut out) = ([1u16, 0, 2, 0], [0.0f32; 2]);
            // SAFETY: a live session and arrays of the lengths that are said.
            let status = unsafe {
                betz_session_step_counts(session.0, counts.as_ptr(), 4, out.as_mut_ptr(), 2)
            };
            match status {
                betz_status::BETZ_OK => taken += 1,
                busy => assert_eq!(busy, betz_status::BETZ_ERROR_BUSY),
            }
        }
        taken
    };
    let others: Vec<_> = (0..3).map(|_| std::thread::spawn(step)).collect();
    let taken: u64 = others.into_iter().map(|t| t.join().unwrap()).sum();
    let mut stats = MaybeUninit::<betz_stats>::zeroed();
    // SAFETY: a live session and a place for the result.
    unsafe {
        let size = size_of_val(&stats);
        let status = betz_session_stats(session.0, stats.as_mut_ptr(), size);
        assert_eq!(status, betz_status::BETZ_OK);
        assert_eq!(stats.assume_init().ticks, taken);
        betz_session_close(session.0);
        betz_model_free(model);
    }
}

#[test]
fn nothing_is_read_from_a_list_of_the_wrong_length() {
    const LEN: usize = isize::MAX as usize / 8;
    let model = load(trained::model_bytes(0));
    let (number, byte) = (0.0f32, 1u8);
    type Spoil = fn(&mut betz_session_config, *const f32, *const u8);
    let cases: [Spoil; 4] = [
        |c, number, _| (c.clamp_low, c.clamp_len) = (number, LEN),
        |c, number, _| (c.rest, c.rest_len) = (number, LEN),
        |c, number, _| (c.slew, c.slew_len) = (number, LEN),
        |c, _, byte| (c.channel_mask, c.channel_mask_len) = (byte, LEN),
    ];
    for spoil in cases {
        let mut config = MaybeUninit::<betz_session_config>::uninit();
        let mut session = ptr::null_mut();
        // SAFETY: a live model, and places for the results; of the lists nothing is read.
        unsafe {
            let size = size_of_val(&config);
            betz_session_config_default(config.as_mut_ptr(), size);
            let mut config = config.assume_init();
            spoil(&mut config, &number, &byte);
            let status = betz_session_open(model, &config, &mut session);
            assert_eq!(status, betz_status::BETZ_ERROR_MISMATCH);
        }
    }
    let session = open(model);
    // SAFETY: a live session; of the lists nothing is read.
    unsafe {
        let status = betz_session_set_clamp(session, &number, &number, LEN);
        assert_eq!(status, betz_status::BETZ_ERROR_MISMATCH);
        let status = betz_session_set_mask(session, model, &byte, LEN);
        assert_eq!(status, betz_status::BETZ_ERROR_MISMATCH);
        assert_eq!(betz_session_warm(session), betz_status::BETZ_OK);
        betz_session_close(session);
        betz_model_free(model);
    }
}
