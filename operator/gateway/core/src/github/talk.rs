//! Talk on a pull request: writes comments and reviews, each once per key, and reads those of
//! others.

use codebutler_crds::wire::{
    LineComment, LineRef, PostedComment, RemoteRemark, ReviewEvent, ReviewState,
};
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pull::GitHubAccount;
use super::{GitHub, GitHubError, GitHubPull, text};
use crate::github_access::exchange::GitHubAnswer;

/// Longest remark that a role is shown, in characters.
const REMARK: usize = 4000;
/// Remarks that a role is shown.
const REMARKS: usize = 50;
/// Review that asks for a change where GitHub takes none: on a pull request of the same account.
const WANTED: &str = "**Changes requested**\n\n";

/// Key by which a remark is found again.
#[derive(Clone, Debug)]
pub struct RemarkKey(String);

impl RemarkKey {
    /// `parts` tell this effect from any other.
    pub fn of(parts: &[&str]) -> Self {
        Self(text::effect_marker(parts))
    }

    pub(super) fn is_in(&self, body: Option<&String>) -> bool {
        body.is_some_and(|body| body.contains(&self.0))
    }

    pub(super) fn sign(&self, body: &str) -> String {
        format!("{body}\n\n{}", self.0)
    }
}

/// A comment, a comment on a line, or a review on a pull request.
#[derive(Clone, Debug, Deserialize)]
pub struct PullComment {
    /// Id among comments of its kind.
    pub id: u64,
    html_url: String,
    /// Author; absent once the account is gone.
    #[serde(default)]
    user: Option<GitHubAccount>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    submitted_at: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    original_line: Option<u64>,
    /// First of several lines.
    #[serde(default)]
    start_line: Option<u64>,
    #[serde(default)]
    original_start_line: Option<u64>,
    /// `LEFT` for lines of the version before the change.
    #[serde(default)]
    side: Option<String>,
    /// `file` for a remark on a whole file.
    #[serde(default)]
    subject_type: Option<String>,
    /// Review that a comment on a line is part of.
    #[serde(default)]
    pub pull_request_review_id: Option<u64>,
}

impl PullComment {
    pub fn author(&self) -> String {
        self.user
            .as_ref()
            .map_or_else(|| "ghost".to_owned(), |user| text::one_line(&user.login, 60))
    }

    pub fn page(&self) -> &str {
        &self.html_url
    }

    /// Returns the time, in RFC 3339. None for a review that is not submitted.
    pub fn at(&self) -> Option<&str> {
        self.submitted_at.as_deref().or(self.created_at.as_deref())
    }

    pub fn words(&self, limit: usize) -> String {
        text::incoming_text(self.body.as_deref().unwrap_or_default(), limit)
    }

    /// Returns the verdict of a review: `approved`, `changes_requested`, `commented`, `dismissed`,
    /// `pending`.
    pub fn verdict(&self) -> String {
        self.state.as_deref().unwrap_or_default().to_ascii_lowercase()
    }

    /// File and line, of a comment on one.
    pub fn place(&self) -> Option<LineRef> {
        let path = text::one_line(self.path.as_deref()?, 300);
        let (first, line) = match self.line {
            _ if self.is_on_file() => (None, 0),
            Some(line) => (self.start_line, line),
            None => (self.original_start_line, self.original_line.unwrap_or(1)),
        };
        let removed = self.side.as_deref() == Some("LEFT");
        Some(LineRef { path, line, first, removed })
    }

    fn is_on_file(&self) -> bool {
        self.subject_type.as_deref() == Some("file")
    }

    /// True if it is about a line that the diff no longer shows.
    pub fn is_outdated(&self) -> bool {
        self.path.is_some() && self.line.is_none() && !self.is_on_file()
    }

    /// The account of the person who said it; nobody for what a bot or CodeButler said.
    pub fn speaker(&self) -> Option<&str> {
        let user = self.user.as_ref().filter(|user| user.kind.as_deref() != Some("Bot"))?;
        let is_own = self.body.as_deref().is_some_and(text::is_own);
        (!is_own).then_some(&*user.login)
    }

    fn remark(&self) -> RemoteRemark {
        RemoteRemark { author: self.author(), body: self.words(REMARK), at: self.place() }
    }
}

