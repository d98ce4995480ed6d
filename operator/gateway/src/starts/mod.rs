//! Work that nobody asks for in Slack: by the clock, by a labelled issue, by a comment, by a signed delivery. Each
//! begins a Thread whose name is derived from what began it, so that it begins once, however often it is come to.
//!
//! One gateway looks at clocks and at GitHub, the one that serves agents; deliveries come to whichever is asked.

mod clocks;
mod comment;
mod commented;
pub mod deliveries;
mod issue;
mod labelled;
mod poll;
mod record;
mod schedule;

use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread, ThreadSpec, names};
use codebutler_gateway_core::github::GitHubError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;
use codebutler_runtime::apply::shorten_text;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};

use self::poll::PolledSource;
use crate::work::WorkServices;

/// Timeout of all requests to GitHub for one Repo.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longest part of a Repo's name in that of a Thread.
const REPO: usize = 20;
/// Longest part that says to people what began it.
const SHOWN: usize = 18;

/// Kind of event that begins a Thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrigin {
    Schedule,
    Issue,
    Comment,
    Delivery,
}

impl ThreadOrigin {
    /// Value of the Thread's label.
    const fn label(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Issue => "issue",
            Self::Comment => "comment",
            Self::Delivery => "delivery",
        }
    }
}

/// The Thread that begins, the same for the same `id` of the same Repo. `shown` is for people who read its
/// name, `by` for those who read who began it.
pub fn thread_of(
    repo: &Repo,
    origin: ThreadOrigin,
    (id, shown): (&str, &str),
    by: &str,
    prompt: String,
) -> Thread {
    let name = name_of(repo, origin, id, shown);
    let spec = ThreadSpec {
        repo: repo.name_any(),
        prompt: Some(prompt),
        requested_by: Some(by.chars().take(64).collect()),
        ..ThreadSpec::default()
    };
    let mut thread = Thread::new(&name, spec);
    thread.metadata.namespace = repo.namespace();
    let labels = thread.labels_mut();
    labels.insert(names::LABEL_REPO.to_owned(), repo.name_any());
    labels.insert(names::LABEL_ORIGIN.to_owned(), origin.label().to_owned());
    thread.metadata.owner_references = repo.owner_ref(&()).map(|owner| vec![owner]);
    thread
}

/// Name of the Thread: the hash covers the part of the Repo's name that is cut off.
pub fn name_of(repo: &Repo, origin: ThreadOrigin, id: &str, shown: &str) -> String {
    let whole = repo.name_any();
    let hash = Sha256::digest(format!("{whole}\n{}\n{id}", origin.label()));
    let (repo, shown): (String, String) =
        (whole.chars().take(REPO).collect(), shown.chars().take(SHOWN).collect());
    let (repo, shown) = (repo.trim_end_matches('-'), shown.trim_end_matches('-'));
    format!("{repo}-{shown}-{}", hex::encode(&hash[..5]))
}

/// Bytes of an event's note; the API takes 1,024.
const NOTE: usize = 1000;

/// Reason why something did not begin.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error("GitHub takes too long")]
    Slow,
    #[error("{0}: {1}")]
    Write(&'static str, String),
    #[error("the Repo can't be written: {0}")]
    Repo(#[from] kube::Error),
    #[error("an earlier Thread of this name is still being deleted")]
    Going,
}

impl From<WriteError> for StartError {
    fn from(error: WriteError) -> Self {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Self::Write("no Thread can be made", if why.is_empty() { error.to_string() } else { why })
    }
}

/// Begins what is due until the gateway stops. `every`: between two questions for a Repo's issues or comments.
pub async fn run_starts(gateway: &WorkServices, every: Duration) {
    // In parallel, so that a slow GitHub holds up no schedule.
    tokio::join!(
        Box::pin(clocks::run_schedules(gateway)),
        Box::pin(poll::run_polling(gateway, PolledSource::Issues, every)),
        Box::pin(poll::run_polling(gateway, PolledSource::Comments, every)),
    );
}

fn is_open(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active && !thread.is_going()
}

/// Quotes somebody else's words: whoever they mention is not addressed by that.
fn quote_foreign(text: &str, room: usize) -> String {
    let (mut out, mut length) = (String::new(), 0);
    for line in text.lines() {
        length += line.chars().count() + "> \n".len();
        if length > room {
            out.push_str("> …\n");
            break;
        }
        out.push_str("> ");
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Makes a Thread, or finds the one that was made for the same.
async fn ensure_thread(
    gateway: &WorkServices,
    repo: &Repo,
    thread: Thread,
) -> Result<Thread, StartError> {
    let found = gateway.threads.ensure(thread).await?;
    let mut owners = found.metadata.owner_references.iter().flatten();
    let is_ours = owners.all(|owner| Some(&owner.uid) == repo.metadata.uid.as_ref());
    if found.is_going() || !is_ours { Err(StartError::Going) } else { Ok(found) }
}

async fn warn_repo(
    gateway: &WorkServices,
    recorder: &Recorder,
    repo: &Repo,
    reason: &str,
    note: &str,
) {
    let note = gateway.context.redactors.of(repo).mask(note).into_owned();
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(shorten_text(&note, NOTE)),
        // Events that differ in their words alone would be counted as one, with the words of the first.
        action: format!("Begin-{}", &hex::encode(Sha256::digest(note.as_bytes()))[..8]),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &repo.object_ref(&())).await {
        tracing::warn!(repo = repo.name_any(), %error, "event_write_failed");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn repo(name: &str) -> Repo {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"name": name, "namespace": "team", "uid": "u"},
            "spec": {
                "git": {"url": "https://git.example.org/a/b", "credentials": {"name": "g"}},
                "slack": {"channel": "C0123", "credentials": {"name": "s"}},
                "model": {"credentials": {"name": "m"}}, "roles": ["pm"],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_name_is_valid_and_one_for_each_start() {
        let long = format!("{}-b", "a".repeat(19));
        for name in ["shop", &long, &"x".repeat(32)] {
            for shown in ["nightly", "security-scan-of-all-repos", "issue-18446744073709551615"] {
                let name = name_of(&repo(name), ThreadOrigin::Schedule, "1", shown);
                let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                assert!(name.len() <= 50 && name.chars().all(valid), "{name}");
                assert!(!name.contains("--"), "{name}");
            }
        }
        let own = |repo: &Repo, origin, id: &str| name_of(repo, origin, id, "x");
        let (shop, cut) = (repo("shop"), repo(&"x".repeat(31)));
        let first = own(&shop, ThreadOrigin::Issue, "1");
        assert_eq!(first, own(&shop, ThreadOrigin::Issue, "1"));
        assert_ne!(first, own(&shop, ThreadOrigin::Issue, "2"));
        assert_ne!(first, own(&shop, ThreadOrigin::Delivery, "1"));
        assert_ne!(
            own(&cut, ThreadOrigin::Issue, "1"),
            own(&repo(&"x".repeat(32)), ThreadOrigin::Issue, "1")
        );
        let by = "ü".repeat(100);
        let thread =
            thread_of(&shop, ThreadOrigin::Delivery, ("1", "x"), &by, "Mend it.".to_owned());
        assert_eq!(thread.spec.requested_by.unwrap().chars().count(), 64);
        assert_eq!(thread.metadata.owner_references.unwrap()[0].uid, "u");
    }
}
