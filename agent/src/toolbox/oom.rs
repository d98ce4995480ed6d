//! Detection of processes of this container that the kernel killed for want of memory (OOM). A command that dies of
//! that says `Killed` at best, and a shell that goes on after it says nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// A larger limit than this is none: version 1 writes a number where version 2 says `max`.
const NO_LIMIT: u64 = 1 << 60;
const GIB: u64 = 1 << 30;

/// OOM kills that a control group has counted since a command began.
pub struct OomWatch {
    cgroup: PathBuf,
    before: u64,
}

impl OomWatch {
    pub fn begin(cgroup: &Path) -> Self {
        Self { cgroup: cgroup.to_owned(), before: count_kills(cgroup) }
    }

    /// A remark for the model if a process was ended meanwhile.
    pub fn note(&self) -> Option<String> {
        let ended = count_kills(&self.cgroup).saturating_sub(self.before);
        (ended > 0).then(|| {
            let limit = memory_limit(&self.cgroup).map_or_else(
                || "this container may have".to_owned(),
                |limit| format!("the {} that this container may have", show_size(limit)),
            );
            format!(
                "The kernel ended {ended} process{} here: commands needed more memory than {limit}. \
                 Do less at once (fewer jobs or workers, smaller pieces); if that is not possible, tell the people that \
                 the AgentRole's `spec.workspace.resources` needs a higher memory limit.",
                if ended == 1 { "" } else { "es" },
            )
        })
    }
}

/// Count of OOM kills, of version 2 or 1; zero where neither can be read.
fn count_kills(cgroup: &Path) -> u64 {
    let files = ["memory.events", "memory/memory.oom_control"];
    let text = files.iter().find_map(|file| fs::read_to_string(cgroup.join(file)).ok());
    let text = text.unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    count.unwrap_or_default()
}

fn memory_limit(cgroup: &Path) -> Option<u64> {
    let files = ["memory.max", "memory/memory.limit_in_bytes"];
    let text = files.iter().find_map(|file| fs::read_to_string(cgroup.join(file)).ok())?;
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

fn show_size(bytes: u64) -> String {
    if bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}