/// All that was said on a pull request.
#[derive(Debug, Default)]
pub struct PullTalk {
    /// Comments in its conversation.
    pub comments: Vec<PullComment>,
    pub reviews: Vec<PullComment>,
    pub lines: Vec<PullComment>,
}

impl PullTalk {
    /// Returns the newest remarks for a role, oldest first.
    pub fn remarks(&self) -> Vec<RemoteRemark> {
        let spoken =
            |said: &&PullComment| said.body.as_deref().is_some_and(|body| !body.trim().is_empty());
        let all = self.comments.iter().chain(&self.reviews).chain(&self.lines);
        let mut all: Vec<&PullComment> =
            all.filter(spoken).filter(|said| said.at().is_some()).collect();
        all.sort_by_key(|said| said.at().map(str::to_owned));
        let skip = all.len().saturating_sub(REMARKS);
        all.into_iter().skip(skip).map(PullComment::remark).collect()
    }

    /// Returns each reviewer's last verdict: a mere comment takes no verdict back.
    pub fn verdicts(&self) -> Vec<ReviewState> {
        let mut last: Vec<ReviewState> = Vec::new();
        for review in self.reviews.iter().filter(|review| review.verdict() != "pending") {
            let (author, state) = (review.author(), review.verdict());
            match last.iter_mut().find(|known| known.author == author) {
                Some(known) if state != "commented" => known.state = state,
                Some(_) => {}
                None => last.push(ReviewState { author, state }),
            }
        }
        last
    }
}

impl GitHub {
    /// Reads everything that was said on a pull request.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn talk(&self, number: u64) -> Result<PullTalk, GitHubError> {
        let comments = format!("issues/{number}/comments");
        let (reviews, lines) =
            (format!("pulls/{number}/reviews"), format!("pulls/{number}/comments"));
        let (comments, reviews, lines) =
            tokio::try_join!(self.said(&comments), self.said(&reviews), self.said(&lines))?;
        Ok(PullTalk { comments, reviews, lines })
    }

    /// Returns the comments since then, and all reviews; comments on lines only where a review is
    /// as new.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn talk_since(
        &self,
        number: u64,
        since: Option<Timestamp>,
    ) -> Result<PullTalk, GitHubError> {
        let query = since.map(|since| format!("&since={since:.0}")).unwrap_or_default();
        let comments = self.client.repo(&format!("issues/{number}/comments"));
        let comments = self.client.list_with(&comments, &query).await?;
        let reviews = self.said(&format!("pulls/{number}/reviews")).await?;
        let is_new = |said: &PullComment| {
            let at = said.at().and_then(|at| at.parse::<Timestamp>().ok());
            at.is_some_and(|at| since.is_none_or(|since| at >= since))
        };
        let lines = if reviews.iter().any(is_new) {
            self.said(&format!("pulls/{number}/comments")).await?
        } else {
            Vec::new()
        };
        Ok(PullTalk { comments, reviews, lines })
    }

    pub(super) async fn said(&self, path: &str) -> Result<Vec<PullComment>, GitHubError> {
        self.client.list(&self.client.repo(path)).await
    }

    /// Comments on a pull request, or on a line of its newest commit, unless the key is there.
    ///
    /// # Errors
    /// When the line is not part of the pull request, or GitHub refuses.
    pub async fn comment(
        &self,
        pull: &GitHubPull,
        key: &RemarkKey,
        body: &str,
        at: Option<&LineRef>,
    ) -> Result<PostedComment, GitHubError> {
        let (path, request) = match at {
            None => (format!("issues/{}/comments", pull.number), json!({"body": key.sign(body)})),
            Some(at) => {
                let mut request = on_line(at, &key.sign(body));
                request["commit_id"] = pull.head().into();
                (format!("pulls/{}/comments", pull.number), request)
            }
        };
        if let Some(there) = self.find(&path, key).await? {
            return Ok(there);
        }
        let answer = self.client.post(&self.client.repo(&path), &request).await?;
        self.made(&answer, at.is_some(), StatusCode::CREATED)
    }

    /// Reviews a pull request's newest commit, unless the key is there. It never approves.
    ///
    /// # Errors
    /// When a line is not part of the pull request, or GitHub refuses.
    pub async fn review(
        &self,
        pull: &GitHubPull,
        key: &RemarkKey,
        verdict: ReviewEvent,
        body: &str,
        comments: &[LineComment],
    ) -> Result<PostedComment, GitHubError> {
        if let Some(there) = self.find_review(pull.number, key).await? {
            return Ok(there);
        }
        self.post_review(pull.number, pull.head(), key, verdict, (body, comments)).await
    }

    /// A review that was made under this key.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub(super) async fn find_review(
        &self,
        number: u64,
        key: &RemarkKey,
    ) -> Result<Option<PostedComment>, GitHubError> {
        self.find(&format!("pulls/{number}/reviews"), key).await
    }

    pub(super) async fn post_review(
        &self,
        number: u64,
        commit: &str,
        key: &RemarkKey,
        verdict: ReviewEvent,
        (body, comments): (&str, &[LineComment]),
    ) -> Result<PostedComment, GitHubError> {
        let path = format!("pulls/{number}/reviews");
        let comments: Vec<Value> = comments.iter().map(|c| on_line(&c.at, &c.body)).collect();
        let request = |event: &str, body: &str| {
            json!({
                "commit_id": commit, "event": event, "body": key.sign(body),
                "comments": comments,
            })
        };
        let path = self.client.repo(&path);
        if verdict == ReviewEvent::RequestChanges {
            let answer = self.client.post(&path, &request("REQUEST_CHANGES", body)).await?;
            if !is_about_own(&answer) {
                return self.made(&answer, !comments.is_empty(), StatusCode::OK);
            }
        }
        let body = match verdict {
            ReviewEvent::Comment => body.to_owned(),
            ReviewEvent::RequestChanges => format!("{WANTED}{body}"),
        };
        let answer = self.client.post(&path, &request("COMMENT", &body)).await?;
        self.made(&answer, !comments.is_empty(), StatusCode::OK)
    }

    async fn find(
        &self,
        path: &str,
        key: &RemarkKey,
    ) -> Result<Option<PostedComment>, GitHubError> {
        let all = self.said(path).await?;
        let there = all.into_iter().find(|said| key.is_in(said.body.as_ref()));
        Ok(there.map(|said| PostedComment { url: said.html_url, created: false }))
    }

    fn made(
        &self,
        answer: &GitHubAnswer,
        on_lines: bool,
        status: StatusCode,
    ) -> Result<PostedComment, GitHubError> {
        if answer.status == StatusCode::UNPROCESSABLE_ENTITY {
            return Err(if on_lines && is_about_lines(&answer.words()) {
                GitHubError::NotInDiff
            } else {
                GitHubError::Refused { said: self.client.remark(answer) }
            });
        }
        let said: PullComment = self.client.expect(answer, status)?;
        Ok(PostedComment { url: said.html_url, created: true })
    }
}

