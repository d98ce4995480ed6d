//! `POST /v1/remote-changes`: labels, issues, comments and releases at the Git host, beside the thread's own pull
//! request. Each is shown to people as it would be, and happens once they have said yes to exactly that; a
//! repetition finds what is done already.

use std::fmt::Write as _;

use axum::extract::State;
use codebutler_crds::wire::{ChangeRemote, ErrorCode, RemoteChange, RemoteChanged};
use kube::ResourceExt as _;

use crate::gateway::api_error::ApiError;
use crate::gateway::caller::ProvenCaller;
use crate::gateway::extract::{JsonBody, OpenCaller, needs_tool};
use crate::gateway::github::{GitHub, RemarkKey, text};
use crate::gateway::redact::SecretRedactor;
use crate::gateway::state::SharedGateway;

/// GitHub's own limit is 65,536 characters; people have to be able to read it.
const MAX_BODY: usize = 20_000;
const MAX_LINE: usize = 256;
/// Labels in one change, and the longest.
const MAX_LABELS: usize = 10;
const MAX_LABEL: usize = 50;
const MAX_TAG: usize = 100;

/// Changes it, or has people asked.
pub async fn change_remote(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<ChangeRemote>,
) -> Result<axum::Json<RemoteChanged>, ApiError> {
    let tool = tool_of(&wanted.change);
    needs_tool(&caller, &[tool])?;
    let change = check_change(&*gateway.git.outcomes.redactor(&caller).await?, wanted.change)?;
    let base = &caller.repo.spec.git.branch;
    let (mut summary, mut detail) = show_change(&change, base);
    let key = change_key(&caller, &detail);
    let _turn = gateway.work.context.github.turn(&caller.key()).await;
    let done = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let done = github.find_change(&change, &key).await?;
        let commit = match &change {
            RemoteChange::Release { .. } if done.is_none() => github.tip(base).await?,
            _ => None,
        };
        Ok((done, commit.map(|tip| tip.commit), github))
    };
    // What has happened is asked about no more, and what can't happen is not asked about at all.
    let (done, commit, github) = gateway.git.outcomes.note(&caller, done.await).await?;
    if let Some(url) = done {
        return Ok(axum::Json(RemoteChanged { url }));
    }
    // The yes is for that commit, and no later one.
    if let Some(commit) = &commit {
        let _ = write!(summary, " at {}", &commit[..commit.len().min(10)]);
        let _ = write!(detail, "\n\nCommit: {commit}");
    }
    let commit = commit.unwrap_or_else(|| base.clone());
    let standing =
        Box::pin(gateway.work.consent.require_for(&caller, tool, summary, detail)).await?;
    let made = github.make_change(&change, &key, &commit).await;
    let url = gateway.git.outcomes.note(&caller, made).await?;
    gateway.work.consent.spend(&caller, &standing).await;
    Ok(axum::Json(RemoteChanged { url }))
}

const fn tool_of(change: &RemoteChange) -> &'static str {
    match change {
        RemoteChange::Labels { .. } => "GHLabel",
        RemoteChange::Issue { .. } => "GHOpenIssue",
        RemoteChange::Comment { .. } => "GHAnswer",
        RemoteChange::Release { .. } => "GHRelease",
    }
}

/// The same words in this thread are the same change: who asks again once people said yes has another call.
fn change_key(caller: &ProvenCaller, detail: &str) -> RemarkKey {
    let (thread, uid) = (caller.key(), caller.thread.uid().unwrap_or_default());
    RemarkKey::of(&[&thread.namespace, &thread.name, &uid, "change", detail])
}

