//! Context that all parts of the gateway share: watch caches, secrets by name, and connections to
//! the outside.

use std::sync::Arc;

use codebutler_crds::repo::SecretRef;
use codebutler_crds::{AgentRole, Repo, Thread};
use codebutler_runtime::shards::GatewayShard;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt as _};
use url::Url;

use crate::attended::AttendedThreads;
use crate::dial::{DialReach, OutsideDialer};
use crate::github_access::GitHubAccess;
use crate::groups::UserGroups;
use crate::history::HistoryKeeper;
use crate::mcp_facts::McpFacts;
use crate::redact::RepoRedactors;
use crate::remote::{allows_url, annotation_name};
use crate::secrets::{OpenedSecret, SecretError};
use crate::thread_key::ThreadKey;

/// Clients and watch caches. Cheap to clone.
#[derive(Clone)]
pub struct GatewayContext {
    /// The gateway's own identity.
    pub client: Client,
    /// The operator's namespace, where AgentRoles are looked up second.
    pub namespace: String,
    pub repos: Store<Repo>,
    pub roles: Store<AgentRole>,
    pub threads: Store<Thread>,
    /// Threads of the shard in which anything may still happen.
    pub attended: AttendedThreads,
    /// Repos that a leader looks after: all, where there is one shard. The caches above know the others too, for what
    /// every replica does and for what leads from one Repo to another.
    pub shard: GatewayShard,
    /// Masks what must not leave, with each Repo's own patterns.
    pub redactors: RepoRedactors,
    /// Tokens, rate limits and other state that all calls to GitHub share.
    pub github: GitHubAccess,
    /// Members of the user groups that Repos name.
    pub groups: UserGroups,
    pub dialer: OutsideDialer,
    /// Histories of all conversations.
    pub history: HistoryKeeper,
    /// Facts about servers of the Model Context Protocol.
    pub mcp: McpFacts,
    /// Base URL of the pages where people watch conversations, without a slash at the end.
    pub pages: Option<Arc<str>>,
}

impl GatewayContext {
    /// The same for the leader of a shard.
    #[must_use]
    pub fn of_shard(&self, shard: GatewayShard) -> Self {
        Self { attended: self.attended.of_shard(shard), shard, ..self.clone() }
    }

    /// The Repos of the shard.
    pub fn own_repos(&self) -> Vec<Arc<Repo>> {
        self.repos.state_filter(|repo| self.shard.has_repo(repo))
    }

    /// All Threads of the shard's Repos.
    pub fn own_threads(&self) -> Vec<Arc<Thread>> {
        self.threads.state_filter(|thread| self.shard.has_thread(thread))
    }

    /// The conversation that works a roadmap off to which a Thread belongs, as long as it does.
    pub fn roadmap_of(&self, thread: &Thread) -> Option<Arc<Thread>> {
        let item = thread.spec.item.as_ref()?;
        let name = thread.spec.parent.clone()?;
        let parent = self.thread(&ThreadKey { namespace: thread.namespace()?, name })?;
        let run = parent.status.as_ref()?.roadmap.as_deref()?;
        let works = run.is_approved() && run.items.iter().any(|own| own.id == *item);
        (works && parent.spec.repo == thread.spec.repo).then_some(parent)
    }

    /// Returns true if nobody has said anything in an item's Thread: its questions can wait for
    /// those of the others.
    pub fn is_unattended(&self, thread: &Thread) -> bool {
        let untouched = thread.status.as_ref().is_none_or(|status| status.speaker.is_none());
        untouched && self.roadmap_of(thread).is_some()
    }

    /// Waits until all caches are filled. To be waited for in one place at a time: of several that wait
    /// for a store, kube 5 wakes the last one only.
    ///
    /// # Errors
    /// When a cache ended before.
    pub async fn synced(&self) -> Result<(), WriterDropped> {
        self.repos.wait_until_ready().await?;
        self.roles.wait_until_ready().await?;
        self.threads.wait_until_ready().await
    }

    /// A Repo from the cache, with the members of its groups among its people.
    pub fn repo(&self, namespace: &str, name: &str) -> Option<Arc<Repo>> {
        let repo = self.repos.get(&ObjectRef::new(name).within(namespace))?;
        Some(self.groups.expand(repo))
    }

    /// A Thread from the cache; it can lag behind the API server by moments.
    pub fn thread(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        self.threads.get(&ObjectRef::new(&key.name).within(&key.namespace))
    }

    /// The AgentRoles that a Repo names, in its order: from its namespace, else the operator's.
    /// Names that don't exist are left out; the controller reports them.
    pub fn roles_of(&self, repo: &Repo) -> Vec<Arc<AgentRole>> {
        let namespace = repo.namespace().unwrap_or_default();
        let find = |ns: &str, name: &str| self.roles.get(&ObjectRef::new(name).within(ns));
        let found = |name: &String| find(&namespace, name).or_else(|| find(&self.namespace, name));
        repo.spec.roles.iter().filter_map(found).collect()
    }

    /// Address of the page on a Thread, if there is one.
    pub fn page(&self, thread: &ThreadKey) -> Option<String> {
        self.pages.as_ref().map(|base| format!("{base}/{thread}"))
    }

    /// The client for model providers and Git hosts.
    pub fn http(&self) -> &reqwest::Client {
        self.dialer.http(DialReach::Outside)
    }

    /// Reads one key of a Secret that a Repo names, provided that the Secret may be sent to a URL
    /// by its annotation, and that whoever chose the URL may choose what it leads to.
    ///
    /// # Errors
    /// A sentence that names Secret, key or annotation, and never the value.
    pub async fn secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
        key: &str,
        to: (&Url, DialReach),
    ) -> Result<String, SecretError> {
        self.open_secret(namespace, reference, to).await?.value(key)
    }

    /// The whole Secret, under the same condition.
    ///
    /// # Errors
    /// A sentence that names Secret or annotation.
    pub async fn open_secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
        (url, reach): (&Url, DialReach),
    ) -> Result<OpenedSecret, SecretError> {
        let name = &reference.name;
        let host = || annotation_name(url).unwrap_or_default();
        if reach == DialReach::Outside && self.dialer.admit(url).is_err() {
            return Err(SecretError::Internal { name: name.clone(), host: host() });
        }
        let opened = self.read_secret(namespace, reference).await?;
        if !allows_url(opened.allowed_hosts(), url) {
            return Err(SecretError::Host { name: name.clone(), host: host() });
        }
        Ok(opened)
    }

    /// The whole Secret, for what is sent nowhere: no annotation has to allow it.
    ///
    /// # Errors
    /// A sentence that names the Secret.
    pub async fn read_secret(
        &self,
        namespace: &str,
        reference: &SecretRef,
    ) -> Result<OpenedSecret, SecretError> {
        let name = &reference.name;
        let secret = Api::<Secret>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(|source| self.unread(namespace, name, source))?
            .ok_or_else(|| SecretError::Missing { name: name.clone() })?;
        Ok(OpenedSecret::new(name, secret))
    }

    fn unread(&self, namespace: &str, name: &str, source: kube::Error) -> SecretError {
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        match source {
            kube::Error::Api(refused) if refused.code == 403 => {
                SecretError::Forbidden { name, namespace, system: self.namespace.clone() }
            }
            source => SecretError::Unreadable { name, source },
        }
    }
}
