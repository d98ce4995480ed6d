//! The one API between an agent pod and the gateway: JSON over TLS, authorised by the pod's
//! projected token (`Authorization: Bearer …`). The caller is a (Thread, role); no request names
//! either.
//!
//! `POST /v1/chat/completions` is OpenAI's own and has no types here.

#![warn(missing_docs)]

mod approval;
mod bridge;
mod build;
mod ci_words;
mod compared;
mod error;
pub mod exit_code;
mod facts;
pub mod history;
mod images;
mod mcp;
mod message;
pub mod money;
mod pending;
pub mod pod;
mod pull;
mod receipt;
mod remote;
mod remote_change;
mod risk;
mod run;
mod session;
pub mod slack_ts;
mod split;
mod threads;
mod tools;
mod web;

pub use approval::*;
pub use bridge::*;
pub use build::*;
pub use ci_words::{break_ci_words, has_ci_words};
pub use compared::*;
pub use error::*;
pub use facts::*;
pub use history::{HistoryBatch, HistoryKept, HistoryLines, PastConversation, PastConversations};
pub use images::*;
pub use mcp::*;
pub use message::*;
pub use money::NanoUsd;
pub use pending::*;
pub use pull::*;
pub use receipt::*;
pub use remote::*;
pub use remote_change::*;
pub use risk::RiskTier;
pub use run::*;
pub use session::*;
pub use slack_ts::SlackTs;
pub use split::*;
pub use threads::*;
pub use tools::{CHANGING, EditForm, TOOLS};
pub use web::*;

