//! Networks as text for other programs: CSV, GraphML, GEXF; and as spells, one per life of an edge.

use std::io::{self, Write};

use betz_base::{Error, Result};

use crate::network::{Network, WindowEdges};

/// An edge over the windows through which it lasted without a break.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spell {
    /// The smaller node.
    pub i: u32,
    /// The larger node.
    pub j: u32,
    /// First window.
    pub first: u32,
    /// Last window (it lasted `last − first + 1`).
    pub last: u32,
    /// Smallest, mean and largest value.
    pub min: f32,
    /// Mean value.
    pub mean: f32,
    /// Largest value.
    pub max: f32,
}

impl Network {
    /// The network as spells, by (i, j, first): where windows overlap much, far fewer than edges. No
    /// spell goes on across a gap of the signal. Allocates what it returns and 24 bytes per open spell.
    pub fn spells(&self) -> Vec<Spell> {
        let step = self.meta().spec.window.step as u64;
        let mut done = Vec::new();
        // Spells that are open, by (i, j), with the sum of their values.
        let mut open: Vec<(Spell, f64)> = Vec::new();
        let mut before = None;
        for window in self.windows() {
            let joined = before.is_some_and(|start: u64| start + step == window.start);
            before = Some(window.start);
            if !joined {
                done.extend(open.drain(..).map(close_spell));
            }
            let mut still = Vec::with_capacity(window.len());
            let mut last = open.into_iter().peekable();
            for (i, j, r) in window.edges() {
                while let Some(ended) = last.next_if(|(s, _)| (s.i, s.j) < (i, j)) {
                    done.push(close_spell(ended));
                }
                still.push(match last.next_if(|(s, _)| (s.i, s.j) == (i, j)) {
                    Some((s, sum)) => {
                        let (min, max) = (s.min.min(r), s.max.max(r));
                        (
                            Spell {
                                last: window.index as u32,
                                min,
                                max,
                                ..s
                            },
                            sum + f64::from(r),
                        )
                    }
                    None => {
                        let at = window.index as u32;
                        (
                            Spell {
                                i,
                                j,
                                first: at,
                                last: at,
                                min: r,
                                mean: r,
                                max: r,
                            },
                            f64::from(r),
                        )
                    }
                });
            }
            done.extend(last.map(close_spell));
            open = still;
        }
        done.extend(open.into_iter().map(close_spell));
        done.sort_unstable_by_key(|s| (s.i, s.j, s.first));
        done
    }
}

fn close_spell((spell, sum): (Spell, f64)) -> Spell {
    Spell {
        mean: (sum / f64::from(spell.last - spell.first + 1)) as f32,
        ..spell
    }
}

/// Names and positions of nodes, either or both left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeTable<'a> {
    /// One per node.
    pub names: Option<&'a [String]>,
    /// (nodes, 2 or 3), row by row.
    pub positions: Option<(&'a [f64], usize)>,
}

impl NodeTable<'_> {
    pub(crate) fn check(&self, nodes: usize) -> Result<()> {
        if let Some(names) = self.names.filter(|names| names.len() != nodes) {
            return Err(Error::mismatch(format!(
                "node names: expected {nodes}, got {}",
                names.len()
            )));
        }
        if let Some((values, width)) = self.positions
            && (!(2..=3).contains(&width) || values.len() != nodes * width)
        {
            return Err(Error::mismatch(format!(
                "node positions: expected {nodes} of 2 or 3 numbers, got {} values in rows of {width}",
                values.len()
            )));
        }
        Ok(())
    }

    fn name(&self, node: usize) -> String {
        self.names
            .map_or_else(|| node.to_string(), |names| escape_xml(&names[node]))
    }

    fn position(&self, node: usize) -> Option<&[f64]> {
        self.positions
            .map(|(values, width)| &values[node * width..][..width])
    }
}

/// Text within XML: markup escaped, characters that XML does not have left out.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

fn window(network: &Network, k: usize) -> Result<WindowEdges<'_>> {
    network.window(k).ok_or_else(|| {
        Error::argument(format!(
            "window: expected one below {}, got {k}",
            network.len()
        ))
    })
}

fn io(error: &io::Error) -> Error {
    Error::new(
        betz_base::ErrorKind::Io,
        format!("writing a network: {error}"),
    )
}

