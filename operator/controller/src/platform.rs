//! Defaults of agent pods that depend on the cluster.

use std::time::Duration;

use codebutler_crds::pods::PodUser;
use kube::Client;

use crate::args::ControllerArgs;

/// The API group of OpenShift's security context constraints.
const OPENSHIFT: &str = "security.openshift.io";
const PAUSE: Duration = Duration::from_millis(500);

/// Turns on user namespaces for agent pods where the cluster has them, unless `hostUsers` or a runtime class is set.
pub(crate) async fn settle_namespaces(client: &Client, args: &mut ControllerArgs) {
    if args.agent_pods.host_users.is_some() || args.agent_pods.runtime_class_name.is_some() {
        return;
    }
    let version = loop {
        match client.apiserver_version().await {
            Ok(version) => break version,
            Err(error) => tracing::warn!(%error, "cluster_version_unknown"),
        }
        tokio::time::sleep(PAUSE).await;
    };
    if has_user_namespaces(&version.major, &version.minor) {
        args.agent_pods.host_users = Some(false);
    }
}

/// True if clusters of this version have user namespaces unless somebody turned them off. Providers append signs to
/// the minor version.
fn has_user_namespaces(major: &str, minor: &str) -> bool {
    let number = |text: &str| -> Option<u32> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    number(major).zip(number(minor)).is_some_and(|version| version >= (1, 33))
}

/// Leaves the user of agent pods to the platform where it refuses others, unless somebody has set a security context.
pub(crate) async fn settle_user(client: &Client, args: &mut ControllerArgs) {
    if args.agent_pods.security_context.is_some() {
        return;
    }
    let groups = loop {
        match client.list_api_groups().await {
            Ok(groups) => break groups.groups,
            Err(error) => tracing::warn!(%error, "cluster_platform_unknown"),
        }
        tokio::time::sleep(PAUSE).await;
    };
    if groups.iter().any(|group| group.name == OPENSHIFT) {
        tracing::info!("openshift_detected");
        args.agent_pods.security_context = Some(PodUser::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_namespaces_are_there_from_1_33_on() {
        for (major, minor, has) in [
            ("1", "33", true),
            ("1", "36+", true),
            ("2", "0", true),
            ("1", "32", false),
            ("", "", false),
        ] {
            assert_eq!(has_user_namespaces(major, minor), has, "{major}.{minor}");
        }
    }
}
