//! The only place that writes to Kubernetes. Nothing is decided here; what is checked here is that
//! an object of the right name is really ours, and that what was decided on is still true.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Resource, Status};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::notice::EventNotice;

/// An object that can be written: namespaced, of a kind known when this was built.
pub trait AppliedObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
}

impl<K> AppliedObject for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
{
}

/// Reason why an object was not written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The object that was decided on has changed meanwhile. Look again.
    #[error("{kind} `{name}` has changed meanwhile")]
    Stale { kind: String, name: String },
    /// The API server understood and said no: a quota, an admission rule, a missing right; or the
    /// name belongs to somebody else's object.
    #[error("{0}")]
    Refused(ApplyRefusal),
    /// The API server could not be asked.
    #[error("{verb} {kind} `{name}`")]
    Api {
        verb: &'static str,
        kind: String,
        name: String,
        #[source]
        source: kube::Error,
    },
}

impl ApplyError {
    /// Returns the refusal to tell of a create that the API server answered with an error, if that
    /// keeps happening: a webhook that is down is a 500, a too large object a 413.
    pub fn unaccepted(&self) -> Option<ApplyRefusal> {
        let Self::Api { verb: "create", kind, name, source: kube::Error::Api(status) } = self
        else {
            return None;
        };
        let (kind, name) = (kind.clone(), name.clone());
        Some(ApplyRefusal::NotAccepted { kind, name, message: shorten_text(&status.message, 500) })
    }
}

/// A no that a person should hear about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum ApplyRefusal {
    /// The name belongs to an object that is not ours, which is never adopted.
    #[error(
        "there already is a {kind} `{name}` that does not belong to this object: delete or rename it"
    )]
    NameTaken { kind: String, name: String },
    /// The API server, or a webhook that it asks, failed again and again: its own words.
    #[error("{kind} `{name}` was not accepted: {message}")]
    NotAccepted {
        kind: String,
        name: String,
        /// The API server's own words.
        message: String,
    },
    /// The API server's own words.
    #[error("{kind} `{name}` was refused: {message}")]
    Rejected {
        kind: String,
        name: String,
        /// The API server's own words.
        message: String,
    },
}

#[derive(Clone)]
pub struct ObjectApplier {
    client: Client,
    recorder: Recorder,
    manager: &'static str,
}

impl ObjectApplier {
    /// A writer with the name that its writes carry.
    pub fn new(client: Client, manager: &'static str) -> Self {
        let reporter = Reporter { controller: manager.to_owned(), instance: None };
        Self { recorder: Recorder::new(client.clone(), reporter), client, manager }
    }

