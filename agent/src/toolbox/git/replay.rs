//! Puts commits on top of another one without touching index or files: what conflicts has changed nothing.

use encoding_rs::{Encoding, WINDOWS_1252};
use git2::{Commit, MergeOptions, Oid, Repository, Signature};

use super::worktree::conflicting_files;
use codebutler_wire::break_ci_words;

/// Result of replaying commits.
pub(super) enum Replayed {
    To(Oid),
    /// These files conflict, in the commit with this id.
    Conflict(Vec<String>, Oid),
    /// A commit that is a merge, of something that the new base lacks or with changes of its own.
    Merge(Oid),
}

/// Puts `commits` on top of `onto`, oldest first; what is there already is left out.
pub(super) fn replay_commits(
    repo: &Repository,
    onto: Oid,
    commits: &[Oid],
    committer: &Signature<'_>,
) -> Result<Replayed, git2::Error> {
    let mut options = MergeOptions::new();
    options.find_renames(true);
    let mut tip = repo.find_commit(onto)?;
    for id in commits {
        let commit = repo.find_commit(*id)?;
        if commit.parent_count() > 1 {
            let mut others = commit.parent_ids().skip(1);
            let is_there = |other: Oid| {
                other == onto || repo.graph_descendant_of(onto, other).unwrap_or(false)
            };
            if others.all(is_there)
                && (is_plain_merge(repo, &commit, &options)?
                    || is_made_up_for(repo, &commit, (onto, &tip), &options)?)
            {
                continue;
            }
            return Ok(Replayed::Merge(*id));
        }
        let mut index = repo.cherrypick_commit(&commit, &tip, 0, Some(&options))?;
        if index.has_conflicts() {
            return Ok(Replayed::Conflict(conflicting_files(&index)?, *id));
        }
        let tree = index.write_tree_to(repo)?;
        // A commit that changes nothing by intent stays, as with `git rebase`: it may start the checks anew.
        if tree == tip.tree_id() && !is_empty(&commit) {
            continue;
        }
        let message = decode_text(&commit, commit.message_raw_bytes());
        let message = break_ci_words(&message);
        let tree = repo.find_tree(tree)?;
        let made = repo.commit(None, &author_of(&commit), committer, &message, &tree, &[&tip])?;
        tip = repo.find_commit(made)?;
    }
    Ok(Replayed::To(tip.id()))
}

/// True if a merge has nothing but what both sides had, so that nothing is lost without it: conflicts that were
/// settled and edits made on the way are in no other commit.
fn is_plain_merge(
    repo: &Repository,
    merge: &Commit<'_>,
    options: &MergeOptions,
) -> Result<bool, git2::Error> {
    if merge.parent_count() != 2 {
        return Ok(false);
    }
    let (own, other) = (merge.parent(0)?, merge.parent(1)?);
    let mut index = repo.merge_commits(&own, &other, Some(options))?;
    Ok(!index.has_conflicts() && index.write_tree_to(repo)? == merge.tree_id())
}

