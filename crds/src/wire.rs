//! The one API between an agent pod and the gateway: JSON over TLS, authorised by the pod's
//! projected token (`Authorization: Bearer …`). The caller is a (Thread, role); no request names
//! either.
//!
//! `POST /v1/chat/completions` is OpenAI's own and has no types here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::RiskTier;
use crate::slack_ts::SlackTs;
use crate::thread::{Plan, PullRequest, RoleState, Usage};

/// Paths of the API.
pub mod path {
    /// `GET` → [`super::Session`].
    pub const SESSION: &str = "/v1/session";
    /// `GET ?after=<ts>&wait=<seconds>` → [`super::Inbox`]. Answers at once if the role has mail or
    /// a pending decision, otherwise after `wait` seconds at the latest.
    pub const INBOX: &str = "/v1/inbox";
    /// `POST` [`super::PostMessage`] → [`super::Posted`].
    pub const MESSAGES: &str = "/v1/messages";
    /// `POST` [`super::RunReport`] → `{}`.
    pub const RUNS: &str = "/v1/runs";
    /// `POST` [`super::OpenPullRequest`] → [`super::PullRequestState`]; `GET` → the same.
    pub const PULL_REQUEST: &str = "/v1/pull-request";
    /// `POST` [`super::PostComment`] → [`super::Commented`]: on the thread's own pull request.
    pub const COMMENTS: &str = "/v1/pull-request/comments";
    /// `POST` [`super::PostReview`] → [`super::Commented`]: of the thread's own pull request.
    pub const REVIEWS: &str = "/v1/pull-request/reviews";
    /// `GET ?number=<n>` → [`super::Issue`]; `GET ?label=<l>` (or nothing) → a list of the newest
    /// open ones, without their comments.
    pub const ISSUES: &str = "/v1/issues";
    /// `POST ?wait=<seconds>` [`super::ApprovalRequest`] → [`super::ApprovalReply`]. The same `key`
    /// is the same request: it is shown once, and every repetition tells how it stands. With `wait`
    /// an open one is answered once it is decided, or after that time at the latest.
    pub const APPROVALS: &str = "/v1/approvals";
    /// `POST` [`super::CloseThread`] → [`super::ThreadClosed`].
    pub const CLOSE: &str = "/v1/close";
    /// OpenAI-compatible model calls, streamed or not.
    pub const CHAT: &str = "/v1/chat/completions";
    /// `GET ?to=<host>:<port>` with `Upgrade: codebutler-tunnel` → 101 and the connection's bytes.
    pub const CONNECT: &str = "/v1/connect";
    /// `POST` [`super::EgressReport`] → `{}`; refused where the Repo wants enforcement and has none.
    pub const EGRESS_CHECK: &str = "/v1/egress-check";
    /// `POST` [`super::WebFetch`] → [`super::WebPage`].
    pub const WEB_FETCH: &str = "/v1/web/fetch";
    /// `POST` [`super::WebSearch`] → [`super::WebResults`].
    pub const WEB_SEARCH: &str = "/v1/web/search";
    /// OpenAI-compatible: makes images with the role's `model.image`.
    pub const IMAGES: &str = "/v1/images/generations";
    /// OpenAI-compatible, a multipart form: text of a recording, by the role's `model.audio`.
    pub const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
    /// Git's smart HTTP protocol: `/v1/git/info/refs`, `/v1/git/git-upload-pack`,
    /// `/v1/git/git-receive-pack`. The relay serves it inside the pod as `/git/…`.
    pub const GIT: &str = "/v1/git";
}

/// What [`path::CONNECT`] is upgraded to.
pub const TUNNEL: &str = "codebutler-tunnel";

/// Whether an agent could connect past the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressReport {
    /// The forbidden address accepted a connection.
    pub reached: bool,
}

/// A page to get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebFetch {
    /// An http or https URL.
    pub url: String,
}

/// A page as text. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebPage {
    /// Where it was, after redirects.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// As the server said, without parameters.
    pub content_type: String,
    /// What it says; HTML is laid out as text.
    pub text: String,
    /// There was more.
    pub truncated: bool,
}

/// A question to the web.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSearch {
    /// Words to look for.
    pub query: String,
}

/// What was found, best first. Untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResults {
    /// At most ten.
    pub results: Vec<WebResult>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResult {
    /// The page's title.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// Some of its words.
    pub snippet: String,
}

