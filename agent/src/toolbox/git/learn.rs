//! The memory as this thread's branch has it: read for a proposal, and changed entry by entry in a commit
//! of its own. What lies in index and worktree beside it stays as it is.

use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{
    FileMode, IndexEntry, IndexTime, Oid, Repository, RepositoryState, Signature, Tree as GitTree,
};

use super::GitSite;
use super::base::{self, FOLDER};
use super::sealed::read_base;
use super::worktree::{SKIP, open_index};
use crate::memory::{LearningChange, MemoryCitation};
use crate::toolbox::ToolError;
use codebutler_wire::break_ci_words;

/// Largest size of a page, in bytes.
const MAX_PAGE: usize = 256 * 1024;
/// Largest file that a citation is looked for in, in bytes.
pub(super) const MAX_CITED: usize = 1024 * 1024;
const FILE: u32 = 0o100_644;

/// Reason that no commit can be made while conflicts are being settled in the worktree.
pub const UNDER_WAY: &str = "a merge or rebase is in progress in the worktree";

/// A file of `.codebutler/` as the thread's branch has it.
pub fn branch_page(place: &GitSite, file: &str) -> Result<Option<String>, ToolError> {
    let repo = place.open()?;
    let head = repo.find_commit(place.head_on_branch(&repo)?)?;
    base::file_text(&repo, &head.tree()?, &page_path(file)?, MAX_PAGE)
}

/// Commits changes of the memory, and pages that are written whole, on top of the thread's branch, and answers with
/// the branch's commit; no commit is made of what is done already.
pub fn commit_learnings(
    place: &GitSite,
    changes: &[LearningChange],
    whole: &[(String, String)],
    message: &str,
) -> Result<String, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    if repo.state() != RepositoryState::Clean {
        return Err(ToolError::refused(UNDER_WAY));
    }
    let head = place.head_on_branch(&repo)?;
    let parent = repo.find_commit(head)?;
    let before = parent.tree()?;
    let mut pages: Vec<(String, Option<String>, String)> = Vec::new();
    for change in changes {
        let path = page_path(&change.file)?;
        let known = pages.iter().position(|(known, ..)| *known == path);
        let at = if let Some(at) = known {
            at
        } else {
            let text = base::file_text(&repo, &before, &path, MAX_PAGE)?;
            let now = text.clone().unwrap_or_default();
            pages.push((path, text, now));
            pages.len() - 1
        };
        let (_, old, now) = &mut pages[at];
        let page = (old.is_some() || !now.is_empty()).then_some(now.as_str());
        *now = change.apply(page).map_err(|error| ToolError::refused(error.to_string()))?;
    }
    for (file, text) in whole {
        let path = page_path(file)?;
        let old = base::file_text(&repo, &before, &path, MAX_PAGE)?;
        pages.push((path, old, text.clone()));
    }
    pages.retain(|(_, old, now)| old.as_deref() != Some(now));
    if pages.is_empty() {
        return Ok(head.to_string());
    }
    let mut update = TreeUpdateBuilder::new();
    let mut blobs = Vec::new();
    for (path, _, now) in &pages {
        let blob = repo.blob(now.as_bytes())?;
        update.upsert(path, blob, FileMode::Blob);
        blobs.push((path.as_str(), blob));
    }
    let tree = repo.find_tree(update.create_updated(&repo, &before)?)?;
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let message = git2::message_prettify(&*break_ci_words(message), None)?;
    bring_to_worktree(place, &repo, &pages)?;
    stage_blobs(&repo, &blobs)?;
    let id = repo.commit(Some("HEAD"), &signature, &signature, &message, &tree, &[&parent])?;
    place.hooks.owe();
    Ok(id.to_string())
}

/// Files that nobody has changed follow; one that somebody works on stays theirs.
fn bring_to_worktree(
    place: &GitSite,
    repo: &Repository,
    pages: &[(String, Option<String>, String)],
) -> Result<(), ToolError> {
    for (path, old, now) in pages {
        bring_file(place, repo, path, (old.as_deref().map(str::as_bytes), now.as_bytes()))?;
    }
    Ok(())
}

/// Brings one file to the worktree, unless it was changed there.
pub(super) fn bring_file(
    place: &GitSite,
    repo: &Repository,
    path: &str,
    (old, now): (Option<&[u8]>, &[u8]),
) -> Result<(), ToolError> {
    let file = place.tree().join(path);
    let lies_there = std::fs::symlink_metadata(&file).ok();
    let same = match (&lies_there, old) {
        (None, None) => true,
        (Some(meta), Some(old)) => {
            meta.is_file() && std::fs::read(&file).is_ok_and(|bytes| bytes == old)
        }
        _ => false,
    };
    // A folder that is a link leads elsewhere.
    let folder = file.parent().unwrap_or(repo.path());
    let plain =
        std::fs::symlink_metadata(folder).map_or(lies_there.is_none(), |meta| meta.is_dir());
    if !(same && plain) {
        return Ok(());
    }
    let write = || {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&file, now)
    };
    write().map_err(|error: std::io::Error| ToolError::Failed(format!("`{path}`: {error}")))
}

