//! The protocol between agent and toolbox: length-delimited JSON frames over one Unix socket. Requests carry ids and
//! are answered in any order.

mod set_up;
mod sparse;

use codebutler_browser::{ColorScheme, ScreenSize};
use codebutler_guides::skills::ReadFile;
use codebutler_wire::TestRun;
use serde::{Deserialize, Serialize};
use tokio_util::codec::LengthDelimitedCodec;

use crate::memory::{LearningChange, MemoryCitation, PruneSignal};
use crate::research::KnownResearch;
use crate::tool_args as args;

pub use self::set_up::{SetUp, SetUpEnd};
pub use self::sparse::SparseExtent;

/// Longest frame, in bytes, either way.
pub const MAX_FRAME: usize = 8 * 1024 * 1024;

/// The framing that both sides use.
pub fn frame_codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME).new_codec()
}

/// Frame from the agent to the toolbox.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolboxFrame {
    /// Chosen by the agent, unique on the connection.
    pub id: u64,
    pub request: ToolboxRequest,
}

/// Frame from the toolbox to the agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolboxAnswer {
    pub id: u64,
    pub reply: ToolboxReply,
}

/// A request to the toolbox. Everything but [`ToolboxRequest::Bash`] and [`ToolboxRequest::Test`] may be repeated
/// after a crash of either side.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolboxRequest {
    /// Introduces the agent; the first request on a connection.
    Hello(ToolboxHello),
    /// Clone or fetch, and get on the thread's branch. → [`ToolboxReply::Text`]: what was done.
    Prepare {
        /// The commit of the base branch from which the thread's branch was just made on the remote: a clone that no
        /// thread had and that is there already needs no fetch.
        made_at: Option<String>,
        /// Files and folders of the approved plan: a sparse checkout gets them.
        #[serde(default)]
        planned: Vec<String>,
    },
    /// Clone or fetch the base branch, as long as no thread works here. → [`ToolboxReply::Text`]: what was done.
    PrepareBase,
    /// A file of the base branch's `.codebutler/`, as it was fetched last: what this thread can't change.
    /// → [`ToolboxReply::Guide`], or [`ToolboxReply::EarlierGuide`] where it can't be used as it is
    BaseGuide {
        /// Name of the file, without folder.
        file: String,
    },
    /// Rules that the base branch has for everybody who works on the project. → [`ToolboxReply::Files`]
    Conventions {
        /// Files and folders whose own conventions count too.
        planned: Vec<String>,
    },
    /// The base branch's templates for descriptions of pull requests. → [`ToolboxReply::Files`]
    PullTemplates,
    /// Facts on the place in which the role works. → [`ToolboxReply::Surroundings`]
    Surroundings {
        /// True if the role can run programs, and so wants to know their versions.
        programs: bool,
    },
    /// A file of the base branch's `.codebutler/`, or the list of them.
    Memory {
        /// Path of the file below that folder; none for the list.
        file: Option<String>,
    },
    /// A page of the memory as the thread's branch has it. → [`ToolboxReply::Guide`]
    BranchPage {
        /// Path of the page below `.codebutler/`.
        file: String,
    },
    /// Commits changes of the memory, and nothing else. → [`ToolboxReply::Text`]: the branch's commit
    CommitLearnings {
        changes: Vec<LearningChange>,
        message: String,
        /// Pages that are written whole: file below `.codebutler/`, and text.
        #[serde(default)]
        pages: Vec<(String, String)>,
    },
    /// Checks the citations on which learnings rest. → [`ToolboxReply::Faults`]
    CheckCitations {
        citations: Vec<MemoryCitation>,
    },
    /// The line of the branch that is cited. → [`ToolboxReply::Text`]: the citation with what stands there
    QuoteCitation {
        citation: MemoryCitation,
    },
    /// Learnings of the base branch that should go. → [`ToolboxReply::Stale`]
    StaleLearnings,
    /// The base branch's skills. → [`ToolboxReply::Skills`]
    Skills,
    /// First requests of earlier conversations, from their journals on the base branch. → [`ToolboxReply::Files`]
    PastRequests,
    /// The pages of what was found out before, on the base branch. → [`ToolboxReply::Research`]
    Research,
    /// Ends all background jobs. → [`ToolboxReply::Text`]
    EndJobs,
    /// The commit that HEAD is at. → [`ToolboxReply::Text`]
    Head,
    /// → [`ToolboxReply::Text`], as all below unless said otherwise, or [`ToolboxReply::Picture`]
    Read(args::ReadArgs),
    /// The path of a kept file of the conversation. → [`ToolboxReply::Names`], empty if there is none
    FindAttachment {
        id: String,
    },
    /// Keeps the next part of a file of the conversation. → [`ToolboxReply::Text`]: its path, with the last one
    KeepAttachment(AttachmentPart),
    /// Puts a kept file into the worktree; one that is there already is fine.
    SaveAttachment {
        id: String,
        path: String,
        replace: bool,
    },
    /// A request about images, whose replies are named there.
    Image(ImageRequest),
    Write(args::WriteArgs),
    /// Checks an edit without doing it. → [`ToolboxReply::Plan`]
    PlanEdit(args::EditArgs),
    /// Does an edit that was planned; one that is done already is fine.
    Edit {
        edit: args::EditArgs,
        /// The reply to [`ToolboxRequest::PlanEdit`].
        plan: Vec<EditPlan>,
    },
    /// The command that would prepare the worktree, and how it ended if it was run. → [`ToolboxReply::SetUp`]
    PlanSetUp {
        command: Option<String>,
    },
    /// Prepares the worktree. → [`ToolboxReply::SetUp`]
    SetUp {
        /// The reply to [`ToolboxRequest::PlanSetUp`].
        plan: SetUp,
        seconds: u32,
    },
    /// People know how a set-up ended. → [`ToolboxReply::Text`]
    SetUpTold {
        plan: SetUp,
        ended: SetUpEnd,
    },
    /// Sets up the clone of the base branch as long as no thread works in it, unless that was tried with the same lock
    /// files. → [`ToolboxReply::SetUp`]: how it ended
    SetUpBase {
        command: Option<String>,
        seconds: u32,
    },
    /// Waits until nothing is left of a set-up that was cancelled. → [`ToolboxReply::Text`]
    EndSetUp,
    /// Waits until a background job has ended. → [`ToolboxReply::Text`]
    JobEnded {
        /// The job's number, from the reply to `Bash`.
        job: u32,
    },
    /// Keeps a long text as a command's long output is kept. → [`ToolboxReply::Text`]: the file, which Read takes
    KeepOutput {
        text: String,
    },
    /// Keeps index and worktree under a ref of their own. → [`ToolboxReply::Kept`]
    Snapshot,
    Bash(args::BashArgs),
    /// Runs the test command, and looks at the files that it tests. → [`ToolboxReply::Tested`]
    Test(args::BashArgs),
    /// Compares HEAD and worktree with the tree that was tested. → [`ToolboxReply::Standing`]
    Standing {
        /// The tree, if one was tested.
        tested: Option<String>,
    },
    /// The files that the branch changes. → [`ToolboxReply::Names`]
    Touched,
    Grep(args::GrepArgs),
    Glob(args::GlobArgs),
    GitLog(args::GitLog),
    GitDiff(args::GitDiff),
    /// A commit, or a file of it.
    GitShow(args::GitShow),
    GitBlame(args::GitBlame),
    /// Commits on top of `parent`; a commit with this message that is already there is fine.
    GitCommit {
        commit: args::GitCommit,
        /// An earlier reply to [`ToolboxRequest::Head`].
        parent: String,
    },
    /// Commits everything that is not. → [`ToolboxReply::Leftover`]
    Keep {
        message: String,
    },
    /// Undoes commits of [`ToolboxRequest::Keep`] that the remote does not have; their changes stay in the
    /// worktree.
    TakeBack {
        message: String,
    },
    /// Pushes the thread's branch. → [`ToolboxReply::Text`] or [`ToolboxReply::Conflict`]
    GitPush,
    /// Key under which a call of [`ToolboxRequest::GitUpdate`] is found again. → [`ToolboxReply::Text`]
    UpdateKey,
    /// Merges the base branch into the thread's. → [`ToolboxReply::Text`] or [`ToolboxReply::Conflict`]
    GitUpdate {
        /// An earlier reply to [`ToolboxRequest::UpdateKey`].
        key: String,
        /// True if an earlier attempt may have been carried out in part.
        again: bool,
        /// Commits to which everything leads that counts as merged, besides what the base branch has.
        #[serde(default)]
        merged: Vec<String>,
    },
    /// Stop working on another request. Not answered.
    Cancel {
        id: u64,
    },
    /// Asks for a sign of life while other requests are worked on. → [`ToolboxReply::Text`], at once
    Ping,
}

