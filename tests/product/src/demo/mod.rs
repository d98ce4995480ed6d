//! `cargo demo`: a [`RunningStack`] to talk to on its chat page, or to play a scenario on.

mod chat;
mod fitting;
mod found;
mod preflight;
mod presets;
pub(crate) mod provider;
mod repository;
mod samples;
mod spent;
mod standing;
mod summary;
mod transcript;
mod typed;
mod unready;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use codebutler_crds::model::ModelApi;

pub use self::found::{FoundProvider, SecretKey};
use self::presets::{describe_presets, look_for_presets};
use self::repository::CloneSource;
pub use self::summary::DemoSummary;
use self::transcript::DemoTranscript;
use self::unready::describe_unready;
use self::world::StackWorld;
use crate::bench_args::BenchArgs;
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::scenario::{
    FirstContent, PlayableScenario, ScenarioPages, ScenarioServers, play_scenario,
};
use codebutler_testbed::stack::nodes::NodeArgs;
use codebutler_testbed::stack::outside::{
    OWNER, RepositoryContent, StackSurroundings, repository_dir,
};
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions, manifests};

/// The whole product on one machine: embedded Kubernetes, Slack, model API and GitHub.
#[derive(Debug, Parser)]
#[command(
    name = "cargo demo --",
    version,
    after_help = "OPENROUTER_API_KEY holds the key for OpenRouter, CODEBUTLER_MODEL_KEY the one for \
                  CODEBUTLER_MODEL_URL\n(where that server wants one). Without them OPENAI_BASE_URL, OPENAI_API_KEY, \
                  ANTHROPIC_API_KEY,\nGEMINI_API_KEY, GOOGLE_API_KEY, OLLAMA_HOST or LLAMA_ARG_PORT name a provider, in \
                  this order."
)]
pub struct DemoArgs {
    /// The conversation to play; exits 0 only if every expectation in it held. Without it, the chat
    /// page is yours until Ctrl-C.
    #[arg(long, value_name = "FILE", group = "played")]
    pub scenario: Option<PathBuf>,
    /// A repository of yours instead of the sample: a folder or a URL. It is cloned and never
    /// written to. With a key (see below) real models work on it.
    #[arg(long, value_name = "URL_OR_PATH")]
    pub repo: Option<String>,
    /// The branch of that repository that pull requests are for; the one checked out if absent.
    #[arg(long, requires = "repo")]
    pub branch: Option<String>,
    /// Largest repository that is cloned, in MB.
    #[arg(long, value_name = "MB", default_value_t = codebutler_start::REPO_LIMIT_MB)]
    pub repo_limit: u64,
    /// Keep everything in this folder for the next start: messages, threads, commits, volumes.
    #[arg(long, value_name = "DIR", conflicts_with = "scenario")]
    pub state: Option<PathBuf>,
    /// Print nothing but JSON: a scenario's summary, or an object a line for what a bench finds.
    #[arg(long, requires = "played")]
    pub json: bool,
    /// Leave everything running when the scenario is over, until Ctrl-C.
    #[arg(long, requires = "scenario")]
    pub keep: bool,
    /// Run nothing but a cluster: API server, controllers and a node that has the images of
    /// `--images`, for `kubectl`, `helm`, or another demo with `--outside`.
    #[arg(long, requires = "images", conflicts_with_all = ["played", "repo", "state", "outside"])]
    pub cluster: bool,
    /// Log filter of controller and gateway; their logs are shown when the scenario fails.
    #[arg(long, default_value = "info")]
    pub log: String,
    /// What is measured.
    #[command(flatten)]
    pub bench: BenchArgs,
    /// Where real models are asked.
    #[command(flatten)]
    pub models: ModelArgs,
    /// Whose nodes run the product.
    #[command(flatten)]
    pub nodes: NodeArgs,
}