    /// Creates an object, or finds that an earlier attempt for this `owner` (a UID) has.
    ///
    /// # Errors
    /// [`ApplyError::Refused`] also when the name is taken by somebody else's object.
    pub async fn create<K: AppliedObject>(
        &self,
        object: &K,
        owner: &str,
    ) -> Result<MadeObject<K>, ApplyError> {
        let (api, name) = (self.api::<K>(object), object.name_any());
        match api.create(&created_by(self.manager), object).await {
            Ok(created) => Ok(MadeObject::New(created)),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                match api.get_opt(&name).await.map_err(failed_error::<K>("get", &name))? {
                    Some(found) if owned_by(&found, owner) => Ok(MadeObject::Found(found)),
                    Some(found) if found.meta().deletion_timestamp.is_none() => {
                        Err(taken_error::<K>(&name))
                    }
                    _ => Err(stale_error::<K>(&name)),
                }
            }
            Err(error) => Err(refused_error::<K>("create", &name, error)),
        }
    }

    /// Makes an object be as given (server-side apply), unless one of that name exists that is not
    /// `ours`.
    ///
    /// # Errors
    /// [`ApplyError::Refused`] also when the name is taken by somebody else's object.
    pub async fn ensure<K: AppliedObject>(
        &self,
        object: &K,
        ours: impl Fn(&K) -> bool,
    ) -> Result<(), ApplyError> {
        let (api, name) = (self.api::<K>(object), object.name_any());
        let found = api.get_opt(&name).await.map_err(failed_error::<K>("get", &name))?;
        if found.is_some_and(|found| !ours(&found)) {
            return Err(taken_error::<K>(&name));
        }
        let params = PatchParams::apply(self.manager).force();
        let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
        applied.map(drop).map_err(|error| refused_error::<K>("apply", &name, error))
    }

    /// Asks for a larger volume for exactly this claim.
    ///
    /// # Errors
    /// [`ApplyError::Refused`] where the storage class does not allow it.
    pub async fn resize(
        &self,
        claim: &PersistentVolumeClaim,
        size: &str,
    ) -> Result<(), ApplyError> {
        type Claim = PersistentVolumeClaim;
        let (api, name) = (self.api::<Claim>(claim), claim.name_any());
        let patch = serde_json::json!({
            "metadata": {"uid": claim.uid()},
            "spec": {"resources": {"requests": {"storage": size}}},
        });
        match api.patch(&name, &written_by(self.manager), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if is_another(&status) => {
                Err(stale_error::<Claim>(&name))
            }
            Err(error) => Err(refused_error::<Claim>("resize", &name, error)),
        }
    }

    /// Deletes exactly this object, not a later one of the same name. Gone already is fine.
    ///
    /// # Errors
    /// When the API server can't be asked or says no.
    pub async fn delete<K: AppliedObject>(&self, object: &K) -> Result<(), ApplyError> {
        self.delete_if(object, Preconditions { uid: object.uid(), resource_version: None }).await
    }

    /// Deletes an object, provided that it is still as it was seen. One that has changed meanwhile
    /// is left alone.
    ///
    /// # Errors
    /// When the API server can't be asked or says no.
    pub async fn delete_unchanged<K: AppliedObject>(&self, seen: &K) -> Result<(), ApplyError> {
        let (uid, resource_version) = (seen.uid(), seen.resource_version());
        self.delete_if(seen, Preconditions { uid, resource_version }).await
    }

    async fn delete_if<K: AppliedObject>(
        &self,
        object: &K,
        preconditions: Preconditions,
    ) -> Result<(), ApplyError> {
        let (api, name) = (self.api::<K>(object), object.name_any());
        let preconditions = Some(preconditions);
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match api.delete(&name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(error) => Err(refused_error::<K>("delete", &name, error)),
        }
    }

    /// Reads the object of this name from the API server itself, not from a cache.
    ///
    /// # Errors
    /// When the API server can't be asked.
    pub async fn find<K: AppliedObject>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<K>, ApplyError> {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        api.get_opt(name).await.map_err(failed_error::<K>("get", name))
    }

    /// Puts labels back on exactly this object.
    ///
    /// # Errors
    /// When the API server can't be asked or says no.
    pub async fn relabel<K: AppliedObject>(
        &self,
        object: &K,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ApplyError> {
        self.mark(object, "labels", labels).await
    }

    /// Puts annotations on exactly this object.
    ///
    /// # Errors
    /// When the API server can't be asked or says no.
    pub async fn annotate<K: AppliedObject>(
        &self,
        object: &K,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ApplyError> {
        self.mark(object, "annotations", annotations).await
    }

    /// Gives an object to another owner, with that one's labels and these annotations, provided
    /// that it is still as it was seen: of two that try, one does not. Answers the object as it is
    /// then.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] when it has changed meanwhile or is gone.
    pub async fn hand_over<K: AppliedObject>(
        &self,
        seen: &K,
        owner: &OwnerReference,
        (labels, annotations): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    ) -> Result<K, ApplyError> {
        let (api, name) = (self.api::<K>(seen), seen.name_any());
        let patch = serde_json::json!({"metadata": {
            "uid": seen.uid(),
            "resourceVersion": seen.resource_version(),
            "ownerReferences": [owner],
            "labels": labels,
            "annotations": annotations,
        }});
        match api.patch(&name, &written_by(self.manager), &Patch::Merge(&patch)).await {
            Ok(handed) => Ok(handed),
            Err(kube::Error::Api(status)) if is_another(&status) => Err(stale_error::<K>(&name)),
            Err(error) => Err(refused_error::<K>("hand over", &name, error)),
        }
    }

    async fn mark<K: AppliedObject>(
        &self,
        object: &K,
        field: &str,
        marks: &BTreeMap<String, String>,
    ) -> Result<(), ApplyError> {
        let (api, name) = (self.api::<K>(object), object.name_any());
        let patch = serde_json::json!({"metadata": {"uid": object.uid(), field: marks}});
        match api.patch(&name, &written_by(self.manager), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if is_another(&status) => Err(stale_error::<K>(&name)),
            Err(error) => Err(refused_error::<K>("mark", &name, error)),
        }
    }

    /// Merges `status` into an object's status, provided that the object is still as it was seen.
    /// Answers its new version.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] when it has changed meanwhile or is gone.
    pub async fn status<K: AppliedObject>(
        &self,
        seen: &K,
        status: &serde_json::Value,
    ) -> Result<Option<String>, ApplyError> {
        let (api, name) = (self.api::<K>(seen), seen.name_any());
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": seen.resource_version()},
            "status": status,
        });
        match api.patch_status(&name, &written_by(self.manager), &Patch::Merge(&patch)).await {
            Ok(written) => Ok(written.resource_version()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Err(stale_error::<K>(&name))
            }
            Err(error) => Err(refused_error::<K>("patch the status of", &name, error)),
        }
    }

    /// Takes a finalizer off an object, provided that the object is still as it was seen.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] when it has changed meanwhile or is gone.
    pub async fn release<K: AppliedObject>(
        &self,
        seen: &K,
        finalizer: &str,
    ) -> Result<(), ApplyError> {
        let (api, name) = (self.api::<K>(seen), seen.name_any());
        let kept: Vec<&String> = seen.finalizers().iter().filter(|f| *f != finalizer).collect();
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": seen.resource_version(), "finalizers": kept},
        });
        match api.patch(&name, &written_by(self.manager), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Err(stale_error::<K>(&name))
            }
            Err(error) => Err(refused_error::<K>("patch", &name, error)),
        }
    }

    /// Tells of something that happened. An event that can't be written is logged, not retried.
    pub async fn tell(
        &self,
        about: &ObjectReference,
        related: Option<&ObjectReference>,
        notice: &EventNotice,
    ) {
        let event = Event {
            type_: if notice.warning { EventType::Warning } else { EventType::Normal },
            reason: notice.reason.to_owned(),
            note: Some(shorten_text(&notice.note, 1000)),
            action: event_action(notice.reason, &notice.note),
            secondary: related.cloned(),
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::debug!(%error, reason = notice.reason, "event_write_failed");
        }
    }

    fn api<K: AppliedObject>(&self, object: &K) -> Api<K> {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }
}

