//! Turns on a given cluster: tests with names of their own share it, a test that needs the whole cluster
//! has it alone. A lock on a file, so that it holds between processes too.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

/// The kind of a turn: shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterTurn {
    /// Shared with everybody else who takes a shared turn.
    Together,
    /// Exclusive: nobody else has a turn.
    Alone,
}

/// Waits for a turn on the API server of that URL. It ends when the file is closed.
pub(super) async fn take_turn(url: String, turn: ClusterTurn) -> io::Result<File> {
    let lock = move || {
        let mut hasher = DefaultHasher::new();
        url.hash(&mut hasher);
        let name = format!("codebutler-turns-{:016x}.lock", hasher.finish());
        let path = std::env::temp_dir().join(name);
        let file = File::options().create(true).append(true).open(path)?;
        match turn {
            ClusterTurn::Together => file.lock_shared()?,
            ClusterTurn::Alone => file.lock()?,
        }
        Ok(file)
    };
    tokio::task::spawn_blocking(lock).await.map_err(io::Error::other)?
}
