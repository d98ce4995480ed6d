//! The agent's liveness and a seat's readiness, as files: a task of the loop's own runtime touches one, and the
//! kubelet's liveness probe looks how old it is. A seat's probe looks for another one, which is there from the first
//! clone on. The agent listens on no port that could be asked, and a pod's network lets nobody in.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Interval between two touches of the file.
const EVERY: Duration = Duration::from_secs(10);
const FILE: &str = ".alive";
const CLONED: &str = ".cloned";

/// Gives a first sign of life, and the others while it is polled.
///
/// # Errors
/// When the file can't be made.
pub(crate) fn begin_beats(dir: &Path) -> io::Result<impl Future<Output = ()> + Send + use<>> {
    let path = dir.join(FILE);
    touch_file(&path)?;
    Ok(keep_beating(path, EVERY))
}

async fn keep_beating(path: PathBuf, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = touch_file(&path) {
            tracing::warn!(%error, "heartbeat_write_failed");
        }
    }
}

fn touch_file(path: &Path) -> io::Result<()> {
    File::create(path)?.set_modified(SystemTime::now())
}

/// The exit status of the probe.
pub(crate) fn judge_beats(dir: &Path, within: u64) -> ExitCode {
    let limit = Duration::from_secs(within);
    if is_alive(&dir.join(FILE), SystemTime::now(), limit) {
        ExitCode::SUCCESS
    } else {
        tracing::error!(within, "heartbeat_missed");
        ExitCode::FAILURE
    }
}

/// A clock that was put back says nothing against the loop.
fn is_alive(path: &Path, now: SystemTime, limit: Duration) -> bool {
    let beat = path.metadata().and_then(|file| file.modified());
    beat.is_ok_and(|beat| now.duration_since(beat).unwrap_or_default() <= limit)
}

/// From now on the pod counts as one that a Thread can take.
///
/// # Errors
/// When the file can't be made.
pub(crate) fn note_clone(dir: &Path) -> io::Result<()> {
    File::create(dir.join(CLONED)).map(drop)
}

/// The exit status of a seat's probe. It fails for as long as a clone takes, which is no error.
pub(crate) fn judge_clone(dir: &Path) -> ExitCode {
    if dir.join(CLONED).exists() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_turns_is_alive_and_one_that_hangs_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (path, limit) = (dir.path().join(FILE), Duration::from_mins(2));
        let now = SystemTime::now();
        assert!(!is_alive(&path, now, limit), "it never began");
        drop(begin_beats(dir.path()).unwrap());
        assert!(is_alive(&path, now, limit));
        assert!(!is_alive(&path, now + Duration::from_secs(200), limit), "it was heard once");
        let past = now - Duration::from_hours(1);
        assert!(is_alive(&path, past, limit), "a clock that was put back");
        File::open(&path).unwrap().set_modified(past).unwrap();
        assert!(!is_alive(&path, now, limit));
        let beats = tokio::spawn(keep_beating(path.clone(), Duration::from_millis(1)));
        // The loop has no timeout of its own: the probe's limit ends it.
        while !is_alive(&path, now, limit) {
            tokio::task::yield_now().await;
        }
        beats.abort();
    }
}
