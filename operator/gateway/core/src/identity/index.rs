//! From a pod's UID to the role or server that it claims to be, kept by the watches on Threads and Repos.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Repo, Thread};
use kube::runtime::watcher::Event;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::repo_key::RepoKey;
use crate::thread_key::ThreadKey;

/// The part that a pod plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPart {
    /// A role of a Thread.
    Role(ThreadKey, String),
    Server(ThreadKey, String),
    Shared(RepoKey, String),
    /// A seat of a Repo, as its pod is called, that no Thread has taken.
    Seat(RepoKey, String),
}

/// An index over the pods in the statuses of Threads and Repos. Cheap to clone; all clones are one index.
///
/// What it answers is a hint to be checked against the object itself.
#[derive(Clone, Debug, Default)]
pub struct PodIndex(Arc<RwLock<PodMaps>>, Arc<Notify>);

#[derive(Debug, Default)]
struct PodMaps {
    /// Parts by namespace and pod UID. A status can repeat another Thread's UID only in its own
    /// namespace, and only the controller writes either.
    parts: HashMap<(String, String), PodPart>,
    /// Pods that each Thread contributed, so that they can be removed.
    pods: HashMap<ThreadKey, Vec<String>>,
    /// Threads seen since the watch began anew.
    listed: Option<HashSet<ThreadKey>>,
    /// Pods that each Repo contributed.
    repo_pods: HashMap<RepoKey, Vec<String>>,
    /// Seats by namespace and pod UID. A Thread that names one goes before.
    seats: HashMap<(String, String), PodPart>,
    repo_seats: HashMap<RepoKey, Vec<String>>,
    listed_repos: Option<HashSet<RepoKey>>,
}

impl PodIndex {
    /// Takes in what the watch reports, after the cache has.
    pub fn observe(&self, event: &Event<Thread>) {
        let mut maps = self.0.write();
        match event {
            Event::Apply(thread) => {
                if maps.set(thread) {
                    self.1.notify_waiters();
                }
            }
            Event::Delete(thread) => drop(maps.remove(&ThreadKey::from(thread))),
            Event::Init => maps.listed = Some(HashSet::new()),
            Event::InitApply(thread) => {
                if maps.set(thread) {
                    self.1.notify_waiters();
                }
                if let Some(listed) = &mut maps.listed {
                    listed.insert(ThreadKey::from(thread));
                }
            }
            Event::InitDone => {
                let Some(listed) = maps.listed.take() else { return };
                let gone: Vec<_> =
                    maps.pods.keys().filter(|key| !listed.contains(key)).cloned().collect();
                for key in gone {
                    maps.remove(&key);
                }
            }
        }
    }

    /// Takes in an event of the watch of Repos.
    pub fn observe_repo(&self, event: &Event<Repo>) {
        let mut maps = self.0.write();
        match event {
            Event::Apply(repo) => maps.set_repo(repo),
            Event::Delete(repo) => maps.remove_repo(&RepoKey::from(repo)),
            Event::Init => maps.listed_repos = Some(HashSet::new()),
            Event::InitApply(repo) => {
                maps.set_repo(repo);
                if let Some(listed) = &mut maps.listed_repos {
                    listed.insert(RepoKey::from(repo));
                }
            }
            Event::InitDone => {
                let Some(listed) = maps.listed_repos.take() else { return };
                let known = maps.repo_pods.keys().chain(maps.repo_seats.keys());
                let gone: Vec<_> = known.filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    maps.remove_repo(&key);
                }
            }
        }
    }

    /// Returns the part of a pod, by the object that named it when last heard of.
    pub fn find(&self, namespace: &str, uid: &str) -> Option<PodPart> {
        let maps = self.0.read();
        let pod = (namespace.to_owned(), uid.to_owned());
        maps.parts.get(&pod).or_else(|| maps.seats.get(&pod)).cloned()
    }

    /// Waits until a pod is more than a seat, or for at most `wait`. One that nobody names for a
    /// moment is between both: what its Repo says of it may be heard before what its Thread says.
    pub async fn taken(&self, namespace: &str, uid: &str, wait: Duration) -> Option<PodPart> {
        let deadline = Instant::now() + wait;
        loop {
            let mut news = pin!(self.1.notified());
            // Before the look, so that nothing is missed between both.
            news.as_mut().enable();
            let found = self.find(namespace, uid);
            if !matches!(found, None | Some(PodPart::Seat(..))) {
                return found;
            }
            if timeout_at(deadline, news).await.is_err() {
                return self.find(namespace, uid);
            }
        }
    }
}

