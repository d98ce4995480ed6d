//! Room for servers in pods. A Thread, or a Repo, has so many at most: where one more is needed, the pod gives way
//! that was used longest ago and works on nothing now. A server whose tools were only listed is one of these.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{OpenSession, SessionPool};
use crate::link::{LinkError, OpenedLink, open_link};
use crate::session_key::{ServerPlace, SessionKey};

/// The wait for room: servers that are asked for their tools all at once take turns in it.
const PATIENCE: Duration = Duration::from_secs(40);
/// Interval between checks for room.
const LOOK: Duration = Duration::from_millis(500);
/// Time for a pod that was given up to make room, before another one has to.
const AGAIN: Duration = Duration::from_secs(5);

impl SessionPool {
    /// The way to a server, once there is room for its pod.
    pub(super) async fn open_way(&self, place: &ServerPlace) -> Result<OpenedLink, LinkError> {
        let (parts, deadline) = (&self.0, Instant::now() + PATIENCE);
        let mut freed: Option<Instant> = None;
        loop {
            match open_link(&parts.context, &*parts.pods, place).await {
                Err(LinkError::NoRoom(_)) if Instant::now() < deadline => {}
                opened => return opened,
            }
            if freed.is_none_or(|at| at.elapsed() >= AGAIN) && self.free_pod(place).await {
                freed = Some(Instant::now());
            }
            sleep(LOOK).await;
        }
    }

    /// Ends the unused session with a pod beside this one that was used longest ago; false where there is none.
    async fn free_pod(&self, place: &ServerPlace) -> bool {
        let Some((open, pod)) = self.find_unused(place) else { return false };
        // The lock keeps others from opening the session anew before its pod is given up.
        let Ok(_turn) = timeout(LOOK, self.0.opening.lock(&open.key)).await else { return false };
        if !self.remove_unused(&open) {
            return false;
        }
        tracing::info!(server = open.key.server, "server_pod_evicted");
        self.0.pods.release_pod(&pod).await;
        true
    }

    fn find_unused(&self, place: &ServerPlace) -> Option<(Arc<OpenSession>, ServerPlace)> {
        let state = self.0.state.lock();
        let beside = state.open.values().filter(|open| is_beside(&open.key, &place.key));
        let unused = beside.filter(|open| open.pod.is_some() && open.is_idle(Duration::ZERO));
        let oldest = unused.min_by_key(|open| *open.used.lock())?;
        Some((Arc::clone(oldest), oldest.pod.clone()?))
    }

    /// Takes a session out of the list, unless somebody uses it by now: its own task ends it.
    fn remove_unused(&self, open: &Arc<OpenSession>) -> bool {
        let mut state = self.0.state.lock();
        let is_known = state.open.get(&open.key).is_some_and(|known| Arc::ptr_eq(known, open));
        let is_removed = is_known && open.is_idle(Duration::ZERO);
        if is_removed {
            state.open.remove(&open.key);
            self.0.metrics.mcp_sessions(state.open.len());
        }
        is_removed
    }
}

/// True for another server of the same Thread, or of the same Repo where both are shared.
fn is_beside(one: &SessionKey, other: &SessionKey) -> bool {
    let SessionKey { namespace, repo, server, thread } = other;
    one.namespace == *namespace
        && one.repo == *repo
        && one.thread == *thread
        && one.server != *server
}