/// The index knows them as they are committed, or they would look deleted.
pub(super) fn stage_blobs(repo: &Repository, blobs: &[(&str, Oid)]) -> Result<(), ToolError> {
    let mut index = open_index(repo)?;
    for (path, id) in blobs {
        // A sparse checkout may leave the folder out.
        let known = index.get_path(Path::new(path), 0).map_or(0, |entry| entry.flags_extended);
        index.add(&IndexEntry {
            ctime: IndexTime::new(0, 0),
            mtime: IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode: FILE,
            uid: 0,
            gid: 0,
            file_size: 0,
            id: *id,
            flags: 0,
            flags_extended: known & SKIP,
            path: path.as_bytes().to_vec(),
        })?;
    }
    Ok(index.write()?)
}

/// Checks citations against the files that the base branch has now; an error or none for each, in their order.
pub fn check_citations(
    place: &GitSite,
    citations: &[MemoryCitation],
) -> Result<Vec<Option<String>>, ToolError> {
    read_base(place, |repo, tree| find_faults(repo, tree, citations))
}

fn find_faults(
    repo: &Repository,
    tree: &GitTree<'_>,
    citations: &[MemoryCitation],
) -> Result<Vec<Option<String>>, ToolError> {
    let mut read = std::collections::HashMap::new();
    let mut faults = Vec::new();
    for citation in citations {
        let MemoryCitation::File { path, .. } = citation else {
            faults.push(None);
            continue;
        };
        if !read.contains_key(path.as_str()) {
            let found = match base::file_text(repo, tree, path, MAX_CITED) {
                Ok(text) => Some(text),
                // A folder, or a file that is too large to be looked into, is there.
                Err(ToolError::Refused(_)) => None,
                Err(error @ ToolError::Failed(_)) => return Err(error),
            };
            read.insert(path.as_str(), found);
        }
        let text = read.get(path.as_str()).and_then(Option::as_ref);
        faults.push(text.and_then(|text| citation.find_fault(text.as_deref())));
    }
    Ok(faults)
}

/// The same line as the branch has it now, for a new citation.
pub fn quote_citation(
    place: &GitSite,
    citation: MemoryCitation,
) -> Result<MemoryCitation, ToolError> {
    let MemoryCitation::File { path, .. } = &citation else { return Ok(citation) };
    let repo = place.open()?;
    let head = repo.find_commit(place.head_on_branch(&repo)?)?;
    let text = base::file_text(&repo, &head.tree()?, path, MAX_CITED).ok().flatten();
    match (&text, citation.find_fault(text.as_deref())) {
        (_, Some(fault)) => Err(ToolError::refused(fault)),
        (Some(text), None) => Ok(citation.quoting(text)),
        (None, None) => Ok(citation),
    }
}

fn page_path(file: &str) -> Result<String, ToolError> {
    let file = file.trim_start_matches("./").trim_start_matches(".codebutler/");
    let plain =
        Path::new(file).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let markdown = Path::new(file).extension().is_some_and(|extension| extension == "md");
    if !plain
        || !(markdown || file == "policy.json")
        || file.len() > 100
        || file.contains(['\\', '\n'])
    {
        return Err(ToolError::refused(format!(
            "`{file}` is no page of the memory: name one such as `coder.md` or `global.md`"
        )));
    }
    Ok(format!("{FOLDER}/{file}"))
}

/// Entry points for the measurements of `cargo figures`.
pub mod bench {
    use std::path::Path;

    use git2::Repository;

    use super::super::base_guide;
    use super::super::{BaseCommit, GitSite, ToldHooks};
    use super::base::FOLDER;
    use super::check_citations;
    use crate::memory::{MAX_MEMORY_LENGTH, MemoryPage, serve_pages};
    use crate::toolbox::ToolError;
    use crate::toolbox::protocol::{CommitAuthor, ToolboxHello};

