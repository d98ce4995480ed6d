//! The files of a repository that are judged. They come from a worktree or from a commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::UnreadFile;

/// The folder in a repository.
pub const FOLDER: &str = ".codebutler";
/// Folders of skills in the open form, beside `.codebutler`. The first one wins.
pub const OPEN: [&str; 2] = [".agents/skills", ".claude/skills"];

/// Files by their path from the root, each as it was read or why it was not.
#[derive(Clone, Debug, Default)]
pub struct GuideFiles {
    files: BTreeMap<String, Result<Vec<u8>, UnreadFile>>,
}

impl GuideFiles {
    /// Reads the files of a worktree.
    pub fn read(root: &Path) -> Self {
        let mut found = Self::default();
        let own = root.join(FOLDER);
        found.add_all(&own, FOLDER, |file| vec![file.to_owned()]);
        found.add_all(&own.join("skills"), &format!("{FOLDER}/skills"), |file| {
            vec![file.to_owned()]
        });
        let mut seen: Vec<PathBuf> = Vec::new();
        for open in OPEN {
            // One folder may be a link to the other.
            let place = root.join(open);
            let Some(real) = place.canonicalize().ok().filter(|real| !seen.contains(real)) else {
                continue;
            };
            seen.push(real);
            found.add_all(&place, open, |skill| vec![format!("{skill}/SKILL.md")]);
        }
        found
    }

    /// Adds a file, if it is one that is judged.
    pub fn add(&mut self, path: &str, bytes: Result<Vec<u8>, UnreadFile>) {
        if is_judged(path) {
            self.files.insert(path.to_owned(), bytes);
        }
    }

    /// Each with its path, in the order of these.
    pub fn all(&self) -> impl Iterator<Item = (&String, &Result<Vec<u8>, UnreadFile>)> {
        self.files.iter()
    }

    fn add_all(&mut self, folder: &Path, shown: &str, files: impl Fn(&str) -> Vec<String>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let unread = UnreadFile::new(error.to_string());
                self.files.insert(shown.to_owned(), Err(unread));
                return;
            }
        };
        for entry in entries.flatten() {
            for name in files(&entry.file_name().to_string_lossy()) {
                let (place, path) = (folder.join(&name), format!("{shown}/{name}"));
                if is_judged(&path) && place.is_file() {
                    let bytes = fs::read(place).map_err(|e| UnreadFile::new(e.to_string()));
                    self.add(&path, bytes);
                }
            }
        }
    }
}

/// The name of a file that lies in the folder itself.
pub fn name_in_folder(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// True if a file, by its path from the root, is a skill.
pub fn is_skill(path: &str) -> bool {
    let own = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix("/skills/"));
    let open = OPEN.iter().find_map(|open| path.strip_prefix(open)?.strip_prefix('/'));
    own.is_some_and(|name| !name.contains('/') && is_markdown(name))
        || open.and_then(|rest| rest.split_once('/')).is_some_and(|(_, name)| name == "SKILL.md")
}

/// True if a file, by its path from the root, says how to work.
pub fn is_judged(path: &str) -> bool {
    let own = |name: &str| ["mcp.json", "policy.json"].contains(&name) || is_markdown(name);
    name_in_folder(path).is_some_and(own) || is_skill(path)
}

fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "md")
}
