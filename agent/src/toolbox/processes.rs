//! Finding and killing what a command left behind, wherever it hid.
//!
//! A command can leave its process group and session, so groups are not enough. The toolbox is the
//! subreaper of everything it starts: whoever loses its parent becomes its child, and one walk over
//! `/proc` finds all of them.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Rounds of kill-and-look before giving up on processes that fork faster than they die.
const ROUNDS: u32 = 200;

/// Kills every descendant of this process and reaps those that nobody else waits for.
pub async fn kill_descendants() {
    for round in 0..ROUNDS {
        let found = descendants(getpid().as_raw());
        if found.is_empty() {
            return;
        }
        for pid in found {
            let pid = Pid::from_raw(pid);
            let _ = kill(pid, Signal::SIGKILL);
            // Adopted orphans are ours to reap; a direct child may be reaped by its own waiter
            // first, which is fine too.
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        tokio::time::sleep(Duration::from_millis(u64::from(round.min(10)))).await;
    }
    tracing::warn!("some processes of a command could not be killed");
}

fn descendants(of: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut look = vec![of];
    while let Some(pid) = look.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        look.extend(&own);
        found.extend(own);
    }
    found
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state ppid …`, where the name may hold anything, parentheses included.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grandchild_is_a_descendant() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let child_pid = i32::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while descendants(child_pid).is_empty() {
            assert!(std::time::Instant::now() < deadline, "no grandchild seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        let grandchild = descendants(child_pid)[0];
        assert!(descendants(getpid().as_raw()).contains(&grandchild));
        kill(Pid::from_raw(grandchild), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
