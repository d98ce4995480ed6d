//! Checks that controller and gateway run. A status that nobody keeps up to date looks as good as it was when they
//! stopped.

use std::collections::BTreeSet;

use codebutler_crds::names::{ANNOTATION_SHARDS, CONTROLLER, GATEWAY};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::cluster::TeamCluster;
use crate::finding::{DoctorFinding, FindingLevel};
use crate::table::format_age;

/// Leases are renewed every few seconds; clocks of a terminal and a cluster differ by more than that.
const LEASE_STALE_SECONDS: i64 = 120;

/// Largest number of the gateways' shards, whatever a Lease says.
const MOST_SHARDS: u32 = 16;

/// Label with which the chart names its version.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// Findings about both, or one that says that the user may not look.
pub(crate) async fn look_at_installation(cluster: &TeamCluster) -> Vec<DoctorFinding> {
    let deployments = list_deployments(cluster).await;
    let mut findings: Vec<_> = deployments.iter().filter_map(look_at_deployment).collect();
    let mut hidden = BTreeSet::new();
    for name in [CONTROLLER, GATEWAY] {
        let leases = Api::<Lease>::all(cluster.client().clone());
        let ours = ListParams::default().fields(&format!("metadata.name={name}"));
        match leases.list(&ours).await {
            Ok(found) => {
                let known = findings.iter().any(|one| one.what.ends_with(&format!("/{name}")));
                let now = Timestamp::now();
                let stopped = judge_leases(name, &found.items, now);
                findings.extend(stopped.filter(|_| !known));
                for first in found.items.iter().filter(|lease| is_held(lease, now)) {
                    match list_shards(cluster, first).await {
                        Ok(others) => findings.extend(judge_shards(first, &others, now)),
                        Err(error) => findings.push(tell_unlisted(name, &error)),
                    }
                }
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                hidden.insert(name);
            }
            Err(error) => findings.push(tell_unlisted(name, &error)),
        }
    }
    // Last: what is said of a Deployment above stands for its Lease.
    findings.extend(deployments.iter().filter_map(judge_version));
    if !hidden.is_empty() {
        let names: Vec<_> = hidden.into_iter().collect();
        findings.push(DoctorFinding {
            level: FindingLevel::Remark,
            what: "Installation".to_owned(),
            reason: "NotShown".to_owned(),
            said: format!(
                "You may not list Leases in all namespaces, so this can't tell whether {} run.",
                names.join(" and ")
            ),
            todo:
                "If nothing below changes, ask an administrator to run `kubectl codebutler doctor`."
                    .to_owned(),
        });
    }
    findings
}

fn tell_unlisted(name: &str, error: &kube::Error) -> DoctorFinding {
    DoctorFinding {
        level: FindingLevel::Trouble,
        what: format!("Installation {name}"),
        reason: "NotKnown".to_owned(),
        said: format!("Its Leases can't be listed: {error}"),
        todo: "Ask again; if it stays so, look at the API server.".to_owned(),
    }
}

/// Those of controller and gateway; none where the user may not list them.
async fn list_deployments(cluster: &TeamCluster) -> Vec<Deployment> {
    let api = Api::<Deployment>::all(cluster.client().clone());
    let ours = ListParams::default().labels("app.kubernetes.io/part-of=codebutler");
    let Ok(mut found) = api.list(&ours).await else { return Vec::new() };
    found.items.retain(|one| [CONTROLLER, GATEWAY].contains(&&*one.name_any()));
    found.items
}

/// A plugin of another version may not know what it reads.
fn judge_version(deployment: &Deployment) -> Option<DoctorFinding> {
    let own = env!("CARGO_PKG_VERSION");
    let labels = deployment.metadata.labels.as_ref()?;
    let theirs = labels.get(VERSION_LABEL).filter(|theirs| *theirs != own)?;
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    Some(DoctorFinding {
        level: FindingLevel::Remark,
        what: format!("Deployment {namespace}/{name}"),
        reason: "OtherVersion".to_owned(),
        said: format!("It is {theirs}, and this plugin is {own}."),
        todo: format!("Install the plugin of version {theirs}, which knows all that is there."),
    })
}