/// Everything a role needs to know to start a run. Taken once per turn boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Namespace of the Thread.
    pub namespace: String,
    /// Name of the Thread.
    pub thread: String,
    /// Name of the Repo.
    pub repo: String,
    /// The caller's role.
    pub role: String,
    /// The model to ask for.
    pub model: String,
    /// Tools the role has.
    pub tools: Vec<String>,
    /// Model calls per run.
    pub max_turns: u32,
    /// Seconds per run.
    pub timeout_seconds: u32,
    /// Seconds to stay with nothing to do.
    pub idle_timeout_seconds: u32,
    /// Additional instructions from the AgentRole.
    pub prompt: Option<String>,
    /// The roles of this Repo, the caller included.
    pub roles: Vec<RoleCard>,
    /// The thread's own branch; published on the remote before this is answered.
    pub branch: String,
    /// The branch that a pull request targets.
    pub base_branch: String,
    /// The commit of the base branch from which `branch` was made, if this call made it.
    pub base_commit: Option<String>,
    /// The current plan, approved or not.
    pub plan: Option<Plan>,
    /// The pull request, if there is one.
    pub pull_request: Option<PullRequest>,
    /// Newest message that an ended run of this role had taken.
    pub done: Option<SlackTs>,
    /// `ts` of the conversation's first message.
    pub root: SlackTs,
    /// Usage by role so far.
    pub usage: Vec<(String, Usage)>,
    /// Models that a user may switch the role to, `model` included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The model to go on with where `model` is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stronger: Option<String>,
    /// The Repo's risk tiers by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_overrides: BTreeMap<String, RiskTier>,
    /// The command whose success proves a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
}

/// What one role knows of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleCard {
    /// Short name; `@codebutler.<role>` addresses it.
    pub role: String,
    /// Shown in Slack.
    pub name: String,
    /// One sentence.
    pub description: String,
}

/// What waits for a role. The messages are all of the conversation after `after`, so that a role
/// also knows what was said to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    /// Oldest first.
    pub messages: Vec<Message>,
    /// Oldest first.
    pub pending: Vec<crate::thread::Pending>,
    /// The Thread was closed, or the caller replaced: finish and exit.
    pub closed: bool,
}

/// A message of the conversation. Its text is untrusted, whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Identity and order.
    pub ts: SlackTs,
    /// Who wrote it.
    pub author: Author,
    /// Slack's markup as text.
    pub text: String,
    /// Whether it is addressed to the caller's role.
    pub addressed: bool,
}

/// Who wrote a message: known from Slack's ids and the gateway's own metadata, never from text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Author {
    /// A person.
    User {
        /// Slack user id.
        id: String,
    },
    /// A role of this conversation.
    Role {
        /// Short name.
        role: String,
    },
    /// Whoever made the Thread in the cluster: the text is its `spec.prompt`, and as much of an
    /// instruction as a person's message.
    Prompt {
        /// The Thread.
        thread: String,
        /// Slack user id or name of who asked, if it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested_by: Option<String>,
    },
    /// CodeButler itself (reports, notices), or another bot.
    System,
}

/// A message that a role wants in its own thread, under its own name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostMessage {
    /// Identity of the effect: a second request with the same key posts nothing and answers with
    /// the first one's `ts`. At most 64 characters of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// Markdown.
    pub text: String,
    /// Ask the people of the thread for a decision with buttons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// Decisions that are asked with buttons. The gateway records the answer; an agent can't.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// The text is a plan: Approve, Modify, Reject.
    Plan,
    /// The work is done: Merge, Hold, Close without merge.
    Merge,
}

impl Decision {
    /// `plan` or `merge`: the `kind` of the resulting pending item.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Merge => "merge",
        }
    }
}

/// A message that is in Slack now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// Its identity (of the first part, if it had to be split).
    pub ts: SlackTs,
}

/// Where a role's run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// `Running` at the start; anything else ends the run.
    pub state: RoleState,
    /// Newest message taken, when the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<SlackTs>,
    /// Ids of pending items taken, when the run ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<String>,
    /// Model calls of this run so far.
    pub turns: u32,
    /// For `Failed`: what to tell the thread, one or two sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How the run ended: set exactly once for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
    /// What confines commands: `landlock-<version>`, `runtime`, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// What was asked for is done.
    Completed,
    /// A person has to say something first.
    NeedsInformation,
    /// It could not go on; the thread was told why.
    Error,
}

/// Opens the thread's pull request, or updates title and body of the one there is (the head branch
/// is the key).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPullRequest {
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
}

/// The thread's pull request as the remote sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestState {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// `open`, `closed` or `merged`.
    pub state: String,
    /// One line.
    pub title: String,
    /// Head commit.
    pub head: String,
    /// Whether it can be merged, once the remote knows.
    pub mergeable: Option<bool>,
    /// Whether this call created it.
    #[serde(default)]
    pub created: bool,
    /// Why it can't be merged yet, in the remote's word: `clean`, `blocked`, `behind`, `dirty`,
    /// `unstable`, `draft`, … (Only asked for with `GET`, as all that follows.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_state: Option<String>,
    /// Checks and commit statuses of the head commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Each reviewer's last word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<ReviewState>,
    /// What people wrote on it, oldest first; the newest 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// Asks the people of the thread whether exactly one action may happen. Whoever the Repo permits
