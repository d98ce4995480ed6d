//! Tasks that go on when who began them is gone, and end with the right to act.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Group of tasks. Cheap to clone; clones share the tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    tracker: TaskTracker,
    over: CancellationToken,
}

impl TaskGroup {
    /// Begins one. Its outcome, unless it was cut off.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(self.over.clone().run_until_cancelled_owned(task))
    }

    /// The outcome of one that is not begun apart, unless it is cut off.
    pub async fn run<F: Future>(&self, task: F) -> Option<F::Output> {
        let _counted = self.tracker.token();
        self.over.run_until_cancelled(task).await
    }

    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until all have ended, at most so long; answers whether they have.
    pub async fn rest(&self, patience: Duration) -> bool {
        self.tracker.close();
        timeout(patience, self.tracker.wait()).await.is_ok()
    }

    /// Ends all where they are, and lets none begin any more.
    pub async fn cut(&self) {
        self.over.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Returns true once the tasks were cut.
    pub fn are_cut(&self) -> bool {
        self.over.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_cut_goes_no_further_and_nothing_begins() {
        let tasks = TaskGroup::default();
        let (gone, done) = (Arc::new(AtomicBool::new(false)), tasks.spawn(async { 7 }));
        assert_eq!(done.await.unwrap(), Some(7));
        let (endless, later) = (gone.clone(), tasks.clone());
        let cut = tasks.spawn(async move {
            // A value dropped with the task may want to begin something, too.
            let _last = LastWill(later, endless);
            std::future::pending::<()>().await;
        });
        assert!(!tasks.rest(Duration::from_millis(20)).await);
        tasks.cut().await;
        assert_eq!((cut.await.unwrap(), tasks.count()), (None, 0));
        assert!(!gone.load(Ordering::SeqCst), "it began after the end");
    }

    struct LastWill(TaskGroup, Arc<AtomicBool>);

    impl Drop for LastWill {
        fn drop(&mut self) {
            let gone = self.1.clone();
            self.0.spawn(async move { gone.store(true, Ordering::SeqCst) });
        }
    }
}
