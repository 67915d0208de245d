//! `--nodes` of `betz network compute`.

use betz::network::file::NetworkFile;

use super::{done, edges, prepared};

#[test]
fn some_nodes_have_the_edges_that_they_have_among_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepared(folder);
    let asked = "--window 40 --step 10 --threshold 0.3";
    done(folder, &format!("compute signal.npz --out all.npz {asked}"));
    done(
        folder,
        &format!("compute signal.npz --out some.npz --nodes 7,0-4,2 {asked}"),
    );
    done(
        folder,
        &format!("compute bare.npz --out bare-some.npz --nodes 7,0-4,2 {asked}"),
    );
    let read = |name: &str| NetworkFile::read(&folder.join(name)).unwrap();
    let (all, some) = (read("all.npz"), read("some.npz"));
    let kept = [0_u32, 1, 2, 3, 4, 7];
    let names = some.names.as_ref().unwrap();
    assert_eq!(names[5], "region 7");
    let places = some.positions.as_ref().unwrap();
    assert_eq!(places.values[10..], [14.0, 15.0]);
    let place = |node: u32| kept.iter().position(|k| *k == node).map(|at| at as u32);
    let expected: Vec<_> = (edges(&all).into_iter())
        .filter_map(|((start, i, j), r)| Some(((start, place(i)?, place(j)?), r)))
        .collect();
    let found = edges(&some);
    assert_eq!(found.len(), expected.len());
    assert!(found.len() > 10 && found.len() < edges(&all).len());
    for (edge, r) in expected {
        assert!((found[&edge] - r).abs() < 1e-5, "{edge:?}");
    }
    // Without names, by their numbers.
    assert_eq!(read("bare-some.npz").names.unwrap()[5], "7");
}
