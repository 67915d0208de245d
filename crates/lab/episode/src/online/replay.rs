//! A recording replayed into a miner at a multiple of real time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{OnlineMiner, ReminingOptions};
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::Progress;

/// Options of a replay.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// Seconds of the recording in a second of real time: 1 is real time, above is fast-forward,
    /// below is slow-play, infinity does not wait.
    pub speed: f64,
    /// Seconds of the recording in a frame: what is fed between two looks at the counts. To look
    /// every r seconds of real time, speed · r. A frame is a whole number of ticks, at least one, and
    /// with re-mining at most [`ReminingOptions::every_ticks`]: the window is mined between frames only.
    pub frame_seconds: f64,
    /// Mine the window between frames; `None`: the watch list is fixed.
    pub remining: Option<ReminingOptions>,
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
/// The silences put between a recording's segments are not played. The miner gets the events' ticks,
/// from the second segment on earlier ones: segments lie only so far apart that no episode it may
/// watch reaches across, and a window of it spans as many of them as fit. Counts depend only on the events, not on the clock;
/// so does the watch list, which changes at frames. A replay that falls behind (slow mining, slow
/// display) goes on without waiting until it has caught up.
///
/// # Errors
/// `InvalidArgument` for a speed or frame that is not positive; `Mismatch` when the events have more
/// symbols than the miner; as [`OnlineMiner::remine`], the window's included.
pub fn replay(
    events: &Events,
    miner: &mut OnlineMiner,
    options: &ReplayOptions,
    clock: &mut dyn ReplayClock,
    progress: &dyn Progress,
    show: &mut dyn FnMut(&Frame, &OnlineMiner) -> ControlFlow<()>,
) -> Result<()> {
    let frame_ticks = check(events, miner, options)?;
    let frame_due = frame_ticks as f64 * events.clock().tick_seconds() / options.speed;
    let tape = Tape::new(events);
    let reach = reach(miner, options);
    let events_played = events.iter().map(|(tick, symbol)| tape.play(tick, symbol));
    let mut stream = events_played.peekable();
    let last = tape.play(events.last_tick(), 0).tick;
    let mut end = events.first_tick();
    let mut next_mining = (options.remining.as_ref()).map(|r| end.saturating_add(r.every_ticks));
    let mut frames = 0_u64;
    let mut fed = 0;
    while let Some(next) = stream.peek() {
        end = end.saturating_add(frame_ticks);
        let now = next.kept_apart(reach);
        let mut remined = false;
        if let (Some(remining), Some(due)) = (&options.remining, &mut next_mining)
            && now >= *due
        {
            remined = miner.remine(remining, progress)?;
            *due = now.saturating_add(remining.every_ticks);
        }
        while let Some(played) = stream.next_if(|p| p.tick < end) {
            miner.push(played.kept_apart(reach), played.symbol);
            fed += 1;
        }
        frames += 1;
        let frame = Frame {
            seconds: events.seconds(tape.events_tick(end.min(last))),
            events: fed,
            due: Duration::try_from_secs_f64(frame_due * frames as f64).unwrap_or(Duration::MAX),
            remined,
        };
        clock.wait_until(frame.due);
        if show(&frame, miner).is_break() {
            break;
        }
    }
    Ok(())
}

/// Seconds that [`replay`] plays `events` at a speed of 1: from the first event to the last, without the silences
/// between segments.
pub fn played_seconds(events: &Events) -> f64 {
    let last = Tape::new(events).play(events.last_tick(), 0).tick;
    events.clock().seconds(last - events.first_tick())
}

/// The longest delay that an episode of the miner's may have, now or when its list has changed.
fn reach(miner: &OnlineMiner, options: &ReplayOptions) -> i64 {
    let watched = miner.patterns().iter().flat_map(Pattern::intervals);
    let mined = options.remining.iter().flat_map(|r| &r.intervals);
    watched.chain(mined).map(|i| i.high).max().unwrap_or(0)
}

/// Events with their segments moved up to each other.
struct Tape {
    /// First tick of each segment: of the events, and played.
    segments: Vec<(i64, i64)>,
}

/// An event as it is played.
#[derive(Debug, Clone, Copy)]
struct TapeEvent {
    /// As the events', less the silences between segments that came before.
    tick: i64,
    segment: i64,
    symbol: u32,
}

impl TapeEvent {
    /// The tick with segments so far apart that no delay of up to `reach` leads from one to the next.
    fn kept_apart(&self, reach: i64) -> i64 {
        self.tick
            .saturating_add(self.segment.saturating_mul(reach.saturating_add(1)))
    }
}

