//! Finding and killing what a command left behind, wherever it hid.
//!
//! A command can leave its process group and session, so groups are not enough. Each command has a
//! supervisor that is the subreaper of everything it starts: whoever loses its parent becomes its
//! child, and one walk over `/proc` finds all of them. The toolbox is the subreaper of supervisors.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Rounds of kill-and-look before giving up on processes that fork faster than they die.
const ROUNDS: u32 = 400;

/// Kills the descendants of this process, but for those that `keep` names and theirs, and reaps
/// those that nobody else waits for.
pub(crate) async fn kill_descendants(keep: impl Fn() -> Vec<i32>) {
    for round in 0..ROUNDS {
        let keep = keep();
        // Commands decide how much there is in `/proc`.
        let found = tokio::task::spawn_blocking(move || end_processes(&keep)).await;
        if !found.unwrap_or_default() {
            return;
        }
        tokio::time::sleep(kill_pause(round)).await;
    }
    tracing::warn!("process_kill_failed");
}

/// Does the same as [`kill_descendants`], in a process that may block.
pub(crate) fn end_all() {
    for round in 0..ROUNDS {
        if !end_processes(&[]) {
            return;
        }
        std::thread::sleep(kill_pause(round));
    }
}

/// Asks what is below a process to end: most programs write out what they hold back, and some say where they
/// were.
pub(crate) fn signal_below(process: i32, signal: Signal) {
    for pid in find_descendants(process, &[]) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Number of processes and threads below this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskCount {
    pub processes: usize,
    pub threads: usize,
}

/// Descendants of this process, and their threads.
pub(crate) fn count_tasks() -> TaskCount {
    let found = find_descendants(getpid().as_raw(), &[]);
    let threads = found.iter().map(|pid| stat_field(*pid, THREADS).unwrap_or(1)).sum();
    TaskCount { processes: found.len(), threads }
}

fn kill_pause(round: u32) -> Duration {
    Duration::from_millis(u64::from(round.min(10)))
}

/// Kills all descendants but those to keep; returns true if there were any.
fn end_processes(keep: &[i32]) -> bool {
    let found = find_descendants(getpid().as_raw(), keep);
    // First all stand still: what is stopped forks no more.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in &found {
            let _ = kill(Pid::from_raw(*pid), signal);
        }
    }
    for pid in &found {
        // Adopted orphans are ours to reap; a direct child may be reaped by its own waiter first,
        // which is fine too.
        let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
    }
    !found.is_empty()
}

fn find_descendants(of: i32, keep: &[i32]) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent_pid(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut look = vec![of];
    while let Some(pid) = look.pop() {
        let mut own = children.remove(&pid).unwrap_or_default();
        own.retain(|child| !keep.contains(child));
        look.extend(&own);
        found.extend(own);
    }
    found
}

/// Places behind the name in a process' `stat`.
const PARENT: usize = 1;
const THREADS: usize = 17;

fn parent_pid(pid: i32) -> Option<i32> {
    stat_field(pid, PARENT)
}

fn stat_field<T: std::str::FromStr>(pid: i32, field: usize) -> Option<T> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state ppid …`, where the name may hold anything, parentheses included.
    stat.rsplit_once(')')?.1.split_whitespace().nth(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grandchild_is_a_descendant_unless_its_parent_is_kept() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let child_pid = i32::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while find_descendants(child_pid, &[]).is_empty() {
            assert!(std::time::Instant::now() < deadline, "no grandchild seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        let grandchild = find_descendants(child_pid, &[])[0];
        assert!(find_descendants(getpid().as_raw(), &[]).contains(&grandchild));
        assert!(!find_descendants(getpid().as_raw(), &[child_pid]).contains(&grandchild));
        kill(Pid::from_raw(grandchild), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
