//! `watch`: a line for each change of a Thread that its user can see in the list.

use std::collections::HashMap;

use codebutler_crds::Thread;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};

use crate::cluster::TeamCluster;
use crate::explain::{explain, with_causes};
use crate::table::plain;
use crate::threads::thread_row;
use crate::{PluginError, PluginTerminal};

/// Prints until it is interrupted.
pub(crate) async fn run_watch(
    cluster: &TeamCluster,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    // A list first: a cluster that does not answer is said once, and not tried for ever.
    cluster.threads().await?;
    let events = watcher(cluster.scope::<Thread>(), watcher::Config::default()).default_backoff();
    tokio::select! {
        ended = follow(events.boxed(), terminal) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Ends with the events, or with an error that does not go away by itself.
async fn follow(
    mut events: impl Stream<Item = Result<Event<Thread>, watcher::Error>> + Unpin,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let mut shown: HashMap<String, String> = HashMap::new();
    let mut is_lost = false;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if let Some(said) = judge_trouble(&error)?.filter(|_| !is_lost) {
                    terminal.say(&plain(&format!(
                        "The cluster does not answer ({said}): trying again until Ctrl-C."
                    )))?;
                    is_lost = true;
                }
                continue;
            }
        };
        // The watcher emits it before any request, so it does not show that the cluster answers.
        if matches!(event, Event::Init) {
            continue;
        }
        if std::mem::take(&mut is_lost) {
            terminal.say("The cluster answers again.")?;
        }
        let (thread, gone) = match event {
            Event::Apply(thread) | Event::InitApply(thread) => (thread, false),
            Event::Delete(thread) => (thread, true),
            Event::Init | Event::InitDone => continue,
        };
        let line = change_line(&thread, gone);
        let name = format!("{}/{}", thread.namespace().unwrap_or_default(), thread.name_any());
        if shown.insert(name.clone(), line.clone()).as_ref() != Some(&line) {
            let time = Timestamp::now().strftime("%H:%M:%S");
            terminal.say(&format!("{time} {name}  {line}"))?;
        }
    }
    Ok(())
}

/// Words for somebody who waits; nothing where a watch has come to its usual end and begins anew.
///
/// # Errors
/// What only a person can fix: a right or credentials that are gone, definitions that were removed.
fn judge_trouble(error: &watcher::Error) -> Result<Option<String>, PluginError> {
    let error = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(_) => return Ok(None),
        other @ watcher::Error::NoResourceVersion => return Ok(Some(other.to_string())),
    };
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404) => {
            Err(explain("watch Threads", error))
        }
        kube::Error::Api(status) => Ok(Some(status.message.clone())),
        other => Ok(Some(with_causes(other))),
    }
}

fn change_line(thread: &Thread, gone: bool) -> String {
    if gone {
        return "deleted".to_owned();
    }
    // Namespace, name and age are left out, as they are no change.
    let row = thread_row(thread, Timestamp::now());
    let [_, _, _, state, waits, role, pull, cost, _, reason] = row.as_slice() else {
        return String::new();
    };
    let waits = if waits.is_empty() { String::new() } else { format!("waits for {waits}") };
    let words = [state, reason, role, &waits, pull, cost].map(|word| plain(word));
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use kube::core::Status;
    use serde_json::json;

    fn refused(code: u16, message: &str) -> kube::Error {
        let reason = match code {
            401 => "Unauthorized",
            403 => "Forbidden",
            _ => "ServiceUnavailable",
        };
        let status =
            json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap()))
    }

    async fn watched(
        events: Vec<Result<Event<Thread>, watcher::Error>>,
    ) -> (Result<(), PluginError>, String) {
        let (mut input, mut output) = (std::io::empty(), Vec::new());
        let mut terminal = PluginTerminal { input: &mut input, output: &mut output };
        let ended = follow(stream::iter(events), &mut terminal).await;
        (ended, String::from_utf8(output).unwrap())
    }

    #[tokio::test]
    async fn trouble_is_said_once_until_it_is_over_and_ends_where_it_stays() {
        let busy = || Err(watcher::Error::WatchStartFailed(refused(503, "etcd is away")));
        let (ended, said) =
            watched(vec![busy(), Ok(Event::Init), busy(), Ok(Event::InitDone), busy()]).await;
        ended.unwrap();
        assert_eq!(said.matches("etcd is away").count(), 2, "{said}");
        assert_eq!(said.matches("answers again").count(), 1, "{said}");
        let right = watcher::Error::InitialListFailed(refused(403, "no"));
        let (ended, _) = watched(vec![Err(right), Ok(Event::Init)]).await;
        assert!(matches!(ended, Err(PluginError::Forbidden { .. })), "{ended:?}");
        let signed_out = watcher::Error::WatchFailed(refused(401, "Unauthorized"));
        assert!(watched(vec![Err(signed_out)]).await.0.is_err());
    }
}
