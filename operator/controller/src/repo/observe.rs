//! Gathers the facts for a decision on a Repo from the caches.

use std::sync::Arc;
use std::time::Instant;

use codebutler_crds::{AgentRole, Repo, names};
use codebutler_runtime::apply::{ApplyRefusal, owned_by};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use super::children;
use crate::context::ControllerContext;
use crate::gateway::{GatewayAddress, GatewayNotFound};
use crate::index::ObjectKey;
use crate::serving::GatewayAway;

#[derive(Clone, Debug)]
pub(crate) struct ObservedRepo {
    /// Each name in `spec.roles` with the AgentRole that it means.
    pub roles: Vec<(String, Option<Arc<AgentRole>>)>,
    pub gateway: Result<GatewayAddress, GatewayNotFound>,
    /// Its shard of the gateways, where there is more than one.
    pub shard: Option<u32>,
    pub serving: Result<(), GatewayAway>,
    /// The gateway's certificate authority, if it has published it.
    pub authority: Option<String>,
    /// All Repos of the namespace as owners of what they share.
    pub siblings: Vec<OwnerReference>,
    /// Number of its Threads that are open.
    pub open_threads: u32,
    /// The pods' account, if it exists.
    pub account: Option<Arc<ServiceAccount>>,
    /// The pods' network policy, if it exists.
    pub policy: Option<Arc<NetworkPolicy>>,
    /// Copy of the gateway's certificate authority, if it exists.
    pub authority_copy: Option<Arc<ConfigMap>>,
    /// Refusal of the API server in this look, if there was one.
    pub refusal: Option<ApplyRefusal>,
}

pub(crate) fn observe_repo(context: &ControllerContext, repo: &Repo) -> ObservedRepo {
    let key = ObjectKey::of(repo);
    let shard = context.shard(&key.namespace, &key.name);
    let role = |name: &String| (name.clone(), context.role(&key.namespace, name));
    ObservedRepo {
        roles: repo.spec.roles.iter().map(role).collect(),
        gateway: context.gateway(shard),
        shard: (context.serving.shards() > 1).then(|| shard.index()),
        serving: context.serving.serves(shard, Instant::now()),
        authority: find_authority(context, &context.args.namespace)
            .and_then(|map| map.data.as_ref()?.get(names::CA_KEY).cloned())
            .filter(|pem| !pem.is_empty()),
        siblings: find_siblings(context, &key.namespace),
        open_threads: context.open_threads(&key),
        account: context.accounts.get(&reference_to(&names::service_account(&key.name), &key)),
        policy: context.policies.get(&reference_to(&children::policy_name(&key.name), &key)),
        authority_copy: find_authority(context, &key.namespace),
        refusal: None,
    }
}

/// True if all objects that the Repo's pods need exist.
pub(crate) fn is_prepared(context: &ControllerContext, repo: &Repo) -> bool {
    let (key, uid) = (ObjectKey::of(repo), repo.uid().unwrap_or_default());
    let account = context.accounts.get(&reference_to(&names::service_account(&key.name), &key));
    let policy = context.policies.get(&reference_to(&children::policy_name(&key.name), &key));
    account.is_some_and(|account| owned_by(&*account, &uid))
        && policy.is_some_and(|policy| owned_by(&*policy, &uid))
        && find_authority(context, &key.namespace).is_some()
}

fn find_authority(context: &ControllerContext, namespace: &str) -> Option<Arc<ConfigMap>> {
    context.authorities.get(&ObjectRef::new(names::CA_CONFIG_MAP).within(namespace))
}

fn find_siblings(context: &ControllerContext, namespace: &str) -> Vec<OwnerReference> {
    let here = |repo: &Repo| repo.metadata.namespace.as_deref() == Some(namespace);
    let mut repos = context.repos.state_filter(here);
    repos.sort_by_key(|repo| repo.name_any());
    repos.iter().filter_map(|repo| repo.owner_ref(&())).collect()
}

fn reference_to<K: kube::Resource<DynamicType = ()>>(name: &str, key: &ObjectKey) -> ObjectRef<K> {
    ObjectRef::new(name).within(&key.namespace)
}
