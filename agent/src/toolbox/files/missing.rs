//! The message about a file that does not exist, with similar names that do.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::WalkState;

use super::super::file_walk::walk_files;
use super::super::names::fold_name;
use super::super::paths::{LocatedPath, WorktreeRoot};
use super::super::{ToolError, outside};

/// Files whose names are compared, at most.
const COMPARED: usize = 50_000;
const TOLD: usize = 3;
/// Jaro-Winkler similarity of two names, from 0 to 1, from which on one may be meant by the other.
const ALIKE: f64 = 0.88;

/// Error that `at` does not exist, with similar names elsewhere in the worktree.
pub fn not_found(tree: &WorktreeRoot, at: &LocatedPath) -> ToolError {
    if let Some(outside) = outside::explain_outside(tree, at) {
        return outside;
    }
    let shown = &at.shown;
    let alike = similar_paths(tree, Path::new(shown));
    let told: Vec<String> = alike.iter().map(|path| format!("`{}`", path.display())).collect();
    ToolError::refused(match told.as_slice() {
        [] => format!("`{shown}` does not exist: look for it with Glob"),
        told => format!("`{shown}` does not exist; there is {}", told.join(", ")),
    })
}

fn similar_paths(tree: &WorktreeRoot, wanted: &Path) -> Vec<PathBuf> {
    let found = Mutex::new(Vec::<(f64, PathBuf)>::new());
    let compared = AtomicUsize::new(0);
    walk_files(tree, tree.root(), true, &(), |(), path| {
        if let Some(score) = path_likeness(wanted, path)
            && let Ok(mut found) = found.lock()
        {
            found.push((score, path.to_owned()));
        }
        match compared.fetch_add(1, Ordering::Relaxed) {
            COMPARED.. => WalkState::Quit,
            _ => WalkState::Continue,
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().take(TOLD).map(|(_, path)| path).collect()
}

/// Names first, then how many of the folders above them agree; None: nobody means this one.
fn path_likeness(wanted: &Path, path: &Path) -> Option<f64> {
    let name = |path: &Path| Some(fold_name(path.file_name()?.to_str()?).to_lowercase());
    let similar = strsim::jaro_winkler(&name(wanted)?, &name(path)?);
    if similar < ALIKE {
        return None;
    }
    let (mut above, mut there) = (wanted.ancestors().skip(1), path.ancestors().skip(1));
    let folders =
        std::iter::from_fn(|| Some((above.next()?.file_name()?, there.next()?.file_name()?)));
    let shared = folders.take_while(|(a, b)| a == b).count();
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    Some(similar + f64::from(shared))
}