/// answers with a button, 👍 or a plain “yes” or “no”; the answer also comes as a pending item of
/// kind `approval` (`choice`: `approved`, `denied` or `expired`; `id`: `approval:` and the reply's
/// `id`) so that a role that ended its run waiting is woken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Identity of the request, such as the tool call's id: an answer counts for this one call. At
    /// most 64 characters of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// The tool.
    pub tool: String,
    /// What is to happen, in one line.
    pub summary: String,
    /// SHA-256 over tool and arguments, in hex: a request with this `key` and another hash is
    /// refused.
    pub hash: String,
    /// The exact action, such as the command line; shown as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a request stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReply {
    /// Identity in the Thread's status.
    pub id: String,
    /// What was answered.
    pub state: ApprovalState,
}

/// What people answered. Only `approved` is a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalState {
    /// Nothing yet.
    Pending,
    /// Yes, to exactly this.
    Approved,
    /// No.
    Denied,
    /// Nobody answered in time: neither a yes nor a no.
    Expired,
}

/// A comment on the thread's pull request, or on a line of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostComment {
    /// Identity of the effect, as in [`PostMessage`].
    pub key: String,
    /// Markdown.
    pub body: String,
    /// File and line that it is about; the whole pull request if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
}

/// A review of the thread's pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostReview {
    /// Identity of the effect, as in [`PostMessage`].
    pub key: String,
    /// Markdown.
    pub body: String,
    /// What the reviewer concludes. It is never an approval that lets anything be merged: that is
    /// a person's.
    #[serde(default)]
    pub verdict: Verdict,
    /// Remarks on lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<LineComment>,
}

/// What a review concludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Remarks only.
    #[default]
    Comment,
    /// Something has to change.
    RequestChanges,
}

/// A line of the new version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineRef {
    /// Path in the repository.
    pub path: String,
    /// Counted from 1.
    pub line: u64,
}

/// A remark on a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineComment {
    /// Where.
    #[serde(flatten)]
    pub at: LineRef,
    /// Markdown.
    pub body: String,
}

/// A comment or review that is on the remote now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commented {
    /// Its page.
    pub url: String,
    /// Whether this call made it.
    #[serde(default)]
    pub created: bool,
}

/// An issue of the repository. Its texts are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issue {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// One line.
    pub title: String,
    /// `open` or `closed`.
    pub state: String,
    /// Login of who opened it.
    pub author: String,
    /// Names.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Markdown, cut to 16,000 characters.
    #[serde(default)]
    pub body: String,
    /// The oldest ones first; only for a single issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<Remark>,
}

/// Something a person or bot wrote on the remote. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    /// Login.
    pub author: String,
    /// Markdown, cut to 4,000 characters.
    pub body: String,
    /// File and line, for remarks on code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<LineRef>,
}

/// A check of the pull request's head commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Its name.
    pub name: String,
    /// `pending`, `success`, `failure`, `neutral`, `cancelled`, `skipped`, … as the remote says.
    pub state: String,
    /// What it says of itself, cut to 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A reviewer's last word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewState {
    /// Login.
    pub author: String,
    /// `approved`, `changes_requested`, `commented` or `dismissed`.
    pub state: String,
}

/// Ends the conversation the way a user decided (recorded by the gateway, not claimed here).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseThread {
    /// Markdown: what was done. Becomes the pull request's description.
    pub summary: String,
}

/// How the conversation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosed {
    /// The squash commit on the base branch, if it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
}

/// Body of every refusal, in the shape of OpenAI's errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// What went wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Stable; see [`ErrorCode`].
    pub code: ErrorCode,
    /// A sentence for the model or the log.
    pub message: String,
    /// OpenAI's field: always `codebutler_error`.
    #[serde(rename = "type", default)]
    pub type_: String,
}

/// Stable codes that the agent acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 401: no token, or one that proves nothing here.
    Unauthenticated,
    /// 403 `not_registered`: a valid pod token, but no role of a Thread has this pod (yet): retry
    /// for a while, then exit.
    NotRegistered,
    /// 403: the role lacks the right; retrying changes nothing.
    Forbidden,
    /// 403: a user has to approve the plan (or the merge) first.
    NeedsApproval,
    /// 402: a limit of the Repo is reached. The thread was asked: wait for the pending decision
    /// `budget`, then go on.
    BudgetExceeded,
    /// 409: the Thread is closed.
    ThreadClosed,
    /// 400: the request itself is wrong.
    InvalidRequest,
    /// 502: Slack, the model API or the Git host refused or failed; the message says what.
    Upstream,
    /// 503: try again.
    Unavailable,
}
