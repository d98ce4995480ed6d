//! Hints of a repository on a file's encoding and line ends, from `.gitattributes` and `.editorconfig`.

use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use codebutler_textform::FormHints;
use ec4rs::property::{Charset, EndOfLine};
use ec4rs::{ConfigParser, Properties, PropertiesSource as _, PropertyKey, PropertyValue};
use git2::{AttrCheckFlags, AttrValue, Config, Repository, RepositoryOpenFlags};
use nix::fcntl::OFlag;

use super::super::git::control;
use super::super::paths::{LocatedPath, WorktreeRoot};

/// Longest `.editorconfig` that is read, in bytes.
const MAX_CONFIG: u64 = 64 * 1024;

/// Encoding hints for one file.
#[derive(Debug, Default)]
pub(super) struct EncodingHints {
    attribute: Option<String>,
    charset: Option<String>,
}

impl EncodingHints {
    /// Reads the hints. A file that can't be read gives none.
    pub(super) fn find(tree: &WorktreeRoot, at: &LocatedPath) -> Self {
        let Ok(inside) = at.full.strip_prefix(tree.root()) else { return Self::default() };
        Self {
            attribute: read_attribute(tree.root(), inside, "working-tree-encoding"),
            charset: read_property::<Charset>(tree.root(), inside).map(|one| one.to_string()),
        }
    }

    pub(super) fn as_form(&self) -> FormHints<'_> {
        FormHints { attribute: self.attribute.as_deref(), charset: self.charset.as_deref() }
    }

    /// Value of the attribute `working-tree-encoding`.
    pub(super) fn attribute(&self) -> Option<&str> {
        self.attribute.as_deref()
    }

    /// Value of `.editorconfig`'s `charset`.
    pub(super) fn charset(&self) -> Option<&str> {
        self.charset.as_deref()
    }
}

/// Returns true if `.editorconfig` asks for CRLF at the ends of a file's lines, and Git would not take that back.
pub(super) fn wants_crlf(tree: &WorktreeRoot, at: &LocatedPath) -> bool {
    let Ok(inside) = at.full.strip_prefix(tree.root()) else { return false };
    read_property::<EndOfLine>(tree.root(), inside) == Some(EndOfLine::CrLf)
        && read_attribute(tree.root(), inside, "eol").as_deref() != Some("lf")
}

fn read_attribute(root: &Path, inside: &Path, name: &str) -> Option<String> {
    // A file that is not plain would be waited for, or read without end.
    control::check_git(&root.join(".git")).ok()?;
    for folder in inside.ancestors().skip(1) {
        control::check_folder(&root.join(folder), folder, &control::IN_FOLDERS).ok()?;
    }
    let nothing: [&Path; 0] = [];
    let repo = Repository::open_ext(root, RepositoryOpenFlags::NO_SEARCH, nothing).ok()?;
    // A configuration that lies in the worktree may name other files of attributes.
    repo.set_config(&Config::new().ok()?).ok()?;
    let found = repo.get_attr(inside, name, AttrCheckFlags::FILE_THEN_INDEX).ok()?;
    match AttrValue::from_string(found) {
        AttrValue::String(value) => Some(value.to_owned()),
        _ => None,
    }
}

/// As the nearest `.editorconfig` has it, up to one that calls itself the root or to the worktree's.
fn read_property<T: PropertyKey + PropertyValue>(root: &Path, inside: &Path) -> Option<T> {
    for folder in inside.ancestors().skip(1) {
        let mut properties = Properties::new();
        let Some(mut config) = open_config(&root.join(folder)) else { continue };
        let path = inside.strip_prefix(folder).unwrap_or(inside);
        // Lines before a malformed one have been applied, and count.
        let _ = config.apply_to(&mut properties, path);
        let value = properties.get_raw::<T>();
        // The nearest file counts, also with `unset` or an unknown word.
        if !value.is_unset() {
            return value.parse::<T>().ok();
        }
        if config.is_root {
            return None;
        }
    }
    None
}

fn open_config(folder: &Path) -> Option<ConfigParser<std::io::Cursor<Vec<u8>>>> {
    let path = folder.join(".editorconfig");
    if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG).read_to_end(&mut bytes).ok()?;
    ConfigParser::new(std::io::Cursor::new(bytes)).ok()
}
