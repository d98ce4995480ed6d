//! Limits on what visitors of pages use at once: searches and exports, and event streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::PageProblem;

/// Searches and exports at once, those of one person, and how long one waits for its turn.
const HEAVY: usize = 2;
const OWN: usize = 1;
const PATIENCE: Duration = Duration::from_secs(10);
/// Changes of branches that are looked up at once.
const DIFFS: usize = 4;
/// Streams of one person, and of all.
const OWN_STREAMS: usize = 16;
const STREAMS: usize = 1024;

/// See the module. Cheap to clone; clones count together.
#[derive(Clone)]
pub(super) struct VisitLimits {
    heavy: Arc<Semaphore>,
    copies: Arc<Semaphore>,
    diffs: Arc<Semaphore>,
    /// People with a search or an export under way: one each.
    busy: VisitorCounts,
    streams: Arc<Semaphore>,
    watching: VisitorCounts,
    patience: Duration,
}

impl Default for VisitLimits {
    fn default() -> Self {
        Self {
            heavy: Arc::new(Semaphore::new(HEAVY)),
            copies: Arc::new(Semaphore::new(HEAVY)),
            diffs: Arc::new(Semaphore::new(DIFFS)),
            busy: VisitorCounts::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            watching: VisitorCounts::default(),
            patience: PATIENCE,
        }
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct VisitPlace {
    _all: OwnedSemaphorePermit,
    _own: VisitorShare,
}

impl VisitLimits {
    /// A turn for a search or an export. Of nobody known only all are counted.
    ///
    /// # Errors
    /// When others have theirs for longer than one waits, or this person has one already.
    pub(super) async fn heavy(&self, person: Option<&str>) -> Result<VisitPlace, PageProblem> {
        self.turn(&self.heavy, person).await
    }

    /// A turn for a history that is handed out as it is kept. It takes memory of one piece only, and lasts as
    /// long as its reader takes: searches don't wait for it.
    ///
    /// # Errors
    /// As [`Self::heavy`].
    pub(super) async fn copy(&self, person: Option<&str>) -> Result<VisitPlace, PageProblem> {
        self.turn(&self.copies, person).await
    }

    async fn turn(
        &self,
        turns: &Arc<Semaphore>,
        person: Option<&str>,
    ) -> Result<VisitPlace, PageProblem> {
        let busy = PageProblem::Busy;
        let most = if person.is_some() { OWN } else { STREAMS };
        let own = self.busy.share(person.unwrap_or_default(), most);
        let own = own.ok_or_else(|| busy("You have a search or an export under way."))?;
        let all = timeout(self.patience, Arc::clone(turns).acquire_owned()).await;
        let all = all.ok().and_then(Result::ok);
        let all = all.ok_or_else(|| busy("Others search or export right now."))?;
        Ok(VisitPlace { _all: all, _own: own })
    }

    /// A turn to look up a branch's changes: several files opened at once come one after the other.
    ///
    /// # Errors
    /// When others have theirs for longer than one waits.
    pub(super) async fn diff(&self) -> Result<OwnedSemaphorePermit, PageProblem> {
        let turn = timeout(self.patience, Arc::clone(&self.diffs).acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok);
        turn.ok_or(PageProblem::Busy("Others look at changes right now."))
    }

    /// A place to watch from. Of nobody known only all are counted.
    ///
    /// # Errors
    /// When this person, or all together, watch as much as they can.
    pub(super) fn stream(&self, person: Option<&str>) -> Result<VisitPlace, PageProblem> {
        let most = if person.is_some() { OWN_STREAMS } else { STREAMS };
        let own = self.watching.share(person.unwrap_or_default(), most);
        let own =
            own.ok_or(PageProblem::Busy("You have 16 pages open that follow what happens."))?;
        let all = Arc::clone(&self.streams).try_acquire_owned();
        let all = all.map_err(|_| PageProblem::Busy("Too many pages follow what happens."))?;
        Ok(VisitPlace { _all: all, _own: own })
    }
}

/// Resources in use per person. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
struct VisitorCounts(Arc<Mutex<HashMap<String, usize>>>);

impl VisitorCounts {
    fn share(&self, person: &str, most: usize) -> Option<VisitorShare> {
        let mut all = self.0.lock();
        let count = all.entry(person.to_owned()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(VisitorShare { person: person.to_owned(), visitors: self.clone() })
    }
}

#[derive(Debug)]
struct VisitorShare {
    person: String,
    visitors: VisitorCounts,
}

impl Drop for VisitorShare {
    fn drop(&mut self) {
        let mut all = self.visitors.0.lock();
        if let Some(count) = all.get_mut(&self.person) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.person);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_search_at_once_and_each_person_once() {
        let limits = VisitLimits { patience: Duration::from_millis(20), ..VisitLimits::default() };
        let (one, other) =
            (limits.heavy(Some("one")).await.unwrap(), limits.heavy(Some("other")).await.unwrap());
        assert!(matches!(limits.heavy(Some("one")).await, Err(PageProblem::Busy(_))));
        assert!(
            matches!(limits.heavy(Some("third")).await, Err(PageProblem::Busy(_))),
            "it has waited"
        );
        drop(one);
        let again = limits.heavy(Some("one")).await.unwrap();
        let copies =
            (limits.copy(Some("third")).await.unwrap(), limits.copy(Some("4")).await.unwrap());
        assert!(matches!(limits.copy(Some("5")).await, Err(PageProblem::Busy(_))));
        drop((again, other, copies));
        assert!(limits.busy.0.lock().is_empty(), "nothing is kept of them");
    }

    #[tokio::test]
    async fn changes_are_looked_up_a_few_at_once() {
        let limits = VisitLimits { patience: Duration::from_millis(20), ..VisitLimits::default() };
        let mut turns = Vec::new();
        for _ in 0..DIFFS {
            turns.push(limits.diff().await.unwrap());
        }
        assert!(matches!(limits.diff().await, Err(PageProblem::Busy(_))));
        turns.pop();
        assert!(limits.diff().await.is_ok());
    }

    #[test]
    fn a_person_follows_so_many_pages_and_leaves_room_to_others() {
        let limits = VisitLimits::default();
        let mut own: Vec<_> =
            (0..OWN_STREAMS).map(|_| limits.stream(Some("one")).unwrap()).collect();
        assert!(matches!(limits.stream(Some("one")), Err(PageProblem::Busy(_))));
        let others: Vec<_> =
            (OWN_STREAMS..STREAMS).map(|n| limits.stream(Some(&n.to_string())).unwrap()).collect();
        assert!(limits.stream(Some("late")).is_err() && limits.stream(None).is_err());
        own.pop();
        assert!(limits.stream(None).is_ok());
        drop(others);
    }
}
