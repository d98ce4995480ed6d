//! The transcript: everything a role took, was told, did and said, one JSON object a line.
//!
//! It is written and synced before anything is done about it, by one writer, and never changed
//! after. A pod that was killed reads it and goes on where the last one was. [`state`] is what it
//! adds up to.

mod dated;
pub mod desk;
mod growth;
pub mod improvements;
pub mod state;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use codebutler_wire::{McpTool, NanoUsd, PendingItem, SlackTs, TestRun, ThreadMessage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::memory::LearningChange;
use crate::model::judge::ReplyFlaw;
use crate::model::quirk::ModelQuirk;
use crate::model::{AnswerSource, AssistantMessage, ToolCall};
use crate::step;
use crate::tool_args::TodoItem;
use dated::write_line;
pub use dated::{DatedRecord, read_line};
use desk::AnsweredRequest;
pub use growth::TranscriptGrowth;
use improvements::SuggestedImprovements;
use state::TranscriptState;
use state::wishes::SkillOffer;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum TranscriptRecord {
    RunStarted {
        /// Random; the keys of its effects begin with it.
        run: String,
        /// Time of the start, in seconds since 1970.
        at: u64,
        /// No model is called: the run only says that what people wanted has been done.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        brief: bool,
    },
    /// Messages and decisions that the run is about, and that arrived while it ran.
    Taken {
        /// Messages, oldest first.
        messages: Vec<ThreadMessage>,
        #[serde(default)]
        pending: Vec<PendingItem>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<ModelPicture>,
    },
    /// A conversation of its own has this to work on.
    Request {
        /// The request's first message, by which the conversation is known.
        request: SlackTs,
        /// Messages, oldest first.
        messages: Vec<ThreadMessage>,
        /// Decisions that it waited for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pending: Vec<PendingItem>,
    },
    /// A conversation of its own has ended.
    Answered {
        request: SlackTs,
        #[serde(flatten)]
        answered: AnsweredRequest,
    },
    /// The model answered, and was paid.
    Answer {
        message: AssistantMessage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
        /// Model that gave the answer; absent in transcripts of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<AnswerSource>,
    },
    /// The model's reply was judged to be no answer, and was paid.
    Flawed {
        flaw: ReplyFlaw,
        #[serde(default)]
        message: AssistantMessage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    /// The model's reply had no form that can be worked with.
    Unreadable {
        /// Reason that it can't be used, for the model.
        why: String,
    },
    /// A tool call with an effect is about to be carried out.
    Intent {
        /// Index of the call in the answer.
        call: usize,
        /// Idempotency key, by which the effect is found if it happened.
        key: String,
        /// The yes that it uses up, if it needed one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        consent: Option<ActionConsent>,
    },
    /// A tool call has a result.
    Result {
        /// Index of the call in the answer.
        call: usize,
        /// Result as text, for the model.
        text: String,
        /// Notes of CodeButler itself on the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
        /// Consequence of the result for the run.
        #[serde(default)]
        kind: ResultKind,
    },
    /// The run went in circles: the model was told, and perhaps another one goes on.
    Stuck {
        why: String,
        /// The model that takes over for the rest of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The model said its last words, and the work would have rested: it was told to go on.
    Held {
        /// Instruction to go on, for the model.
        why: String,
    },
    /// The work is harder than it looked: another model goes on with the run.
    Escalated { model: String },
    /// A cheaper model looks at the conversation first.
    FirstLook { model: String },
    /// The role's own model goes on, from here to the end of the conversation.
    HandedUp {
        model: String,
        /// Reason, for the thread and the history.
        why: String,
        /// Text for the model, where the cheaper one's last words were not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A user chose another model.
    Model { model: String },
    /// People are asked about exactly this action.
    Asked {
        /// SHA-256 of tool and arguments.
        hash: String,
        /// The question's own: it counts for one use.
        key: String,
        /// The action, to be carried out once they have said yes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<ToolCall>,
    },
    /// People have said yes to this action: it is about to be carried out.
    Allowed { key: String },
    /// The action can't be carried out on this question: people said no, or nobody answered.
    NotAllowed(ActionConsent),
    /// The harness saw the test command run.
    Tested { test: TestRun },
    /// The role's own list, as it is from now on.
    Todo {
        /// Items in the role's order.
        items: Vec<TodoItem>,
    },
    /// A tool call came to a picture.
    Picture(ModelPicture),
    /// A plan was posted that follows a workflow. For the decision log.
    Planned {
        /// Name of the workflow that the model gave.
        workflow: String,
        /// Files and folders that the plan names.
        files: Vec<String>,
    },
    /// People were shown a retrospective, and asked which of these changes the team shall remember.
    Proposed {
        /// The message with the buttons.
        message: SlackTs,
        changes: Vec<LearningChange>,
        /// Improvements that people may accept as well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        improvements: Option<SuggestedImprovements>,
    },
    /// Changes that people accepted are on the thread's branch, or can't be.
    Landed {
        /// Numbers of the message's changes, from 1.
        items: Vec<u32>,
        /// Result of the landing, for the model.
        text: String,
    },
    /// The role begins to look back on the conversation.
    LookedBack {
        /// Cost of each role at that time.
        spent: BTreeMap<String, NanoUsd>,
    },
    /// Each of these roles was asked a question on what went on.
    RolesAsked { roles: Vec<String> },
    /// Looking back has cost as much as it may.
    LookBackOver {
        /// Text that ends the look back, for the model.
        why: String,
    },
    /// The plan of a review was posted in the thread.
    ReviewPlanned {
        /// Tests that there have to be and are not.
        missing_tests: Vec<String>,
    },
    /// A verdict broke the protocol of reviews: the model was told.
    ReviewCorrected {
        /// Correction, for the model.
        why: String,
        /// True if there can be a reason for the breach: it is said once in a run.
        reminder: bool,
    },
    /// The first model lets a change pass: the role's own looks at it.
    SecondPass {
        /// Text that asks for the second look, for the model.
        why: String,
    },
    /// The pushed commits change files that the approved plan does not name.
    Deviated { files: Vec<String> },
    /// The model can't be shown pictures, or its provider can't use some of them. Both have one name, so that an earlier
    /// version goes on after a rollback: it takes the second for the first.
    Blind {
        /// Those that can't be used, of which 0 is the newest in the conversation; empty for all that there may be.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        newest: Vec<usize>,
        /// Reason that stands in the place of these.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// The model can't be sent sounds.
    Deaf,
    /// The provider takes the conversation only in this way.
    Learned { quirk: ModelQuirk },
    /// The conversation was longer than the model takes.
    Overflowed {
        /// Tokens that the request was taken to have.
        shown: u32,
        /// Tokens that the model can be shown, if its server says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u32>,
    },
    /// Changed facts that the role has to know: the plan, the pull request.
    Facts {
        /// The new facts, for the model.
        text: String,
    },
    /// Another plan was approved since the role was shown one, or none is any more.
    ApprovedPlan {
        /// The approved plan, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Guides for the plan's files, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guides: Option<String>,
        /// The message of the conversation that shows the plan as it was approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<SlackTs>,
        /// The plan itself was shown before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        known: bool,
    },
    /// The older part of the conversation is told by a summary from now on.
    Compacted {
        /// Messages that it stands for.
        upto: usize,
        /// The summary, for the model.
        summary: String,
        /// Bytes that the summary and what stands beside it may take; absent in transcripts of earlier
        /// versions.
        #[serde(default)]
        room: usize,
        /// Nobody's words are kept beside it: so in an arm of an experiment.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// A message was compared with the skills that there are.
    Skill {
        message: SlackTs,
        /// The skill that the message asks for, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// People are asked which skill a message asks for.
    Offered(SkillOffer),
    /// Tools of servers are offered in this order from now on, or something about servers is otherwise.
    ServerTools {
        /// All that were ever offered here, in the order in which they came: those that are not there now keep their
        /// place.
        names: Vec<String>,
        /// Sentences on the servers that are true now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
        /// News about the servers, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Servers whose instructions the model is shown with this.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        told: Vec<String>,
        /// Digests of the instructions of each of those.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        digests: Vec<String>,
        /// The instructions of those servers, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// A search found these tools of servers: they are offered from now on.
    ToolsFound { tools: Vec<McpTool> },
    /// The harness tells the role something, between runs.
    Note {
        /// The note, for the model.
        text: String,
    },
    RunEnded {
        outcome: RunOutcome,
        /// Reason of [`RunOutcome::Failed`], for the thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The gateway knows that it ended.
    Reported,
}

/// A picture, as a model is shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPicture {
    pub shown: String,
    /// The picture as a `data:` URL.
    pub url: String,
}

/// People's answer on one action. It is used up: another use is another question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionConsent {
    /// SHA-256 of tool and arguments.
    pub hash: String,
    /// The pending item that says so too, if they were asked at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}

/// Consequence of a tool's result for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// No consequence: the run goes on.
    #[default]
    Plain,
    /// The call itself was wrong: no such tool, or arguments that don't fit.
    Fault,
    /// The run ends and waits for an answer.
    Waits,
    Closes,
    /// The change was pushed to the remote.
    Published,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The run is done; no answer is expected.
    Idle,
    Waiting,
    /// The run ended with an error and could not go on.
    Failed,
    Closed,
}

/// The transcript can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error("the transcript {path} can't be used")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A line that is not the last one is damaged. Going on could repeat effects, so nothing does.
    #[error("line {line} of the transcript {path} is damaged: restore it, or move the file away")]
    Damaged {
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

/// An open transcript with what it adds up to.
#[derive(Debug)]
pub struct OpenTranscript {
    path: PathBuf,
    file: File,
    length: u64,
    state: TranscriptState,
    /// Notified each time that the transcript grows.
    growth: Option<TranscriptGrowth>,
}

impl OpenTranscript {
    /// Opens `<state>/<role>/transcript.jsonl`, made if absent. A last line that was cut off by a
    /// crash is removed: what it said had not been acted on.
    pub fn open(state_dir: &Path, role: &str) -> Result<Self, TranscriptError> {
        let folder = state_dir.join(role);
        let path = folder.join("transcript.jsonl");
        let fail = |source| TranscriptError::Io { path: path.clone(), source };
        fs::create_dir_all(&folder).map_err(fail)?;
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(fail)?;
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
        let mut state = TranscriptState::default();
        let mut reader = BufReader::new(&file);
        // A line at a time: a transcript with pictures is far larger than what it adds up to.
        let good =
            read_records(&mut reader, |record| state.apply(&record)).map_err(
                |error| match error {
                    UnreadRecords::Io(source) => fail(source),
                    UnreadRecords::Damaged(line) => {
                        TranscriptError::Damaged { path: path.clone(), line }
                    }
                },
            )?;
        let length = file.metadata().map_err(fail)?.len();
        if good < length {
            tracing::warn!(bytes = length - good, "transcript_line_removed");
            file.set_len(good).map_err(fail)?;
            file.sync_all().map_err(fail)?;
        }
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { path, file, length: good, state, growth: None })
    }

    /// Tells of all that is in it, and from now on of all that is added.
    pub fn tell(&mut self, growth: TranscriptGrowth) {
        growth.tell(&self.path, self.length);
        self.growth = Some(growth);
    }

    /// Path of the transcript's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file on disk, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn state(&self) -> &TranscriptState {
        &self.state
    }

    /// Appends a record; it is on the disk when this returns.
    pub fn append(&mut self, record: &TranscriptRecord) -> Result<(), TranscriptError> {
        step::point("before transcript");
        let fail = |source| TranscriptError::Io { path: self.path.clone(), source };
        let line = write_line(record).map_err(|e| fail(e.into()))?;
        self.file.write_all(&line).map_err(fail)?;
        self.file.sync_data().map_err(fail)?;
        self.length += line.len() as u64;
        if let Some(growth) = &self.growth {
            growth.tell(&self.path, self.length);
        }
        self.state.apply(record);
        step::point("after transcript");
        Ok(())
    }
}

/// Records of the file can't be read.
enum UnreadRecords {
    Io(io::Error),
    /// The number of a damaged line before the last.
    Damaged(usize),
}

/// Calls `take` with each record; the length of the good part.
fn read_records(
    reader: &mut impl BufRead,
    mut take: impl FnMut(TranscriptRecord),
) -> Result<u64, UnreadRecords> {
    let (mut line, mut good, mut number) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        number += 1;
        let read = reader.read_until(b'\n', &mut line).map_err(UnreadRecords::Io)?;
        match serde_json::from_slice(&line) {
            _ if read == 0 => return Ok(good),
            Ok(record) if line.ends_with(b"\n") => take(record),
            _ if reader.fill_buf().map_err(UnreadRecords::Io)?.is_empty() => return Ok(good),
            _ => return Err(UnreadRecords::Damaged(number)),
        }
        good += read as u64;
    }
}

/// The records and the length of the good part; or the number of a damaged line before the last.
#[cfg(test)]
fn parse_records(bytes: &[u8]) -> Result<(Vec<TranscriptRecord>, usize), usize> {
    let mut records = Vec::new();
    match read_records(&mut &*bytes, |record| records.push(record)) {
        Ok(good) => Ok((records, usize::try_from(good).unwrap_or_default())),
        Err(UnreadRecords::Damaged(line)) => Err(line),
        Err(UnreadRecords::Io(_)) => Err(0),
    }
}

#[cfg(test)]
mod tests;
