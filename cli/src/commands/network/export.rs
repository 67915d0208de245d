//! `betz network export`: a network for other programs.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;

use betz::file::write_atomically;
use betz::network::export;
use betz::network::file::NetworkFile;
use betz::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Export, Format};
use super::on_cpu;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

#[derive(Serialize)]
struct ExportReport {
    out: String,
    format: String,
    window: Option<usize>,
    nodes: usize,
    windows: usize,
    edges: u64,
    #[serde(skip)]
    spells: Option<usize>,
}

pub(super) fn run(args: &Export) -> Result<()> {
    on_cpu(&args.common.device)?;
    let format = match args.format {
        Some(format) => format,
        None => by_ending(&args.out)?,
    };
    match (format, args.window) {
        (Format::Graphml | Format::Json, None) => {
            return Err(Error::argument(
                "--window: expected one for graphml and json, which hold one window, got none",
            ));
        }
        (Format::Gexf | Format::Spells, Some(k)) => {
            return Err(Error::argument(format!(
                "--window: expected none for gexf and spells, which hold all windows, got {k}"
            )));
        }
        _ => {}
    }
    let mut files = Files::new(&args.common).reads("NET", &args.network);
    files.writes("--out", &args.out, kind(format))?;
    let file = NetworkFile::read(&args.network)?;
    let network = &file.network;
    let window = match args.window {
        Some(k) => Some(network.window(k).ok_or_else(|| {
            Error::argument(format!(
                "--window: expected one below {}, got {k}",
                network.len()
            ))
        })?),
        None => None,
    };
    let mut spells = None;
    write(&args.out, |to| match (format, &window) {
        (Format::Csv, _) => export::csv(network, args.window, to),
        (Format::Spells, _) => export::spells_csv(network, to).map(|count| spells = Some(count)),
        (Format::Gexf, _) => export::gexf(network, file.nodes(), to),
        (Format::Graphml, _) => {
            export::graphml(network, args.window.unwrap_or(0), file.nodes(), to)
        }
        (Format::Json, _) => node_link(&file, args.window.unwrap_or(0), to),
    })?;
    let exported = ExportReport {
        out: args.out.display().to_string(),
        format: format!("{format:?}").to_ascii_lowercase(),
        window: args.window,
        nodes: network.nodes(),
        windows: if window.is_some() { 1 } else { network.len() },
        edges: window.map_or(network.edges(), |w| w.len() as u64),
        spells,
    };
    report::tell(&exported, args.common.json)
}

impl Outcome for ExportReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {}, {}, {}{}",
            self.out,
            report::count(self.nodes as u128, "node"),
            report::count(self.windows as u128, "window"),
            report::count(self.edges, "edge"),
            self.spells
                .map_or_else(String::new, |s| format!(" as {s} spells"))
        ))
    }
}

fn kind(format: Format) -> Kind {
    match format {
        Format::Csv => Kind::Table(&["window,start,i,j,value"]),
        Format::Spells => Kind::Table(&[export::SPELLS_HEADER]),
        Format::Gexf | Format::Graphml | Format::Json => Kind::NetworkText,
    }
}

fn by_ending(path: &Path) -> Result<Format> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "csv" => Ok(Format::Csv),
        "gexf" => Ok(Format::Gexf),
        "graphml" => Ok(Format::Graphml),
        "json" => Ok(Format::Json),
        _ => Err(Error::argument(format!(
            "--out {}: expected --format, or a file ending in .csv, .gexf, .graphml or .json",
            path.display()
        ))),
    }
}

/// Writes through `fill`, whose own error is handed on as it is.
fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = RefCell::new(None);
    let done = write_atomically(path, |file| {
        fill(file).map_err(|e| {
            *failed.borrow_mut() = Some(e);
            io::Error::other("not written")
        })
    });
    match failed.into_inner() {
        Some(error) => Err(error.at(path.display())),
        None => done,
    }
}

/// One window as nodes and links.
fn node_link(file: &NetworkFile, k: usize, to: &mut dyn Write) -> Result<()> {
    let io = |e: io::Error| Error::new(betz::ErrorKind::Io, format!("writing a network: {e}"));
    let network = &file.network;
    let window = (network.window(k))
        .ok_or_else(|| Error::argument(format!("window: expected one below {}", network.len())))?;
    let mut all = || -> io::Result<()> {
        write!(
            to,
            "{{\"network_window\":{k},\"start\":{},\"directed\":false,\"multigraph\":false,\"graph\":{{}},\"nodes\":[",
            window.start
        )?;
        for node in 0..network.nodes() {
            let mut of = json!({ "id": node });
            if let Some(names) = &file.names {
                of["name"] = Value::from(names[node].as_str());
            }
            if let Some(places) = &file.positions {
                let place = &places.values[node * places.axes..][..places.axes];
                for (axis, value) in ["x", "y", "z"].iter().zip(place) {
                    of[*axis] = Value::from(*value);
                }
            }
            write!(to, "{}{of}", if node > 0 { ",\n" } else { "\n" })?;
        }
        write!(to, "],\n\"links\":[")?;
        for (e, (i, j, r)) in window.edges().enumerate() {
            let comma = if e > 0 { ",\n" } else { "\n" };
            write!(
                to,
                "{comma}{{\"source\":{i},\"target\":{j},\"weight\":{r}}}"
            )?;
        }
        writeln!(to, "]}}")
    };
    all().map_err(io)
}
