//! `betz mine` of events that are held in memory.

use std::time::Instant;

use betz::device::{DeferredPlacement, Device};
use betz::episode::count::{InMemory, Strategy, TeamStrategy};
use betz::episode::significance::{TestEvents, Workers};
use betz::episode::{Events, Frequency, Order};
use betz::progress::Phases;
use betz::team::Team;
use betz::{Error, Progress, Result};

use super::args::Mine;
use super::chance;
use super::frequency;
use super::parallel;
use super::print::{SearchedEvents, tell};
use super::replay;
use super::targets::{Targets, count_wanted, parse_intervals};
use crate::data;
use crate::device;
use crate::files;
use crate::report::{self, Bar};

/// Shares of the time: hundreds of surrogates are counted, and the events once per size.
const COUNTING: u64 = 1;
const TESTS: u64 = 99;

/// Counts, tests and reports; a team shares out candidates and surrogates.
pub(super) fn run(team: &'static dyn Team, args: &Mine) -> Result<()> {
    let events = read(args)?;
    let frequency = frequency::on(args, events.clock())?;
    frequency.check(&events).map_err(|e| e.at("--span"))?;
    if let (true, Some(list)) = (args.parallel, &args.count_only) {
        return parallel::run(args, &events, frequency, list);
    }
    let device = device_for(args, frequency)?;
    let intervals = parse_intervals(&args.intervals, events.clock())?;
    if args.replay.is_some() && team.size() > 1 {
        return Err(Error::argument(
            "--replay: expected none in a team, whose processes share out what is counted at once",
        ));
    }
    if let Some(speed) = args.replay {
        return replay::run(args, &events, intervals, speed, device.name());
    }
    let targets = Targets::new(args, intervals, events.alphabet())?;
    let longest = targets.longest_delay();
    let test = chance::test(&args.chance, frequency);
    if let Some(test) = &test {
        test.check_on(&chance::NAMES, events.clock(), Some(&events), longest)?;
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let started = Instant::now();
    let own: Box<dyn Strategy> = match frequency {
        Frequency::NonOverlapped => strategy_on(&args.strategy, &device)?,
        other => Box::new(other),
    };
    let strategy: Box<dyn Strategy> = Box::new(TeamStrategy::new(team, own));
    let counter = InMemory {
        events: &events,
        strategy: &*strategy,
    };
    // Without surrogates, nobody knows how many sizes there will be: each has its own bar.
    let mut phases = Phases::new(&bar, "mining", COUNTING + TESTS);
    let (counting, tests) = (phases.next(COUNTING), phases.next(TESTS));
    let counted: &dyn Progress = match args.chance.surrogates {
        Some(_) => &counting,
        None => &bar,
    };
    let mut mined = count_wanted(args, &counter, targets, counted)?;
    let seconds = started.elapsed().as_secs_f64();
    device::note_fallback(&mined.ran, "counting");
    let source = TestEvents::Held(&events);
    let placement = DeferredPlacement::new(&device);
    let workers = Workers {
        team,
        placement: &placement,
    };
    let (tested, chance_seconds) = chance::run(workers, test, source, &mut mined, &tests)?;
    device::note_fallback(&placement.ran(""), "surrogates");
    drop(bar);
    if team.rank() > 0 {
        return Ok(());
    }
    let seen = SearchedEvents {
        alphabet: events.alphabet(),
        number: events.len() as u64,
        held: Some(&events),
    };
    tell(
        args,
        &seen,
        &mined,
        tested.as_ref(),
        seconds,
        chance_seconds,
    )
}

/// The device that counts; a replay and counts that may overlap run on the CPU. `auto` looks for one only where work
/// gains.
fn device_for(args: &Mine, frequency: Frequency) -> Result<Device> {
    let spec = args.common.device.as_str();
    if frequency != Frequency::NonOverlapped {
        let work = format!("--count {}", frequency.name());
        return device::cpu_for(&work, spec).map(|_| Device::cpu());
    }
    if args.replay.is_some() {
        return device::cpu_for("a replay", spec).map(|_| Device::cpu());
    }
    device::open(spec)
}

fn read(args: &Mine) -> Result<Events> {
    let order = if args.sort {
        Order::Sort
    } else {
        Order::Required
    };
    let path = &args.events;
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if ["npz", "nwb"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e))
    {
        let recording = data::open_recording(path)?;
        return Events::from_recording(&recording).map_err(|e| e.at(path.display()));
    }
    let text = ["csv", "txt"]
        .iter()
        .any(|e| ending.eq_ignore_ascii_case(e));
    if !(text || path.as_os_str() == "-" || files::is_stream(path)) {
        return Err(Error::argument(format!(
            "{}: expected events as .csv (label,seconds) or a recording (.npz, .nwb), got another ending",
            path.display()
        )));
    }
    Events::read_csv(path, order)
}

/// The counting strategy that has `name`, on `device`.
#[cfg(feature = "published")]
pub(crate) fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    betz_episode_published::strategy_on(name, device)
}

/// The counting strategy that has `name`, on `device`: this build has one.
#[cfg(not(feature = "published"))]
pub(crate) fn strategy_on(name: &str, device: &Device) -> Result<Box<dyn Strategy>> {
    use betz::episode::count::{LatestStart, latest_start_on};
    if name != LatestStart.name() {
        return Err(Error::argument(format!(
            "--strategy: expected latest-start, got {name}; this betz is built without the published strategies"
        )));
    }
    Ok(latest_start_on(device))
}
