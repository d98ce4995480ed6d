//! What the repository keeps in `.codebutler/`: skills of the worktree, and the memory of the base
//! branch, which no thread can change before it is merged.

use std::fs;

use git2::{ObjectType, TreeWalkMode, TreeWalkResult};

use super::{Place, base_guide, tracking};
use crate::toolbox::ToolError;
use crate::toolbox::files;
use crate::toolbox::paths::Tree;

/// Files that are listed.
const MAX_FILES: usize = 200;
/// Skills that are read, and bytes of each.
const MAX_SKILLS: usize = 64;
const MAX_SKILL: usize = 16 * 1024;

/// A file of the base branch's memory, archived learnings included; the list of them without a name.
pub fn memory(place: &Place, file: Option<&str>) -> Result<String, ToolError> {
    // As it is now; where the remote is away, as it was when the run began.
    if let Err(error) = place.lock().and_then(|_lock| place.fetch(&place.open()?)) {
        tracing::warn!(%error, "the base branch is not brought up to date");
    }
    let names = names(place)?;
    let list = || match &names[..] {
        [] => "the base branch has no `.codebutler/` yet".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    let Some(file) = file else { return Ok(list()) };
    let file = file.trim_start_matches("./").trim_start_matches(".codebutler/");
    match base_guide(place, file)? {
        Some(text) => Ok(text),
        None => Err(ToolError::refused(format!("`.codebutler/{file}` does not exist; {}", list()))),
    }
}

fn names(place: &Place) -> Result<Vec<String>, ToolError> {
    let repo = place.open()?;
    let base = repo.find_reference(&tracking(&place.hello.base_branch))?.peel_to_tree()?;
    let Some(folder) = base.get_name(".codebutler") else { return Ok(Vec::new()) };
    let folder = folder.to_object(&repo)?;
    let Some(folder) = folder.as_tree() else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    folder.walk(TreeWalkMode::PreOrder, |root, entry| {
        if entry.kind() == Some(ObjectType::Blob) {
            names.push(format!("{root}{}", String::from_utf8_lossy(entry.name_bytes())));
        }
        if names.len() < MAX_FILES { TreeWalkResult::Ok } else { TreeWalkResult::Abort }
    })?;
    Ok(names)
}

/// Name and text of each skill of the worktree, by name. One that can't be read has no text, and is
/// told for it.
pub fn skills(tree: &Tree) -> Result<Vec<(String, String)>, ToolError> {
    let at = tree.locate(".codebutler/skills")?;
    let Ok(entries) = fs::read_dir(&at.full) else { return Ok(Vec::new()) };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let markdown = |name: &String| {
        std::path::Path::new(name).extension().is_some_and(|extension| extension == "md")
    };
    let mut names: Vec<String> = names.filter(markdown).take(MAX_SKILLS).collect();
    names.sort();
    let text = |name: &str| {
        let at = tree.locate(&format!(".codebutler/skills/{name}")).ok()?;
        let bytes = files::load(&at).ok().filter(|bytes| bytes.len() <= MAX_SKILL)?;
        String::from_utf8(bytes).ok()
    };
    Ok(names
        .into_iter()
        .map(|name| (text(&name).unwrap_or_default(), name))
        .map(|(t, n)| (n, t))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::super::prepare;
    use super::*;

    #[test]
    fn memory_is_the_base_branchs_and_skills_are_the_worktrees() {
        let f = Fixture::new();
        prepare(&f.place).unwrap();
        assert!(memory(&f.place, None).unwrap().contains("no `.codebutler/` yet"));
        let seed = f.dir.path().join("seed");
        fs::create_dir_all(seed.join(".codebutler/research")).unwrap();
        fs::write(seed.join(".codebutler/coder.md"), "Now.\n## Archived Learnings\nOld.\n")
            .unwrap();
        fs::write(seed.join(".codebutler/research/a.md"), "Found.\n").unwrap();
        f.git(&seed, &["checkout", "-q", "main"]);
        f.git(&seed, &["add", "."]);
        f.git(&seed, &["commit", "-q", "-m", "Memory"]);
        f.git(&seed, &["push", "-q", "origin", "main"]);
        // Nothing but the reading itself brings it here.
        assert_eq!(memory(&f.place, None).unwrap(), "there are: coder.md, research/a.md");
        assert!(memory(&f.place, Some(".codebutler/coder.md")).unwrap().contains("Old."));
        assert_eq!(memory(&f.place, Some("research/a.md")).unwrap(), "Found.\n");
        for name in ["nothing.md", "../README", "/etc/passwd", "research"] {
            assert!(memory(&f.place, Some(name)).is_err(), "{name}");
        }
        let tree = Tree::open(&f.place.tree()).unwrap();
        assert_eq!(skills(&tree).unwrap(), []);
        f.write(".codebutler/skills/b.md", "# b");
        f.write(".codebutler/skills/a.md", "# a");
        f.write(".codebutler/skills/note.txt", "x");
        std::os::unix::fs::symlink("/etc/passwd", f.place.tree().join(".codebutler/skills/c.md"))
            .unwrap();
        let found = skills(&tree).unwrap();
        let found: Vec<_> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, [("a.md", "# a"), ("b.md", "# b"), ("c.md", "")]);
    }
}
