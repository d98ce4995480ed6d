//! Lists tracked files in folders that are made by tools.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::GitSite;
use crate::toolbox::ToolError;
use crate::toolbox::modes::{KeptMade, is_made};

/// Files of a worktree in folders such as `node_modules`, as its index has them.
pub(crate) fn tracked_made(place: &GitSite) -> KeptMade {
    let read = || -> Result<Vec<PathBuf>, ToolError> {
        let mut index = place.open()?.index()?;
        index.read(true)?;
        let paths = index.iter().map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)));
        Ok(paths.filter(|path| is_made(path)).collect())
    };
    read().map_or_else(
        |error| {
            tracing::warn!(%error, "file_modes_unfiltered");
            KeptMade::All
        },
        KeptMade::Some,
    )
}
