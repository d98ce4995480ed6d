//! The world around the product: people's chat, the Git host and the models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codebutler_crds::model::ModelApi;

use super::earlier::EarlierBuild;
use super::kept::KeptLife;
use super::{StackError, StackOptions};
use crate::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};
use crate::kubelet::LocalImage;
use crate::models::{ModelOptions, ModelServer, OtherwiseAnswers};
use crate::serving::ListenAddress;
use crate::slack::{self, ChatSuggestion, SlackServer};

/// Owner of the team's repository on the embedded host.
pub const OWNER: &str = "acme";

/// The surroundings of a stack, besides its options: models, repository and saved state. `default()` is
/// a new world with scripted models.
#[derive(Debug, Default)]
pub struct StackSurroundings {
    /// Source of the models' answers.
    pub models: ModelSource,
    /// Source of the repository's content.
    pub content: RepositoryContent,
    /// Messages that the chat page offers to write.
    pub suggestions: Vec<ChatSuggestion>,
    /// State that the servers saved in an earlier run, if there was one.
    pub life: Option<KeptLife>,
    /// Configuration of the scripted models.
    pub provider: ModelOptions,
    /// Binary that pods run, where it is not the one that is every process of the product.
    pub agent: Option<PathBuf>,
    /// An earlier build whose operator and agents run, in place of those of the options' program.
    pub earlier: Option<EarlierBuild>,
    /// Variables of the gateway's environment that name its way out.
    pub proxies: Vec<(String, String)>,
    /// Images that the node has besides the product's own, by name.
    pub images: BTreeMap<String, LocalImage>,
    /// Number of leaders among which Repos are shared, where it is more than one: so many gateways run, and one more.
    pub shards: u16,
}

/// Source of the models' answers.
#[derive(Debug, Default)]
pub enum ModelSource {
    /// The script of the options; where it does not know how to go on, that is a failure.
    #[default]
    Scripted,
    /// The script of the options, with an answer that admits what the model can't do where the script
    /// does not know how to go on.
    Honest(OtherwiseAnswers),
    /// A model API outside, asked with its key.
    Real(ModelProvider),
}

/// An OpenAI-compatible model API.
#[derive(Clone)]
pub struct ModelProvider {
    /// Base URL, such as `https://openrouter.ai/api/v1`.
    pub url: String,
    /// API key that the provider accepts.
    pub key: String,
    /// One model for all roles instead of each role's own.
    pub model: Option<String>,
    /// The kind of the API, where its host does not tell.
    pub api: Option<ModelApi>,
}

impl std::fmt::Debug for ModelProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Source of the repository's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepositoryContent {
    /// A first commit of the options' files.
    #[default]
    Files,
    /// A bare repository that lies in its place already ([`repository_dir`]).
    InPlace,
}

/// Path of the bare repository below a stack's folder.
pub fn repository_dir(dir: &Path, name: &str) -> PathBuf {
    dir.join("git").join(OWNER).join(format!("{name}.git"))
}

/// The running outside world.
pub(super) struct OutsideWorld {
    pub slack: SlackServer,
    pub users: BTreeMap<String, String>,
    pub channel: String,
    pub github: GitHubServer,
    pub remote: DrivenRepository,
    pub models: ModelServer,
    pub first_commit: String,
}

fn part_error<E: Into<anyhow::Error>>(part: &'static str) -> impl Fn(E) -> StackError {
    move |source| StackError::Part { part, source: source.into() }
}

/// Starts it, as it was in an earlier life if there was one.
pub(super) async fn start_outside(
    options: &StackOptions,
    surroundings: &StackSurroundings,
) -> Result<OutsideWorld, StackError> {
    let StackSurroundings { models, content, suggestions, life, provider, .. } = surroundings;
    let life = life.as_ref();
    let ports = life.map(|life| life.ports).unwrap_or_default();
    let address = options.nodes.as_ref().map(|nodes| nodes.address);
    let at = |port| ListenAddress { address, port };
    let slack = SlackServer::start(slack::SlackOptions {
        world: life.map(|life| life.workspace.clone()),
        at: at(ports.slack),
        page_token: life.map(|life| life.page_token.clone()),
        suggestions: suggestions.clone(),
        ..slack::SlackOptions::default()
    })
    .await
    .map_err(part_error("Slack"))?;
    let users = options.users.iter().map(|name| (name.clone(), slack.ensure_user(name)));
    let users: BTreeMap<String, String> = users.collect();
    let mut members: Vec<&str> = users.values().map(String::as_str).collect();
    let bot = slack.bot_user_id();
    members.push(&bot);
    let channel = slack.ensure_channel(&options.name, &members);

    let host = GitHubOptions { at: at(ports.github), ..GitHubOptions::default() };
    let github =
        GitHubServer::start(&options.dir.join("git"), host).await.map_err(part_error("GitHub"))?;
    let first = match (content, life) {
        (RepositoryContent::Files, None) => FirstCommit::Folder(options.files.clone()),
        _ => FirstCommit::Existing,
    };
    let remote = github
        .create_repo(OWNER, &options.name, first, &options.branch)
        .await
        .map_err(part_error("GitHub"))?;
    let first_commit = match life {
        Some(life) => {
            github.restore(life.host.clone()).await;
            life.first_commit.clone()
        }
        None => remote.head(&options.branch).await.unwrap_or_default(),
    };
    let otherwise = match models {
        ModelSource::Honest(otherwise) => Some(otherwise.clone()),
        ModelSource::Scripted | ModelSource::Real(_) => None,
    };
    let models = ModelOptions { otherwise, at: at(ports.models), ..provider.clone() };
    let models = ModelServer::start(options.script.clone(), models)
        .await
        .map_err(part_error("model server"))?;
    Ok(OutsideWorld { slack, users, channel, github, remote, models, first_commit })
}
