//! Objects by the one they belong to: the pods of a Thread, the Threads of a Repo. A look-up costs
//! the same at ten Threads and at twenty thousand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use parking_lot::RwLock;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.meta().namespace.clone().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

type IndexGroups<V> = HashMap<ObjectKey, BTreeMap<String, IndexEntry<V>>>;

/// Time for which an object that no watch has reported yet is assumed to exist.
const ASSUMED: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct IndexEntry<V> {
    value: Arc<V>,
    /// Time since which the object is only assumed to exist; None once a watch has reported it.
    assumed: Option<Instant>,
}

impl<V> IndexEntry<V> {
    fn current(&self) -> Option<&Arc<V>> {
        self.assumed.is_none_or(|since| since.elapsed() < ASSUMED).then_some(&self.value)
    }
}

/// Projection of an object into an index: the key of its owner, which never changes, and a value for as long as the
/// object counts.
pub(crate) type IndexProjection<K, V> = fn(&K) -> Option<(ObjectKey, Option<V>)>;

/// Objects of kind `K`, kept as `V`, grouped by the key of what they belong to.
#[derive(Debug)]
pub(crate) struct ObjectIndex<K, V> {
    project: IndexProjection<K, V>,
    groups: RwLock<IndexGroups<V>>,
    /// Objects that a list in progress has brought so far.
    listing: RwLock<IndexGroups<V>>,
}

impl<K: Resource, V> ObjectIndex<K, V> {
    /// An empty index. Objects for which `project` gives nothing are left out.
    pub(crate) fn new(project: IndexProjection<K, V>) -> Self {
        Self { project, groups: RwLock::default(), listing: RwLock::default() }
    }

    pub(crate) fn of(&self, owner: &ObjectKey) -> Vec<Arc<V>> {
        let groups = self.groups.read();
        let group = groups.get(owner).into_iter().flat_map(BTreeMap::values);
        group.filter_map(IndexEntry::current).cloned().collect()
    }

