//! Any sequence of calls, as C could make them, within the promises of the header: live handles or
//! NULL, arrays as long as is said; everything else (lengths, enums, configurations, bytes, order)
//! comes from the input.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

use betz_ffi::*;

use super::input::Input;
use super::trained::model_bytes;

/// The handles that a caller holds; NULL where none is open.
struct World {
    models: [*mut betz_model; 2],
    sessions: [*mut betz_session; 3],
    queue: *mut betz_queue,
    checkpoint: Vec<u8>,
}

const ROOM: usize = 16;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World {
        models: [ptr::null_mut(); 2],
        sessions: [ptr::null_mut(); 3],
        queue: ptr::null_mut(),
        checkpoint: Vec::new(),
    };
    // SAFETY: the world's handles are live or NULL, and it is this thread's alone.
    input.calls(64, |input| unsafe { world.call(input) });
    // SAFETY: live or NULL, and not used again.
    unsafe {
        world
            .sessions
            .into_iter()
            .for_each(|session| betz_session_close(session));
        betz_queue_close(world.queue);
        world
            .models
            .into_iter()
            .for_each(|model| betz_model_free(model));
    }
}

impl World {
    /// # Safety
    /// The handles are live or NULL.
    unsafe fn call(&mut self, input: &mut Input<'_>) -> betz_status {
        let m = input.below(2);
        let s = input.below(3);
        let outputs = input.below(4);
        let (model, session) = (self.models[m], self.sessions[s]);
        // SAFETY: the caller's promise.
        unsafe {
            match input.below(27) {
                0 => self.load(m),
                1 => self.train(m, false, input),
                2 => self.open_session(m, s, input),
                choice @ 3..=6 => step(session, choice < 5, outputs, input),
                7 => betz_session_reset(session),
                8 => {
                    let mut stats = MaybeUninit::uninit();
                    betz_session_stats(session, stats.as_mut_ptr(), size_of_val(&stats))
                }
                9 => betz_session_clear_stats(session),
                10 => betz_session_swap_model(session, model),
                11 => betz_session_swap_model_after(session, model, input.byte().into()),
                12 => betz_session_rollback_model(session),
                13 => betz_session_release_model(session),
                14 => {
                    let mut state = MaybeUninit::uninit();
                    betz_session_swap_state(session, state.as_mut_ptr())
                }
                15 => self.save_checkpoint(session, input),
                16 => self.restore_checkpoint(session, input),
                choice @ 17..=21 => self.call_queue(choice, session, outputs, input),
                22 => self.train(m, true, input),
                23 => self.save(m, input),
                24 => {
                    let mut score = MaybeUninit::uninit();
                    let channel = input.byte().into();
                    betz_model_score(model, channel, score.as_mut_ptr(), size_of_val(&score))
                }
                25 => self.names(m, input),
                _ => read_last_error(input),
            }
        }
    }

    /// # Safety
    /// The session is live or NULL.
    unsafe fn save_checkpoint(
        &mut self,
        session: *mut betz_session,
        input: &mut Input<'_>,
    ) -> betz_status {
        let mut room = vec![0; 4096];
        let mut len = 0;
        let cap = 4096 >> input.below(13);
        // SAFETY: the caller's promise; the room is at least `cap` long.
        let status = unsafe { betz_session_checkpoint(session, room.as_mut_ptr(), cap, &mut len) };
        if status == betz_status::BETZ_OK {
            room.truncate(len);
            self.checkpoint = room;
        }
        status
    }

    /// Restores the last checkpoint, sometimes damaged.
    ///
    /// # Safety
    /// The session is live or NULL.
    unsafe fn restore_checkpoint(
        &mut self,
        session: *mut betz_session,
        input: &mut Input<'_>,
    ) -> betz_status {
        if input.byte().is_multiple_of(4) && !self.checkpoint.is_empty() {
            let at = input.below(self.checkpoint.len());
            self.checkpoint[at] ^= input.byte();
        }
        // SAFETY: the caller's promise; a live slice.
        unsafe { betz_session_restore(session, self.checkpoint.as_ptr(), self.checkpoint.len()) }
    }