    /// Reads the memory as a run does when it starts: the pages of the commit that is checked out in `work/tree`,
    /// with citations looked up, for work on `files`. Answers with what a role is shown.
    ///
    /// # Errors
    /// When the repository or a page of it can't be read.
    pub fn serve_memory(
        work: &Path,
        pages: &[&str],
        files: &[String],
    ) -> Result<String, ToolError> {
        let author = CommitAuthor { name: String::new(), email: String::new() };
        let hello = ToolboxHello {
            relay_url: String::new(),
            proxy: String::new(),
            branch: "main".to_owned(),
            base_branch: "main".to_owned(),
            sparse: Vec::new(),
            author,
            role: "coder".to_owned(),
        };
        let place = GitSite {
            work: work.to_owned(),
            hello,
            base: BaseCommit::default(),
            hooks: ToldHooks::default(),
        };
        let repo = Repository::open(place.tree())?;
        place.base.set(repo.head()?.peel_to_commit()?.id());
        let mut texts = Vec::new();
        for page in pages {
            texts.extend(base_guide(&place, page)?);
        }
        let read: Vec<_> = texts.iter().map(|text| MemoryPage::parse(text)).collect();
        let learnings = read.iter().flat_map(MemoryPage::learnings);
        let cited = learnings.filter(|one| one.fits_files(files)).flat_map(|one| &one.citations);
        let cited: Vec<_> = cited.cloned().collect();
        let faults = check_citations(&place, &cited)?;
        let broken: Vec<_> = cited
            .iter()
            .zip(&faults)
            .filter(|(_, fault)| fault.is_some())
            .map(|(c, _)| c)
            .collect();
        let served = serve_pages(&read, files, MAX_MEMORY_LENGTH, |one| {
            let is_broken = one.citations.iter().any(|cited| broken.contains(&cited));
            is_broken.then(|| format!("`{FOLDER}` cites what is gone"))
        });
        Ok(served.into_iter().map(|page| page.text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;
    use crate::memory::{ChangeKind, LearningEntry};

    /// Files in a commit of the thread's branch.
    fn on_branch(f: &GitFixture, files: &[(&str, &str)]) {
        prepare_worktree(&f.place).unwrap();
        for (path, text) in files {
            f.write(path, text);
        }
        f.git(&f.place.tree(), &["add", "-f", "."]);
        f.git(&f.place.tree(), &["commit", "-q", "-m", "Files"]);
    }

    fn add(id: &str, rule: &str) -> LearningChange {
        let learning = LearningEntry {
            id: id.to_owned(),
            claim: rule.to_owned(),
            rule: rule.to_owned(),
            ..LearningEntry::default()
        };
        let file = "coder.md".to_owned();
        let (kind, map) = (ChangeKind::Add, String::new());
        LearningChange { file, kind, learning, reason: String::new(), map }
    }

    #[test]
    fn one_commit_has_the_entries_and_nothing_that_lies_around() {
        let f = GitFixture::new();
        on_branch(&f, &[(".codebutler/coder.md", "# Coder\n"), ("src/a.rs", "fn a() {}\n")]);
        let tree = f.place.tree();
        f.write("src/a.rs", "half done");
        f.write("new.rs", "staged");
        f.git(&tree, &["add", "new.rs"]);
        let before = f.git(&tree, &["rev-parse", "HEAD"]);
        let changes = [add("l-1", "one"), add("l-2", "two")];
        let commit = commit_learnings(&f.place, &changes, &[], "Learn two things").unwrap();
        assert_eq!(f.git(&tree, &["rev-parse", "HEAD"]).trim(), commit);
        assert_eq!(f.git(&tree, &["rev-parse", "HEAD^"]), before);
        let names = f.git(&tree, &["show", "--name-only", "--format=", "HEAD"]);
        assert_eq!(names.trim(), ".codebutler/coder.md");
        let status = f.git(&tree, &["status", "--short"]);
        assert_eq!(status.trim(), "A  new.rs\n M src/a.rs");
        assert!(branch_page(&f.place, "coder.md").unwrap().unwrap().contains("{#l-2}"));
        let again = commit_learnings(&f.place, &changes, &[], "Learn two things").unwrap();
        assert_eq!(again, commit, "twice is once");
    }

    #[test]
    fn what_somebody_works_on_stays_theirs() {
        let f = GitFixture::new();
        on_branch(&f, &[(".codebutler/coder.md", "# Coder\n")]);
        f.write(".codebutler/coder.md", "# Mine\n");
        commit_learnings(&f.place, &[add("l-1", "one")], &[], "Learn").unwrap();
        let tree = f.place.tree();
        assert_eq!(std::fs::read_to_string(tree.join(".codebutler/coder.md")).unwrap(), "# Mine\n");
        assert!(branch_page(&f.place, "coder.md").unwrap().unwrap().starts_with("# Coder\n"));
    }

    #[test]
    fn pages_are_markdown_in_one_folder() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        for file in ["../README.md", "mcp.json", "../policy.json", "/etc/a.md", "a\\b.md"] {
            assert!(branch_page(&f.place, file).is_err(), "{file}");
        }
        assert_eq!(branch_page(&f.place, ".codebutler/coder.md").unwrap(), None);
    }

    #[test]
    fn citations_are_looked_up_on_the_base_branch() {
        let f = GitFixture::new();
        f.merge(&[("src/a.rs", "fn a() {}\nfn b() {}\n")]);
        on_branch(&f, &[("src/a.rs", "fn a() {}\nfn b() {}\n")]);
        let cited = |text: &str| MemoryCitation::parse(text).unwrap();
        let quoted = quote_citation(&f.place, cited("src/a.rs:2")).unwrap();
        assert_eq!(quoted.to_string(), "src/a.rs:2 \"fn b() {}\"");
        assert!(quote_citation(&f.place, cited("src/a.rs:9")).is_err());
        let all = [quoted, cited("src/gone.rs"), cited("https://x.example/1"), cited("src")];
        let faults = check_citations(&f.place, &all).unwrap();
        assert_eq!(faults[0], None);
        assert_eq!(faults[1].as_deref(), Some("`src/gone.rs` does not exist any more"));
        assert_eq!((&faults[2], &faults[3]), (&None, &None));
    }
}
