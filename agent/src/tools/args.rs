//! What each tool takes. These structs are the JSON schemas that the model sees, what its arguments
//! are parsed into, and what travels to the toolbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `Read`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// File, relative to the root of the worktree.
    pub path: String,
    /// First line to show, counted from 1.
    #[serde(default)]
    pub offset: Option<u32>,
    /// Number of lines to show; 2000 if absent.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// `Write`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// File, relative to the root of the worktree. Folders are created.
    pub path: String,
    /// The whole new content.
    pub content: String,
}

/// `Edit`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// File, relative to the root of the worktree. You must have read it before.
    pub path: String,
    /// Replacements, applied one after the other; all or none.
    pub edits: Vec<Replacement>,
}

/// One replacement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// Text that occurs exactly once, with its exact whitespace and without line numbers.
    pub old: String,
    /// What stands there afterwards.
    pub new: String,
}

/// `Bash`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bash {
    /// Passed to `bash -c` in the root of the worktree.
    #[serde(default)]
    pub command: Option<String>,
    /// Seconds until it is killed; 120 if absent, 600 at most.
    #[serde(default)]
    pub timeout: Option<u32>,
    /// Go on at once and let the command run, such as a server; the answer has the number of its
    /// job.
    #[serde(default)]
    pub background: Option<bool>,
    /// Instead of `command`: show the new output of this background job.
    #[serde(default)]
    pub job: Option<u32>,
    /// With `job`: end it.
    #[serde(default)]
    pub kill: Option<bool>,
}

/// `Grep`
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// Regular expression (Rust syntax), matched line by line.
    pub pattern: String,
    /// File or folder to search; the whole worktree if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Only files that match this glob, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    pub glob: Option<String>,
    /// Lines shown before and after each match; none if absent, 10 at most.
    #[serde(default)]
    pub context: Option<u32>,
}

/// `Glob`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// Glob such as `**/*.rs`; without a slash it matches names in every folder.
    pub pattern: String,
    /// Folder to look in; the whole worktree if absent.
    #[serde(default)]
    pub path: Option<String>,
}

/// `GitLog`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitLog {
    /// Number of commits; 20 if absent, 200 at most.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only commits that changed this file or folder.
    #[serde(default)]
    pub path: Option<String>,
}

/// `GitDiff`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitDiff {
    /// Commit or branch to compare the worktree with; by default the point where the thread's
    /// branch left the base branch.
    #[serde(default)]
    pub base: Option<String>,
    /// Only this file or folder.
    #[serde(default)]
    pub path: Option<String>,
}

/// `GitCommit`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCommit {
    /// Commit message: a short imperative subject, then why.
    pub message: String,
    /// Files and folders to commit; everything that changed if absent.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
}

/// Tools without arguments.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

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
    /// Markdown. Start a line with `@codebutler.<role>` to hand over to that role.
    pub message: String,
    /// End your run after this and be woken by the answer. Default: only when you ask for a
    /// decision.
    #[serde(default)]
    pub wait_for_reply: Option<bool>,
    /// Ask the user to decide with buttons: `plan` when the message is a plan to approve, `merge`
    /// when the work is done and may be merged.
    #[serde(default)]
    pub decision: Option<DecisionKind>,
    /// A question with two to five short answers to choose from, each a button: which workflow or which
    /// skill is meant, for example. Without `decision`.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Things learned, at most ten, that the user approves or rejects one by one with buttons. The
    /// answers come as decisions `learning`, each with the number of the item. Without `decision`.
    #[serde(default)]
    pub learnings: Vec<String>,
    /// With a plan: the one command line whose success will show that the work is done, such as
    /// `cargo test`. It is shown and approved with the plan; the repository's own comes first.
    #[serde(default)]
    pub test: Option<String>,
    /// With a plan: how hard the work is. It decides how strong a model carries it out.
    #[serde(default)]
    pub complexity: Option<Complexity>,
    /// With a plan: the files and folders that the work will change, relative to the root; at most
    /// 24. Other conversations at the same places are named to you and to the people.
    #[serde(default)]
    pub files: Option<Vec<String>>,
    /// With a plan: the workflow that it follows.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Pictures of the worktree to show with the message, relative to the root: at most four, each PNG,
    /// JPEG, GIF or WebP of at most 3 MiB.
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
pub enum Complexity {
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
pub struct Todo {
    /// The whole list as it is from now on; at most 50 items.
    pub items: Vec<TodoItem>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// One line.
    pub text: String,
    /// How it stands.
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
    /// Markdown: what was done. Becomes the description of the pull request.
    pub summary: String,
}
