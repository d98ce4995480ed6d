//! Tests of a Thread's conditions as Flux, Argo CD and `kubectl wait` read them, and of its size in etcd.

use super::*;

/// Computes the status as `sigs.k8s.io/cli-utils/pkg/kstatus` does for custom resources.
fn kstatus(thread: &Thread) -> &'static str {
    let status = thread.status.clone().unwrap_or_default();
    let is = |type_: &str, wanted: &str| {
        status.conditions.iter().any(|c| c.type_ == type_ && c.status == wanted)
    };
    if status.observed_generation != thread.metadata.generation {
        "InProgress"
    } else if is("Stalled", "True") {
        "Failed"
    } else if is("Reconciling", "True") || is("Ready", "False") || is("Ready", "Unknown") {
        "InProgress"
    } else {
        "Current"
    }
}

/// Applies a plan and checks the invariants of the conditions.
fn step(thread: &mut Thread, world: &ObservedThread) -> &'static str {
    *thread = after(thread, &plan(thread, world));
    let conditions = &thread.status.as_ref().unwrap().conditions;
    let is = |type_: &str| condition::is_true(conditions, type_);
    assert!(!(is("Ready") && (is("Reconciling") || is("Stalled"))), "{conditions:?}");
    assert!(!(is("Reconciling") && is("Stalled")), "{conditions:?}");
    for c in conditions {
        assert_eq!(c.observed_generation, thread.metadata.generation, "{}", c.type_);
        assert!(!c.reason.is_empty() && !c.message.is_empty(), "{c:?}");
        assert!(matches!(c.type_.as_str(), "Reconciling" | "Stalled") <= (c.status == "True"));
    }
    kstatus(thread)
}

#[test]
fn tools_that_read_conditions_are_right_at_every_moment() {
    let mut thread = with_mail();
    assert_eq!(kstatus(&thread), "InProgress", "before anybody has looked");
    let mut world = ObservedThread { admission: only(&[], Some(1)), ..world() };
    assert_eq!(step(&mut thread, &world), "InProgress", "queued");
    world.admission = RoleAdmission::All;
    assert_eq!(step(&mut thread, &world), "InProgress", "starting");
    world.volume = Some(claim(&thread, "Bound"));
    world.pods = vec![pod(&thread, "pm", "a", json!({"phase": "Running"}))];
    assert_eq!(step(&mut thread, &world), "Current", "at work");
    world.pods = vec![pod(&thread, "pm", "a", crash())];
    assert_eq!(step(&mut thread, &world), "InProgress", "to be tried again");
    thread.status.as_mut().unwrap().roles.get_mut("pm").unwrap().failures = 5;
    assert_eq!(step(&mut thread, &world), "Failed", "given up");
    thread.metadata.generation = Some(2);
    thread.spec.state = ThreadState::Closed;
    assert_eq!(kstatus(&thread), "InProgress", "not looked at yet");
    assert_eq!(step(&mut thread, &world), "InProgress", "closing");
    world.pods.clear();
    world.volume = None;
    assert_eq!(step(&mut thread, &world), "Current", "closed");
}

#[test]
fn six_used_roles_fit_in_four_kilobytes() {
    let role = json!({
        "inbox": "1767268740.000100", "done": "1767268740.000100", "state": "Waiting",
        "podUID": "01234567-89ab-cdef-0123-456789abcdef", "turns": 50, "failures": 1,
        "usage": {"cost": "12.123456789", "promptTokens": 12_345_678, "completionTokens": 1_234_567,
                  "calls": 1234}});
    let roles: serde_json::Map<_, _> = ["pm", "coder", "reviewer", "lead", "researcher", "artist"]
        .map(|name| (name.to_owned(), role.clone()))
        .into_iter()
        .collect();
    let thread = testing::thread(&json!({
        "roles": roles, "branch": "codebutler/shop-1767268700-000100", "cost": "72.123456789",
        "phase": "coder", "activeRole": "coder", "lastActivity": "2025-12-30T11:00:00Z",
        "pullRequest": {"number": 12345, "url": "https://github.example/acme/shop/pull/12345"},
        "plan": {"ts": "1767268740.000100", "hash": "a".repeat(64), "role": "pm",
                 "approvedBy": "U0123ABCD"}}));
    let told = after(&thread, &plan(&thread, &world()));
    let bytes = serde_json::to_vec(&told).unwrap().len();
    assert!(bytes < 4096, "{bytes} bytes");
}
