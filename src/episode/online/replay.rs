//! A recording replayed into a miner at a multiple of real time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{OnlineMiner, Remining};
use crate::episode::Events;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// How to replay.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// Seconds of the recording in a second of real time: 1 is real time, above is fast-forward,
    /// below is slow-play, infinity does not wait.
    pub speed: f64,
    /// Seconds of the recording in a frame: what is fed between two looks at the counts. To look
    /// every r seconds of real time, speed · r.
    pub frame_seconds: f64,
    /// Mine the window between frames whenever this says so.
    pub remining: Option<Remining>,
}

/// The moment between two frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Seconds of the recording at the frame's end, as [`Events::seconds`].
    pub seconds: f64,
    /// Events fed so far.
    pub events: usize,
    /// Real time from the start of the replay at which this frame is due.
    pub due: Duration,
    /// True when this frame's beginning has changed the watch list.
    pub remined: bool,
}

/// Real time, so that tests need none.
pub trait ReplayClock {
    /// Comes back when `elapsed` has gone by since the start, or at once if it already has.
    fn wait_until(&mut self, elapsed: Duration);
}

/// The machine's clock, from now on.
#[derive(Debug)]
pub struct WallClock {
    start: Instant,
}

impl WallClock {
    /// Starts now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl ReplayClock for WallClock {
    fn wait_until(&mut self, elapsed: Duration) {
        std::thread::sleep(elapsed.saturating_sub(self.start.elapsed()));
    }
}

/// Feeds `events` to `miner` frame by frame, each when it is due, and calls `show` after each, until
/// the events end or `show` breaks off. The last frame ends with the last event's.
///
/// The silences put between a recording's segments are skipped. Counts depend only on the events, not
/// on the clock; so does the watch list, which changes at frames. A replay that falls behind (slow
/// mining, slow display) goes on without waiting until it has caught up.
///
/// # Errors
/// `InvalidArgument` for a speed or frame that is not positive, or a frame shorter than a tick;
/// `Mismatch` when the events have more symbols than the miner; as [`OnlineMiner::remine`], the
/// window's included.
pub fn replay(
    events: &Events,
    miner: &mut OnlineMiner,
    options: &ReplayOptions,
    clock: &mut dyn ReplayClock,
    progress: &dyn Progress,
    show: &mut dyn FnMut(&Frame, &OnlineMiner) -> ControlFlow<()>,
) -> Result<()> {
    let frame_ticks = check(events, miner, options)?;
    let frame_due = options.frame_seconds / options.speed;
    let mut stream = events.iter().peekable();
    let mut end = events.first_tick();
    let mut next_mining = options
        .remining
        .as_ref()
        .map(|r| end.saturating_add(r.every_ticks));
    let mut frames = 0_u32;
    let mut fed = 0;
    while let Some(&(tick, _)) = stream.peek() {
        if let Some(gap) = events.segment_gap()
            && tick - end >= gap
        {
            end = tick;
        }
        end += frame_ticks;
        let mut remined = false;
        if let (Some(remining), Some(next)) = (&options.remining, &mut next_mining)
            && tick >= *next
        {
            remined = miner.remine(remining, progress)?;
            *next = tick.saturating_add(remining.every_ticks);
        }
        while let Some((tick, symbol)) = stream.next_if(|e| e.0 < end) {
            miner.push(tick, symbol);
            fed += 1;
        }
        frames += 1;
        let frame = Frame {
            seconds: events.seconds(end.min(events.last_tick())),
            events: fed,
            due: Duration::try_from_secs_f64(frame_due * f64::from(frames))
                .unwrap_or(Duration::MAX),
            remined,
        };
        clock.wait_until(frame.due);
        if show(&frame, miner).is_break() {
            break;
        }
    }
    Ok(())
}