/// True if `tip`, on top of `onto`, is what the merge together with what is new in `onto` comes to. A merge that counts
/// squashed commits as merged conflicts where it is made again, and yet loses nothing.
fn is_made_up_for(
    repo: &Repository,
    merge: &Commit<'_>,
    (onto, tip): (Oid, &Commit<'_>),
    options: &MergeOptions,
) -> Result<bool, git2::Error> {
    if merge.parent_count() != 2 {
        return Ok(false);
    }
    let (known, new) = (merge.parent(1)?.tree()?, repo.find_commit(onto)?.tree()?);
    let mut index = repo.merge_trees(&known, &merge.tree()?, &new, Some(options))?;
    Ok(!index.has_conflicts() && index.write_tree_to(repo)? == tip.tree_id())
}

fn is_empty(commit: &Commit<'_>) -> bool {
    commit.parent(0).is_ok_and(|before| before.tree_id() == commit.tree_id())
}

/// A text of a commit, from the encoding that the commit names: a new one is in UTF-8.
fn decode_text(commit: &Commit<'_>, bytes: &[u8]) -> String {
    let named = commit.message_encoding().ok().flatten();
    let named = named.and_then(|name| Encoding::for_label(name.as_bytes()));
    match (named, std::str::from_utf8(bytes)) {
        (None, Ok(text)) => text.to_owned(),
        (named, _) => {
            let encoding = named.unwrap_or(WINDOWS_1252);
            encoding.decode_without_bom_handling(bytes).0.into_owned()
        }
    }
}

fn author_of<'c>(commit: &'c Commit<'_>) -> Signature<'c> {
    let author = commit.author();
    if std::str::from_utf8(author.name_bytes()).is_ok() {
        return author;
    }
    let name = decode_text(commit, author.name_bytes());
    let email = decode_text(commit, author.email_bytes());
    Signature::new(&name, &email, &author.when()).unwrap_or(author)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::fixture::GitFixture;
    use super::super::{
        PushOutcome, UpdateOutcome, commit_files, head_commit, prepare_worktree, push_branch,
        update_branch, update_key,
    };
    use crate::tool_args as args;
    use crate::toolbox::ToolError;
    use crate::toolbox::paths::WorktreeRoot;

    fn commit_all(f: &GitFixture, message: &str) {
        let args = args::GitCommit { message: message.to_owned(), paths: None };
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap();
    }

    fn updated(f: &GitFixture) -> UpdateOutcome {
        let key = update_key(&f.place).unwrap();
        update_branch(&f.place, &key, false, &[]).unwrap()
    }

    /// A branch with one pushed commit of a file, and a base branch that has changed another one, or the same.
    fn apart(own: &str, base: &str) -> GitFixture {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write(own, "mine\n");
        commit_all(&f, "Change it");
        push_branch(&f.place).unwrap();
        f.merge(&[(base, "theirs\n")]);
        f
    }

    /// A person brings the base branch in, too, as with the button of the pull request.
    fn person_merges(f: &GitFixture) {
        let seed = f.dir.path().join("seed");
        f.git(&seed, &["pull", "-q", "--rebase", "origin", "codebutler/t"]);
        f.git(&seed, &["merge", "-q", "--no-edit", "-X", "ours", "main"]);
        f.git(&seed, &["push", "-q", "origin", "HEAD:codebutler/t"]);
    }

    #[test]
    fn a_merge_with_changes_of_its_own_is_not_left_out() {
        let f = apart("README", "README");
        assert!(matches!(updated(&f), UpdateOutcome::Conflict(..)));
        f.write("README", "both\n");
        f.write("fix", "1\n");
        commit_all(&f, "Merge main");
        let own = head_commit(&f.place).unwrap();
        person_merges(&f);
        let refused = push_branch(&f.place).unwrap_err();
        assert!(matches!(&refused, ToolError::Refused(why) if why.contains("contain a merge")));
        assert_eq!((head_commit(&f.place).unwrap(), f.file("fix")), (own, "1\n".to_owned()));
        // The remedy that is named works.
        let tree = f.place.tree();
        f.git(&tree, &["merge", "-q", "--no-edit", "-X", "ours", "origin/codebutler/t"]);
        push_branch(&f.place).unwrap();
        assert_eq!(f.remote_tip(), head_commit(&f.place).unwrap());
        assert_eq!((f.file("README"), f.file("fix")), ("both\n".to_owned(), "1\n".to_owned()));
    }

    #[test]
    fn a_merge_that_a_rebase_by_hand_leaves_out_is_named() {
        let f = apart("README", "README");
        assert!(matches!(updated(&f), UpdateOutcome::Conflict(..)));
        f.write("README", "both\n");
        commit_all(&f, "Merge main");
        let own = head_commit(&f.place).unwrap();
        let seed = f.dir.path().join("seed");
        f.git(&seed, &["pull", "-q", "--rebase", "origin", "codebutler/t"]);
        f.git(&seed, &["commit", "-q", "--amend", "-m", "Reworded"]);
        f.git(&seed, &["merge", "-q", "--no-edit", "-X", "ours", "main"]);
        f.git(&seed, &["push", "-q", "--force", "origin", "HEAD:codebutler/t"]);
        let refused = push_branch(&f.place).unwrap_err().to_string();
        let compare = format!("`git diff {}", &own[..7]);
        assert!(refused.contains("people rewrote") && refused.contains(&compare), "{refused}");
        assert_eq!((head_commit(&f.place).unwrap(), f.file("README")), (own, "both\n".to_owned()));
    }

    #[test]
    fn a_merge_of_what_is_there_already_is_left_out() {
        let f = apart("a", "b");
        assert!(matches!(updated(&f), UpdateOutcome::Done(_)));
        person_merges(&f);
        let theirs = f.remote_tip();
        assert!(matches!(push_branch(&f.place).unwrap(), PushOutcome::Done(_)));
        assert_eq!((head_commit(&f.place).unwrap(), f.remote_tip()), (theirs.clone(), theirs));
    }

    #[test]
    fn a_merge_that_counts_squashed_commits_as_merged_is_left_out_where_nothing_is_lost() {
        for changed in [false, true] {
            let f = GitFixture::new();
            prepare_worktree(&f.place).unwrap();
            f.write("README", "below\n");
            commit_all(&f, "Below");
            let below = [head_commit(&f.place).unwrap()];
            f.write("README", "mine\n");
            commit_all(&f, "Change it");
            push_branch(&f.place).unwrap();
            f.merge(&[("README", "below\n"), ("c", "3\n")]);
            let key = update_key(&f.place).unwrap();
            let updated = update_branch(&f.place, &key, false, &below).unwrap();
            assert!(matches!(updated, UpdateOutcome::Done(_)));
            let own = head_commit(&f.place).unwrap();
            person_merges(&f);
            f.commit_elsewhere(if changed { "README" } else { "d" }, "theirs\n");
            let pushed = push_branch(&f.place);
            if changed {
                let refused = pushed.unwrap_err().to_string();
                assert!(refused.contains("contain a merge"), "{refused}");
                assert_eq!(head_commit(&f.place).unwrap(), own);
            } else {
                assert!(matches!(pushed.unwrap(), PushOutcome::Done(_)));
                let tip = f.remote_tip();
                assert_eq!((head_commit(&f.place).unwrap(), f.file("d")), (tip, "theirs\n".into()));
            }
        }
    }

    #[test]
    fn texts_in_another_encoding_and_empty_commits_are_kept() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let tree = f.place.tree();
        f.write("a", "1\n");
        f.git(&tree, &["add", "a"]);
        let (written, head) = (f.git(&tree, &["write-tree"]), head_commit(&f.place).unwrap());
        let mut raw = format!("tree {written}\nparent {head}\nauthor Jos").into_bytes();
        raw.extend(
            b"\xe9 <jose@example.org> 1 +0000\ncommitter Jos\xe9 <jose@example.org> 1 +0000\n",
        );
        raw.extend(b"encoding ISO-8859-1\n\nOpen the caf\xe9\n");
        let path = f.dir.path().join("commit");
        fs::write(&path, raw).unwrap();
        let made = f.git(&tree, &["hash-object", "-t", "commit", "-w", path.to_str().unwrap()]);
        f.git(&tree, &["reset", "-q", "--hard", &made]);
        f.git(&tree, &["commit", "-q", "--allow-empty", "-m", "Start the checks"]);
        f.commit_elsewhere("b", "2\n");
        push_branch(&f.place).unwrap();
        let log = f.git(&tree, &["log", "-3", "--format=%an: %s"]);
        let expected =
            "Someone: Start the checks\nJos\u{e9}: Open the caf\u{e9}\nSomeone: Elsewhere";
        assert_eq!(log, expected);
    }
}
