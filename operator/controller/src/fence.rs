//! Nothing is decided on what is known to be outdated. Slots are counted over many Threads while each
//! grant is written into one, so a count is only right if it misses no write: none that this replica
//! has made and not seen yet, and none that the one before it still had under way.
//!
//! A grant is written on the version of the Thread that it was decided on. Whoever takes over writes
//! each Thread that may be granted something once ([`take_over`]): after that no older grant fits.

use std::collections::{BTreeSet, HashMap};

use codebutler_crds::{Thread, ThreadStatus, names};
use codebutler_runtime::apply::written_by;
use kube::api::{ListParams, Patch};
use kube::{Api, ResourceExt as _};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::index::ObjectKey;

/// Knowledge of Threads that is newer than the cache: our own writes, and the replica before us. Decisions on a stale
/// cache would repeat or contradict them.
#[derive(Debug, Default)]
pub(crate) struct CacheFence(Mutex<KnownVersion>);

#[derive(Debug, Default)]
struct KnownVersion {
    edges: HashMap<ObjectKey, FenceEdge>,
    /// Namespaces of which nothing was taken over yet.
    unread: BTreeSet<String>,
}

/// Condition that a Thread in the cache has to meet before it is decided on again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FenceEdge {
    /// Wait for another version than this one, which a write has replaced.
    After(String),
    /// A write on this version may have been done, as its answer was lost: unsure while the cache shows this version.
    Perhaps(String),
    /// Wait for this object in this term, or for another object of its name.
    Term(Option<String>, u32),
}

/// Result of comparing a cached Thread with what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedSight {
    /// The cache is up to date as far as known.
    Current,
    /// Something newer will come: by the watch, or when its namespace is taken over.
    Behind,
    /// A write on this version may or may not have been done.
    Unsure,
}

impl CacheFence {
    /// Forgets everything, because another replica writes now.
    pub(crate) fn clear(&self) {
        *self.lock() = KnownVersion::default();
    }

    /// Compares what the cache shows with what is known.
    pub(crate) fn look(&self, thread: &Thread) -> CachedSight {
        let (mut known, key) = (self.lock(), ObjectKey::of(thread));
        if known.unread.contains(&key.namespace) {
            return CachedSight::Behind;
        }
        let version = thread.resource_version();
        let sight = match known.edges.get(&key) {
            Some(FenceEdge::After(old)) if version.as_ref() == Some(old) => CachedSight::Behind,
            Some(FenceEdge::Perhaps(old)) if version.as_ref() == Some(old) => CachedSight::Unsure,
            Some(FenceEdge::Term(uid, term))
                if *uid == thread.uid() && read_term(thread) < *term =>
            {
                CachedSight::Behind
            }
            _ => CachedSight::Current,
        };
        if sight == CachedSight::Current {
            known.edges.remove(&key);
        }
        sight
    }

    /// A write on the version that `seen` shows made `written` of it.
    pub(crate) fn wrote(&self, seen: &Thread, written: Option<&str>) {
        if let Some(old) = seen.resource_version().filter(|old| written.is_some_and(|w| w != old)) {
            self.lock().edges.insert(ObjectKey::of(seen), FenceEdge::After(old));
        }
    }

    /// Notes that it is not known if a write on the version that `seen` shows was done.
    pub(crate) fn unsure(&self, seen: &Thread) {
        if let Some(old) = seen.resource_version() {
            self.lock().edges.insert(ObjectKey::of(seen), FenceEdge::Perhaps(old));
        }
    }

    /// A Thread as it is now, before anything is decided.
    fn begin(&self, thread: &Thread) {
        self.lock()
            .edges
            .insert(ObjectKey::of(thread), FenceEdge::Term(thread.uid(), read_term(thread)));
    }

    pub(crate) fn forget(&self, thread: &ObjectKey) {
        self.lock().edges.remove(thread);
    }

    /// A namespace whose Threads can't be read: nothing in it is decided on until they can.
    pub(crate) fn unread(&self, namespace: &str) {
        self.lock().unread.insert(namespace.to_owned());
    }

    /// Notes that the Threads of a namespace are taken over.
    pub(crate) fn read(&self, namespace: &str) {
        self.lock().unread.remove(namespace);
    }

    fn lock(&self) -> MutexGuard<'_, KnownVersion> {
        self.0.lock()
    }
}

/// The patch after which no write on the same version fits any more.
pub(crate) fn next_term(thread: &Thread) -> serde_json::Value {
    json!({"term": read_term(thread).wrapping_add(1)})
}

