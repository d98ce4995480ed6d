//! Arguments of each tool. These structs are the JSON schemas that the model sees, what its arguments are parsed
//! into, and what travels to the toolbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod history;

pub use history::{GitBlame, GitDiff, GitLog, GitShow};

/// `Read`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// File.
    pub path: String,
    /// First line, counted from 1.
    #[serde(default)]
    pub offset: Option<u32>,
    /// Number of lines; 2000 if absent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Instead of both: pages of a document, such as `3` or `2-5`. Models that know it use it without being told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-hidden" = true))]
    pub pages: Option<String>,
}

/// `SaveAttachment`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveArgs {
    /// Such as `slack:F0123`.
    pub file: String,
    /// Where to.
    pub path: String,
    /// Replace a file.
    #[serde(default)]
    pub replace: Option<bool>,
}

/// `Write`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// File. Folders are created.
    pub path: String,
    /// The whole new content.
    pub content: String,
}

/// `Edit`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["path", "edits"]))]
pub struct EditArgs {
    /// File that you have read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Replacements, applied one after the other; all or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<EditReplacement>,
    /// Instead of both: a patch of several files, as Codex' `apply_patch` takes it. Models that were
    /// trained on it use it without being told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-hidden" = true))]
    pub patch: Option<String>,
}

/// Files that a patch names, in its order.
pub fn patched_paths(patch: &str) -> impl Iterator<Item = &str> {
    const HEADS: [&str; 4] =
        ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];
    let named =
        patch.lines().filter_map(|line| HEADS.iter().find_map(|head| line.strip_prefix(*head)));
    named.map(str::trim)
}

/// One replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditReplacement {
    /// Text that occurs exactly once, with its exact whitespace.
    pub old: String,
    /// What stands there afterwards.
    pub new: String,
    /// Replace every occurrence, such as of a name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// `Bash`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// Passed to `bash -c`.
    #[serde(default)]
    pub command: Option<String>,
    /// Folder to run it in.
    #[serde(default)]
    pub workdir: Option<String>,
    // A larger number is taken as milliseconds.
    /// Seconds until it is killed; 120 if absent, 3600 at most.
    #[serde(default)]
    pub timeout: Option<u32>,
    /// Keep it running, such as a server; the answer has the number of its job.
    #[serde(default)]
    pub background: Option<bool>,
    /// Instead of `command`: the new output of this job.
    #[serde(default)]
    pub job: Option<u32>,
    /// With `job`: seconds to wait for its end, 600 at most.
    #[serde(default)]
    pub wait: Option<u32>,
    /// With `job`: end it.
    #[serde(default)]
    pub kill: Option<bool>,
}

/// `Grep`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrepArgs {
    /// Regular expression (Rust syntax), matched line by line.
    pub pattern: String,
    /// File or folder; the whole worktree if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Only files like `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    pub glob: Option<String>,
    /// Only files of this type of ripgrep, such as `rust`, `py` or `ts`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Show matching lines (`content`, the default), their files, or how many each file has.
    #[serde(default)]
    pub mode: Option<GrepMode>,
    /// Ignore case.
    #[serde(default)]
    pub ignore_case: Option<bool>,
    /// A match may span lines, and `.` matches the end of a line.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub multiline: Option<bool>,
    /// Lines around each match, 10 at most.
    #[serde(default)]
    pub context: Option<u32>,
    /// Lines shown before each match.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub before: Option<u32>,
    /// Lines shown after each match.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub after: Option<u32>,
    /// Most lines or files.
    #[serde(default)]
    pub limit: Option<u32>,
    /// How many of them to leave out at the beginning.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub offset: Option<u32>,
    /// Files that were changed last come first; by path if absent.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub newest: Option<bool>,
}

/// What Grep shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GrepMode {
    /// Lines.
    #[default]
    Content,
    /// Paths.
    Files,
    /// Paths with numbers.
    Count,
}

/// `Glob`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobArgs {
    /// Glob such as `**/*.rs`; without a slash it matches names in every folder.
    pub pattern: String,
    /// Folder; the whole worktree if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Files that were changed last come first; by path if absent.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub newest: Option<bool>,
    /// Only what is directly in the folder, folders included: what other agents call a listing.
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub list: Option<bool>,
}

/// `GitCommit`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCommit {
    /// Commit message: a short imperative subject, then why.
    pub message: String,
    /// Files and folders; everything that changed if absent.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
}

/// Tools without arguments.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// `GHCreatePR`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GhCreatePr {
    /// One line.
    pub title: String,
    /// Markdown: what changed, why, and how it was tested.
    pub body: String,
}

/// `SendMessage`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SendMessage {
    /// Markdown.
    pub message: String,
    /// End your run and be woken by the answer; the default with `decision`.
    #[serde(default)]
    pub wait_for_reply: Option<bool>,
    /// Ask the user to decide with buttons: `plan` when the message is a plan to approve, `merge`
    /// when the work is done and may be merged.
    #[serde(default)]
    pub decision: Option<DecisionKind>,
    /// Two to five short answers to the question in `message`, each a button. Without `decision`.
    #[serde(default)]
    pub choices: Vec<String>,
    /// With a plan: the command whose success shows that the work is done, such as `cargo test`.
    #[serde(default)]
    pub test: Option<String>,
    /// With a plan: how hard the work is; a model is chosen by it.
    #[serde(default)]
    pub complexity: Option<WorkComplexity>,
    /// With a plan: the files and folders that the work will change, at most 24.
    #[serde(default)]
    pub files: Option<Vec<String>>,
    /// With a plan: its workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Picture files of the worktree to show with it: at most four PNG, JPEG, GIF or WebP of 3 MiB.
    #[serde(default)]
    pub pictures: Vec<String>,
}

/// What a user is asked to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// The message is a plan.
    Plan,
    /// The work is done.
    Merge,
}

/// How hard work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkComplexity {
    /// A line or two, one place.
    Simple,
    /// Several files, known ground.
    Medium,
    /// New ground, or something that many things depend on.
    Complex,
}

/// `Todo`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoArgs {
    /// At most 50.
    pub items: Vec<TodoItem>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// One line.
    pub text: String,
    #[serde(default)]
    pub state: TodoState,
}

/// How a thing to do stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TodoState {
    /// Not begun.
    #[default]
    Open,
    /// Being worked on.
    Doing,
    /// Done.
    Done,
}

/// `ReadConversation`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadConversation {
    /// Show this message whole: the number in its head, such as `1763765623.000100`.
    #[serde(default)]
    pub message: Option<String>,
    /// List only messages that contain this text, in any case.
    #[serde(default)]
    pub search: Option<String>,
    /// How many messages, or with `message` how many characters, to leave out at the beginning.
    #[serde(default)]
    pub from: Option<u32>,
}

/// `ReadMemory`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMemory {
    /// A file below `.codebutler/`, such as `coder.md`; the list of them if absent.
    #[serde(default)]
    pub file: Option<String>,
}

/// `CloseThread`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseThread {
    /// Markdown: what was done. It becomes the pull request's description.
    pub summary: String,
}
