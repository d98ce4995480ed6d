//! Security contexts that the restricted Pod Security Standard admits.

use codebutler_crds::Repo;
use codebutler_crds::pods::{PodSettings, PodUser};
use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

/// User and group of everything in an agent pod: no image has to be prepared for it, and no account of a node
/// has such a number.
pub(crate) const USER: i64 = 10_001;
/// User and group of pods with a volume from before [`USER`]: its files belong to it.
pub(crate) const OLD_USER: i64 = 1000;

/// Key of pods that have one SELinux level, since they share a volume: a Thread's `own`, or that of the whole namespace
/// where the Repo or the installation (`all`) adds a claim that Threads share. A volume has one label, so pods of
/// another level would take it away from each other.
pub(crate) fn sharing_level(own: String, repo: &Repo, all: &PodSettings) -> String {
    let of_repo = repo.spec.pods.iter().flat_map(|pods| &pods.volumes);
    let mut volumes = of_repo.chain(&all.volumes);
    if volumes.any(|volume| volume.persistent_volume_claim.is_some()) {
        format!("claims of {}", repo.namespace().unwrap_or_default())
    } else {
        own
    }
}

/// Security context of a pod: as somebody has set it, and the rest as the platform chooses; or, if nobody has set
/// anything, with the user `own`.
pub(crate) fn pod_security(sharing: &str, own: i64, given: Option<&PodUser>) -> PodSecurityContext {
    let usual;
    let user = if let Some(user) = given {
        user
    } else {
        usual = own_user(sharing, own);
        &usual
    };
    let groups = &user.supplemental_groups;
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user.run_as_user,
        run_as_group: user.run_as_group,
        fs_group: user.fs_group,
        supplemental_groups: (!groups.is_empty()).then(|| groups.clone()),
        // A worktree has many files: only a volume that is new is changed.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        se_linux_options: user.se_linux_options.clone(),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

fn own_user(sharing: &str, id: i64) -> PodUser {
    PodUser {
        run_as_user: Some(id),
        run_as_group: Some(id),
        fs_group: Some(id),
        supplemental_groups: Vec::new(),
        se_linux_options: Some(SELinuxOptions {
            level: Some(selinux_level(sharing)),
            ..SELinuxOptions::default()
        }),
    }
}

/// Security context of each container.
pub(crate) fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// Two different categories, the lower one first, from the key of pods that share a volume.
fn selinux_level(sharing: &str) -> String {
    let digest = Sha256::digest(sharing.as_bytes());
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| (hash << 8) | u64::from(*byte));
    let (one, step) = (hash % 1024, 1 + (hash / 1024) % 1023);
    let other = (one + step) % 1024;
    format!("s0:c{},c{}", one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_two_ordered_categories() {
        for uid in 0..500 {
            let level = selinux_level(&uid.to_string());
            let (low, high) = level.strip_prefix("s0:c").unwrap().split_once(",c").unwrap();
            let (low, high): (u32, u32) = (low.parse().unwrap(), high.parse().unwrap());
            assert!(low < high && high < 1024, "{level}");
        }
    }
}
