//! From two states to the merge patch between them, limited to what the gateway owns.

use codebutler_crds::condition::OPENED;
use codebutler_crds::thread::RoleStatus;
use codebutler_crds::{NanoUsd, Thread, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The patch that turns the gateway's fields of `before` into those of `after`, valid only on the
/// revision of `thread`. None if they are the same.
pub fn own_fields(before: &ThreadStatus, after: &ThreadStatus, thread: &Thread) -> Option<Value> {
    let (old, new) = (status_fields(before), status_fields(after));
    let mut status = field_differences(&old, &new);
    if opening_condition(before) != opening_condition(after) {
        // The list is one value to a merge patch; the revision guards the controller's part of it.
        status.insert("conditions".to_owned(), json!(after.conditions));
    }
    let mut roles = Map::new();
    let none = RoleStatus::default();
    for (name, role) in &after.roles {
        let old = before.roles.get(name);
        let changed =
            field_differences(&role_fields(old.map_or(&none, |old| old)), &role_fields(role));
        if !changed.is_empty() || old.is_none() {
            roles.insert(name.clone(), Value::Object(changed));
        }
    }
    if !roles.is_empty() {
        status.insert("roles".to_owned(), Value::Object(roles));
    }
    if status.is_empty() {
        return None;
    }
    let version = thread.resource_version();
    Some(json!({"metadata": {"resourceVersion": version}, "status": status}))
}

/// Returns the one condition that is the gateway's.
fn opening_condition(status: &ThreadStatus) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == OPENED)
}

fn status_fields(status: &ThreadStatus) -> Map<String, Value> {
    let mut fields = into_object(json!({
        "slack": status.slack,
        "claim": status.claim,
        "settled": list_value(&status.settled),
        "branch": status.branch,
        "pullRequest": status.pull_request,
        "plan": status.plan,
        "planDetails": status.plan_details,
        "receipt": status.receipt,
        "radar": status.radar,
        "stack": status.stack,
        "closing": status.closing,
        "approvals": list_value(&status.approvals),
        "standing": list_value(&status.standing),
        "offers": list_value(&status.offers),
        "feedback": list_value(&status.feedback),
        "asked": status.asked,
        "unmarked": list_value(&status.unmarked),
        "edited": status.edited,
        "warned": status.warned,
        "updateOffer": status.update_offer,
        "heard": list_value(&status.heard),
        "finished": status.finished,
        "pending": list_value(&status.pending),
        "handovers": list_value(&status.handovers),
        "queued": list_value(&status.queued),
        "jointQuestion": status.joint_question,
        "routed": list_value(&status.routed),
        "rounds": status.rounds,
        "roadmap": status.roadmap,
        "itemHash": status.item_hash,
        "mcp": status.mcp,
        "images": status.images,
        "pictures": status.pictures,
        "train": status.train,
        "split": status.split,
    }));
    // One list would be more than the macro takes.
    fields.extend(into_object(json!({
        "hearing": list_value(&status.hearing),
        "cost": status.cost,
        "shownCost": status.cost.map(NanoUsd::in_cents),
        "budget": status.budget,
        "speaker": status.speaker,
        "speakers": list_value(&status.speakers),
        "lastActivity": status.last_activity,
        "helped": list_value(&status.helped),
        "helping": list_value(&status.helping),
        "suspended": status.suspended.then_some(true),
    })));
    fields
}

fn role_fields(role: &RoleStatus) -> Map<String, Value> {
    into_object(json!({
        "inbox": role.inbox,
        "done": role.done,
        "state": role.state,
        "said": role.said,
        "addressed": role.addressed,
        "ended": role.ended,
        "turns": role.turns,
        "sandbox": role.sandbox,
        "silent": role.silent,
        "shown": role.shown,
        "usage": role.usage,
    }))
}

/// Converts a list; an empty one is null.
fn list_value<T: Serialize>(items: &[T]) -> Value {
    if items.is_empty() { Value::Null } else { json!(items) }
}

