//! Deletion: of one object, of a collection, at once or when finalizers and kubelet are done.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ResourceRequest;
use super::options::refuse_options;
use crate::apiserver::ServerState;
use crate::apiserver::convert;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::render::{self, ApiResponse};
use crate::apiserver::status::{ApiError, StatusCause};
use crate::apiserver::store::StoredObject;
use crate::apiserver::strategy;

/// Finalizers of the garbage collector.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of a definition, until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The `DeleteOptions` of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteRequest {
    grace: Option<i64>,
    propagation: Option<String>,
    /// `orphanDependents`, which came before the policy.
    orphan: Option<bool>,
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

/// State of an object after a delete request.
pub(super) enum DeleteOutcome {
    /// The object is gone; its last state.
    Gone(Value),
    /// The object waits for its finalizers or its grace period.
    Terminating(Value),
}

impl ResourceRequest<'_> {
    fn options(&self) -> Result<DeleteRequest, ApiError> {
        let query = &self.request.query;
        let body = if self.request.body.is_empty() { Value::Null } else { self.body()? };
        let string = |pointer: &str| text_at(&body, pointer).map(str::to_owned);
        let grace = match query.get("gracePeriodSeconds") {
            Some(text) => text.parse().ok(),
            None => body.get("gracePeriodSeconds").and_then(Value::as_i64),
        };
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = query
            .get("propagationPolicy")
            .map(str::to_owned)
            .or_else(|| string("/propagationPolicy"));
        let mut causes = Vec::new();
        if let (Some(policy), Some(_)) = (&policy, orphan) {
            causes.push(StatusCause::invalid(
                "propagationPolicy",
                &policy.as_str().into(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let known = ["Foreground", "Background", "Orphan"];
        if let Some(policy) = policy.as_deref().filter(|policy| !known.contains(policy)) {
            let known = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            causes.push(StatusCause::unsupported("propagationPolicy", &policy.into(), &known));
        }
        let dry = query.get("dryRun").or_else(|| text_at(&body, "/dryRun/0")).unwrap_or("All");
        if dry != "All" {
            let found = Value::Array(vec![dry.into()]);
            causes.push(StatusCause::unsupported("dryRun", &found, &["All".to_owned()]));
        }
        refuse_options("DeleteOptions", &causes)?;
        let propagation =
            policy.or_else(|| orphan.map(|o| if o { "Orphan" } else { "Background" }.to_owned()));
        let dry_run = query.get("dryRun") == Some("All")
            || body.pointer("/dryRun/0") == Some(&Value::String("All".to_owned()));
        Ok(DeleteRequest {
            grace,
            propagation,
            orphan,
            uid: string("/preconditions/uid"),
            version: string("/preconditions/resourceVersion"),
            dry_run,
        })
    }

    pub(super) fn delete(&self) -> Result<ApiResponse, ApiError> {
        let options = self.options()?;
        let stored = self.stored()?;
        let immortal = ["default", "kube-public", "kube-system"];
        if self.kind.is("", "namespaces") && immortal.contains(&self.target.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden("", "namespaces", &self.target.name, why));
        }
        let outcome = self.server.delete(&self.kind, &stored, &options)?;
        Ok(match outcome {
            // Only who asked in the old way not to orphan is told that it has not happened yet.
            DeleteOutcome::Terminating(value) if options.orphan == Some(false) => {
                self.answer(202, &value)
            }
            DeleteOutcome::Terminating(value) => self.answer(200, &value),
            DeleteOutcome::Gone(value) if strategy::returns_deleted(&self.kind) => {
                self.answer(200, &value)
            }
            DeleteOutcome::Gone(value) => {
                let mut details = json!({
                    "name": object::object_name(&value),
                    "kind": self.kind.plural,
                    "uid": object::object_uid(&value),
                });
                if !self.kind.group.is_empty() {
                    details["group"] = self.kind.group.clone().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Success", "details": details,
                });
                render::value_answer(200, &self.accepted, &status)
            }
        })
    }

    pub(super) fn delete_collection(&self) -> Result<ApiResponse, ApiError> {
        let options = self.options()?;
        let selector = self.selector()?;
        let (objects, version) = self.server.store.list(&self.kind.table, self.scope());
        let mut items = Vec::new();
        for stored in objects {
            if !selector.matches(&self.kind, &stored.value) {
                continue;
            }
            match self.server.delete(&self.kind, &stored, &options) {
                Ok(DeleteOutcome::Gone(value) | DeleteOutcome::Terminating(value)) => {
                    items.push(convert::convert_outbound(&self.kind, &value).into_owned());
                }
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let list = json!({
            "kind": format!("{}List", self.kind.kind),
            "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": version.to_string()},
            "items": items,
        });
        Ok(render::value_answer(200, &self.accepted, &list))
    }
}

impl ServerState {
    /// Deletes an object or marks it as terminating.
    pub(super) fn delete(
        &self,
        kind: &ServedKind,
        stored: &Arc<StoredObject>,
        options: &DeleteRequest,
    ) -> Result<DeleteOutcome, ApiError> {
        let (namespace, name) = stored.key();
        let attempt = |stored: &Arc<StoredObject>| self.try_delete(kind, stored, options);
        let read = || {
            let found = self.store.get(&kind.table, &namespace, &name);
            found.ok_or_else(|| ApiError::not_found(&kind.group, &kind.plural, &name))
        };
        until_written(Arc::clone(stored), attempt, read)
    }

    /// Makes one attempt; `None` if another writer came in between.
    fn try_delete(
        &self,
        kind: &ServedKind,
        stored: &StoredObject,
        options: &DeleteRequest,
    ) -> Result<Option<DeleteOutcome>, ApiError> {
        let live = &stored.value;
        check_preconditions(kind, live, options)?;
        let new = mark_terminating(kind, live, options);
        let complete = is_deletion_complete(kind, &new);
        let outcome = |value| {
            if complete { DeleteOutcome::Gone(value) } else { DeleteOutcome::Terminating(value) }
        };
        if options.dry_run || (new == *live && !complete) {
            return Ok(Some(outcome(new)));
        }
        let done = if complete {
            self.store.remove(&kind.table, stored.version, new)
        } else {
            self.store.replace(&kind.table, stored.version, new)
        };
        let Ok(written) = done else { return Ok(None) };
        self.after_write(kind, &written.value);
        Ok(Some(outcome(written.value.clone())))
    }
}

/// Tries for as long as others write in between. So does the API server, whose clients hear of a conflict only where they
/// have named a precondition.
fn until_written<S, T, E>(
    mut stored: S,
    attempt: impl Fn(&S) -> Result<Option<T>, E>,
    read: impl Fn() -> Result<S, E>,
) -> Result<T, E> {
    loop {
        if let Some(done) = attempt(&stored)? {
            return Ok(done);
        }
        stored = read()?;
    }
}

/// True once neither finalizers nor a grace period hold a terminating object.
pub(super) fn is_deletion_complete(kind: &ServedKind, value: &Value) -> bool {
    let grace = object::meta_field(value, "deletionGracePeriodSeconds").and_then(Value::as_i64);
    let held_namespace = kind.is("", "namespaces")
        && value
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|f| !f.is_empty());
    object::is_terminating(value)
        && object::list_finalizers(value).next().is_none()
        && grace.unwrap_or(0) == 0
        && !held_namespace
}

fn check_preconditions(
    kind: &ServedKind,
    live: &Value,
    options: &DeleteRequest,
) -> Result<(), ApiError> {
    let pairs = [
        ("UID", &options.uid, object::object_uid(live), "deleted and then recreated"),
        ("ResourceVersion", &options.version, object::object_version(live), "modified"),
    ];
    for (what, wanted, found, perhaps) in pairs {
        if let Some(wanted) = wanted
            && wanted != found
        {
            return Err(ApiError::conflict_because(
                &kind.group,
                &kind.kind,
                object::object_name(live),
                &format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {perhaps}"
                ),
            ));
        }
    }
    Ok(())
}

