//! Flags and environment, parsed once. Nothing else in this crate reads the environment.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use codebutler_controller::args::ControllerArgs;
use codebutler_gateway::args::GatewayArgs;
use codebutler_gateway_core::dial::DialOptions;
use codebutler_history::ThreadPlace;
use codebutler_runtime::args::TelemetryArgs;
use url::Url;

/// Command line of `codebutler-operator`.
#[derive(Debug, Parser)]
#[command(name = "codebutler-operator", version)]
pub struct OperatorArgs {
    /// Options of logging and tracing.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Process to run, or page to print.
    #[command(subcommand)]
    pub command: OperatorCommand,
}

/// The two processes, and their documentation.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Turns Repos, AgentRoles and Threads into pods and volumes.
    Controller(Box<ControllerArgs>),
    /// Holds the secrets: Slack, model APIs, Git and GitHub go through it.
    Gateway(Box<GatewayCommand>),
    /// Prints the list of metrics as a Markdown page.
    Metrics,
    /// Prints what happened in a conversation, or takes somebody's words out of all that are kept.
    History(Box<HistoryArgs>),
}

/// Output format of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HistoryForm {
    /// Lines as they are kept: one JSON object each.
    #[default]
    Lines,
    /// One JSON object in the Agent Trajectory Interchange Format.
    Atif,
}

impl OperatorCommand {
    /// Service name of the process in its traces.
    pub const fn service(&self) -> &'static str {
        match self {
            Self::Controller(_) => "codebutler-controller",
            Self::Gateway(_) | Self::Metrics | Self::History(_) => "codebutler-gateway",
        }
    }
}

/// Options of the command that prints or cleans histories.
#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// The conversation: NAMESPACE/THREAD.
    #[arg(required_unless_present = "forget")]
    pub thread: Option<ThreadPlace>,
    /// Object store of histories, as the gateway's flag has it.
    #[arg(long, env = "CODEBUTLER_HISTORY_URL")]
    pub history_url: Option<Url>,
    /// Connections to the outside.
    #[command(flatten)]
    pub dial: DialOptions,
    /// Output format of the history.
    #[arg(long, value_enum, default_value_t)]
    pub form: HistoryForm,
    /// Takes out of all histories what this Slack user said, and what quotes it, instead.
    #[arg(long, value_name = "USER", conflicts_with = "thread", value_parser = slack_user)]
    pub forget: Option<String>,
    /// Folder that holds the histories.
    #[arg(long, env = "CODEBUTLER_HISTORY", default_value = "/var/lib/codebutler/history")]
    pub history: PathBuf,
}

/// A text is no id of a Slack user.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("give a Slack user id, such as U0123ABCD")]
struct SlackUserError;

fn slack_user(value: &str) -> Result<String, SlackUserError> {
    let plain = value.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if plain && (3..=21).contains(&value.len()) && value.starts_with(['U', 'W']) {
        return Ok(value.to_owned());
    }
    Err(SlackUserError)
}

/// The gateway, and what its node is trusted with.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewayCommand {
    /// Configuration of the gateway.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// Runs git also where the kernel has no Landlock: a mistake in it reaches what the container holds.
    #[arg(long, env = "CODEBUTLER_GIT_WITHOUT_LANDLOCK")]
    pub git_without_landlock: bool,
}