/// The merge patch between two values that are objects, or null.
pub fn patch_between(old: &impl Serialize, new: &impl Serialize) -> Value {
    Value::Object(field_differences(&into_object(json!(old)), &into_object(json!(new))))
}

/// Builds the patch that turns `old` into `new` by a merge: whole new values, nulls for what is
/// gone, and inside objects only what differs.
fn field_differences(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in new {
        match (old.get(name), value) {
            (Some(was), is) if was == is => {}
            (Some(Value::Object(was)), Value::Object(is)) => {
                patch.insert(name.clone(), Value::Object(field_differences(was, is)));
            }
            (_, is) => {
                patch.insert(name.clone(), is.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::thread::PostedPlan;
    use kube::CustomResourceExt as _;

    fn thread() -> Thread {
        let mut thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "slack": {"channel": "C01", "ts": "1.000001"}},
        }))
        .unwrap();
        thread.metadata.resource_version = Some("7".to_owned());
        thread
    }

    /// A field in neither list would never be written.
    #[test]
    fn every_field_of_a_status_is_the_gateways_or_the_controllers() {
        const OTHERS: [&str; 9] = [
            "activeRole",
            "conditions",
            "observedGeneration",
            "phase",
            "queuePosition",
            "roles",
            "term",
            "volume",
            "waits",
        ];
        let crd = json!(Thread::crd());
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let fields = schema["status"]["properties"].as_object().unwrap();
        let own = status_fields(&ThreadStatus::default());
        let missed = |name: &&String| !own.contains_key(*name) && !OTHERS.contains(&name.as_str());
        assert_eq!(fields.keys().filter(missed).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn only_own_fields_that_changed_are_sent() {
        let before: ThreadStatus = serde_json::from_value(json!({
            "phase": "pm",
            "plan": {"ts": "2.000000", "hash": "aa", "role": "pm", "approvedBy": "U1"},
            "roles": {"pm": {"inbox": "1.000001", "podUID": "x", "failures": 2}},
        }))
        .unwrap();
        let mut after = before.clone();
        assert_eq!(own_fields(&before, &after, &thread()), None);

        after.phase = Some("coder".to_owned());
        after.plan = Some(Box::new(PostedPlan {
            ts: "3.000000".parse().unwrap(),
            hash: "aa".to_owned(),
            role: "pm".to_owned(),
            approved_by: None,
            declined_by: None,
        }));
        let pm = after.roles.entry("pm".to_owned()).or_default();
        pm.pod_uid = None;
        pm.failures = 0;
        pm.inbox = Some("9.000000".parse().unwrap());
        after.roles.entry("coder".to_owned()).or_default().turns = 1;
        assert_eq!(
            own_fields(&before, &after, &thread()),
            Some(json!({
                "metadata": {"resourceVersion": "7"},
                "status": {
                    "plan": {"ts": "3.000000", "approvedBy": null},
                    "roles": {"pm": {"inbox": "9.000000"}, "coder": {"turns": 1}},
                },
            }))
        );
    }

    #[test]
    fn costs_are_written_as_people_read_them_too_and_who_took_part_with_what_they_said() {
        let before = ThreadStatus::default();
        let mut after = ThreadStatus { cost: Some(NanoUsd(727_483_960)), ..before.clone() };
        after.heard_from("U01");
        let patch = own_fields(&before, &after, &thread()).unwrap();
        let wanted = json!({"cost": "0.72748396", "shownCost": "$0.73",
            "speaker": "U01", "speakers": ["U01"]});
        assert_eq!(patch["status"], wanted);
    }

    #[test]
    fn an_emptied_list_is_removed() {
        let before: ThreadStatus = serde_json::from_value(json!({"pending": [
            {"id": "a", "role": "pm", "kind": "plan", "choice": "approve", "user": "U", "message": "1.000000"},
        ]}))
        .unwrap();
        let after = ThreadStatus::default();
        let patch = own_fields(&before, &after, &thread()).unwrap();
        assert_eq!(patch["status"], json!({"pending": null}));
    }
}
