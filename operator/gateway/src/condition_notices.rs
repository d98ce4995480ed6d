//! Tells the controller's conditions of a Thread in the thread itself: that it waits for its turn, or what keeps a
//! role from working. Each of them once; the key is found again in Slack.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, SlackTs, Thread, condition};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::moments::mark_moment;
use codebutler_gateway_core::reminders::WorkingHours;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_gateway_core::threads::open_questions;
use codebutler_runtime::queue::FollowUp;
use codebutler_slack::SlackGateway;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::collect::{collect_thread, is_due};
use crate::work::WorkServices;

/// Interval of looks at conditions: brief ones are not told.
const EVERY: Duration = Duration::from_secs(2);

/// Interval before a Thread that could not be collected is retried.
const RETRY: Duration = Duration::from_mins(5);
/// Interval before a Thread that could not be told is retried.
const LATER: Duration = Duration::from_secs(20);
/// Time that people have to object to the end of a thread: the day that its warning promises, less what its post takes.
const OBJECT: SignedDuration = SignedDuration::from_hours(23);
/// Time for which a thread that could not be warned is kept, such as one in an archived channel.
const UNWARNED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Most by which the clocks of Slack and of the cluster may differ.
const CLOCKS: SignedDuration = SignedDuration::from_hours(1);
/// Minimum duration of a condition that is worth a message.
const BRIEF: SignedDuration = SignedDuration::from_secs(5);

/// Reasons of `Ready=False` that somebody has to hear, and that no other part tells.
const TROUBLES: [&str; 25] = [
    "AgentHangs",
    "ContainerCrashes",
    "ContainerNotCreated",
    "GatewayAway",
    "GatewayNotFound",
    "GatewayRefuses",
    "ImageNotPulled",
    "NameTaken",
    "NotAccepted",
    "ParentElsewhere",
    "ParentNotFound",
    "ParentTooDeep",
    "PodFailing",
    "PodNotEnding",
    "PodNotStarted",
    "PodUnschedulable",
    "PromptNotFound",
    "QuotaTooSmall",
    "Rejected",
    "RoleNotFound",
    "SandboxUnavailable",
    "VolumeLost",
    "VolumeNotWritable",
    "VolumePending",
    "VolumeUnreachable",
];

/// Reasons of `Ready=False` that pass by themselves, and that somebody has to hear all the same: at
/// once, since they do not last.
const PAUSES: [&str; 4] = ["AgentHung", "OutOfDisk", "OutOfMemory", "PodEvicted"];

/// Tells until the gateway stops.
pub async fn run_notices(gateway: &WorkServices) {
    let queue = ThreadQueue::new(&gateway.context.attended, may_be_told, (LATER, LATER));
    let (said, collected) = (HashMap::new(), HashMap::new());
    let telling = TellingReconciler { gateway, said, collected };
    drive_one_by_one(queue, &gateway.shutdown, telling).await;
}

/// Reconciler of notices. What it remembers saves requests, and may be lost.
struct TellingReconciler<'a> {
    gateway: &'a WorkServices,
    /// Keys of notices that were told and still hold.
    said: HashMap<ThreadKey, HashSet<String>>,
    /// Time of the latest attempt to collect a Thread.
    collected: HashMap<ThreadKey, Instant>,
}

