//! Keeps generated files and unchosen images out of commits, where the repository itself does not.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

use super::git::control::{MAX_CONTROL, is_plain, read_plain};

/// Adds what is missing of these patterns to the file `info/exclude` of a repository.
pub(super) fn exclude_paths(git: &Path, wanted: &[&str]) {
    let path = git.join("info/exclude");
    if !is_plain(&path, MAX_CONTROL, false) {
        tracing::warn!(?wanted, "exclude_file_unusable");
        return;
    }
    let known = read_plain(&path, MAX_CONTROL).unwrap_or_default();
    let known = String::from_utf8_lossy(&known);
    let is_missing = |made: &&&str| !known.lines().any(|line| line == **made);
    let missing: Vec<&str> = wanted.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return;
    }
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_APPEND).bits();
    let file = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        OpenOptions::new().append(true).create(true).custom_flags(flags).open(&path)
    });
    let written = file.and_then(|mut file| {
        let gap = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
        writeln!(file, "{gap}{}", missing.join("\n"))
    });
    if let Err(error) = written {
        tracing::warn!(%error, ?wanted, "exclude_file_unusable");
    }
}