    /// # Safety
    /// The handles and the session are live or NULL.
    unsafe fn call_queue(
        &mut self,
        choice: usize,
        session: *mut betz_session,
        outputs: usize,
        input: &mut Input<'_>,
    ) -> betz_status {
        // SAFETY: the caller's promise; arrays are ROOM long and lengths below that.
        unsafe {
            match choice {
                17 => {
                    betz_queue_close(self.queue);
                    self.queue = ptr::null_mut();
                    let late = enum_bits(input.byte() % 3);
                    betz_queue_open(input.below(64), late, &mut self.queue)
                }
                18 => {
                    let spikes: [betz_spike; ROOM] = std::array::from_fn(|_| betz_spike {
                        tick: i64::from(input.byte()) - 8,
                        channel: input.byte().into(),
                    });
                    let mut pushed = 0;
                    betz_queue_push(self.queue, spikes.as_ptr(), input.below(ROOM), &mut pushed)
                }
                19 => betz_queue_mark(self.queue, i64::from(input.byte()) - 8),
                20 => {
                    let mut out = [0.0; ROOM];
                    betz_queue_step(self.queue, session, out.as_mut_ptr(), outputs)
                }
                _ => {
                    let mut state = MaybeUninit::uninit();
                    let status =
                        betz_queue_get_state(self.queue, state.as_mut_ptr(), size_of_val(&state));
                    if status == betz_status::BETZ_OK && input.byte().is_multiple_of(2) {
                        return betz_queue_set_tick(self.queue, i64::MIN + i64::from(input.byte()));
                    }
                    status
                }
            }
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn load(&mut self, m: usize) -> betz_status {
        // SAFETY: the caller's promise; a live slice.
        unsafe {
            betz_model_free(self.models[m]);
            self.models[m] = ptr::null_mut();
            let bytes = model_bytes(m);
            betz_model_load_bytes(bytes.as_ptr(), bytes.len(), &mut self.models[m])
        }
    }

    /// A trained or loaded model can always be saved, and what is saved be loaded.
    ///
    /// # Safety
    /// The handles are live or NULL.
    unsafe fn save(&mut self, m: usize, input: &mut Input<'_>) -> betz_status {
        let model = self.models[m];
        let mut len = 0;
        // SAFETY: the caller's promise; the room is as long as is said.
        unsafe {
            let status = betz_model_save_bytes(model, ptr::null_mut(), 0, &mut len);
            if model.is_null() {
                assert_eq!(status, betz_status::BETZ_ERROR_NULL);
                return status;
            }
            assert_eq!(status, betz_status::BETZ_OK);
            let mut bytes = vec![0; len];
            let cap = len.saturating_sub(input.below(4));
            let status = betz_model_save_bytes(model, bytes.as_mut_ptr(), cap, &mut len);
            assert_eq!(status == betz_status::BETZ_OK, cap == len);
            if cap < len {
                return status;
            }
            let mut again = ptr::null_mut();
            let status = betz_model_load_bytes(bytes.as_ptr(), len, &mut again);
            assert_eq!(status, betz_status::BETZ_OK);
            betz_model_free(model);
            self.models[m] = again;
            status
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn names(&self, m: usize, input: &mut Input<'_>) -> betz_status {
        let (model, i) = (self.models[m], u32::from(input.byte()));
        // SAFETY: the caller's promise; a name lives as long as its model.
        unsafe {
            let (channels, outputs) = (betz_model_channels(model), betz_model_outputs(model));
            for (name, there) in [
                (betz_model_channel_name(model, i), i < channels),
                (betz_model_output_name(model, i), i < outputs),
                (betz_model_output_unit(model, i), i < outputs),
            ] {
                assert_eq!(name.is_null(), !there);
                if there {
                    assert!(CStr::from_ptr(name).to_str().is_ok());
                }
            }
            assert!(betz_model_channel_used(model, i) <= u32::from(i < channels));
            assert!(betz_model_step_seconds(model) >= 0.0);
            betz_model_delay_steps(model);
        }
        betz_status::BETZ_OK
    }

    /// From counts, or from spikes in any order and anywhere.
    ///
    /// # Safety
    /// The handles are live or NULL.
    unsafe fn train(&mut self, m: usize, spikes: bool, input: &mut Input<'_>) -> betz_status {
        const STEPS: usize = 24;
        let mut config = MaybeUninit::uninit();
        // SAFETY: the caller's promise; arrays are as long as is said.
        unsafe {
            betz_train_config_default(config.as_mut_ptr(), size_of_val(&config));
            let mut config: betz_train_config = config.assume_init();
            config.channels = input.below(5) as u32;
            config.step_seconds = input.float();
            let filters: [betz_filter; 2] = std::array::from_fn(|_| betz_filter {
                tau_seconds: input.float(),
                order: input.below(6) as u32,
            });
            config.filters = filters.as_ptr();
            config.n_filters = input.below(3);
            let segments: [betz_segment; 2] = std::array::from_fn(|_| betz_segment {
                start: input.below(30) as i64 - 2,
                stop: input.below(30) as i64 - 2,
            });
            config.segments = segments.as_ptr();
            config.n_segments = input.below(3);
            config.ridge_choice = enum_bits(input.byte() % 4);
            config.folds = input.below(4) as u32;
            config.ridge = input.float();
            config.bad_channels = enum_bits(input.byte() % 3);
            config.delay_steps = i64::from(input.byte()) - 8;
            config.low_pass_hz = input.float();
            config.low_pass_order = input.below(10) as u32;
            let counts: Vec<u16> = (0..STEPS * 5)
                .map(|_| u16::from(input.byte() % 4))
                .collect();
            let behavior: Vec<f32> = (0..STEPS * 3).map(|_| input.float() as f32).collect();
            let outputs = input.below(4);
            let mut model = ptr::null_mut();
            let status = if spikes {
                let names = [c"a".as_ptr(), c"b".as_ptr(), c"a".as_ptr(), c"".as_ptr()];
                let first = input.below(4);
                if first < 3 {
                    config.output_names = names[first..].as_ptr();
                }
                let outputs = outputs.min(names.len() - first);
                let mut list: Vec<betz_spike> = (counts.iter().zip(0..))
                    .map(|(&count, i)| betz_spike {
                        tick: i / 4 - i64::from(input.byte() / 128),
                        channel: count.into(),
                    })
                    .collect();
                if input.byte().is_multiple_of(2) {
                    list.sort_by_key(|spike| spike.tick);
                    list.retain(|spike| (0..STEPS as i64).contains(&spike.tick));
                }
                betz_train(
                    &config,
                    list.as_ptr(),
                    list.len(),
                    behavior.as_ptr(),
                    STEPS,
                    outputs,
                    &mut model,
                )
            } else {
                betz_train_counts(
                    &config,
                    counts.as_ptr(),
                    behavior.as_ptr(),
                    STEPS,
                    outputs,
                    &mut model,
                )
            };
            assert_eq!(status == betz_status::BETZ_OK, !model.is_null());
            if !model.is_null() {
                betz_model_free(self.models[m]);
                self.models[m] = model;
            }
            status
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn open_session(&mut self, m: usize, s: usize, input: &mut Input<'_>) -> betz_status {
        let mut config = MaybeUninit::uninit();
        // SAFETY: the caller's promise; arrays are ROOM long and lengths below that.
        unsafe {
            betz_session_close(self.sessions[s]);
            self.sessions[s] = ptr::null_mut();
            betz_session_config_default(config.as_mut_ptr(), size_of_val(&config));
            let mut config: betz_session_config = config.assume_init();
            let low: [f32; ROOM] = std::array::from_fn(|_| -input.float() as f32);
            let high: [f32; ROOM] = std::array::from_fn(|_| input.float() as f32);
            let mask: [u8; ROOM] = std::array::from_fn(|_| input.byte() % 2);
            config.clamp_low = low.as_ptr();
            config.clamp_high = high.as_ptr();
            config.clamp_len = input.below(4);
            config.channel_mask = mask.as_ptr();
            config.channel_mask_len = input.below(6);
            config.unknown_channels = enum_bits(input.byte() % 3);
            config.deadline_us = input.float();
            config.statistics = u32::from(input.byte() % 2);
            betz_session_open(self.models[m], &config, &mut self.sessions[s])
        }
    }
}

/// A step of counts or of a list of spikes.
///
/// # Safety
/// The session is live or NULL.
unsafe fn step(
    session: *mut betz_session,
    counts: bool,
    outputs: usize,
    input: &mut Input<'_>,
) -> betz_status {
    let mut out = [0.0f32; ROOM];
    // SAFETY: the caller's promise; arrays are ROOM long and lengths below that.
    unsafe {
        if counts {
            let counts: [u16; ROOM] = std::array::from_fn(|_| input.byte().into());
            let (counts, channels) = (counts.as_ptr(), input.below(ROOM));
            betz_session_step_counts(session, counts, channels, out.as_mut_ptr(), outputs)
        } else {
            let spikes: [u32; ROOM] = std::array::from_fn(|_| input.byte().into());
            let (spikes, n) = (spikes.as_ptr(), input.below(ROOM));
            betz_session_step_spikes(session, spikes, n, out.as_mut_ptr(), outputs)
        }
    }
}

/// Nothing is written beyond the room given.
fn read_last_error(input: &mut Input<'_>) -> betz_status {
    let mut text = [0; ROOM];
    let cap = input.below(ROOM);
    // SAFETY: the text is longer than `cap`.
    let kept = unsafe { betz_last_error(text.as_mut_ptr().cast(), cap) };
    assert!(kept <= 1024 && text[cap..].iter().all(|&b| b == 0_u8));
    betz_status::BETZ_OK
}

/// An enum as C could set it.
fn enum_bits<T>(bits: u8) -> MaybeUninit<T> {
    const { assert!(size_of::<T>() == 4) };
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: four bytes, as asserted.
    unsafe { value.as_mut_ptr().cast::<u32>().write(bits.into()) };
    value
}