/// URL paths of the gateway's API.
pub mod path {
    /// `GET` → [`super::RoleSession`].
    pub const SESSION: &str = "/v1/session";
    /// `GET ?wait=<seconds>&setUp=<end>` → [`super::SeatAnswer`]: whether a Thread has taken the pod. Answered once one
    /// has, or after that time at the latest. `setUp` tells, once, how a set-up of its clone ended
    /// ([`super::SeatSetUpEnd`]). A pod that no Thread has taken may call this, fetch from [`GIT`], use [`CONNECT`] where
    /// the answer has a set-up, and nothing else.
    pub const SEAT: &str = "/v1/seat";
    /// `GET ?after=<ts>&wait=<seconds>&seen=<version>` → [`super::VersionedInbox`]. Answers at once if the role has
    /// mail or a pending decision, otherwise after `wait` seconds at the latest. With `seen`, an answer of
    /// that version is none.
    pub const INBOX: &str = "/v1/inbox";
    /// `POST` [`super::PostMessage`] → [`super::PostedMessage`].
    pub const MESSAGES: &str = "/v1/messages";
    /// `GET ?message=<ts>&id=<file>` → the bytes of a picture in a message of the caller's own
    /// conversation, with their type.
    pub const PICTURES: &str = "/v1/pictures";
    /// `POST` [`super::ShowComparison`] → [`super::ComparisonShown`].
    pub const COMPARISONS: &str = "/v1/pictures/comparisons";
    /// `GET ?id=<file>` → the bytes of a file in the caller's own conversation, known credentials in texts masked,
    /// with its name in the header [`super::FILE_NAME`].
    pub const FILES: &str = "/v1/files";
    /// `GET` → a list of [`super::OtherThread`].
    pub const THREADS: &str = "/v1/threads";
    /// `GET` → [`super::MergedBelow`]: for bringing the base branch into the caller's.
    pub const MERGED_BELOW: &str = "/v1/merged-below";
    /// `POST` [`super::RunReport`] → `{}`.
    pub const RUNS: &str = "/v1/runs";
    /// `POST` [`super::LastWords`] → [`super::EndVerdict`].
    pub const LAST_WORDS: &str = "/v1/last-words";
    /// `POST` [`super::RunProgress`] → `{}`. Worth one attempt, at least every fifteen seconds of a run.
    pub const PROGRESS: &str = "/v1/progress";
    /// `GET` → [`super::HistoryKept`] of the caller's journals; `POST` [`super::HistoryBatch`] → the same.
    /// What is known is passed over, and behind a gap nothing is kept.
    pub const HISTORY: &str = "/v1/history";
    /// `GET ?behind=<n>` → [`super::HistoryLines`] of the caller's conversation, behind its line `n`.
    pub const HISTORY_LINES: &str = "/v1/history/lines";
    /// `GET` → [`super::PastConversations`] of the caller's Repo, the newest first, without the caller's own.
    pub const HISTORY_REQUESTS: &str = "/v1/history/requests";
    /// `POST` [`super::OpenPullRequest`] → [`super::PullRequestState`]; `GET` → the same.
    pub const PULL_REQUEST: &str = "/v1/pull-request";
    /// `POST` [`super::PostComment`] → [`super::PostedComment`]: on the thread's own pull request.
    pub const COMMENTS: &str = "/v1/pull-request/comments";
    /// `POST` [`super::PostReview`] → [`super::PostedComment`]: of the thread's own pull request.
    pub const REVIEWS: &str = "/v1/pull-request/reviews";
    /// `GET ?number=<n>` → [`super::RepoIssue`]; `GET ?label=<l>` (or nothing) → a list of the newest
    /// open ones, without their comments.
    pub const ISSUES: &str = "/v1/issues";
    /// `GET` with [`super::ReadPull`] as its query → [`super::PullReading`]: any pull request of the repository.
    pub const PULLS: &str = "/v1/pulls";
    /// `POST` [`super::ChangeRemote`] → [`super::RemoteChanged`], once people have said yes to exactly that.
    pub const REMOTE_CHANGES: &str = "/v1/remote-changes";
    /// `POST` [`super::OpenItemIssues`] → [`super::ItemIssues`], once people have said yes to exactly them.
    pub const ITEM_ISSUES: &str = "/v1/item-issues";
    /// `POST` [`super::ProposeSplit`] → [`super::SplitAsked`].
    pub const SPLITS: &str = "/v1/splits";
    /// `POST ?wait=<seconds>` [`super::ApprovalRequest`] → [`super::ApprovalReply`]. The same `key`
    /// is the same request: it is shown once, and every repetition tells how it stands. With `wait`
    /// an open one is answered once it is decided, or after that time at the latest.
    pub const APPROVALS: &str = "/v1/approvals";
    /// `POST ?wait=<seconds>` [`super::BuildClaim`] → [`super::BuildTurn`]. Who wants a slot is
    /// answered once it has one, or after `wait` seconds at the latest; it keeps its place in the
    /// queue if it asks again at once.
    pub const BUILDS: &str = "/v1/builds";
    /// `POST` [`super::CloseThread`] → [`super::ThreadClosed`].
    pub const CLOSE: &str = "/v1/close";
    /// OpenAI-compatible model calls, streamed or not.
    pub const CHAT: &str = "/v1/chat/completions";
    /// `GET ?to=<host>:<port>` with `Upgrade: codebutler-tunnel` → 101 and the connection's bytes.
    pub const CONNECT: &str = "/v1/connect";
    /// `POST` [`super::EgressReport`] → `{}`; refused where the Repo wants enforcement and has none.
    pub const EGRESS_CHECK: &str = "/v1/egress-check";
    /// `GET ?seen=<version>` → [`super::McpTools`]: those that the model is offered. With `seen`, a list of that
    /// version is only said to be unchanged. `GET ?find=<words>&most=<n>` → those that a search finds among all.
    pub const MCP_TOOLS: &str = "/v1/mcp/tools";
    /// `POST` [`super::McpCall`] → [`super::McpResult`].
    pub const MCP_CALLS: &str = "/v1/mcp/calls";
    /// `GET ?server=<name>` → [`super::McpResources`]; of all servers of the role without `server`.
    pub const MCP_RESOURCES: &str = "/v1/mcp/resources";
    /// `POST` [`super::McpRead`] → [`super::McpResult`].
    pub const MCP_READS: &str = "/v1/mcp/reads";
    /// `POST` [`super::McpPrompt`] → [`super::McpResult`].
    pub const MCP_PROMPTS: &str = "/v1/mcp/prompts";
    /// `GET` with `Upgrade: codebutler-mcp` → 101, from the pod of a server only: frames as [`super::BridgeFrame`]
    /// has them.
    pub const MCP_BRIDGE: &str = "/v1/mcp/bridge";
    /// `POST` [`super::WebFetch`] → [`super::WebPage`].
    pub const WEB_FETCH: &str = "/v1/web/fetch";
    /// `GET`, with `url`: the bytes of a file that [`WEB_FETCH`] calls a document.
    pub const WEB_FILES: &str = "/v1/web/files";
    /// `POST` [`super::WebSearch`] → [`super::WebResults`].
    pub const WEB_SEARCH: &str = "/v1/web/search";
    /// `POST` [`super::DrawImages`] → [`super::DrawnImages`], once people have said yes to the first ones.
    pub const DRAW: &str = "/v1/images/drawn";
    /// `POST` [`super::PlaceImage`] → [`super::ImagePlaced`], once the plan names the path or people have said yes to
    /// it.
    pub const PLACE_IMAGE: &str = "/v1/images/places";
    /// OpenAI-compatible, a multipart form: text of a recording, by the role's `model.audio`.
    pub const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
    /// Git's smart HTTP protocol: `/v1/git/info/refs`, `/v1/git/git-upload-pack`,
    /// `/v1/git/git-receive-pack`. The relay serves it inside the pod as `/git/…`.
    pub const GIT: &str = "/v1/git";
}
