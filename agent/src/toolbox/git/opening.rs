//! Explains a repository that can't be opened, in a sentence that says what to do.

use git2::RepositoryState;

use crate::toolbox::ToolError;

/// Explains what libgit2 says of a repository that it can't work in.
pub(super) fn explain_unopened(error: &git2::Error) -> ToolError {
    let said = error.message();
    let quoted = |from: &str| {
        let rest = said.split_once(from)?.1.trim_start();
        let name = rest.trim_start_matches(['\'', '"']).split(['\'', '"', ' ']).next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    if let Some(name) = quoted("unsupported extension name") {
        return ToolError::refused(format!(
            "this worktree's `.git/config` asks for `{name}`, which CodeButler's Git tools can't work with: \
             `git config --unset {name}` in Bash takes it back, if nothing was converted for it yet"
        ));
    }
    if let Some(format) = quoted("unknown object format").or_else(|| quoted("object format")) {
        return ToolError::refused(format!(
            "this repository names its objects with {}, and CodeButler works with SHA-1 only: it can't be used \
             here",
            format.to_ascii_uppercase().replace("SHA256", "SHA-256")
        ));
    }
    if said.contains("unsupported repository version") {
        return ToolError::refused(format!(
            "this worktree's `.git/config` names a newer format of repositories ({said}), which CodeButler's Git \
             tools can't read: set `core.repositoryformatversion` back to what it was"
        ));
    }
    ToolError::Refused(format!("Git: {said}"))
}

/// Error that an operation of Git is in progress which only Git ends well.
pub(super) fn unfinished_error(state: RepositoryState) -> ToolError {
    let what = match state {
        RepositoryState::CherryPick | RepositoryState::CherryPickSequence => "a cherry-pick",
        RepositoryState::Revert | RepositoryState::RevertSequence => "a revert",
        RepositoryState::Bisect => "a bisection",
        RepositoryState::ApplyMailbox => "`git am`",
        RepositoryState::Merge => "a merge",
        _ => "a rebase",
    };
    ToolError::refused(format!(
        "{what} is in progress: finish or abort it with `git` in Bash first"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{head_commit, prepare_worktree};

    #[test]
    fn a_repository_that_cant_be_read_is_named_with_what_to_do() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let config = f.place.tree().join(".git/config");
        let before = std::fs::read_to_string(&config).unwrap();
        for (setting, words) in [
            ("[extensions]\n\tpartialClone = origin\n", "extensions.partialclone"),
            ("[extensions]\n\tobjectFormat = sha256\n", "SHA-256"),
            ("[extensions]\n\trefStorage = reftable\n", "extensions.refstorage"),
        ] {
            let version = "[core]\n\trepositoryformatversion = 1\n";
            std::fs::write(&config, format!("{before}{version}{setting}")).unwrap();
            let said = head_commit(&f.place).unwrap_err().to_string();
            assert!(said.contains(words) && !said.contains("Git: "), "{said}");
        }
        std::fs::write(&config, format!("{before}[core]\n\trepositoryformatversion = 9\n"))
            .unwrap();
        let said = head_commit(&f.place).unwrap_err().to_string();
        assert!(said.contains("newer format"), "{said}");
    }
}
