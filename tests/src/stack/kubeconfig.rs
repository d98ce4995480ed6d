//! Files by which processes of the product reach the API server, each as its own ServiceAccount.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::TestCluster;

/// Life of the operator's tokens: longer than any demo or test.
const TOKEN_LIFE: Duration = Duration::from_hours(24);

/// A kubeconfig with a ServiceAccount's own token, readable by nobody else.
pub(super) async fn write_kubeconfig(
    cluster: &TestCluster,
    dir: &Path,
    system: &str,
    account: &str,
) -> anyhow::Result<PathBuf> {
    let yaml = cluster.kubeconfig_for(system, account, TOKEN_LIFE).await?;
    let path = dir.join(format!("{account}.kubeconfig"));
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(yaml.as_bytes())?;
    Ok(path)
}
