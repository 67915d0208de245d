//! Every `__global__` signature of every kernel file against the struct of its arguments, and every
//! struct that host and kernels share against what the files assert of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use betz_kernels::{
    ALL, Arguments, Block, Cells, Chunk, Counts, Direction, Entry, Filter, Layout, Link, Mask,
    Node, Pair, Parameter, Part, Section, Shared, Source, Step, Tally, Target, Tuple, Wires,
};
use betz_kernels::{decode, episode, gram, map, network, psc, scan, solve, sort, spiking};

/// What a struct of arguments says of its kernel.
struct Declared {
    file: &'static str,
    kernel: &'static str,
    parameters: &'static [Parameter],
    options: &'static [(&'static str, &'static str)],
}

fn declared<A: Arguments>() -> Declared {
    Declared {
        file: A::SOURCE.name,
        kernel: A::KERNEL,
        parameters: A::PARAMETERS,
        options: A::OPTIONS,
    }
}

macro_rules! all {
    ($($arguments:ty,)*) => { vec![$(declared::<$arguments>()),*] };
}

fn structs() -> Vec<Declared> {
    all![
        decode::DecodeWeigh<'_>,
        decode::DecodeTileEnds<'_>,
        decode::DecodeCarry<'_>,
        decode::DecodeSum<'_>,
        decode::DecodeEstimates<'_>,
        decode::ScoreParts<'_>,
        episode::EpisodeWalk<'_, i32>,
        episode::EpisodeWalk<'_, i64>,
        episode::EpisodeGreedy<'_, i32>,
        episode::EpisodeGreedy<'_, i64>,
        episode::EpisodeSiblings<'_, i32>,
        episode::EpisodeSiblings<'_, i64>,
        episode::SurrogateDither<'_>,
        episode::SurrogateTicks<'_, i32>,
        episode::SurrogateTicks<'_, i64>,
        episode::SurrogateIndex<'_, i32>,
        episode::SurrogateIndex<'_, i64>,
        episode::EpisodeSerial<'_>,
        episode::EpisodeUpperBound<'_>,
        episode::EpisodeMap<'_>,
        episode::EpisodeConcat<'_>,
        episode::TrackBegin<'_, i32>,
        episode::TrackBegin<'_, i64>,
        episode::TrackCount<'_, i32>,
        episode::TrackCount<'_, i64>,
        episode::TrackWrite<'_, i32>,
        episode::TrackWrite<'_, i64>,
        episode::TrackFill<'_, i32>,
        episode::TrackFill<'_, i64>,
        episode::TrackPick<'_>,
        episode::TrackReserve<'_, i32>,
        episode::TrackReserve<'_, i64>,
        episode::TrackBest<'_, i32>,
        episode::TrackBest<'_, i64>,
        episode::TrackKeep<'_>,
        episode::TrackCollect<'_, i32>,
        episode::TrackCollect<'_, i64>,
        episode::TrackSchedule<'_, i32>,
        episode::TrackSchedule<'_, i64>,
        gram::SortEvents<'_>,
        gram::StatesAtSlices<'_>,
        gram::GramEvent<'_>,
        gram::CombineSlices<'_>,
        gram::BehaviorBlockStates<'_>,
        gram::BehaviorCarry<'_>,
        gram::BehaviorCorrelate<'_>,
        gram::UpsilonEvent<'_>,
        gram::BehaviorSums<'_>,
        gram::BehaviorMean<'_>,
        gram::CarryStates<'_>,
        gram::AddProducts<'_>,
        gram::FinishGram<'_>,
        gram::AddUpsilon<'_>,
        gram::MeanResponses<'_>,
        gram::FindFarCentre<'_>,
        gram::CentreAtMean<'_>,
        gram::PutCentreBack<'_>,
        gram::AddInto<'_>,
        gram::ChunkStatesCounts<'_, u8>,
        gram::ChunkStatesCounts<'_, u16>,
        gram::ResponsesCounts<'_, u8>,
        gram::ResponsesCounts<'_, u16>,
        gram::ChunkStatesEvent<'_>,
        gram::ResponsesEvent<'_>,
        gram::ResponsesGiven<'_>,
        map::MapPrepare<'_>,
        map::MapNearest<'_>,
        map::MapTotal<'_>,
        map::MapSums<'_>,
        map::MapSpreadRows<'_>,
        map::MapSpreadColumns<'_>,
        map::MapUpdate<'_>,
        network::NetworkMoments<'_, u8>,
        network::NetworkMoments<'_, i16>,
        network::NetworkScales<'_>,
        network::NetworkPanels<'_, u16>,
        network::NetworkPanels<'_, f64>,
        network::NetworkWalk<'_, f32>,
        network::NetworkWalk<'_, i16>,
        network::NetworkRecheck<'_, u8>,
        network::NetworkRows<'_>,
        network::NetworkPlace<'_>,
        network::NetworkShortRows<'_>,
        network::NetworkLongRows<'_>,
        psc::PscTileEnds<'_, u8>,
        psc::PscTileEnds<'_, f32>,
        psc::PscCarry<'_>,
        psc::PscResponses<'_, u16>,
        psc::PscResponses<'_, f32>,
        psc::ConvolveLoad<'_, u8>,
        psc::ConvolveLoad<'_, f32>,
        psc::ConvolveMultiply<'_>,
        psc::ConvolveStore<'_>,
        psc::LowPassTileEnds<'_, f64>,
        psc::LowPassTileEnds<'_, u8>,
        psc::LowPassCarry<'_>,
        psc::LowPassFilter<'_, u8, f32>,
        psc::LowPassFilter<'_, f64, f64>,
        psc::TrainsEvent<'_>,
        scan::ScanBlocks<'_>,
        scan::ScanAdd<'_>,
        solve::CentreGram<'_>,
        solve::CentreUpsilon<'_>,
        solve::Correct<'_>,
        solve::Residual<'_>,
        solve::MeasureF32<'_>,
        solve::MeasureF64<'_>,
        solve::MirrorLower<'_>,
        sort::SortCount<'_>,
        sort::SortPlace<'_>,
        spiking::SpikingDegrees<'_>,
        spiking::SpikingCount<'_>,
        spiking::SpikingPlace<'_>,
        spiking::SpikingCountListed<'_>,
        spiking::SpikingPlaceListed<'_>,
        spiking::SpikingRowLengths<'_>,
        spiking::SpikingSpread<'_>,
        spiking::SpikingResident<'_>,
    ]
}

