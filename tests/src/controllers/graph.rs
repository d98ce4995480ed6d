//! The graph of owner references, and the garbage collector's decisions that follow from it. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The finalizer by which an owner waits for its dependents' deletion.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer by which an owner leaves its dependents behind.
pub(super) const ORPHAN: &str = "orphan";

pub(super) type ObjectUid = String;

/// The part of an object's metadata that the graph keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GraphObject {
    /// `group/version` of its kind, or just the version.
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    /// True while the object waits for finalizers or the end of a grace period.
    pub deleting: bool,
}

/// All objects and their owners.
#[derive(Debug, Default)]
pub(super) struct OwnerGraph {
    objects: HashMap<ObjectUid, GraphObject>,
    dependents: HashMap<ObjectUid, BTreeSet<ObjectUid>>,
}

/// Action of the garbage collector on an object.
#[derive(Debug, PartialEq)]
pub(super) enum GraphVerdict {
    /// The object stays as it is.
    Leave,
    /// The graph does not know its owners. If the API server doesn't have them either, the object is deleted.
    Doubt(Vec<OwnerReference>),
    /// These dependents have to be deleted before it.
    DeleteDependents(BTreeMap<ObjectUid, GraphObject>),
    /// Its dependents are gone, so this finalizer is removed.
    Release(&'static str),
    /// These dependents have to lose it as an owner first.
    Disown(BTreeMap<ObjectUid, GraphObject>),
}

impl GraphObject {
    /// Takes the part of an object that the graph keeps from its metadata.
    pub(super) fn new(api_version: String, kind: String, meta: ObjectMeta) -> Self {
        Self {
            api_version,
            kind,
            namespace: meta.namespace,
            name: meta.name.unwrap_or_default(),
            owners: meta.owner_references.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    fn waits_for(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|found| found == finalizer)
    }
}

impl OwnerGraph {
    /// An object as it is now. Returns whose verdict may be another by that.
    pub(super) fn put(&mut self, uid: &ObjectUid, object: GraphObject) -> Vec<ObjectUid> {
        let before = self.objects.get(uid).cloned();
        if before.as_ref() == Some(&object) {
            return Vec::new();
        }
        for owner in before.iter().flat_map(|before| &before.owners) {
            self.unlink(&owner.uid, uid);
        }
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let mut affected = self.waiting_owners(&object);
        affected.push(uid.clone());
        self.objects.insert(uid.clone(), object);
        affected
    }

    /// An object is gone. Returns whose verdict may be another by that.
    pub(super) fn remove(&mut self, uid: &ObjectUid) -> Vec<ObjectUid> {
        let Some(object) = self.objects.remove(uid) else { return Vec::new() };
        for owner in &object.owners {
            self.unlink(&owner.uid, uid);
        }
        let mut affected = self.waiting_owners(&object);
        affected.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        affected
    }

    /// The objects of a kind, to find those that a new list no longer has.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Vec<ObjectUid> {
        let same = |object: &GraphObject| object.api_version == api_version && object.kind == kind;
        self.objects.iter().filter(|(_, o)| same(o)).map(|(uid, _)| uid.clone()).collect()
    }

    /// The objects whose owners are unknown here.
    pub(super) fn doubtful(&self) -> Vec<ObjectUid> {
        let doubted = |uid: &&ObjectUid| matches!(self.verdict(uid), GraphVerdict::Doubt(_));
        self.objects.keys().filter(doubted).cloned().collect()
    }

    /// The object with that UID.
    pub(super) fn get(&self, uid: &ObjectUid) -> Option<&GraphObject> {
        self.objects.get(uid)
    }

    /// True if at least one object names this one as its owner.
    pub(super) fn has_dependents(&self, uid: &ObjectUid) -> bool {
        self.dependents.get(uid).is_some_and(|dependents| !dependents.is_empty())
    }

    /// Decides which action the object calls for.
    pub(super) fn verdict(&self, uid: &ObjectUid) -> GraphVerdict {
        let Some(object) = self.objects.get(uid) else { return GraphVerdict::Leave };
        if object.waits_for(ORPHAN) {
            let all = self.dependents_of(uid, |_| true);
            return if all.is_empty() {
                GraphVerdict::Release(ORPHAN)
            } else {
                GraphVerdict::Disown(all)
            };
        }
        if object.waits_for(FOREGROUND) {
            let blocking = |o: &GraphObject| {
                let mut owners = o.owners.iter();
                owners.any(|r| &r.uid == uid && r.block_owner_deletion == Some(true))
            };
            if self.dependents_of(uid, blocking).is_empty() {
                return GraphVerdict::Release(FOREGROUND);
            }
            return GraphVerdict::DeleteDependents(self.dependents_of(uid, |o| !o.deleting));
        }
        if object.deleting || object.owners.is_empty() {
            return GraphVerdict::Leave;
        }
        if object.owners.iter().any(|owner| self.objects.contains_key(&owner.uid)) {
            return GraphVerdict::Leave;
        }
        GraphVerdict::Doubt(object.owners.clone())
    }

