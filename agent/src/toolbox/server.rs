//! Answers the agent's requests, any number at a time.

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

use super::command::{Shell, command_seconds, unit_note};
use super::copy::Copy;
use super::environment::Environment;
use super::files::{self, Seen};
use super::git::{self, Place};
use super::paths::Tree;
use super::protocol::{Answer, Frame, Hello, Reply, Request, frame_codec};
use super::setup::{self, Site};
use super::toolchains::{self, Programs};
use super::{ToolError, search};
use crate::tools::args;
use codebutler_guides::policy::builds::is_build;
use codebutler_guides::text::clip_text;

/// What a role is told that works in a copy.
const NO_CHANGE: &str = "this role may not change the worktree (`workspace.worktree: ReadOnly`)";

/// Serves until the connection ends.
pub async fn serve_toolbox(stream: UnixStream, work: &Path, shell: Arc<Shell>, copy: Option<Copy>) {
    let mut frames = Framed::new(stream, frame_codec());
    let toolbox = Arc::new(Toolbox::new(work, shell, copy));
    let (answers, mut answered) = mpsc::channel::<Answer>(64);
    let mut running = HashMap::<u64, AbortHandle>::new();
    loop {
        tokio::select! {
            frame = frames.next() => {
                let Some(Ok(frame)) = frame else { break };
                let Ok(Frame { id, request }) = serde_json::from_slice::<Frame>(&frame) else {
                    tracing::error!("not a frame of this protocol");
                    break;
                };
                if let Request::Cancel { id } = request {
                    if let Some(handle) = running.remove(&id) {
                        handle.abort();
                    }
                    continue;
                }
                let (toolbox, answers) = (toolbox.clone(), answers.clone());
                let work = async move {
                    let reply = toolbox.answer(request).await;
                    let _ = answers.send(Answer { id, reply }).await;
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
    shell: Arc<Shell>,
    /// Where commands work, if not in the worktree.
    copy: Option<Arc<Copy>>,
    hello: Mutex<Option<Hello>>,
    base: git::Base,
    programs: Programs,
    seen: Mutex<Arc<Seen>>,
    /// One command at a time: what it leaves behind can be told from anything else only so.
    command: Arc<tokio::sync::Mutex<()>>,
}

impl Toolbox {
    fn new(work: &Path, shell: Arc<Shell>, copy: Option<Copy>) -> Self {
        Self {
            work: work.to_owned(),
            shell,
            copy: copy.map(Arc::new),
            hello: Mutex::default(),
            base: git::Base::default(),
            programs: Programs::default(),
            seen: Mutex::default(),
            command: Arc::default(),
        }
    }

    async fn answer(&self, request: Request) -> Reply {
        match self.dispatch(request).await {
            Ok(reply) => reply,
            Err(ToolError::Refused(why)) => Reply::Refused(why),
            Err(ToolError::Failed(why)) => Reply::Failed(why),
        }
    }

    async fn dispatch(&self, request: Request) -> Result<Reply, ToolError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let scratch = self.work.join(".scratch");
        match request {
            Request::Hello(hello) => {
                files::make_scratch(&scratch)
                    .map_err(|e| ToolError::Failed(format!("the volume can't be written: {e}")))?;
                let seen = Seen::kept_in(scratch.join(format!("seen-{}.json", hello.role)));
                *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
                *self.hello.lock().unwrap_or_else(PoisonError::into_inner) = Some(hello);
                Ok(Reply::Text(match self.shell.level() {
                    Ok(level) => level.to_string(),
                    Err(why) => why.clone(),
                }))
            }
            Request::Prepare => {
                let place = self.place()?;
                run_blocking(move || git::prepare_worktree(&place)).await.map(Reply::Text)
            }
            request @ (Request::BaseGuide { .. }
            | Request::Memory { .. }
            | Request::BranchPage { .. }
            | Request::CommitLearnings { .. }
            | Request::CheckCitations { .. }
            | Request::QuoteCitation { .. }
            | Request::StaleLearnings
            | Request::Skills
            | Request::PastRequests
            | Request::Research
            | Request::Conventions { .. }) => {
                let place = self.place()?;
                run_blocking(move || answer_memory(&place, request)).await
            }
            Request::Surroundings { programs } => self.surroundings(programs).await,
            Request::Read(args) => {
                let tree = self.readable(&args.path)?;
                run_blocking(move || files::read_file(&tree, &seen, &args)).await
            }
            Request::EndJobs => {
                self.shell.end_jobs().await;
                Ok(Reply::Text(String::new()))
            }
            request @ (Request::PlanSetUp { .. }
            | Request::SetUp { .. }
            | Request::SetUpTold { .. }) => self.set_up(request).await,
            Request::JobEnded { job } => {
                self.shell.job_ended(job).await;
                Ok(Reply::Text(String::new()))
            }
            Request::PlanEdit(edit) => {
                if self.copy.is_some() {
                    return Err(ToolError::refused(NO_CHANGE));
                }
                let tree = self.tree()?;
                run_blocking(move || files::plan_edit(&tree, &seen, &edit)).await.map(Reply::Plan)
            }
            Request::Snapshot => self.keep_work().await,
            Request::Bash(args) => self.bash(&args).await,
            Request::Test(args) => self.test(&args).await,
            Request::Standing { tested } => {
                let place = self.place()?;
                let standing =
                    run_blocking(move || git::find_standing(&place, tested.as_deref())).await;
                standing.map(Reply::Standing)
            }
            Request::Keep { message } => {
                let place = self.place()?;
                run_blocking(move || git::keep_leftover(&place, &message))
                    .await
                    .map(Reply::Leftover)
            }
            Request::TakeBack { message } => {
                let place = self.place()?;
                run_blocking(move || git::take_back(&place, &message)).await?;
                Ok(Reply::Text(String::new()))
            }
            Request::GitPush => self.push().await,
            Request::UpdateKey => {
                let place = self.place()?;
                run_blocking(move || git::update_key(&place)).await.map(Reply::Text)
            }
            Request::GitUpdate { key, again } => self.update(key, again).await,
            Request::Touched => {
                let place = self.place()?;
                run_blocking(move || git::touched_files(&place)).await.map(Reply::Names)
            }
            Request::Cancel { .. } => Ok(Reply::Text(String::new())),
            Request::Write(_) | Request::Edit { .. } | Request::GitCommit { .. }
                if self.copy.is_some() =>
            {
                Err(ToolError::refused(NO_CHANGE))
            }
            request => {
                let (tree, place) = (self.tree()?, self.place()?);
                run_blocking(move || answer_work(&tree, &place, &seen, &scratch, request))
                    .await
                    .map(Reply::Text)
            }
        }
    }

    async fn push(&self) -> Result<Reply, ToolError> {
        let place = self.place()?;
        Ok(match run_blocking(move || git::push_branch(&place)).await? {
            git::Pushed::Done(text) => Reply::Text(text),
            git::Pushed::Conflict(files, why) => Reply::Conflict { files, why },
        })
    }

    /// Brings the branch up to date with the base branch.
    async fn update(&self, key: String, again: bool) -> Result<Reply, ToolError> {
        if self.copy.is_some() {
            return Err(ToolError::refused(NO_CHANGE));
        }
        let place = self.place()?;
        Ok(match run_blocking(move || git::update_branch(&place, &key, again)).await? {
            git::Updated::Done(text) => Reply::Text(text),
            git::Updated::Conflict(files, why) => Reply::Conflict { files, why },
        })
    }

    /// Where a file is that may be read: the worktree, or what is beside it and the role's own.
    fn readable(&self, path: &str) -> Result<Tree, ToolError> {
        let build = self.shell.environment().build();
        let copy = self.copy.as_ref().map(|copy| copy.tree());
        match copy.filter(|copy| setup::is_beside(path, copy)) {
            Some(copy) => Tree::open(&copy),
            None if setup::is_beside(path, build) => Tree::open(build),
            None => self.tree(),
        }
    }

    async fn bash(&self, args: &args::Bash) -> Result<Reply, ToolError> {
        let _turn = self.turn(args.job.is_none()).await;
        let ground = self.ground(args.job.is_none(), false).await?;
        let environment = self.environment(&ground)?;
        let ready = self.ready(&ground, args.command.as_deref()).await?;
        let reply = self.shell.bash(&ground, &environment, args).await?;
        Ok(self.noted(reply, &ready))
    }

    async fn keep_work(&self) -> Result<Reply, ToolError> {
        let place = self.place()?;
        run_blocking(move || git::keep_work(&place)).await.map(Reply::Kept)
    }

    async fn set_up(&self, request: Request) -> Result<Reply, ToolError> {
        match request {
            Request::PlanSetUp { command } => {
                if let Some(copy) = &self.copy {
                    copy.set_up_with(command);
                    return Ok(Reply::SetUp(None));
                }
                let site = self.site(&self.tree()?)?;
                run_blocking(move || Ok(site.plan(command.as_deref()))).await.map(Reply::SetUp)
            }
            Request::SetUp { plan, seconds } => {
                let _turn = self.turn(true).await;
                let done = self.site(&self.tree()?)?.perform(&self.shell, &plan, seconds).await;
                done.map(|done| Reply::SetUp(Some(done)))
            }
            Request::SetUpTold { plan, ended } => {
                let site = self.site(&self.tree()?)?;
                run_blocking(move || site.told(&plan, ended)).await?;
                Ok(Reply::Text(String::new()))
            }
            other => {
                Ok(Reply::Failed(format!("no set-up: {}", clip_text(&format!("{other:?}"), 60))))
            }
        }
    }

    /// Where the role works; with the versions of its programs, if it can run any.
    async fn surroundings(&self, programs: bool) -> Result<Reply, ToolError> {
        let place = self.place()?;
        let mut found = run_blocking(move || git::find_surroundings(&place)).await?;
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
        Ok(Reply::Surroundings(found))
    }

    /// Runs the tests on files that are known before and after. Where they can't be known, the run
    /// proves nothing, and is shown all the same.
    async fn test(&self, args: &args::Bash) -> Result<Reply, ToolError> {
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
        let ran = self.shell.run(&files, &environment, &command, command_seconds(args)).await?;
        let tree = match before {
            Ok(before) => run_blocking(move || git::unchanged_tree(&place, &files, &before)).await,
            Err(error) => Err(error),
        };
        let (tree, unknown) = match tree {
            Ok(tree) => (tree, false),
            Err(error) => {
                tracing::warn!(%error, "what was tested is not known");
                (None, matches!(error, ToolError::Refused(why) if why == git::TOO_LARGE))
            }
        };
        let run = TestRun { command, exit_code: ran.code, tree, unknown };
        Ok(self.noted(Reply::Tested { text: unit_note(args) + &ran.text(), run }, &ready))
    }

    /// The right to run a command, if one is to be run.
    async fn turn(&self, needed: bool) -> Option<Turn> {
        if !needed {
            return None;
        }
        let held = self.command.clone().lock_owned().await;
        Some(Turn { held: Some(held), shell: self.shell.clone() })
    }

    /// Where commands work. A copy is brought to what the worktree is, if it is to be.
    async fn ground(&self, bring: bool, whole: bool) -> Result<Tree, ToolError> {
        let Some(copy) = self.copy.clone() else { return self.tree() };
        if bring {
            let (copy, place) = (copy.clone(), self.place()?);
            run_blocking(move || copy.bring(&place, whole)).await?;
        }
        Tree::open(&copy.tree())
    }

    /// Sets a copy up before the first command that builds or tests in it.
    async fn ready(&self, ground: &Tree, command: Option<&str>) -> Result<String, ToolError> {
        match (&self.copy, command) {
            (Some(copy), Some(command)) if is_build(command) => {
                copy.set_up(self.site(ground)?, &self.shell).await
            }
            _ => Ok(String::new()),
        }
    }

    /// With what has to be said of a copy.
    fn noted(&self, mut reply: Reply, ready: &str) -> Reply {
        if let (
            Some(copy),
            Reply::Text(text) | Reply::Tested { text, .. } | Reply::Started { text, .. },
        ) = (&self.copy, &mut reply)
        {
            text.insert_str(0, &(copy.note() + ready));
        }
        reply
    }

    fn environment(&self, ground: &Tree) -> Result<Environment, ToolError> {
        let hello = &self.place()?.hello;
        let base = self.shell.environment().with_author(&hello.author).with_proxy(&hello.proxy);
        Ok(base.with_venv(ground.root()))
    }

    fn site(&self, ground: &Tree) -> Result<Site, ToolError> {
        let environment = self.environment(ground)?;
        let work = self.copy.as_ref().map_or(self.work.as_path(), |copy| copy.root()).to_owned();
        let git = self.work.join("tree/.git");
        Ok(Site { work, tree: ground.root().to_owned(), git, environment })
    }

    fn tree(&self) -> Result<Tree, ToolError> {
        Tree::open(&self.work.join("tree"))
    }

    fn place(&self) -> Result<Place, ToolError> {
        let hello = self.hello.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hello = hello.ok_or_else(|| ToolError::Failed("no hello yet".to_owned()))?;
        Ok(Place { work: self.work.clone(), hello, base: self.base.clone() })
    }
}

/// The right to run a command. Given on only when nothing of the last one is left, also when that
/// was cancelled.
struct Turn {
    held: Option<OwnedMutexGuard<()>>,
    shell: Arc<Shell>,
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

/// What the repository says of itself and of the team's work in it.
fn answer_memory(place: &Place, request: Request) -> Result<Reply, ToolError> {
    match request {
        Request::BaseGuide { file } => git::usable_guide(place, &file),
        Request::Memory { file } => git::read_memory(place, file.as_deref()).map(Reply::Text),
        Request::BranchPage { file } => git::branch_page(place, &file).map(Reply::Guide),
        Request::CommitLearnings { changes, message, pages } => {
            git::commit_learnings(place, &changes, &pages, &message).map(Reply::Text)
        }
        Request::CheckCitations { citations } => {
            git::check_citations(place, &citations).map(Reply::Faults)
        }
        Request::QuoteCitation { citation } => {
            git::quote_citation(place, citation).map(|quoted| Reply::Text(quoted.to_string()))
        }
        Request::StaleLearnings => git::find_stale_learnings(place).map(Reply::Stale),
        Request::Skills => git::read_skills(place).map(Reply::Skills),
        Request::Research => git::known_research(place).map(Reply::Research),
        Request::PastRequests => git::past_requests(place).map(Reply::Files),
        Request::Conventions { planned } => {
            git::read_conventions(place, &planned).map(Reply::Files)
        }
        _ => Err(ToolError::Failed("this is asked of somebody else".into())),
    }
}

/// The requests that are answered with text, by code that blocks.
fn answer_work(
    tree: &Tree,
    place: &Place,
    seen: &Seen,
    scratch: &Path,
    request: Request,
) -> Result<String, ToolError> {
    match request {
        Request::Write(args) => files::write_file(tree, seen, scratch, &args),
        Request::Edit { edit, plan } => files::edit_files(tree, seen, scratch, &edit, &plan),
        Request::Grep(args) => search::grep_files(tree, &args),
        Request::Glob(args) => search::find_files(tree, &args),
        Request::Head => git::head_commit(place),
        Request::GitLog(args) => git::show_log(place, tree, &args),
        Request::GitDiff(args) => git::show_diff(place, tree, &args),
        Request::GitShow(args) => git::show_commit(place, tree, &args),
        Request::GitBlame(args) => git::blame_lines(place, tree, &args),
        Request::GitCommit { commit, parent } => git::commit_files(place, tree, &commit, &parent),
        other => Err(ToolError::Failed(format!(
            "not answered with text: {}",
            clip_text(&format!("{other:?}"), 60)
        ))),
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(done) => done,
        Err(_) => Err(ToolError::Failed("the toolbox broke while it worked on this".to_owned())),
    }
}