/// A part of a file of the conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachmentPart {
    /// Slack's id of the file.
    pub id: String,
    /// Name that the file's owner gave it.
    pub name: String,
    /// Offset of this part in the file, in bytes.
    pub offset: u64,
    /// Content of this part, in base64.
    pub data: String,
    pub last: bool,
}

/// Facts that the toolbox needs before any other request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolboxHello {
    /// The relay, as a Git remote.
    pub relay_url: String,
    /// The relay, as an HTTP proxy for commands.
    #[serde(default)]
    pub proxy: String,
    pub branch: String,
    /// The branch from which the thread's branch was made.
    pub base_branch: String,
    /// Folders that a new clone has. The whole repository if none is named.
    #[serde(default)]
    pub sparse: Vec<String>,
    pub author: CommitAuthor,
    /// The role that works here now.
    pub role: String,
}

/// Author and committer of commits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommitAuthor {
    /// Name such as `CodeButler Coder`.
    pub name: String,
    /// Address that is not meant to be written to.
    pub email: String,
}

/// SHA-256 of a file before and after an edit, in hex, `-` where there is none: enough to know later
/// whether it was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditPlan {
    /// Hash before the edit.
    pub before: String,
    /// Hash after the edit.
    pub after: String,
}

/// Differences between a worktree and the tree that was tested. Files are named up to ten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeStanding {
    pub commit: String,
    /// Files in which it differs from what was tested.
    pub changed: Vec<String>,
    /// Files in which the worktree differs from it.
    pub uncommitted: Vec<String>,
}

