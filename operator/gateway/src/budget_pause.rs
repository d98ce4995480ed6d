//! Messages to people about money: that a cap is near, that a role waits for them, and that another model stands in.
//! The words are pure; those that are posted once have a key.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use codebutler_crds::spend::{BudgetAsk, CallLimit};
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{NanoUsd, Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::moments;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_gateway_core::threads::{ThreadWriter, WriteError, explain_unwritten};
use codebutler_models::budget::limits::{CallCaps, ExceededLimit};
use codebutler_models::budget::notices::BudgetNotices;
use codebutler_models::budget::purse::RoadmapBudget;
use codebutler_models::budget::{Ledger, NearCap, sentences, shares};
use codebutler_runtime::calendar;
use codebutler_runtime::queue::FollowUp;
use codebutler_runtime::tasks::TaskGroup;
use codebutler_slack::questions::budget::{BudgetAsked, go_on};
use codebutler_slack::{SlackGateway, usage};
use jiff::Timestamp;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::work::WorkServices;

/// Time between two looks for limits that have given way.
const EVERY: Duration = Duration::from_secs(2);

/// Talks to people through Slack. Cheap to clone.
#[derive(Clone)]
pub struct SlackBudget {
    ledger: Ledger,
    threads: ThreadWriter,
    slack: SlackGateway,
    calls: TaskGroup,
}

impl SlackBudget {
    /// Makes one that talks through these; `calls` holds what is posted beside a call.
    pub fn new(
        ledger: Ledger,
        threads: ThreadWriter,
        slack: SlackGateway,
        calls: TaskGroup,
    ) -> Self {
        Self { ledger, threads, slack, calls }
    }

    fn post(&self, caller: &ProvenCaller, id: String, text: String, people: Vec<String>) {
        let (slack, key) = (self.slack.clone(), caller.key());
        self.calls.spawn(async move {
            if let Err(error) = slack.notice_to(&key, &id, &text, &people).await {
                tracing::warn!(thread = key.name, %error, notice = "budget", "notice_post_failed");
            }
        });
    }
}

#[async_trait]
impl BudgetNotices for SlackBudget {
    async fn ask_money(
        &self,
        caller: &ProvenCaller,
        exceeded: &ExceededLimit,
    ) -> Result<String, ApiError> {
        let key = caller.key();
        self.ledger.flush(&key).await;
        let _turn = self.ledger.lock_questions(&key).await;
        let thread = self.threads.read(&key).await.map_err(|error| explain_unwritten(&error))?;
        let status = thread.status.clone().unwrap_or_default();
        let budget = status.budget.clone().unwrap_or_default();
        let role = caller.role_name().to_owned();
        let is_same = |ask: &&BudgetAsk| ask.limit == exceeded.limit && ask.of == exceeded.of;
        let open = budget.ask.as_ref().filter(is_same);
        let number = if open.is_some() { budget.asked } else { budget.asked + 1 };
        let question = BudgetAsked {
            limit: exceeded.limit,
            cap: exceeded.cap,
            until: exceeded.until,
            role,
            of: exceeded.of.clone(),
            number,
        };
        let contacts = &caller.repo.spec.limits.budget.contacts;
        let sentence = sentences::describe_limit(exceeded, &caller.repo.name_any(), contacts);
        let table = if exceeded.cap.is_some() && !exceeded.limit.is_of_people() {
            usage::usage_table(&status)
        } else {
            String::new()
        };
        let name = &caller.role.spec.display.name;
        let text = format!("{name} waits: {sentence}\n{table}");
        let id = format!("budget-{number}");
        let mut people = contacts.clone();
        people.extend(exceeded.of.clone());
        self.slack.ask_money(&key, &id, (text.trim(), &people), &question).await?;
        let were = if exceeded.limit.is_of_people() { "know" } else { "were asked" };
        let spelled = moments::spell_marks(&sentence);
        Ok(format!("{spelled} The people of the thread {were}; wait for the decision `budget`."))
    }

    fn report_near(&self, caller: &ProvenCaller, near: NearCap) {
        let id = sentences::key_of_near(&near);
        let text = sentences::describe_near(&near, &caller.repo.name_any());
        let (threads, thread) = (self.threads.clone(), Arc::clone(&caller.thread));
        self.calls
            .spawn(async move { threads.warn_of_budget(&thread, near.limit, near.cap).await });
        self.post(caller, id, text, near.of.into_iter().collect());
    }

    fn report_fallback(&self, caller: &ProvenCaller, asked: &str, instead: &str, since: Instant) {
        if !self.ledger.is_new_fallback(caller.key(), asked, since) {
            return;
        }
        let broke = SystemTime::now()
            .checked_sub(since.elapsed())
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok().map(|at| at.as_secs()));
        let hash = hex::encode(&Sha256::digest(asked)[..4]);
        let id = format!("model-{hash}-{}", broke.unwrap_or_default());
        let text = format!("The model `{asked}` fails: `{instead}` answers for the next minutes.");
        self.post(caller, id, text, Vec::new());
    }

    fn report_short_credit(
        &self,
        caller: &ProvenCaller,
        (model, secret): (&str, &str),
        tokens: u32,
    ) {
        let day = calendar::find_moment(Timestamp::now(), &caller.repo.spec.limits.time_zone).day;
        let text = format!(
            "The credit of Secret `{secret}` is nearly used up: `{model}` may answer with {tokens} \
             tokens at most. Add some before the work stops."
        );
        self.post(caller, format!("credit-{day}"), text, Vec::new());
    }
}

