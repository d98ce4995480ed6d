//! References that are in the way of others: `x` and `x/y` can't both be there.

use git2::Repository;

/// Deletes what is in the way of a reference that follows the remote: what it follows is gone there, since the remote
/// can't have both either.
pub(super) fn make_room(repo: &Repository, wanted: &str) -> Result<(), git2::Error> {
    for (at, _) in wanted.match_indices('/') {
        if let Ok(mut above) = repo.find_reference(&wanted[..at]) {
            above.delete()?;
        }
    }
    let below: Result<Vec<_>, _> = repo.references_glob(&format!("{wanted}/*"))?.collect();
    for mut reference in below? {
        reference.delete()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;

    #[test]
    fn a_base_branch_that_becomes_a_folder_of_branches_is_fetched_and_back() {
        let mut f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let remote = f.dir.path().join("remote.git");
        let mut base = "main".to_owned();
        for (name, packed) in [("main/next", false), ("main", false), ("main/a/b", true)] {
            if packed {
                f.git(&f.place.tree(), &["pack-refs", "--all"]);
            }
            f.git(&remote, &["branch", "-m", &base, "away"]);
            f.git(&remote, &["branch", "-m", "away", name]);
            f.place.hello.base_branch = name.to_owned();
            f.place.fetch(&f.place.open().unwrap()).unwrap();
            let tracked =
                f.git(&f.place.tree(), &["rev-parse", &format!("refs/remotes/origin/{name}")]);
            assert_eq!(tracked, f.git(&remote, &["rev-parse", name]), "{name}");
            base = name.to_owned();
        }
    }
}
