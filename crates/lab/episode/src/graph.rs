//! The connectivity that frequent episodes imply, as a graph.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::alphabet::Alphabet;
use crate::pattern::{Episode, Interval};

/// One symbol that drives another at a delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The symbol that fires first.
    pub from: u32,
    /// The symbol that follows.
    pub to: u32,
    /// The range of delays.
    pub interval: Interval,
    /// The largest count among the episodes with this edge.
    pub count: u64,
    /// Number of episodes with this edge.
    pub episodes: u64,
    /// The size of the longest of them.
    pub longest: usize,
}

/// A summary of episodes: their symbols and the edges between neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// The symbols that have an edge, ascending.
    pub symbols: Vec<u32>,
    /// The edges, by `from`, `to` and interval.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The edges of the episodes of at least `min_size` symbols (and at least 2): chance alone makes
    /// many pairs frequent, but few long chains.
    pub fn new<'a>(episodes: impl IntoIterator<Item = &'a Episode>, min_size: usize) -> Self {
        let mut edges: BTreeMap<(u32, u32, Interval), Edge> = BTreeMap::new();
        for Episode { pattern, count } in episodes {
            if pattern.size() < min_size {
                continue;
            }
            let mut seen = Vec::new();
            for (pair, &interval) in pattern.symbols().windows(2).zip(pattern.intervals()) {
                let key = (pair[0], pair[1], interval);
                let edge = edges.entry(key).or_insert(Edge {
                    from: pair[0],
                    to: pair[1],
                    interval,
                    count: 0,
                    episodes: 0,
                    longest: 0,
                });
                edge.count = edge.count.max(*count);
                edge.longest = edge.longest.max(pattern.size());
                // A symbol may repeat, and with it an edge; the episode is one all the same.
                if !seen.contains(&key) {
                    edge.episodes += 1;
                    seen.push(key);
                }
            }
        }
        let edges: Vec<Edge> = edges.into_values().collect();
        let mut symbols: Vec<u32> = edges.iter().flat_map(|e| [e.from, e.to]).collect();
        symbols.sort_unstable();
        symbols.dedup();
        Self { symbols, edges }
    }

    /// Writes Graphviz' DOT; an edge's label is its delay in milliseconds, its width grows with its
    /// count.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_dot(&self, out: &mut dyn Write, alphabet: &Alphabet) -> io::Result<()> {
        let strongest = self.edges.iter().map(|e| e.count).max().unwrap_or(1).max(1);
        let text = |s: u32| alphabet.label(s).replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(out, "digraph episodes {{")?;
        for &s in &self.symbols {
            writeln!(out, "  s{s} [label=\"{}\"];", text(s))?;
        }
        for e in &self.edges {
            let (low, high) = seconds(alphabet, e.interval);
            let width = 0.5 + 3.5 * e.count as f64 / strongest as f64;
            writeln!(
                out,
                "  s{} -> s{} [label=\"{}-{} ms\", penwidth={width:.2}, count={}, episodes={}, longest={}];",
                e.from,
                e.to,
                milliseconds(low),
                milliseconds(high),
                e.count,
                e.episodes,
                e.longest
            )?;
        }
        writeln!(out, "}}")
    }

    /// Writes GraphML, with `low`, `high` (seconds), `count`, `episodes` and `longest` on each edge.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_graphml(&self, out: &mut dyn Write, alphabet: &Alphabet) -> io::Result<()> {
        writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
        writeln!(
            out,
            r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">"#
        )?;
        writeln!(
            out,
            r#"  <key id="label" for="node" attr.name="label" attr.type="string"/>"#
        )?;
        for (name, kind) in [
            ("low", "double"),
            ("high", "double"),
            ("count", "long"),
            ("episodes", "long"),
            ("longest", "int"),
        ] {
            writeln!(
                out,
                r#"  <key id="{name}" for="edge" attr.name="{name}" attr.type="{kind}"/>"#
            )?;
        }
        writeln!(out, r#"  <graph id="episodes" edgedefault="directed">"#)?;
        for &s in &self.symbols {
            writeln!(
                out,
                r#"    <node id="s{s}"><data key="label">{}</data></node>"#,
                escape_xml(alphabet.label(s))
            )?;
        }
        for e in &self.edges {
            let (low, high) = seconds(alphabet, e.interval);
            writeln!(out, r#"    <edge source="s{}" target="s{}">"#, e.from, e.to)?;
            for (name, value) in [
                ("low", low.to_string()),
                ("high", high.to_string()),
                ("count", e.count.to_string()),
                ("episodes", e.episodes.to_string()),
                ("longest", e.longest.to_string()),
            ] {
                writeln!(out, r#"      <data key="{name}">{value}</data>"#)?;
            }
            writeln!(out, "    </edge>")?;
        }
        writeln!(out, "  </graph>\n</graphml>")
    }
}

fn seconds(alphabet: &Alphabet, interval: Interval) -> (f64, f64) {
    let clock = alphabet.clock();
    (clock.seconds(interval.low), clock.seconds(interval.high))
}

/// Milliseconds to a thousandth, as short as possible.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e3
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::pattern::Pattern;

    fn graph() -> (Graph, Alphabet) {
        let labels = vec!["a".to_owned(), "<b>\"".to_owned(), "c".to_owned()];
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
        let edge = Interval::new(4, 6).unwrap();
        let episode = |symbols: &[u32], count| Episode {
            pattern: Pattern::uniform(symbols.to_vec(), edge).unwrap(),
            count,
        };
        let episodes = [
            episode(&[2], 50),
            episode(&[0, 1], 9),
            episode(&[0, 1, 0, 1], 3),
        ];
        (Graph::new(&episodes, 2), alphabet)
    }

    #[test]
    fn edges_sum_up_their_episodes() {
        let (graph, _) = graph();
        assert_eq!(graph.symbols, [0, 1]);
        assert_eq!(graph.edges.len(), 2);
        let e = &graph.edges[0];
        assert_eq!(
            (e.from, e.to, e.count, e.episodes, e.longest),
            (0, 1, 9, 2, 4)
        );
        assert_eq!(graph.edges[1].count, 3);
    }

    #[test]
    fn both_forms_escape_labels() {
        let (graph, alphabet) = graph();
        let mut dot = Vec::new();
        graph.write_dot(&mut dot, &alphabet).unwrap();
        let dot = String::from_utf8(dot).unwrap();
        assert!(dot.contains(r#"s1 [label="<b>\""];"#), "{dot}");
        assert!(
            dot.contains("s0 -> s1 [label=\"4-6 ms\", penwidth=4.00, count=9"),
            "{dot}"
        );
        let mut xml = Vec::new();
        graph.write_graphml(&mut xml, &alphabet).unwrap();
        let xml = String::from_utf8(xml).unwrap();
        assert!(xml.contains("&lt;b&gt;"), "{xml}");
        assert!(xml.contains(r#"<data key="low">0.004</data>"#), "{xml}");
        assert_eq!(xml.matches("<edge ").count(), 2);
    }
}
