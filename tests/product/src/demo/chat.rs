//! The demo without a scenario: people talk to the product on the chat page.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::presets::{describe_presets, look_for_presets};
use super::provider::{self, AskedProvider, ProviderError};
use super::repository::{CloneSource, ClonedRepository};
use super::samples::{self, SampleScripts};
use super::{DemoArgs, PrintFn, await_interrupt, files_of, found, spent, starting_words, typed};
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::scenario::PlayableScenario;
use codebutler_testbed::stack::kept::KeptFolder;
use codebutler_testbed::stack::outside::{
    ModelSource, RepositoryContent, StackSurroundings, repository_dir,
};
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions, manifests};

/// Name of the sample repository, as a kept folder records it.
const SAMPLE: &str = "the sample repository";
/// Names of the people on the chat page.
const PEOPLE: [&str; 2] = ["ana", "ben"];
/// Interval at which failures are looked for and the state is saved.
const LOOK: Duration = Duration::from_secs(1);

/// Configuration of the stack, and the texts that describe it.
struct DemoTopic {
    options: StackOptions,
    surroundings: StackSurroundings,
    words: TopicWords,
}

/// Texts that describe the stack to the reader.
struct TopicWords {
    /// Name of the repository, for people.
    about: String,
    model: String,
    /// Hosts that commands connect to, for people. None: there is nothing to fetch.
    network: Option<String>,
    notices: Vec<String>,
}

/// Starts everything and runs until Ctrl-C.
pub(super) async fn run_chat(
    args: &DemoArgs,
    program: &Path,
    say: PrintFn<'_>,
) -> anyhow::Result<()> {
    let temporary = tempfile::Builder::new().prefix("codebutler-demo-").tempdir()?;
    let source = args.source();
    let mut kept = open_kept(args, source.as_ref())?;
    let dir = kept.as_ref().map_or_else(|| temporary.path().join("stack"), |k| k.dir().to_owned());
    let life = kept.as_mut().and_then(KeptFolder::take);
    let again = life.is_some();
    // A kept demo knows what it is about.
    let source = source.or_else(|| {
        let from = kept.as_ref()?.source();
        (from != SAMPLE).then(|| CloneSource { from: from.to_owned(), ..args.any_source() })
    });
    let mut topic = match &source {
        None => sample_topic(args, program, temporary.path(), &dir)?,
        Some(source) => {
            own_topic(
                args,
                program,
                source,
                &dir,
                life.as_ref().map(|l| l.branch.clone()),
                &mut *say,
            )
            .await?
        }
    };
    topic.surroundings.life = life;

    say(starting_words(args));
    if topic.options.nodes.is_some() {
        // The cluster stays: nothing of this may.
        topic.options.place = InstallPlace::own();
    }
    let real = matches!(topic.surroundings.models, ModelSource::Real(_));
    let DemoTopic { options, surroundings, words } = topic;
    let mut stack = RunningStack::start_in(options, surroundings).await?;
    let lease = (!stack.place.is_usual()).then(|| stack.place.lease(&stack.cluster));
    say(&write_welcome(&stack, &words, kept.as_ref(), again));
    let ended = tokio::select! {
        () = await_interrupt() => Ok(()),
        () = tell_failures(&stack, &mut *say) => Ok(()),
        failed = save_often(&stack, kept.as_mut()) => failed,
    };
    say("\nending everything …");
    // A gateway puts on record what it has not yet when it ends.
    stack.stop_product().await?;
    if real {
        let table = spent::spent_table(&stack).await.context("reading what was spent")?;
        say(table.as_deref().unwrap_or("spent: nothing, no model was called"));
    }
    stack.stop_and_keep(kept.as_mut()).await?;
    drop(lease);
    if let Some(kept) = kept {
        say(&format!("kept in {}: start with the same --state to go on", kept.dir().display()));
    }
    temporary.close().context("removing the demo's folder")?;
    ended
}

fn open_kept(args: &DemoArgs, source: Option<&CloneSource>) -> anyhow::Result<Option<KeptFolder>> {
    let Some(dir) = &args.state else { return Ok(None) };
    for name in ["KUBECONFIG", "KUBEBUILDER_ASSETS"] {
        if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
            bail!("--state keeps the embedded API server's objects: unset {name} to use it");
        }
    }
    let wanted = source.map(CloneSource::identity);
    Ok(Some(KeptFolder::open(dir, wanted.as_deref(), SAMPLE)?))
}

