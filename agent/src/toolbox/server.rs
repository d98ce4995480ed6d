//! Answers the agent's requests, any number at a time.

mod images;
mod reading;
mod set_up;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use codebutler_wire::TestRun;
use futures::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::AbortHandle;
use tokio_util::codec::Framed;
use tracing::Instrument as _;

use super::ToolError;
use super::answers::{answer_memory, answer_work};
use super::command::{CommandShell, command_seconds, unit_note};
use super::copy::WorktreeCopy;
use super::documents::DocumentReader;
use super::environment::CommandEnvironment;
use super::files::{self, SeenFiles};
use super::git::{self, GitSite};
use super::modes::{self, KeptModes};
use super::paths::WorktreeRoot;
use super::protocol::{
    ToolboxAnswer, ToolboxFrame, ToolboxHello, ToolboxReply, ToolboxRequest, frame_codec,
};
use super::setup::{self, ToolboxSite};
use super::toolchains::{self, KnownPrograms};
use crate::tool_args as args;
use codebutler_guides::policy::builds::is_build;

pub(super) use self::set_up::BaseShell;

/// Refusal to change files, for a role that works in a copy.
const NO_CHANGE: &str = "this role may not change the worktree (`workspace.worktree: ReadOnly`)";

/// Serves until the connection ends.
pub(super) async fn serve_toolbox(
    stream: UnixStream,
    work: &Path,
    shell: Arc<CommandShell>,
    copy: Option<(WorktreeCopy, BaseShell)>,
) {
    let mut frames = Framed::new(stream, frame_codec());
    let toolbox = Arc::new(Toolbox::new(work, shell, copy));
    let (answers, mut answered) = mpsc::channel::<ToolboxAnswer>(64);
    let mut running = HashMap::<u64, AbortHandle>::new();
    loop {
        tokio::select! {
            frame = frames.next() => {
                let Some(Ok(frame)) = frame else { break };
                let Ok(ToolboxFrame { id, request }) = serde_json::from_slice::<ToolboxFrame>(&frame) else {
                    tracing::error!("toolbox_frame_invalid");
                    break;
                };
                if let ToolboxRequest::Cancel { id } = request {
                    if let Some(handle) = running.remove(&id) {
                        handle.abort();
                    }
                    continue;
                }
                let (toolbox, answers) = (toolbox.clone(), answers.clone());
                let work = async move {
                    let reply = toolbox.answer(request).await;
                    let _ = answers.send(ToolboxAnswer { id, reply }).await;
                };
                let task = tokio::spawn(work.in_current_span());
                running.insert(id, task.abort_handle());
            }
            Some(answer) = answered.recv() => {
                running.remove(&answer.id);
                let bytes = serde_json::to_vec(&answer).unwrap_or_default();
                if frames.send(Bytes::from(bytes)).await.is_err() {
                    break;
                }
            }
        }
    }
    for task in running.into_values() {
        task.abort();
    }
}

struct Toolbox {
    work: PathBuf,
    shell: Arc<CommandShell>,
    /// Copy of the worktree in which commands run, if they don't run in the worktree.
    copy: Option<Arc<WorktreeCopy>>,
    /// Shell for the worktree itself, if commands don't run in it.
    base_shell: Option<BaseShell>,
    hello: Mutex<Option<ToolboxHello>>,
    base: git::BaseCommit,
    hooks: git::ToldHooks,
    programs: KnownPrograms,
    seen: Mutex<Arc<SeenFiles>>,
    /// Held by the one command that runs: what it leaves behind can be told from anything else only so.
    command: Arc<tokio::sync::Mutex<()>>,
    documents: DocumentReader,
}

impl Toolbox {
    fn new(work: &Path, shell: Arc<CommandShell>, copy: Option<(WorktreeCopy, BaseShell)>) -> Self {
        let (copy, base_shell) = copy.unzip();
        Self {
            work: work.to_owned(),
            shell,
            copy: copy.map(Arc::new),
            base_shell,
            hello: Mutex::default(),
            base: git::BaseCommit::default(),
            hooks: git::ToldHooks::default(),
            programs: KnownPrograms::default(),
            seen: Mutex::default(),
            command: Arc::default(),
            documents: DocumentReader::default(),
        }
    }

    async fn answer(&self, request: ToolboxRequest) -> ToolboxReply {
        match self.dispatch(request).await {
            Ok(reply) => reply,
            Err(ToolError::Refused(why)) => ToolboxReply::Refused(why),
            Err(ToolError::Failed(why)) => ToolboxReply::Failed(why),
        }
    }

