//! The event log of a conversation, one JSON object a line, for people and machines to read later.
//!
//! A history is `<namespace>/<thread>/events.jsonl`: [`HistoryLine`]s, oldest first, only ever added to. A line
//! is known by its place in the file, from 1. Readers pass over events and fields that they don't know;
//! a change that they can't pass over is another [`VERSION`].
//!
//! Two kinds of writers add to it. An agent sends what its journal holds, numbered without a gap, so that
//! what was cut off on the way is sent again and recognised. The gateway adds what it sees and does, each
//! under a key of its own.

mod shown;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::shown::{CheckShown, ItemShown, TodoEntry, ToolUse, ViewShown};
use crate::{MessageAuthor, NanoUsd, SlackTs};

/// Version of the form of [`HistoryLine`].
pub const VERSION: u32 = 1;

/// The gateway, as a line's source.
pub const GATEWAY: &str = "gateway";

/// Longest text of an event, in bytes: of what is longer, the beginning and the end are kept.
pub const MAX_TEXT: usize = 96 * 1024;

/// Longest line that is written, in bytes. Readers pass over longer ones.
pub const MAX_LINE: usize = 2 * 1024 * 1024;

/// Most elements of a list in an event.
pub const MAX_LIST: usize = 1000;

/// Journals of one role in a conversation at most.
pub const MAX_JOURNALS: usize = 64;

/// Events of one [`HistoryBatch`] at most.
pub const MAX_BATCH: usize = 200;

/// One line of a history: an event and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLine {
    /// Version of the format: [`VERSION`].
    pub v: u32,
    /// Time of the event: milliseconds since 1970.
    pub at: u64,
    /// Writer of the line: [`GATEWAY`], or `agent/<role>/<journal>`.
    pub source: String,
    /// Number of the entry in the agent's journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Idempotency key of the gateway's lines: it writes one line for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The role that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Id of the role's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The event that the line records.
    #[serde(flatten)]
    pub event: HistoryEvent,
}

