//! Reads the settings on the worktree in Git's configuration, as data: nothing of it is run or obeyed.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use git2::{Config, ConfigLevel, Repository};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::control::{MAX_CONTROL, names_include, read_plain};
use crate::toolbox::ToolError;

/// Settings that libgit2 needs to see a worktree as Git does.
const CARRIED: [&str; 3] = ["core.autocrlf", "core.eol", "core.filemode"];
/// Settings that name a file, where it lies without them, and the copy that libgit2 reads.
const LISTS: [(&str, &str, &str); 2] = [
    ("core.excludesfile", "ignore", ".git-excludes"),
    ("core.attributesfile", "attributes", ".git-attributes"),
];
/// File with the settings that libgit2 reads, in the part of the volume that is hidden from commands.
const SETTINGS: &str = ".git-settings";
/// Files that include each other, and how many are included in all.
const MAX_DEPTH: usize = 10;
const MAX_INCLUDED: usize = 32;
/// Folders of an image in which such a file may lie.
const IMAGE: [&str; 3] = ["/etc", "/usr", "/opt"];

/// Settings that change which bytes `git` itself would commit.
#[derive(Debug)]
pub(super) struct GitSettings {
    /// Value of `core.sparseCheckout`.
    pub sparse: bool,
    /// `core.fileMode`: without it the index knows better than the file system what is a program.
    pub file_mode: bool,
    /// Filters with a program that Git would run.
    pub filters: HashSet<String>,
    carried: BTreeMap<&'static str, String>,
}

impl Default for GitSettings {
    fn default() -> Self {
        Self { sparse: false, file_mode: true, filters: HashSet::new(), carried: BTreeMap::new() }
    }
}

/// Reads what `git` on the command line would read. A file that can't be read says nothing.
pub(super) fn read_settings(git: &Path, work: Option<&Path>) -> GitSettings {
    let mut settings = GitSettings::default();
    for config in read_configs(git, work, false) {
        read_file(&config, &mut settings);
    }
    settings
}

/// The files that `git` on the command line would read, with those that they include, in parts as Git goes through
/// them. `conditional`: also what is included on a condition, as if that held.
pub(crate) fn read_configs(git: &Path, work: Option<&Path>, conditional: bool) -> Vec<Config> {
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    if let Some(work) = work {
        files.push(work.join("home/.config/git/config"));
        files.push(work.join("home/.gitconfig"));
    }
    files.push(git.join("config"));
    files.push(git.join("config.worktree"));
    let tree = git.parent().unwrap_or(git);
    let mut reader =
        ConfigReader { work: work.unwrap_or(tree), tree, conditional, files: 0, parts: Vec::new() };
    for file in files {
        if let Some(text) = read_plain(&file, MAX_CONTROL) {
            reader.read(&text, &file, 0);
        }
    }
    reader.parts
}

/// Reads configurations and what they include, which libgit2 would open whatever it is.
struct ConfigReader<'a> {
    work: &'a Path,
    tree: &'a Path,
    conditional: bool,
    files: usize,
    parts: Vec<Config>,
}

impl ConfigReader<'_> {
    fn read(&mut self, text: &[u8], file: &Path, depth: usize) {
        let (mut part, mut section) = (Vec::with_capacity(text.len()), Vec::new());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let begins = names_include(line);
            if begins || line.trim_ascii_start().starts_with(b"[") {
                self.include(&std::mem::take(&mut section), file, depth);
            }
            if begins {
                self.parts.extend(parse_config(&std::mem::take(&mut part)));
            }
            if begins || !section.is_empty() {
                section.extend_from_slice(line);
            } else {
                part.extend_from_slice(line);
            }
        }
        self.include(&section, file, depth);
        self.parts.extend(parse_config(&part));
    }

    /// Reads what an `[include]` section names.
    fn include(&mut self, section: &[u8], file: &Path, depth: usize) {
        if section.is_empty() || depth >= MAX_DEPTH {
            return;
        }
        for named in included_paths(section, self.conditional) {
            self.files += 1;
            if self.files > MAX_INCLUDED {
                return;
            }
            let named = match named.strip_prefix("~/") {
                Some(rest) => self.work.join("home").join(rest),
                None => file.parent().unwrap_or(file).join(named),
            };
            if let Some(text) = read_list(&named, self.work, self.tree) {
                self.read(&text, &named, depth + 1);
            }
        }
    }
}

/// The files that a section names. libgit2 reads it under another name, and so opens none of them.
fn included_paths(section: &[u8], conditional: bool) -> Vec<String> {
    let mut renamed = Vec::with_capacity(section.len() + 1);
    let mut rest = section;
    while let Some(at) = rest.windows(8).position(|part| part.eq_ignore_ascii_case(b"[include")) {
        renamed.extend_from_slice(&rest[..at]);
        renamed.extend_from_slice(b"[x");
        rest = &rest[at + 1..];
    }
    renamed.extend_from_slice(rest);
    let mut paths = Vec::new();
    let Some(config) = parse_config(&renamed) else { return paths };
    let Ok(entries) = config.entries(Some("^xinclude(if\\..*)?\\.path$")) else { return paths };
    let _ = entries.for_each(|entry| {
        let is_wanted = |name: &str| conditional || name == "xinclude.path";
        if entry.has_value()
            && entry.name().is_ok_and(is_wanted)
            && let Ok(path) = entry.value()
        {
            paths.push(path.to_owned());
        }
    });
    paths
}