/// `text` without comments.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join(" ")
}

/// The signatures in a kernel file: each kernel's name and its parameters' text.
fn signatures(text: &str) -> Vec<(String, Vec<String>)> {
    code(text)
        .split("__global__")
        .skip(1)
        .map(|rest| {
            let rest = rest
                .trim_start()
                .strip_prefix("void")
                .expect("a kernel returns nothing");
            let mut rest = rest.trim_start();
            if let Some(bounds) = rest.strip_prefix("__launch_bounds__") {
                rest = bounds[closing(bounds) + 1..].trim_start();
            }
            let (name, rest) = rest.split_once('(').unwrap();
            let parameters = &rest[..rest.find(')').unwrap()];
            (
                name.trim().to_owned(),
                parameters.split(',').map(|p| p.trim().to_owned()).collect(),
            )
        })
        .collect()
}

/// Where the parenthesis that `text` begins with closes.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && c == ')' {
            return at;
        }
    }
    panic!("no end of {text:?}")
}

/// A C type by its one name here; what `options` define stands for itself.
fn canonical(name: &str, options: &[(&str, &str)]) -> String {
    let option = |wanted: &str| options.iter().find(|(o, _)| *o == wanted).map(|(_, v)| *v);
    let name = match name {
        "Tick" => match option("WIDE") {
            Some("1") | None => "long long",
            _ => "int",
        },
        "INPUT" | "OUTPUT" | "COUNT" => option(name).unwrap_or("not said"),
        name => name,
    };
    match name {
        "size_t" | "unsigned long long" => "u64",
        "unsigned int" => "u32",
        name => name,
    }
    .to_owned()
}

/// (name, direction, type) of a parameter as the file has it.
fn parse(parameter: &str, options: &[(&str, &str)]) -> (String, Direction, String) {
    let spaced = parameter.replace('*', " * ").replace("__restrict__", " ");
    let mut words: Vec<&str> = spaced.split_whitespace().collect();
    let name = words.pop().unwrap().to_owned();
    let pointer = words.last() == Some(&"*");
    words.retain(|&w| w != "*");
    let constant = words.first() == Some(&"const");
    words.retain(|&w| w != "const");
    let direction = match (pointer, constant) {
        (false, _) => Direction::Value,
        (true, true) => Direction::Input,
        (true, false) => Direction::Output,
    };
    (name, direction, canonical(&words.join(" "), options))
}

/// How `declared` differs from the parameters that the file has, if it does.
fn difference(declared: &Declared, parameters: &[String]) -> Option<String> {
    if declared.parameters.len() != parameters.len() {
        let (ours, theirs) = (declared.parameters.len(), parameters.len());
        return Some(format!(
            "the struct has {ours} fields, the kernel {theirs} parameters"
        ));
    }
    for (ours, theirs) in declared.parameters.iter().zip(parameters) {
        let got = (
            ours.name.to_owned(),
            ours.direction,
            canonical(ours.c, declared.options),
        );
        let expected = parse(theirs, declared.options);
        if got != expected {
            return Some(format!(
                "expected {expected:?} for `{theirs}`, the struct has {got:?}"
            ));
        }
    }
    None
}

