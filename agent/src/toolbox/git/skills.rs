//! The base branch's skills: its own in `.codebutler/skills`, and those in the open form where other tools
//! look for them.

use std::path::Path;

use git2::{Object, Repository, Tree as GitTree};

use super::GitSite;
use super::base::{FOLDER, LINK, file_text, find_entry, path_inside, read_entry};
use super::sealed::read_base;
use crate::toolbox::ToolError;
use codebutler_guides::UnreadFile;
use codebutler_guides::skills::{MAX_FILE, ReadFile};

/// Skills that are read of one folder.
const MAX_SKILLS: usize = 64;
/// Folders with skills in the open form; the first one wins.
const OPEN: [&str; 2] = [".agents/skills", ".claude/skills"];
const OPEN_FILE: &str = "SKILL.md";

/// Path and text of each skill, or why it can't be read.
pub fn read_skills(place: &GitSite) -> Result<Vec<ReadFile>, ToolError> {
    read_base(place, find_skills)
}

fn find_skills(repo: &Repository, base: &GitTree<'_>) -> Result<Vec<ReadFile>, ToolError> {
    let mut paths: Vec<String> = Vec::new();
    if let Some((folder, names)) = read_folder(repo, base, &format!("{FOLDER}/skills"))? {
        let markdown = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
        let own = names.into_iter().filter(markdown).take(MAX_SKILLS);
        paths.extend(own.map(|name| format!("{folder}/{name}")));
    }
    for open in OPEN {
        let Some((folder, names)) = read_folder(repo, base, open)? else { continue };
        let found =
            names.iter().take(MAX_SKILLS).map(|name| format!("{folder}/{name}/{OPEN_FILE}"));
        // One folder may be a link to the other: each skill counts once.
        let found: Vec<String> = found.filter(|path| !paths.contains(path)).collect();
        paths.extend(found);
    }
    let mut read = Vec::new();
    for path in paths {
        match file_text(repo, base, &path, MAX_FILE) {
            Ok(found) => read.extend(found.map(|found| (path, Ok(found)))),
            Err(ToolError::Refused(why)) => read.push((path, Err(UnreadFile::new(why)))),
            Err(error @ ToolError::Failed(_)) => return Err(error),
        }
    }
    Ok(read)
}

/// A folder and the names in it, sorted; a link to a folder within the tree is followed once.
fn read_folder(
    repo: &Repository,
    base: &GitTree<'_>,
    path: &str,
) -> Result<Option<(String, Vec<String>)>, ToolError> {
    let mut path = path.to_owned();
    let Some(mut entry) = find_entry(base, Path::new(&path))? else { return Ok(None) };
    if entry.filemode() == LINK {
        let object = read_entry(repo, &entry)?;
        let target = object.as_ref().and_then(Object::as_blob);
        let target = target.and_then(|blob| std::str::from_utf8(blob.content()).ok());
        let folder = Path::new(&path).parent().unwrap_or(Path::new("")).to_owned();
        let target = target.and_then(|target| path_inside(&folder.join(target)));
        let Some(target) = target.and_then(|target| target.to_str().map(str::to_owned)) else {
            return Ok(None);
        };
        let Some(found) = find_entry(base, Path::new(&target))? else { return Ok(None) };
        entry = found;
        path = target;
    }
    let object = read_entry(repo, &entry)?;
    let Some(folder) = object.as_ref().and_then(Object::as_tree) else { return Ok(None) };
    let names = folder.iter().filter_map(|entry| entry.name().ok().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(Some((path, names)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn skills_of_both_forms_are_the_base_branchs() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        assert_eq!(read_skills(&f.place).unwrap(), []);
        let seed = f.dir.path().join("seed");
        std::fs::create_dir_all(seed.join(".claude")).unwrap();
        symlink("../.agents/skills", seed.join(".claude/skills")).unwrap();
        std::fs::create_dir_all(seed.join(".codebutler/skills")).unwrap();
        std::fs::write(seed.join(".codebutler/skills/odd.md"), b"# odd\n\xff\n").unwrap();
        f.merge(&[
            (".codebutler/skills/b.md", "# b"),
            (".codebutler/skills/a.md", "# a"),
            (".codebutler/skills/note.txt", "x"),
            (".codebutler/skills/big.md", &"x".repeat(MAX_FILE + 1)),
            (".agents/skills/pdf/SKILL.md", "---\n"),
            (".agents/skills/pdf/scripts/fill.py", "print()"),
            (".agents/skills/README.md", "x"),
        ]);
        prepare_worktree(&f.place).unwrap();
        f.write(".codebutler/skills/c.md", "# c");
        f.write(".codebutler/skills/a.md", "# changed");
        let found = read_skills(&f.place).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|(path, text)| match text {
                Ok(text) => format!("{path}: {}", text.trim()),
                Err(why) => format!("{path}! {why}"),
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        .codebutler/skills/a.md: # a
        .codebutler/skills/b.md: # b
        .codebutler/skills/big.md! `.codebutler/skills/big.md` has 16385 bytes, and 16384 are read: make it shorter
        .codebutler/skills/odd.md! line 2 of `.codebutler/skills/odd.md` is not UTF-8 text
        .agents/skills/pdf/SKILL.md: ---
        "#);
    }
}
