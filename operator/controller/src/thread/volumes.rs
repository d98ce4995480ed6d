//! Volumes of an agent pod, and their mounts.

use codebutler_crds::names;
use codebutler_crds::pods::ExtraVolume;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub(crate) const BIN: &str = "bin";
/// The socket between agent and toolbox.
pub(crate) const RUN: &str = "run";
/// Volume for the toolbox's `/tmp`.
pub(crate) const TMP: &str = "tmp";
pub(crate) const THREAD: &str = "thread";
/// The token that says who the pod is.
pub(crate) const TOKEN: &str = "token";
/// The certificate authority of the gateway.
pub(crate) const CA: &str = "ca";

/// Prefix for the names of added volumes, so that none collides with these.
const EXTRA: &str = "extra-";

/// Seconds for which a projected token is good; the kubelet renews it well before.
const TOKEN_SECONDS: i64 = 3600;

/// Builds all volumes of a pod that works on what `claim` holds.
pub(crate) fn pod_volumes(claim: String, extra: &[ExtraVolume]) -> Vec<Volume> {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: claim, read_only: None };
    let mut all = vec![
        empty_volume(BIN, "1Gi"),
        empty_volume(RUN, "16Mi"),
        empty_volume(TMP, "4Gi"),
        Volume { persistent_volume_claim: Some(claim), ..claim_volume(THREAD) },
        token_volume(),
        authority_volume(),
    ];
    all.extend(extra.iter().map(extra_volume));
    all
}

/// A volume that somebody added for commands.
fn extra_volume(volume: &ExtraVolume) -> Volume {
    let name = format!("{EXTRA}{}", volume.name);
    if let Some(claim) = &volume.persistent_volume_claim {
        let claim = PersistentVolumeClaimVolumeSource {
            claim_name: claim.claim_name.clone(),
            read_only: volume.read_only.then_some(true),
        };
        return Volume { persistent_volume_claim: Some(claim), ..claim_volume(&name) };
    }
    let limit = volume.empty_dir.as_ref().and_then(|folder| folder.size_limit.as_deref());
    empty_volume(&name, limit.unwrap_or("1Gi"))
}

pub(crate) fn extra_mount(volume: &ExtraVolume) -> VolumeMount {
    let read_only = volume.read_only.then_some(true);
    VolumeMount {
        read_only,
        ..mount_volume(&format!("{EXTRA}{}", volume.name), &volume.mount_path)
    }
}

/// The token that says which pod it is.
pub(crate) fn token_volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(names::TOKEN_AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: file_name(names::pod::TOKEN_FILE),
    };
    let projected = ProjectedVolumeSource {
        sources: Some(vec![VolumeProjection {
            service_account_token: Some(token),
            ..VolumeProjection::default()
        }]),
        default_mode: Some(0o440),
    };
    Volume { projected: Some(projected), ..claim_volume(TOKEN) }
}

/// The gateway's certificate authority.
pub(crate) fn authority_volume() -> Volume {
    let file = KeyToPath {
        key: names::CA_KEY.to_owned(),
        path: file_name(names::pod::CA_FILE),
        mode: None,
    };
    let config_map = ConfigMapVolumeSource {
        name: names::CA_CONFIG_MAP.to_owned(),
        items: Some(vec![file]),
        ..ConfigMapVolumeSource::default()
    };
    Volume { config_map: Some(config_map), ..claim_volume(CA) }
}

pub(crate) fn mount_volume(volume: &str, dir: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: dir.to_owned(), ..VolumeMount::default() }
}

/// Mounts one part of the Thread's volume at a folder.
pub(crate) fn mount_part(part: &str, dir: &str) -> VolumeMount {
    VolumeMount { sub_path: Some(part.to_owned()), ..mount_volume(THREAD, dir) }
}

/// A read-only volume at the folder in which `file` is to appear.
pub(crate) fn in_dir_of(volume: &str, file: &str) -> VolumeMount {
    let dir = file.rsplit_once('/').map_or(file, |(dir, _)| dir);
    VolumeMount { read_only: Some(true), ..mount_volume(volume, dir) }
}

fn file_name(path: &str) -> String {
    path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned()
}

/// A folder of the pod's own.
pub(crate) fn empty_volume(name: &str, limit: &str) -> Volume {
    let size_limit = Some(Quantity(limit.to_owned()));
    let empty_dir = Some(EmptyDirVolumeSource { size_limit, medium: None });
    Volume { empty_dir, ..claim_volume(name) }
}

fn claim_volume(name: &str) -> Volume {
    Volume { name: name.to_owned(), ..Volume::default() }
}
