//! Host folders for a pod's volumes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use kube::{Api, Client};

use super::entry::PodEntry;
use super::projected::{self, ProjectedError};

/// An error that keeps a volume from being mounted, possibly only for now.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The volume claim is not bound yet.
    #[error("persistentvolumeclaim {0:?} is not bound")]
    Unbound(String),
    /// The volume claim does not exist.
    #[error("persistentvolumeclaim {0:?} not found")]
    NoClaim(String),
    /// A kind of volume that this kubelet lacks.
    #[error("volume {0:?}: unsupported kind")]
    Unsupported(String),
    /// The content of a projected volume can't be had.
    #[error(transparent)]
    Projected(#[from] ProjectedError),
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The volume's folder can't be made or written.
    #[error("volume folder: {0}")]
    Io(#[from] io::Error),
}

/// Makes every volume of the pod and says where each is.
pub(crate) async fn prepare_volumes(
    entry: &PodEntry,
    tokens: &mut projected::ProjectedTokens,
) -> Result<BTreeMap<String, PathBuf>, VolumeError> {
    let pod = entry.pod.borrow().clone();
    let mut folders = BTreeMap::new();
    for volume in pod_volumes(&pod) {
        let own = volume_folder(entry, volume);
        let at = if volume.empty_dir.is_some() {
            make_shared(&own).await?;
            own
        } else if let Some(claim) = &volume.persistent_volume_claim {
            claimed_folder(&entry.node.client, &entry.namespace, &claim.claim_name).await?
        } else {
            let files = projected::projected_files(entry, &pod, volume, tokens)
                .await?
                .ok_or_else(|| VolumeError::Unsupported(volume.name.clone()))?;
            tokio::fs::create_dir_all(&own).await?;
            super::writer::write_files(&own, &files)?;
            own
        };
        folders.insert(volume.name.clone(), at);
    }
    Ok(folders)
}

/// Brings the projected volumes of a running pod up to date.
pub(crate) async fn refresh_volumes(
    entry: &PodEntry,
    tokens: &mut projected::ProjectedTokens,
) -> Result<(), VolumeError> {
    let pod = entry.pod.borrow().clone();
    for volume in pod_volumes(&pod) {
        if volume.empty_dir.is_some() || volume.persistent_volume_claim.is_some() {
            continue;
        }
        if let Some(files) = projected::projected_files(entry, &pod, volume, tokens).await? {
            super::writer::write_files(&volume_folder(entry, volume), &files)?;
        }
    }
    Ok(())
}

/// The folder of a bound claim.
pub(crate) async fn claimed_folder(
    client: &Client,
    namespace: &str,
    claim: &str,
) -> Result<PathBuf, VolumeError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let found =
        claims.get_opt(claim).await?.ok_or_else(|| VolumeError::NoClaim(claim.to_owned()))?;
    let unbound = || VolumeError::Unbound(claim.to_owned());
    if found.status.and_then(|status| status.phase).as_deref() != Some("Bound") {
        return Err(unbound());
    }
    let name = found.spec.and_then(|spec| spec.volume_name).ok_or_else(unbound)?;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let spec = volumes.get_opt(&name).await?.and_then(|volume| volume.spec).ok_or_else(unbound)?;
    let path = spec
        .host_path
        .map(|source| source.path)
        .or_else(|| spec.local.map(|source| source.path))
        .ok_or(VolumeError::Unsupported(name))?;
    let path = PathBuf::from(path);
    make_shared(&path).await?;
    Ok(path)
}

/// Removes a folder, whatever modes a container has left in it.
pub(crate) fn remove_folder(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            std::fs::remove_dir_all(dir)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

async fn make_shared(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    tokio::fs::create_dir_all(dir).await?;
    tokio::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).await
}

fn volume_folder(entry: &PodEntry, volume: &Volume) -> PathBuf {
    entry.dir.join("volumes").join(&volume.name)
}

fn pod_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}