    fn dependents_of(
        &self,
        uid: &ObjectUid,
        keep: impl Fn(&GraphObject) -> bool,
    ) -> BTreeMap<ObjectUid, GraphObject> {
        let all = self.dependents.get(uid).into_iter().flatten();
        all.filter_map(|uid| Some((uid.clone(), self.objects.get(uid)?.clone())))
            .filter(|(_, object)| keep(object))
            .collect()
    }

    fn waiting_owners(&self, object: &GraphObject) -> Vec<ObjectUid> {
        let owners = object.owners.iter().map(|owner| owner.uid.clone());
        owners.filter(|uid| self.objects.get(uid).is_some_and(|owner| owner.deleting)).collect()
    }

    fn unlink(&mut self, owner: &ObjectUid, dependent: &ObjectUid) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, owners: &[&str]) -> GraphObject {
        let owner = |uid: &&str| OwnerReference {
            uid: (*uid).to_owned(),
            block_owner_deletion: Some(true),
            ..OwnerReference::default()
        };
        GraphObject {
            name: name.to_owned(),
            owners: owners.iter().map(owner).collect(),
            ..GraphObject::default()
        }
    }

    fn uids(uids: &[&str]) -> Vec<ObjectUid> {
        uids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependents_are_doubted_when_the_last_owner_goes() {
        let mut graph = OwnerGraph::default();
        for (uid, owners) in [("a", vec![]), ("b", vec![]), ("c", vec!["a", "b"])] {
            graph.put(&uid.to_owned(), object(uid, &owners));
        }
        assert_eq!(graph.verdict(&"c".to_owned()), GraphVerdict::Leave);
        assert_eq!(graph.remove(&"a".to_owned()), uids(&["c"]));
        assert_eq!(graph.verdict(&"c".to_owned()), GraphVerdict::Leave);
        graph.remove(&"b".to_owned());
        assert!(
            matches!(graph.verdict(&"c".to_owned()), GraphVerdict::Doubt(owners) if owners.len() == 2)
        );
    }

    #[test]
    fn a_foreground_owner_goes_after_its_dependents() {
        let mut graph = OwnerGraph::default();
        let owner = GraphObject {
            deleting: true,
            finalizers: vec![FOREGROUND.to_owned()],
            ..object("a", &[])
        };
        graph.put(&"c".to_owned(), object("c", &["a"]));
        assert_eq!(graph.put(&"a".to_owned(), owner), uids(&["a"]));
        let GraphVerdict::DeleteDependents(first) = graph.verdict(&"a".to_owned()) else {
            panic!("dependents first")
        };
        assert_eq!(first.into_keys().collect::<Vec<_>>(), ["c"]);
        let deleting = GraphObject { deleting: true, ..object("c", &["a"]) };
        assert_eq!(graph.put(&"c".to_owned(), deleting), uids(&["a", "c"]));
        assert_eq!(graph.verdict(&"a".to_owned()), GraphVerdict::DeleteDependents(BTreeMap::new()));
        assert_eq!(graph.remove(&"c".to_owned()), uids(&["a"]));
        assert_eq!(graph.verdict(&"a".to_owned()), GraphVerdict::Release(FOREGROUND));
    }

    #[test]
    fn an_orphaning_owner_is_forgotten_first() {
        let mut graph = OwnerGraph::default();
        let finalizers = vec![ORPHAN.to_owned()];
        graph.put(&"a".to_owned(), GraphObject { deleting: true, finalizers, ..object("a", &[]) });
        graph.put(&"c".to_owned(), object("c", &["a"]));
        assert!(
            matches!(graph.verdict(&"a".to_owned()), GraphVerdict::Disown(all) if all.len() == 1)
        );
        assert_eq!(graph.put(&"c".to_owned(), object("c", &[])), uids(&["c"]));
        // The owner no longer hears of it by its dependents; the one who disowned them looks again.
        assert_eq!(graph.verdict(&"a".to_owned()), GraphVerdict::Release(ORPHAN));
    }
}
