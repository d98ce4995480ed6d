//! `doctor`: what is not ready, and what to do about it. It reads conditions alone: what is wrong and how to correct it is what
//! controller and gateway have found out, in the words of their catalog of reasons.

use codebutler_crds::condition::{
    AWAITING_USER, BUDGET_EXCEEDED, COLLECTING, EGRESS_ENFORCED, FINISHED, MODELS_KNOWN,
    OLD_SPELLING, PARALLEL, QUEUED, READY, RECONCILING, SEATS_READY, STALLED, SUSPENDED,
    WORKTREE_READY,
};
use codebutler_crds::names::{CONTROLLER, GATEWAY};
use codebutler_crds::reason::reasons_of;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::cluster::TeamCluster;
use crate::table::plain;
use crate::{PluginError, PluginTerminal};

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingLevel {
    /// Somebody has to do something.
    Trouble,
    /// It goes on by itself, or is what somebody wanted.
    Remark,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DoctorFinding {
    level: FindingLevel,
    /// `Repo team/shop`.
    what: String,
    /// The condition's reason.
    reason: String,
    /// The condition's message.
    said: String,
    /// The remedy.
    todo: String,
}

/// Conditions of which `Ready` says what matters.
const SILENT: [&str; 4] = [RECONCILING, STALLED, WORKTREE_READY, FINISHED];
/// Conditions that are bad while they are true.
const BAD_IF_TRUE: [&str; 6] =
    [AWAITING_USER, BUDGET_EXCEEDED, COLLECTING, QUEUED, SUSPENDED, OLD_SPELLING];
/// Conditions with which work goes on, whatever they say.
const MILD: [&str; 8] = [
    AWAITING_USER,
    COLLECTING,
    QUEUED,
    SUSPENDED,
    OLD_SPELLING,
    MODELS_KNOWN,
    PARALLEL,
    SEATS_READY,
];

/// True if nothing has to be done.
pub(crate) async fn run_doctor(
    cluster: &TeamCluster,
    terminal: &mut PluginTerminal<'_>,
) -> Result<bool, PluginError> {
    let repos = cluster.repos().await?;
    let roles = cluster.roles().await?;
    let threads = cluster.threads().await?;
    let mut findings = look_at_deployments(cluster).await;
    findings.extend(repos.iter().flat_map(look_at_repo));
    findings.extend(roles.iter().flat_map(look_at_role));
    findings.extend(threads.iter().flat_map(look_at_thread));
    findings.sort_by(|a, b| a.level.cmp(&b.level).then_with(|| a.what.cmp(&b.what)));
    for finding in &findings {
        print_finding(finding, terminal)?;
    }
    let place = if cluster.is_wide() { "all namespaces" } else { cluster.namespace() };
    if repos.is_empty() {
        terminal.say(&format!(
            "No Repo in {place}: `kubectl codebutler init` makes one, -A looks in all namespaces."
        ))?;
        return Ok(false);
    }
    let open = threads.iter().filter(|thread| thread.spec.state == ThreadState::Active).count();
    let troubles = findings.iter().filter(|f| f.level == FindingLevel::Trouble).count();
    terminal.say(&format!(
        "Looked at {} Repo(s), {} AgentRole(s) and {open} open Thread(s) in {place}: {}.",
        repos.len(),
        roles.len(),
        if troubles == 0 {
            "nothing to correct".to_owned()
        } else {
            format!("{troubles} to correct")
        }
    ))?;
    Ok(troubles == 0)
}

fn print_finding(
    finding: &DoctorFinding,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let DoctorFinding { level, what, reason, said, todo } = finding;
    let mark = if *level == FindingLevel::Trouble { "✗" } else { "·" };
    terminal.say(&plain(&format!("{mark} {what}: {reason}")))?;
    if !said.is_empty() {
        terminal.say(&plain(&format!("    {said}")))?;
    }
    if !todo.is_empty() {
        terminal.say(&format!("    To do: {todo}"))?;
    }
    Ok(())
}

/// The installation's two Deployments. Who may not look beyond the team's namespace sees the same by the Repos' `GatewayServing`.
async fn look_at_deployments(cluster: &TeamCluster) -> Vec<DoctorFinding> {
    let api = Api::<Deployment>::all(cluster.client().clone());
    let ours = ListParams::default().labels("app.kubernetes.io/part-of=codebutler");
    let Ok(found) = api.list(&ours).await else { return Vec::new() };
    let found = found.items.iter().filter(|one| [CONTROLLER, GATEWAY].contains(&&*one.name_any()));
    found.filter_map(look_at_deployment).collect()
}

fn look_at_deployment(deployment: &Deployment) -> Option<DoctorFinding> {
    let status = deployment.status.clone().unwrap_or_default();
    if status.ready_replicas.unwrap_or_default() > 0 {
        return None;
    }
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    Some(DoctorFinding {
        level: FindingLevel::Trouble,
        what: format!("Deployment {namespace}/{name}"),
        reason: "NoPodReady".to_owned(),
        said: String::new(),
        todo: format!(
            "See `kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}` and \
             `kubectl -n {namespace} logs deployment/{name}`."
        ),
    })
}

fn look_at_repo(repo: &Repo) -> Vec<DoctorFinding> {
    let conditions = repo.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("Repo", repo.namespace(), &repo.name_any(), conditions)
}

fn look_at_role(role: &AgentRole) -> Vec<DoctorFinding> {
    let conditions = role.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("AgentRole", role.namespace(), &role.name_any(), conditions)
}

fn look_at_thread(thread: &Thread) -> Vec<DoctorFinding> {
    if thread.spec.state != ThreadState::Active {
        return Vec::new();
    }
    let conditions = thread.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("Thread", thread.namespace(), &thread.name_any(), conditions)
}

fn look_at(
    kind: &str,
    namespace: Option<String>,
    name: &str,
    conditions: &[Condition],
) -> Vec<DoctorFinding> {
    let what = format!("{kind} {}/{name}", namespace.unwrap_or_default());
    if conditions.is_empty() {
        return vec![DoctorFinding {
            level: FindingLevel::Trouble,
            what,
            reason: "NotLookedAt".to_owned(),
            said: "No controller has looked at it yet.".to_owned(),
            todo:
                "See that the controller runs, and that it watches this namespace (`namespaces` of \
                   the chart)."
                    .to_owned(),
        }];
    }
    let wrong = conditions.iter().filter(|condition| is_wrong(condition));
    let reconciles = conditions.iter().any(|c| c.type_ == RECONCILING && c.status == "True");
    let mut findings: Vec<DoctorFinding> = Vec::new();
    for condition in wrong {
        // `Ready` repeats what another condition has said.
        if findings.iter().any(|known| known.said == condition.message) {
            continue;
        }
        findings.push(DoctorFinding {
            level: level_of(condition, reconciles),
            what: what.clone(),
            reason: condition.reason.clone(),
            said: condition.message.clone(),
            todo: todo_of(kind, &condition.reason),
        });
    }
    findings
}

fn is_wrong(condition: &Condition) -> bool {
    let Condition { type_, status, .. } = condition;
    if SILENT.contains(&&**type_) {
        return false;
    }
    if BAD_IF_TRUE.contains(&&**type_) {
        return status == "True";
    }
    // Before the first pod nothing is known of egress, and a list of models may be incomplete.
    status == "False" || status == "Unknown" && ![EGRESS_ENFORCED, MODELS_KNOWN].contains(&&**type_)
}

fn level_of(condition: &Condition, reconciles: bool) -> FindingLevel {
    let Condition { type_, status, .. } = condition;
    let passing = type_ == READY && reconciles && todo_is_waiting(&condition.reason);
    if MILD.contains(&&**type_) || status == "Unknown" || passing {
        FindingLevel::Remark
    } else {
        FindingLevel::Trouble
    }
}

/// True if a reason goes away by itself.
fn todo_is_waiting(reason: &str) -> bool {
    let todos = ["Repo", "AgentRole", "Thread"].map(|kind| todo_of(kind, reason));
    todos
        .iter()
        .all(|todo| todo.is_empty() || todo.starts_with("Wait") || todo.starts_with("Nothing"))
}

fn todo_of(kind: &str, reason: &str) -> String {
    let known = reasons_of(kind).into_iter().find(|known| known.name == reason);
    known.map(|known| known.todo.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    fn found(kind: &str, conditions: &[Condition]) -> Vec<(FindingLevel, String, String)> {
        let findings = look_at(kind, Some("team".to_owned()), "shop", conditions);
        findings.into_iter().map(|f| (f.level, f.reason, f.todo)).collect()
    }

    #[test]
    fn what_is_wrong_is_said_once_with_the_catalogs_remedy() {
        let conditions = [
            condition("GitReachable", "False", "Unauthorized", "GitHub refuses the token"),
            condition("Ready", "False", "GitNotReachable", "GitHub refuses the token"),
            condition("Stalled", "True", "GitNotReachable", "GitHub refuses the token"),
            condition("SlackReachable", "True", "Reachable", ""),
        ];
        let findings = found("Repo", &conditions);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].0, FindingLevel::Trouble);
        let ready = found("Repo", &conditions[1..]);
        assert_eq!(ready[0].2, "Correct `spec.git` or the Secret that is named.");
    }

    #[test]
    fn what_goes_on_by_itself_is_a_remark() {
        for conditions in [
            &[
                condition("Ready", "False", "Checking", "the gateway has not asked Slack yet"),
                condition("Reconciling", "True", "Checking", ""),
            ][..],
            &[condition("AwaitingUser", "True", "Asked", "lead waits")],
            &[condition("ModelsKnown", "False", "UnknownModel", "x")],
            &[condition("McpServersReady", "Unknown", "McpServersNotStarted", "")],
        ] {
            let findings = found("Repo", conditions);
            assert_eq!(findings.len(), 1, "{conditions:?}");
            assert_eq!(findings[0].0, FindingLevel::Remark, "{conditions:?}");
        }
        assert!(found("Repo", &[condition("EgressEnforced", "Unknown", "X", "")]).is_empty());
        assert!(
            found("Thread", &[condition("AwaitingUser", "False", "NothingAsked", "")]).is_empty()
        );
        assert_eq!(found("Repo", &[])[0].1, "NotLookedAt");
    }
}
