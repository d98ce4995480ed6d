//! `cargo demo -- --bench DIR`: a measure of the team itself. Real bugs of published packages are
//! given to the whole product, and hidden tests tell whether they are gone.

mod candidates;
mod cell;
mod confine;
mod figures;
mod forge;
mod grade;
mod log;
mod outcome;
mod package;
mod person;
mod plan;
mod repository;
mod results;
mod scan;
mod solver;
mod task;
mod traces;
mod validate;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use self::candidates::BenchCandidate;
use self::cell::BenchTrial;
use self::figures::{ModelFigures, format_cents, habits_table, models_table};
use self::plan::{BenchPlan, PlannedTrial};
use self::results::{BenchResults, ResultRecord, TrialCell};
use self::scan::ScanFinding;
pub use self::task::{BenchTask, TaskError, load_all};
pub use crate::bench_args::{BenchArgs, MemoryMode, ScriptedSolver};
use crate::demo::provider::{self, AskedProvider};
use crate::demo::{DemoArgs, PrintFn, await_interrupt};
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::stack::manifests;
use codebutler_testbed::stack::outside::ModelProvider;

/// Name in results where a script answers in place of a model.
const SCRIPT: &str = "script";
/// Indentation below a trial's line.
const INDENT: &str = "                  ";
/// Name in results where each role has its own model.
const OWN: &str = "each role's own";

/// Warning on a machine that keeps namespaces from its users, as containers often do.
const WITHOUT_WALLS: &str = "\
    warning: this machine allows no namespaces (try `unshare --user --net true`): hidden tests run code that a \
    model wrote, with your rights and your network. Use a machine for it on which nothing else is, or allow \
    them (sysctl kernel.unprivileged_userns_clone=1, or the container's seccomp profile)";

/// Runs the bench that the arguments describe: whether everything was as it must be, or nothing if it
/// was interrupted.
///
/// # Errors
/// A mistake in a task, a provider that can't be used, or a folder that can't.
pub async fn run_bench(
    args: &DemoArgs,
    program: &Path,
    print: PrintFn<'_>,
) -> anyhow::Result<Option<bool>> {
    let bench = &args.bench;
    let mut tasks = load_all(bench.tasks_folder().unwrap_or(Path::new(".")))?;
    let asked = provider::given_provider(args)?;
    let few = asked.is_none() && !bench.validate;
    tasks.retain(
        |task| if bench.tasks.is_empty() { task.spec.ci || !few } else { bench.names(&task.id) },
    );
    anyhow::ensure!(!tasks.is_empty(), "no task fits --tasks {}", bench.tasks.join(","));
    if bench.validate {
        return validate::validate_tasks(&tasks, print).await.map(Some);
    }
    let models = list_models(args, asked).await?;
    let candidates = candidates::pair_arms(&models, &bench.arm);
    let names: Vec<&str> = candidates.iter().map(|one| one.name.as_str()).collect();
    let results = BenchResults::open(bench.out.as_deref()).context("--out")?;
    let plan = BenchPlan::of(&tasks, &names, bench.runs, bench.memory == MemoryMode::On);
    let runner = Runner { args, program, tasks: &tasks, candidates: &candidates };
    if !confine::is_walled() {
        let _ = writeln!(std::io::stderr(), "{WITHOUT_WALLS}");
    }
    let (results, whole) = runner.play(&plan, results, &mut *print).await?;
    tell_results(args.json, &names, &plan, &results, print)?;
    Ok(whole.then_some(true))
}

/// Every model that is measured, and where it is asked.
async fn list_models(
    args: &DemoArgs,
    asked: Option<AskedProvider>,
) -> anyhow::Result<Vec<(String, Option<ModelProvider>)>> {
    let Some(asked) = asked else {
        anyhow::ensure!(
            args.models.model.is_empty(),
            "--model needs a provider: set OPENROUTER_API_KEY or CODEBUTLER_MODEL_URL"
        );
        return Ok(vec![(SCRIPT.to_owned(), None)]);
    };
    let roles = manifests::seed_roles(&InstallPlace::usual(), |_| None)?;
    let mut names: Vec<Option<String>> = args.models.model.iter().cloned().map(Some).collect();
    let asked = asked.with_fitting_model(&roles).await?;
    if names.is_empty() {
        names.push(asked.provider.model.clone());
    }
    let mut models = Vec::new();
    for name in names {
        let asked = asked.with(name.clone());
        asked.check(&roles).await?;
        models.push((name.unwrap_or_else(|| OWN.to_owned()), Some(asked.provider)));
    }
    Ok(models)
}

struct Runner<'a> {
    args: &'a DemoArgs,
    program: &'a Path,
    tasks: &'a [BenchTask],
    candidates: &'a [BenchCandidate],
}