impl ThreadReconciler for TellingReconciler<'_> {
    const NAME: &'static str = "notices";
    type Error = ApiError;

    async fn reconcile(&mut self, key: &ThreadKey, thread: &Thread) -> Result<FollowUp, ApiError> {
        let WorkServices { context, slack, threads, .. } = self.gateway;
        if is_due(thread)
            && !owes_warning(thread, Timestamp::now())
            && self.collected.get(key).is_none_or(|at| at.elapsed() > RETRY)
            && let Some(repo) = context.repo(&key.namespace, &thread.spec.repo)
        {
            self.collected.insert(key.clone(), Instant::now());
            if let Err(error) = collect_thread(context, slack, threads, thread, &repo).await {
                tracing::warn!(thread = key.name, %error, "thread_collection_failed");
            }
            return Ok(FollowUp::hold_off(LATER));
        }
        let before = self.said.remove(key).unwrap_or_default();
        let mut now = HashSet::new();
        let moment = Timestamp::now();
        let repo = context.repo(&key.namespace, &thread.spec.repo);
        let reminder = repo.and_then(|repo| due_reminder(thread, &repo, moment));
        for ToldWord { id, text, kind } in reminder.into_iter().chain(due_words(thread, moment)) {
            if !before.contains(&id)
                && let Err(error) = tell_word(slack, (key, &id), &text, kind).await
            {
                self.said.insert(key.clone(), now);
                bury_thread(self.gateway, thread).await;
                return Err(error);
            }
            now.insert(id);
        }
        self.said.insert(key.clone(), now);
        Ok(FollowUp::requeue(EVERY))
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.said.remove(key);
        self.collected.remove(key);
    }
}

/// True if any of its conditions can be something to tell, sooner or later.
fn may_be_told(thread: &Thread) -> bool {
    let holds = |c: &Condition| match &*c.type_ {
        condition::READY => c.status != "True",
        condition::QUEUED | condition::AWAITING_USER | condition::BUDGET_EXCEEDED => {
            c.status == "True"
        }
        condition::COLLECTING => true,
        _ => false,
    };
    let conditions = thread.status.iter().flat_map(|status| &status.conditions);
    thread.spec.state == ThreadState::Active && conditions.into_iter().any(holds)
}

/// True while people have not had their day to object to the Thread's end: its warning came late, or not yet.
fn owes_warning(thread: &Thread, now: Timestamp) -> bool {
    let Some(status) = &thread.status else { return false };
    let silent = status.conditions.iter().find(|c| c.type_ == condition::COLLECTING);
    let Some(since) = silent.map(|c| c.last_transition_time.0) else { return false };
    // One about an earlier silence says nothing of this one.
    let warned = status.warned.as_ref().and_then(time_of);
    let warned = warned.filter(|at| since.duration_since(*at) < CLOCKS);
    now.duration_since(since) < UNWARNED && warned.is_none_or(|at| now.duration_since(at) < OBJECT)
}

/// A conversation that was deleted before its Thread could be warned: nobody is left who could object.
async fn bury_thread(gateway: &WorkServices, thread: &Thread) {
    let WorkServices { context, slack, threads, .. } = gateway;
    let (namespace, name) = (thread.namespace().unwrap_or_default(), thread.name_any());
    let conditions = thread.status.iter().flat_map(|status| &status.conditions);
    let silent = conditions.into_iter().any(|c| c.type_ == condition::COLLECTING);
    let Some(repo) = context.repo(&namespace, &thread.spec.repo).filter(|_| silent) else { return };
    if slack.is_deleted(&repo, thread).await
        && let Err(error) = collect_thread(context, slack, threads, thread, &repo).await
    {
        tracing::warn!(thread = name, %error, "thread_collection_failed");
    }
}

async fn tell_word(
    slack: &SlackGateway,
    (thread, id): (&ThreadKey, &str),
    text: &str,
    kind: WordKind,
) -> Result<(), ApiError> {
    match kind {
        WordKind::Notice => slack.notice(thread, id, text).await.map(drop),
        WordKind::Warning => slack.warn(thread, id, text).await,
        WordKind::Reminder => slack.remind(thread, id, text).await,
    }
}

/// Something to tell, with the key under which it is told once.
#[derive(Debug, PartialEq, Eq)]
struct ToldWord {
    id: String,
    text: String,
    kind: WordKind,
}

/// Audience of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    /// A message to whoever reads the thread.
    Notice,
    /// A question whether to keep the thread.
    Warning,
    /// A message that mentions all who have to do with the thread.
    Reminder,
}

