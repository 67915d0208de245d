//! Any bytes as a model file: refused, or a model that works.
//!
//! The first byte says how the rest is taken: 0 as a file; else as the payload of a file whose frame
//! (magic, version, length, checksum) is right, so that what is behind the checksum is reached too.

use std::ptr;

use betz_ffi::*;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else {
        return;
    };
    if mode == 0 {
        load(data);
    } else {
        load(&framed(u32::from(mode), data));
    }
}

/// `payload` in the frame of a model file.
pub fn framed(version: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"BETZMODL".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32(&bytes).to_le_bytes());
    bytes
}

fn load(bytes: &[u8]) {
    let mut model = ptr::null_mut();
    // SAFETY: a live slice, and places for the results.
    unsafe {
        let status = betz_model_load_bytes(bytes.as_ptr(), bytes.len(), &mut model);
        assert_eq!(status == betz_status::BETZ_OK, !model.is_null());
        assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
        if model.is_null() {
            return;
        }
        use_model(model);
        betz_model_free(model);
    }
}

/// # Safety
/// `model` is live.
unsafe fn use_model(model: *const betz_model) {
    // SAFETY: the caller's promise, and slices of the lengths that are said.
    unsafe {
        let (channels, outputs) = (betz_model_channels(model), betz_model_outputs(model));
        for i in 0..channels.min(3) {
            assert!(!betz_model_channel_name(model, i).is_null());
        }
        assert!(betz_model_output_name(model, outputs).is_null());
        let mut config = std::mem::MaybeUninit::uninit();
        let mut session = ptr::null_mut();
        assert_eq!(
            betz_session_config_default(config.as_mut_ptr(), size_of_val(&config)),
            betz_status::BETZ_OK
        );
        let status = betz_session_open(model, config.as_ptr(), &mut session);
        assert_ne!(status, betz_status::BETZ_ERROR_PANIC);
        if session.is_null() {
            return;
        }
        let mut out = vec![0.0f32; outputs as usize];
        let counts: Vec<u16> = (0..channels).map(|c| (c % 3) as u16).collect();
        for _ in 0..3 {
            let status = betz_session_step_counts(
                session,
                counts.as_ptr(),
                counts.len(),
                out.as_mut_ptr(),
                out.len(),
            );
            assert_eq!(status, betz_status::BETZ_OK);
        }
        betz_session_close(session);
    }
}

/// CRC-32 (IEEE), as the frame has it, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 * (crc & 1))
        })
    })
}
