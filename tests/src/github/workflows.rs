//! A rule of GitHub: an App brings a new workflow only with the permission for it, unless a branch has the very same file.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::git::{BareRepository, GitError};

/// Folder of the hooks that guard the pushes of an App without the permission.
const HOOKS: &str = "hooks-without-workflows";
/// The words are the real host's, but for the reason in the report, which a hook can't choose.
const UPDATE: &str = r#"#!/bin/sh
case $3 in *[!0]*) ;; *) exit 0 ;; esac
git rev-list "$3" --not --all | while read -r commit; do
  git diff-tree --root -r -m --no-commit-id --diff-filter=AM "$commit" -- .github/workflows |
    while read -r before after old blob status path; do
      known=$(git for-each-ref --format='%(refname)' refs/heads | while read -r branch; do
        [ "$(git rev-parse -q --verify "$branch:$path")" = "$blob" ] && echo "$branch"
      done)
      [ -n "$known" ] && continue
      echo "refusing to allow a GitHub App to create or update workflow \`$path\` without \`workflows\` permission" >&2
      exit 1
    done || exit 1
done || exit 1
"#;
/// The rules of the repository hold all the same.
const PRE_RECEIVE: &str =
    "#!/bin/sh\n[ -x hooks/pre-receive ] && exec hooks/pre-receive\ncat >/dev/null\n";

/// Writes the hooks below the host's folder.
pub(super) fn write_hooks(root: &Path) -> std::io::Result<()> {
    let folder = hooks_folder(root);
    std::fs::create_dir_all(&folder)?;
    for (name, script) in [("update", UPDATE), ("pre-receive", PRE_RECEIVE)] {
        std::fs::write(folder.join(name), script)?;
        std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The folder of the hooks, for Git's `core.hooksPath`.
pub(super) fn hooks_folder(root: &Path) -> PathBuf {
    root.join(HOOKS)
}

/// True if a tree has a workflow that another one and the branches have not.
pub(super) async fn brings_workflow(
    git: &BareRepository,
    from: &str,
    tree: &str,
) -> Result<bool, GitError> {
    let compare = ["diff-tree", "-r", "--diff-filter=AM", from, tree, "--", ".github/workflows"];
    let changes = git.run(&compare).await?;
    let branches = git.branches().await?;
    for line in changes.lines() {
        let Some((entry, path)) = line.split_once('\t') else { continue };
        let blob = entry.split(' ').nth(3).unwrap_or_default();
        let mut is_known = false;
        for branch in branches.keys() {
            let place = format!("refs/heads/{branch}:{path}");
            let found = git.run(&["rev-parse", "--verify", "--quiet", &place]).await;
            is_known |= found.is_ok_and(|id| id == blob);
        }
        if !is_known {
            return Ok(true);
        }
    }
    Ok(false)
}