/// An event in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum HistoryEvent {
    /// The following lines are of this Thread object. One of the same name that was deleted before has another UID,
    /// and its own lines are in front of this one.
    Begun {
        /// Kubernetes' UID of the Thread.
        uid: String,
        /// The lines in front of this one are of this Thread, too.
        #[serde(default, skip_serializing_if = "is_false")]
        whole: bool,
    },
    /// The conversation was opened in Slack.
    Opened {
        /// Name of the Thread's Repo.
        repo: String,
        /// Slack's id of the channel.
        channel: String,
        /// Slack user id of the person who asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Somebody said something in the conversation.
    Message {
        /// `ts` of the Slack message.
        ts: SlackTs,
        /// Author of the message.
        author: MessageAuthor,
        /// Slack's markup as text.
        text: String,
    },
    /// Somebody showed a picture. It stays where it was shown.
    Picture {
        /// Slack's id of the file.
        id: String,
        /// File name that its owner gave it.
        name: String,
        /// Person or role that shared it.
        author: MessageAuthor,
    },
    /// A role showed a page before and after its change. The pictures stay where they were shown.
    Compared {
        /// Path and query of the page.
        page: String,
        /// Views at each width and in each set of colours.
        views: Vec<ViewShown>,
        /// Role that compared the pages.
        author: MessageAuthor,
    },
    /// A role's run began.
    RunStarted,
    /// A role read messages and decisions.
    Taken {
        /// The messages, oldest first.
        messages: Vec<SlackTs>,
        /// Decisions of people that the role took in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<String>,
    },
    /// A provider was paid for an answer.
    ModelCall(ModelCall),
    /// A model answered a call.
    Answer {
        /// The model that was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Text of the answer, if it has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Reasoning of the model, where it shows that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thoughts: Option<String>,
        /// Tools that it wants to use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolUse>,
    },
    /// A model's answer could not be worked with.
    Flawed {
        /// Flaw of the answer, in words.
        why: String,
    },
    /// A role used a tool.
    Tool {
        /// The tool, and its subject.
        #[serde(flatten)]
        call: ToolUse,
        /// Output, as the model was told.
        output: String,
        /// True if the tool succeeded.
        ok: bool,
        /// Exit code of a command that ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Duration of the use, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        millis: Option<u64>,
    },
    /// The gateway called a tool of a server of the Repo.
    McpCall {
        /// Name of the MCP server.
        server: String,
        /// The server's own name of the tool.
        tool: String,
        /// The beginning of its arguments, as JSON.
        arguments: String,
        /// SHA-256 of all of them, in hexadecimal digits.
        hash: String,
        /// Size of the result, in bytes.
        bytes: u64,
        /// Slack user id of the person who approved it, where somebody was asked for this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved_by: Option<String>,
        /// Duration of the call, in milliseconds.
        millis: u64,
        /// `ok`, `failed` (the tool says so), `error` (of the server or on the way) or `cancelled`.
        outcome: String,
        /// Answers of a model that the server asked for meanwhile: each is a model call of its own, too.
        #[serde(default, skip_serializing_if = "is_none_asked")]
        model_answers: u32,
        /// Cost of these, in USD.
        #[serde(default, skip_serializing_if = "is_free")]
        cost: NanoUsd,
        /// Price of the call itself in USD, as the Repo names it: a bill of its own has it, too.
        #[serde(default, skip_serializing_if = "is_free")]
        price: NanoUsd,
    },
    /// The harness saw the test command run.
    Tested {
        /// Command line of the tests.
        command: String,
        /// Absent if it did not end by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// The role's own list, as it is from now on.
    Todo {
        /// Entries in the role's order.
        items: Vec<TodoEntry>,
    },
    /// People are asked whether exactly this may be done.
    Asked {
        /// The tool, and its subject.
        #[serde(flatten)]
        call: ToolUse,
    },
    /// Another model takes over the run.
    Model {
        /// Model that goes on from here.
        model: String,
        /// Reason for the change of model.
        why: String,
    },
    /// The harness told the role something, or did something of its own.
    Note {
        /// Text of the note.
        text: String,
    },
    /// A role's run came to its end.
    RunEnded {
        /// `idle`, `waiting`, `failed` or `closed`.
        outcome: String,
        /// Reason for a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A plan was posted, or approved.
    Plan {
        /// The message that shows it.
        message: SlackTs,
        /// Slack user id of the person who approved it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved_by: Option<String>,
    },
    /// A person decided something.
    Decision {
        /// Subject of the decision: `plan`, `merge`, `budget`, `approval`, `choice`, `learning` or `stop`.
        kind: String,
        /// Choice that was made.
        choice: String,
        /// Slack user id of the person who decided.
        user: String,
        /// `ts` of the message that asked.
        message: SlackTs,
    },
    /// A test run is proven for a commit on the remote.
    Receipt {
        /// Id of the commit that was tested.
        commit: String,
        /// Command line of the tests.
        command: String,
        /// Exit code of the command.
        exit_code: i32,
    },
    /// State of the checks at the Git host for a commit.
    Checks {
        /// Id of the commit that was checked.
        commit: String,
        /// Latest result of each check, by its name.
        checks: Vec<CheckShown>,
    },
    /// Commits were pushed to the branch.
    Pushed {
        /// Name of the branch.
        branch: String,
        /// Id of the commit that is its tip now.
        commit: String,
        /// First lines of the new commits, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        subjects: Vec<String>,
    },
    /// The pull request was opened, or became something else.
    PullRequest {
        /// Number of the pull request.
        number: u64,
        /// URL of the pull request's page.
        url: String,
        /// `open`, `merged` or `closed`.
        state: String,
    },
    /// The Thread waits, or goes on.
    Waiting {
        /// The condition: `Queued`, `AwaitingUser`, `BudgetExceeded` and others.
        what: String,
        /// True if it waits from now on, false if it does no longer.
        now: bool,
        /// Reason for the wait, as a sentence.
        why: String,
    },
    /// The roadmap is carried out from here, or that has ended.
    Roadmap {
        /// Number of its items that people approved.
        items: u64,
        /// USD that they may cost together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<NanoUsd>,
        /// Reason for the end: `done` or `stopped`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<String>,
    },
    /// New state of an approved item of the roadmap.
    RoadmapItem(ItemShown),
    /// The Thread was closed, and its conversation ended.
    Closed {
        /// Slack user id of the person who decided so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Events were lost: the store was away for longer than they could wait.
    Lost {
        /// Number of the events that were lost.
        events: u64,
    },
    /// An event of a version that knows more.
    #[serde(other)]
    Unknown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Usage and cost of one model call. The sum of a role's calls is what the Thread's status says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// The model that was asked.
    pub model: String,
    /// Provider that served the call, where that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Reasoning effort that was asked for, if any was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Tokens that were sent and not kept by the provider before.
    pub fresh: u64,
    /// Tokens that were read from its cache.
    pub cached: u64,
    /// Tokens of the fresh ones that were written to its cache.
    pub written: u64,
    /// Number of tokens of the answer.
    pub answered: u64,
    /// Tokens of these that were thoughts.
    pub reasoning: u64,
    /// Cost of the call, in USD.
    pub cost: NanoUsd,
    /// The provider told neither the cost nor what it goes by: it is estimated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Duration in milliseconds; absent if it was told after the fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
const fn is_none_asked(answers: &u32) -> bool {
    *answers == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_free(cost: &NanoUsd) -> bool {
    *cost == NanoUsd::default()
}

/// A batch of an agent's journal: all of it from a number on, however little of it is an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryBatch {
    /// The journal: 1 to 64 characters of `[a-z0-9.]`, the same for as long as it exists.
    pub journal: String,
    /// Number of the first entry that it speaks of.
    pub from: u64,
    /// Entries that are events, in the journal's order; at most [`MAX_BATCH`].
    pub events: Vec<ToldEntry>,
}

/// One entry of an agent's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldEntry {
    /// Sequence number of the entry, from 1.
    pub seq: u64,
    /// Time of the event: milliseconds since 1970.
    pub at: u64,
    /// The run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The event that the entry records.
    #[serde(flatten)]
    pub event: HistoryEvent,
}

/// Acknowledgement of a role's journals: the number that is wanted next of each. Of one that is not named, it is 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryKept {
    /// Next wanted number, by journal.
    pub next: BTreeMap<String, u64>,
    /// Nothing is kept here: nothing needs to be sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub off: bool,
}

/// A page of lines of a history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLines {
    /// Lines, oldest first; what can't be read is left out.
    pub lines: Vec<HistoryLine>,
    /// Number of the last one, where there are more behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
}

/// First requests of earlier conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastConversations {
    /// Conversations, the newest first.
    pub conversations: Vec<PastConversation>,
}