/// True if an earlier replica may have a grant of a slot for it under way: it has a slot, or something to do.
fn is_at_stake(thread: &Thread) -> bool {
    let wants = |status: &ThreadStatus| {
        let mut roles = status.roles.iter();
        !status.pending.is_empty()
            || roles.any(|(name, own)| own.admitted || own.has_mail() || status.is_running(name))
    };
    thread.status.as_ref().is_some_and(wants)
}

/// Makes what the replica before this one has under way for a Thread impossible. The Thread as it is
/// then; nothing if it is gone.
///
/// # Errors
/// When it can't be written.
pub(crate) async fn take_over(
    threads: &Api<Thread>,
    fence: &CacheFence,
    mut thread: Thread,
) -> kube::Result<Option<Thread>> {
    if !is_at_stake(&thread) {
        return Ok(Some(thread));
    }
    let name = thread.name_any();
    loop {
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": thread.resource_version()},
            "status": next_term(&thread),
        }));
        match threads.patch_status(&name, &written_by(names::CONTROLLER), &patch).await {
            Ok(thread) => {
                fence.begin(&thread);
                return Ok(Some(thread));
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let only = ListParams::default().fields(&format!("metadata.name={name}"));
                let Some(now) = threads.list(&only).await?.items.pop() else { return Ok(None) };
                thread = now;
            }
            Err(error) => return Err(error),
        }
    }
}

fn read_term(thread: &Thread) -> u32 {
    thread.status.as_ref().map_or(0, |status| status.term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn seen(version: &str, term: u32) -> Thread {
        let mut thread = testing::thread(&json!({"term": term}));
        thread.metadata.resource_version = Some(version.to_owned());
        thread
    }

    #[test]
    fn what_was_written_over_is_not_decided_on_again() {
        let fence = CacheFence::default();
        assert_eq!(fence.look(&seen("7", 0)), CachedSight::Current);
        fence.wrote(&seen("7", 0), Some("9"));
        assert_eq!(fence.look(&seen("7", 0)), CachedSight::Behind);
        assert_eq!(fence.look(&seen("8", 0)), CachedSight::Current);
        assert_eq!(fence.look(&seen("7", 0)), CachedSight::Current, "forgotten once it was seen");
        fence.wrote(&seen("7", 0), Some("7"));
        assert_eq!(fence.look(&seen("7", 0)), CachedSight::Current, "nothing had changed");

        fence.unsure(&seen("7", 0));
        assert_eq!(fence.look(&seen("7", 0)), CachedSight::Unsure);
        assert_eq!(fence.look(&seen("8", 0)), CachedSight::Current);
    }

    #[test]
    fn a_taken_over_thread_is_decided_on_once_it_is_seen_as_taken_over() {
        let fence = CacheFence::default();
        fence.begin(&seen("9", 3));
        assert_eq!(fence.look(&seen("7", 2)), CachedSight::Behind);
        assert_eq!(fence.look(&seen("8", 2)), CachedSight::Behind);
        assert_eq!(fence.look(&seen("11", 3)), CachedSight::Current);
        fence.begin(&seen("9", 3));
        let mut other = seen("12", 0);
        other.metadata.uid = Some("another".to_owned());
        assert_eq!(fence.look(&other), CachedSight::Current, "made again under its name");
    }

    #[test]
    fn nothing_is_decided_on_in_a_namespace_that_was_not_taken_over() {
        let fence = CacheFence::default();
        let thread = seen("7", 0);
        let namespace = thread.namespace().unwrap();
        fence.unread(&namespace);
        assert_eq!(fence.look(&thread), CachedSight::Behind);
        fence.begin(&seen("9", 1));
        fence.read(&namespace);
        assert_eq!(
            fence.look(&thread),
            CachedSight::Behind,
            "the cache does not show the take-over yet"
        );
        assert_eq!(fence.look(&seen("9", 1)), CachedSight::Current);
    }

    #[test]
    fn only_what_has_something_to_do_is_taken_over() {
        for (status, at_stake) in [
            (json!({}), false),
            (json!({"roles": {"pm": {"inbox": "1.000001", "done": "1.000001"}}}), false),
            (json!({"roles": {"pm": {"inbox": "1.000001"}}}), true),
            (json!({"roles": {"pm": {"admitted": true}}}), true),
            (json!({"roles": {"pm": {"state": "Running"}}}), true),
        ] {
            assert_eq!(is_at_stake(&testing::thread(&status)), at_stake, "{status}");
        }
    }
}