/// The object once its deletion has been asked for.
fn mark_terminating(kind: &ServedKind, live: &Value, options: &DeleteRequest) -> Value {
    let mut new = live.clone();
    let mut finalizers: Vec<String> = object::list_finalizers(live).map(str::to_owned).collect();
    if let Some(policy) = &options.propagation {
        finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
        match policy.as_str() {
            "Orphan" => finalizers.push(ORPHAN.to_owned()),
            "Foreground" => finalizers.push(FOREGROUND.to_owned()),
            _ => {}
        }
        let list = (!finalizers.is_empty()).then(|| json!(finalizers));
        object::set_meta(&mut new, "finalizers", list);
    }
    if kind.is("apiextensions.k8s.io", "customresourcedefinitions") && !object::is_terminating(live)
    {
        let held = finalizers.iter().any(|f| f == CLEANUP);
        if !held {
            finalizers.push(CLEANUP.to_owned());
        }
        object::set_meta(&mut new, "finalizers", Some(json!(finalizers)));
    }
    let grace = strategy::grace_period(kind, live, options.grace);
    let before = object::meta_field(live, "deletionGracePeriodSeconds").and_then(Value::as_i64);
    // Asked again: a period may only become shorter, and only when asked so.
    let grace = match before {
        Some(before) if object::is_terminating(live) => match options.grace {
            Some(_) if grace < before => grace,
            _ => return new,
        },
        _ => grace,
    };
    let at = jiff::Timestamp::now()
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(jiff::Timestamp::MAX);
    object::set_meta(&mut new, "deletionTimestamp", Some(object::whole_seconds(at).into()));
    object::set_meta(&mut new, "deletionGracePeriodSeconds", Some(grace.into()));
    if let Some(generation) = object::meta_field(live, "generation").and_then(Value::as_i64) {
        object::set_meta(&mut new, "generation", Some((generation + 1).into()));
    }
    if kind.is("", "namespaces") {
        object::map_at(&mut new, "status").insert("phase".to_owned(), "Terminating".into());
    }
    new
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_deletion_is_no_conflict_however_often_others_write_in_between() {
        let version = Cell::new(0);
        // Somebody else is faster a hundred times.
        let attempt = |read: &u32| Ok::<_, ()>((*read >= 100).then_some(*read));
        let read = || {
            version.set(version.get() + 1);
            Ok(version.get())
        };
        assert_eq!(until_written(0, attempt, read), Ok(100));
        let gone = until_written(0, |_| Ok::<Option<()>, &str>(None), || Err("not found"));
        assert_eq!(gone, Err("not found"));
    }
}
