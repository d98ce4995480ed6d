//! Settings of a repository that its owners choose.

/// Settings and rules of a repository, as a new one has them on the real host, but for rebasing.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches on the settings' page")]
pub struct RepositoryRules {
    /// Squash merging is allowed.
    pub squash: bool,
    /// Merge commits are allowed.
    pub merge: bool,
    /// Rebase merging is allowed.
    pub rebase: bool,
    /// Pull requests can be merged by themselves when all requirements are met.
    pub auto_merge: bool,
    /// Names of checks that have to be green.
    pub required_checks: Vec<String>,
    /// The default branch is changed by its merge queue only.
    pub merge_queue: bool,
    /// The default branch takes no merge commits.
    pub linear: bool,
    /// All conversations are locked.
    pub locked: bool,
    /// The repository is read-only.
    pub archived: bool,
    /// Branches whose names begin so can't be made.
    pub no_branches: Option<String>,
    /// Branches whose names begin so can't be deleted.
    pub no_deletions: Option<String>,
    /// Branches whose names begin so are changed by pull requests only.
    pub no_pushes: Option<String>,
    /// Branches whose names begin so take only commits with a signature.
    pub signed: Option<String>,
    /// Number of merges that lose a race: another merge moves the base at the same moment.
    pub base_moves: u32,
}

impl Default for RepositoryRules {
    fn default() -> Self {
        Self {
            squash: true,
            merge: true,
            rebase: false,
            auto_merge: false,
            required_checks: Vec::new(),
            merge_queue: false,
            linear: false,
            locked: false,
            archived: false,
            no_branches: None,
            no_deletions: None,
            no_pushes: None,
            signed: None,
            base_moves: 0,
        }
    }
}