/// Reads a configuration that includes nothing.
fn parse_config(alone: &[u8]) -> Option<Config> {
    if alone.is_empty() || alone.split(|byte| *byte == b'\n').any(names_include) {
        return None;
    }
    let held = memfd_create("gitconfig", MFdFlags::MFD_CLOEXEC).ok()?;
    let mut held = fs::File::from(held);
    held.write_all(alone).ok()?;
    let mut config =
        Config::open(Path::new(&format!("/proc/self/fd/{}", held.as_raw_fd()))).ok()?;
    config.snapshot().ok()
}

fn read_file(config: &Config, settings: &mut GitSettings) {
    if let Ok(sparse) = config.get_bool("core.sparsecheckout") {
        settings.sparse = sparse;
    }
    if let Ok(file_mode) = config.get_bool("core.filemode") {
        settings.file_mode = file_mode;
    }
    for key in CARRIED.into_iter().chain(LISTS.map(|(key, ..)| key)) {
        if let Ok(value) = config.get_string(key) {
            settings.carried.insert(key, value);
        }
    }
    let Ok(entries) = config.entries(Some("^filter\\.")) else { return };
    let _ = entries.for_each(|entry| {
        let Ok(name) = entry.name() else { return };
        let filter = name.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
        if let Some((filter, "clean" | "process")) = filter {
            settings.filters.insert(filter.to_owned());
        }
    });
}

/// Gives a repository those settings by which libgit2 stores and passes over what Git would, and no others.
pub(crate) fn carry_settings(repo: &Repository, work: &Path) -> Result<(), ToolError> {
    let settings = read_settings(repo.path(), Some(work));
    let tree = repo.workdir().unwrap_or(Path::new(""));
    let mut lines = String::new();
    for key in CARRIED {
        if let Some(value) = settings.carried.get(key).filter(|value| is_word(value)) {
            let _ = writeln!(lines, "\t{} = {value}", key.trim_start_matches("core."));
        }
    }
    for (key, usual, copy) in LISTS {
        let named = settings.carried.get(key).map(|named| resolve(named, work, tree));
        let list = named.unwrap_or_else(|| work.join("home/.config/git").join(usual));
        let Some(text) = read_list(&list, work, tree) else { continue };
        let copy = work.join(copy);
        if !write_changed(&copy, &text)? {
            continue;
        }
        let copy = copy.display().to_string();
        let copy = copy.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(lines, "\t{} = \"{copy}\"", key.trim_start_matches("core."));
    }
    let mut config = Config::new()?;
    let path = work.join(SETTINGS);
    let is_usual = lines.is_empty() || lines == "\tfilemode = true\n";
    if !is_usual && write_changed(&path, format!("[core]\n{lines}").as_bytes())? {
        config.add_file(&path, ConfigLevel::Local, true)?;
    }
    repo.set_config(&config)?;
    Ok(())
}

fn is_word(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn resolve(named: &str, work: &Path, tree: &Path) -> PathBuf {
    match named.strip_prefix("~/") {
        Some(rest) => work.join("home").join(rest),
        None => tree.join(named),
    }
}

/// A file that a command could read as well: what the toolbox alone can read must not show in what is ignored.
fn read_list(path: &Path, work: &Path, tree: &Path) -> Option<Vec<u8>> {
    read_plain(&allowed_path(path, work, tree)?, MAX_CONTROL)
}

/// Path of a file that a configuration names, if a command could read it, too.
pub(crate) fn readable_path(named: &str, work: &Path, tree: &Path) -> Option<PathBuf> {
    allowed_path(&resolve(named, work, tree), work, tree)
}

fn allowed_path(path: &Path, work: &Path, tree: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mut allowed = [work.join("home"), tree.to_owned()].into_iter();
    let is_own = allowed.any(|folder| folder.canonicalize().is_ok_and(|own| path.starts_with(own)));
    (is_own || IMAGE.iter().any(|folder| path.starts_with(folder))).then_some(path)
}

/// Writes a file whole, and only where it says something else: libgit2 reads a changed one again. False in a process
/// that is confined to a copy, which does without.
fn write_changed(path: &Path, text: &[u8]) -> Result<bool, ToolError> {
    match fs::read(path) {
        Ok(known) if known == text => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        _ => {}
    }
    let fresh = path.with_extension(format!("new-{:016x}", rand::random::<u64>()));
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
    written.map(|()| true).map_err(|error| {
        let _ = fs::remove_file(&fresh);
        ToolError::Failed(format!("the volume can't be written: {error}"))
    })
}