/// Checks the options and gives the ticks of a frame.
fn check(events: &Events, miner: &OnlineMiner, options: &ReplayOptions) -> Result<i64> {
    if options.speed.is_nan() || options.speed <= 0.0 {
        return Err(Error::argument(format!(
            "replay: expected a speed above 0, got {}",
            options.speed
        )));
    }
    let ticks = events.clock().ticks_floor(options.frame_seconds)?;
    if ticks < 1 {
        return Err(Error::argument(format!(
            "replay: expected frames of at least one tick ({} s), got {} s",
            events.clock().tick_seconds(),
            options.frame_seconds
        )));
    }
    if events.symbols() > miner.symbols() {
        return Err(Error::mismatch(format!(
            "replay: events of {} symbols into a miner of {}",
            events.symbols(),
            miner.symbols()
        )));
    }
    if let Some(remining) = &options.remining {
        remining.check()?;
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::cases::{alphabet, random_case};
    use crate::episode::{Interval, Pattern, count};

    /// Writes down what it was asked to wait for.
    #[derive(Default)]
    struct Recorder(Vec<Duration>);

    impl ReplayClock for Recorder {
        fn wait_until(&mut self, elapsed: Duration) {
            self.0.push(elapsed);
        }
    }

    #[test]
    fn frames_are_due_at_speed_and_hold_the_counts_of_their_prefix() {
        for seed in 0..200 {
            let case = random_case(seed, 40, 4);
            let mut miner = OnlineMiner::new(case.events.symbols(), &case.patterns).unwrap();
            let options = ReplayOptions {
                speed: 4.0,
                frame_seconds: 0.008,
                remining: None,
            };
            let mut clock = Recorder::default();
            let mut seen = 0;
            let first = case.events.first_tick();
            replay(
                &case.events,
                &mut miner,
                &options,
                &mut clock,
                &(),
                &mut |frame, miner| {
                    let (ticks, symbols): (Vec<i64>, Vec<u32>) =
                        case.events.iter().take(frame.events).unzip();
                    assert!(frame.events >= seen);
                    seen = frame.events;
                    let counts: Vec<u64> = miner.counts().collect();
                    let labels = alphabet(case.events.symbols());
                    match Events::new(labels, &ticks, &symbols) {
                        Ok(prefix) => {
                            assert_eq!(counts, count::count(&prefix, &case.patterns).unwrap());
                        }
                        Err(_) => assert_eq!(frame.events, 0),
                    }
                    let ahead = case.events.iter().nth(frame.events);
                    let bound = first as f64 * 1e-3 + frame.due.as_secs_f64() * 4.0;
                    assert!(ahead.is_none_or(|(t, _)| t as f64 * 1e-3 > bound - 1e-9));
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
            assert_eq!(seen, case.events.len());
            for (i, due) in clock.0.iter().enumerate() {
                assert!((due.as_secs_f64() - 0.002 * (i + 1) as f64).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn what_is_frequent_of_late_is_watched() {
        // 0 then 1 for a second, then 2 then 3.
        let pairs = (0..100).flat_map(|i| {
            let s = if i < 50 { 0 } else { 2 };
            [(i * 20, s), (i * 20 + 3, s + 1)]
        });
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = pairs.unzip();
        let events = Events::new(alphabet(4), &ticks, &symbols).unwrap();
        let edge = Interval::new(0, 5).unwrap();
        let remining = Remining {
            window_ticks: 400,
            window_events: 1000,
            every_ticks: 200,
            intervals: vec![edge],
            threshold: 8,
            min_size: 2,
            max_size: 3,
            max_episodes: 10,
        };
        let mut options = ReplayOptions {
            speed: f64::INFINITY,
            frame_seconds: 0.1,
            remining: Some(remining.clone()),
        };
        let mut miner = OnlineMiner::with_window(4, &[], 400, 1000).unwrap();
        let mut clock = Recorder::default();
        let mut tops = Vec::new();
        let mut note = |_: &Frame, miner: &OnlineMiner| {
            tops.push(miner.top(1));
            ControlFlow::Continue(())
        };
        replay(&events, &mut miner, &options, &mut clock, &(), &mut note).unwrap();
        assert!(clock.0.iter().all(Duration::is_zero));
        let early = Pattern::uniform(vec![0, 1], edge).unwrap();
        let late = Pattern::uniform(vec![2, 3], edge).unwrap();
        assert!(tops[0].is_empty());
        assert_eq!(tops[9][0].pattern, early);
        assert!(tops[9][0].count >= 45 && tops[9][0].since.is_none());
        let last = &tops.last().unwrap()[0];
        assert_eq!(last.pattern, late);
        assert!(last.count >= 45 && last.since.is_some());

        let mut quiet = |_: &Frame, _: &OnlineMiner| ControlFlow::Break(());
        for (speed, frame, window) in [(0.0, 0.1, 400), (1.0, 0.0, 400), (1.0, 0.1, 10)] {
            options.speed = speed;
            options.frame_seconds = frame;
            options.remining = Some(Remining {
                window_ticks: window,
                ..remining.clone()
            });
            let refused = replay(&events, &mut miner, &options, &mut clock, &(), &mut quiet);
            assert_eq!(
                refused.unwrap_err().kind(),
                crate::ErrorKind::InvalidArgument
            );
        }
    }
}
