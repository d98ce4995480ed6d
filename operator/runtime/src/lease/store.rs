//! Stores a Lease: the only part that talks to Kubernetes. The installation brings the Lease along;
//! what it and others have written into it stays, also fields that this version does not know.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::names;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::Value;

use super::record::LeaseRecord;
use super::settings::LeaseSettings;
use crate::apply::created_by;

/// Reason why a Lease was not written or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// Somebody else wrote, created or deleted it meanwhile.
    #[error("the Lease has changed meanwhile")]
    Changed,
    /// It is gone, and only the installation may create it.
    #[error(
        "the Lease is missing: install the chart again (`helm upgrade`), which creates it; Argo CD leaves it out, and needs \
         charts/examples/argocd/excluded.yaml beside the chart"
    )]
    Missing,
    /// The answer is unknown: it may have been written.
    #[error(transparent)]
    Unknown(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// A record with the version by which a change of it is noticed.
pub(super) type VersionedRecord = (LeaseRecord, String);

/// A place that swaps a record only if its version is the expected one.
pub(super) trait LeaseStore: Send + Sync + 'static {
    fn get(&self) -> impl Future<Output = Result<Option<VersionedRecord>, StoreError>> + Send;

    /// Writes `record` in place of `version` (nothing: it must not exist yet) and returns the new
    /// version.
    fn put(
        &self,
        record: &LeaseRecord,
        version: Option<&str>,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;
}

/// A `coordination.k8s.io` Lease.
#[derive(Clone)]
pub(super) struct LeaseObjects {
    /// Untyped, so that a renewal keeps fields that a newer API server has.
    api: Api<DynamicObject>,
    name: String,
    /// The Lease as it was read or written last.
    known: Arc<Mutex<DynamicObject>>,
}

impl LeaseObjects {
    /// The Lease that the settings name.
    pub(super) fn new(client: Client, settings: &LeaseSettings) -> Self {
        let kind = ApiResource::erase::<Lease>(&());
        let known = DynamicObject::new(&settings.name, &kind);
        let api = Api::namespaced_with(client, &settings.namespace, &kind);
        Self { api, name: settings.name.clone(), known: Arc::new(Mutex::new(known)) }
    }

    fn remember(&self, lease: DynamicObject) -> String {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        *self.known.lock() = lease;
        version
    }
}

impl LeaseStore for LeaseObjects {
    async fn get(&self) -> Result<Option<VersionedRecord>, StoreError> {
        let found = self.api.get_opt(&self.name).await.map_err(classify_error)?;
        let Some(lease) = found else { return Ok(None) };
        let record = read_record(read_spec(&lease)?);
        Ok(Some((record, self.remember(lease))))
    }

    async fn put(&self, record: &LeaseRecord, version: Option<&str>) -> Result<String, StoreError> {
        let known = self.known.lock().clone();
        let object = put_record(known, &self.name, record, version)?;
        let params = created_by(&self.name);
        let written = match version {
            None => self.api.create(&params, &object).await,
            Some(_) => self.api.replace(&self.name, &params, &object).await,
        };
        let written = written.map_err(|error| match (&error, version) {
            (kube::Error::Api(status), None) if status.code == 403 => StoreError::Missing,
            _ => classify_error(error),
        })?;
        Ok(self.remember(written))
    }
}

/// Puts a record into a Lease, in place of `version`. Other fields stay as their writers left them; a Lease that is made
/// anew has no owners, and no other part of what the API server wrote into the last one.
fn put_record(
    mut lease: DynamicObject,
    name: &str,
    record: &LeaseRecord,
    version: Option<&str>,
) -> Result<DynamicObject, StoreError> {
    let mut known = std::mem::take(&mut lease.metadata);
    let mut labels = known.labels.take().unwrap_or_default();
    for (key, value) in
        [("app.kubernetes.io/part-of", "codebutler"), (names::LABEL_MANAGED_BY, name)]
    {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    lease.metadata = match version {
        None => ObjectMeta {
            name: Some(name.to_owned()),
            annotations: known.annotations,
            ..ObjectMeta::default()
        },
        Some(version) => ObjectMeta {
            resource_version: Some(version.to_owned()),
            // The API server keeps its own.
            managed_fields: None,
            ..known
        },
    };
    lease.metadata.labels = Some(labels);
    let own = serde_json::to_value(LeaseSpec {
        holder_identity: (!record.holder.is_empty()).then(|| record.holder.clone()),
        lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
        acquire_time: Some(MicroTime(record.acquired)),
        renew_time: Some(MicroTime(record.renewed)),
        lease_transitions: Some(record.transitions),
        ..LeaseSpec::default()
    });
    let own = own.map_err(unknown_error)?;
    let spec = lease.data.get("spec").and_then(Value::as_object).cloned();
    let mut spec = spec.unwrap_or_default();
    // A Lease that was given up has none.
    spec.remove("holderIdentity");
    spec.extend(own.as_object().cloned().unwrap_or_default());
    lease.data["spec"] = Value::Object(spec);
    Ok(lease)
}

fn read_spec(lease: &DynamicObject) -> Result<LeaseSpec, StoreError> {
    match lease.data.get("spec") {
        None | Some(Value::Null) => Ok(LeaseSpec::default()),
        // One that can't be read is nobody's to take.
        Some(spec) => LeaseSpec::deserialize(spec).map_err(unknown_error),
    }
}

/// Reads a record, whatever people wrote into it: a holder is waited for at least a second.
fn read_record(spec: LeaseSpec) -> LeaseRecord {
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds.max(1)),
        acquired: spec.acquire_time.map(|time| time.0).unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn classify_error(error: kube::Error) -> StoreError {
    match &error {
        // 404: it was to be replaced and is gone.
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => StoreError::Changed,
        _ => unknown_error(error),
    }
}

fn unknown_error(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unknown(Box::new(error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found() -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "codebutler-gateway", "namespace": "system", "uid": "u", "resourceVersion": "7",
                "labels": {"team": "platform"}, "annotations": {"codebutler.dev/shards": "3"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "release", "uid": "o"},
                ],
                "managedFields": [{"manager": "helm", "operation": "Update"}],
            },
            "spec": {
                "holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion",
                "preferredHolder": "b", "fieldOfALaterVersion": {"kept": true},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_renewal_keeps_what_others_wrote() {
        let record = read_record(read_spec(&found()).unwrap());
        assert_eq!(record.holder, "a");
        let renewed = put_record(found(), "codebutler-gateway", &record, Some("8")).unwrap();
        let spec = &renewed.data["spec"];
        assert_eq!(
            (&spec["holderIdentity"], &spec["leaseDurationSeconds"]),
            (&json!("a"), &json!(15))
        );
        assert_eq!(spec["strategy"], "OldestEmulationVersion");
        assert_eq!(spec["preferredHolder"], "b");
        assert_eq!(spec["fieldOfALaterVersion"], json!({"kept": true}));
        let metadata = &renewed.metadata;
        assert_eq!(metadata.resource_version.as_deref(), Some("8"));
        assert_eq!(metadata.owner_references, found().metadata.owner_references);
        assert_eq!(metadata.annotations, found().metadata.annotations);
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!((labels["team"].as_str(), labels.len()), ("platform", 3));
        // Given up, it names nobody, and the rest stays.
        let free = record.given_up(jiff::Timestamp::UNIX_EPOCH);
        let free = put_record(renewed, "codebutler-gateway", &free, Some("9")).unwrap();
        assert_eq!(free.data["spec"].get("holderIdentity"), None);
        assert_eq!(free.data["spec"]["preferredHolder"], "b");
    }

    #[test]
    fn a_lease_that_is_made_anew_has_nothing_that_the_server_wrote() {
        let record = LeaseRecord { holder: "a".to_owned(), ..LeaseRecord::default() };
        let anew = put_record(found(), "codebutler-gateway", &record, None).unwrap();
        let metadata = &anew.metadata;
        assert_eq!(metadata.name.as_deref(), Some("codebutler-gateway"));
        assert_eq!(metadata.annotations, found().metadata.annotations);
        let server = (&metadata.uid, &metadata.resource_version, &metadata.owner_references);
        assert_eq!(server, (&None, &None, &None));
        // Nothing was ever read of it.
        let kind = ApiResource::erase::<Lease>(&());
        let first = DynamicObject::new("codebutler-gateway", &kind);
        let first = put_record(first, "codebutler-gateway", &record, None).unwrap();
        assert_eq!(first.data["spec"]["holderIdentity"], "a");
    }

    #[test]
    fn a_lease_that_can_not_be_read_is_nobodys_to_take() {
        let mut odd = found();
        odd.data["spec"]["leaseDurationSeconds"] = json!("soon");
        assert!(matches!(read_spec(&odd), Err(StoreError::Unknown(_))));
        odd.data = json!({});
        assert_eq!(read_spec(&odd).unwrap(), LeaseSpec::default());
    }
}