impl Tape {
    fn new(events: &Events) -> Self {
        let first = events.first_tick();
        let bounds = events.segment_bounds();
        let mut segments = Vec::with_capacity(bounds.len());
        let mut played = first;
        for (from, to) in bounds {
            // Nothing is played before the first event.
            if to >= first {
                segments.push((from.max(first), played));
                played += to - from.max(first) + 1;
            }
        }
        Self { segments }
    }

    /// The event of `symbol` at `tick` as it is played.
    fn play(&self, tick: i64, symbol: u32) -> TapeEvent {
        let after = self.segments.partition_point(|s| s.0 <= tick);
        let segment = after.saturating_sub(1);
        let (from, played) = self.segments[segment];
        TapeEvent {
            tick: tick - from + played,
            segment: segment as i64,
            symbol,
        }
    }

    /// The tick of the events at the played `tick`.
    fn events_tick(&self, tick: i64) -> i64 {
        let segment = self
            .segments
            .partition_point(|s| s.1 <= tick)
            .saturating_sub(1);
        let (from, played) = self.segments[segment];
        tick - played + from
    }
}

/// Checks the options and gives the ticks of a frame.
fn check(events: &Events, miner: &OnlineMiner, options: &ReplayOptions) -> Result<i64> {
    if options.speed.is_nan() || options.speed <= 0.0 {
        return Err(Error::argument(format!(
            "replay: expected a speed above 0, got {}",
            options.speed
        )));
    }
    if options.frame_seconds.is_nan() || options.frame_seconds <= 0.0 {
        return Err(Error::argument(format!(
            "replay: expected frames of more than 0 s, got {}",
            options.frame_seconds
        )));
    }
    let mut ticks = events.clock().ticks_floor(options.frame_seconds)?.max(1);
    if events.symbols() > miner.symbols() {
        return Err(Error::mismatch(format!(
            "replay: events of {} symbols into a miner of {}",
            events.symbols(),
            miner.symbols()
        )));
    }
    if let Some(remining) = &options.remining {
        remining.check()?;
        // The window is mined between frames: longer ones would leave out minings.
        ticks = ticks.min(remining.every_ticks);
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{alphabet, random_case, remining, trials};
    use crate::count;
    use crate::pattern::Interval;

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
        let remining = remining(400, edge);
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
            options.remining = Some(ReminingOptions {
                window_ticks: window,
                ..remining.clone()
            });
            let refused = replay(&events, &mut miner, &options, &mut clock, &(), &mut quiet);
            assert_eq!(
                refused.unwrap_err().kind(),
                betz_base::ErrorKind::InvalidArgument
            );
        }
    }

    /// For each frame its seconds, its events and the time at which it was due.
    fn frames(
        events: &Events,
        miner: &mut OnlineMiner,
        options: &ReplayOptions,
    ) -> Vec<(f64, usize, f64)> {
        let mut seen = Vec::new();
        let mut note = |frame: &Frame, _: &OnlineMiner| {
            seen.push((frame.seconds, frame.events, frame.due.as_secs_f64()));
            ControlFlow::Continue(())
        };
        let clock = &mut Recorder::default();
        replay(events, miner, options, clock, &(), &mut note).unwrap();
        seen
    }

    #[test]
    fn trials_follow_each_other_without_the_silence_between() {
        // 1 s each, cut out of a longer recording; the pair does not reach across.
        let segments = [(1000, 2000), (3000, 4000), (4000, 5000), (8000, 9000)];
        let ticks = vec![1100, 1103, 1999, 3001, 3500, 3502, 8400, 8404, 8500];
        let channels = vec![0, 1, 0, 1, 0, 1, 0, 1, 0];
        let events = trials(2, 10_000, &segments, ticks, channels);
        let pair = Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap();
        let mut miner = OnlineMiner::new(2, std::slice::from_ref(&pair)).unwrap();
        let options = ReplayOptions {
            speed: 2.0,
            frame_seconds: 0.5,
            remining: None,
        };
        let seen = frames(&events, &mut miner, &options);
        // From the first event on, 0.9 s are left of the first trial.
        let expected = [
            (1.6, 2, 0.25),
            (3.1, 4, 0.5),
            (3.6, 6, 0.75),
            (4.1, 6, 1.0),
            (4.6, 6, 1.25),
            (8.1, 6, 1.5),
            (8.5, 9, 1.75),
        ];
        assert_eq!(seen.len(), expected.len(), "{seen:?}");
        for (got, want) in seen.iter().zip(expected) {
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(near(got.0, want.0) && near(got.2, want.2), "{seen:?}");
            assert_eq!(got.1, want.1, "{seen:?}");
        }
        assert_eq!(miner.counts().collect::<Vec<_>>(), [3]);
        assert_eq!(count::count(&events, &[pair]).unwrap(), [3]);
    }

    #[test]
    fn a_window_spans_trials_as_they_are_played() {
        let segments: Vec<(i64, i64)> = (0..20).map(|i| (i * 100, i * 100 + 100)).collect();
        let ticks: Vec<i64> = (0..20).flat_map(|i| [i * 100 + 30, i * 100 + 33]).collect();
        let channels = (0..20).flat_map(|_| [0, 1]).collect();
        let events = trials(2, 2000, &segments, ticks, channels);
        let edge = Interval::new(0, 5).unwrap();
        let remining = ReminingOptions {
            threshold: 5,
            max_size: 2,
            ..remining(1000, edge)
        };
        let options = ReplayOptions {
            speed: f64::INFINITY,
            frame_seconds: 0.1,
            remining: Some(remining),
        };
        let mut miner = OnlineMiner::with_window(2, &[], 1000, 100).unwrap();
        frames(&events, &mut miner, &options);
        let pair = Pattern::uniform(vec![0, 1], edge).unwrap();
        assert_eq!(miner.patterns(), [pair]);
        assert!(miner.counts().all(|n| n >= 10));
    }

    #[test]
    fn a_window_is_mined_in_time_however_long_a_frame_is_asked_for() {
        // 1 s each, a minute apart: the silence between is an hour, and what is played a minute.
        let starts = (0..60).map(|i| i * 60_000);
        let segments: Vec<(i64, i64)> = starts.clone().map(|s| (s, s + 1000)).collect();
        let pairs = starts.flat_map(|s| (0..10).map(move |i| s + i * 100));
        let ticks: Vec<i64> = pairs.flat_map(|t| [t, t + 5]).collect();
        let channels = (0..ticks.len() as u32).map(|i| i % 2).collect();
        let events = trials(2, 3_600_000, &segments, ticks, channels);
        assert_eq!(played_seconds(&events), 59.905);
        let edge = Interval::new(4, 6).unwrap();
        let remining = ReminingOptions {
            every_ticks: 1250,
            threshold: 20,
            ..remining(5000, edge)
        };
        for frame_seconds in [3.0, 180.0, 1e6] {
            let options = ReplayOptions {
                speed: f64::INFINITY,
                frame_seconds,
                remining: Some(remining.clone()),
            };
            let mut miner = OnlineMiner::with_window(2, &[], 5000, 10_000).unwrap();
            let seen = frames(&events, &mut miner, &options);
            assert_eq!(seen.len(), 48);
            let pair = Pattern::uniform(vec![0, 1], edge).unwrap();
            assert_eq!(miner.patterns(), [pair]);
            assert!(miner.counts().all(|n| n > 500));
        }
    }

    #[test]
    fn a_frame_is_a_whole_number_of_ticks_and_due_when_they_are_over() {
        let (ticks, symbols): (Vec<i64>, Vec<u32>) = (0..10).map(|i| (i * 7, 0)).unzip();
        let labels = vec!["a".to_owned()];
        let clock = crate::clock::Clock::from_tick_seconds(0.1).unwrap();
        let alphabet = crate::alphabet::Alphabet::new(labels, clock).unwrap();
        let events = Events::new(alphabet, &ticks, &symbols).unwrap();
        // Seconds asked for, ticks that they are, speed.
        for (frame_seconds, each, speed) in [(0.0625, 1, 0.25), (0.25, 2, 1.0), (0.999, 9, 4.0)] {
            let options = ReplayOptions {
                speed,
                frame_seconds,
                remining: None,
            };
            let mut miner = OnlineMiner::new(1, &[]).unwrap();
            let seen = frames(&events, &mut miner, &options);
            assert_eq!(seen.len() as i64, (63 + each) / each);
            for (i, (_, fed, due)) in seen.iter().enumerate() {
                let played = (i as i64 + 1) * each;
                assert!((due - played as f64 * 0.1 / speed).abs() < 1e-9, "{seen:?}");
                assert_eq!(*fed, ticks.iter().filter(|&&t| t < played).count());
            }
        }
    }
}
