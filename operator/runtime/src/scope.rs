//! Scope of watches: all namespaces, or those that an installation is limited to. Whoever reads
//! events can't tell the difference: several watches speak as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, future};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchScope(BTreeSet<String>);

/// A kind that lives in namespaces and can be watched.
pub trait WatchedKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + 'static
{
}

impl<K> WatchedKind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static
{
}

impl WatchScope {
    /// Limits watches to these namespaces; none means all.
    pub fn of(namespaces: &[String]) -> Self {
        let names = namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        Self(names.map(str::to_owned).collect())
    }

    #[must_use]
    pub fn and(&self, namespace: &str) -> Self {
        let mut with = self.clone();
        if !with.0.is_empty() {
            with.0.insert(namespace.to_owned());
        }
        with
    }

    /// Returns the APIs to list a kind from: one for all of the cluster, or one for each namespace.
    pub fn places<K: WatchedKind>(&self, client: &Client) -> Vec<Api<K>> {
        if self.0.is_empty() {
            return vec![Api::all(client.clone())];
        }
        self.0.iter().map(|name| Api::namespaced(client.clone(), name)).collect()
    }

    /// Returns true if rights that are missing in one place are that place's alone.
    fn is_limited(&self) -> bool {
        !self.0.is_empty()
    }

    /// Watches a kind. Errors are retried with backoff and handed on to be told.
    pub fn events<K: WatchedKind>(
        &self,
        client: &Client,
        config: &Config,
    ) -> BoxStream<'static, watcher::Result<Event<K>>> {
        let watch = |api: Api<K>| watcher(api, config.clone()).default_backoff().boxed();
        let places = self.places(client);
        let count = places.len();
        let parts = places.into_iter().map(watch);
        if !self.is_limited() {
            return stream::select_all(parts).boxed();
        }
        let tagged = parts.enumerate().map(|(from, part)| part.map(move |event| (from, event)));
        stream::select_all(tagged)
            .scan(MergedWatch::new(count), |merge, (from, event)| {
                future::ready(Some(stream::iter(merge.take(from, event))))
            })
            .flatten()
            .boxed()
    }
}

/// Makes one watch of several: the first lists are handed on together, a later one as what it
/// changes.
struct MergedWatch<K> {
    parts: Vec<ScopePart<K>>,
    complete: bool,
}

struct ScopePart<K> {
    listing: BTreeMap<String, K>,
    known: BTreeMap<String, K>,
    listed: bool,
}

impl<K: WatchedKind> MergedWatch<K> {
    fn new(parts: usize) -> Self {
        let part = || ScopePart { listing: BTreeMap::new(), known: BTreeMap::new(), listed: false };
        Self { parts: std::iter::repeat_with(part).take(parts).collect(), complete: false }
    }

    fn take(
        &mut self,
        from: usize,
        event: watcher::Result<Event<K>>,
    ) -> Vec<watcher::Result<Event<K>>> {
        let complete = self.complete;
        let Some(part) = self.parts.get_mut(from) else { return Vec::new() };
        match event {
            Ok(Event::Init) => part.listing.clear(),
            Ok(Event::InitApply(object)) => {
                part.listing.insert(object.name_any(), object);
            }
            Ok(Event::InitDone) => {
                let gone = part.list();
                return if complete { part.news(gone) } else { self.first() };
            }
            Ok(Event::Apply(object)) => {
                part.known.insert(object.name_any(), object.clone());
                return complete.then_some(Ok(Event::Apply(object))).into_iter().collect();
            }
            Ok(Event::Delete(object)) => {
                part.known.remove(&object.name_any());
                return complete.then_some(Ok(Event::Delete(object))).into_iter().collect();
            }
            Err(error) => {
                // A namespace that was deleted with its rights must not hold up the others.
                let forbidden = status_code(&error) == 403 && !part.listed;
                part.listed |= forbidden;
                let mut out = vec![Err(error)];
                if forbidden {
                    out.extend(self.first());
                }
                return out;
            }
        }
        Vec::new()
    }

    /// The first list of all parts, once every part has one.
    fn first(&mut self) -> Vec<watcher::Result<Event<K>>> {
        if self.complete || !self.parts.iter().all(|part| part.listed) {
            return Vec::new();
        }
        self.complete = true;
        let known = self.parts.iter().flat_map(|part| part.known.values().cloned());
        let known = known.map(Event::InitApply);
        [Event::Init].into_iter().chain(known).chain([Event::InitDone]).map(Ok).collect()
    }
}

impl<K: WatchedKind> ScopePart<K> {
    /// Takes over what was listed; what is gone since the last list.
    fn list(&mut self) -> Vec<K> {
        self.listed = true;
        let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listing));
        before
            .into_iter()
            .filter(|(name, _)| !self.known.contains_key(name))
            .map(|(_, object)| object)
            .collect()
    }

    fn news(&self, gone: Vec<K>) -> Vec<watcher::Result<Event<K>>> {
        let gone = gone.into_iter().map(Event::Delete);
        gone.chain(self.known.values().cloned().map(Event::Apply)).map(Ok).collect()
    }
}

/// The HTTP status of a failed watch; 0 if it has none.
pub fn status_code(error: &watcher::Error) -> u16 {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map
    }

    fn shown(events: Vec<watcher::Result<Event<ConfigMap>>>) -> Vec<String> {
        let one = |event: watcher::Result<Event<ConfigMap>>| match event {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(o)) => format!("init {}", o.name_any()),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(o)) => format!("apply {}", o.name_any()),
            Ok(Event::Delete(o)) => format!("delete {}", o.name_any()),
            Err(error) => format!("error {}", status_code(&error)),
        };
        events.into_iter().map(one).collect()
    }

    #[test]
    fn several_watches_speak_as_one() {
        let mut merge = MergedWatch::new(2);
        let mut take = |from, event| shown(merge.take(from, Ok(event)));
        assert_eq!(take(0, Event::Init), [""; 0]);
        assert_eq!(take(0, Event::InitApply(map("a"))), [""; 0]);
        assert_eq!(take(0, Event::InitDone), [""; 0], "one is still missing");
        assert_eq!(take(0, Event::Apply(map("b"))), [""; 0]);
        assert_eq!(take(1, Event::Init), [""; 0]);
        assert_eq!(take(1, Event::InitApply(map("c"))), [""; 0]);
        assert_eq!(take(1, Event::InitDone), ["init", "init a", "init b", "init c", "done"]);
        assert_eq!(take(1, Event::Delete(map("c"))), ["delete c"]);
        // The first one lists again: the other one's objects stay.
        assert_eq!(take(0, Event::Init), [""; 0]);
        assert_eq!(take(0, Event::InitApply(map("b"))), [""; 0]);
        assert_eq!(take(0, Event::InitDone), ["delete a", "apply b"]);
    }

    #[test]
    fn a_namespace_without_rights_holds_up_nobody() {
        let mut merge = MergedWatch::new(2);
        let denied = || {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(403).boxed();
            watcher::Error::InitialListFailed(kube::Error::Api(status))
        };
        assert_eq!(shown(merge.take(0, Ok(Event::InitDone))), [""; 0]);
        assert_eq!(shown(merge.take(1, Err(denied()))), ["error 403", "init", "done"]);
        assert_eq!(shown(merge.take(1, Err(denied()))), ["error 403"]);
        assert_eq!(shown(merge.take(1, Ok(Event::Init))), [""; 0]);
        assert_eq!(shown(merge.take(1, Ok(Event::InitApply(map("a"))))), [""; 0]);
        assert_eq!(shown(merge.take(1, Ok(Event::InitDone))), ["apply a"]);
    }
}