fn look_at_deployment(deployment: &Deployment) -> Option<DoctorFinding> {
    let status = deployment.status.clone().unwrap_or_default();
    if status.ready_replicas.unwrap_or_default() > 0 {
        return None;
    }
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let (reason, todo) = if deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(0) {
        let start = format!("kubectl -n {namespace} scale deployment/{name} --replicas=1");
        ("ScaledToZero", format!("Start it: `{start}`."))
    } else {
        ("NoPodReady", see_pods(&namespace, &name))
    };
    Some(DoctorFinding {
        level: FindingLevel::Trouble,
        what: format!("Deployment {namespace}/{name}"),
        reason: reason.to_owned(),
        said: String::new(),
        todo,
    })
}

/// Returns a finding if, by all Leases of its name, a program does not run.
fn judge_leases(name: &str, leases: &[Lease], now: Timestamp) -> Option<DoctorFinding> {
    if leases.iter().any(|lease| is_held(lease, now)) {
        return None;
    }
    let newest = leases.iter().max_by_key(|lease| renewed(lease));
    let (said, todo) = match newest {
        Some(lease) => {
            let since = renewed(lease).map(|at| format_age(at, now));
            let since = since.map(|age| format!(" It last ran {age} ago.")).unwrap_or_default();
            (
                format!("No {name} runs: what is shown below is as it was then.{since}"),
                see_pods(&lease.namespace().unwrap_or_default(), name),
            )
        }
        None => (
            format!("No {name} has run in this cluster yet."),
            "Install the chart: `helm install codebutler …`. Where Argo CD has applied it, its Leases are left out: apply \
             charts/examples/argocd/excluded.yaml."
                .to_owned(),
        ),
    };
    Some(DoctorFinding {
        level: FindingLevel::Trouble,
        what: format!("Installation {name}"),
        reason: "NotRunning".to_owned(),
        said,
        todo,
    })
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    let fresh =
        renewed(lease).is_some_and(|at| now.as_second() - at.as_second() <= LEASE_STALE_SECONDS);
    fresh && holder.is_some_and(|holder| !holder.is_empty())
}

/// Number of shards in force by the Lease of the first one. Others have no such annotation, and count as one.
fn count_shards(first: &Lease) -> u32 {
    let said = first.annotations().get(ANNOTATION_SHARDS).and_then(|said| said.parse::<u32>().ok());
    said.unwrap_or(1).min(MOST_SHARDS)
}

fn shard_lease(shard: u32) -> String {
    format!("{GATEWAY}-{shard}")
}

/// Leases of the shards behind the first one, in its installation.
async fn list_shards(cluster: &TeamCluster, first: &Lease) -> Result<Vec<Lease>, kube::Error> {
    let namespace = first.namespace().unwrap_or_default();
    let leases = Api::<Lease>::namespaced(cluster.client().clone(), &namespace);
    let mut found = Vec::new();
    for shard in 1..count_shards(first) {
        let own = ListParams::default().fields(&format!("metadata.name={}", shard_lease(shard)));
        found.extend(leases.list(&own).await?.items);
    }
    Ok(found)
}

/// Returns a finding for each shard behind the first one for which no gateway leads.
fn judge_shards(first: &Lease, others: &[Lease], now: Timestamp) -> Vec<DoctorFinding> {
    let namespace = first.namespace().unwrap_or_default();
    let is_led = |name: &str| others.iter().any(|one| one.name_any() == name && is_held(one, now));
    let names = (1..count_shards(first)).map(|shard| (shard, shard_lease(shard)));
    let tell = |(shard, name): (u32, String)| DoctorFinding {
        level: FindingLevel::Trouble,
        what: format!("Installation {name}"),
        reason: "NotRunning".to_owned(),
        said: format!(
            "No gateway leads for shard {shard}: agents of Repos with that `status.shard` wait."
        ),
        todo: format!(
            "There have to be more gateways than shards. {}",
            see_pods(&namespace, GATEWAY)
        ),
    };
    names.filter(|(_, name)| !is_led(name)).map(tell).collect()
}