/// What the environment says about real models. Keys are no flags: others could see those.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Real models, with --repo")]
pub struct ModelArgs {
    /// Any OpenAI-compatible server instead of OpenRouter, such as `http://localhost:11434/v1`.
    #[arg(long = "model-url", env = "CODEBUTLER_MODEL_URL", value_name = "URL")]
    pub url: Option<String>,
    /// One model for all roles instead of each role's own. With --bench several may be given, to be
    /// compared.
    #[arg(long = "model", env = "CODEBUTLER_MODEL", value_name = "NAME")]
    pub model: Vec<String>,
    /// From `OPENROUTER_API_KEY`.
    #[arg(skip = secret_env("OPENROUTER_API_KEY"))]
    pub openrouter: SecretKey,
    /// From `CODEBUTLER_MODEL_KEY`.
    #[arg(skip = secret_env("CODEBUTLER_MODEL_KEY"))]
    pub key: SecretKey,
    /// From the customary variables of other providers.
    #[arg(skip = found::find_provider(|name| std::env::var(name).ok()))]
    pub found: Option<FoundProvider>,
}

fn secret_env(name: &str) -> SecretKey {
    SecretKey(std::env::var(name).ok())
}

impl DemoArgs {
    /// Asks for a provider at the terminal, where a repository is given and the environment names none.
    #[must_use]
    pub fn with_typed_provider(mut self) -> Self {
        let is_chat =
            self.repo.is_some() && self.scenario.is_none() && self.bench.tasks_folder().is_none();
        if is_chat && matches!(provider::given_provider(&self), Ok(None)) {
            self.models.found = typed::ask_provider();
        }
        self
    }

    fn source(&self) -> Option<CloneSource> {
        let from = self.repo.clone()?;
        Some(CloneSource { from, ..self.any_source() })
    }

    fn any_source(&self) -> CloneSource {
        CloneSource { from: String::new(), branch: self.branch.clone(), limit: self.repo_limit }
    }
}

/// Callback that prints text for people.
pub type PrintFn<'a> = &'a mut (dyn FnMut(&str) + Send);

/// The way in which a demo ended.
#[derive(Debug)]
pub enum DemoEnd {
    /// The scenario was played to its end.
    Played(Box<DemoSummary>),
    /// Interrupted with Ctrl-C before the end.
    Interrupted,
    /// Whoever talked on the chat page has had enough.
    Left,
    /// A bench was run; whether everything was as it must be.
    Measured(bool),
}

/// Plays `args.scenario`, or opens the chat page, with `program` as every process of the product.
///
/// # Errors
/// A mistake in the scenario, or a part of the testbed that does not start.
pub async fn run_demo(
    args: &DemoArgs,
    program: &Path,
    print: PrintFn<'_>,
) -> anyhow::Result<DemoEnd> {
    if let (true, Some(images)) = (args.cluster, &args.nodes.images) {
        standing::run_standing(images, program, print).await?;
        return Ok(DemoEnd::Left);
    }
    preflight::look_for_room(args.state.as_deref().unwrap_or(&std::env::temp_dir()))?;
    let Some(file) = &args.scenario else {
        Box::pin(chat::run_chat(args, program, print)).await?;
        return Ok(DemoEnd::Left);
    };
    let played = play_file(file, args, program, print).await?;
    Ok(played.map_or(DemoEnd::Interrupted, |summary| DemoEnd::Played(Box::new(summary))))
}

