//! Hooks that the repository asks for: nothing here runs them, so they are named wherever a commit is made.

use std::path::{Path, PathBuf};

use git2::Config;

/// What Git runs around a commit and a push.
const NAMES: [&str; 9] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-push",
    "pre-merge-commit",
    "pre-rebase",
    "post-merge",
    "post-checkout",
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
/// Largest `package.json` that is read, in bytes.
const MAX_PACKAGE: u64 = 1024 * 1024;

/// The files in the worktree and its `.git` that name hooks, by path.
pub(super) fn find_hooks(tree: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.push(".git/hooks".into());
    folders.extend(configured_folder(tree));
    for folder in folders {
        for name in NAMES {
            let path = folder.join(name);
            if tree.join(&path).is_file() {
                found.push(shown(&path));
            }
        }
    }
    let named = CONFIGURATIONS.iter().filter(|name| tree.join(name).is_file());
    found.extend(named.map(|name| (*name).to_owned()));
    found.extend(package_hooks(tree));
    let mut unique = Vec::new();
    found.retain(|name| {
        let is_new = !unique.contains(name);
        unique.push(name.clone());
        is_new
    });
    found.truncate(MAX_NAMED);
    found
}

/// A sentence for whoever commits; nothing where there are none.
pub(super) fn name_hooks(tree: &Path) -> Option<String> {
    let found = find_hooks(tree);
    (!found.is_empty()).then(|| {
        format!(
            "The repository's hooks were not run (`{}`): run what they check in Bash, and commit again if that \
             changes or refuses something",
            found.join("`, `")
        )
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().replace(['`', '\n'], "?")
}

/// `core.hooksPath`, if it is set for this repository.
fn configured_folder(tree: &Path) -> Option<PathBuf> {
    let config = Config::open(&tree.join(".git/config")).ok()?;
    let path = config.get_path("core.hookspath").ok()?;
    let inside = path.strip_prefix(tree).map(Path::to_owned);
    Some(inside.unwrap_or(path))
}

fn package_hooks(tree: &Path) -> Option<String> {
    let path = tree.join("package.json");
    if !path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_PACKAGE) {
        return None;
    }
    let package: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let key = KEYS.iter().find(|key| package.get(**key).is_some_and(|hooks| !hooks.is_null()))?;
    Some(format!("package.json ({key})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_every_kind_are_named_once() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path();
        assert_eq!(name_hooks(tree), None);
        let write = |path: &str, text: &str| {
            let path = tree.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".git/config", "[core]\n\thooksPath = .husky\n");
        write(".git/hooks/pre-commit.sample", "");
        write(".git/hooks/commit-msg", "");
        write(".husky/pre-commit", "");
        write(".husky/_/husky.sh", "");
        write(".pre-commit-config.yaml", "");
        write("package.json", r#"{"simple-git-hooks": {"pre-commit": "x"}}"#);
        assert_eq!(
            find_hooks(tree),
            [
                ".husky/pre-commit",
                ".git/hooks/commit-msg",
                ".pre-commit-config.yaml",
                "package.json (simple-git-hooks)"
            ]
        );
        assert!(name_hooks(tree).unwrap().contains("were not run (`.husky/pre-commit`"));
    }
}