impl Runner<'_> {
    /// Plays the trials of the plan; returns the results, and true if nobody interrupted it.
    async fn play(
        &self,
        plan: &BenchPlan,
        mut results: BenchResults,
        print: PrintFn<'_>,
    ) -> anyhow::Result<(BenchResults, bool)> {
        let stop = CancellationToken::new();
        let listener = tokio::spawn({
            let stop = stop.clone();
            async move {
                await_interrupt().await;
                stop.cancel();
            }
        });
        let of = plan.trials.len();
        for (n, planned) in plan.trials.iter().enumerate() {
            let before = results.finished(&planned.key).is_some();
            if !before {
                let task = &self.tasks[planned.task];
                if let Some(why) = self.unaffordable(&results, task) {
                    self.say_stopped(
                        &mut *print,
                        &format!("stopped after {n} of {of} trials: {why}"),
                    );
                    break;
                }
                let Some(cell) = self.trial(planned, task, &results, &stop).await? else {
                    let how = self.how_to_go_on();
                    let why = format!("interrupted after {n} of {of} trials: {how}");
                    self.say_stopped(&mut *print, &why);
                    return Ok((results, false));
                };
                results.end(cell)?;
            }
            let Some(cell) = results.get(&planned.key) else { continue };
            if self.args.json {
                print(&serde_json::to_string(&ResultRecord::Cell(Box::new(cell.clone())))?);
            }
            let known = if before { " (from --out)" } else { "" };
            self.say(&mut *print, &format!("{:>3}/{of} {}{known}", n + 1, cell_line(cell)));
        }
        listener.abort();
        Ok((results, true))
    }

    fn say_stopped(&self, print: PrintFn<'_>, why: &str) {
        self.say(&mut *print, why);
        if self.args.json {
            print(&serde_json::json!({"record": "stopped", "why": why}).to_string());
        }
    }

    fn how_to_go_on(&self) -> &'static str {
        if self.args.bench.out.is_some() {
            "start it again with the same --out to go on"
        } else {
            "with --out DIR it could have gone on from here"
        }
    }

    fn say(&self, print: PrintFn<'_>, text: &str) {
        if !self.args.json {
            print(text);
        }
    }

    /// Reason for which a task may not begin, if the budget for the whole is too small for it.
    fn unaffordable(&self, results: &BenchResults, task: &BenchTask) -> Option<String> {
        let (budget, cap) = (self.args.bench.budget?, task.spec.limits.dollars);
        // A script is billed by nobody.
        self.candidates.iter().find(|one| one.provider.is_some())?;
        let spent = results.spent();
        (spent + cap > budget).then(|| {
            format!(
                "{} may cost ${cap}, and of --budget ${budget} ${spent} is spent: raise it and start again with \
                 the same --out to go on",
                task.id
            )
        })
    }

    async fn trial(
        &self,
        planned: &PlannedTrial,
        task: &BenchTask,
        results: &BenchResults,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<TrialCell>> {
        let BenchCandidate { provider, arm, .. } = self.candidates[planned.model].clone();
        let budget = task.spec.limits.dollars;
        if provider.is_some() {
            results.begin(&planned.key, budget)?;
        }
        let trial = BenchTrial {
            key: planned.key.clone(),
            task,
            provider,
            solver: self.args.bench.solver,
            budget,
            program: arm.program.as_deref().unwrap_or(self.program),
            arm: arm.clone(),
            setting: self.args.bench.setting(),
            log: &self.args.log,
            keep: results.folder(&planned.key),
        };
        Ok(trial.play(stop).await)
    }
}

/// A trial in a line, for people.
fn cell_line(cell: &TrialCell) -> String {
    let (key, human) = (&cell.key, &cell.human);
    let word = cell.verdict.word();
    let mut text = format!("{word:<9} {:<26} {} run {}", key.task, key.model, key.run);
    if cell.verdict.counts() {
        let _ = write!(
            text,
            "  {} turns, {:.1} min, ${}; person: messages {}, plans {}, actions {}, choices {}; {} of {} \
             tool calls wrong",
            cell.turns,
            cell.seconds / 60.0,
            format_cents(cell.dollars),
            human.messages,
            human.plans,
            human.actions,
            human.choices,
            cell.tool_errors,
            cell.tool_calls,
        );
    }
    if let Some(wish) = cell.wish {
        let _ = write!(text, "; the wish: {}", wish.word());
    }
    if !cell.reason.is_empty() {
        let _ = write!(text, "\n{INDENT}{}", cell.reason.replace('\n', " "));
    }
    for finding in cell.findings.iter().filter(|finding| !finding.cheats) {
        let ScanFinding { kind, by, what, .. } = finding;
        let _ = write!(text, "\n{INDENT}noted {kind:?} by {by}: {what}");
    }
    text
}

fn tell_results(
    json: bool,
    names: &[&str],
    plan: &BenchPlan,
    results: &BenchResults,
    print: PrintFn<'_>,
) -> anyhow::Result<()> {
    let of_model = |n: usize| {
        let trials = plan.trials.iter().filter(move |planned| planned.model == n);
        trials.filter_map(|planned| results.get(&planned.key)).collect::<Vec<&TrialCell>>()
    };
    let all: Vec<ModelFigures> =
        names.iter().enumerate().map(|(n, name)| ModelFigures::of(name, &of_model(n))).collect();
    if !json {
        print(&format!("\n{}\n\n{}", models_table(&all), habits_table(&all)));
        return Ok(());
    }
    for figures in &all {
        print(&serde_json::to_string(figures)?);
    }
    Ok(())
}