async fn play_file(
    file: &Path,
    args: &DemoArgs,
    program: &Path,
    print: PrintFn<'_>,
) -> anyhow::Result<Option<DemoSummary>> {
    let mut scenario = PlayableScenario::load(file)?;
    let dir = tempfile::Builder::new().prefix("codebutler-demo-").tempdir()?;
    let mut say = |text: &str| {
        if !args.json {
            print(text);
        }
    };
    say(&format!("{}: {}", scenario.name, scenario.description.trim()));
    let place = dir.path().join("stack");
    let mut surroundings = StackSurroundings::default();
    let (mut files, mut presets) = (PathBuf::new(), Vec::new());
    if let Some(source) = args.source() {
        say(&format!("cloning {} …", source.identity()));
        let cloned = source.clone_into(&repository_dir(&place, &source.name())).await?;
        cloned.notices.iter().for_each(|notice| say(&format!("notice: {notice}")));
        scenario.repository.branch = cloned.branch;
        scenario.repository.name = format!("{OWNER}/{}", source.name());
        surroundings.content = RepositoryContent::InPlace;
        let git = BareRepository::at(repository_dir(&place, &source.name()));
        let chosen = look_for_presets(&git, &scenario.repository.branch).await?;
        say(&format!("network: {}", describe_presets(&chosen)));
        presets = chosen.into_iter().map(|one| one.preset).collect();
    } else {
        files = files_of(&scenario, dir.path())?;
    }
    say(starting_words(args));
    let mut options = StackOptions { files, ..stack_options(&scenario, args, program, &place)? };
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        options.place = InstallPlace::own();
    }
    let servers = ScenarioServers::start(&scenario.servers).await?;
    let specs = servers.specs();
    let pages = Box::pin(ScenarioPages::start(&scenario.pages, dir.path())).await?;
    surroundings.proxies = pages.variables();
    surroundings.provider.pages = pages.found();
    let searches = !scenario.pages.is_empty();
    options.edit_repo = Some(Arc::new(move |repo| {
        repo.mcp_servers.extend(specs.iter().cloned());
        repo.egress.presets.clone_from(&presets);
        if searches {
            // The scripted provider has the search of OpenRouter.
            repo.model.api = Some(ModelApi::OpenRouter.into());
        }
    }));
    let stack = RunningStack::start_in(options, surroundings).await?;
    let lease = (!stack.place.is_usual()).then(|| stack.place.lease(&stack.cluster));
    say(&format!("export KUBECONFIG={}", stack.cluster.kubeconfig().display()));
    let at_work = stack.metrics.pages.map(|address| format!("at work: http://{address}/\n"));
    say(&format!("repository: {}\n{}", stack.remote.url(), at_work.unwrap_or_default()));

    let played = tokio::select! {
        played = play_on(&stack, &scenario, &mut say) => Some(played),
        () = await_interrupt() => None,
    };
    if let Some(Ok(summary)) = &played {
        say(&format!("\n{summary}"));
        if !summary.passed {
            show_logs(&stack, &mut say);
            let unready = describe_unready(stack.cluster.client(), &stack.place.team).await;
            if !unready.is_empty() {
                say(&format!("\n--- pods that are not ready\n{}", unready.join("\n")));
            }
        }
    }
    if args.keep && played.is_some() {
        say("\nleft running; Ctrl-C ends everything");
        await_interrupt().await;
    }
    stack.stop().await?;
    drop(lease);
    dir.close().context("removing the demo's folder")?;
    played.transpose()
}

async fn play_on(
    stack: &RunningStack,
    scenario: &PlayableScenario,
    say: &mut (dyn FnMut(&str) + Send),
) -> anyhow::Result<DemoSummary> {
    let roles = manifests::seed_roles(&stack.place, |_| None)?;
    let names: BTreeMap<String, String> =
        roles.into_iter().map(|r| (r.spec.display.name, r.spec.role)).collect();
    let world = StackWorld::new(stack, scenario, names);
    let mut transcript = DemoTranscript::default();
    let begun = Instant::now();
    let mut hear = |event| {
        if let Some(line) = transcript.line(&event) {
            say(&line);
        }
    };
    let report = play_scenario(scenario, &world, &mut hear).await?;
    Ok(DemoSummary::of(&scenario.name, &report, begun.elapsed().as_secs_f64()))
}

/// Text for people before anything has started.
fn starting_words(args: &DemoArgs) -> &'static str {
    if args.nodes.outside.is_some() {
        "starting Slack, model API and GitHub here, and the product on the cluster's nodes …"
    } else {
        "starting the embedded cluster, Slack, model API and GitHub on this machine: ready in some ten seconds; with four roles \
         at work it takes 700 MB of memory …"
    }
}

/// A folder with the files of the scenario's first commit.
fn files_of(scenario: &PlayableScenario, dir: &Path) -> anyhow::Result<PathBuf> {
    match &scenario.repository.content {
        FirstContent::Folder(folder) => Ok(folder.clone()),
        FirstContent::Files(files) => {
            let folder = dir.join("first-commit");
            for (path, text) in files {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
                std::fs::write(path, text)?;
            }
            Ok(folder)
        }
    }
}

