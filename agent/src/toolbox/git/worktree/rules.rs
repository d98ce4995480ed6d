//! Rules of a scan: its scope, its limits, and its treatment of new and flagged files.

use std::collections::HashMap;

use git2::IndexEntry;

use super::left::LeftWhy;
use super::stat::{FileStat, FileTime};
use crate::toolbox::ToolError;

/// Set of files that a scan looks at.
pub(crate) enum ScanScope {
    All,
    /// Files and folders, without a slash at the end.
    Paths(Vec<Vec<u8>>),
}

impl ScanScope {
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Paths(paths) => paths.iter().any(|given| is_within(path, given)),
        }
    }

    /// Returns true if something in a folder may be in the scope.
    pub(super) fn touches(&self, folder: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Paths(paths) => {
                paths.iter().any(|given| is_within(folder, given) || is_within(given, folder))
            }
        }
    }
}

fn is_within(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Treatment of files that Git was told to pass over (`assume-unchanged`, `skip-worktree`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagUse {
    /// They are left alone, as `git add --all` does.
    Git,
    /// Named ones count, as for `git commit -- path`.
    Named,
    /// Every file counts as it is; only what a sparse checkout leaves out may be missing.
    Receipt,
    /// Every file counts as it is, and what may be missing is no deletion.
    Snapshot,
}

impl FlagUse {
    /// Returns true if a file that can't be converted is taken byte for byte.
    pub(super) fn takes_raw(self) -> bool {
        matches!(self, Self::Receipt | Self::Snapshot)
    }
}

/// A file or repository that the index does not know.
pub(crate) struct NewFile<'a> {
    pub path: &'a [u8],
    /// Data of the file; none for a repository of its own.
    pub stat: Option<&'a FileStat>,
    /// True if an ignore file names it itself, not just its folder.
    pub ignored: bool,
}

/// Decision of the caller on a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewFileVerdict {
    Take,
    /// The file is left out, and named with the reason.
    Leave(LeftWhy),
    /// Somebody else keeps account of it.
    Pass,
}

/// Limit on the files and bytes that a scan reads.
#[derive(Clone, Copy)]
pub(crate) struct ScanLimit {
    pub files: usize,
    pub bytes: u64,
    pub why: &'static str,
}

/// Options of a scan.
pub(crate) struct ScanRules<'a> {
    pub scope: &'a ScanScope,
    pub flags: FlagUse,
    /// Time at which the index was written: without it every file is read.
    pub written: Option<FileTime>,
    /// Asked about each new file; without it they are not looked for.
    pub new: Option<&'a mut dyn FnMut(&NewFile<'_>) -> NewFileVerdict>,
    /// New files that were stored before, and are not read again if they look the same.
    pub known_new: Option<&'a HashMap<Vec<u8>, IndexEntry>>,
    /// True if `new` is also asked about files that an ignore file names one by one.
    pub ignored: bool,
    /// New folders that tools made are left alone.
    pub leave_made: bool,
    pub limit: Option<ScanLimit>,
}

impl<'a> ScanRules<'a> {
    /// Known files only, as Git sees them.
    pub(crate) fn known(scope: &'a ScanScope, flags: FlagUse, written: Option<FileTime>) -> Self {
        Self {
            scope,
            flags,
            written,
            new: None,
            known_new: None,
            ignored: false,
            leave_made: false,
            limit: None,
        }
    }
}

/// Budget of files and bytes that may still be read.
pub(super) struct ScanBudget {
    limit: Option<ScanLimit>,
    files: usize,
    bytes: u64,
}

impl ScanBudget {
    pub(super) fn new(limit: Option<ScanLimit>) -> Self {
        Self { limit, files: 0, bytes: 0 }
    }

    pub(super) fn take(&mut self, bytes: u64) -> Result<(), ToolError> {
        self.files += 1;
        self.bytes += bytes;
        match self.limit {
            Some(limit) if self.files > limit.files || self.bytes > limit.bytes => {
                Err(ToolError::refused(limit.why))
            }
            _ => Ok(()),
        }
    }
}