#[test]
fn every_kernel_has_a_struct_with_its_arguments() {
    let mut seen = BTreeMap::new();
    for source in ALL {
        for (kernel, parameters) in signatures(source.text) {
            assert!(
                seen.insert((source.name, kernel.clone()), parameters)
                    .is_none(),
                "{kernel} is twice in {}.cu",
                source.name
            );
        }
        // Headers have no kernels of their own.
        for (name, text) in source.headers {
            assert!(!text.contains("__global__"), "{name}");
        }
        // What is included, and by what is included, is there.
        for text in std::iter::once(&source.text).chain(source.headers.iter().map(|(_, t)| t)) {
            for line in text.lines().filter_map(|l| l.strip_prefix("#include \"")) {
                let wanted = line.trim_end_matches('"');
                let there = source.headers.iter().any(|(name, _)| *name == wanted);
                assert!(there, "{}.cu lacks {wanted}", source.name);
            }
        }
    }
    let mut left: Vec<_> = seen.keys().cloned().collect();
    for declared in structs() {
        let key = (declared.file, declared.kernel.to_owned());
        let parameters = seen
            .get(&key)
            .unwrap_or_else(|| panic!("no kernel {} in {}.cu", key.1, key.0));
        if let Some(difference) = difference(&declared, parameters) {
            panic!("{} of {}.cu: {difference}", key.1, key.0);
        }
        left.retain(|other| *other != key);
    }
    assert!(left.is_empty(), "kernels without a struct: {left:?}");
    assert!(seen.len() > 60, "{} kernels", seen.len());
}

#[test]
fn a_difference_is_found_wherever_it_is() {
    let declared = declared::<solve::Residual<'_>>();
    let read = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
    let right = "const double *b, const double* product, int count, float *rounded";
    assert_eq!(difference(&declared, &read(right)), None);
    for wrong in [
        "double *b, const double *product, int count, float *rounded",
        "const double *b, const float *product, int count, float *rounded",
        "const double *b, const double *product, size_t count, float *rounded",
        "const double *b, const double *product, int count, const float *rounded",
        "const double *product, const double *b, int count, float *rounded",
        "const double *b, const double *product, int count",
        "const double *b, const double *product, int *count, float *rounded",
    ] {
        assert!(difference(&declared, &read(wrong)).is_some(), "{wrong}");
    }
}

/// What a file asserts, without blanks.
fn assertions(source: &Source) -> String {
    let headers = source.headers.iter().map(|(_, text)| *text);
    let texts: Vec<_> = std::iter::once(source.text)
        .chain(headers)
        .map(code)
        .collect();
    texts.concat().split_whitespace().collect()
}

/// A number that depends on the width of ticks, as files write it.
fn either(narrow: usize, wide: usize) -> String {
    if narrow == wide {
        narrow.to_string()
    } else {
        format!("(WIDE?{wide}:{narrow})")
    }
}

#[test]
fn host_and_kernels_agree_on_every_struct() {
    let same = |layout: Layout| (layout.clone(), layout);
    let layouts = [
        same(Block::layout()),
        same(Cells::layout()),
        same(Filter::layout()),
        same(Mask::layout()),
        same(Chunk::layout()),
        same(Pair::layout()),
        same(Part::layout()),
        same(Section::layout()),
        same(Tuple::layout()),
        same(Tally::layout()),
        same(Target::layout()),
        same(Wires::layout()),
        (Counts::<u8>::layout(), Counts::<u16>::layout()),
        (Node::<i32>::layout(), Node::<i64>::layout()),
        (Entry::<i32>::layout(), Entry::<i64>::layout()),
        (Link::<i32>::layout(), Link::<i64>::layout()),
        (Step::<i32>::layout(), Step::<i64>::layout()),
    ];
    let texts: Vec<(&str, String)> = ALL.iter().map(|s| (s.name, assertions(s))).collect();
    for (narrow, wide) in layouts {
        let name = narrow.name;
        let size = format!(
            "static_assert(sizeof({name})=={}",
            either(narrow.size, wide.size)
        );
        let fields = narrow.fields.iter().zip(&wide.fields).map(|(n, w)| {
            let (field, at) = (n.0, either(n.1, w.1));
            format!("OFFSET({name},{field})=={at}")
        });
        let wanted: Vec<_> = std::iter::once(size).chain(fields).collect();
        let users = texts
            .iter()
            .filter(|(_, text)| text.contains(&format!("struct{name}{{")));
        let mut count = 0;
        for (file, text) in users {
            for line in &wanted {
                assert!(
                    text.contains(line.as_str()),
                    "{file}.cu does not assert {line}"
                );
            }
            count += 1;
        }
        assert!(count > 0, "no file has a struct {name}");
    }
}
