//! A container's output in a file, of which the newest part is kept.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::fcntl::{F_SETFL, OFlag, fcntl};
use nix::unistd::pipe2;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

/// Appends what comes out of the pipe to `path`. Past `limit` bytes the file is put aside, and what
/// was aside before is dropped. The task ends with the last writer.
pub(super) fn collect_log(path: PathBuf, limit: u64) -> io::Result<(OwnedFd, JoinHandle<()>)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, F_SETFL(OFlag::O_NONBLOCK))?;
    let from = Receiver::from_owned_fd(read)?;
    let task = tokio::spawn(async move {
        if let Err(error) = copy_log(from, &path, limit).await {
            tracing::warn!(%error, path = %path.display(), "container log stopped");
        }
    });
    Ok((write, task))
}

/// Reads the whole log that is kept: the rotated file, then the current one.
pub(super) async fn read_log(path: &Path) -> io::Result<String> {
    let mut bytes = tokio::fs::read(rotated_path(path)).await.unwrap_or_default();
    match tokio::fs::read(path).await {
        Ok(newest) => bytes.extend(newest),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Moves the logs of a pod that has ended to a folder of their own.
pub(super) fn keep_logs(pod: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(pod)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::create_dir_all(to)?;
            std::fs::rename(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Folder with the logs of the newest pod of that name that has ended.
pub(super) fn kept_logs(logs: &Path, namespace: &str, pod: &str) -> Option<PathBuf> {
    let prefix = format!("{namespace}_{pod}_");
    let all = std::fs::read_dir(logs).ok()?.flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .max_by_key(|entry| entry.metadata().and_then(|about| about.modified()).ok())
        .map(|entry| entry.path())
}

async fn copy_log(mut from: Receiver, path: &Path, limit: u64) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut file = File::options().create(true).append(true).open(path).await?;
    let mut written = file.metadata().await?.len();
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        if written > limit {
            tokio::fs::rename(path, rotated_path(path)).await?;
            file = File::options().create(true).append(true).open(path).await?;
            written = 0;
        }
        file.write_all(&buffer[..count]).await?;
        file.flush().await?;
        written += u64::try_from(count).map_err(io::Error::other)?;
    }
}

fn rotated_path(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn old_output_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.log");
        let (write, task) = collect_log(path.clone(), 100).unwrap();
        let mut write = std::fs::File::from(write);
        for line in 0..1000 {
            io::Write::write_all(&mut write, format!("{line:09}\n").as_bytes()).unwrap();
            tokio::task::yield_now().await;
        }
        drop(write);
        task.await.unwrap();
        let kept = read_log(&path).await.unwrap();
        assert!(kept.ends_with("000000999\n"), "{kept}");
        assert!(kept.len() < 40 << 10, "{}", kept.len());
    }
}
