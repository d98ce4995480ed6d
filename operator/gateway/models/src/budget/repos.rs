//! Writes what a Repo has spent: the one writer of `status.spend`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::spend::RepoSpend;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::threads::patch;
use codebutler_gateway_core::writes;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

/// Most attempts per write.
const ATTEMPTS: u32 = 20;

/// Writes Repos. Cheap to clone.
#[derive(Clone)]
pub struct RepoWriter {
    client: Client,
    /// Repos as their last writes returned them.
    latest: Arc<Mutex<HashMap<RepoKey, Repo>>>,
}

impl RepoWriter {
    /// A writer with the gateway's own identity.
    pub fn new(client: Client) -> Self {
        Self { client, latest: Arc::default() }
    }

    /// The Repo as the API server has it now.
    pub async fn read(&self, key: &RepoKey) -> Result<Repo, kube::Error> {
        self.api(key).get(&key.name).await
    }

    /// Changes `status.spend` by a function that may run several times, always on the newest state.
    pub async fn update<T>(
        &self,
        key: &RepoKey,
        change: impl Fn(&mut RepoSpend) -> T,
    ) -> Result<T, kube::Error> {
        let api = self.api(key);
        let mut attempt = 0;
        loop {
            let known = self.take(key).filter(|_| attempt == 0);
            attempt += 1;
            let outcome = async {
                let repo = match known {
                    Some(repo) => repo,
                    None => api.get(&key.name).await?,
                };
                let before = repo.status.as_ref().and_then(|status| status.spend.clone());
                let mut spend = before.clone().unwrap_or_default();
                let result = change(&mut spend);
                spend.show();
                if before.as_ref() == Some(&spend) {
                    return Ok((repo, result));
                }
                let patch = json!({
                    "metadata": {"resourceVersion": repo.resource_version()},
                    "status": {"spend": patch::patch_between(&before, &spend)},
                });
                let params = writes::patch_params();
                let written = api.patch_status(&key.name, &params, &Patch::Merge(patch)).await?;
                Ok((written, result))
            };
            match outcome.await {
                Ok((repo, result)) => {
                    self.keep(key, repo);
                    return Ok(result);
                }
                Err(error) if attempt < ATTEMPTS && may_pass(&error) => pause_retry(attempt).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Has the next change begin with what the API server knows.
    pub fn forget(&self, key: &RepoKey) {
        drop(self.take(key));
    }

    fn api(&self, key: &RepoKey) -> Api<Repo> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn take(&self, key: &RepoKey) -> Option<Repo> {
        self.latest.lock().remove(key)
    }

    fn keep(&self, key: &RepoKey, repo: Repo) {
        self.latest.lock().insert(key.clone(), repo);
    }
}

fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 409 | 429) || status.code >= 500,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

async fn pause_retry(attempt: u32) {
    let most = 10 * u64::from(attempt).min(30);
    tokio::time::sleep(Duration::from_millis(rand::random_range(1..=most.max(1)))).await;
}
