//! `kubectl codebutler`: reads Repos, AgentRoles and Threads with the rights of its user, and says what they do,
//! cost, wait for and lack. It holds no credential of its own; what it prints of objects was written by others and
//! loses its control characters first.

mod answer_limit;
mod approve;
mod args;
mod cluster;
mod complete;
mod cost;
mod doctor;
mod explain;
mod finding;
mod init;
mod installation;
mod logs;
mod nodes;
mod proxy;
mod stop;
mod table;
mod threads;
mod watch;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use self::args::{PluginArgs, PluginCommand};
use self::cluster::TeamCluster;

/// Actions for which `edit` in the namespace is not enough.
const MAKE_NAMESPACE: &str = "make the namespace";
const BIND_SECRETS: &str = "let the gateway read Secrets";

/// Remedy for whoever lacks the right to an action.
fn advise(what: &str) -> &'static str {
    match what {
        MAKE_NAMESPACE => "Ask an administrator to create it, and start again with it as -n",
        BIND_SECRETS => "Ask for the role `admin` in the namespace, which may bind roles there",
        _ => "Ask for the role `view` or `edit` in the namespace, or name another one with -n",
    }
}

/// A command could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// No cluster is configured.
    #[error(
        "no cluster is configured: {0}. `kubectl config get-contexts` lists those that are, and KUBECONFIG names another file"
    )]
    NoKubeconfig(String),
    /// The configured cluster does not answer.
    #[error(
        "the cluster can't be reached: {0}. See that it runs, or choose another one with `kubectl config use-context`"
    )]
    NoCluster(String),
    /// The kubeconfig's credentials can't be had, such as from a program that is not installed.
    #[error(
        "the credentials of this context can't be had: {0}. Sign in again, and see that the program that the kubeconfig names \
         for it is installed"
    )]
    NoCredentials(String),
    /// What answers is of another version, or no API server.
    #[error(
        "{what} failed: this plugin ({version}) does not understand what the cluster answers: {said}. Install the plugin of the \
         version that runs there; or something else answers in the cluster's place, such as a proxy's page",
        version = env!("CARGO_PKG_VERSION")
    )]
    NotUnderstood {
        /// The attempted action, in words.
        what: String,
        /// Message of the parser.
        said: String,
    },
    /// The credentials of the kubeconfig are no longer taken.
    #[error(
        "the cluster does not take the credentials of this context: sign in again, as for kubectl (`kubectl auth whoami` shows it)"
    )]
    NotSignedIn,
    /// The definitions are missing.
    #[error(
        "the cluster has no resources of codebutler.dev: install the charts first (`helm install codebutler-crds …`, then \
         `helm install codebutler …`)"
    )]
    NotInstalled,
    /// The user may not do that.
    #[error("you may not {what}: {said}. {}", advise(.what))]
    Forbidden {
        /// The attempted action, in words.
        what: String,
        /// Message of the API server.
        said: String,
    },
    /// No object has that name.
    #[error("{0}")]
    NotFound(String),
    /// Something that was typed.
    #[error("{0}")]
    Input(String),
    /// The API server failed in another way.
    #[error("{what} failed: {said}")]
    Kube {
        /// The attempted action, in words.
        what: String,
        /// Message of the API server.
        said: String,
    },
    /// A file or the terminal can't be used.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action, in words.
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl PluginError {
    /// Builds an error of a file or the terminal.
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Input and output of the plugin.
pub struct PluginTerminal<'a> {
    pub input: &'a mut (dyn Read + Send),
    pub output: &'a mut (dyn Write + Send),
}

impl PluginTerminal<'_> {
    /// Prints a line.
    ///
    /// # Errors
    /// When the output is closed.
    fn say(&mut self, line: &str) -> Result<(), PluginError> {
        writeln!(self.output, "{line}").map_err(PluginError::io("printing"))
    }
}

/// The plugin's command line, for tests of what pages say about it.
pub fn plugin_command() -> clap::Command {
    PluginArgs::command()
}

/// Runs the plugin as `argv` says. It ends with 0 if all is well, with 1 if something is not ready, with 2 if it
/// could not do what was asked.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = match PluginArgs::try_parse_from(argv) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    let mut terminal = PluginTerminal { input: &mut input, output: &mut output };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime
        .map_err(PluginError::io("starting"))
        .and_then(|runtime| runtime.block_on(run_plugin(parsed, &mut terminal)));
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            // Parts of it may be the words of others.
            let said = table::plain(&error.to_string());
            let _ = writeln!(std::io::stderr(), "kubectl codebutler: {said}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command; true if nothing has to be corrected.
async fn run_plugin(
    args: PluginArgs,
    terminal: &mut PluginTerminal<'_>,
) -> Result<bool, PluginError> {
    match args.command {
        PluginCommand::Completions { shell } => {
            let mut command = PluginArgs::command();
            clap_complete::generate(
                shell,
                &mut command,
                "kubectl-codebutler",
                &mut terminal.output,
            );
            return Ok(true);
        }
        PluginCommand::Complete { words } => {
            return complete::run_complete(&PluginArgs::command(), &words, terminal).map(|()| true);
        }
        PluginCommand::Init(wanted) if !wanted.apply => {
            return init::run_init(&wanted, None, args.place.namespace.as_deref(), terminal)
                .await
                .map(|()| true);
        }
        _ => {}
    }
    let cluster = TeamCluster::connect(&args.place).await?;
    match args.command {
        PluginCommand::Doctor => return doctor::run_doctor(&cluster, terminal).await,
        PluginCommand::Threads { all } => threads::run_threads(&cluster, all, terminal).await?,
        PluginCommand::Watch => watch::run_watch(&cluster, terminal).await?,
        PluginCommand::Cost => cost::run_cost(&cluster, terminal).await?,
        PluginCommand::Approve { thread } => {
            approve::run_approve(&cluster, &thread, terminal).await?;
        }
        PluginCommand::Stop(wanted) => stop::run_stop(&cluster, &wanted, terminal).await?,
        PluginCommand::Logs(wanted) => logs::run_logs(&cluster, &wanted, terminal).await?,
        PluginCommand::Init(wanted) => {
            // Before eight questions whose answers nobody could take.
            cluster.require_product().await?;
            let namespace = args.place.namespace.as_deref();
            init::run_init(&wanted, Some(&cluster), namespace, terminal).await?;
        }
        PluginCommand::Completions { .. } | PluginCommand::Complete { .. } => {}
    }
    Ok(true)
}
