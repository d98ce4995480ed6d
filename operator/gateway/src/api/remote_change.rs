//! `POST /v1/remote-changes`: labels, issues, comments, reviews and releases at the Git host, beside the thread's own
//! pull request. Each is shown to people as it would be, and happens once they have said yes to exactly that; a
//! repetition finds what is done already.

use std::fmt::Write as _;

use axum::extract::State;
use codebutler_crds::names;
use codebutler_crds::wire::{
    ChangeRemote, ErrorCode, LineComment, RemoteChange, RemoteChanged, ReviewEvent,
};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use codebutler_gateway_core::github::{ChangeTarget, GitHub, RemarkKey, text};
use codebutler_gateway_core::redact::SecretRedactor;
use kube::ResourceExt as _;

use crate::state::SharedGateway;

/// GitHub's own limit is 65,536 characters; people have to be able to read it.
const MAX_BODY: usize = 20_000;
const MAX_LINE: usize = 256;
/// Maximum number of labels in one change, and length of the longest.
const MAX_LABELS: usize = 10;
const MAX_LABEL: usize = 50;
const MAX_TAG: usize = 100;
/// Maximum number of remarks on lines in one review.
const MAX_REMARKS: usize = 50;
/// Accounts in one change, as GitHub takes them, and the longest login.
const MAX_LOGINS: usize = 10;
const MAX_LOGIN: usize = 39;

/// Makes the change, or asks people first.
pub(super) async fn change_remote(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<ChangeRemote>,
) -> Result<axum::Json<RemoteChanged>, ApiError> {
    let tool = tool_of(&wanted.change);
    needs_tool(&caller, &[tool])?;
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let change = check_change(&redactor, wanted.change)?;
    let base = &caller.repo.spec.git.branch;
    let (mut summary, mut detail) = show_change(&change, base);
    let key = change_key(&caller, &detail);
    let own_branch = names::branch_name(&caller.thread.name_any());
    let _turn = gateway.work.context.github.turn(&caller.key()).await;
    let done = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let done = github.find_change(&change, &key).await?;
        let target = match done {
            None => github.find_target(&change, base, &own_branch).await?,
            Some(_) => ChangeTarget::default(),
        };
        Ok((done, target, github))
    };
    // A change that has happened is not asked about again, and one that can't happen is not asked about at all.
    let (done, target, github) = gateway.git.outcomes.note(&caller, done.await).await?;
    if let Some(url) = done {
        return Ok(axum::Json(RemoteChanged { url }));
    }
    // The yes is for that commit, and no later one.
    if let Some(title) = &target.title {
        let _ = write!(summary, " (“{}”)", redactor.mask(title));
    }
    if let Some(commit) = &target.commit {
        let _ = write!(summary, " at {}", commit.chars().take(10).collect::<String>());
        let _ = write!(detail, "\n\nCommit: {commit}");
    }
    let commit = target.commit.unwrap_or_else(|| base.clone());
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
        RemoteChange::Review { .. } => "GHReview",
        RemoteChange::Close { .. }
        | RemoteChange::Assign { .. }
        | RemoteChange::SubIssue { .. } => "GHChangeIssue",
        RemoteChange::Release { .. } => "GHRelease",
    }
}

/// The same words in this thread are the same change: who asks again once people said yes has another call.
fn change_key(caller: &ProvenCaller, detail: &str) -> RemarkKey {
    let (thread, uid) = (caller.key(), caller.thread.uid().unwrap_or_default());
    RemarkKey::of(&[&thread.namespace, &thread.name, &uid, "change", detail])
}