    /// Names of the objects in one group.
    pub(crate) fn names(&self, owner: &ObjectKey) -> Vec<String> {
        let groups = self.groups.read();
        let group = groups.get(owner).into_iter().flatten();
        group.filter(|(_, entry)| entry.current().is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Number of objects in one group. Includes objects that are only assumed to exist, for as long as they are kept.
    pub(crate) fn count(&self, owner: &ObjectKey) -> usize {
        let groups = self.groups.read();
        groups.get(owner).map_or(0, BTreeMap::len)
    }

    /// All groups, each with its owner and the names in it.
    pub(crate) fn groups(&self) -> Vec<(ObjectKey, Vec<String>)> {
        let groups = self.groups.read();
        let named = |(owner, group): (&ObjectKey, &BTreeMap<String, IndexEntry<V>>)| {
            (owner.clone(), group.keys().cloned().collect())
        };
        groups.iter().map(named).collect()
    }

    /// Calls `find` for all objects. Returns what it found, each with the owner of its object.
    pub(crate) fn find_all<T>(&self, find: impl Fn(&V) -> Option<T>) -> Vec<(ObjectKey, T)> {
        let groups = self.groups.read();
        let all = groups.iter().flat_map(|(owner, group)| {
            let values = group.values().filter_map(IndexEntry::current);
            values.filter_map(|value| Some((owner.clone(), find(value)?))).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// Number of objects in each group. The cost does not depend on how many these are.
    pub(crate) fn counts(&self) -> Vec<(ObjectKey, usize)> {
        let groups = self.groups.read();
        groups.iter().map(|(owner, group)| (owner.clone(), group.len())).collect()
    }

    /// Takes in what a watch says and returns whose groups it touched.
    pub(crate) fn apply(&self, event: &Event<K>) -> Vec<ObjectKey> {
        let mut groups = self.groups.write();
        let mut listing = self.listing.write();
        match event {
            Event::Apply(object) => self.insert(&mut groups, object).into_iter().collect(),
            Event::Delete(object) => self.remove(&mut groups, object).into_iter().collect(),
            Event::InitApply(object) => {
                self.insert(&mut listing, object);
                Vec::new()
            }
            Event::Init => {
                listing.clear();
                Vec::new()
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut *groups, std::mem::take(&mut *listing));
                let touched: BTreeSet<_> =
                    before.into_keys().chain(groups.keys().cloned()).collect();
                touched.into_iter().collect()
            }
        }
    }

    fn insert(&self, groups: &mut IndexGroups<V>, object: &K) -> Option<ObjectKey> {
        let (owner, Some(value)) = (self.project)(object)? else {
            return self.remove(groups, object);
        };
        let entry = IndexEntry { value: Arc::new(value), assumed: None };
        groups.entry(owner.clone()).or_default().insert(object.name_any(), entry);
        Some(owner)
    }

    fn remove(&self, groups: &mut IndexGroups<V>, object: &K) -> Option<ObjectKey> {
        let (owner, _) = (self.project)(object)?;
        if let Some(group) = groups.get_mut(&owner) {
            group.remove(&object.name_any());
            if group.is_empty() {
                groups.remove(&owner);
            }
        }
        Some(owner)
    }
}

impl<O: Resource> ObjectIndex<O, O> {
    /// Takes in an object that was just created, before the watch tells of it. Without this the
    /// next look would not see it, and would create it again. Should it be gone before this is
    /// called, the watch will never tell of it: so it is forgotten after a while.
    pub(crate) fn assume(&self, object: &O) {
        let Some((owner, Some(value))) = (self.project)(object) else { return };
        let mut groups = self.groups.write();
        let group = groups.entry(owner).or_default();
        let known = group.get(&object.name_any());
        if known.is_none_or(|known| known.value.meta().uid != object.meta().uid) {
            let entry = IndexEntry { value: Arc::new(value), assumed: Some(Instant::now()) };
            group.insert(object.name_any(), entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, uid: &str, thread: &str) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "labels": {"t": thread}}
        }))
        .unwrap()
    }

    fn names(index: &ObjectIndex<Pod, Pod>, thread: &str) -> Vec<String> {
        let uid = |pod: &Arc<Pod>| pod.uid().unwrap();
        index.of(&ObjectKey::new("ns", thread)).iter().map(uid).collect()
    }

    #[test]
    fn groups_follow_the_watch_and_what_was_just_created() {
        let index = ObjectIndex::<Pod, Pod>::new(|pod| {
            Some((
                ObjectKey::new(pod.namespace()?, pod.labels().get("t")?.clone()),
                Some(pod.clone()),
            ))
        });
        index.apply(&Event::Init);
        index.apply(&Event::InitApply(pod("a", "1", "x")));
        assert!(names(&index, "x").is_empty(), "a list counts once it is complete");
        index.apply(&Event::InitDone);
        index.assume(&pod("b", "2", "x"));
        assert_eq!(names(&index, "x"), ["1", "2"]);

        index.apply(&Event::Delete(pod("a", "1", "x")));
        index.assume(&pod("b", "3", "x"));
        index.apply(&Event::Apply(pod("c", "4", "y")));
        assert_eq!(names(&index, "x"), ["3"]);
        assert_eq!(names(&index, "y"), ["4"]);

        index.apply(&Event::Init);
        let touched = index.apply(&Event::InitDone);
        assert!(names(&index, "x").is_empty());
        assert_eq!(
            touched,
            [ObjectKey::new("ns", "x"), ObjectKey::new("ns", "y")],
            "the gone ones too"
        );
    }

    #[test]
    fn what_does_not_count_any_more_is_left_out() {
        let index = ObjectIndex::<Pod, ()>::new(|pod| {
            let owner = ObjectKey::new(pod.namespace()?, "all");
            Some((owner, pod.labels().contains_key("t").then_some(())))
        });
        let all = ObjectKey::new("ns", "all");
        let (counts, mut ended) = (pod("a", "1", "x"), pod("b", "2", "x"));
        index.apply(&Event::Apply(counts));
        index.apply(&Event::Apply(ended.clone()));
        assert_eq!((index.names(&all), index.count(&all)), (vec!["a".into(), "b".into()], 2));
        ended.metadata.labels = None;
        assert_eq!(index.apply(&Event::Apply(ended.clone())), std::slice::from_ref(&all));
        assert_eq!((index.names(&all), index.count(&all)), (vec!["a".into()], 1));
        index.apply(&Event::Init);
        index.apply(&Event::InitApply(ended));
        index.apply(&Event::InitDone);
        assert_eq!(index.count(&all), 0);
    }
}
