//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Shows what Repos and Threads do, cost, wait for and lack; stops them; sets up a team.
#[derive(Debug, Parser)]
#[command(name = "kubectl codebutler", bin_name = "kubectl codebutler", version)]
pub(crate) struct PluginArgs {
    /// Cluster and namespace of the command.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// The command to run, with its own flags.
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// Cluster and namespace that the plugin works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Namespace of the team; the context's if absent.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Looks at all namespaces, not at one.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Context of the kubeconfig; the current one if absent.
    #[arg(long, global = true)]
    pub context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Looks at the installation, Repos, roles and Threads, and says what is not ready and what to do. Ends with 1 if
    /// something is not.
    Doctor,
    /// Lists Threads with what they wait for and cost.
    Threads {
        /// Lists closed Threads, too.
        #[arg(long)]
        all: bool,
    },
    /// Prints a line whenever a Thread changes, until Ctrl-C.
    Watch,
    /// Says what each Repo has cost today, and what each Thread and role has cost.
    Cost,
    /// Says which questions of a Thread are open and where a person answers them: in Slack, so that it is known who
    /// did.
    Approve {
        /// Name of the Thread.
        thread: String,
    },
    /// Ends a Thread, or keeps a Repo from beginning anything new.
    Stop(StopArgs),
    /// Prints what a Thread's agent logs.
    Logs(LogsArgs),
    /// Asks for Slack, Git and model, and writes a team's manifests, or applies them.
    Init(Box<InitArgs>),
    /// Prints completions for a shell.
    Completions {
        /// Shell that the completions are for.
        shell: Shell,
    },
    /// Prints what may come next, for kubectl.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words so far, the last one unfinished.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// The Thread or Repo to stop.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The Thread: its pods go at once, and its conversation hears what remains.
    #[arg(required_unless_present = "repo")]
    pub thread: Option<String>,
    /// A Repo instead: running turns end, and nothing new begins (`spec.suspend`).
    #[arg(long, conflicts_with = "thread")]
    pub repo: Option<String>,
    /// Does not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
}

/// Thread and role whose logs are printed.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Name of the Thread.
    pub thread: String,
    /// The role; the active one if absent.
    #[arg(long)]
    pub role: Option<String>,
    /// Follows the log until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
}

/// Answers for a new team. Absent ones are asked for.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the manifests.
    #[arg(long, default_value = "codebutler-team")]
    pub dir: PathBuf,
    /// Applies the manifests instead of writing files.
    #[arg(long)]
    pub apply: bool,
    /// Namespace in which the installation runs.
    #[arg(long, default_value = "codebutler-system")]
    pub system: String,
    /// `https://host/owner/name`.
    #[arg(long)]
    pub git_url: Option<String>,
    /// Branch that pull requests target.
    #[arg(long, default_value = "main")]
    pub branch: String,
    /// Slack channel: an id such as C0123ABCD, or a name such as #shop.
    #[arg(long)]
    pub channel: Option<String>,
    /// Base URL of the model API.
    #[arg(long)]
    pub model_url: Option<String>,
    /// Egress presets, such as npm,pypi; empty for none.
    #[arg(long)]
    pub presets: Option<String>,
    /// Roles work also where agent pods reach their own node, as on EKS and kind (`spec.egress.allowOwnNode`).
    #[arg(long)]
    pub allow_own_node: bool,
    /// Bot token of the Slack app.
    #[arg(long, env = "SLACK_BOT_TOKEN", hide_env_values = true)]
    pub slack_bot_token: Option<String>,
    /// App token of the Slack app.
    #[arg(long, env = "SLACK_APP_TOKEN", hide_env_values = true)]
    pub slack_app_token: Option<String>,
    /// Access token for the Git host.
    #[arg(long, env = "GIT_TOKEN", hide_env_values = true)]
    pub git_token: Option<String>,
    /// Key of the model API; empty for a server that wants none.
    #[arg(long, env = "MODEL_API_KEY", hide_env_values = true)]
    pub model_key: Option<String>,
}
