//! Files of a projected volume, replaced all at once.
//!
//! The files are in a folder that `..data` links to; what a container opens are links through it.
//! A change writes a new folder and renames a new link over `..data`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Relative path, content and mode of every file.
pub(super) type ProjectedFiles = BTreeMap<String, (Vec<u8>, u32)>;

const DATA: &str = "..data";

/// Makes `dir` hold exactly `files`. Says whether anything changed.
pub(super) fn write_files(dir: &Path, files: &ProjectedFiles) -> io::Result<bool> {
    if files.keys().any(|path| path.starts_with('/') || path.split('/').any(|part| part == "..")) {
        return Err(io::Error::other("a projected path must stay inside its volume"));
    }
    fs::create_dir_all(dir)?;
    let link = dir.join(DATA);
    let old = fs::read_link(&link).ok();
    if let Some(old) = &old
        && same_files(&dir.join(old), files)
    {
        return Ok(false);
    }
    let new = format!("..{}", uuid::Uuid::new_v4().simple());
    let target = dir.join(&new);
    fs::create_dir(&target)?;
    for (path, (content, mode)) in files {
        let file = target.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode))?;
    }
    let next = dir.join("..data_tmp");
    let _ = fs::remove_file(&next);
    symlink(&new, &next)?;
    fs::rename(&next, &link)?;
    link_names(dir, files)?;
    if let Some(old) = old {
        let _ = fs::remove_dir_all(dir.join(old));
    }
    Ok(true)
}

/// Links for the first part of every path; those of files that are gone are removed.
fn link_names(dir: &Path, files: &ProjectedFiles) -> io::Result<()> {
    let names: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !names.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in names {
        match symlink(Path::new(DATA).join(name), dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn same_files(dir: &Path, files: &ProjectedFiles) -> bool {
    let all_there = files
        .iter()
        .all(|(path, (content, _))| fs::read(dir.join(path)).is_ok_and(|found| &found == content));
    all_there && count_files(dir) == files.len()
}

fn count_files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> ProjectedFiles {
        all.iter()
            .map(|(path, text)| ((*path).to_owned(), (text.as_bytes().into(), 0o644)))
            .collect()
    }

    #[test]
    fn a_change_replaces_everything() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("v");
        let read = |name: &str| fs::read_to_string(volume.join(name)).ok();
        assert!(write_files(&volume, &files(&[("a", "1"), ("d/b", "2")])).unwrap());
        assert_eq!((read("a"), read("d/b")), (Some("1".into()), Some("2".into())));
        assert!(!write_files(&volume, &files(&[("a", "1"), ("d/b", "2")])).unwrap());
        assert!(write_files(&volume, &files(&[("a", "3")])).unwrap());
        assert_eq!((read("a"), read("d/b")), (Some("3".into()), None));
        let hidden = fs::read_dir(&volume).unwrap().count();
        assert_eq!(hidden, 3, "the link, one folder and one name");
        assert!(write_files(&volume, &files(&[("../x", "")])).is_err());
    }
}
