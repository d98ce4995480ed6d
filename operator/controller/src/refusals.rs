//! Steps that the API server refuses: the message for people, and the backoff until the next try.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_crds::policy::RedactionRule;
use codebutler_crds::redact::SecretRedactor;
use codebutler_runtime::apply::ApplyRefusal;
use parking_lot::{Mutex, MutexGuard};

use super::health::{HealthLevel, ObjectHealth};
use super::index::ObjectKey;

/// First and longest backoff of a refused step. It is retried on a timer because the cause is not watched.
const FIRST: Duration = Duration::from_secs(15);
const LAST: Duration = Duration::from_mins(5);
/// Number of failures in a row of the API server itself from which people are told.
const TOLD: u32 = 2;

/// Counts of consecutive refusals and failures, by object.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounts(Mutex<HashMap<ObjectKey, RefusalRow>>);

#[derive(Clone, Copy, Debug, Default)]
struct RefusalRow {
    failures: u32,
    refusals: u32,
    /// Earliest time of the next try.
    due: Option<Instant>,
}

impl RefusalCounts {
    /// Counts a failure; answers whether people should hear of it.
    pub(crate) fn failed(&self, key: &ObjectKey) -> bool {
        let mut all = self.lock();
        let row = all.entry(key.clone()).or_default();
        row.failures = row.failures.saturating_add(1);
        row.failures >= TOLD
    }

    /// Counts a refusal that was told; answers how long to wait. Who looks in between, because
    /// something has changed, makes nobody wait longer.
    pub(crate) fn told(&self, key: &ObjectKey, now: Instant) -> Duration {
        let mut all = self.lock();
        let row = all.entry(key.clone()).or_default();
        if let Some(due) = row.due.filter(|due| now < *due) {
            return due - now;
        }
        let wait = FIRST.saturating_mul(1 << row.refusals.min(8)).min(LAST);
        row.refusals = row.refusals.saturating_add(1);
        row.due = Some(now + wait);
        wait
    }

    /// Resets an object's counts, because a look at it was not refused anything.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, RefusalRow>> {
        self.0.lock()
    }
}

/// Health of an object after a refusal, without text that the Repo wants masked.
pub(crate) fn refusal_health(refusal: &ApplyRefusal, patterns: &[RedactionRule]) -> ObjectHealth {
    let said = SecretRedactor::new(patterns).0.mask(&refusal.to_string()).into_owned();
    match refusal {
        ApplyRefusal::NameTaken { .. } => {
            ObjectHealth::new(HealthLevel::Stalled, "NameTaken", said)
        }
        ApplyRefusal::NotAccepted { .. } => {
            let advice = "the API server, or a webhook that it asks, fails; it is tried again until it does not";
            ObjectHealth::new(HealthLevel::Trouble, "NotAccepted", format!("{said}: {advice}"))
        }
        ApplyRefusal::Rejected { message, .. } => match parse_quota(message) {
            Some(ResourceQuotaLimit::Full) => {
                let message = format!(
                    "waits for room in the namespace's ResourceQuota ({said}): it starts by itself when \
                     other pods end, or the quota is raised"
                );
                ObjectHealth::new(HealthLevel::Reconciling, "QuotaExceeded", message)
            }
            Some(ResourceQuotaLimit::TooSmall) => {
                let advice = "nothing of it is in use, so it is too small for even this: raise the ResourceQuota";
                ObjectHealth::new(
                    HealthLevel::Trouble,
                    "QuotaTooSmall",
                    format!("{said}: {advice}"),
                )
            }
            None => {
                let advice =
                    find_advice(message).map(|advice| format!(": {advice}")).unwrap_or_default();
                ObjectHealth::new(HealthLevel::Trouble, "Rejected", format!("{said}{advice}"))
            }
        },
    }
}

/// Words on a server's pod after a refusal, without text that the Repo wants masked.
pub(crate) fn describe_server_refusal(
    refusal: &ApplyRefusal,
    patterns: &[RedactionRule],
    server: &str,
) -> String {
    let said = SecretRedactor::new(patterns).0.mask(&refusal.to_string()).into_owned();
    let ApplyRefusal::Rejected { message, .. } = refusal else { return said };
    let sizes = [" usage per ", " limit to request ratio per ", "quota: ", " limit of "];
    if sizes.iter().any(|words| message.contains(words)) {
        return format!(
            "{said}: fit `resources` of server `{server}` in spec.mcpServers of the Repo, and its spec.pods.resources.agent, \
             to the namespace's LimitRange and ResourceQuota, or change those"
        );
    }
    said
}

#[derive(Debug, PartialEq, Eq)]
enum ResourceQuotaLimit {
    Full,
    TooSmall,
}

/// `exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3`
fn parse_quota(message: &str) -> Option<ResourceQuotaLimit> {
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (_, used) = rest.split_once("used: ")?;
    let (used, _) = used.split_once(", limited: ")?;
    let mut amounts = used.split(',').filter_map(|pair| pair.split_once('='));
    Some(if amounts.all(|(_, amount)| amount == "0") {
        ResourceQuotaLimit::TooSmall
    } else {
        ResourceQuotaLimit::Full
    })
}