impl PodMaps {
    /// Sets the pods of a Thread. Returns true if one of them is new.
    fn set(&mut self, thread: &Thread) -> bool {
        let key = ThreadKey::from(thread);
        let before = self.remove(&key);
        let Some(status) = &thread.status else { return false };
        let roles = status.roles.iter().filter_map(|(role, known)| {
            Some((known.pod_uid.clone()?, PodPart::Role(key.clone(), role.clone())))
        });
        let servers = status.mcp.iter().flat_map(|mcp| &mcp.servers).filter_map(|(name, known)| {
            let uid = known.pod.as_ref()?.pod_uid.clone()?;
            Some((uid, PodPart::Server(key.clone(), name.clone())))
        });
        let pods = self.add(&key.namespace, servers.chain(roles).collect());
        let is_new = pods.iter().any(|uid| !before.contains(uid));
        if !pods.is_empty() {
            self.pods.insert(key, pods);
        }
        is_new
    }

    fn set_repo(&mut self, repo: &Repo) {
        let key = RepoKey::from(repo);
        self.remove_repo(&key);
        let known = repo.status.iter().flat_map(|status| &status.mcp_pods);
        let servers = known.filter_map(|(name, pod)| {
            Some((pod.pod_uid.clone()?, PodPart::Shared(key.clone(), name.clone())))
        });
        let own = self.add(&key.namespace, servers.collect());
        let warm = repo.status.iter().filter_map(|status| status.warm.as_ref());
        let seats = warm.flat_map(|warm| &warm.pods);
        let prepared =
            repo.status.iter().filter_map(|status| status.prepared.as_ref()?.pod.as_ref());
        let pods = seats.chain(prepared.map(|pod| (&pod.name, &pod.uid)));
        for (name, uid) in pods.filter(|(_, uid)| !uid.is_empty()) {
            let seat = PodPart::Seat(key.clone(), name.clone());
            self.seats.insert((key.namespace.clone(), uid.clone()), seat);
            self.repo_seats.entry(key.clone()).or_default().push(uid.clone());
        }
        if !own.is_empty() {
            self.repo_pods.insert(key, own);
        }
    }

    fn add(&mut self, namespace: &str, found: Vec<(String, PodPart)>) -> Vec<String> {
        let found = found.into_iter().filter(|(uid, _)| !uid.is_empty());
        let added = found.map(|(uid, part)| {
            self.parts.insert((namespace.to_owned(), uid.clone()), part);
            uid
        });
        added.collect()
    }

    /// Removes a Thread, and returns the pods that it had contributed.
    fn remove(&mut self, key: &ThreadKey) -> Vec<String> {
        let gone = self.pods.remove(key).unwrap_or_default();
        for uid in &gone {
            let entry = (key.namespace.clone(), uid.clone());
            if let Some(PodPart::Role(owner, _) | PodPart::Server(owner, _)) =
                self.parts.get(&entry)
                && owner == key
            {
                self.parts.remove(&entry);
            }
        }
        gone
    }

