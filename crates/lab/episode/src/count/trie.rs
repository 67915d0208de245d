//! Patterns as a tree of shared prefixes, so that a prefix is extended once for all of them.

use crate::pattern::{Interval, Pattern};

/// One prefix. Nodes are stored in preorder: a node's subtree is the nodes from it up to `next`.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The last symbol of the prefix.
    pub(crate) symbol: u32,
    /// The interval before that symbol; meaningless in a root.
    pub(crate) interval: Interval,
    /// Index of the first node after this one's subtree.
    pub(crate) next: usize,
    /// The longest delay that any child admits; 0 without children.
    pub(crate) reach: i64,
    /// Index into [`Trie::counted`] when the prefix is itself to be counted.
    pub(crate) leaf: Option<usize>,
}

/// A forest of prefixes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trie {
    pub(crate) nodes: Vec<Node>,
    /// Number of distinct patterns.
    pub(crate) counted: usize,
    /// For each pattern given, which of the `counted` ones it is.
    pub(crate) of_pattern: Vec<usize>,
    /// The deepest node's depth, plus one.
    pub(crate) levels: usize,
}

impl Trie {
    /// The tree of `patterns`, which must be sorted by [`Pattern::prefix_key`].
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Self {
        let mut trie = Self::default();
        let mut path: Vec<usize> = Vec::new();
        let mut previous: Option<&Pattern> = None;
        for pattern in patterns {
            let shared = previous.map_or(0, |p| common_prefix(p, pattern));
            trie.close(&mut path, shared);
            for (depth, (interval, symbol)) in pattern.prefix_key().enumerate().skip(shared) {
                if let Some(&parent) = path.last() {
                    let reach = &mut trie.nodes[parent].reach;
                    *reach = interval.high.max(*reach);
                }
                path.push(trie.nodes.len());
                trie.levels = trie.levels.max(depth + 1);
                trie.nodes.push(Node {
                    symbol,
                    interval,
                    next: 0,
                    reach: 0,
                    leaf: None,
                });
            }
            let node = path[pattern.size() - 1];
            let leaf = *trie.nodes[node].leaf.get_or_insert_with(|| {
                trie.counted += 1;
                trie.counted - 1
            });
            trie.of_pattern.push(leaf);
            previous = Some(pattern);
        }
        trie.close(&mut path, 0);
        trie
    }

    /// Ends the subtrees of the path's nodes from `keep` on.
    fn close(&mut self, path: &mut Vec<usize>, keep: usize) {
        let next = self.nodes.len();
        for node in path.drain(keep..) {
            self.nodes[node].next = next;
        }
    }

    /// The children of `node`, in order.
    pub(crate) fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let last = self.nodes[node].next;
        let mut child = node + 1;
        std::iter::from_fn(move || {
            (child < last).then(|| {
                let this = child;
                child = self.nodes[this].next;
                this
            })
        })
    }

    /// The roots, in order.
    pub(crate) fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        let mut root = 0;
        std::iter::from_fn(move || {
            (root < self.nodes.len()).then(|| {
                let this = root;
                root = self.nodes[this].next;
                this
            })
        })
    }
}

/// Number of leading (interval, symbol) steps that two patterns share.
pub(crate) fn common_prefix(a: &Pattern, b: &Pattern) -> usize {
    a.prefix_key()
        .zip(b.prefix_key())
        .take_while(|(x, y)| x == y)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_shared_and_repeats_are_counted_once() {
        let i = Interval::new(0, 5).unwrap();
        let j = Interval::new(5, 10).unwrap();
        let p = |symbols: &[u32], intervals: &[Interval]| {
            Pattern::new(symbols.to_vec(), intervals.to_vec()).unwrap()
        };
        let patterns = [
            p(&[0], &[]),
            p(&[0, 1, 2], &[i, i]),
            p(&[0, 1, 3], &[i, i]),
            p(&[0, 1, 3], &[i, i]),
            p(&[0, 1, 3], &[i, j]),
            p(&[1, 1], &[j]),
        ];
        let trie = Trie::new(patterns.iter());
        assert_eq!(trie.of_pattern, [0, 1, 2, 2, 3, 4]);
        assert_eq!((trie.counted, trie.levels, trie.nodes.len()), (5, 3, 7));
        assert_eq!(trie.roots().collect::<Vec<_>>(), [0, 5]);
        assert_eq!(trie.children(0).collect::<Vec<_>>(), [1]);
        assert_eq!(trie.children(1).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(trie.nodes[1].reach, 10);
        assert_eq!(trie.nodes[0].leaf, Some(0));
    }
}
