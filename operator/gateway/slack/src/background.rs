//! Background tasks that follow an acknowledgement. They get a moment to end when the gateway stops.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Default)]
pub(crate) struct BackgroundTasks {
    tasks: TaskTracker,
    /// Cancelled when the tasks have to come to their end.
    ending: CancellationToken,
}

impl BackgroundTasks {
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Waits before a retry. Returns false, at once, if there is no time for another attempt.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        self.ending.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }

    /// Ends pauses, and waits for the tasks for at most `patience`.
    pub(crate) async fn finish(&self, patience: Duration) {
        self.tasks.close();
        self.ending.cancel();
        let _ = tokio::time::timeout(patience, self.tasks.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_task_that_waits_for_a_retry_ends_with_the_gateway() {
        let background = Arc::new(BackgroundTasks::default());
        let shared = Arc::clone(&background);
        let task = background.spawn(async move { shared.pause(Duration::from_hours(1)).await });
        background.finish(Duration::from_mins(1)).await;
        assert!(!task.await.unwrap(), "the pause went on");
        assert!(!background.pause(Duration::from_hours(1)).await);
    }
}