/// Facts on the place in which a role works. What stays for a whole conversation comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSurroundings {
    pub root: String,
    /// Operating system and processor.
    pub platform: String,
    /// The top of the base branch's tree.
    pub top: Vec<String>,
    /// Programs that the repository seems to need, with their versions or without.
    pub programs: Vec<String>,
    /// Today's date in UTC.
    pub day: String,
    pub head: String,
    /// Commits that the base branch lacks, and that it has more.
    pub apart: (usize, usize),
    /// Files that are not committed.
    pub uncommitted: usize,
    /// Guides of the repository that the worktree has otherwise than the base branch.
    pub guides: Vec<String>,
    /// Patterns of files that Git LFS keeps.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// Files that name hooks, which nothing here runs.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// Folders of submodules, which are not fetched.
    #[serde(default)]
    pub submodules: Vec<String>,
    /// True if some of its files are shown to people as pages.
    #[serde(default)]
    pub shows_pages: bool,
    /// Sentences on a rewrite of the thread's branch by people on the remote.
    #[serde(default)]
    pub branch: String,
    /// The remote has no such branch, and the volume never had it.
    #[serde(default)]
    pub branch_lost: bool,
    /// Files below the root of the base branch that say how to work in their folders.
    #[serde(default)]
    pub nested: Vec<String>,
    /// Commands run in a copy of the worktree.
    #[serde(default)]
    pub copies: bool,
    /// The part of the repository that the worktree has, if that is not all of it.
    #[serde(default)]
    pub sparse: Option<SparseExtent>,
}

/// Beginning of the sentence that names hooks to the role.
pub const HOOKS_NOT_RUN: &str = "The repository's hooks were not run";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorktreeLeftover {
    /// True if there were changes, which are committed now.
    pub committed: bool,
    /// The branch has commits that the remote lacks, as far as is known here.
    pub unpushed: bool,
    /// Files that differ and are in no commit, with the reasons; empty if there are none.
    pub left: String,
    /// Sentences on an index that was made again, and on hooks that the run was not told of before.
    pub notes: String,
    /// A file that holds both sides of a conflict in what the remote lacks; empty if there is none.
    pub conflict: String,
}

