//! One watch per kind, shared by everything in the process.

use std::collections::HashMap;
use std::sync::Arc;

use codebutler_runtime::scope::{WatchedKind, status_code};
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt as _};
use tokio::sync::oneshot;

/// Kind of change that an event reports for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectTouch {
    /// The object exists, new or changed.
    Seen,
    Gone,
}

/// An object that was touched: as it is now (or was last), as it was before, and how.
pub(crate) type TouchedObject<K> = (Arc<K>, Option<Arc<K>>, ObjectTouch);

/// A cache by name that says which objects an event touched, also those that vanished while
/// nothing was heard.
pub(crate) struct NamedObjects<K: Resource<DynamicType = ()> + Clone + 'static>(Writer<K>);

impl<K: Resource<DynamicType = ()> + Clone + 'static> NamedObjects<K> {
    pub(crate) fn new() -> Self {
        Self(Writer::default())
    }

    pub(crate) fn reader(&self) -> Store<K> {
        self.0.as_reader()
    }

    /// Takes in what a watch says.
    pub(crate) fn apply(&mut self, event: &Event<K>) -> Vec<TouchedObject<K>> {
        let reader = self.reader();
        let find = |object: &K| reader.get(&ObjectRef::from_obj(object));
        match event {
            Event::Apply(object) => {
                let before = find(object);
                self.0.apply_watcher_event(event);
                find(object).map(|now| (now, before, ObjectTouch::Seen)).into_iter().collect()
            }
            Event::Delete(object) => {
                let before = find(object);
                self.0.apply_watcher_event(event);
                vec![(Arc::new(object.clone()), before, ObjectTouch::Gone)]
            }
            Event::InitDone => {
                let before: HashMap<_, _> = reader
                    .state()
                    .into_iter()
                    .map(|old| (ObjectRef::from_obj(&*old), old))
                    .collect();
                self.0.apply_watcher_event(event);
                let old = |now: &Arc<K>| before.get(&ObjectRef::from_obj(&**now)).cloned();
                let seen = reader.state().into_iter().map(|now| {
                    let old = old(&now);
                    (now, old, ObjectTouch::Seen)
                });
                let gone = before.values().filter(|old| find(old).is_none());
                let gone = gone.map(|old| (old.clone(), Some(old.clone()), ObjectTouch::Gone));
                seen.chain(gone).collect()
            }
            Event::Init | Event::InitApply(_) => {
                self.0.apply_watcher_event(event);
                Vec::new()
            }
        }
    }
}

/// Hands on what a kind's watch says, for ever; `synced` is told when the first list is
/// complete. Errors are told with what to do about them.
pub(crate) async fn run_informer<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    synced: oneshot::Sender<()>,
    mut on: impl FnMut(&Event<K>),
) where
    K: WatchedKind,
{
    let mut synced = Some(synced);
    let mut events = std::pin::pin!(slim_objects(events));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                on(&event);
                if matches!(event, Event::InitDone)
                    && let Some(synced) = synced.take()
                {
                    let _ = synced.send(());
                }
            }
            Err(error) => log_watch_error::<K>(&error),
        }
    }
}

/// Drops what nobody here reads and what would make up half of the memory.
fn slim_objects<K: Resource>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
) -> impl Stream<Item = watcher::Result<Event<K>>> {
    events.map(|event| event.map(|event| event.modify(|o| o.managed_fields_mut().clear())))
}

fn log_watch_error<K: Resource<DynamicType = ()>>(error: &watcher::Error) {
    let kind = K::kind(&());
    match status_code(error) {
        404 => tracing::warn!(
            %kind,
            "crd_missing"
        ),
        403 => tracing::warn!(
            %kind,
            "watch_forbidden"
        ),
        410 => tracing::debug!(%kind, "watch_expired"),
        _ => tracing::warn!(%kind, %error, "watch_failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn map(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map
    }

    #[test]
    fn what_vanished_unheard_is_told_with_the_next_list() {
        let mut cache = NamedObjects::new();
        let mut touched = |event: Event<ConfigMap>| {
            let mut touched: Vec<_> = cache
                .apply(&event)
                .into_iter()
                .map(|(object, before, touch)| (object.name_any(), before.is_some(), touch))
                .collect();
            touched.sort_by_key(|(name, ..)| name.clone());
            touched
        };
        let seen = |name: &str, known| (name.to_owned(), known, ObjectTouch::Seen);
        let gone = |name: &str| (name.to_owned(), true, ObjectTouch::Gone);
        assert_eq!(touched(Event::Apply(map("a"))), [seen("a", false)]);
        assert_eq!(touched(Event::Apply(map("a"))), [seen("a", true)]);
        assert_eq!(touched(Event::Apply(map("b"))), [seen("b", false)]);
        assert_eq!(touched(Event::Delete(map("b"))), [gone("b")]);

        assert_eq!(touched(Event::Init), []);
        assert_eq!(touched(Event::InitApply(map("c"))), []);
        assert_eq!(touched(Event::InitDone), [gone("a"), seen("c", false)]);
    }
}
