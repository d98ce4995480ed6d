//! Objects in memory, one counter of versions, and the log that watches read.
//!
//! Nothing here knows what a kind is: a table is a name, an object is a JSON value. Every write is a
//! compare-and-swap on the object's version.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::object;

/// Namespace (empty for cluster-wide objects) and name.
pub(super) type StoreKey = (String, String);

/// One version of a stored object.
#[derive(Debug)]
pub(super) struct StoredObject {
    /// The version, the same as in its metadata.
    pub version: u64,
    pub value: Value,
    json: OnceLock<Bytes>,
    item: OnceLock<Bytes>,
}

impl StoredObject {
    fn new(version: u64, value: Value) -> Arc<Self> {
        Arc::new(Self { version, value, json: OnceLock::new(), item: OnceLock::new() })
    }

    /// The object as JSON, serialized once for all who read it.
    pub(super) fn json(&self) -> Bytes {
        self.json.get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into()).clone()
    }

    /// The object as JSON without its kind and version, as items of lists are.
    pub(super) fn item_json(&self) -> Bytes {
        let serialize = || {
            let fields = self.value.as_object().into_iter().flatten();
            let rest: BTreeMap<&String, &Value> =
                fields.filter(|(name, _)| *name != "kind" && *name != "apiVersion").collect();
            serde_json::to_vec(&rest).unwrap_or_default().into()
        };
        self.item.get_or_init(serialize).clone()
    }

    /// Key of the object in its table.
    pub(super) fn key(&self) -> StoreKey {
        (
            object::object_namespace(&self.value).to_owned(),
            object::object_name(&self.value).to_owned(),
        )
    }
}

/// A write, with the object before and after it.
#[derive(Debug)]
pub(super) struct StoreEvent {
    /// Version that the write made.
    pub version: u64,
    /// The object before, unless it was created.
    pub before: Option<Arc<StoredObject>>,
    /// The object after, unless it was deleted.
    pub after: Option<Arc<StoredObject>>,
    /// The object's last state with the version of this write, if it was deleted.
    pub last: Option<Arc<StoredObject>>,
}

/// An error that keeps a write or a read of changes from being done.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    /// The object is gone or has another version.
    #[error("changed meanwhile")]
    Raced,
    /// The version is older than the log.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired {
        asked: u64,
        /// The oldest version that can be answered.
        oldest: u64,
    },
}

/// An error that keeps an object from being added.
#[derive(Debug)]
pub(super) enum CreateError<E> {
    /// An object of that name exists.
    Exists,
    /// The caller's own check failed.
    Refused(E),
}

struct StoredChange {
    before: Option<Arc<StoredObject>>,
    after: Option<Arc<StoredObject>>,
    last: Option<Arc<StoredObject>>,
}

#[derive(Default)]
struct ObjectTable {
    objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    log: VecDeque<Arc<StoreEvent>>,
    /// The newest version that was dropped from the log.
    forgotten: u64,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct StoreInner {
    version: u64,
    /// The first version that a client can have seen, once there can be clients.
    began: Option<u64>,
    tables: HashMap<String, ObjectTable>,
}

/// The store of all objects, with a log of recent writes.
pub(super) struct ObjectStore {
    inner: RwLock<StoreInner>,
    log_length: usize,
}

impl ObjectStore {
    /// An empty store that remembers the given number of writes per table.
    pub(super) fn new(log_length: usize) -> Self {
        Self { inner: RwLock::new(StoreInner { version: 1, ..StoreInner::default() }), log_length }
    }

    fn read(&self) -> RwLockReadGuard<'_, StoreInner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, StoreInner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the newest write.
    pub(super) fn version(&self) -> u64 {
        self.read().version
    }

    /// Every object by table, and the version at which this was the state.
    pub(super) fn everything(&self) -> (BTreeMap<String, Vec<Arc<StoredObject>>>, u64) {
        let inner = self.read();
        let tables = inner
            .tables
            .iter()
            .map(|(name, table)| (name.clone(), objects_within(&table.objects, None)));
        (tables.collect(), inner.version)
    }

    /// Puts back what a store of another life held at `version`. No watch can go back behind that.
    pub(super) fn restore(&self, tables: BTreeMap<String, Vec<Value>>, version: u64) {
        let mut inner = self.write();
        inner.version = inner.version.max(version);
        for (name, objects) in tables {
            let table = inner.tables.entry(name).or_default();
            table.forgotten = version;
            for value in objects {
                let of = object::meta_field(&value, "resourceVersion").and_then(Value::as_str);
                let of = of.and_then(|text| text.parse().ok()).unwrap_or(version);
                let stored = StoredObject::new(of, value);
                table.objects.insert(stored.key(), stored);
            }
        }
    }

    /// From now on clients see versions. Of tables that are not in use yet nothing is forgotten since.
    pub(super) fn begin(&self) {
        let mut inner = self.write();
        inner.began = Some(inner.version);
    }

    /// Reads the newest version of an object.
    pub(super) fn get(
        &self,
        table: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<StoredObject>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.read().tables.get(table)?.objects.get(&key).cloned()
    }

