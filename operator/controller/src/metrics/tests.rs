use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::{ControllerMetrics, LookOutcome, ShownState};
use crate::caches::{closed_in, open_in};
use crate::index::{ObjectIndex, ObjectKey};
use crate::slots::{RepoSlots, SlotRequest};
use crate::testing;

/// A controller's metrics with `threads` Threads of `repos` Repos, as text.
fn shown(repos: &[Repo], threads: &[Thread], acts: bool) -> String {
    let (mut repo_cache, mut thread_cache) = (Writer::default(), Writer::default());
    for repo in repos {
        repo_cache.apply_watcher_event(&Event::Apply(repo.clone()));
    }
    let slots = Arc::new(RepoSlots::default());
    for thread in threads {
        thread_cache.apply_watcher_event(&Event::Apply(thread.clone()));
        let request = SlotRequest {
            thread: thread.metadata.name.as_deref().unwrap(),
            admitted: ["pm".to_owned()].into(),
            wanted: ["pm".to_owned(), "coder".to_owned()].into(),
            since: testing::now(),
        };
        slots.ask(&ObjectKey::new("team", &*thread.spec.repo), &LimitsSpec::default(), request);
    }
    let mut registry = codebutler_runtime::metrics::build_registry();
    let [open, closed] = indices(threads);
    let (threads_read, repos_read) = (thread_cache.as_reader(), repo_cache.as_reader());
    let shown = ShownState { threads: threads_read, open, closed, repos: repos_read, slots };
    let metrics = ControllerMetrics::register(&mut registry, shown);
    if acts {
        metrics.leads();
    }
    for thread in threads {
        let repo = format!("team/{}", thread.spec.repo);
        metrics.reconciled("Thread", LookOutcome::Done, Duration::from_millis(2));
        metrics.pod_started(&repo, "pm");
        metrics.waited(&repo, Duration::from_secs(3));
        let seats_of = ObjectKey::new("team", &*thread.spec.repo);
        metrics.seat_ended(&seats_of, Duration::from_mins(1));
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

/// The open ones and the closed ones.
fn indices(threads: &[Thread]) -> [Arc<ObjectIndex<Thread, ()>>; 2] {
    let all = [ObjectIndex::new(open_in), ObjectIndex::new(closed_in)].map(Arc::new);
    for event in threads.iter().cloned().map(Event::Apply) {
        for index in &all {
            index.apply(&event);
        }
    }
    all
}

#[test]
fn closed_threads_are_counted_and_not_walked_through() {
    let mut threads: Vec<Thread> = (0..20_000).map(|number| thread(number, "shop")).collect();
    for closed in &mut threads[1..] {
        closed.spec.state = ThreadState::Closed;
    }
    let mut cache = Writer::default();
    for thread in &threads {
        cache.apply_watcher_event(&Event::Apply(thread.clone()));
    }
    let [open, closed] = indices(&threads);
    let (repos, slots) = (Writer::default().as_reader(), Arc::default());
    let shown = ShownState { threads: cache.as_reader(), open, closed, repos, slots };
    assert_eq!(shown.open_threads().len(), 1);
    assert_eq!(shown.closed.counts(), [(ObjectKey::new("team", "shop"), 19_999)]);
}

fn repo(name: &str) -> Repo {
    let now = codebutler_runtime::calendar::find_moment(jiff::Timestamp::now(), "UTC");
    let mut repo = testing::repo();
    repo.metadata.name = Some(name.to_owned());
    repo.spec.limits.budget.per_day = Some("20".parse().unwrap());
    let status = json!({
        "spend": {"day": now.day, "settled": "1.5", "flagged": "0.25",
                  "hour": {"hour": now.hour, "calls": 7}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                        "lastTransitionTime": "2026-01-01T12:00:00Z"}],
    });
    repo.status = Some(serde_json::from_value(status).unwrap());
    repo
}

fn thread(number: usize, repo: &str) -> Thread {
    let queued = json!({"type": "Queued", "status": "True", "reason": "NoFreeSlot", "message": "",
                        "lastTransitionTime": "2026-01-01T12:00:00Z"});
    let phase = ["pm", "coder", "review"][number % 3];
    let mut thread = testing::thread(&json!({
        "phase": phase,
        "speaker": format!("U{number:05}"),
        "branch": format!("codebutler/shop-{number}"),
        "plan": {"ts": "1.000001", "hash": "h", "role": "pm"},
        "conditions": if number.is_multiple_of(2) { json!([queued]) } else { json!([]) },
    }));
    thread.metadata.name = Some(format!("shop-{number}"));
    thread.spec.repo = repo.to_owned();
    thread.spec.requested_by = Some(format!("U{number:05}"));
    thread
}

#[test]
fn what_stands_on_the_objects_is_shown_by_the_replica_that_acts() {
    let mut closed = thread(9, "shop");
    closed.spec.state = ThreadState::Closed;
    let threads = [thread(0, "shop"), thread(1, "shop"), thread(4, "gone"), closed];
    let text = shown(&[repo("shop")], &threads, true);
    for line in [
        "codebutler_controller_leader 1",
        r#"codebutler_threads{repo="team/shop",phase="coder"} 1.0"#,
        r#"codebutler_threads{repo="(none)",phase="coder"} 1.0"#,
        r#"codebutler_threads{repo="team/shop",phase="closed"} 1.0"#,
        r#"codebutler_threads_waiting{repo="team/shop",reason="slot"} 1.0"#,
        r#"codebutler_threads_waiting{repo="team/shop",reason="budget"} 0.0"#,
        r#"codebutler_decisions_waiting{repo="team/shop",kind="plan"} 2.0"#,
        r#"codebutler_slots_used{repo="team/shop",slot="runs"} 6.0"#,
        r#"codebutler_slots_allowed{repo="team/shop",slot="threads"} 3.0"#,
        r#"codebutler_budget_used_usd{repo="team/shop",state="settled"} 1.5"#,
        r#"codebutler_budget_used_usd{repo="team/shop",state="flagged"} 0.25"#,
        r#"codebutler_budget_allowed_usd{repo="team/shop"} 20.0"#,
        r#"codebutler_hourly_calls_used{repo="team/shop"} 7.0"#,
        r#"codebutler_hourly_calls_allowed{repo="team/shop"} 1000.0"#,
        r#"codebutler_repo_condition{repo="team/shop",condition="Ready"} 1.0"#,
        r#"codebutler_reconciles_total{kind="Thread",outcome="done"} 4"#,
        r#"codebutler_reconcile_duration_seconds_count{kind="Thread"} 4"#,
        r#"codebutler_pods_started_total{repo="team/shop",role="pm"} 3"#,
        r#"codebutler_queue_wait_seconds_sum{repo="team/shop"} 9.0"#,
        r#"codebutler_seat_seconds_total{repo="team/shop"} 180"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in:\n{text}");
    }
    let oldest = text.lines().find(|l| l.starts_with("codebutler_queue_oldest_wait_seconds{"));
    assert!(oldest.is_some_and(|l| !l.ends_with(" 0.0")), "{oldest:?}");

    let standby = shown(&[repo("shop")], &threads, false);
    assert!(!standby.contains("codebutler_threads{"), "{standby}");
    assert!(!standby.contains("codebutler_seat_seconds_total{"), "{standby}");
    assert!(standby.contains("codebutler_controller_leader 0\n"), "{standby}");
}

#[test]
fn yesterdays_money_is_not_todays() {
    let mut shop = repo("shop");
    shop.status.as_mut().unwrap().spend.as_mut().unwrap().day = "2026-01-01".to_owned();
    let text = shown(&[shop], &[], true);
    let line = r#"codebutler_budget_used_usd{repo="team/shop",state="settled"} 0.0"#;
    assert!(text.lines().any(|l| l == line), "{text}");
}

#[test]
fn five_thousand_threads_have_as_many_series_as_fifty() {
    let repos = ["shop", "cart", "site"].map(repo);
    let series = |count: usize| {
        let names = ["shop", "cart", "site"];
        let threads: Vec<Thread> = (0..count).map(|i| thread(i, names[(i / 3) % 3])).collect();
        let text = shown(&repos, &threads, true);
        assert!(!text.contains("shop-") && !text.contains("U0"), "an id is in a label");
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    assert_eq!(series(50), series(5000));
}

#[test]
fn budgets_of_teams_and_people_are_shown_without_a_persons_name() {
    let now = codebutler_runtime::calendar::find_moment(jiff::Timestamp::now(), "UTC");
    let mut shop = repo("shop");
    shop.spec.limits.budget = serde_json::from_value(json!({
        "people": {"default": {"perDay": "1", "perMonth": "9"}},
        "teams": [{"name": "payments", "members": ["U0ANA", "U0BEN"], "perMonth": "20"}],
    }))
    .unwrap();
    let spend = json!({
        "day": now.day, "month": now.month,
        "people": {
            "U0ANA": {"day": {"settled": "0.8"}, "month": {"settled": "4"}},
            "U0BEN": {"day": {"settled": "0.7"}, "month": {"settled": "0.5", "flagged": "1"}},
        },
    });
    shop.status.as_mut().unwrap().spend = Some(serde_json::from_value(spend).unwrap());
    let text = shown(&[shop.clone()], &[], true);
    for line in [
        r#"codebutler_team_budget_used_usd{repo="team/shop",team="payments",period="day"} 1.5"#,
        r#"codebutler_team_budget_used_usd{repo="team/shop",team="payments",period="month"} 5.5"#,
        r#"codebutler_team_budget_allowed_usd{repo="team/shop",team="payments",period="month"} 20.0"#,
        r#"codebutler_people_near_budget{repo="team/shop",period="day"} 1.0"#,
        r#"codebutler_people_near_budget{repo="team/shop",period="month"} 0.0"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in:\n{text}");
    }
    assert!(!text.contains("U0ANA") && !text.contains("payments\",period=\"day\"} 0.0"), "{text}");
    shop.status.as_mut().unwrap().spend.as_mut().unwrap().month = "2026-01".to_owned();
    let text = shown(&[shop], &[], true);
    let line =
        r#"codebutler_team_budget_used_usd{repo="team/shop",team="payments",period="month"} 0.0"#;
    assert!(text.lines().any(|l| l == line), "{text}");
}