    fn remove_repo(&mut self, key: &RepoKey) {
        for uid in self.repo_seats.remove(key).unwrap_or_default() {
            let entry = (key.namespace.clone(), uid);
            if matches!(self.seats.get(&entry), Some(PodPart::Seat(owner, _)) if owner == key) {
                self.seats.remove(&entry);
            }
        }
        for uid in self.repo_pods.remove(key).unwrap_or_default() {
            let entry = (key.namespace.clone(), uid);
            if let Some(PodPart::Shared(owner, _)) = self.parts.get(&entry)
                && owner == key
            {
                self.parts.remove(&entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use codebutler_crds::thread::{RoleStatus, SlackThread, ThreadSpec, ThreadStatus};

    fn thread(name: &str, pods: &[(&str, &str)]) -> Thread {
        let slack = SlackThread { channel: "C01".into(), ts: "1.000000".parse().unwrap() };
        let spec = ThreadSpec { repo: "shop".into(), slack: Some(slack), ..ThreadSpec::default() };
        let mut thread = Thread::new(name, spec);
        thread.metadata.namespace = Some("team".into());
        let role = |uid: &str| RoleStatus { pod_uid: Some(uid.into()), ..RoleStatus::default() };
        let roles =
            pods.iter().map(|(name, uid)| ((*name).to_owned(), Box::new(role(uid)))).collect();
        thread.status = Some(ThreadStatus { roles, ..ThreadStatus::default() });
        thread
    }

    fn role(index: &PodIndex, uid: &str) -> Option<String> {
        match index.find("team", uid)? {
            PodPart::Role(key, role) => Some(format!("{}/{role}", key.name)),
            PodPart::Server(key, name) => Some(format!("{}/server {name}", key.name)),
            PodPart::Shared(key, name) => Some(format!("repo {}/server {name}", key.name)),
            PodPart::Seat(key, name) => Some(format!("repo {}/seat {name}", key.name)),
        }
    }

    #[test]
    fn a_servers_pod_is_a_server_until_its_owner_names_another_one() {
        let index = PodIndex::default();
        let mut thread = thread("a", &[("pm", "1")]);
        let servers = serde_json::json!({"servers": {"db": {"pod": {"podUID": "7"}}}});
        thread.status.as_mut().unwrap().mcp = serde_json::from_value(servers).unwrap();
        index.observe(&Event::Apply(thread.clone()));
        assert_eq!(role(&index, "7"), Some("a/server db".into()));
        assert_eq!(role(&index, "1"), Some("a/pm".into()));
        thread.status.as_mut().unwrap().mcp = None;
        index.observe(&Event::Apply(thread));
        assert_eq!(role(&index, "7"), None);

        let mut repo = testing::repo();
        repo.status =
            serde_json::from_value(serde_json::json!({"mcpPods": {"web": {"podUID": "8"}}})).ok();
        index.observe_repo(&Event::Apply(repo));
        assert_eq!(role(&index, "8"), Some("repo shop/server web".into()));
        index.observe_repo(&Event::Init);
        index.observe_repo(&Event::InitDone);
        assert_eq!(role(&index, "8"), None);
        assert_eq!(role(&index, "1"), Some("a/pm".into()), "Threads are another list");
    }

    #[test]
    fn a_replaced_pod_is_nobody_and_its_successor_is_the_role() {
        let index = PodIndex::default();
        index.observe(&Event::Apply(thread("a", &[("pm", "1"), ("coder", "2")])));
        assert_eq!(role(&index, "1"), Some("a/pm".into()));
        assert_eq!(index.find("other", "1"), None);
        index.observe(&Event::Apply(thread("a", &[("pm", "3"), ("coder", "2")])));
        assert_eq!(role(&index, "1"), None);
        assert_eq!(role(&index, "3"), Some("a/pm".into()));
        index.observe(&Event::Delete(thread("a", &[])));
        assert_eq!(role(&index, "2"), None);
    }

    #[test]
    fn a_new_list_forgets_what_it_does_not_contain() {
        let index = PodIndex::default();
        index.observe(&Event::Apply(thread("a", &[("pm", "1")])));
        index.observe(&Event::Init);
        index.observe(&Event::InitApply(thread("b", &[("pm", "2")])));
        assert_eq!(role(&index, "1"), Some("a/pm".into()), "answers stay while it is listed");
        index.observe(&Event::InitDone);
        assert_eq!(role(&index, "1"), None);
        assert_eq!(role(&index, "2"), Some("b/pm".into()));
    }
}