/// Wakes the roles whose limits have given way: by time, or because somebody changed the Repo.
pub async fn wake_paused(gateway: &WorkServices) {
    let queue = ThreadQueue::new(&gateway.context.attended, asks_for_more, (EVERY, EVERY));
    drive_one_by_one(queue, &gateway.shutdown, LimitReconciler { gateway }).await;
}

struct LimitReconciler<'a> {
    gateway: &'a WorkServices,
}

impl ThreadReconciler for LimitReconciler<'_> {
    const NAME: &'static str = "budget_pause";
    type Error = WriteError;

    async fn reconcile(
        &mut self,
        key: &ThreadKey,
        thread: &Thread,
    ) -> Result<FollowUp, WriteError> {
        let (context, threads) = (&self.gateway.context, &self.gateway.threads);
        if let Some(repo) = context.repo(&key.namespace, &thread.spec.repo) {
            let shared = || RoadmapBudget::of(context, thread, &repo).map(|purse| purse.cap);
            if has_given_way(thread, &repo, Timestamp::now(), shared) {
                threads.try_update(key, |status| go_on(status, false, "")).await?;
            }
        }
        Ok(FollowUp::requeue(EVERY))
    }

    fn forget(&mut self, _: &ThreadKey) {}
}

/// True if a budget or another limit holds up the Thread.
fn asks_for_more(thread: &Thread) -> bool {
    let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
    budget.is_some_and(|budget| budget.ask.is_some())
}

/// True if a Thread's limit has given way. `shared`: what it may cost together with others.
fn has_given_way(
    thread: &Thread,
    repo: &Repo,
    now: Timestamp,
    shared: impl FnOnce() -> Option<NanoUsd>,
) -> bool {
    let budget = thread.status.as_ref().and_then(|status| status.budget.as_deref());
    let Some(BudgetAsk { limit, cap, until, of, .. }) = budget.and_then(|b| b.ask.as_ref()) else {
        return false;
    };
    if thread.spec.state == ThreadState::Closed {
        return false;
    }
    let limits = &repo.spec.limits;
    let caps = CallCaps::of(limits, budget, &calendar::find_moment(now, &limits.time_zone).day);
    let more = |now: Option<NanoUsd>| match (now, cap) {
        (Some(now), Some(then)) => now > *then,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    until.as_ref().is_some_and(|until| until.0 <= now)
        || match limit {
            CallLimit::PerThread => more(caps.thread),
            CallLimit::PerDay => more(caps.day),
            CallLimit::PerRoadmap => more(shared()),
            CallLimit::CallsPerHour | CallLimit::CallsPerUserPerHour => false,
            CallLimit::PersonPerDay
            | CallLimit::PersonPerMonth
            | CallLimit::TeamPerDay
            | CallLimit::TeamPerMonth => {
                let person = shares::charged_person(thread).unwrap_or_default();
                let of = of.as_deref().unwrap_or_default();
                more(shares::current_cap(&limits.budget, *limit, of, person))
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repo(per_thread: &str) -> Repo {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "metadata": {"name": "shop"},
            "spec": {
                "git": {"url": "https://git.example.org/o/n", "credentials": {"name": "git"}},
                "slack": {"channel": "C0123", "credentials": {"name": "slack"}},
                "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
                "limits": {"budget": {"perThread": per_thread}},
            },
        }))
        .unwrap()
    }

    fn thread(ask: &serde_json::Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "slack": {"channel": "C01", "ts": "1.000000"}},
            "status": {"budget": {"ask": ask}},
        }))
        .unwrap()
    }

    #[test]
    fn a_limit_gives_way_in_time_or_when_it_is_raised() {
        let none = || None;
        let now: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        let money = thread(
            &json!({"ts": "5.000000", "limit": "perThread", "roles": ["pm"], "cap": "1.00"}),
        );
        assert!(!has_given_way(&money, &repo("1.00"), now, none));
        assert!(has_given_way(&money, &repo("1.50"), now, none));
        let calls = |until: &str| {
            thread(
                &json!({"ts": "5.000000", "limit": "callsPerHour", "roles": ["pm"], "until": until}),
            )
        };
        assert!(!has_given_way(&calls("2026-11-22T11:00:00Z"), &repo("1.00"), now, none));
        assert!(has_given_way(&calls("2026-11-22T10:00:00Z"), &repo("1.00"), now, none));
        let shared = thread(
            &json!({"ts": "5.000000", "limit": "perRoadmap", "roles": ["pm"], "cap": "1.00"}),
        );
        let cap = |cents: u64| move || Some(NanoUsd(cents * 10_000_000));
        assert!(!has_given_way(&shared, &repo("9.00"), now, cap(100)));
        assert!(has_given_way(&shared, &repo("9.00"), now, cap(101)));
    }
}
