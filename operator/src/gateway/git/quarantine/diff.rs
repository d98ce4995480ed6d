//! How trees differ. Git's own comparison unfolds whatever it is given; here a tree that unfolds into
//! more files than anybody has is noticed before it has filled the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::ObjectReader;
use crate::gateway::git::command::CommandError;

/// The tree with nothing in it; it need not be an object.
pub const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Most files in which two trees may differ, and most folders that are looked into for it.
const MAX_FILES: usize = 100_000;
const MAX_KEPT: usize = 20_000;
const FOLDER: &[u8] = b"40000";
/// A submodule: its id is no object of this repository.
const SUBMODULE: &[u8] = b"160000";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEntry {
    /// Its path, as far as it is text.
    pub path: String,
    /// Its content before; nothing if it was not there.
    pub old: Option<String>,
    /// Its content after; nothing if it is gone.
    pub new: Option<String>,
}

/// What is in a tree: mode and id by name.
type Entries = BTreeMap<Vec<u8>, (Vec<u8>, String)>;

/// Differences by pair of trees.
#[derive(Debug, Default)]
pub struct TreeDiffs {
    known: BTreeMap<(String, String), Vec<ChangedEntry>>,
    trees: BTreeMap<String, Arc<Entries>>,
}

impl TreeDiffs {
    /// Compares those of these pairs that are not known.
    ///
    /// # Errors
    /// `TooMuch` for trees that unfold into more files than anybody has.
    pub async fn load(
        &mut self,
        objects: &mut ObjectReader,
        pairs: Vec<(String, String)>,
    ) -> Result<(), CommandError> {
        for pair in pairs {
            if pair.0 != pair.1 && !self.known.contains_key(&pair) {
                let changed = self.compare(objects, &pair).await?;
                self.known.insert(pair, changed);
            }
        }
        Ok(())
    }

    /// The differences of a pair that was loaded.
    pub fn get(&self, old: &str, new: &str) -> &[ChangedEntry] {
        self.known.get(&(old.to_owned(), new.to_owned())).map_or(&[], Vec::as_slice)
    }

    async fn compare(
        &mut self,
        objects: &mut ObjectReader,
        (old, new): &(String, String),
    ) -> Result<Vec<ChangedEntry>, CommandError> {
        let mut changed = Vec::new();
        let mut folders = vec![(String::new(), Some(old.clone()), Some(new.clone()))];
        let mut visited = 0;
        while let Some((path, old, new)) = folders.pop() {
            let old = self.tree(objects, old.as_deref()).await?;
            let new = self.tree(objects, new.as_deref()).await?;
            diff_folder(&path, &old, &new, &mut changed, &mut folders);
            visited += 1;
            if visited > MAX_FILES || changed.len() + folders.len() > MAX_FILES {
                return Err(CommandError::TooMuch("diff".to_owned()));
            }
        }
        Ok(changed)
    }

    async fn tree(
        &mut self,
        objects: &mut ObjectReader,
        id: Option<&str>,
    ) -> Result<Arc<Entries>, CommandError> {
        let Some(id) = id.filter(|id| *id != EMPTY) else { return Ok(Arc::default()) };
        if let Some(tree) = self.trees.get(id) {
            return Ok(Arc::clone(tree));
        }
        let tree = Arc::new(read_entries(&objects.read_small(id).await?));
        if self.trees.len() >= MAX_KEPT {
            self.trees.clear();
        }
        self.trees.insert(id.to_owned(), Arc::clone(&tree));
        Ok(tree)
    }
}

type Folder = (String, Option<String>, Option<String>);

/// Files of one folder that differ, and the folders in it that do.
fn diff_folder(
    path: &str,
    old: &Entries,
    new: &Entries,
    changed: &mut Vec<ChangedEntry>,
    folders: &mut Vec<Folder>,
) {
    let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if before == after {
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
        let (old_tree, new_tree) = (folder_id(before), folder_id(after));
        if old_tree.is_some() || new_tree.is_some() {
            folders.push((path.clone(), old_tree, new_tree));
        }
        let (old, new) = (file_id(before), file_id(after));
        if old.is_some() || new.is_some() {
            changed.push(ChangedEntry { path, old, new });
        }
    }
}

fn folder_id(entry: Option<&(Vec<u8>, String)>) -> Option<String> {
    entry.filter(|(mode, _)| mode == FOLDER).map(|(_, id)| id.clone())
}

/// A submodule's content is elsewhere: its id stands for itself.
fn file_id(entry: Option<&(Vec<u8>, String)>) -> Option<String> {
    let (mode, id) = entry.filter(|(mode, _)| mode != FOLDER)?;
    Some(if mode == SUBMODULE { format!("submodule {id}") } else { id.clone() })
}

/// Reads a tree object, whose form was checked when it came in.
fn read_entries(mut bytes: &[u8]) -> Entries {
    let mut entries = Entries::new();
    while let Some(end) = bytes.iter().position(|b| *b == 0) {
        let Some((id, rest)) = bytes[end + 1..].split_first_chunk::<20>() else { break };
        if let Some(space) = bytes[..end].iter().position(|b| *b == b' ') {
            let (mode, name) = (bytes[..space].to_vec(), bytes[space + 1..end].to_vec());
            entries.insert(name, (mode, hex::encode(id)));
        }
        bytes = rest;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(list: &[(&str, &str, u8)]) -> Entries {
        let mut bytes = Vec::new();
        for (mode, name, id) in list {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend([*id; 20]);
        }
        read_entries(&bytes)
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        let old = tree(&[
            ("100644", "gone", 1),
            ("100644", "moved", 2),
            ("100644", "same", 3),
            ("100644", "x", 4),
            ("40000", "folder", 5),
            ("40000", "was", 6),
        ]);
        let new = tree(&[
            ("100644", "moved", 7),
            ("100644", "same", 3),
            ("100755", "x", 4),
            ("40000", "folder", 8),
            ("120000", "was", 9),
            ("160000", "sub", 1),
        ]);
        let (mut changed, mut folders) = (Vec::new(), Vec::new());
        diff_folder("src", &old, &new, &mut changed, &mut folders);
        let id = |n: &Option<String>| {
            n.as_ref().map_or("-".to_owned(), |id| id.chars().take(12).collect())
        };
        let shown: Vec<String> =
            changed.iter().map(|c| format!("{} {} {}", c.path, id(&c.old), id(&c.new))).collect();
        assert_eq!(
            shown,
            [
                "src/gone 010101010101 -",
                "src/moved 020202020202 070707070707",
                "src/sub - submodule 01",
                "src/was - 090909090909",
                "src/x 040404040404 040404040404",
            ]
        );
        let shown: Vec<String> =
            folders.iter().map(|(path, a, b)| format!("{path} {} {}", id(a), id(b))).collect();
        assert_eq!(shown, ["src/folder 050505050505 080808080808", "src/was 060606060606 -"]);
    }
}
