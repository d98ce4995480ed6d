//! Set-ups of the worktree: of a thread's, and of a clone that waits for one.

use std::sync::Arc;

use codebutler_guides::text::clip_text;
use parking_lot::Mutex;

use super::super::command::CommandShell;
use super::super::git;
use super::super::protocol::{SetUp, ToolboxReply, ToolboxRequest};
use super::super::setup::ToolboxSite;
use super::super::{StartError, ToolError};
use super::{Toolbox, Turn, run_blocking};

type MakeShell = dyn Fn() -> Result<CommandShell, StartError> + Send + Sync;

/// The shell for the worktree itself, in the pod of a role whose own commands run in a copy of it. Only a clone that no
/// thread works in is set up with it.
pub(in crate::toolbox) struct BaseShell {
    make: Box<MakeShell>,
    made: Mutex<Option<Arc<CommandShell>>>,
}

impl BaseShell {
    pub(in crate::toolbox) fn new(
        make: impl Fn() -> Result<CommandShell, StartError> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Box::new(make), made: Mutex::default() }
    }

    /// The shell, made when it is needed first: most pods never do.
    fn get(&self) -> Result<Arc<CommandShell>, ToolError> {
        let mut made = self.made.lock();
        if let Some(shell) = &*made {
            return Ok(Arc::clone(shell));
        }
        let shell = (self.make)().map_err(|error| ToolError::Failed(error.to_string()))?;
        shell.begin_downloads();
        Ok(Arc::clone(made.insert(Arc::new(shell))))
    }
}

impl Toolbox {
    /// Plans a set-up, runs one, or takes down that people know of it.
    pub(super) async fn set_up(&self, request: ToolboxRequest) -> Result<ToolboxReply, ToolError> {
        match request {
            ToolboxRequest::PlanSetUp { command } => {
                if let Some(copy) = &self.copy {
                    copy.set_up_with(command);
                    return Ok(ToolboxReply::SetUp(None));
                }
                let site = self.site(&self.tree()?)?;
                run_blocking(move || Ok(site.plan(command.as_deref())))
                    .await
                    .map(ToolboxReply::SetUp)
            }
            ToolboxRequest::SetUp { plan, seconds } => {
                let _turn = self.turn(true).await;
                // Missing downloads are reported with the first command that builds.
                self.shell.downloads().linked().await;
                let done = self.site(&self.tree()?)?.perform(&self.shell, &plan, seconds).await;
                done.map(|done| ToolboxReply::SetUp(Some(done)))
            }
            ToolboxRequest::SetUpTold { plan, ended } => {
                let site = self.site(&self.tree()?)?;
                run_blocking(move || site.told(&plan, ended)).await?;
                Ok(ToolboxReply::Text(String::new()))
            }
            ToolboxRequest::SetUpBase { command, seconds } => {
                self.set_up_base(command, seconds).await.map(ToolboxReply::SetUp)
            }
            ToolboxRequest::EndSetUp => {
                // Whoever has the turn gives it on when nothing of the set-up is left.
                drop(self.turn(true).await);
                Ok(ToolboxReply::Text(String::new()))
            }
            other => Ok(ToolboxReply::Failed(format!(
                "no set-up: {}",
                clip_text(&format!("{other:?}"), 60)
            ))),
        }
    }

    /// Sets up the clone of the base branch, unless that was done, or has failed, with the same lock files. Only as
    /// long as no thread works in it: then nothing of a thread is in what the set-up finds.
    async fn set_up_base(
        &self,
        command: Option<String>,
        seconds: u32,
    ) -> Result<Option<SetUp>, ToolError> {
        let place = self.place()?;
        let shell = match &self.base_shell {
            Some(base) => base.get()?,
            None => Arc::clone(&self.shell),
        };
        let held = self.command.clone().lock_owned().await;
        let _turn = Turn { held: Some(held), shell: Arc::clone(&shell) };
        if !git::is_unclaimed(&place) {
            return Err(ToolError::refused("a thread works here"));
        }
        if let Err(why) = shell.level() {
            return Err(ToolError::refused(why.to_string()));
        }
        let tree = self.tree()?;
        let hello = &place.hello;
        let environment = shell.environment().with_author(&hello.author).with_proxy(&hello.proxy);
        let site = ToolboxSite {
            work: self.work.clone(),
            tree: tree.root().to_owned(),
            git: self.work.join("tree/.git"),
            environment: environment.with_venv(tree.root()),
        };
        let Some(plan) = site.plan(command.as_deref()) else { return Ok(None) };
        if plan.missing.is_some() || plan.ended.is_some() {
            return Ok(Some(plan));
        }
        run_blocking(move || git::note_set_up(&place)).await?;
        shell.downloads().linked().await;
        site.perform(&shell, &plan, seconds).await.map(Some)
    }
}
