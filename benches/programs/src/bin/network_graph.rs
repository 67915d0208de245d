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

fn list(values: impl IntoIterator<Item = f64>) -> String {
    let values: Vec<String> = values.into_iter().map(|v| format!("{v:.17e}")).collect();
    format!("[{}]", values.join(","))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let nodes: usize = arguments[1].parse().expect("a number of nodes");
    let text = std::fs::read_to_string(&arguments[2]).expect("edges");
    let edges = text.lines().map(|line| {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next().expect("i j weight");
        (
            next().parse().expect("i"),
            next().parse().expect("j"),
            next().parse().expect("weight"),
        )
    });
    let graph = Graph::new(nodes, edges).expect("a graph");
    let partition: Option<Vec<u32>> = arguments.get(3).map(|path| {
        let text = std::fs::read_to_string(path).expect("a partition");
        text.lines()
            .map(|line| line.trim().parse().expect("a community"))
            .collect()
    });
    let large = nodes > 5000;
    let mut out = Vec::new();
    let mut put = |name: &str, value: String| out.push(format!("\"{name}\":{value}"));
    if !large {
        put("clustering", list(clustering(&graph)));
        put("weighted_clustering", list(weighted_clustering(&graph)));
        put("transitivity", format!("{:.17e}", transitivity(&graph)));
        put("components", components(&graph).1.to_string());
        put(
            "assortativity",
            assortativity(&graph).map_or("null".into(), |v| format!("{v:.17e}")),
        );
        put(
            "efficiency",
            format!("{:.17e}", paths(&graph, false, None, 0).efficiency),
        );
        put(
            "weighted_efficiency",
            format!("{:.17e}", paths(&graph, true, None, 0).efficiency),
        );
        put(
            "path_length",
            format!("{:.17e}", paths(&graph, false, None, 0).length),
        );
        let world = small_world(&graph, 20, 1).expect("rewirings");
        put("sigma", format!("{:.6}", world.sigma_transitivity));
    }
    if let Some(partition) = &partition {
        put(
            "modularity",
            format!(
                "{:.17e}",
                modularity(&graph, partition, 1.0, Signs::Asymmetric).unwrap()
            ),
        );
        put(
            "modularity_symmetric",
            format!(
                "{:.17e}",
                modularity(&graph, partition, 1.0, Signs::Symmetric).unwrap()
            ),
        );
        let p = participation(&graph, partition).unwrap();
        put("participation_plus", list(p.iter().map(|p| p.0)));
        put("participation_minus", list(p.iter().map(|p| p.1)));
        put(
            "within_module_z",
            list(within_module_z(&graph, partition).unwrap()),
        );
    }
    let mut leiden = |name: &str, leiden: Leiden, start: Option<&[u32]>| {
        let before = Instant::now();
        let found = leiden.run(&graph, start).expect("communities");
        put(
            &format!("{name}_seconds"),
            format!("{:.4}", before.elapsed().as_secs_f64()),
        );
        put(
            &format!("{name}_quality"),
            format!("{:.17e}", found.quality),
        );
        put(&format!("{name}_count"), found.count.to_string());
        found.communities
    };
    let symmetric = Objective::Modularity {
        resolution: 1.0,
        signs: Signs::Symmetric,
    };
    let cold = leiden(
        "leiden",
        Leiden {
            objective: symmetric,
            ..Leiden::default()
        },
        None,
    );
    leiden(
        "leiden_warm",
        Leiden {
            objective: symmetric,
            seed: 1,
            ..Leiden::default()
        },
        Some(&cold),
    );
    if let Some(partition) = &partition {
        leiden(
            "leiden_from_partition",
            Leiden {
                objective: symmetric,
                seed: 1,
                ..Leiden::default()
            },
            Some(partition),
        );
    }
    leiden(
        "leiden_potts",
        Leiden {
            objective: Objective::Potts { resolution: 0.05 },
            ..Leiden::default()
        },
        None,
    );
    println!("{{{}}}", out.join(","));
}