/// A snapshot of index and worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSnapshot {
    pub name: String,
    /// Files that are in none of it: for each reason the first ones by name.
    pub left_out: Vec<String>,
    /// Files among them that no ignore file names and no tool made.
    #[serde(default)]
    pub at_risk: Vec<String>,
}

/// A request about pictures in the worktree, of a page, or of a server's tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageRequest {
    /// Reads an image that a model is to change. → [`ToolboxReply::Picture`]
    Load { path: String },
    /// Puts a kept file of the conversation among the images, which are in no commit. → [`ToolboxReply::Text`]: its
    /// path
    Keep { id: String, name: String },
    /// Makes a picture, in base64, one that models take. → [`ToolboxReply::Picture`]
    Fit { data: String },
    /// Takes pictures of a page that a server here shows. → [`ToolboxReply::Screenshot`]
    Screenshot {
        url: String,
        /// Prefix of the pictures' names.
        name: String,
        /// The moment before or after a change that they show, where people are to see the change.
        moment: Option<PageMoment>,
        frames: Vec<(ScreenSize, ColorScheme)>,
    },
    /// Checks whether an image may have this path, before people are asked. → [`ToolboxReply::Text`]: what is made of
    /// it
    Check { image: String, path: String },
    /// Commits an image at a path, and nothing else. → [`ToolboxReply::Text`]: the branch's commit
    Commit { image: String, path: String, message: String },
}

/// Result of taking pictures of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenshotReply {
    /// The page, in words. Some of them are its own.
    pub page: String,
    /// Path and query of the page, where a moment was named.
    pub path: String,
    /// True if the server answered with an error.
    pub is_failed: bool,
    /// The pictures, with their paths and what they show.
    pub pictures: Vec<PagePicture>,
}

/// The moment before or after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageMoment {
    Before,
    After,
}

/// A picture of a page: a PNG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagePicture {
    pub size: ScreenSize,
    pub scheme: ColorScheme,
    /// The PNG file, in base64.
    pub data: String,
    pub shown: String,
    /// For a picture from after a change: the file of the one from before, if there is one.
    pub before: Option<String>,
}

/// A picture of the worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreePicture {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Content of the picture, in base64.
    pub data: String,
    pub shown: String,
    /// A sentence on how the picture differs from the file; empty if it does not.
    #[serde(default)]
    pub note: String,
    /// Width and height, where they were looked at.
    #[serde(default)]
    pub sides: Option<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolboxReply {
    Text(String),
    /// The file, if the repository has it.
    Guide(Option<String>),
    /// The file as the base branch had it before it was broken.
    EarlierGuide {
        text: String,
        /// Abbreviated id of the commit.
        commit: String,
        /// Error that the file has now, with its line.
        why: String,
    },
    Files(Vec<(String, String)>),
    Research(Vec<KnownResearch>),
    /// Path and text of each, or why it can't be read.
    Skills(Vec<ReadFile>),
    Names(Vec<String>),
    /// For each citation the error in it, if there is one.
    Faults(Vec<Option<String>>),
    Stale(Vec<PruneSignal>),
    /// Others have changed these files in another way.
    Conflict {
        files: Vec<String>,
        /// Explanation for the model.
        why: String,
    },
    /// A picture instead of text.
    Picture(WorktreePicture),
    Screenshot(ScreenshotReply),
    /// The edit can be done; a plan for each file, in the edit's order.
    Plan(Vec<EditPlan>),
    Started {
        job: u32,
        /// Text for the model.
        text: String,
    },
    /// A set-up; nothing if this worktree needs none.
    SetUp(Option<SetUp>),
    Tested {
        /// Output and verdict, as of any command.
        text: String,
        run: TestRun,
    },
    /// With the toolbox's own remarks on what a command came to.
    Noted(Box<ToolboxReply>, Vec<String>),
    Standing(WorktreeStanding),
    Surroundings(RoleSurroundings),
    Leftover(WorktreeLeftover),
    Kept(KeptSnapshot),
    /// The request was refused, with the reason for the model.
    Refused(String),
    /// The toolbox itself can't go on with this (no worktree, no disk).
    Failed(String),
}