fn due_words(thread: &Thread, now: Timestamp) -> Vec<ToldWord> {
    let Some(status) = thread.status.as_ref().filter(|_| thread.spec.state == ThreadState::Active)
    else {
        return Vec::new();
    };
    let said = |c: &Condition, words: &str, id: &str| ToldWord {
        kind: WordKind::Notice,
        id: format!("{id}-{}-{}", c.reason, c.last_transition_time.0.as_second()),
        text: format!("{words}: {}.", c.message.trim_end_matches('.')),
    };
    let paused = status.conditions.iter().find(|c| {
        c.type_ == condition::READY && c.status == "False" && PAUSES.contains(&c.reason.as_str())
    });
    let paused = paused.map(|c| said(c, "I have to pause", "pause"));
    let lasts = |c: &Condition| now.duration_since(c.last_transition_time.0) > BRIEF;
    let find = |type_: &str| status.conditions.iter().find(|c| c.type_ == type_ && lasts(c));
    let since = |c: &Condition| c.last_transition_time.0.as_second();
    let queued = find(condition::QUEUED).filter(|c| c.status == "True").zip(status.queue_position);
    let queued = queued.map(|(c, position)| ToldWord {
        kind: WordKind::Notice,
        id: format!("queued-{}", since(c)),
        text: format!(
            "All places are taken: this thread is number {position} in the queue and starts by \
             itself when it is its turn."
        ),
    });
    let trouble = find(condition::READY)
        .filter(|c| c.status == "False" && TROUBLES.contains(&c.reason.as_str()));
    let trouble = trouble.map(|c| said(c, "I can't go on", "trouble"));
    // Nobody has to hear of it where nothing waits.
    let waits = |reason: &str| find(condition::READY).is_some_and(|c| c.reason == reason);
    let held = find(condition::SUSPENDED).filter(|_| waits("RepoSuspended"));
    let held = held.map(|c| said(c, "I can't go on", "trouble"));
    let full = find(condition::READY).filter(|_| waits("QuotaExceeded") || waits("PodHeldBack"));
    let full = full.map(|c| said(c, "I have to wait", "waits"));
    let collecting = find(condition::COLLECTING)
        .filter(|c| c.reason == "Warned" || (is_due(thread) && owes_warning(thread, now)));
    let collecting = collecting.map(|c| ToldWord {
        kind: WordKind::Warning,
        id: format!("collecting-{}", since(c)),
        text:
            "Nobody has written here for two days. In a day I remove worktree and branch and close \
               this thread; write “keep”, or anything else, to stop that."
                .to_owned(),
    });
    queued
        .into_iter()
        .chain(paused)
        .chain(trouble)
        .chain(held)
        .chain(full)
        .chain(collecting)
        .collect()
}

