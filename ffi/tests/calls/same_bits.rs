//! The C functions give the same bits as the Rust session, whatever the thread pool.

use std::mem::MaybeUninit;
use std::ptr;

use betz::model::Decoder;
use betz::stream::{LateSpikes, Session, SessionConfig, Spike, spike_queue};
use betz_ffi::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 40;
const OUTPUTS: usize = 3;
const STEPS: usize = 600;

fn ok(status: betz_status) {
    assert_eq!(status, betz_status::BETZ_OK);
}

fn counts(seed: u64) -> Vec<u16> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..STEPS * CHANNELS)
        .map(|_| u16::from(random.random_bool(0.2)) * random.random_range(1..4))
        .collect()
}

/// The bytes of a model trained through the C functions.
fn train() -> Vec<u8> {
    train_in(0)
}

/// The same, in so many threads.
fn train_in(threads: u32) -> Vec<u8> {
    let counts = counts(1);
    let behavior: Vec<f32> = (0..STEPS * OUTPUTS)
        .map(|i| (0.01 * i as f32).sin() + f32::from(counts[i]))
        .collect();
    let bank = [
        betz_filter {
            tau_seconds: 0.05,
            order: 0,
        },
        betz_filter {
            tau_seconds: 0.2,
            order: 1,
        },
        betz_filter {
            tau_seconds: 0.1,
            order: 2,
        },
    ];
    let mut config = MaybeUninit::uninit();
    let mut model = ptr::null_mut();
    let mut len = 0;
    // SAFETY: every pointer is to a live value of the size that is said.
    unsafe {
        ok(betz_train_config_default(
            config.as_mut_ptr(),
            size_of_val(&config),
        ));
        let mut config: betz_train_config = config.assume_init();
        config.channels = CHANNELS as u32;
        config.step_seconds = 0.02;
        config.filters = bank.as_ptr();
        config.n_filters = bank.len();
        config.low_pass_hz = 8.0;
        config.threads = threads;
        ok(betz_train_counts(
            &config,
            counts.as_ptr(),
            behavior.as_ptr(),
            STEPS,
            OUTPUTS,
            &mut model,
        ));
        ok(betz_model_save_bytes(model, ptr::null_mut(), 0, &mut len));
        let mut bytes = vec![0; len];
        ok(betz_model_save_bytes(
            model,
            bytes.as_mut_ptr(),
            len,
            &mut len,
        ));
        betz_model_free(model);
        bytes
    }
}

struct Handles {
    model: *mut betz_model,
    session: *mut betz_session,
}

impl Handles {
    fn open(bytes: &[u8]) -> Self {
        let mut model = ptr::null_mut();
        let mut session = ptr::null_mut();
        let mut config = MaybeUninit::uninit();
        // SAFETY: every pointer is to a live value of the size that is said.
        unsafe {
            ok(betz_model_load_bytes(
                bytes.as_ptr(),
                bytes.len(),
                &mut model,
            ));
            ok(betz_session_config_default(
                config.as_mut_ptr(),
                size_of_val(&config),
            ));
            ok(betz_session_open(model, config.as_ptr(), &mut session));
        }
        Self { model, session }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // SAFETY: opened above, and used by nobody any more.
        unsafe {
            betz_session_close(self.session);
            betz_model_free(self.model);
        }
    }
}

#[test]
fn steps_give_the_same_bits_as_in_rust() {
    let bytes = train();
    let decoder = Decoder::from_bytes(&bytes).unwrap();
    let handles = Handles::open(&bytes);
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
    let (mut ours, mut theirs) = ([0.0f32; OUTPUTS], [0.0f32; OUTPUTS]);
    let counts = counts(2);
    for (tick, row) in counts.chunks_exact(CHANNELS).enumerate() {
        // Counts and lists take turns; one unknown channel now and then.
        if tick % 3 == 0 {
            let list: Vec<u32> = (0..CHANNELS as u32)
                .filter(|&c| row[c as usize] > 0)
                .chain((tick % 9 == 0).then_some(999))
                .collect();
            session.step_spikes(&list, &mut ours).unwrap();
            // SAFETY: live handles and slices of the lengths that are said.
            ok(unsafe {
                betz_session_step_spikes(
                    handles.session,
                    list.as_ptr(),
                    list.len(),
                    theirs.as_mut_ptr(),
                    OUTPUTS,
                )
            });
        } else {
            session.step_counts(row, &mut ours).unwrap();
            // SAFETY: live handles and slices of the lengths that are said.
            ok(unsafe {
                betz_session_step_counts(
                    handles.session,
                    row.as_ptr(),
                    CHANNELS,
                    theirs.as_mut_ptr(),
                    OUTPUTS,
                )
            });
        }
        assert_eq!(
            ours.map(f32::to_bits),
            theirs.map(f32::to_bits),
            "tick {tick}"
        );
    }
}

#[test]
fn a_queue_gives_the_same_bits_as_in_rust() {
    let bytes = train();
    let decoder = Decoder::from_bytes(&bytes).unwrap();
    let handles = Handles::open(&bytes);
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
    let (mut producer, mut consumer) = spike_queue(64, LateSpikes::Take).unwrap();
    let mut queue = ptr::null_mut();
    // SAFETY: a live place for the result.
    ok(unsafe {
        betz_queue_open(
            64,
            MaybeUninit::new(betz_late_spikes::BETZ_LATE_SPIKES_TAKE),
            &mut queue,
        )
    });
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (mut ours, mut theirs) = ([0.0f32; OUTPUTS], [0.0f32; OUTPUTS]);
    for tick in 0..STEPS as i64 {
        // More than there is room for at times, some of them late, some early.
        let spikes: Vec<Spike> = (0..random.random_range(0..100))
            .map(|_| Spike {
                tick: tick + random.random_range(-1..3),
                channel: random.random_range(0..CHANNELS as u32),
            })
            .collect();
        let pushed = producer.push(&spikes);
        producer.mark(tick);
        consumer.step(&mut session, &mut ours).unwrap();
        let mut their_pushed = 0;
        // SAFETY: live handles and slices of the lengths that are said; `betz_spike` is laid out as
        // `Spike`, which the library asserts.
        unsafe {
            ok(betz_queue_push(
                queue,
                spikes.as_ptr().cast(),
                spikes.len(),
                &mut their_pushed,
            ));
            ok(betz_queue_mark(queue, tick));
            ok(betz_queue_step(
                queue,
                handles.session,
                theirs.as_mut_ptr(),
                OUTPUTS,
            ));
        }
        assert_eq!(pushed, their_pushed);
        assert_eq!(
            ours.map(f32::to_bits),
            theirs.map(f32::to_bits),
            "tick {tick}"
        );
    }
    let mut stats = MaybeUninit::uninit();
    // SAFETY: live handles and a place for the result.
    let stats = unsafe {
        ok(betz_session_stats(
            handles.session,
            stats.as_mut_ptr(),
            size_of_val(&stats),
        ));
        betz_queue_close(queue);
        stats.assume_init()
    };
    let expected = session.stats();
    assert_eq!(
        (stats.spikes, stats.late, stats.dropped),
        (expected.spikes, expected.late, expected.dropped)
    );
    assert!(stats.late > 0 && stats.dropped > 0);
}

#[test]
fn training_and_steps_do_not_depend_on_the_thread_pool() {
    let models: Vec<Vec<u8>> = [1, 2, 5].map(train_in).into();
    assert!(models.iter().all(|model| *model == models[0]));
}
