//! Folders that are volumes and snapshots, as the driver of the testbed keeps them side by side.

use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;

/// Name of the driver.
pub(super) const PROVISIONER: &str = "codebutler.dev/folder";

/// Name of a claim's volume, and of its folder.
pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

/// A folder could not be copied. The words are what the driver says.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The copying program has failed, with these words.
    #[error("{0}")]
    Failed(String),
}

/// Copies a folder, which is there as a whole afterwards or not at all.
pub(super) async fn copy_folder(from: &Path, to: &Path) -> Result<(), CopyError> {
    let fresh = to.with_extension("clone");
    // An earlier try may have been cut off.
    crate::kubelet::volumes::remove_folder(&fresh)?;
    let copied = tokio::process::Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .args([from, &fresh])
        .output()
        .await?;
    if !copied.status.success() {
        return Err(CopyError::Failed(String::from_utf8_lossy(&copied.stderr).into_owned()));
    }
    Ok(tokio::fs::rename(&fresh, to).await?)
}

/// Bytes of a size such as `2Gi`, in the forms that claims of tests have.
pub(super) fn count_bytes(size: &Quantity) -> Option<u64> {
    let text = size.0.as_str();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let factor = match unit {
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
