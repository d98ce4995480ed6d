//! Hooks that the repository asks for: nothing here runs them, so they are named to the role, each once in a run, where
//! something is done that Git would have run them for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::GitSite;
use super::control::read_plain;
use super::worktree::{read_configs, readable_path};
use crate::toolbox::names::plain_path;
use crate::toolbox::protocol::HOOKS_NOT_RUN;

/// Hooks that Git runs around a commit, a merge and a push.
const NAMES: [&str; 12] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-push",
    "pre-merge-commit",
    "pre-rebase",
    "post-merge",
    "post-checkout",
    "post-rewrite",
    "post-index-change",
    "reference-transaction",
];
/// Files of programs that install hooks.
const CONFIGURATIONS: [&str; 20] = [
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    "prek.toml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    ".huskyrc",
    ".huskyrc.json",
    ".huskyrc.js",
    ".simple-git-hooks.json",
    ".simple-git-hooks.js",
    ".overcommit.yml",
    "captainhook.json",
    "grumphp.yml",
    "hk.pkl",
];
/// Folders that hold hooks by convention.
const FOLDERS: [&str; 4] = [".husky", ".githooks", ".git-hooks", ".cargo-husky/hooks"];
/// Keys of `package.json` under which hooks stand.
const KEYS: [&str; 5] = ["husky", "simple-git-hooks", "pre-commit", "lefthook", "gitHooks"];
const MAX_NAMED: usize = 10;
/// Hooks that are looked at.
const MAX_FOUND: usize = 200;
/// Largest `package.json` that is read, in bytes.
const MAX_PACKAGE: u64 = 1024 * 1024;

/// A hook, or a file that sets hooks up.
#[derive(Debug, PartialEq, Eq)]
struct RepositoryHook {
    /// Path of the file, or key in a configuration.
    name: String,
    /// Name of the hook that Git runs; none for a file that sets hooks up.
    event: Option<String>,
}

/// Action that was done without hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookMoment {
    Commit,
    /// A commit that the harness made and pushes.
    CommitAndPush,
    Merge,
    Push,
}

impl HookMoment {
    fn concerns(self, event: &str) -> bool {
        let commits = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];
        let pushes = ["pre-push", "pre-rebase", "post-rewrite"];
        let merges =
            ["pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge", "post-checkout"];
        ["post-index-change", "reference-transaction"].contains(&event)
            || match self {
                Self::Commit => commits.contains(&event),
                Self::CommitAndPush => commits.contains(&event) || pushes.contains(&event),
                Self::Merge => merges.contains(&event),
                Self::Push => pushes.contains(&event),
            }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Commit => {
                "run what they check in Bash, and commit again if that changes or refuses something"
            }
            Self::Merge => "run what they check in Bash before you push",
            Self::CommitAndPush | Self::Push => {
                "run what they check in Bash, and commit and push again if that changes or refuses something"
            }
        }
    }
}

/// Hooks that were named in this run already. Shared by all who work on one worktree.
#[derive(Clone, Debug, Default)]
pub struct ToldHooks(Arc<Mutex<HooksTold>>);

#[derive(Debug, Default)]
struct HooksTold {
    names: BTreeSet<String>,
    /// A commit was made whose answer named none.
    owed: bool,
}

impl ToldHooks {
    fn lock(&self) -> MutexGuard<'_, HooksTold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit was made by a tool that answers with its push: that names the hooks.
    pub(super) fn owe(&self) {
        self.lock().owed = true;
    }
}

/// The files in the worktree and its `.git` that name hooks, by path, and hooks that configurations name.
pub(super) fn find_hooks(place: &GitSite) -> Vec<String> {
    let names: Vec<String> = all_hooks(place).into_iter().map(|hook| hook.name).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut shown: Vec<String> = names.into_iter().take(MAX_NAMED).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown
}

/// A sentence for the role on hooks that were not run; nothing where there are none, or all were named before.
pub(super) fn name_hooks(place: &GitSite, moment: HookMoment) -> Option<String> {
    let mut told = place.hooks.lock();
    let moment = match moment {
        HookMoment::Push if told.owed => HookMoment::CommitAndPush,
        moment => moment,
    };
    if matches!(moment, HookMoment::CommitAndPush) {
        told.owed = false;
    }
    let mut fresh = all_hooks(place);
    fresh.retain(|hook| hook.event.as_ref().is_none_or(|event| moment.concerns(event)));
    fresh.retain(|hook| told.names.insert(hook.name.clone()));
    if fresh.is_empty() {
        return None;
    }
    let more = fresh.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names: Vec<String> = fresh.into_iter().take(MAX_NAMED).map(|hook| hook.name).collect();
    Some(format!("{HOOKS_NOT_RUN} (`{}`{more}): {}", names.join("`, `"), moment.advice()))
}

/// Finds all hooks of the repository, each once.
fn all_hooks(place: &GitSite) -> Vec<RepositoryHook> {
    let tree = place.tree();
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.push(".git/hooks".into());
    let (configured, commands) = configured_hooks(place);
    folders.extend(configured);
    for folder in folders {
        for name in NAMES {
            let path = folder.join(name);
            if tree.join(&path).is_file() {
                found
                    .push(RepositoryHook { name: plain_path(&path), event: Some(name.to_owned()) });
            }
        }
    }
    found.extend(commands);
    let named = CONFIGURATIONS.iter().filter(|name| tree.join(name).is_file());
    let named = named.map(|name| (*name).to_owned()).chain(package_hooks(&tree));
    found.extend(named.map(|name| RepositoryHook { name, event: None }));
    let mut known = BTreeSet::new();
    found.retain(|hook| known.insert((hook.name.clone(), hook.event.clone())));
    found.truncate(MAX_FOUND);
    found
}

/// Folders that `core.hooksPath` names, and hooks that are commands in a configuration: the repository's, the user's
/// or the system's, or one that these include. Of several folders all count, since a condition may choose between
/// them.
fn configured_hooks(place: &GitSite) -> (Vec<PathBuf>, Vec<RepositoryHook>) {
    let tree = place.tree();
    let real = tree.canonicalize().unwrap_or_else(|_| tree.clone());
    let (mut folders, mut commands) = (Vec::new(), Vec::new());
    for config in read_configs(&tree.join(".git"), Some(&place.work), true) {
        if let Ok(named) = config.get_string("core.hookspath")
            && let Some(folder) = readable_path(&named, &place.work, &tree)
        {
            let inside = folder.strip_prefix(&real).map(Path::to_owned);
            folders.push(inside.unwrap_or(folder));
        }
        let Ok(entries) = config.entries(Some("^hook\\..*\\.event$")) else { continue };
        let _ = entries.for_each(|entry| {
            if !entry.has_value() {
                return;
            }
            let (Ok(key), Ok(event)) = (entry.name(), entry.value()) else { return };
            let name = key.strip_suffix(".event").unwrap_or(key);
            commands.push(RepositoryHook {
                name: plain_path(Path::new(name)),
                event: Some(event.to_owned()),
            });
        });
    }
    (folders, commands)
}

fn package_hooks(tree: &Path) -> Option<String> {
    let package = read_plain(&tree.join("package.json"), MAX_PACKAGE)?;
    let package: serde_json::Value = serde_json::from_slice(&package).ok()?;
    let key = KEYS.iter().find(|key| package.get(**key).is_some_and(|hooks| !hooks.is_null()))?;
    Some(format!("package.json ({key})"))
}

#[cfg(test)]
mod tests;
