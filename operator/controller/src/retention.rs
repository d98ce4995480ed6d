//! Closed Threads that are old, or too many: each leaves a line on its Repo and one in the log, and
//! goes. The line is written before, so that a process that dies in between deletes it the next time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::history::{ClosedThread, KEPT, RetentionSpec};
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread, condition};
use codebutler_runtime::apply::ApplyError;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::context::ControllerContext;
use super::index::ObjectKey;

/// Interval between looks at all closed Threads.
const EVERY: Duration = Duration::from_mins(1);
/// Interval while something that is due still exists.
const AGAIN: Duration = Duration::from_secs(5);
/// However many there are, what is closed now may still be told of.
const FRESH: SignedDuration = SignedDuration::from_hours(1);
/// Threads of a Repo that go at one time: the line about each is kept.
const AT_ONCE: usize = KEPT / 2;

/// A closed Thread, with the line about it.
type RetainedThread = (Arc<Thread>, ClosedThread);

/// Looks after closed Threads until told to stop.
pub(crate) async fn run_retention(context: Arc<ControllerContext>, stop: CancellationToken) {
    // Until all Repos are known, every Thread would seem to have lost its own.
    if stop
        .run_until_cancelled(context.repos.wait_until_ready())
        .await
        .is_none_or(|ready| ready.is_err())
    {
        return;
    }
    while let Some(done) = stop.run_until_cancelled(Box::pin(retire_round(&context))).await {
        let pause = if done { EVERY } else { AGAIN };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Retires closed Threads once; true if none that is due is left.
async fn retire_round(context: &ControllerContext) -> bool {
    let threads = context.all_threads.state();
    let mut by_repo: HashMap<ObjectKey, Vec<RetainedThread>> = HashMap::new();
    // Parents of open Threads are kept, so that the children find them.
    let mut needed = HashSet::new();
    for thread in threads {
        let namespace = thread.namespace().unwrap_or_default();
        if thread.spec.state == ThreadState::Active {
            needed
                .extend(thread.spec.parent.clone().map(|parent| ObjectKey::new(namespace, parent)));
        } else if let Some(line) = closed_line(&thread) {
            by_repo
                .entry(ObjectKey::new(namespace, &thread.spec.repo))
                .or_default()
                .push((thread, line));
        }
    }
    let mut done = true;
    for (key, mut closed) in by_repo {
        // Threads whose Repo is gone remain here only if it did not own them, as when they were made by hand.
        let repo = context.repo(&key.namespace, &key.name);
        closed.retain(|(thread, _)| !needed.contains(&ObjectKey::of(&**thread)));
        let threads = repo.as_ref().and_then(|repo| repo.spec.threads).unwrap_or_default();
        let retention = threads.retention;
        let due = find_due(closed, retention, context.clock.now());
        done &= due.len() < AT_ONCE;
        let retired = match &repo {
            Some(repo) => retire_threads(context, repo, &due).await,
            None => delete_threads(context, &key, &due).await,
        };
        if let Err(error) = retired {
            tracing::info!(repo = %key, %error, "thread_deletion_delayed");
            done = false;
        }
    }
    done
}

/// The line about a Thread whose pods and volume are gone, and of which nobody has to be told.
fn closed_line(thread: &Thread) -> Option<ClosedThread> {
    let status = thread.status.as_ref()?;
    if !thread.finalizers().is_empty() || !status.conditions.iter().any(is_closed) {
        return None;
    }
    let changed = status.conditions.iter().map(|c| c.last_transition_time.0);
    let active = status.last_activity.as_ref().map(|time| time.0);
    let closed = changed.chain(active).max()?;
    ClosedThread::of(thread, Time(closed))
}

fn is_closed(c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition) -> bool {
    c.type_ == condition::READY && c.status == "True" && c.reason == "Closed"
}

/// Picks the closed Threads that go now, the oldest first.
fn find_due(
    mut closed: Vec<RetainedThread>,
    retention: RetentionSpec,
    now: Timestamp,
) -> Vec<RetainedThread> {
    closed.sort_by_key(|(_, line)| line.closed.0);
    let surplus = closed.len().saturating_sub(retention.keep as usize);
    let oldest = SignedDuration::from_hours(24 * i64::from(retention.days));
    let goes = |(index, (_, line)): &(usize, RetainedThread)| {
        let age = now.duration_since(line.closed.0);
        age >= FRESH && (age >= oldest || *index < surplus)
    };
    closed.into_iter().enumerate().filter(goes).map(|(_, one)| one).take(AT_ONCE).collect()
}

/// Writes the lines, then deletes.
async fn retire_threads(
    context: &ControllerContext,
    repo: &Repo,
    due: &[RetainedThread],
) -> Result<(), ApplyError> {
    let known = repo.status.as_ref().map(|status| status.history.clone()).unwrap_or_default();
    let new = due.iter().filter(|(_, line)| !known.iter().any(|old| old.uid == line.uid));
    let new: Vec<_> = new.map(|(_, line)| line.clone()).collect();
    for line in &new {
        audit_line(&ObjectKey::of(repo), line);
    }
    if !new.is_empty() {
        let history = add_lines(known, new);
        context.apply.status(repo, &json!({"history": history})).await?;
    }
    for (thread, _) in due {
        context.apply.delete(&**thread).await?;
    }
    Ok(())
}

/// Deletes those whose Repo is gone: there is nothing to write a line on but the log.
async fn delete_threads(
    context: &ControllerContext,
    repo: &ObjectKey,
    due: &[RetainedThread],
) -> Result<(), ApplyError> {
    for (thread, line) in due {
        audit_line(repo, line);
        context.apply.delete(&**thread).await?;
    }
    Ok(())
}

/// Appends the new lines; the oldest go first if there are too many.
fn add_lines(mut known: Vec<ClosedThread>, new: Vec<ClosedThread>) -> Vec<ClosedThread> {
    known.extend(new);
    let surplus = known.len().saturating_sub(KEPT);
    known.drain(..surplus);
    known
}

fn audit_line(repo: &ObjectKey, line: &ClosedThread) {
    tracing::info!(
        target: "codebutler::audit",
        repo = %repo,
        thread = line.name,
        uid = line.uid,
        closed = %line.closed.0,
        requested_by = line.requested_by,
        pull_request = line.pull_request,
        merge_commit = line.merge_commit,
        plan_approved_by = line.plan_approved_by,
        closed_by = line.closed_by,
        cost = line.cost.map(|cost| cost.to_string()),
        "thread_deleted"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(name: &str, at: &str) -> RetainedThread {
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
            "spec": {"repo": "shop", "state": "Closed", "prompt": "p", "requestedBy": "U1"},
            "status": {
                "cost": "1.5", "lastActivity": "2025-01-01T00:00:00Z",
                "pullRequest": {"number": 7, "url": "https://h/7", "mergeCommit": "abc"},
                "plan": {"ts": "2.000000", "hash": "h", "role": "pm", "approvedBy": "U2"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Closed",
                    "message": "m", "lastTransitionTime": at}]},
        }))
        .unwrap();
        let line = closed_line(&thread).unwrap();
        (Arc::new(thread), line)
    }

    fn names(due: &[RetainedThread]) -> Vec<&str> {
        due.iter().map(|(_, line)| line.name.as_str()).collect()
    }

    #[test]
    fn what_is_old_goes_and_what_is_too_much_but_nothing_that_was_closed_just_now() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let all = || {
            vec![
                closed("now", "2026-03-01T11:30:00Z"),
                closed("old", "2026-01-01T00:00:00Z"),
                closed("week", "2026-02-22T00:00:00Z"),
                closed("day", "2026-02-28T00:00:00Z"),
            ]
        };
        let keeps = |days, keep| find_due(all(), RetentionSpec { days, keep }, now);
        assert_eq!(names(&keeps(30, 200)), ["old"]);
        assert_eq!(names(&keeps(30, 2)), ["old", "week"]);
        assert_eq!(names(&keeps(365, 0)), ["old", "week", "day"]);
        assert_eq!(names(&keeps(365, 200)), [""; 0]);
        let line = closed("old", "2026-01-01T00:00:00Z").1;
        assert_eq!(
            (line.requested_by.as_deref(), line.plan_approved_by.as_deref()),
            (Some("U1"), Some("U2"))
        );
        assert_eq!(
            (line.merge_commit.as_deref(), line.cost),
            (Some("abc"), Some("1.5".parse().unwrap()))
        );
    }

    #[test]
    fn nobody_s_pods_volume_or_farewell_are_forgotten() {
        let (thread, _) = closed("t", "2026-01-01T00:00:00Z");
        let with = |change: fn(&mut Thread)| {
            let mut thread = (*thread).clone();
            change(&mut thread);
            closed_line(&thread)
        };
        assert!(with(|_| ()).is_some());
        assert_eq!(with(|t| t.spec.state = ThreadState::Active), None);
        assert_eq!(with(|t| t.metadata.finalizers = Some(vec!["f".into()])), None);
        let closing = |t: &mut Thread| {
            t.status.as_mut().unwrap().conditions[0].reason = "Closing".into();
        };
        assert_eq!(with(closing), None);
        let lines: Vec<_> = (0..KEPT + 3)
            .map(|n| ClosedThread { uid: n.to_string(), ..closed("t", "2026-01-01T00:00:00Z").1 })
            .collect();
        let kept = add_lines(lines[..KEPT].to_vec(), lines[KEPT..].to_vec());
        assert_eq!((kept.len(), kept[0].uid.as_str()), (KEPT, "3"));
    }
}