/// A stack in `dir`, without the repository's files.
fn stack_options(
    scenario: &PlayableScenario,
    args: &DemoArgs,
    program: &Path,
    dir: &Path,
) -> anyhow::Result<StackOptions> {
    let name = scenario.repository.name.rsplit('/').next().unwrap_or_default();
    Ok(StackOptions {
        dir: dir.to_owned(),
        place: InstallPlace::usual(),
        program: program.to_owned(),
        name: name.to_owned(),
        users: scenario.users.clone(),
        roles: scenario.roles.clone(),
        branch: scenario.repository.branch.clone(),
        files: PathBuf::new(),
        script: scenario.models.clone(),
        idle_timeout_seconds: Some(scenario.settings.idle_timeout_seconds),
        debounce_seconds: scenario.settings.debounce_seconds,
        log: args.log.clone(),
        looks_back: scenario.settings.retrospective,
        edit_repo: None,
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: args.nodes.settle()?,
        pages: PagesAccess::Unlinked,
    })
}

fn show_logs(stack: &RunningStack, say: &mut (dyn FnMut(&str) + Send)) {
    for process in [&stack.controller, &stack.gateway] {
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let name = process.log().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        say(&format!("\n--- the {name}'s log ends"));
        say(&lines[lines.len().saturating_sub(20)..].join("\n"));
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn await_interrupt() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use codebutler_testbed::stack::kept::KeptFolder;

    use super::*;

    #[test]
    fn the_first_program_knows_each_option() {
        let command = DemoArgs::command();
        let own = command.get_arguments().filter_map(|one| {
            let takes_value = one.get_action().takes_values();
            Some((format!("--{}", one.get_long()?), takes_value))
        });
        let own: BTreeMap<String, bool> = own.collect();
        let known = codebutler_start::DEMO_OPTIONS.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(BTreeMap::from(known), own);
    }

    /// An option with a value that is one.
    fn option_words(name: &str, takes_value: bool) -> Vec<String> {
        let value = match name {
            "--outside" => "192.0.2.7",
            "--memory" => "on",
            "--solver" => "oracle",
            "--arm" => "now",
            "--budget" | "--patience" | "--repo-limit" | "--runs" => "20",
            "--window" => "9000",
            "--interject" | "--rule" => "Say `so` once.",
            _ => "x",
        };
        let value = takes_value.then(|| value.to_owned());
        [Some(name.to_owned()), value].into_iter().flatten().collect()
    }

    #[test]
    fn the_first_program_refuses_each_pair_of_options_that_the_demo_refuses() {
        let command = DemoArgs::command().mut_args(|one| one.env(None::<&'static str>));
        let env = |name: &str| (name == "KUBECONFIG").then(|| "/tmp/config".to_owned());
        let (mut refused, mut taken) = (0, 0);
        for (first, first_takes) in codebutler_start::DEMO_OPTIONS {
            for (second, second_takes) in codebutler_start::DEMO_OPTIONS {
                let mut words = option_words(first, first_takes);
                words.extend(option_words(second, second_takes));
                let line = std::iter::once("demo".to_owned()).chain(words.iter().cloned());
                let parsed = command.clone().try_get_matches_from(line);
                let behind_dashes = std::iter::once("--".to_owned()).chain(words);
                let judged = codebutler_start::judge_options(behind_dashes.map(Into::into), &env);
                match parsed {
                    Ok(_) => taken += 1,
                    Err(error) => {
                        refused += 1;
                        assert!(judged.is_some(), "{first} {second}: {error}");
                    }
                }
            }
        }
        assert!(refused > 100 && taken > 100, "{refused} {taken}");
    }

    #[test]
    fn the_first_program_knows_a_kept_demo_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptFolder::open(dir.path(), None, "the sample repository").unwrap();
        assert!(kept.dir().join(codebutler_start::KEPT).exists());
    }
}