/// The sample repository and the scripted model.
fn sample_topic(
    args: &DemoArgs,
    program: &Path,
    dir: &Path,
    stack: &Path,
) -> anyhow::Result<DemoTopic> {
    let (mut scenario, SampleScripts { script, suggestions, otherwise }) = samples::load_samples()?;
    let people = PEOPLE.map(str::to_owned).into_iter().filter(|p| !scenario.users.contains(p));
    scenario.users.extend(people.collect::<Vec<_>>());
    let mut options = stack_options(args, program, &scenario, stack)?;
    options.files = files_of(&scenario, dir)?;
    options.script = script;
    let unused = provider::given_provider(args)?.map(|_| "; a key is set, --repo would use it");
    let model = format!(
        "scripted: it plays the {} sample tasks that the page offers{}",
        suggestions.len(),
        unused.unwrap_or_default()
    );
    let models = ModelSource::Honest(otherwise);
    options.edit_repo = Some(Arc::new(|repo| repo.slack.offer_learning = true));
    let surroundings = StackSurroundings { models, suggestions, ..StackSurroundings::default() };
    let about = "a sample".to_owned();
    let words = TopicWords { about, model, network: None, notices: Vec::new() };
    Ok(DemoTopic { options, surroundings, words })
}

/// A repository of the user's own, with real models if there is a key.
async fn own_topic(
    args: &DemoArgs,
    program: &Path,
    source: &CloneSource,
    dir: &Path,
    kept_branch: Option<String>,
    say: PrintFn<'_>,
) -> anyhow::Result<DemoTopic> {
    let name = source.name();
    let provider = match provider::given_provider(args)? {
        Some(asked) => Some(settle_provider(asked, &mut *say).await?),
        None => None,
    };
    let place = repository_dir(dir, &name);
    let cloned = if let Some(branch) = kept_branch {
        ClonedRepository { branch, notices: Vec::new() }
    } else {
        say(&format!("cloning {} …", source.identity()));
        // Left by a start that got no further.
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        source.clone_into(&place).await?
    };
    let chosen = look_for_presets(&BareRepository::at(&place), &cloned.branch).await?;
    let SampleScripts { script, suggestions, otherwise } = samples::unknown_repository(&name);
    let (models, model, script, suggestions) = match provider {
        Some(asked) => {
            let whose = asked.provider.model.clone();
            let model = format!(
                "real: {} at {}; what it costs is said in each thread and at the end",
                whose.unwrap_or_else(|| "each role's own model".to_owned()),
                asked.host
            );
            (ModelSource::Real(asked.provider), model, ModelScript::default(), Vec::new())
        }
        None => (
            ModelSource::Honest(otherwise),
            "scripted: it can look around and no more; set OPENROUTER_API_KEY, the key of another \
             provider or CODEBUTLER_MODEL_URL for real ones (see --help)"
                .to_owned(),
            script,
            suggestions,
        ),
    };
    let (mut scenario, _) = samples::load_samples()?;
    scenario.users = PEOPLE.map(str::to_owned).to_vec();
    if matches!(models, ModelSource::Real(_)) {
        let all = manifests::seed_roles(&InstallPlace::usual(), |_| None)?
            .into_iter()
            .map(|role| role.spec.role);
        scenario.roles = put_first("pm", all.collect());
    }
    let mut options = stack_options(args, program, &scenario, dir)?;
    options.name = name;
    options.branch = cloned.branch;
    options.script = script;
    let presets: Vec<_> = chosen.iter().map(|one| one.preset).collect();
    options.edit_repo = Some(Arc::new(move |repo| {
        repo.egress.presets.clone_from(&presets);
        repo.slack.offer_learning = true;
    }));
    let content = RepositoryContent::InPlace;
    let proxies = found::proxy_variables(|name| std::env::var(name).ok());
    let surroundings =
        StackSurroundings { models, content, suggestions, proxies, ..StackSurroundings::default() };
    let about = format!("a clone of {}, which is never written to", source.identity());
    let network = Some(describe_presets(&chosen));
    let words = TopicWords { about, model, network, notices: cloned.notices };
    Ok(DemoTopic { options, surroundings, words })
}