/// A conversation of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastConversation {
    /// Name of the conversation's Thread.
    pub thread: String,
    /// A person's first words in it, in one line.
    pub asked: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_flat_and_reads_back() {
        let call = ToolUse { tool: "Bash".into(), arguments: "{\"command\":\"ls\"}".into() };
        let output = "a\nb".to_owned();
        let event =
            HistoryEvent::Tool { call, output, ok: true, exit_code: Some(0), millis: Some(12) };
        let source = "agent/coder/0a1b".to_owned();
        let (key, role, run) = (None, Some("coder".into()), Some("r1".into()));
        let line = HistoryLine { v: VERSION, at: 5, source, seq: Some(7), key, role, run, event };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"v":1,"at":5,"source":"agent/coder/0a1b","seq":7,"role":"coder","run":"r1","event":"tool","tool":"Bash","arguments":"{\"command\":\"ls\"}","output":"a\nb","ok":true,"exitCode":0,"millis":12}"#
        );
        assert_eq!(serde_json::from_str::<HistoryLine>(&text).unwrap(), line);
    }

    #[test]
    fn an_event_of_a_later_version_is_passed_over() {
        let text = r#"{"v":1,"at":5,"source":"gateway","event":"poem","verses":[1,2]}"#;
        assert_eq!(serde_json::from_str::<HistoryLine>(text).unwrap().event, HistoryEvent::Unknown);
    }
}
