//! Long work for one caller, such as judging a push or looking through a history, on threads that
//! give way to those which acknowledge messages and pass streams on. Whoever calls bounds how much
//! of it there is at a time.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::setpriority_process;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// Niceness: about a ninth of the processor time of the others, while all want some.
const NICE: i32 = 10;
static IDLE: AtomicBool = AtomicBool::new(false);
/// Threads for tasks that compute a little between many waits: each step is short, and together they would hold up
/// everything else that the same threads do.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    let mut threads = Builder::new_multi_thread();
    threads.thread_name("low-priority").on_thread_start(lower_own_priority);
    threads.enable_all().build()
});

/// From now on such work gets only the time that nothing else in the gateway's control group wants.
/// A nice thread keeps a processor to the end of its slice, some milliseconds, and each hop of a
/// message or a stream waits for that. It's for a gateway with a container of its own: elsewhere
/// other programs could hold the work up for long.
pub fn run_when_idle() {
    IDLE.store(true, Ordering::Relaxed);
}

/// Lowers the priority of the calling thread, and of what it starts.
pub fn lower_own_priority() {
    if IDLE.load(Ordering::Relaxed) {
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        // Its niceness, set next, counts where the kernel refuses.
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    }
    // Linux keeps a priority for each thread. Where it can't be lowered, the work is done as it is.
    let _ = setpriority_process(None, NICE);
}

/// Runs it to its end, whether or not anybody still waits.
///
/// # Errors
/// When no thread can be started, or the work panicked.
pub async fn run_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, waiting) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("low-priority".to_owned()).spawn(move || {
        lower_own_priority();
        let _entered = runtime.enter();
        let _ = done.send(work());
    })?;
    waiting.await.map_err(|_| io::Error::other("a thread has panicked"))
}

/// Runs a task that waits now and then. It ends early if nobody waits for it any more.
///
/// # Errors
/// When no thread can be started, or the task panicked.
pub async fn spawn_low_priority<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let unavailable = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
    let runtime = RUNTIME.as_ref().map_err(unavailable)?;
    let running = AbortOnDropHandle::new(runtime.spawn(task.in_current_span()));
    // The words of a panic may be those of the push that was looked at.
    running.await.map_err(|_| io::Error::other("a task has panicked"))
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn its_thread_gives_way_and_the_callers_does_not() {
        let before = getpriority_process(None).unwrap();
        let nice = run_low_priority(|| getpriority_process(None).unwrap()).await.unwrap();
        assert_eq!(nice, NICE.max(before));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    #[tokio::test]
    async fn a_task_gives_way_with_what_it_starts() {
        let before = getpriority_process(None).unwrap();
        let nice = async {
            let own = getpriority_process(None).unwrap();
            (own, tokio::task::spawn_blocking(|| getpriority_process(None).unwrap()).await.unwrap())
        };
        let least = NICE.max(before);
        assert_eq!(spawn_low_priority(nice).await.unwrap(), (least, least));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    #[tokio::test]
    async fn a_panic_does_not_say_what_was_looked_at() {
        let failed = spawn_low_priority::<()>(async { panic!("a password") });
        assert_eq!(failed.await.unwrap_err().to_string(), "a task has panicked");
    }

    #[tokio::test]
    async fn a_task_ends_when_nobody_waits_for_it() {
        let (held, dropped) = oneshot::channel::<()>();
        let task = spawn_low_priority(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(std::time::Duration::from_millis(10), task).await.is_err());
        assert!(dropped.await.is_err());
    }

    #[tokio::test]
    async fn a_gateway_of_its_own_container_leaves_it_the_time_that_nothing_else_wants() {
        let policy = || run_low_priority(|| thread_priority::thread_schedule_policy().unwrap());
        let of = |policy| ThreadSchedulePolicy::Normal(policy);
        assert_eq!(policy().await.unwrap(), of(NormalThreadSchedulePolicy::Other));
        run_when_idle();
        assert_eq!(policy().await.unwrap(), of(NormalThreadSchedulePolicy::Idle));
        IDLE.store(false, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_caller() {
        let holds = std::hint::black_box(false);
        let ended = run_low_priority(move || assert!(holds, "over")).await;
        assert!(ended.is_err());
    }
}
