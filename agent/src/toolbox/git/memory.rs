//! The memory that the repository keeps in `.codebutler/`, as its base branch has it: which no thread
//! can change before it is merged. Skills that CodeButler brings are read like the repository's.

use super::GitSite;
use super::base::{base_guide, memory_names};
use crate::toolbox::ToolError;
use codebutler_guides::seeds;
use codebutler_guides::text::head_and_tail;

/// Characters of a file that are shown.
const MAX_SHOWN: usize = 60_000;

/// A file of the base branch's memory, archived learnings included; the list of them without a name.
pub fn read_memory(place: &GitSite, file: Option<&str>) -> Result<String, ToolError> {
    // The base branch is fetched first; where the remote is away, it is as it was when the run began.
    if let Err(error) = place.lock().and_then(|_lock| place.fetch(&place.open()?)) {
        tracing::warn!(%error, "base_branch_fetch_failed");
    }
    let names = memory_names(place)?;
    let list = || match &names[..] {
        [] => "the base branch has no `.codebutler/` yet".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    let Some(file) = file else { return Ok(list()) };
    let file = file.trim_start_matches("./").trim_start_matches(".codebutler/");
    if let Some(text) = base_guide(place, file)? {
        return Ok(head_and_tail(&text, MAX_SHOWN));
    }
    let shipped = file.strip_prefix("skills/").and_then(seeds::find_skill);
    shipped.map(str::to_owned).ok_or_else(|| {
        ToolError::refused(format!("`.codebutler/{file}` does not exist; {}", list()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{prepare_worktree, read_conventions};
    use super::*;

    #[test]
    fn the_memory_is_the_base_branchs() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        assert!(read_memory(&f.place, None).unwrap().contains("no `.codebutler/` yet"));
        f.merge(&[
            (".codebutler/coder.md", "Now.\n## Archived Learnings\nOld.\n"),
            (".codebutler/research/a.md", "Found.\n"),
            (".codebutler/skills/b.md", "# b"),
            (".codebutler/skills/a.md", "# a"),
            (".codebutler/skills/note.txt", "x"),
        ]);
        // Nothing but the reading itself brings it here.
        let listed = read_memory(&f.place, None).unwrap();
        assert!(listed.starts_with("there are: coder.md, research/a.md, skills/a.md"), "{listed}");
        assert!(read_memory(&f.place, Some(".codebutler/coder.md")).unwrap().contains("Old."));
        assert_eq!(read_memory(&f.place, Some("research/a.md")).unwrap(), "Found.\n");
        for name in ["nothing.md", "../README", "/etc/passwd", "research"] {
            assert!(read_memory(&f.place, Some(name)).is_err(), "{name}");
        }
        // Built-in skills can be read too, unless the repository has one of that name.
        assert!(read_memory(&f.place, Some("skills/explain.md")).unwrap().starts_with("# explain"));
        assert_eq!(read_memory(&f.place, Some("skills/a.md")).unwrap(), "# a");
    }

    #[test]
    fn what_a_command_does_to_the_worktrees_references_changes_no_guide() {
        let f = GitFixture::new();
        f.merge(&[(".codebutler/pm.md", "Ours.\n")]);
        prepare_worktree(&f.place).unwrap();
        let tree = f.place.tree();
        f.write(".codebutler/pm.md", "CANARY");
        f.git(&tree, &["add", "-f", "."]);
        f.git(&tree, &["commit", "-q", "-m", "Mine"]);
        f.git(&tree, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        assert_eq!(base_guide(&f.place, "pm.md").unwrap().as_deref(), Some("Ours.\n"));
        // Somebody whom the remote told nothing yet believes nobody.
        let unknown = GitSite { base: super::super::BaseCommit::default(), ..f.place.clone() };
        assert!(base_guide(&unknown, "pm.md").is_err());
    }

    #[test]
    fn conventions_are_there_once_and_those_around_planned_files_too() {
        let f = GitFixture::new();
        f.merge(&[
            ("AGENTS.md", "Use tabs.\n"),
            ("CLAUDE.md", "# Claude\n\n@AGENTS.md\n"),
            (".github/CONTRIBUTING.md", "Sign off.\n"),
            ("web/AGENTS.md", "Use pnpm.\n"),
            ("api/AGENTS.md", "Not planned.\n"),
        ]);
        prepare_worktree(&f.place).unwrap();
        f.write("AGENTS.md", "CANARY");
        let planned = ["web/src/a.ts".to_owned(), "../api/x".to_owned()];
        let found = read_conventions(&f.place, &planned).unwrap();
        let found: Vec<_> = found.iter().map(|(path, text)| (&**path, &**text)).collect();
        assert_eq!(
            found,
            [
                ("AGENTS.md", "Use tabs.\n"),
                (".github/CONTRIBUTING.md", "Sign off.\n"),
                ("web/AGENTS.md", "Use pnpm.\n"),
            ]
        );
    }

    #[test]
    fn a_link_is_followed_within_the_tree_and_no_text_is_told_with_its_line() {
        let f = GitFixture::new();
        let seed = f.dir.path().join("seed");
        std::os::unix::fs::symlink("docs/agents.md", seed.join("AGENTS.md")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", seed.join("CLAUDE.md")).unwrap();
        f.merge(&[("docs/agents.md", "Linked.\n")]);
        std::fs::create_dir_all(seed.join(".codebutler")).unwrap();
        std::fs::write(seed.join(".codebutler/pm.md"), b"fine\n\xff\n").unwrap();
        f.merge(&[("more", "x")]);
        prepare_worktree(&f.place).unwrap();
        let found = read_conventions(&f.place, &[]).unwrap();
        assert_eq!(found, [("AGENTS.md".to_owned(), "Linked.\n".to_owned())]);
        let error = base_guide(&f.place, "pm.md").unwrap_err().to_string();
        assert_eq!(error, "line 2 of `.codebutler/pm.md` is not UTF-8 text");
    }
}