/// Edges as CSV, of all windows or of one: `window,start,i,j,value`, and `lag` where there are lags.
///
/// # Errors
/// [`Io`](betz_base::ErrorKind::Io); [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) beyond the
/// last window.
pub fn csv(network: &Network, only: Option<usize>, to: &mut dyn Write) -> Result<()> {
    let lagged = !network.lag().is_empty();
    let windows = match only {
        Some(k) => window(network, k).map(|_| k..k + 1)?,
        None => 0..network.len(),
    };
    let all = || -> io::Result<()> {
        writeln!(
            to,
            "window,start,i,j,value{}",
            if lagged { ",lag" } else { "" }
        )?;
        for w in windows.filter_map(|k| network.window(k)) {
            for (e, (i, j, r)) in w.edges().enumerate() {
                write!(to, "{},{},{i},{j},{r}", w.index, w.start)?;
                match w.lag.get(e) {
                    Some(lag) => writeln!(to, ",{lag}")?,
                    None => writeln!(to)?,
                }
            }
        }
        Ok(())
    };
    all().map_err(|e| io(&e))
}

/// The first line of [`spells_csv`].
pub const SPELLS_HEADER: &str = "i,j,first,last,min,mean,max";

/// [`Network::spells`] as CSV, first and last by the windows' numbers; returns how many there are.
///
/// # Errors
/// [`Io`](betz_base::ErrorKind::Io).
pub fn spells_csv(network: &Network, to: &mut dyn Write) -> Result<usize> {
    let spells = network.spells();
    let mut all = || -> io::Result<()> {
        writeln!(to, "{SPELLS_HEADER}")?;
        for s in &spells {
            writeln!(
                to,
                "{},{},{},{},{},{},{}",
                s.i, s.j, s.first, s.last, s.min, s.mean, s.max
            )?;
        }
        Ok(())
    };
    all().map_err(|e| io(&e))?;
    Ok(spells.len())
}