fn see_pods(namespace: &str, name: &str) -> String {
    format!(
        "See `kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}` and \
         `kubectl -n {namespace} logs deployment/{name}`."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(holder: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": CONTROLLER, "namespace": "system"},
            "spec": {"holderIdentity": holder, "renewTime": renewed},
        }))
        .unwrap()
    }

    #[test]
    fn who_holds_no_fresh_lease_does_not_run() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let judge = |leases: &[Lease]| judge_leases(CONTROLLER, leases, now).map(|f| f.said);
        let held = lease("pod-1", "2026-03-01T11:59:58.000000Z");
        assert_eq!(judge(std::slice::from_ref(&held)), None);
        // A cluster of two installations: one of them is enough.
        let dead = lease("pod-2", "2026-03-01T09:00:00.000000Z");
        assert_eq!(judge(&[dead.clone(), held]), None);
        let said = judge(&[dead]).unwrap();
        assert!(said.contains("It last ran 3h ago"), "{said}");
        // A program that stops in good order releases its Lease.
        let released = lease("", "2026-03-01T11:59:58.000000Z");
        assert!(judge(&[released]).is_some());
        assert!(judge(&[]).unwrap().contains("has run in this cluster yet"));
    }

    #[test]
    fn each_shard_needs_a_gateway_that_leads_for_it() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let named = |name: &str, holder: &str, renewed: &str| {
            let mut lease = lease(holder, renewed);
            lease.metadata.name = Some(name.to_owned());
            lease
        };
        let fresh = "2026-03-01T11:59:58.000000Z";
        let mut first = named(GATEWAY, "pod-1", fresh);
        let others = [
            named("codebutler-gateway-1", "pod-2", fresh),
            named("codebutler-gateway-2", "pod-3", "2026-03-01T09:00:00.000000Z"),
        ];
        assert!(judge_shards(&first, &others, now).is_empty(), "what is left of more shards");
        let mut number = |said: &str| {
            first.metadata.annotations =
                Some([(ANNOTATION_SHARDS.to_owned(), said.to_owned())].into());
            first.clone()
        };
        let first = number("4");
        let found = judge_shards(&first, &others, now);
        let found: Vec<_> = found.iter().map(|one| (&*one.what, &*one.reason)).collect();
        let stopped = "NotRunning";
        assert_eq!(
            found,
            [
                ("Installation codebutler-gateway-2", stopped),
                ("Installation codebutler-gateway-3", stopped),
            ]
        );
        let many = number("4000000000");
        assert_eq!(judge_shards(&many, &others, now).len(), 14, "whatever somebody wrote");
    }

    #[test]
    fn a_deployment_at_zero_is_told_apart_from_one_that_does_not_come_up() {
        let deployment = |replicas: u32, ready: u32| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"name": GATEWAY, "namespace": "system"},
                "spec": {"replicas": replicas, "selector": {}, "template": {}},
                "status": {"readyReplicas": ready},
            }))
            .unwrap()
        };
        let reason = |replicas, ready| {
            look_at_deployment(&deployment(replicas, ready)).map(|finding| finding.reason)
        };
        assert_eq!(reason(2, 1), None);
        assert_eq!(reason(2, 0).as_deref(), Some("NoPodReady"));
        assert_eq!(reason(0, 0).as_deref(), Some("ScaledToZero"));
    }

    #[test]
    fn a_plugin_of_another_version_is_told() {
        let judged = |version: &str| {
            let labels = json!({VERSION_LABEL: version});
            let metadata = json!({"name": GATEWAY, "namespace": "system", "labels": labels});
            let deployment = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            judge_version(&deployment).map(|finding| (finding.level, finding.said))
        };
        assert_eq!(judged(env!("CARGO_PKG_VERSION")), None);
        let (level, said) = judged("9.9.9").unwrap();
        assert_eq!(level, FindingLevel::Remark);
        assert!(said.contains("It is 9.9.9, and this plugin is"), "{said}");
    }
}