    async fn dispatch(&self, request: ToolboxRequest) -> Result<ToolboxReply, ToolError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let scratch = self.work.join(".scratch");
        match request {
            ToolboxRequest::Hello(hello) => self.greet(hello, &scratch),
            ToolboxRequest::Prepare { made_at, planned } => self.begin(made_at, planned).await,
            ToolboxRequest::PrepareBase => self.prepare(git::prepare_base).await,
            request @ (ToolboxRequest::BaseGuide { .. }
            | ToolboxRequest::Memory { .. }
            | ToolboxRequest::BranchPage { .. }
            | ToolboxRequest::CommitLearnings { .. }
            | ToolboxRequest::CheckCitations { .. }
            | ToolboxRequest::QuoteCitation { .. }
            | ToolboxRequest::StaleLearnings
            | ToolboxRequest::Skills
            | ToolboxRequest::PastRequests
            | ToolboxRequest::Research
            | ToolboxRequest::PullTemplates
            | ToolboxRequest::Conventions { .. }) => {
                let place = self.place()?;
                run_blocking(move || answer_memory(&place, request)).await
            }
            ToolboxRequest::Surroundings { programs } => self.surroundings(programs).await,
            ToolboxRequest::Read(args) => self.read(seen, args).await,
            request @ (ToolboxRequest::FindAttachment { .. }
            | ToolboxRequest::KeepAttachment(_)
            | ToolboxRequest::SaveAttachment { .. }) => self.attachment(request, scratch).await,
            ToolboxRequest::Image(request) => self.image(request, scratch).await,
            ToolboxRequest::EndJobs => {
                self.shell.end_jobs().await;
                Ok(ToolboxReply::Text(String::new()))
            }
            request @ (ToolboxRequest::PlanSetUp { .. }
            | ToolboxRequest::SetUp { .. }
            | ToolboxRequest::SetUpTold { .. }
            | ToolboxRequest::SetUpBase { .. }
            | ToolboxRequest::EndSetUp) => self.set_up(request).await,
            ToolboxRequest::JobEnded { job } => {
                self.shell.job_ended(job).await;
                Ok(ToolboxReply::Text(String::new()))
            }
            ToolboxRequest::PlanEdit(edit) => {
                if self.copy.is_some() {
                    return Err(ToolError::refused(NO_CHANGE));
                }
                let tree = self.tree()?;
                run_blocking(move || files::plan_edit(&tree, &seen, &edit))
                    .await
                    .map(ToolboxReply::Plan)
            }
            ToolboxRequest::Snapshot => self.keep_work().await,
            ToolboxRequest::KeepOutput { text } => {
                let shell = self.shell.clone();
                run_blocking(move || shell.keep_output(&text)).await.map(ToolboxReply::Text)
            }
            ToolboxRequest::Bash(args) => self.bash(&args).await,
            ToolboxRequest::Test(args) => self.test(&args).await,
            ToolboxRequest::Standing { tested } => self.standing(tested).await,
            ToolboxRequest::Keep { message } => {
                let place = self.place()?;
                run_blocking(move || git::keep_leftover(&place, &message))
                    .await
                    .map(ToolboxReply::Leftover)
            }
            ToolboxRequest::TakeBack { message } => {
                let place = self.place()?;
                run_blocking(move || git::take_back(&place, &message)).await?;
                Ok(ToolboxReply::Text(String::new()))
            }
            ToolboxRequest::GitPush => self.push().await,
            ToolboxRequest::UpdateKey => self.update_key().await,
            ToolboxRequest::GitUpdate { key, again, merged } => {
                self.update(key, again, merged).await
            }
            ToolboxRequest::Touched => {
                let place = self.place()?;
                run_blocking(move || git::touched_files(&place)).await.map(ToolboxReply::Names)
            }
            ToolboxRequest::Cancel { .. } | ToolboxRequest::Ping => {
                Ok(ToolboxReply::Text(String::new()))
            }
            ToolboxRequest::Write(_)
            | ToolboxRequest::Edit { .. }
            | ToolboxRequest::GitCommit { .. }
                if self.copy.is_some() =>
            {
                Err(ToolError::refused(NO_CHANGE))
            }
            request => {
                let (tree, place) = (self.tree()?, self.place()?);
                run_blocking(move || answer_work(&tree, &place, &seen, &scratch, request))
                    .await
                    .map(ToolboxReply::Text)
            }
        }
    }

    async fn standing(&self, tested: Option<String>) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        let standing = run_blocking(move || git::find_standing(&place, tested.as_deref())).await;
        standing.map(ToolboxReply::Standing)
    }

    async fn update_key(&self) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        run_blocking(move || git::update_key(&place)).await.map(ToolboxReply::Text)
    }

    async fn begin(
        &self,
        made_at: Option<String>,
        planned: Vec<String>,
    ) -> Result<ToolboxReply, ToolError> {
        self.prepare(move |place| {
            let done = git::begin_worktree(place, made_at.as_deref())?;
            Ok(match git::add_planned(place, &planned) {
                Ok(None) => done,
                Ok(Some(added)) => format!("{done}. {added}"),
                // A role can add them itself.
                Err(error) => format!("{done}. Folders of the plan could not be added: {error}"),
            })
        })
        .await
    }

    async fn prepare(
        &self,
        how: impl FnOnce(&GitSite) -> Result<String, ToolError> + Send + 'static,
    ) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        run_blocking(move || how(&place)).await.map(ToolboxReply::Text)
    }

    fn greet(&self, hello: ToolboxHello, scratch: &Path) -> Result<ToolboxReply, ToolError> {
        modes::restore_own(&self.work);
        files::make_scratch(scratch)
            .map_err(|e| ToolError::Failed(format!("the volume can't be written: {e}")))?;
        let seen = SeenFiles::kept_in(scratch.join(format!("seen-{}.json", hello.role)));
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
        *self.hello.lock().unwrap_or_else(PoisonError::into_inner) = Some(hello);
        Ok(ToolboxReply::Text(match self.shell.level() {
            Ok(level) => level.to_string(),
            Err(why) => why.to_string(),
        }))
    }

    async fn push(&self) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        Ok(match run_blocking(move || git::push_branch(&place)).await? {
            git::PushOutcome::Done(text) => ToolboxReply::Text(text),
            git::PushOutcome::Conflict(files, why) => ToolboxReply::Conflict { files, why },
        })
    }

    /// Brings the branch up to date with the base branch.
    async fn update(
        &self,
        key: String,
        again: bool,
        merged: Vec<String>,
    ) -> Result<ToolboxReply, ToolError> {
        if self.copy.is_some() {
            return Err(ToolError::refused(NO_CHANGE));
        }
        let place = self.place()?;
        Ok(match run_blocking(move || git::update_branch(&place, &key, again, &merged)).await? {
            git::UpdateOutcome::Done(text) => ToolboxReply::Text(text),
            git::UpdateOutcome::Conflict(files, why) => ToolboxReply::Conflict { files, why },
        })
    }

    /// Opens the root that a readable path is in: the worktree, or the role's own folders beside it.
    fn readable(&self, path: &str) -> Result<WorktreeRoot, ToolError> {
        let build = self.shell.environment().build();
        let copy = self.copy.as_ref().map(|copy| copy.tree());
        match copy.filter(|copy| setup::is_beside(path, copy)) {
            Some(copy) => WorktreeRoot::open(&copy),
            None if setup::is_beside(path, build) => WorktreeRoot::open(build),
            None => self.tree(),
        }
    }

    async fn bash(&self, args: &args::BashArgs) -> Result<ToolboxReply, ToolError> {
        let _turn = self.turn(args.job.is_none()).await;
        let ground = self.ground(args.job.is_none(), false).await?;
        let environment = self.environment(&ground)?;
        let ready = self.ready(&ground, args.command.as_deref()).await?;
        let kept = self.keep_modes(args.job.is_none()).await?;
        let reply = self.shell.bash(&ground, &environment, args).await;
        restore_modes(kept).await?;
        Ok(self.noted(reply?, ready))
    }

    async fn keep_work(&self) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        run_blocking(move || git::keep_work(&place)).await.map(ToolboxReply::Kept)
    }

    /// Finds the role's surroundings; with the versions of its programs, if it can run any.
    async fn surroundings(&self, programs: bool) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        let mut found = run_blocking(move || git::find_surroundings(&place)).await?;
        found.copies = self.copy.is_some();
        if programs && self.shell.level().is_ok() {
            let wanted = toolchains::wanted_versions(&found.top);
            let tree = self.tree()?;
            let environment = self.environment(&tree)?;
            let ask = async |command: String| {
                let _turn = self.turn(true).await;
                self.shell.run(tree.root(), &environment, &command, toolchains::SECONDS).await
            };
            found.programs = self.programs.versions(&wanted, ask).await;
        }
        Ok(ToolboxReply::Surroundings(found))
    }

    /// Runs the tests on files that are known before and after. Where they can't be known, the run
    /// proves nothing, and is shown all the same.
    async fn test(&self, args: &args::BashArgs) -> Result<ToolboxReply, ToolError> {
        let place = self.place()?;
        let command = args.command.clone().unwrap_or_default();
        let _turn = self.turn(true).await;
        let ground = self.ground(true, true).await?;
        let environment = self.environment(&ground)?;
        let ready = self.ready(&ground, Some(&command)).await?;
        let files = ground.root().to_owned();
        let before = {
            let (place, files) = (place.clone(), files.clone());
            run_blocking(move || git::snapshot_tree(&place, &files)).await
        };
        let kept = self.keep_modes(true).await?;
        let ran = self.shell.run(&files, &environment, &command, command_seconds(args)).await;
        restore_modes(kept).await?;
        let ran = ran?;
        let tree = match before {
            Ok(before) => run_blocking(move || git::unchanged_tree(&place, &files, &before)).await,
            Err(error) => Err(error),
        };
        let (tree, unknown) = match tree {
            Ok(tree) => (tree, false),
            Err(error) => {
                tracing::warn!(%error, "tested_tree_unknown");
                (None, matches!(error, ToolError::Refused(why) if why == git::TOO_LARGE))
            }
        };
        let run = TestRun { command, exit_code: ran.code, tree, unknown };
        let reply = ToolboxReply::Tested { text: unit_note(args) + &ran.text(), run };
        Ok(self.noted(reply.noting(ran.notes), ready))
    }

    /// Records the modes before a command: of the toolbox' own files, and of the worktree too for a role that may
    /// change nothing in it.
    async fn keep_modes(&self, needed: bool) -> Result<KeptModes, ToolError> {
        if !needed {
            return Ok(KeptModes::default());
        }
        let (work, place) = (self.work.clone(), self.place()?);
        let reads = self.copy.is_some();
        run_blocking(move || {
            let made = reads.then(|| git::tracked_made(&place));
            Ok(KeptModes::keep(&work, made))
        })
        .await
    }

    /// The right to run a command, if one is to be run.
    async fn turn(&self, needed: bool) -> Option<Turn> {
        if !needed {
            return None;
        }
        let held = self.command.clone().lock_owned().await;
        Some(Turn { held: Some(held), shell: self.shell.clone() })
    }

    /// Root in which commands run. With `bring`, a copy is first updated to the worktree's state.
    async fn ground(&self, bring: bool, whole: bool) -> Result<WorktreeRoot, ToolError> {
        let Some(copy) = self.copy.clone() else { return self.tree() };
        if bring {
            let (copy, place) = (copy.clone(), self.place()?);
            run_blocking(move || copy.bring(&place, whole)).await?;
        }
        WorktreeRoot::open(&copy.tree())
    }

    /// Before a command that builds or tests: waits for what the image has downloaded, and sets a copy up.
    async fn ready(
        &self,
        ground: &WorktreeRoot,
        command: Option<&str>,
    ) -> Result<Vec<String>, ToolError> {
        if !command.is_some_and(is_build) {
            return Ok(Vec::new());
        }
        let told = self.shell.downloads().ready().await;
        let set_up = match &self.copy {
            Some(copy) => copy.set_up(self.site(ground)?, &self.shell).await?,
            None => None,
        };
        Ok(told.into_iter().chain(set_up).collect())
    }

    /// Adds the note on the copy, and what was done before the command, to a reply.
    fn noted(&self, reply: ToolboxReply, ready: Vec<String>) -> ToolboxReply {
        let note = self.copy.as_ref().and_then(|copy| copy.note());
        reply.noting(note.into_iter().chain(ready))
    }

    fn environment(&self, ground: &WorktreeRoot) -> Result<CommandEnvironment, ToolError> {
        let hello = &self.place()?.hello;
        let base = self.shell.environment().with_author(&hello.author).with_proxy(&hello.proxy);
        Ok(base.with_venv(ground.root()))
    }

    fn site(&self, ground: &WorktreeRoot) -> Result<ToolboxSite, ToolError> {
        let environment = self.environment(ground)?;
        let work = self.copy.as_ref().map_or(self.work.as_path(), |copy| copy.root()).to_owned();
        let git = self.work.join("tree/.git");
        Ok(ToolboxSite { work, tree: ground.root().to_owned(), git, environment })
    }

    fn tree(&self) -> Result<WorktreeRoot, ToolError> {
        WorktreeRoot::open(&self.work.join("tree"))
    }

    fn place(&self) -> Result<GitSite, ToolError> {
        let hello = self.hello.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hello = hello.ok_or_else(|| ToolError::Failed("no hello yet".to_owned()))?;
        let (work, base, hooks) = (self.work.clone(), self.base.clone(), self.hooks.clone());
        Ok(GitSite { work, hello, base, hooks })
    }
}

/// The right to run a command. Given on only when nothing of the last one is left, also when that
/// was cancelled.
struct Turn {
    held: Option<OwnedMutexGuard<()>>,
    shell: Arc<CommandShell>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (held, shell) = (self.held.take(), self.shell.clone());
        let sweep = async move {
            shell.kill_strays().await;
            drop(held);
        };
        tokio::spawn(sweep.in_current_span());
    }
}

/// Puts back what a command did to modes, which its sandbox can't keep it from.
async fn restore_modes(kept: KeptModes) -> Result<(), ToolError> {
    let changed = run_blocking(move || Ok(kept.restore())).await?;
    if changed > 0 {
        tracing::warn!(changed, "command_modes_restored");
    }
    Ok(())
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(done) => done,
        Err(_) => Err(ToolError::Failed("the toolbox failed while it worked on this".to_owned())),
    }
}
