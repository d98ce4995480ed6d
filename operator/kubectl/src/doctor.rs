//! `doctor`: what is not ready, and what to do about it. It reads conditions: what is wrong and how to correct it is
//! what controller and gateway have found out, in the words of their catalog of reasons; and whether those two run.

use codebutler_crds::condition::{
    AWAITING_USER, BUDGET_EXCEEDED, COLLECTING, EGRESS_ENFORCED, FINISHED, MODELS_KNOWN,
    OLD_SPELLING, PARALLEL, PREPARED_VOLUME_READY, QUEUED, READY, RECONCILING, SEATS_READY,
    SEATS_SET_UP, SPARSE_CHECKOUT_VALID, STALLED, SUSPENDED, WORKTREE_READY,
};
use codebutler_crds::reason::reasons_of;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::cluster::TeamCluster;
use crate::finding::{DoctorFinding, FindingLevel};
use crate::installation::look_at_installation;
use crate::nodes::look_at_nodes;
use crate::table::plain;
use crate::{PluginError, PluginTerminal};

/// Conditions of which `Ready` says what matters.
const SILENT: [&str; 4] = [RECONCILING, STALLED, WORKTREE_READY, FINISHED];
/// Conditions that are bad while they are true.
const BAD_IF_TRUE: [&str; 6] =
    [AWAITING_USER, BUDGET_EXCEEDED, COLLECTING, QUEUED, SUSPENDED, OLD_SPELLING];
/// Conditions with which work goes on, whatever they say.
const MILD: [&str; 11] = [
    AWAITING_USER,
    COLLECTING,
    QUEUED,
    SUSPENDED,
    OLD_SPELLING,
    MODELS_KNOWN,
    PARALLEL,
    SEATS_READY,
    SEATS_SET_UP,
    PREPARED_VOLUME_READY,
    SPARSE_CHECKOUT_VALID,
];

/// True if nothing has to be done.
pub(crate) async fn run_doctor(
    cluster: &TeamCluster,
    terminal: &mut PluginTerminal<'_>,
) -> Result<bool, PluginError> {
    let repos = cluster.repos().await?;
    let roles = cluster.roles().await?;
    let threads = cluster.threads().await?;
    let mut findings = look_at_installation(cluster).await;
    findings.extend(look_at_nodes(cluster).await);
    findings.extend(repos.iter().flat_map(look_at_repo));
    findings.extend(roles.iter().flat_map(look_at_role));
    findings.extend(threads.iter().flat_map(look_at_thread));
    findings.sort_by(|a, b| a.level.cmp(&b.level).then_with(|| a.what.cmp(&b.what)));
    for finding in &findings {
        print_finding(finding, terminal)?;
    }
    let place = if cluster.is_wide() { "all namespaces" } else { cluster.namespace() };
    if repos.is_empty() {
        if !cluster.is_wide() && cluster.lacks_namespace().await {
            terminal.say(&format!("There is no namespace {place}: name another one with -n."))?;
            return Ok(false);
        }
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

fn look_at_repo(repo: &Repo) -> Vec<DoctorFinding> {
    let conditions = repo.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("Repo", &repo.metadata, conditions)
}

fn look_at_role(role: &AgentRole) -> Vec<DoctorFinding> {
    let conditions = role.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("AgentRole", &role.metadata, conditions)
}

fn look_at_thread(thread: &Thread) -> Vec<DoctorFinding> {
    if thread.spec.state != ThreadState::Active {
        return Vec::new();
    }
    let conditions = thread.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    look_at("Thread", &thread.metadata, conditions)
}

fn look_at(kind: &str, object: &ObjectMeta, conditions: &[Condition]) -> Vec<DoctorFinding> {
    let named = |name: &Option<String>| name.clone().unwrap_or_default();
    let what = format!("{kind} {}/{}", named(&object.namespace), named(&object.name));
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
    findings.extend(judge_generation(&what, object.generation, conditions));
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

/// A status of an older version says nothing of what somebody has just changed.
fn judge_generation(
    what: &str,
    generation: Option<i64>,
    conditions: &[Condition],
) -> Option<DoctorFinding> {
    let ready = conditions.iter().find(|condition| condition.type_ == READY)?;
    let is_old = generation? > ready.observed_generation?;
    is_old.then(|| DoctorFinding {
        level: FindingLevel::Trouble,
        what: what.to_owned(),
        reason: "OutdatedStatus".to_owned(),
        said: "No controller has looked at its newest version yet.".to_owned(),
        todo: "Ask again in a minute; if it stays so, see that the controller runs.".to_owned(),
    })
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

    fn object(generation: i64) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("team".to_owned()),
            name: Some("shop".to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        }
    }

    fn found(kind: &str, conditions: &[Condition]) -> Vec<(FindingLevel, String, String)> {
        let findings = look_at(kind, &object(3), conditions);
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
    fn a_status_of_an_older_version_is_not_believed() {
        let mut ready = condition("Ready", "True", "Ready", "");
        ready.observed_generation = Some(2);
        assert_eq!(found("Repo", std::slice::from_ref(&ready))[0].1, "OutdatedStatus");
        ready.observed_generation = Some(3);
        assert!(found("Repo", &[ready]).is_empty());
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
