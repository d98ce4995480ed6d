//! A branch of an open Thread and another one, as they are compared. Pure.

use std::collections::BTreeSet;

use codebutler_crds::wire::{ChangeSize, TextMerge};
use jiff::Timestamp;

/// The branch of an open Thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BranchSide {
    pub name: String,
    pub branch: String,
    pub created: Option<Timestamp>,
    pub size: ChangeSize,
}

/// Another branch, and what Git and the two changes say of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetBranch<'a> {
    pub other: &'a BranchSide,
    pub files: &'a BTreeSet<String>,
    pub symbols: &'a [String],
    pub text: TextMerge,
    /// Files in which the two conflict.
    pub conflicts: &'a BTreeSet<String>,
}

/// Order in which merges are proposed: the smaller first, then the older.
pub(super) fn merges_before(one: &BranchSide, other: &BranchSide) -> bool {
    let rank = |side: &BranchSide| (side.size, side.created, side.name.clone());
    rank(one) < rank(other)
}
