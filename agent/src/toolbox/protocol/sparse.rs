//! Sparse checkouts as agent and toolbox speak of them.

use serde::{Deserialize, Serialize};

/// The part of a repository that a sparse checkout has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseExtent {
    /// Folders that are there whole. None are named where other patterns than those of folders decide.
    pub folders: Vec<String>,
    /// Number of tracked files that are left out.
    pub outside: usize,
}
