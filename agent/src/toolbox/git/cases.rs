//! Names that are one name where upper and lower case, or the form of accents, make no difference: a clone on macOS or
//! Windows holds one of them. Git on Linux sees two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{Delta, Oid, Repository, Tree};

use crate::toolbox::names::{fold_case, plain_path};

/// Pairs that one answer names.
const MAX_NAMED: usize = 3;

/// Names what a tree has new beside something that is the same name elsewhere.
pub(super) fn describe_clashes(
    repo: &Repository,
    before: Oid,
    after: Oid,
) -> Result<Option<String>, git2::Error> {
    let (before, after) = (repo.find_tree(before)?, repo.find_tree(after)?);
    let diff = repo.diff_tree_to_tree(Some(&before), Some(&after), None)?;
    let mut folders = BTreeSet::new();
    for delta in diff.deltas().filter(|delta| delta.status() == Delta::Added) {
        let path = delta.new_file().path().map(Path::to_owned).unwrap_or_default();
        folders.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    let mut pairs = Vec::new();
    for folder in &folders {
        let old = names_in(repo, &before, folder);
        let mut seen = BTreeMap::new();
        for name in names_in(repo, &after, folder) {
            let Some(other) = seen.insert(fold_case(&name), name.clone()) else { continue };
            if !(old.contains(&name) && old.contains(&other)) {
                let [one, two] = [&other, &name].map(|name| plain_path(&folder.join(name)));
                pairs.push(format!("`{one}` and `{two}`"));
            }
        }
    }
    let more = pairs.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    pairs.truncate(MAX_NAMED);
    Ok((!pairs.is_empty()).then(|| {
        format!(
            "A clone on macOS or Windows holds one of {}{more}: rename or remove one, unless both are meant",
            pairs.join(", ")
        )
    }))
}

/// Names of what is in a folder of a tree.
fn names_in<'r>(repo: &'r Repository, root: &Tree<'r>, folder: &Path) -> BTreeSet<String> {
    let tree = if folder.as_os_str().is_empty() {
        Some(root.clone())
    } else {
        root.get_path(folder).ok().and_then(|entry| repo.find_tree(entry.id()).ok())
    };
    let Some(tree) = tree else { return BTreeSet::new() };
    tree.iter().map(|entry| String::from_utf8_lossy(entry.name_bytes()).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{commit_files, head_commit, prepare_worktree};
    use crate::tool_args as args;
    use crate::toolbox::paths::WorktreeRoot;

    fn commit(f: &GitFixture) -> String {
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let args = args::GitCommit { message: "Change".to_owned(), paths: None };
        commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap()
    }

    #[test]
    fn a_name_that_differs_in_case_alone_is_committed_and_said_once() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write("src/ui/Button.rs", "1\n");
        f.write("src/other.rs", "1\n");
        let said = commit(&f);
        assert!(!said.contains("macOS"), "{said}");
        f.write("Readme", "2\n");
        f.write("src/ui/button.rs", "2\n");
        f.write("src/UI/a.rs", "2\n");
        f.write("src/caf\u{e9}", "2\n");
        f.write("src/cafe\u{301}", "2\n");
        let said = commit(&f);
        for pair in ["`README` and `Readme`", "`src/UI` and `src/ui`", ", and 1 more:"] {
            assert!(said.contains(pair), "{pair}: {said}");
        }
        f.write("src/UI/b.rs", "3\n");
        let said = commit(&f);
        assert!(!said.contains("macOS"), "{said}");
    }

    #[test]
    fn a_new_case_of_a_name_is_no_second_name() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.git(&f.place.tree(), &["mv", "README", "readme"]);
        let said = commit(&f);
        assert!(!said.contains("macOS"), "{said}");
    }
}
