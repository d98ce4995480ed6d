//! From a pod's UID to the role that it claims to be in a Thread, kept by the watch on Threads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use codebutler_crds::Thread;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;

use crate::gateway::thread_key::ThreadKey;

/// An index over the pods in Threads' statuses. Cheap to clone; all clones are one index.
///
/// What it answers is a hint to be checked against the Thread itself.
#[derive(Clone, Debug, Default)]
pub struct PodIndex(Arc<RwLock<Maps>>);

#[derive(Debug, Default)]
struct Maps {
    /// By namespace and pod UID. A status can repeat another Thread's UID only in its own
    /// namespace, and only the controller writes either.
    roles: HashMap<(String, String), (ThreadKey, String)>,
    /// What each Thread contributed, to be taken back.
    pods: HashMap<ThreadKey, Vec<String>>,
    /// Threads seen since the watch began anew.
    listed: Option<HashSet<ThreadKey>>,
}

impl PodIndex {
    /// Takes in what the watch reports, after the cache has.
    pub fn observe(&self, event: &Event<Thread>) {
        let mut maps = self.0.write();
        match event {
            Event::Apply(thread) => maps.set(thread),
            Event::Delete(thread) => maps.remove(&ThreadKey::from(thread)),
            Event::Init => maps.listed = Some(HashSet::new()),
            Event::InitApply(thread) => {
                maps.set(thread);
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

    /// The Thread and role that named this pod when last heard of.
    pub fn find(&self, namespace: &str, uid: &str) -> Option<(ThreadKey, String)> {
        let maps = self.0.read();
        maps.roles.get(&(namespace.to_owned(), uid.to_owned())).cloned()
    }
}

impl Maps {
    fn set(&mut self, thread: &Thread) {
        let key = ThreadKey::from(thread);
        self.remove(&key);
        let roles = thread.status.iter().flat_map(|status| &status.roles);
        let mut pods = Vec::new();
        for (role, status) in roles {
            let Some(uid) = status.pod_uid.clone().filter(|uid| !uid.is_empty()) else { continue };
            self.roles.insert((key.namespace.clone(), uid.clone()), (key.clone(), role.clone()));
            pods.push(uid);
        }
        if !pods.is_empty() {
            self.pods.insert(key, pods);
        }
    }

    fn remove(&mut self, key: &ThreadKey) {
        for uid in self.pods.remove(key).unwrap_or_default() {
            let entry = (key.namespace.clone(), uid);
            if self.roles.get(&entry).is_some_and(|(owner, _)| owner == key) {
                self.roles.remove(&entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        index.find("team", uid).map(|(key, role)| format!("{}/{role}", key.name))
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
