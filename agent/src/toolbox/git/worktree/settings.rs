//! What Git's configuration says of the worktree, read as data: nothing of it is run or obeyed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::Config;

use super::super::control::{MAX_CONTROL, is_plain};

/// Settings that change which bytes `git` itself would commit.
#[derive(Debug, Default)]
pub(super) struct GitSettings {
    /// `core.sparseCheckout`.
    pub sparse: bool,
    /// Filters with a program that Git would run.
    pub filters: HashSet<String>,
}

/// Reads the files that `git` on the command line would read. One that can't be read says nothing.
pub(super) fn read_settings(git: &Path, work: Option<&Path>) -> GitSettings {
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    if let Some(work) = work {
        files.push(work.join("home/.config/git/config"));
        files.push(work.join("home/.gitconfig"));
    }
    files.push(git.join("config"));
    files.push(git.join("config.worktree"));
    let mut settings = GitSettings::default();
    let is_readable = |file: &&PathBuf| is_plain(file, MAX_CONTROL, true) && file.exists();
    for file in files.iter().filter(is_readable) {
        if let Ok(config) = Config::open(file) {
            read_file(&config, &mut settings);
        }
    }
    settings
}

fn read_file(config: &Config, settings: &mut GitSettings) {
    if let Ok(sparse) = config.get_bool("core.sparsecheckout") {
        settings.sparse = sparse;
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