/// As it may leave, and as GitHub takes it.
fn check_change(redactor: &SecretRedactor, change: RemoteChange) -> Result<RemoteChange, ApiError> {
    let body = |body: &str, field: &str| {
        let body = text::outgoing_text(&redactor.mask(body));
        if body.is_empty() || body.chars().count() > MAX_BODY {
            return Err(invalid_request(&format!("`{field}` has 1 to {MAX_BODY} characters")));
        }
        Ok(body)
    };
    let line = |line: &str| {
        let line = text::outgoing_text(&redactor.mask(line));
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() || line.chars().count() > MAX_LINE {
            return Err(invalid_request(&format!("`title` has 1 to {MAX_LINE} characters")));
        }
        Ok(line)
    };
    let labels = |labels: Vec<String>| {
        let labels: Vec<String> = labels.iter().map(|label| label.trim().to_owned()).collect();
        let fits = |label: &String| {
            let length = label.chars().count();
            (1..=MAX_LABEL).contains(&length) && !label.contains([',', '\n', '/'])
        };
        if labels.len() > MAX_LABELS || !labels.iter().all(fits) {
            let why = format!(
                "at most {MAX_LABELS} labels, each of 1 to {MAX_LABEL} characters without `,` and `/`"
            );
            return Err(invalid_request(&why));
        }
        Ok(labels)
    };
    Ok(match change {
        RemoteChange::Labels { add, remove, .. } if add.is_empty() && remove.is_empty() => {
            return Err(invalid_request("name labels to `add` or to `remove`"));
        }
        RemoteChange::Labels { number, add, remove } => {
            RemoteChange::Labels { number, add: labels(add)?, remove: labels(remove)? }
        }
        RemoteChange::Issue { title, body: text, labels: names } => RemoteChange::Issue {
            title: line(&title)?,
            body: body(&text, "body")?,
            labels: labels(names)?,
        },
        RemoteChange::Comment { number, body: text } => {
            RemoteChange::Comment { number, body: body(&text, "body")? }
        }
        RemoteChange::Release { tag, title, notes, prerelease } => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
            let starts = tag.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !starts || tag.len() > MAX_TAG || !tag.chars().all(plain) || tag.contains("..") {
                return Err(invalid_request(
                    "`tag` is letters, digits, `.`, `_`, `+` and `-`, such as `v1.2.0`",
                ));
            }
            RemoteChange::Release {
                tag,
                title: line(&title)?,
                notes: body(&notes, "notes")?,
                prerelease,
            }
        }
    })
}

/// In one line, and all of it.
fn show_change(change: &RemoteChange, base: &str) -> (String, String) {
    let list = |labels: &[String]| labels.join(", ");
    match change {
        RemoteChange::Labels { number, add, remove } => {
            let parts = [("add", add), ("remove", remove)];
            let parts = parts.iter().filter(|(_, labels)| !labels.is_empty());
            let parts: Vec<_> =
                parts.map(|(verb, labels)| format!("{verb} {}", list(labels))).collect();
            (format!("Change labels of #{number}"), format!("#{number}: {}", parts.join("; ")))
        }
        RemoteChange::Issue { title, body, labels } => {
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!("\nLabels: {}", list(labels))
            };
            ("Open an issue".to_owned(), format!("{title}\n\n{body}{labels}"))
        }
        RemoteChange::Comment { number, body } => {
            (format!("Comment on #{number}"), format!("#{number}\n\n{body}"))
        }
        RemoteChange::Release { tag, title, notes, prerelease } => {
            let kind = if *prerelease { "prerelease" } else { "release" };
            let summary = format!("Publish the {kind} {tag} of {base}");
            (summary, format!("{kind} {tag} of {base}: {title}\n\n{notes}"))
        }
    }
}

fn invalid_request(message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: RemoteChange) -> Result<RemoteChange, String> {
        check_change(&SecretRedactor::new(&[]).0, change).map_err(|error| error.message)
    }

    #[test]
    fn what_github_would_not_take_or_people_not_read_is_refused() {
        let release = |tag: &str| RemoteChange::Release {
            tag: tag.to_owned(),
            title: " First\n one ".to_owned(),
            notes: "All.".to_owned(),
            prerelease: false,
        };
        let Ok(RemoteChange::Release { title, .. }) = check(release("v1.0.0")) else { panic!() };
        assert_eq!(title, "First one");
        for tag in ["", "-v1", "v 1", "v1..2", "refs/heads/main"] {
            assert!(check(release(tag)).is_err(), "{tag}");
        }
        let labels = |add: &[&str]| RemoteChange::Labels {
            number: 1,
            add: add.iter().map(|label| (*label).to_owned()).collect(),
            remove: Vec::new(),
        };
        assert!(check(labels(&["bug", "good first issue"])).is_ok());
        for add in [&[][..], &[""], &["a/b"], &["a,b"]] {
            assert!(check(labels(add)).is_err(), "{add:?}");
        }
        let comment = RemoteChange::Comment { number: 1, body: " ".to_owned() };
        assert_eq!(check(comment).unwrap_err(), "`body` has 1 to 20000 characters");
        let long = |letters: usize| RemoteChange::Comment { number: 1, body: "é".repeat(letters) };
        assert!(check(long(MAX_BODY)).is_ok() && check(long(MAX_BODY + 1)).is_err());
    }

    #[test]
    fn people_see_all_of_it() {
        let change = RemoteChange::Labels {
            number: 7,
            add: vec!["bug".to_owned()],
            remove: vec!["triage".to_owned()],
        };
        let (summary, detail) = show_change(&change, "main");
        assert_eq!((&*summary, &*detail), ("Change labels of #7", "#7: add bug; remove triage"));
    }
}
