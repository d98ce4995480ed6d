//! One trial: a task is given to the whole product, a person answers what it asks, and what is left
//! is graded where the product can't reach.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use codebutler_crds::{AgentRoleSpec, NanoUsd, RepoSpec};
use tokio_util::sync::CancellationToken;

use super::forge::write_forgeries;
use super::grade::{grade_files, missing_program};
use super::outcome::{self, LeftWork};
use super::person::{
    self, AgreedTo, ConversationEnd, PersonEffort, PersonMove, decide_move, is_quiet,
};
use super::repository::{PackageRelease, RepositoryError, oracle_patch, write_repository};
use super::results::{ResultKey, TrialCell, TrialVerdict};
use super::solver::{self, solver_script};
use super::task::BenchTask;
use super::{ScriptedSolver, traces};
use crate::bench_args::arms::BenchArm;
use crate::bench_args::wishes::{TrialSetting, WishFate, is_built};
use crate::demo::world::StackWorld;
use codebutler_testbed::kubelet::InjectEnv;
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::scenario::{ScenarioWorld as _, observe_in_time};
use codebutler_testbed::stack::outside::{ModelProvider, ModelSource, StackSurroundings};
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions, manifests};

/// Variable by which the agent learns of the experiment.
const EXPERIMENT: &str = "CODEBUTLER_EXPERIMENT";
const LOOK: Duration = Duration::from_millis(200);
/// Default branch of the repository.
const BRANCH: &str = "main";
/// Tools that reach where a bug may be found fixed.
const WEB: [&str; 2] = ["WebFetch", "WebSearch"];

/// The parameters of a trial.
pub(super) struct BenchTrial<'a> {
    /// Identity of the trial in the results.
    pub key: ResultKey,
    pub task: &'a BenchTask,
    /// Provider of the models; the script answers if absent.
    pub provider: Option<ModelProvider>,
    /// Behaviour of the script's coder.
    pub solver: ScriptedSolver,
    /// The arm of an experiment.
    pub arm: BenchArm,
    /// Words of the person besides the issue, the window of the models, and the repository's voices.
    pub setting: TrialSetting,
    /// Budget of the Thread.
    pub budget: NanoUsd,
    /// The binary that is every process of the product.
    pub program: &'a Path,
    /// Log filter of the operator's processes.
    pub log: &'a str,
    /// Folder that transcripts and patch are kept in.
    pub keep: Option<PathBuf>,
}

