//! Files of mined episodes, as `betz mine --csv` and `--graph` write them.

use std::path::Path;

use betz::episode::graph::Graph;
use betz::episode::significance::ChainTest;
use betz::episode::{Alphabet, Episode, TableColumns, write_table};
use betz::file::write_atomically;
use betz::{Error, Result};

/// Least number of symbols of the episodes behind a graph.
const GRAPH_SYMBOLS: usize = 2;

/// Everything that files of a result are made of.
pub(crate) struct MinedFiles {
    pub(crate) alphabet: Alphabet,
    pub(crate) episodes: Vec<Episode>,
    /// One test per episode; `None` if it was not tested.
    pub(crate) tests: Vec<Option<ChainTest>>,
    pub(crate) columns: TableColumns,
}

impl MinedFiles {
    /// Writes the list in the order of the result.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn write_csv(&self, path: &Path) -> Result<()> {
        let rows = (self.episodes.iter()).zip(self.tests.iter().map(Option::as_ref));
        write_atomically(path, |file| {
            write_table(file, self.columns, rows, &self.alphabet)
        })
    }

    /// Writes the connectivity that the episodes imply.
    ///
    /// # Errors
    /// `InvalidArgument` if the name ends neither with .dot nor with .graphml; `Io` if the file cannot be written.
    pub(crate) fn write_graph(&self, path: &Path) -> Result<()> {
        let is = |ending: &str| {
            path.extension()
                .is_some_and(|e| e.eq_ignore_ascii_case(ending))
        };
        let graph = Graph::new(&self.episodes, GRAPH_SYMBOLS);
        if is("graphml") {
            return write_atomically(path, |file| graph.write_graphml(file, &self.alphabet));
        }
        if is("dot") {
            return write_atomically(path, |file| graph.write_dot(file, &self.alphabet));
        }
        Err(Error::argument(format!(
            "path: expected a name that ends with .dot or .graphml, got {}",
            path.display()
        )))
    }
}
