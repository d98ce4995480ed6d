//! Names that look alike: with a narrow no-break space where another has a space, as in the names of macOS'
//! screenshots, with an accent that stands apart from its letter, or with a dash of another length. A model, and
//! a person, writes the one and means the other.

use std::borrow::Cow;
use std::fs;
use std::path::{Component, Path, PathBuf};

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::ToolError;
use super::paths::{LocatedPath, WorktreeRoot};

/// Entries of a folder that are compared, at most.
const COMPARED: usize = 20_000;

/// A name in the form that all names have in common that look like it.
pub(super) fn fold_name(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return Cow::Borrowed(name);
    }
    let plain = ComposingNormalizerBorrowed::new_nfkc().normalize(name);
    Cow::Owned(plain.chars().filter_map(plain_character).collect())
}

/// The character of a keyboard that one looks like; none for one that can't be seen.
fn plain_character(c: char) -> Option<char> {
    Some(match c {
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' | '\u{fe0f}' => return None,
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2bc}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201f}' => '"',
        c if c.is_whitespace() => ' ',
        c => c,
    })
}

/// A name such that what can't be told by eye can be read.
pub(super) fn escape_name(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            ' '..='~' => c.to_string(),
            c => c.escape_unicode().to_string(),
        })
        .collect()
}

/// A path in one line that ends no code mark: whoever names a file so says nothing beside it.
pub(super) fn plain_path(path: &Path) -> String {
    path.to_string_lossy().replace('`', "?").replace(char::is_control, "?")
}

/// A name in the form that file systems of macOS and Windows compare.
pub(super) fn fold_case(name: &str) -> String {
    let [composed, _] = unicode_forms(name);
    composed.to_lowercase()
}

/// A path that is there, and that would be the same as a new one on macOS and Windows.
pub(super) fn find_same_name(tree: &WorktreeRoot, at: &LocatedPath) -> Option<PathBuf> {
    let mut folder = PathBuf::new();
    for part in Path::new(&at.shown).components() {
        let wanted = part.as_os_str().to_str()?;
        let full = tree.root().join(&folder);
        if full.join(wanted).symlink_metadata().is_err() {
            let same = fold_case(wanted);
            let entries = fs::read_dir(full).ok()?.flatten().take(COMPARED);
            let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            return names.find(|name| fold_case(name) == same).map(|name| folder.join(name));
        }
        folder.push(wanted);
    }
    None
}

/// A text with accents as parts of their letters, and with accents apart from them.
pub(super) fn unicode_forms(text: &str) -> [Cow<'_, str>; 2] {
    [
        ComposingNormalizerBorrowed::new_nfc().normalize(text),
        DecomposingNormalizerBorrowed::new_nfd().normalize(text),
    ]
}

/// A path of something that is there; where nothing is, of what looks like it, and what to say of that.
pub(super) fn locate_existing(
    tree: &WorktreeRoot,
    path: &str,
) -> Result<(LocatedPath, Option<String>), ToolError> {
    let at = tree.locate(path)?;
    if at.full.symlink_metadata().is_ok() {
        return Ok((at, None));
    }
    let found = list_alike(tree, &at);
    match &found[..] {
        [] => Ok((at, None)),
        [one] => {
            let note = format!(
                "(`{}` does not exist; this is `{}`, whose name looks the same and is \"{}\")",
                at.shown,
                one.shown,
                escape_name(&one.shown)
            );
            Ok((one.clone(), Some(note)))
        }
        several => {
            let names: Vec<String> =
                several.iter().map(|one| format!("\"{}\"", escape_name(&one.shown))).collect();
            Err(ToolError::refused(format!(
                "`{}` does not exist; several names look the same: {}. List them with Glob, or with a command if you have Bash",
                at.shown,
                names.join(", ")
            )))
        }
    }
}

/// Lists existing paths that look like a path that does not exist.
pub(super) fn list_alike(tree: &WorktreeRoot, at: &LocatedPath) -> Vec<LocatedPath> {
    let mut found = vec![PathBuf::new()];
    for part in Path::new(&at.shown).components() {
        let Component::Normal(wanted) = part else { return Vec::new() };
        let Some(wanted) = wanted.to_str() else { return Vec::new() };
        found = found
            .iter()
            .flat_map(|folder| {
                if tree.root().join(folder).join(wanted).symlink_metadata().is_ok() {
                    return vec![folder.join(wanted)];
                }
                entries_like(&tree.root().join(folder), wanted)
                    .into_iter()
                    .map(|name| folder.join(name))
                    .collect()
            })
            .take(8)
            .collect();
    }
    // Whatever it looks like, it is inside, and not Git's own.
    found.iter().filter_map(|path| tree.locate(path.to_str()?).ok()).collect()
}

fn entries_like(folder: &Path, wanted: &str) -> Vec<String> {
    let wanted = fold_name(wanted);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(COMPARED);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|name| fold_name(name) == wanted).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_found_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let tree = WorktreeRoot::open(dir.path()).unwrap();
        for (real, written) in [
            ("Screenshot 9.41\u{202f}AM.png", "Screenshot 9.41 AM.png"),
            ("a\u{a0}b.txt", "a b.txt"),
            ("cafe\u{301}.md", "caf\u{e9}.md"),
            ("na\u{ef}ve.md", "nai\u{308}ve.md"),
            ("plan \u{2013} draft.md", "plan - draft.md"),
            ("don\u{2019}t.md", "don't.md"),
            ("u\u{308}ber/x\u{200b}y.rs", "\u{fc}ber/xy.rs"),
        ] {
            let full = dir.path().join(real);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(&full, "x").unwrap();
            let (at, note) = locate_existing(&tree, written).unwrap();
            assert_eq!(at.shown, real, "{written}");
            let note = note.unwrap();
            assert!(note.contains(&escape_name(real)) && note.contains("\\u{"), "{note}");
            assert_eq!(locate_existing(&tree, real).unwrap(), (at, None));
        }
        let (at, note) = locate_existing(&tree, "a-b.txt").unwrap();
        assert_eq!((at.shown.as_str(), note), ("a-b.txt", None));
        fs::write(dir.path().join("a\u{2009}b.txt"), "y").unwrap();
        let error = locate_existing(&tree, "a b.txt").unwrap_err().to_string();
        assert!(error.contains("\"a\\u{a0}b.txt\", \"a\\u{2009}b.txt\""), "{error}");
    }

    #[test]
    fn no_likeness_leads_out_or_into_git() {
        let dir = tempfile::tempdir().unwrap();
        let tree = WorktreeRoot::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        fs::write(dir.path().join(".git/config"), "x").unwrap();
        let (at, note) = locate_existing(&tree, "\u{ff0e}git/config").unwrap();
        assert_eq!((at.shown.as_str(), note), ("\u{ff0e}git/config", None));
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("pass\u{a0}wd")).unwrap();
        let (at, note) = locate_existing(&tree, "pass wd").unwrap();
        assert_eq!((at.shown.as_str(), note), ("pass wd", None));
    }
}
