//! Progress of a call, shown beside what its role does. The line is edited in its own time, so that a server that
//! reports without an end costs nothing.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::personal::PersonalNotices;
use codebutler_mcp::ProgressStep;
use tokio::pin;
use tokio::sync::mpsc;

use super::masking::WordGuard;

/// Characters of a server's words.
const WORDS: usize = 120;
/// Interval between looks at what a start waits for.
const LOOK: Duration = Duration::from_secs(2);

/// Shows the steps of a call until it ends, and answers what it does.
pub(crate) async fn watch_call<T>(
    people: &Arc<dyn PersonalNotices>,
    caller: &ProvenCaller,
    guard: &WordGuard,
    calling: impl Future<Output = T>,
    mut steps: mpsc::Receiver<ProgressStep>,
) -> T {
    pin!(calling);
    loop {
        tokio::select! {
            biased;
            answer = &mut calling => {
                people.show_progress(caller, "");
                return answer;
            }
            Some(step) = steps.recv() => people.show_progress(caller, &describe_step(&step, guard)),
        }
    }
}

/// Shows what the start of a server waits for until that is over, and answers what it comes to.
pub(crate) async fn watch_start<T>(
    people: &Arc<dyn PersonalNotices>,
    caller: &ProvenCaller,
    find_start: impl Fn() -> Option<String>,
    starting: impl Future<Output = T>,
) -> T {
    pin!(starting);
    let mut is_shown = false;
    loop {
        tokio::select! {
            biased;
            started = &mut starting => {
                if is_shown {
                    people.show_progress(caller, "");
                }
                return started;
            }
            () = tokio::time::sleep(LOOK) => {
                if let Some(line) = find_start() {
                    is_shown = true;
                    people.show_progress(caller, &line);
                }
            }
        }
    }
}

fn describe_step(step: &ProgressStep, guard: &WordGuard) -> String {
    let words = step.message.as_deref().map(|words| guard.line(words, WORDS)).unwrap_or_default();
    let total = step.total.filter(|total| *total > 0.0 && total.is_finite());
    let share = total.map(|total| (step.progress / total * 100.0).clamp(0.0, 100.0));
    match (share, words.is_empty()) {
        (Some(share), true) => format!("{share:.0} %"),
        (Some(share), false) => format!("{share:.0} % · {words}"),
        (None, true) => format!("step {:.0}", step.progress),
        (None, false) => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_gateway_core::redact::SecretRedactor;

    #[test]
    fn a_step_is_a_short_line_without_secrets() {
        let guard =
            WordGuard::new(Arc::new(SecretRedactor::new(&[]).0), &["pass-phrase".to_owned()]);
        let say = |progress, total, message: Option<&str>| {
            let message = message.map(str::to_owned);
            describe_step(&ProgressStep { progress, total, message }, &guard)
        };
        assert_eq!(say(5.0, Some(10.0), None), "50 %");
        assert_eq!(say(15.0, Some(10.0), Some("Indexing\nfiles")), "100 % · Indexing files");
        assert_eq!(say(3.0, None, None), "step 3");
        assert_eq!(say(3.0, Some(0.0), Some("with pass-phrase")), "with [redacted:secret]");
        assert!(say(1.0, None, Some(&"x".repeat(5000))).chars().count() <= WORDS + 1);
    }
}
