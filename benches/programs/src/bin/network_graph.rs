//! Prints the graph measures of an edge list, for `scripts/compare_network_graph.py`:
//! `network_graph NODES EDGES [PARTITION]`. EDGES has a line `i j weight` for each edge; PARTITION a
//! community a line, to start Leiden from and to take modularity and participation of.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a program for comparing, not for use

use std::time::Instant;

use betz_network::graph::Graph;
use betz_network::graph::leiden::{Leiden, Objective};
use betz_network::graph::measures::*;
use betz_network::graph::modularity::{Signs, modularity};
use betz_network::graph::rewire::small_world;

/// The members of one JSON object.
struct Results(Vec<String>);

impl Results {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("\"{name}\":{value}"));
    }

    fn number(&mut self, name: &str, value: f64) {
        self.put(name, format!("{value:.17e}"));
    }

    fn list(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        let values: Vec<String> = values.into_iter().map(|v| format!("{v:.17e}")).collect();
        self.put(name, format!("[{}]", values.join(",")));
    }

    fn measures(&mut self, graph: &Graph) {
        self.list("clustering", clustering(graph));
        self.list("weighted_clustering", weighted_clustering(graph));
        self.number("transitivity", transitivity(graph));
        self.put("components", components(graph).1);
        match assortativity(graph) {
            Some(value) => self.number("assortativity", value),
            None => self.put("assortativity", "null"),
        }
        let unweighted = paths(graph, false, None, 0);
        self.number("efficiency", unweighted.efficiency);
        let weighted = paths(graph, true, None, 0);
        self.number("weighted_efficiency", weighted.efficiency);
        self.number("path_length", unweighted.length);
        let world = small_world(graph, 20, 1).expect("rewirings");
        self.put("sigma", format!("{:.6}", world.sigma_transitivity));
    }

    fn measures_of_partition(&mut self, graph: &Graph, partition: &[u32]) {
        for (name, signs) in [
            ("modularity", Signs::Asymmetric),
            ("modularity_symmetric", Signs::Symmetric),
        ] {
            self.number(name, modularity(graph, partition, 1.0, signs).unwrap());
        }
        let p = participation(graph, partition).unwrap();
        self.list("participation_plus", p.iter().map(|p| p.0));
        self.list("participation_minus", p.iter().map(|p| p.1));
        let z = within_module_z(graph, partition).unwrap();
        self.list("within_module_z", z);
    }

    /// Times Leiden, and returns its communities.
    fn leiden(
        &mut self,
        name: &str,
        graph: &Graph,
        leiden: Leiden,
        start: Option<&[u32]>,
    ) -> Vec<u32> {
        let before = Instant::now();
        let found = leiden.run(graph, start).expect("communities");
        let seconds = before.elapsed().as_secs_f64();
        self.put(&format!("{name}_seconds"), format!("{seconds:.4}"));
        self.number(&format!("{name}_quality"), found.quality);
        self.put(&format!("{name}_count"), found.count);
        found.communities
    }

    fn communities(&mut self, graph: &Graph, partition: Option<&[u32]>) {
        let symmetric = |seed| Leiden {
            objective: Objective::Modularity {
                resolution: 1.0,
                signs: Signs::Symmetric,
            },
            seed,
            ..Leiden::default()
        };
        let cold = self.leiden("leiden", graph, symmetric(0), None);
        self.leiden("leiden_warm", graph, symmetric(1), Some(&cold));
        if partition.is_some() {
            self.leiden("leiden_from_partition", graph, symmetric(1), partition);
        }
        let potts = Leiden {
            objective: Objective::Potts { resolution: 0.05 },
            ..Leiden::default()
        };
        self.leiden("leiden_potts", graph, potts, None);
    }
}

fn read_graph(nodes: usize, path: &str) -> Graph {
    let text = std::fs::read_to_string(path).expect("edges");
    let edges = text.lines().map(|line| {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next().expect("i j weight");
        (
            next().parse().expect("i"),
            next().parse().expect("j"),
            next().parse().expect("weight"),
        )
    });
    Graph::new(nodes, edges).expect("a graph")
}

fn read_partition(path: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(path).expect("a partition");
    let communities = text.lines();
    communities
        .map(|line| line.trim().parse().expect("a community"))
        .collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let nodes: usize = arguments[1].parse().expect("a number of nodes");
    let graph = read_graph(nodes, &arguments[2]);
    let partition = arguments.get(3).map(|path| read_partition(path));
    let mut results = Results(Vec::new());
    if nodes <= 5000 {
        results.measures(&graph);
    }
    if let Some(partition) = &partition {
        results.measures_of_partition(&graph, partition);
    }
    results.communities(&graph, partition.as_deref());
    println!("{{{}}}", results.0.join(","));
}
