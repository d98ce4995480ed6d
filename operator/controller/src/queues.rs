//! Queues that trigger another look at objects that depend on something that changed.

use std::sync::Arc;

use codebutler_crds::{AgentRole, Repo, Thread};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;

use super::index::{ObjectIndex, ObjectKey};

/// The three queues' receiving ends.
pub(crate) struct QueueReceivers {
    pub repos: UnboundedReceiver<ObjectKey>,
    pub roles: UnboundedReceiver<ObjectKey>,
    pub threads: UnboundedReceiver<ObjectKey>,
}

/// The sending ends, and who depends on whom. An object that waits in its queue is not queued
/// twice. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ControllerQueues {
    repos: UnboundedSender<ObjectKey>,
    roles: UnboundedSender<ObjectKey>,
    threads: UnboundedSender<ObjectKey>,
    all_repos: Store<Repo>,
    open: Arc<ObjectIndex<Thread, ()>>,
    operator: String,
}

impl QueueReceivers {
    /// Takes everything out and drops it, for as long as somebody else acts: caches keep what there
    /// is to know.
    pub(crate) async fn drain(&mut self) {
        loop {
            tokio::select! {
                Some(_) = self.repos.next() => {}
                Some(_) = self.roles.next() => {}
                Some(_) = self.threads.next() => {}
                else => std::future::pending().await,
            }
        }
    }
}

impl ControllerQueues {
    /// Empty queues. `operator` is the operator's namespace.
    pub(crate) fn new(
        all_repos: Store<Repo>,
        open: Arc<ObjectIndex<Thread, ()>>,
        operator: &str,
    ) -> (Self, QueueReceivers) {
        let (repos, repos_out) = unbounded();
        let (roles, roles_out) = unbounded();
        let (threads, threads_out) = unbounded();
        let operator = operator.to_owned();
        let queues = Self { repos, roles, threads, all_repos, open, operator };
        (queues, QueueReceivers { repos: repos_out, roles: roles_out, threads: threads_out })
    }

    pub(crate) fn repo(&self, repo: &ObjectKey) {
        // Fails only while the process ends.
        let _ = self.repos.unbounded_send(repo.clone());
    }

    pub(crate) fn role(&self, role: &ObjectKey) {
        let _ = self.roles.unbounded_send(role.clone());
    }

    pub(crate) fn thread(&self, thread: &ObjectKey) {
        let _ = self.threads.unbounded_send(thread.clone());
    }

    /// Queues these Threads of a namespace.
    pub(crate) fn threads(&self, namespace: &str, names: Vec<String>) {
        for name in names {
            self.thread(&ObjectKey::new(namespace, name));
        }
    }

    /// The open Threads of a Repo.
    pub(crate) fn threads_of(&self, repo: &ObjectKey) {
        self.threads(&repo.namespace, self.open.names(repo));
    }

    /// A Repo and its open Threads.
    pub(crate) fn repo_and_threads(&self, repo: &ObjectKey) {
        self.repo(repo);
        self.threads_of(repo);
    }

    /// The Repos that name an AgentRole, and their Threads.
    pub(crate) fn users_of_role(&self, role: &AgentRole) {
        let ObjectKey { namespace, name } = ObjectKey::of(role);
        let anywhere = namespace == self.operator;
        self.repos_where(|repo| {
            (anywhere || repo.metadata.namespace.as_ref() == Some(&namespace))
                && repo.spec.roles.contains(&name)
        });
    }

    /// Queues all Repos and their Threads.
    pub(crate) fn all(&self) {
        self.repos_where(|_| true);
    }

    /// The Repos of a namespace (of all, for the operator's), and their Threads.
    pub(crate) fn repos_in(&self, namespace: &str) {
        let anywhere = namespace == self.operator;
        self.repos_where(|repo| anywhere || repo.namespace().as_deref() == Some(namespace));
    }

    /// The Repos that keep seats.
    pub(crate) fn warm_repos(&self) {
        for repo in self.all_repos.state_filter(|repo| repo.spec.warm.is_some()) {
            self.repo(&ObjectKey::of(&*repo));
        }
    }

    fn repos_where(&self, wanted: impl Fn(&Repo) -> bool) {
        for repo in self.all_repos.state_filter(wanted) {
            self.repo_and_threads(&ObjectKey::of(&*repo));
        }
    }
}