/// Window `k` as GraphML, with names and positions if given.
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) beyond the last window,
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) for a table that does not fit,
/// [`Io`](betz_base::ErrorKind::Io).
pub fn graphml(
    network: &Network,
    k: usize,
    nodes: NodeTable<'_>,
    to: &mut dyn Write,
) -> Result<()> {
    let w = window(network, k)?;
    nodes.check(network.nodes())?;
    let mut all = || -> io::Result<()> {
        writeln!(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(
            to,
            "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">"
        )?;
        writeln!(
            to,
            "<key id=\"name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>"
        )?;
        for axis in ["x", "y", "z"] {
            writeln!(
                to,
                "<key id=\"{axis}\" for=\"node\" attr.name=\"{axis}\" attr.type=\"double\"/>"
            )?;
        }
        writeln!(
            to,
            "<key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>"
        )?;
        writeln!(to, "<graph id=\"window-{k}\" edgedefault=\"undirected\">")?;
        for node in 0..network.nodes() {
            write!(
                to,
                "<node id=\"n{node}\"><data key=\"name\">{}</data>",
                nodes.name(node)
            )?;
            for (axis, value) in ["x", "y", "z"]
                .iter()
                .zip(nodes.position(node).unwrap_or_default())
            {
                write!(to, "<data key=\"{axis}\">{value}</data>")?;
            }
            writeln!(to, "</node>")?;
        }
        for (i, j, r) in w.edges() {
            writeln!(
                to,
                "<edge source=\"n{i}\" target=\"n{j}\"><data key=\"weight\">{r}</data></edge>"
            )?;
        }
        writeln!(to, "</graph>\n</graphml>")
    };
    all().map_err(|e| io(&e))
}

/// The whole network as GEXF 1.3: every edge once, with the spells (in windows) in which it is there
/// and the mean value over all of them.
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) for a table that does not fit,
/// [`Io`](betz_base::ErrorKind::Io).
pub fn gexf(network: &Network, nodes: NodeTable<'_>, to: &mut dyn Write) -> Result<()> {
    nodes.check(network.nodes())?;
    let spells = network.spells();
    let mut all = || -> io::Result<()> {
        writeln!(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(
            to,
            "<gexf xmlns=\"http://gexf.net/1.3\" xmlns:viz=\"http://gexf.net/1.3/viz\" version=\"1.3\">"
        )?;
        writeln!(
            to,
            "<graph mode=\"dynamic\" defaultedgetype=\"undirected\" timeformat=\"integer\" timerepresentation=\"interval\">"
        )?;
        writeln!(to, "<nodes>")?;
        for node in 0..network.nodes() {
            write!(to, "<node id=\"{node}\" label=\"{}\">", nodes.name(node))?;
            if let Some(position) = nodes.position(node) {
                let z = position.get(2).copied().unwrap_or(0.0);
                write!(
                    to,
                    "<viz:position x=\"{}\" y=\"{}\" z=\"{z}\"/>",
                    position[0], position[1]
                )?;
            }
            writeln!(to, "</node>")?;
        }
        writeln!(to, "</nodes>\n<edges>")?;
        for (id, edge) in spells.chunk_by(|a, b| (a.i, a.j) == (b.i, b.j)).enumerate() {
            let length = |s: &Spell| f64::from(s.last - s.first + 1);
            let windows: f64 = edge.iter().map(length).sum();
            let mean = edge
                .iter()
                .map(|s| length(s) * f64::from(s.mean))
                .sum::<f64>()
                / windows;
            let (i, j) = (edge[0].i, edge[0].j);
            writeln!(
                to,
                "<edge id=\"{id}\" source=\"{i}\" target=\"{j}\" weight=\"{}\"><spells>",
                mean as f32
            )?;
            for s in edge {
                writeln!(to, "<spell start=\"{}\" end=\"{}\"/>", s.first, s.last)?;
            }
            writeln!(to, "</spells></edge>")?;
        }
        writeln!(to, "</edges>\n</graph>\n</gexf>")
    };
    all().map_err(|e| io(&e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, Threshold, Window, cases};

    fn network() -> Network {
        let case = cases::communities(12, 160, 3);
        let signal = case.signal().with_segments(vec![0..70, 72..160]).unwrap();
        let spec = NetworkSpec::pearson(Window::new(30, 2)).threshold(Threshold::Absolute(0.4));
        cases::run(&spec, &signal)
    }

    #[test]
    fn spells_hold_every_edge_once() {
        let network = network();
        let spells = network.spells();
        assert!((spells.len() as u64) < network.edges());
        assert!(spells.is_sorted_by_key(|s| (s.i, s.j, s.first)));
        let gap = network
            .window_start()
            .iter()
            .position(|s| *s == 72)
            .unwrap() as u32;
        let mut edges = std::collections::BTreeMap::new();
        for s in &spells {
            assert!(
                s.last < gap || s.first >= gap,
                "no spell across a gap: {s:?}"
            );
            for k in s.first..=s.last {
                assert!(edges.insert((k, s.i, s.j), *s).is_none());
            }
        }
        assert_eq!(edges.len() as u64, network.edges());
        for w in network.windows() {
            for (i, j, r) in w.edges() {
                let s = edges[&(w.index as u32, i, j)];
                assert!(s.min <= r && r <= s.max);
            }
        }
        for s in &spells {
            let values: Vec<f64> = (s.first..=s.last)
                .map(|k| {
                    network
                        .window(k as usize)
                        .unwrap()
                        .edges()
                        .find(|e| (e.0, e.1) == (s.i, s.j))
                        .unwrap()
                        .2
                })
                .map(f64::from)
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((f64::from(s.mean) - mean).abs() < 1e-6);
        }
    }

    #[test]
    fn texts_have_every_edge_and_escape_names() {
        let network = network();
        let text = |write: &dyn Fn(&mut Vec<u8>) -> Result<()>| {
            let mut out = Vec::new();
            write(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let table = text(&|out| csv(&network, None, out));
        assert_eq!(table.lines().count() as u64, network.edges() + 1);
        let third = text(&|out| csv(&network, Some(3), out));
        let its = table.lines().filter(|line| line.starts_with("3,"));
        assert!(third.lines().skip(1).eq(its));
        assert!(csv(&network, Some(network.len()), &mut Vec::new()).is_err());
        let lives = text(&|out| spells_csv(&network, out).map(drop));
        assert_eq!(lives.lines().count(), network.spells().len() + 1);
        let names: Vec<String> = (0..12).map(|n| format!("<{n}> & \u{1}\"co\"")).collect();
        let positions: Vec<f64> = (0..24).map(f64::from).collect();
        let nodes = NodeTable {
            names: Some(&names),
            positions: Some((&positions, 2)),
        };
        let one = text(&|out| graphml(&network, 3, nodes, out));
        assert_eq!(
            one.matches("<edge ").count(),
            network.window(3).unwrap().len()
        );
        assert!(one.contains(
            "<data key=\"name\">&lt;0&gt; &amp; &quot;co&quot;</data><data key=\"x\">0</data>"
        ));
        let all = text(&|out| gexf(&network, nodes, out));
        assert_eq!(all.matches("<spell ").count(), network.spells().len());
        assert!(graphml(&network, network.len(), nodes, &mut Vec::new()).is_err());
        let short = NodeTable {
            names: Some(&names[..3]),
            positions: None,
        };
        assert!(gexf(&network, short, &mut Vec::new()).is_err());
        let odd = NodeTable {
            names: None,
            positions: Some((&positions, 4)),
        };
        assert!(gexf(&network, odd, &mut Vec::new()).is_err());
    }
}