/// The provider with a model that it has. Where it lacks what was named, somebody at a terminal may choose: a
/// key that was typed is not typed twice.
async fn settle_provider(asked: AskedProvider, say: PrintFn<'_>) -> anyhow::Result<AskedProvider> {
    say(&format!("models: {} (named by {})", asked.host, asked.variable()));
    let roles = manifests::seed_roles(&InstallPlace::usual(), |_| None)?;
    let named = asked.provider.model.is_some();
    let asked = asked.with_fitting_model(&roles).await?;
    if let Some(model) = asked.provider.model.as_ref().filter(|_| !named) {
        say(&format!("model: {model} for all roles (CODEBUTLER_MODEL names another)"));
    }
    match asked.check(&roles).await {
        Ok(()) => Ok(asked),
        Err(ProviderError::Model { host, models, offered, all }) => {
            match typed::ask_model(&host, &models, &all) {
                Some(model) => Ok(asked.with(Some(model))),
                None => Err(ProviderError::Model { host, models, offered, all }.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves one of the names to the front.
fn put_first(name: &str, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|other| other != name);
    names
}

fn stack_options(
    args: &DemoArgs,
    program: &Path,
    scenario: &PlayableScenario,
    dir: &Path,
) -> anyhow::Result<StackOptions> {
    let mut options = super::stack_options(scenario, args, program, dir)?;
    options.pages = PagesAccess::Open;
    // A person's burst of messages is one request.
    options.debounce_seconds = options.debounce_seconds.max(1);
    Ok(options)
}

fn write_welcome(
    stack: &RunningStack,
    words: &TopicWords,
    kept: Option<&KeptFolder>,
    again: bool,
) -> String {
    let TopicWords { about, model, network, notices } = words;
    let page = stack.slack.page_url();
    let kubeconfig = stack.cluster.kubeconfig().display();
    let repository = stack.remote.git().dir().display();
    let branch = &stack.branch;
    let mut text = format!(
        "\nchat page:   {page}\n\
         cluster:     export KUBECONFIG={kubeconfig}\n             kubectl get threads -A -w\n\
         repository:  {repository}\n             {about}; branch {branch}\n\
         model:       {model}\n"
    );
    if let Some(pages) = stack.metrics.pages {
        let _ = writeln!(
            text,
            "at work:     http://{pages}/\n             each thread, step by step, with what it costs"
        );
    }
    if let Some(network) = network {
        let _ = writeln!(text, "network:     {network}");
    }
    if !stack.cluster.is_embedded() {
        text.push_str("             the cluster is a real one, named by your environment\n");
    }
    for notice in notices {
        let _ = writeln!(text, "notice:      {notice}");
    }
    if let Some(kept) = kept {
        let how = if again { "went on from" } else { "keeps everything in" };
        let _ = writeln!(text, "state:       {how} {}", kept.dir().display());
    }
    text.push_str("\nOpen the chat page and pick a suggestion, or write what you need.\n");
    text.push_str(match kept {
        Some(_) => "Ctrl-C ends everything and keeps it for the next start.",
        None => "Ctrl-C ends everything and leaves nothing.",
    });
    text
}

/// Prints when a conversation has left the script, as nothing else would show it. Never returns.
async fn tell_failures(stack: &RunningStack, say: PrintFn<'_>) {
    let mut told = 0;
    loop {
        let failures = stack.models.failures();
        for failure in failures.iter().skip(told) {
            say(&format!("the script does not know how to go on: {failure}"));
        }
        told = told.max(failures.len());
        tokio::time::sleep(LOOK).await;
    }
}

/// Saves now and then, so that even a crash loses little. Ends only if that fails.
async fn save_often(stack: &RunningStack, kept: Option<&mut KeptFolder>) -> anyhow::Result<()> {
    let Some(kept) = kept else { return std::future::pending().await };
    loop {
        kept.save(stack).await?;
        tokio::time::sleep(LOOK).await;
    }
}