    /// The objects of a table, of one namespace or of all, in the order of their keys, and the
    /// version at which this was the state.
    pub(super) fn list(
        &self,
        table: &str,
        namespace: Option<&str>,
    ) -> (Vec<Arc<StoredObject>>, u64) {
        let inner = self.read();
        let Some(table) = inner.tables.get(table) else { return (Vec::new(), inner.version) };
        (objects_within(&table.objects, namespace), inner.version)
    }

    /// The one object of this name, if it is there, in the same form as [`Self::list`].
    pub(super) fn list_one(
        &self,
        table: &str,
        namespace: &str,
        name: &str,
    ) -> (Vec<Arc<StoredObject>>, u64) {
        let inner = self.read();
        let key = (namespace.to_owned(), name.to_owned());
        let one = inner.tables.get(table).and_then(|table| table.objects.get(&key));
        (one.cloned().into_iter().collect(), inner.version)
    }

    /// The objects of a table as they were at an earlier version.
    pub(super) fn list_at(
        &self,
        table: &str,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Vec<Arc<StoredObject>>, StoreError> {
        let inner = self.read();
        let Some(table) = inner.tables.get(table) else { return Ok(Vec::new()) };
        if version < table.forgotten {
            return Err(StoreError::Expired { asked: version, oldest: table.forgotten });
        }
        let mut objects = table.objects.clone();
        for event in table.log.iter().rev().take_while(|e| e.version > version) {
            match (&event.before, &event.after) {
                (Some(before), _) => objects.insert(before.key(), Arc::clone(before)),
                (None, Some(after)) => objects.remove(&after.key()),
                (None, None) => None,
            };
        }
        Ok(objects_within(&objects, namespace))
    }

    /// Adds an object. `allowed` looks at the store under the same lock, so that what it saw still
    /// holds when the object appears.
    pub(super) fn create<E>(
        &self,
        table: &str,
        value: Value,
        allowed: impl FnOnce(&StoreView<'_>) -> Result<(), E>,
    ) -> Result<Arc<StoredObject>, CreateError<E>> {
        let mut inner = self.write();
        allowed(&StoreView(&inner)).map_err(CreateError::Refused)?;
        let key =
            (object::object_namespace(&value).to_owned(), object::object_name(&value).to_owned());
        if inner.tables.get(table).is_some_and(|t| t.objects.contains_key(&key)) {
            return Err(CreateError::Exists);
        }
        let stored = inner.stamp(value);
        let change = StoredChange { before: None, after: Some(Arc::clone(&stored)), last: None };
        inner.commit(table, self.log_length, key, change);
        Ok(stored)
    }

    /// Replaces an object that still has the version `expected`.
    pub(super) fn replace(
        &self,
        table: &str,
        expected: u64,
        value: Value,
    ) -> Result<Arc<StoredObject>, StoreError> {
        let mut inner = self.write();
        let key =
            (object::object_namespace(&value).to_owned(), object::object_name(&value).to_owned());
        let before = inner.expect(table, &key, expected)?;
        let stored = inner.stamp(value);
        let change =
            StoredChange { before: Some(before), after: Some(Arc::clone(&stored)), last: None };
        inner.commit(table, self.log_length, key, change);
        Ok(stored)
    }

    /// Removes an object that still has the version `expected`. `last` is its final state, which
    /// watches and the caller get with the version of the removal.
    pub(super) fn remove(
        &self,
        table: &str,
        expected: u64,
        last: Value,
    ) -> Result<Arc<StoredObject>, StoreError> {
        let mut inner = self.write();
        let key =
            (object::object_namespace(&last).to_owned(), object::object_name(&last).to_owned());
        let before = inner.expect(table, &key, expected)?;
        let last = inner.stamp(last);
        let change =
            StoredChange { before: Some(before), after: None, last: Some(Arc::clone(&last)) };
        inner.commit(table, self.log_length, key, change);
        Ok(last)
    }

    /// Events of a table after `version`, and the version up to which this is complete.
    pub(super) fn since(
        &self,
        table: &str,
        version: u64,
    ) -> Result<(Vec<Arc<StoreEvent>>, u64), StoreError> {
        let inner = self.read();
        let Some(table) = inner.tables.get(table) else { return Ok((Vec::new(), inner.version)) };
        if version < table.forgotten {
            return Err(StoreError::Expired { asked: version, oldest: table.forgotten });
        }
        let from = table.log.partition_point(|e| e.version <= version);
        Ok((table.log.range(from..).cloned().collect(), inner.version))
    }

    /// Wakes who watches a table, although nothing was written.
    pub(super) fn wake(&self, table: &str) {
        if let Some(table) = self.read().tables.get(table) {
            table.changed.send_modify(|_| {});
        }
    }

    /// Tells of every write to a table from now on.
    pub(super) fn subscribe(&self, table: &str) -> watch::Receiver<u64> {
        self.write().table(table).changed.subscribe()
    }
}

impl StoreInner {
    fn expect(
        &self,
        table: &str,
        key: &StoreKey,
        version: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.tables
            .get(table)
            .and_then(|t| t.objects.get(key))
            .filter(|stored| stored.version == version)
            .cloned()
            .ok_or(StoreError::Raced)
    }

    fn stamp(&mut self, mut value: Value) -> Arc<StoredObject> {
        self.version += 1;
        object::set_meta(&mut value, "resourceVersion", Some(self.version.to_string().into()));
        StoredObject::new(self.version, value)
    }

    /// A table. What was before there were clients is not known; since then it was empty until its first use, so that
    /// a client that has listed it watches it from there, whatever was written to others meanwhile.
    fn table(&mut self, name: &str) -> &mut ObjectTable {
        let forgotten = self.began.unwrap_or(self.version.saturating_sub(1));
        self.tables
            .entry(name.to_owned())
            .or_insert_with(|| ObjectTable { forgotten, ..ObjectTable::default() })
    }

    fn commit(&mut self, table: &str, log_length: usize, key: StoreKey, change: StoredChange) {
        let version = self.version;
        let table = self.table(table);
        match &change.after {
            Some(stored) => table.objects.insert(key, Arc::clone(stored)),
            None => table.objects.remove(&key),
        };
        let StoredChange { before, after, last } = change;
        table.log.push_back(Arc::new(StoreEvent { version, before, after, last }));
        while table.log.len() > log_length {
            if let Some(event) = table.log.pop_front() {
                table.forgotten = event.version;
            }
        }
        table.changed.send_replace(version);
    }
}

/// The store as a writer sees it while it holds the lock.
pub(super) struct StoreView<'a>(&'a StoreInner);

impl StoreView<'_> {
    /// Reads an object as the view has it.
    pub(super) fn get(&self, table: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.tables.get(table)?.objects.get(&key).map(|stored| &stored.value)
    }
}

fn objects_within(
    objects: &BTreeMap<StoreKey, Arc<StoredObject>>,
    namespace: Option<&str>,
) -> Vec<Arc<StoredObject>> {
    match namespace {
        None => objects.values().cloned().collect(),
        Some(namespace) => objects
            .range((namespace.to_owned(), String::new())..)
            .take_while(|((ns, _), _)| ns == namespace)
            .map(|(_, stored)| Arc::clone(stored))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn store(log_length: usize) -> ObjectStore {
        let store = ObjectStore::new(log_length);
        for name in ["a", "b", "c"] {
            let value = json!({"metadata": {"name": name, "namespace": "ns"}});
            store.create("t", value, |_| Ok::<_, ()>(())).unwrap();
        }
        store
    }

    fn names(objects: &[Arc<StoredObject>]) -> Vec<&str> {
        objects.iter().map(|o| object::object_name(&o.value)).collect()
    }

    #[test]
    fn an_earlier_state_is_known_while_the_log_reaches() {
        let store = store(10);
        let version = store.version();
        let a = store.get("t", "ns", "a").unwrap();
        store.remove("t", a.version, a.value.clone()).unwrap();
        assert_eq!(names(&store.list("t", Some("ns")).0), ["b", "c"]);
        assert_eq!(names(&store.list_at("t", None, version).unwrap()), ["a", "b", "c"]);
        assert_eq!(names(&store.list_at("t", None, version - 1).unwrap()), ["a", "b"]);
        assert_eq!(store.since("t", version).unwrap().0.len(), 1);
    }

    #[test]
    fn what_the_log_has_forgotten_is_expired() {
        let store = store(2);
        let newest = store.version();
        assert!(store.since("t", newest - 2).is_ok());
        let expired = store.since("t", newest - 3).unwrap_err();
        assert_eq!(expired, StoreError::Expired { asked: newest - 3, oldest: newest - 2 });
        assert!(store.list_at("t", None, newest - 3).is_err());
    }

    #[test]
    fn a_table_is_watched_from_where_it_was_listed_before_its_first_use() {
        let store = store(10);
        store.begin();
        let (objects, listed) = store.list("unused", None);
        assert!(objects.is_empty());
        for name in ["d", "e"] {
            let value = json!({"metadata": {"name": name, "namespace": "ns"}});
            store.create("t", value, |_| Ok::<_, ()>(())).unwrap();
        }
        let _changed = store.subscribe("unused");
        assert!(store.since("unused", listed).unwrap().0.is_empty());
        let value = json!({"metadata": {"name": "f", "namespace": "ns"}});
        store.create("unused", value, |_| Ok::<_, ()>(())).unwrap();
        assert_eq!(store.since("unused", listed).unwrap().0.len(), 1);
        assert!(store.since("unused", listed - 1).is_err(), "nobody was served then");
    }

    #[test]
    fn a_write_based_on_an_old_version_is_refused() {
        let store = store(10);
        let a = store.get("t", "ns", "a").unwrap();
        store.replace("t", a.version, a.value.clone()).unwrap();
        let raced = store.replace("t", a.version, a.value.clone());
        assert_eq!(raced.unwrap_err(), StoreError::Raced);
    }
}
