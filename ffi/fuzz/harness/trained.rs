//! Models for harnesses that need one.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use betz_ffi::*;

/// Two models of 4 channels and 2 outputs, trained once.
pub fn model_bytes(which: usize) -> &'static [u8] {
    static BYTES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    &BYTES.get_or_init(|| [trained(3), trained(5)])[which]
}

fn trained(stride: usize) -> Vec<u8> {
    const STEPS: usize = 60;
    let counts: Vec<u16> = (0..STEPS * 4)
        .map(|i| (i * stride % 7 % 3) as u16)
        .collect();
    let behavior: Vec<f32> = (0..STEPS * 2).map(|i| (0.3 * i as f32).sin()).collect();
    let mut config = MaybeUninit::uninit();
    let mut model = ptr::null_mut();
    // SAFETY: arrays are as long as is said.
    unsafe {
        betz_train_config_default(config.as_mut_ptr(), size_of_val(&config));
        let mut config: betz_train_config = config.assume_init();
        config.channels = 4;
        config.step_seconds = 0.02;
        config.folds = 2;
        let status = betz_train_counts(
            &config,
            counts.as_ptr(),
            behavior.as_ptr(),
            STEPS,
            2,
            &mut model,
        );
        assert_eq!(status, betz_status::BETZ_OK);
        let mut len = 0;
        betz_model_save_bytes(model, ptr::null_mut(), 0, &mut len);
        let mut bytes = vec![0; len];
        betz_model_save_bytes(model, bytes.as_mut_ptr(), len, &mut len);
        betz_model_free(model);
        bytes
    }
}
