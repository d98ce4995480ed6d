//! Stores a Lease: the only part that talks to Kubernetes. The installation brings the Lease along;
//! what it has written into its metadata stays.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::names;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Client};
use parking_lot::Mutex;

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
    #[error("the Lease is missing: install the chart again (`helm upgrade`), which creates it")]
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
    api: Api<Lease>,
    name: String,
    /// Metadata as it was read or written last.
    metadata: Arc<Mutex<ObjectMeta>>,
}

impl LeaseObjects {
    /// The Lease that the settings name.
    pub(super) fn new(client: Client, settings: &LeaseSettings) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self { api, name: settings.name.clone(), metadata: Arc::default() }
    }

    fn object(&self, record: &LeaseRecord, version: Option<&str>) -> Lease {
        let known = self.metadata.lock().clone();
        let mut labels = known.labels.unwrap_or_default();
        for (key, value) in
            [("app.kubernetes.io/part-of", "codebutler"), (names::LABEL_MANAGED_BY, &*self.name)]
        {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                annotations: known.annotations,
                resource_version: version.map(str::to_owned),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: (!record.holder.is_empty()).then(|| record.holder.clone()),
                lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
                acquire_time: Some(MicroTime(record.acquired)),
                renew_time: Some(MicroTime(record.renewed)),
                lease_transitions: Some(record.transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl LeaseStore for LeaseObjects {
    async fn get(&self) -> Result<Option<VersionedRecord>, StoreError> {
        let found = self.api.get_opt(&self.name).await.map_err(classify_error)?;
        Ok(found.map(|lease| {
            self.metadata.lock().clone_from(&lease.metadata);
            let version = lease.metadata.resource_version.unwrap_or_default();
            (read_record(lease.spec.unwrap_or_default()), version)
        }))
    }

    async fn put(&self, record: &LeaseRecord, version: Option<&str>) -> Result<String, StoreError> {
        let (object, params) = (self.object(record, version), created_by(&self.name));
        let written = match version {
            None => self.api.create(&params, &object).await,
            Some(_) => self.api.replace(&self.name, &params, &object).await,
        };
        let written = written.map_err(|error| match (&error, version) {
            (kube::Error::Api(status), None) if status.code == 403 => StoreError::Missing,
            _ => classify_error(error),
        })?;
        self.metadata.lock().clone_from(&written.metadata);
        Ok(written.metadata.resource_version.unwrap_or_default())
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
        _ => StoreError::Unknown(Box::new(error)),
    }
}