/// Remedy for the messages of well-known admission plugins.
fn find_advice(message: &str) -> Option<&'static str> {
    let says = |words: &str| message.contains(words);
    if says("violates PodSecurity") {
        Some(
            "the namespace's label pod-security.kubernetes.io/enforce forbids it: change what the AgentRole, or a webhook such \
             as a service mesh's, adds to pods, or the label",
        )
    } else if says("failed quota") && says("must specify") {
        Some(
            "the ResourceQuota wants that said: set it in spec.pods.resources of the Repo (agent, toolbox), or in \
             workspace.resources of the AgentRole, which goes before, or give the namespace a LimitRange with defaults",
        )
    } else if says(" usage per PersistentVolumeClaim is ") {
        Some("fit spec.worktree.size of the Repo to the namespace's LimitRange, or change that")
    } else if [" usage per ", " limit to request ratio per "].into_iter().any(says) {
        Some(
            "fit spec.pods.resources of the Repo (agent, toolbox), or workspace.resources of the AgentRole, which goes \
             before, to the namespace's LimitRange, or change that",
        )
    } else if says("must be less than or equal to") && says(" limit of ") {
        Some(
            "where no limit is named, a LimitRange of the namespace adds one: name it in spec.pods.resources of the Repo \
             (agent, toolbox) or in workspace.resources of the AgentRole, or change the LimitRange",
        )
    } else if says("unable to validate against any security context constraint") {
        Some("allow the Repo's ServiceAccount a security context constraint that fits")
    } else if says("denied the request") {
        Some("that is the cluster's own policy: ask who keeps it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str) -> ObjectHealth {
        let (kind, name) = ("Pod".to_owned(), "t-pm".to_owned());
        refusal_health(&ApplyRefusal::Rejected { kind, name, message: message.to_owned() }, &[])
    }

    #[test]
    fn a_full_quota_is_waited_for_and_one_of_zero_is_told() {
        let full = "pods \"t-pm\" is forbidden: exceeded quota: small, requested: pods=1,requests.cpu=1, \
                    used: pods=3,requests.cpu=0, limited: pods=3,requests.cpu=4";
        assert_eq!(
            (told(full).level, told(full).reason),
            (HealthLevel::Reconciling, "QuotaExceeded")
        );
        let zero = "pods \"t-pm\" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, \
                    limited: pods=0";
        assert_eq!((told(zero).level, told(zero).reason), (HealthLevel::Trouble, "QuotaTooSmall"));
        assert!(told(zero).message.contains("quota: none"), "{}", told(zero).message);
    }

    #[test]
    fn what_admission_says_comes_with_what_to_do() {
        for (words, advice) in [
            ("maximum memory usage per Container is 1Gi, but limit is 4Gi", "LimitRange"),
            (
                "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 20Gi",
                "spec.worktree.size",
            ),
            ("minimum cpu usage per Pod is 1, but request is 300m", "LimitRange"),
            (
                "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000",
                "LimitRange",
            ),
            (
                "failed quota: q: must specify limits.cpu for: agent",
                "spec.pods.resources of the Repo",
            ),
            (
                "minimum cpu usage per Container is 100m, but request is 50m",
                "spec.pods.resources of the Repo",
            ),
            (
                "Pod \"t-pm\" is invalid: spec.initContainers[0].resources.requests: Invalid value: \"250m\": must be less than \
                 or equal to cpu limit of 200m",
                "a LimitRange of the namespace adds one",
            ),
            ("pods \"t-pm\" is forbidden: violates PodSecurity \"restricted:latest\": x", "label"),
            (
                "pods \"t-pm\" is forbidden: violates PodSecurity \"restricted:latest\": unrestricted capabilities (container \
                 \"istio-init\" must not include \"NET_ADMIN\", \"NET_RAW\")",
                "a webhook such as a service mesh's",
            ),
            (
                "admission webhook \"v.kyverno.svc\" denied the request: no",
                "the cluster's own policy",
            ),
        ] {
            let told = told(words);
            assert_eq!(told.reason, "Rejected");
            assert!(
                told.message.contains(words) && told.message.contains(advice),
                "{}",
                told.message
            );
        }
    }

    #[test]
    fn a_server_that_is_refused_says_which_of_its_settings_count() {
        let told = |message: &str| {
            let (kind, name) = ("Pod".to_owned(), "t-mcp-db".to_owned());
            let refusal = ApplyRefusal::Rejected { kind, name, message: message.to_owned() };
            describe_server_refusal(&refusal, &[], "db")
        };
        let small = told("minimum cpu usage per Container is 100m, but request is 10m");
        assert!(small.contains("is 100m") && small.contains("server `db`"), "{small}");
        assert!(small.contains("spec.pods.resources.agent"), "{small}");
        let policy = told("admission webhook \"v.kyverno.svc\" denied the request: no");
        assert!(policy.ends_with("denied the request: no"), "{policy}");
    }

    #[test]
    fn who_is_refused_again_and_again_asks_less_often() {
        let (refusals, key) = (RefusalCounts::default(), ObjectKey::new("team", "t"));
        assert!(!refusals.failed(&key), "once can be an accident");
        assert!(refusals.failed(&key));
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..7 {
            let wait = refusals.told(&key, now);
            // A look that our own status write has triggered does not count as another try.
            assert_eq!(refusals.told(&key, now + wait / 3), wait / 3 * 2);
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300]);
        refusals.forget(&key);
        assert_eq!(refusals.told(&key, now), FIRST);
    }
}