impl BenchTrial<'_> {
    /// Plays it. Nothing if it was interrupted.
    pub(super) async fn play(&self, stop: &CancellationToken) -> Option<TrialCell> {
        let mut cell = TrialCell {
            key: self.key.clone(),
            arm: self.arm.name.clone(),
            language: self.task.spec.language.clone(),
            ..TrialCell::default()
        };
        if let Some(why) = missing_program(self.task) {
            (cell.verdict, cell.reason) = (TrialVerdict::Skipped, why);
            return Some(cell);
        }
        let dir = match tempfile::Builder::new().prefix("codebutler-bench-").tempdir() {
            Ok(dir) => dir,
            Err(error) => return Some(failed_cell(cell, &error.into())),
        };
        let script = match self.written(dir.path()).await {
            Ok(script) => script,
            Err(error) => {
                (cell.verdict, cell.reason) = (TrialVerdict::Skipped, format!("{error:#}"));
                return Some(cell);
            }
        };
        match self.through(&mut cell, dir.path(), script, stop).await {
            Ok(true) => Some(cell),
            Ok(false) => None,
            Err(error) => Some(failed_cell(cell, &error)),
        }
    }

    /// Makes the repository, and what the script says.
    async fn written(&self, dir: &Path) -> anyhow::Result<ModelScript> {
        let (task, into) = (self.task.clone(), dir.join("broken"));
        let (memory, scripted) = (self.key.memory, self.provider.is_none());
        let (solver, setting) = (self.solver, self.setting.clone());
        let made = tokio::task::spawn_blocking(move || {
            write_repository(&task, PackageRelease::Broken, memory, &into)?;
            if setting.forges {
                write_forgeries(&into)
                    .map_err(|source| RepositoryError::Io { path: into, source })?;
            }
            if scripted {
                Ok(solver_script(&task, solver, &oracle_patch(&task)?, &setting))
            } else {
                Ok(ModelScript::default())
            }
        });
        Ok(made.await?.map_err(|error: RepositoryError| error)?)
    }

    async fn through(
        &self,
        cell: &mut TrialCell,
        dir: &Path,
        script: ModelScript,
        stop: &CancellationToken,
    ) -> anyhow::Result<bool> {
        let surroundings = StackSurroundings {
            models: self.provider.clone().map_or(ModelSource::Scripted, ModelSource::Real),
            ..StackSurroundings::default()
        };
        let options = self.options(dir, script)?;
        let mut stack = RunningStack::start_in(options, surroundings).await?;
        let begun = Instant::now();
        let talked = tokio::select! {
            talked = self.talk(&stack, cell) => Some(talked),
            () = stop.cancelled() => None,
        };
        cell.seconds = begun.elapsed().as_secs_f64();
        // From here on nobody can change anything, or see the tests.
        let stopped = stack.stop_product().await;
        let left = match &talked {
            Some(Ok(())) => outcome::look_at(&stack, cell).await,
            _ => Ok(LeftWork::default()),
        };
        let keep = self.keep.as_deref().filter(|_| talked.is_some());
        let kept = keep.map_or(Ok(()), |to| traces::keep_traces(dir, to));
        stack.stop().await?;
        stopped?;
        let Some(talked) = talked else { return Ok(false) };
        talked?;
        kept.context("keeping the transcripts")?;
        self.judge(cell, dir, left?).await?;
        Ok(true)
    }

    fn options(&self, dir: &Path, script: ModelScript) -> anyhow::Result<StackOptions> {
        let place = InstallPlace::usual();
        let scripted = self.provider.is_none();
        let mut roles: Vec<String> = solver::ROLES.map(str::to_owned).to_vec();
        if !scripted {
            let all =
                manifests::seed_roles(&place, |_| None)?.into_iter().map(|role| role.spec.role);
            roles.extend(all);
            let mut seen = std::collections::BTreeSet::new();
            roles.retain(|role| seen.insert(role.clone()));
        }
        let (budget, window) = (self.budget, self.setting.window);
        Ok(StackOptions {
            dir: dir.join("stack"),
            place,
            program: self.program.to_owned(),
            name: "project".to_owned(),
            users: vec![person::NAME.to_owned()],
            roles,
            branch: BRANCH.to_owned(),
            files: dir.join("broken"),
            script,
            idle_timeout_seconds: Some(300),
            debounce_seconds: u32::from(!scripted),
            log: self.log.to_owned(),
            looks_back: false,
            edit_repo: Some(Arc::new(move |repo: &mut RepoSpec| {
                repo.limits.budget.per_thread = Some(budget);
                // Nothing outside: the next release is there.
                repo.egress.hosts.clear();
                repo.egress.presets.clear();
            })),
            edit_role: Some(Arc::new(move |role: &mut AgentRoleSpec| {
                role.tools.deny.extend(WEB.map(str::to_owned));
                role.model.context_tokens = window.or(role.model.context_tokens);
            })),
            inject_env: self.arm.experiment.clone().map(|arm| {
                let inject: Arc<InjectEnv> =
                    Arc::new(move |_, _| vec![(EXPERIMENT.to_owned(), arm.clone())]);
                inject
            }),
            late_wall: None,
            agent_silence: None,
            nodes: None,
            pages: PagesAccess::default(),
        })
    }

    /// Writes the issue as the person, and answers until the conversation has shown enough.
    async fn talk(&self, stack: &RunningStack, cell: &mut TrialCell) -> anyhow::Result<()> {
        let names = manifests::seed_roles(&stack.place, |_| None)?;
        let names = names.into_iter().map(|r| (r.spec.display.name, r.spec.role)).collect();
        let world = StackWorld::on(stack, BRANCH, names);
        let first = self.setting.first_message(&self.task.instruction);
        let root = world.post(person::NAME, None, &first).await?;
        cell.human = PersonEffort { messages: 1, ..PersonEffort::default() };
        let deadline = Instant::now() + Duration::from_secs(60 * self.task.spec.limits.minutes);
        // A script never thinks; a model's provider may be slow between two roles.
        let usual = if self.provider.is_some() { 30 } else { 6 };
        let patience = Duration::from_secs(self.setting.patience.unwrap_or(usual).into());
        let mut quiet_since = None;
        let mut interject = self.setting.interject.as_ref();
        loop {
            tokio::time::sleep(LOOK).await;
            let seen = observe_in_time(&world).await?;
            anyhow::ensure!(
                seen.script_failures.is_empty(),
                "the script was left: {}",
                seen.script_failures.join("; ")
            );
            let quiet = if is_quiet(&seen) {
                quiet_since.get_or_insert_with(Instant::now).elapsed()
            } else {
                quiet_since = None;
                Duration::ZERO
            };
            let next = if Instant::now() >= deadline {
                PersonMove::End(ConversationEnd::Late)
            } else {
                decide_move(&seen, &cell.human, quiet, patience)
            };
            match &next {
                PersonMove::Wait => continue,
                PersonMove::Click { message, button, .. } => {
                    // Somebody may have settled it since.
                    if world.click(person::NAME, message, button).await.is_err() {
                        continue;
                    }
                }
                PersonMove::Nudge => {
                    drop(world.post(person::NAME, Some(&root), person::NUDGE).await?);
                }
                PersonMove::End(end) => {
                    cell.ended = Some(*end);
                    return Ok(());
                }
            }
            cell.human.add(&next);
            quiet_since = None;
            let planned = matches!(&next, PersonMove::Click { what: AgreedTo::Plan, .. });
            if let Some(wish) = interject.take_if(|_| planned) {
                drop(world.post(person::NAME, Some(&root), &wish.text).await?);
                cell.human.messages += 1;
                cell.wish = Some(WishFate::Lost);
            }
        }
    }

    /// Grades what is left, and scans how it came about.
    async fn judge(&self, cell: &mut TrialCell, dir: &Path, left: LeftWork) -> anyhow::Result<()> {
        let traces = traces::read_traces(dir)?;
        (cell.tool_calls, cell.tool_errors) = (traces.calls.len() as u64, traces.errors);
        cell.habits = traces.habits;
        let secrets = super::scan::HiddenSecrets::of(self.task);
        cell.findings = super::scan::scan_calls(&secrets, &traces.calls, &left.diff);
        let TrialSetting { interject, rule, .. } = &self.setting;
        if let Some(wish) = interject.as_ref().filter(|_| cell.wish.is_some()) {
            cell.wish = Some(WishFate::find(&wish.mark, &traces.spoken, &left.diff));
        }
        cell.rule_kept = rule.as_ref().map(|rule| is_built(&rule.mark, &left.diff));
        let Some(commit) = left.commit else {
            "there is no pull request".clone_into(&mut cell.reason);
            return Ok(());
        };
        let work = dir.join("grade");
        std::fs::create_dir(&work)?;
        std::fs::rename(dir.join(outcome::CODE), work.join("code"))?;
        let graded = grade_files(self.task, &work, &dir.join("broken")).await?;
        if let Some(keep) = &self.keep {
            std::fs::write(keep.join("tests.log"), &graded.log)?;
            std::fs::write(keep.join("change.patch"), &left.diff)?;
        }
        let cheats = cell.findings.iter().find(|finding| finding.cheats);
        (cell.verdict, cell.reason) = match cheats {
            Some(cheat) => (TrialVerdict::Cheated, format!("{}: {}", cheat.by, cheat.what)),
            None if graded.grade.solved() => (TrialVerdict::Solved, String::new()),
            None => (TrialVerdict::Unsolved, graded.grade.why()),
        };
        cell.commit = Some(commit);
        cell.grade = Some(graded.grade);
        Ok(())
    }
}

fn failed_cell(mut cell: TrialCell, error: &anyhow::Error) -> TrialCell {
    (cell.verdict, cell.reason) = (TrialVerdict::Failed, format!("{error:#}"));
    cell
}