fn on_line(at: &LineRef, body: &str) -> Value {
    let side = if at.removed { "LEFT" } else { "RIGHT" };
    let mut remark = json!({"path": at.path, "line": at.line, "side": side, "body": body});
    if let Some(first) = at.first.filter(|first| *first < at.line) {
        (remark["start_line"], remark["start_side"]) = (first.into(), side.into());
    }
    remark
}

/// True if GitHub refuses a remark because of its place. It refuses for other reasons, too: words that are too long, a
/// commit that is not the pull request's any more, a review that a person has begun and not ended.
fn is_about_lines(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let places = ["could not be resolved", "diff", "review_thread", "review thread", "position"];
    places.iter().any(|place| words.contains(place))
}

/// An account can't request changes of itself.
fn is_about_own(answer: &GitHubAnswer) -> bool {
    answer.status == StatusCode::UNPROCESSABLE_ENTITY && answer.mentions("your own pull request")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: &Value) -> PullComment {
        let mut all =
            json!({"id": 1, "html_url": "https://h/1", "user": {"login": "ana", "type": "User"}});
        json_patch::merge(&mut all, value);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_comment_takes_no_verdict_back() {
        let review =
            |login: &str, state: &str| said(&json!({"user": {"login": login}, "state": state}));
        let reviews = vec![
            review("ana", "CHANGES_REQUESTED"),
            review("bo", "COMMENTED"),
            review("ana", "COMMENTED"),
            review("bo", "APPROVED"),
            review("eve", "PENDING"),
            review("bo", "DISMISSED"),
        ];
        let talk = PullTalk { reviews, ..PullTalk::default() };
        let last: Vec<_> = talk.verdicts().into_iter().map(|v| (v.author, v.state)).collect();
        let expected = [("ana", "changes_requested"), ("bo", "dismissed")];
        assert_eq!(last, expected.map(|(a, s)| (a.to_owned(), s.to_owned())));
    }

    #[test]
    fn only_a_place_that_github_does_not_know_is_told_as_one() {
        for place in [
            "Unprocessable Entity: Path could not be resolved",
            "Unprocessable Entity: Line could not be resolved",
            "Validation Failed: pull_request_review_thread.line must be part of the diff",
            "Validation Failed: pull_request_review_thread.diff_hunk (missing_field)",
        ] {
            assert!(is_about_lines(place), "{place}");
        }
        for other in [
            "Validation Failed: body is too long (maximum is 65536 characters)",
            "Validation Failed: commit_id is not part of the pull request",
            "Unprocessable Entity: User can only have one pending review per pull request",
            "Validation Failed: was submitted too quickly",
        ] {
            assert!(!is_about_lines(other), "{other}");
        }
    }

    #[test]
    fn a_remark_says_of_which_lines_of_which_version_it_is() {
        let of = |more: &Value| {
            let mut remark = json!({"created_at": "2026-01-01T00:00:00Z", "path": "a.rs"});
            json_patch::merge(&mut remark, more);
            let remark = said(&remark);
            (remark.place().unwrap().to_string(), remark.is_outdated())
        };
        let one = |place: &str, is_outdated| (place.to_owned(), is_outdated);
        let line = json!({"line": 7, "side": "RIGHT", "start_line": null, "subject_type": "line"});
        assert_eq!(of(&line), one("a.rs:7", false));
        let several = json!({"line": 7, "start_line": 3, "side": "RIGHT", "start_side": "RIGHT"});
        assert_eq!(of(&several), one("a.rs:3-7", false));
        let removed = json!({"line": 12, "side": "LEFT"});
        assert_eq!(of(&removed), one("a.rs:12 before the change", false));
        let old = json!({"line": null, "original_line": 9, "original_start_line": 8});
        assert_eq!(of(&old), one("a.rs:8-9", true));
        let file = json!({"line": null, "original_line": null, "subject_type": "file"});
        assert_eq!(of(&file), one("a.rs", false), "a file has no line that could be outdated");
    }

    #[test]
    fn a_remark_is_written_on_the_side_of_its_version() {
        let at = LineRef { path: "a.rs".to_owned(), line: 7, ..LineRef::default() };
        let plain = json!({"path": "a.rs", "line": 7, "side": "RIGHT", "body": "x"});
        assert_eq!(on_line(&at, "x"), plain);
        assert_eq!(on_line(&LineRef { first: Some(7), ..at.clone() }, "x"), plain);
        let several = on_line(&LineRef { first: Some(3), removed: true, ..at }, "x");
        assert_eq!(
            several,
            json!({"path": "a.rs", "line": 7, "side": "LEFT", "start_line": 3, "start_side": "LEFT", "body": "x"})
        );
    }

    #[test]
    fn remarks_come_in_order_without_what_they_hide() {
        let at = |time: &str, body: &str| json!({"created_at": time, "body": body, "path": "a.rs", "line": 3});
        let talk = PullTalk {
            comments: vec![said(
                &json!({"created_at": "2026-01-02T00:00:00Z", "body": "b<!-- x -->"}),
            )],
            reviews: vec![said(&json!({"submitted_at": "2026-01-03T00:00:00Z", "body": ""}))],
            lines: vec![said(&at("2026-01-01T00:00:00Z", "a"))],
        };
        let shown: Vec<_> = talk.remarks().into_iter().map(|r| (r.body, r.at.is_some())).collect();
        assert_eq!(shown, [("a".to_owned(), true), ("b".to_owned(), false)]);
    }

    #[test]
    fn neither_bots_nor_we_are_people() {
        let speaks = |kind: &str, body: &str| {
            let said = said(&json!({"user": {"type": kind}, "body": body}));
            said.speaker().map(str::to_owned)
        };
        assert_eq!(speaks("User", "x"), Some("ana".to_owned()));
        assert_eq!(speaks("Bot", "x"), None);
        assert_eq!(speaks("User", &RemarkKey::of(&["k"]).sign("ours")), None);
    }
}
