//! Any sequence of calls around a miner and the session that feeds it, as C could make them, within
//! the promises of the header.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

use betz_ffi::*;

use super::input::Input;
use super::trained::model_bytes;

/// The handles that a caller holds; NULL where none is open.
struct World {
    miner: *mut betz_miner,
    session: *mut betz_session,
}

const ROOM: usize = 16;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World {
        miner: ptr::null_mut(),
        session: ptr::null_mut(),
    };
    // SAFETY: the world's handles are live or NULL, and it is this thread's alone.
    input.calls(32, |input| unsafe { world.call(input) });
    // SAFETY: live or NULL, and not used again.
    unsafe {
        // Either may go first.
        if data.len().is_multiple_of(2) {
            betz_miner_close(world.miner);
            betz_session_close(world.session);
        } else {
            betz_session_close(world.session);
            betz_miner_close(world.miner);
        }
    }
}

impl World {
    /// # Safety
    /// The handles are live or NULL.
    unsafe fn call(&mut self, input: &mut Input<'_>) -> betz_status {
        let mut out = [0.0f32; ROOM];
        // SAFETY: the caller's promise; arrays are ROOM long and lengths at most that.
        unsafe {
            match input.below(14) {
                0 => self.open(input),
                1 => self.open_session(input),
                2 | 3 => {
                    let events: [betz_spike; ROOM] = std::array::from_fn(|_| betz_spike {
                        tick: i64::from(input.byte()) - 8,
                        channel: input.byte().into(),
                    });
                    let mut pushed = 0;
                    let n = input.below(ROOM);
                    let status = betz_miner_push(self.miner, events.as_ptr(), n, &mut pushed);
                    assert!(pushed <= n);
                    status
                }
                4 => {
                    let seconds: [f64; ROOM] = std::array::from_fn(|_| input.float());
                    let symbols: [u32; ROOM] = std::array::from_fn(|_| input.byte().into());
                    let n = input.below(ROOM);
                    let mut pushed = 0;
                    let (seconds, symbols) = (seconds.as_ptr(), symbols.as_ptr());
                    betz_miner_push_seconds(self.miner, seconds, symbols, n, &mut pushed)
                }
                5 => betz_miner_flush(self.miner),
                6 => {
                    let mut counts = [0u64; ROOM];
                    let mut len = 0;
                    match input.below(ROOM) {
                        0 => betz_miner_counts(self.miner, ptr::null_mut(), 0, &mut len),
                        cap => betz_miner_counts(self.miner, counts.as_mut_ptr(), cap, &mut len),
                    }
                }
                7 => {
                    let mut stats = MaybeUninit::uninit();
                    betz_miner_get_stats(self.miner, stats.as_mut_ptr(), size_of_val(&stats))
                }
                8 => self.read_list(),
                9 => {
                    let tick = i64::from(input.byte()) - 8;
                    betz_session_attach_miner(self.session, self.miner, tick)
                }
                10 => betz_session_detach_miner(self.session),
                11 => {
                    let channels: [u32; ROOM] = std::array::from_fn(|_| input.byte().into());
                    let n = input.below(ROOM);
                    betz_session_step_spikes(
                        self.session,
                        channels.as_ptr(),
                        n,
                        out.as_mut_ptr(),
                        2,
                    )
                }
                12 => betz_session_reset(self.session),
                _ => {
                    betz_miner_close(self.miner);
                    self.miner = ptr::null_mut();
                    betz_status::BETZ_OK
                }
            }
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn open(&mut self, input: &mut Input<'_>) -> betz_status {
        let mut config = MaybeUninit::uninit();
        // SAFETY: the caller's promise; arrays are as long as is said.
        unsafe {
            betz_miner_close(self.miner);
            self.miner = ptr::null_mut();
            betz_miner_config_default(config.as_mut_ptr(), size_of_val(&config));
            let mut config: betz_miner_config = config.assume_init();
            config.symbols = input.below(9) as u32;
            config.tick_seconds = match input.byte() % 4 {
                0 => input.float(),
                _ => 0.02,
            };
            // Text as a person might write it, with some bytes changed.
            let texts: Vec<CString> = (0..input.below(3))
                .map(|_| {
                    let mut text = b"1 -(0.0,0.1]-> 2 -(0.02,0.2]-> 0".to_vec();
                    for _ in 0..input.below(4) {
                        let at = input.below(text.len());
                        text[at] = input.byte().max(1);
                    }
                    CString::new(text).unwrap_or_default()
                })
                .collect();
            let texts: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
            config.episodes = texts.as_ptr();
            config.n_episodes = texts.len();
            let intervals: [betz_interval; 3] = std::array::from_fn(|_| betz_interval {
                low_seconds: input.float(),
                high_seconds: input.float(),
            });
            config.intervals = intervals.as_ptr();
            config.n_intervals = input.below(4);
            config.capacity = input.below(128);
            if input.byte().is_multiple_of(2) {
                config.window_seconds = input.float();
                config.every_seconds = input.float();
                config.window_events = input.below(200);
                config.threshold = input.byte().into();
                config.min_size = input.below(4) as u32;
                config.max_size = input.below(6) as u32;
                config.max_episodes = input.below(20);
            }
            let status = betz_miner_open(&config, &mut self.miner);
            assert_eq!(status == betz_status::BETZ_OK, !self.miner.is_null());
            status
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn open_session(&mut self, input: &mut Input<'_>) -> betz_status {
        let mut model = ptr::null_mut();
        let mut config = MaybeUninit::uninit();
        // SAFETY: the caller's promise; a live slice.
        unsafe {
            betz_session_close(self.session);
            self.session = ptr::null_mut();
            let bytes = model_bytes(input.below(2));
            betz_model_load_bytes(bytes.as_ptr(), bytes.len(), &mut model);
            betz_session_config_default(config.as_mut_ptr(), size_of_val(&config));
            let status = betz_session_open(model, config.as_ptr(), &mut self.session);
            betz_model_free(model);
            status
        }
    }

    /// # Safety
    /// The handles are live or NULL.
    unsafe fn read_list(&mut self) -> betz_status {
        let mut list = ptr::null_mut();
        // SAFETY: the caller's promise; the list is live until it is freed.
        unsafe {
            let status = betz_miner_watch_list(self.miner, &mut list);
            for i in 0..=betz_watch_list_len(list) {
                let mut watched = MaybeUninit::uninit();
                betz_watch_list_get(list, i, watched.as_mut_ptr(), size_of_val(&watched));
            }
            betz_watch_list_last_failure(list);
            betz_watch_list_free(list);
            status
        }
    }
}
