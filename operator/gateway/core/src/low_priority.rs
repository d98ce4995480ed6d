//! Long work for one caller, such as judging a push or looking through a history, on threads that give way to those which
//! acknowledge messages and pass streams on. Whoever calls bounds how much of it there is at a time.

use std::io;
use std::thread;

use rustix::process::setpriority_process;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Niceness: about a ninth of the processor time of the others, while all want some.
pub const NICE: i32 = 10;

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
        // Linux keeps a priority for each thread. Where it can't be lowered, the work is done as it is.
        let _ = setpriority_process(None, NICE);
        let _entered = runtime.enter();
        let _ = done.send(work());
    })?;
    waiting.await.map_err(|_| io::Error::other("a thread has panicked"))
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
    async fn a_panic_is_an_error_of_the_caller() {
        let holds = std::hint::black_box(false);
        let ended = run_low_priority(move || assert!(holds, "over")).await;
        assert!(ended.is_err());
    }
}