/// Time at which a message was written.
fn time_of(ts: &SlackTs) -> Option<Timestamp> {
    let (seconds, _) = ts.parts();
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

/// A reminder of the newest question that people have not answered, once its time has come.
fn due_reminder(thread: &Thread, repo: &Repo, now: Timestamp) -> Option<ToldWord> {
    let status = thread.status.as_ref().filter(|_| thread.spec.state == ThreadState::Active)?;
    let wanted = repo.spec.reminders.as_ref()?;
    let waits = |c: &&Condition| c.type_ == condition::AWAITING_USER && c.status == "True";
    let waits = status.conditions.iter().find(waits);
    // A limit that gives way by itself, or is raised elsewhere, needs nobody there.
    let money = status.budget.as_ref().and_then(|budget| budget.ask.as_ref());
    let money = money.filter(|ask| ask.until.is_none() && ask.limit.is_raised_in_thread());
    let questions = waits.map(|_| status.questions_of_roles()).unwrap_or_default();
    let mut deeds: Vec<_> = questions.iter().map(|one| one.deed()).collect();
    deeds.extend(money.map(|_| "to raise the budget"));
    let asked = match waits {
        Some(_) => open_questions(status).into_iter().chain(status.asked.clone()).max(),
        None => money.map(|ask| ask.ts.clone()),
    };
    let begun = waits.map(|condition| condition.last_transition_time.0);
    let since = asked.as_ref().and_then(time_of).or(begun)?;
    let hours = WorkingHours::of(wanted, &repo.spec.limits.time_zone);
    let number = hours.count_reminders(since, now)?;
    let id =
        asked.map_or_else(|| since.as_second().to_string(), |ts| ts.as_str().replace('.', "-"));
    Some(ToldWord {
        kind: WordKind::Reminder,
        id: format!("remind-{id}-{number}"),
        text: format!(
            "This thread still waits for people {}, since {}.",
            deeds.join(" and "),
            mark_moment(since)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn thread(state: &str, status: &serde_json::Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "state": state,
                     "slack": {"channel": "C0TEAM", "ts": "1767268700.000100"}},
            "status": status,
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> serde_json::Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": NOON})
    }

    fn words(thread: &Thread) -> Vec<ToldWord> {
        due_words(thread, "2026-01-01T12:00:30Z".parse().unwrap())
    }

    #[test]
    fn waiting_and_trouble_are_told_under_keys_that_last_as_long_as_they_do() {
        let mut status = json!({"queuePosition": 2, "conditions": [
            condition("Queued", "True", "NoFreeSlot", "waits"),
            condition("Ready", "False", "Queued", "all slots are in use")]});
        let first = words(&thread("Active", &status));
        assert_eq!(first.len(), 1);
        assert!(first[0].text.contains("number 2"), "{first:?}");
        status["queuePosition"] = json!(1);
        assert_eq!(words(&thread("Active", &status))[0].id, first[0].id, "told once");

        let stuck = json!({"conditions": [condition(
            "Ready", "False", "ImageNotPulled", "image `debain:12` can't be pulled: correct it")]});
        let told = words(&thread("Active", &stuck));
        assert!(told[0].id.starts_with("trouble-ImageNotPulled-"), "{told:?}");
        assert!(told[0].text.contains("debain:12"), "{told:?}");
        assert!(words(&thread("Closed", &stuck)).is_empty());

        let moving =
            json!({"conditions": [condition("Ready", "False", "PodStarting", "starting")]});
        assert!(words(&thread("Active", &moving)).is_empty());

        let evicted =
            json!({"conditions": [condition("Ready", "False", "PodEvicted", "it is back")]});
        let paused = due_words(&thread("Active", &evicted), NOON.parse().unwrap());
        assert_eq!(paused[0].text, "I have to pause: it is back.");

        let held = json!({"conditions": [
            condition("Ready", "True", "RepoSuspended", "spec.suspend"),
            condition("Suspended", "True", "RepoSuspended", "Repo `shop` is suspended")]});
        assert_eq!(
            words(&thread("Active", &held))[0].text,
            "I can't go on: Repo `shop` is suspended."
        );
        let asleep = json!({"conditions": [
            condition("Ready", "True", "Asleep", "nothing to do"),
            condition("Suspended", "True", "RepoSuspended", "Repo `shop` is suspended")]});
        assert!(words(&thread("Active", &asleep)).is_empty(), "nothing waits");
        let full = json!({"conditions": [
            condition("Ready", "False", "QuotaExceeded", "waits for room")]});
        assert_eq!(words(&thread("Active", &full))[0].text, "I have to wait: waits for room.");
        let held = json!({"conditions": [
            condition("Ready", "False", "PodHeldBack", "a queue holds it")]});
        assert_eq!(words(&thread("Active", &held))[0].text, "I have to wait: a queue holds it.");

        let at_once = "2026-01-01T12:00:02Z".parse().unwrap();
        assert!(due_words(&thread("Active", &stuck), at_once).is_empty(), "may pass");
    }

    #[test]
    fn people_have_a_day_to_object_to_the_end_however_late_its_warning_comes() {
        let owes = |warned: Option<&str>, now: &str| {
            let status = json!({"warned": warned,
                "conditions": [condition("Collecting", "True", "Due", "silent for three days")]});
            let (thread, now) = (thread("Active", &status), now.parse().unwrap());
            let is_told = due_words(&thread, now).iter().any(|word| word.kind == WordKind::Warning);
            assert_eq!(is_told, owes_warning(&thread, now));
            is_told
        };
        // Warned ten seconds after noon of the first, and at noon of the fifth.
        let (early, late) = (Some("1767268810.000100"), Some("1767614400.000100"));
        assert!(!owes(early, "2026-01-02T12:00:00Z"));
        assert!(owes(None, "2026-01-02T12:00:00Z"));
        assert!(owes(late, "2026-01-06T10:00:00Z"));
        assert!(!owes(late, "2026-01-06T12:00:00Z"));
        assert!(owes(Some("1767182400.000100"), "2026-01-02T12:00:00Z"), "of an earlier silence");
        assert!(!owes(None, "2026-01-08T13:00:00Z"), "nobody can be warned");
    }

    #[test]
    fn people_are_reminded_of_the_newest_question_where_the_repo_wants_that() {
        let waits = |status: &str| {
            json!({"asked": "1767268800.000100", "conditions": [
                condition("AwaitingUser", status, "Asked", "`lead` waits")]})
        };
        let repo = |reminders: serde_json::Value| -> Repo {
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
                "metadata": {"name": "shop"},
                "spec": {
                    "git": {"url": "https://git.example/o/n", "credentials": {"name": "git"}},
                    "slack": {"channel": "C0123", "credentials": {"name": "slack"}},
                    "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
                    "reminders": reminders,
                },
            }))
            .unwrap()
        };
        let wanted = repo(json!({"hours": 2, "weekends": true}));
        // Asked on Thursday, at 12:00.
        let at = |now: &str, status: &str, repo: &Repo| {
            let word = due_reminder(&thread("Active", &waits(status)), repo, now.parse().unwrap());
            word.map(|word| format!("{}: {}", word.id, word.text))
        };
        assert_eq!(at("2026-01-01T13:59:00Z", "True", &wanted), None);
        let due = at("2026-01-01T14:01:00Z", "True", &wanted);
        let expected = "remind-1767268800-000100-0: This thread still waits for people to answer a question, since <t:1767268800>.";
        assert_eq!(due.as_deref(), Some(expected));
        assert_eq!(at("2026-01-01T14:01:00Z", "False", &wanted), None, "answered");
        let mut roadmap = waits("True");
        roadmap["roadmap"] = json!({"wanted": "1767268700.000100", "by": "U1",
            "proposal": {"ts": "1767268800.000100", "items": [{"id": "1", "hash": "h"}]}});
        let now = "2026-01-01T14:01:00Z".parse().unwrap();
        let word = due_reminder(&thread("Active", &roadmap), &wanted, now).unwrap();
        assert!(word.text.contains("waits for people to start the roadmap, since"), "{word:?}");
        assert_eq!(at("2026-01-01T14:01:00Z", "True", &repo(serde_json::Value::Null)), None);

        // Its roles have mail, so that nobody counts as asked; it goes on with a person's answer all the same.
        let mut ask = json!({"ts": "1767268800.000100", "limit": "perThread", "roles": ["pm"]});
        let money = |ask: &serde_json::Value| {
            let reached = condition("BudgetExceeded", "True", "LimitReached", "`pm` waits");
            let thread =
                thread("Active", &json!({"budget": {"ask": ask}, "conditions": [reached]}));
            assert!(may_be_told(&thread));
            due_reminder(&thread, &wanted, now).map(|word| format!("{}: {}", word.id, word.text))
        };
        let expected = "remind-1767268800-000100-0: This thread still waits for people to raise the budget, since <t:1767268800>.";
        assert_eq!(money(&ask).as_deref(), Some(expected));
        let of_person = json!({"ts": "1767268800.000100", "limit": "personPerMonth", "of": "U1"});
        assert_eq!(money(&of_person), None, "nobody raises it in the thread");
        ask["until"] = json!("2026-01-02T00:00:00Z");
        assert_eq!(money(&ask), None, "it goes on by itself");
    }
}
