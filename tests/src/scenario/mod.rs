//! Scenario files: a whole conversation with expectations, in YAML.
//!
//! A file names a repository, the people, what they say and click, what each role's model answers
//! ([`crate::models::ModelScript`]), and what must be true at the end. [`PlayableScenario::load`] reads one and
//! says by line and field what is wrong with it; [`play_scenario`] plays it in a [`ScenarioWorld`]; [`evaluate`]
//! compares what was found with what was expected.

mod action;
mod collect;
mod evaluate;
mod evidence;
mod expect;
mod load;
mod message_match;
mod pages;
pub mod places;
mod player;
mod servers;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::action::{ScenarioAction, WaitCondition};
pub use self::collect::{collect_account, remote_state, run_in_checkout};
pub use self::evaluate::{ExpectationOutcome, evaluate_scenario};
pub use self::evidence::{
    CommandRun, ObservedWorld, ProviderAccount, RemoteState, ScenarioEvidence, SeenMessage,
    SeenReaction,
};
pub use self::expect::{
    BranchExpect, CommitExpect, CostExpect, ExpectedCommand, FileExpect, FilesExpect,
    MessageExpect, PullRequestExpect, ReactionExpect, ScenarioExpectations, ThreadExpect,
};
pub use self::load::{ScenarioError, scenario_schema};
pub use self::message_match::MessageMatch;
pub use self::pages::{ScenarioPage, ScenarioPages};
pub use self::player::{ScenarioReport, ScenarioWorld, WorldError, observe_in_time, play_scenario};
pub use self::servers::{ScenarioServer, ScenarioServers, ScenarioTool};
pub use self::watch::SpectatorEvent;
use crate::models::ModelScript;

/// A conversation to be played, and what must be true of it.
#[derive(Clone, Debug)]
pub struct PlayableScenario {
    /// Short name of the scenario.
    pub name: String,
    /// Explanation, for people, of the things that the scenario shows.
    pub description: String,
    /// The repository that it is about.
    pub repository: ScenarioRepository,
    /// Names of the people who take part.
    pub users: Vec<String>,
    /// Roles that work in the repository; the first one is addressed by default.
    pub roles: Vec<String>,
    /// Idle timeout, debounce and deadlines.
    pub settings: ScenarioSettings,
    /// MCP servers of the Repo whose tools roles may use.
    pub servers: Vec<ScenarioServer>,
    /// Pages of the web, which searches find and roles may open.
    pub pages: Vec<ScenarioPage>,
    /// Steps of the people, in order.
    pub conversation: Vec<ScenarioAction>,
    /// Scripted answers of the models.
    pub models: ModelScript,
    /// Expectations that must hold at the end.
    pub expect: ScenarioExpectations,
}

/// The repository of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioRepository {
    /// Name of the repository as `owner/name`.
    pub name: String,
    /// The branch that pull requests target.
    pub branch: String,
    /// For people: the main language.
    pub language: Option<String>,
    /// Content of the first commit.
    pub content: FirstContent,
}

/// Content of a repository's first commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstContent {
    /// A folder (absolute here, relative to the scenario in the file).
    Folder(PathBuf),
    /// Contents of the files by path.
    Files(BTreeMap<String, String>),
}

/// Timing of a scenario.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioSettings {
    /// How long a pod stays with nothing to do, in seconds.
    pub idle_timeout_seconds: u32,
    /// How long a user's burst of messages is gathered, in seconds.
    pub debounce_seconds: u32,
    /// How long a step of the conversation may wait for what it needs, in seconds.
    pub within: u64,
    /// How long the expectations may take to become true after the last step, in seconds.
    pub settle: u64,
    /// Roles look back before a merge, as they do in an installation.
    pub retrospective: bool,
}

impl Default for ScenarioSettings {
    fn default() -> Self {
        Self {
            idle_timeout_seconds: 300,
            debounce_seconds: 0,
            within: 60,
            settle: 15,
            retrospective: true,
        }
    }
}