/// Validates the change and masks its texts.
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
            // In an address these two stand for other paths: removing `.` would remove all labels.
            let is_path = [".", ".."].contains(&label.as_str());
            (1..=MAX_LABEL).contains(&length) && !label.contains([',', '\n']) && !is_path
        };
        if labels.len() > MAX_LABELS || !labels.iter().all(fits) {
            let why = format!(
                "at most {MAX_LABELS} labels, each of 1 to {MAX_LABEL} characters without `,`, and not `.` or `..`"
            );
            return Err(invalid_request(&why));
        }
        Ok(labels)
    };
    Ok(match change {
        RemoteChange::Labels { add, remove, .. } if add.is_empty() && remove.is_empty() => {
            return Err(invalid_request("name labels to `add` or to `remove`"));
        }
        RemoteChange::Assign { add, remove, .. } if add.is_empty() && remove.is_empty() => {
            return Err(invalid_request("name logins to `assign` or to `unassign`"));
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
        RemoteChange::Review { number, body, verdict, comments } => {
            check_review(redactor, number, &body, verdict, comments)?
        }
        RemoteChange::Assign { number, add, remove } => RemoteChange::Assign {
            number,
            add: check_logins(&add)?,
            remove: check_logins(&remove)?,
        },
        RemoteChange::SubIssue { number, child } if number == child => {
            return Err(invalid_request("an issue can't be below itself"));
        }
        plain @ (RemoteChange::Close { .. } | RemoteChange::SubIssue { .. }) => plain,
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

fn check_review(
    redactor: &SecretRedactor,
    number: u64,
    body: &str,
    verdict: ReviewEvent,
    comments: Vec<LineComment>,
) -> Result<RemoteChange, ApiError> {
    let outgoing = |text: &str| text::outgoing_text(&redactor.mask(text));
    let body = outgoing(body);
    if body.is_empty() && (comments.is_empty() || verdict == ReviewEvent::RequestChanges) {
        return Err(invalid_request("`body` is empty: say what you conclude"));
    }
    if comments.len() > MAX_REMARKS {
        return Err(invalid_request(&format!("at most {MAX_REMARKS} comments in one review")));
    }
    let comments: Vec<LineComment> =
        comments.into_iter().map(|one| LineComment { body: outgoing(&one.body), ..one }).collect();
    if comments.iter().any(|one| one.body.is_empty() || !one.at.is_plain()) {
        return Err(invalid_request(
            "a comment needs a file, a line counted from 1, words in `body`, and no `first` behind its line",
        ));
    }
    let length = |text: &str| text.chars().count();
    let all: usize = comments.iter().map(|one| length(&one.body)).sum();
    if length(&body) + all > MAX_BODY {
        let why =
            format!("a review has at most {MAX_BODY} characters: people read all of it first");
        return Err(invalid_request(&why));
    }
    Ok(RemoteChange::Review { number, body, verdict, comments })
}

fn check_logins(logins: &[String]) -> Result<Vec<String>, ApiError> {
    let logins: Vec<String> =
        logins.iter().map(|login| login.trim().trim_start_matches('@').to_owned()).collect();
    let fits = |login: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (1..=MAX_LOGIN).contains(&login.len()) && login.chars().all(plain)
    };
    if logins.len() > MAX_LOGINS || !logins.iter().all(fits) {
        let why = format!("name at most {MAX_LOGINS} logins as GitHub has them, such as `octocat`");
        return Err(invalid_request(&why));
    }
    Ok(logins)
}

/// The change in one line, and in all its details.
fn show_change(change: &RemoteChange, base: &str) -> (String, String) {
    let list = |names: &[String]| names.join(", ");
    let both = |number: u64, parts: [(&str, &Vec<String>); 2]| {
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<_> = parts.map(|(verb, names)| format!("{verb} {}", list(names))).collect();
        format!("#{number}: {}", parts.join("; "))
    };
    match change {
        RemoteChange::Labels { number, add, remove } => {
            let detail = both(*number, [("add", add), ("remove", remove)]);
            (format!("Change labels of #{number}"), detail)
        }
        RemoteChange::Assign { number, add, remove } => {
            let detail = both(*number, [("assign", add), ("unassign", remove)]);
            (format!("Change who works on #{number}"), detail)
        }
        RemoteChange::Close { number, reason } => {
            let reason = reason.name().replace('_', " ");
            (format!("Close issue #{number} as {reason}"), format!("#{number}: close as {reason}"))
        }
        RemoteChange::SubIssue { number, child } => {
            (format!("Make #{child} a sub-issue of #{number}"), format!("#{child} below #{number}"))
        }
        RemoteChange::Review { number, body, verdict, comments } => {
            let (verb, word) = match verdict {
                ReviewEvent::Comment => ("Comment on", "comment"),
                ReviewEvent::RequestChanges => ("Request changes of", "request changes"),
            };
            let mut detail = format!("#{number}, {word}\n\n{body}");
            for LineComment { at, body } in comments {
                let _ = write!(detail, "\n\n{at}\n{body}");
            }
            (format!("{verb} pull request #{number} in a review"), detail)
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
    use codebutler_crds::wire::LineRef;

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
        assert!(check(labels(&["bug", "good first issue", "kind/bug"])).is_ok());
        for add in [&[][..], &[""], &["a,b"], &["bug", "."], &[".."]] {
            assert!(check(labels(add)).is_err(), "{add:?}");
        }
        let comment = RemoteChange::Comment { number: 1, body: " ".to_owned() };
        assert_eq!(check(comment).unwrap_err(), "`body` has 1 to 20000 characters");
        let long = |letters: usize| RemoteChange::Comment { number: 1, body: "é".repeat(letters) };
        assert!(check(long(MAX_BODY)).is_ok() && check(long(MAX_BODY + 1)).is_err());
    }

    #[test]
    fn a_review_says_something_and_names_lines() {
        let review = |body: &str, verdict, comments: &[(&str, u64, &str)]| RemoteChange::Review {
            number: 7,
            body: body.to_owned(),
            verdict,
            comments: comments
                .iter()
                .map(|(path, line, body)| LineComment {
                    at: LineRef { path: (*path).to_owned(), line: *line, ..LineRef::default() },
                    body: (*body).to_owned(),
                })
                .collect(),
        };
        let one = &[("a.rs", 3, "Why?")][..];
        assert!(check(review("", ReviewEvent::Comment, one)).is_ok());
        for bad in [
            review("", ReviewEvent::Comment, &[]),
            review("", ReviewEvent::RequestChanges, one),
            review("x", ReviewEvent::Comment, &[("a.rs", 0, "Why?")]),
            review("x", ReviewEvent::Comment, &[("a.rs", 3, " ")]),
            review(&"é".repeat(MAX_BODY), ReviewEvent::Comment, one),
            review("x", ReviewEvent::Comment, &[("a.rs", 3, "Why?"); MAX_REMARKS + 1]),
        ] {
            assert!(check(bad.clone()).is_err(), "{bad:?}");
        }
        let (summary, detail) =
            show_change(&review("One thing.", ReviewEvent::RequestChanges, one), "main");
        assert_eq!(summary, "Request changes of pull request #7 in a review");
        assert_eq!(detail, "#7, request changes\n\nOne thing.\n\na.rs:3\nWhy?");
    }

    #[test]
    fn only_logins_are_assigned() {
        let assign = |add: &[&str]| RemoteChange::Assign {
            number: 1,
            add: add.iter().map(|login| (*login).to_owned()).collect(),
            remove: Vec::new(),
        };
        let Ok(RemoteChange::Assign { add, .. }) = check(assign(&["@ana"])) else { panic!() };
        assert_eq!(add, ["ana"]);
        for add in [&[][..], &[""], &["a/b"], &["a b"], &["x"; 11]] {
            assert!(check(assign(add)).is_err(), "{add:?}");
        }
        assert!(check(RemoteChange::SubIssue { number: 1, child: 1 }).is_err());
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