/// A patch in somebody's name, which the object's `managedFields` then show.
pub fn written_by(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

/// A creation in somebody's name.
pub fn created_by(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

/// Outcome of [`ObjectApplier::create`].
#[derive(Debug)]
pub enum MadeObject<K> {
    New(K),
    /// An earlier attempt had created it.
    Found(K),
}

/// Returns true if `owner` (a UID) is the controlling owner of an object.
pub fn owned_by<K: Resource>(object: &K, owner: &str) -> bool {
    let owners = object.meta().owner_references.iter().flatten();
    owners.filter(|o| o.controller == Some(true)).any(|o| o.uid == owner)
}

/// Returns true if the API server says that the object is gone or another one of its name by now: a
/// delete or replace with another UID is a conflict, a patch with one invalid.
pub fn is_another(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_not_found()
        || status.is_conflict()
        || (status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid"))
}

/// Returns an event's action. The recorder folds events that differ only in their note, and keeps the first note: so the
/// note is part of the action.
pub fn event_action(reason: &str, note: &str) -> String {
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    format!("{reason}-{:016x}", hasher.finish())
}

/// Returns at most `max` bytes of `text`, cut at a character.
pub fn shorten_text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max.saturating_sub(3)).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn kind_name<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
}

fn stale_error<K: AppliedObject>(name: &str) -> ApplyError {
    ApplyError::Stale { kind: kind_name::<K>(), name: name.to_owned() }
}

fn taken_error<K: AppliedObject>(name: &str) -> ApplyError {
    ApplyError::Refused(ApplyRefusal::NameTaken { kind: kind_name::<K>(), name: name.to_owned() })
}

fn failed_error<K: AppliedObject>(
    verb: &'static str,
    name: &str,
) -> impl FnOnce(kube::Error) -> ApplyError {
    let name = name.to_owned();
    move |source| ApplyError::Api { verb, kind: kind_name::<K>(), name, source }
}

/// Tells an answer of the API server that a person has to hear from one that passes by itself.
fn refused_error<K: AppliedObject>(
    verb: &'static str,
    name: &str,
    error: kube::Error,
) -> ApplyError {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => {
            ApplyError::Refused(ApplyRefusal::Rejected {
                kind: kind_name::<K>(),
                name: name.to_owned(),
                message: shorten_text(&status.message, 500),
            })
        }
        error => failed_error::<K>(verb, name)(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_create_that_fails_is_told_and_what_only_got_no_answer_is_not() {
        let status = |code: u16| -> Box<Status> {
            let status = json!({"status": "Failure", "message": "failed calling webhook",
                "reason": "InternalError", "code": code});
            serde_json::from_value(status).unwrap()
        };
        let failed = |verb, code| ApplyError::Api {
            verb,
            kind: "Pod".to_owned(),
            name: "t-pm".to_owned(),
            source: kube::Error::Api(status(code)),
        };
        for code in [413, 429, 500, 503] {
            let told = failed("create", code).unaccepted().unwrap().to_string();
            assert_eq!(told, "Pod `t-pm` was not accepted: failed calling webhook");
        }
        assert_eq!(failed("delete", 500).unaccepted(), None);
    }

    #[test]
    fn a_patch_that_names_an_earlier_object_is_told_from_a_bad_one() {
        let refused = |code: u16, reason: &str, field: &str| {
            let cause = json!({"reason": "FieldValueInvalid", "message": "no", "field": field});
            let status = json!({"status": "Failure", "message": "no", "reason": reason,
                "code": code, "details": {"causes": [cause]}});
            serde_json::from_value::<Status>(status).unwrap()
        };
        assert!(is_another(&refused(422, "Invalid", "metadata.uid")));
        assert!(!is_another(&refused(422, "Invalid", "spec.resources.requests.storage")));
        assert!(is_another(&refused(404, "NotFound", "")));
    }
}
