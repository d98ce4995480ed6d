//! Flags and environment, parsed once. Nothing else in this crate reads the environment (the
//! toolbox passes its own on to commands).

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use codebutler_browser::{ColorScheme, ScreenSize};
use codebutler_wire::pod;

use crate::experiment::PromptExperiment;
use crate::sandbox::SandboxMode;

/// Path at which a container sees its own control group.
const CGROUP: &str = "/sys/fs/cgroup";

/// The command line of `codebutler-agent`.
#[derive(Debug, Parser)]
#[command(name = "codebutler-agent", version)]
pub struct AgentArgs {
    /// `tracing` filter, such as `info` or `codebutler_agent=debug,info`.
    #[arg(long, env = "CODEBUTLER_LOG", default_value = "info", global = true)]
    pub log: String,
    /// Format of log lines.
    #[arg(long, env = "CODEBUTLER_LOG_FORMAT", value_enum, default_value_t, global = true)]
    pub log_format: LogFormat,
    /// Part of the pod that this process is.
    #[command(subcommand)]
    pub command: AgentCommand,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain lines for people to read.
    #[default]
    Text,
    /// One object a line, with thread and role in each.
    Json,
}

/// The parts of an agent pod.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// The agent's loop: talks to the gateway and calls tools.
    Run(Box<RunArgs>),
    /// Files, Git and commands, on behalf of the loop.
    Toolbox(ToolboxArgs),
    /// Liveness probe of the agent's loop: exits with 0 if it still turns, with 1 if not; started by the kubelet.
    #[command(hide = true)]
    Alive(AliveArgs),
    /// Startup probe of a pod that waits for a Thread: exits with 0 once it has a clone; started by the kubelet.
    #[command(hide = true)]
    Cloned(ClonedArgs),
    /// One command in its sandbox; started by the toolbox.
    #[command(hide = true)]
    Exec(ExecArgs),
    /// A document on standard input as text; started by the toolbox.
    #[command(hide = true)]
    ReadDocument(ReadDocumentArgs),
    /// Pictures of a page of a server of this pod; started by the toolbox.
    #[command(hide = true)]
    Screenshot(ScreenshotArgs),
    /// Puts this binary into a folder; started in the pod of a server.
    #[command(hide = true)]
    McpInstall(InstallArgs),
    /// The program of a server behind a socket; started in the pod of a server.
    #[command(hide = true)]
    McpServer(HostArgs),
    /// The connection of a server to the gateway; started in the pod of a server.
    #[command(hide = true)]
    McpBridge(BridgeArgs),
    /// Checks a repository's `.codebutler/`: 0 if nothing is wrong, 1 if something is.
    Validate(ValidateArgs),
    /// Writes the `.codebutler/` that a repository begins with.
    Init(InitArgs),
    /// Says what commands would be taken for: whether they run, run after a snapshot, or ask people first.
    Policy(PolicyArgs),
}

/// Destination of the binary.
#[derive(Clone, Debug, clap::Args)]
pub struct InstallArgs {
    /// Folder to copy the binary to.
    pub dir: PathBuf,
}

/// The configuration of a server's own container.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// Unix socket to listen on.
    #[arg(long, default_value = pod::SERVER_SOCKET)]
    pub socket: PathBuf,
    /// The sandbox of the program.
    #[arg(long, value_enum, default_value_t = SandboxMode::Landlock)]
    pub sandbox: SandboxMode,
    /// Folders in which it may do anything.
    #[arg(long)]
    pub write: Vec<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

impl HostArgs {
    /// Arguments with which `exec` starts the program.
    pub fn exec(&self) -> ExecArgs {
        ExecArgs {
            sandbox: self.sandbox,
            write: self.write.clone(),
            read: Vec::new(),
            hide: Vec::new(),
            command: self.command.clone(),
        }
    }
}

/// The bridge's configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct BridgeArgs {
    /// URL of the gateway. TLS is verified by this name.
    #[arg(long, env = "CODEBUTLER_GATEWAY")]
    pub gateway: String,
    /// Address of the gateway: there is no DNS in the pod.
    #[arg(long, env = "CODEBUTLER_GATEWAY_ADDRESS")]
    pub gateway_address: Option<SocketAddr>,
    /// The pod's projected token.
    #[arg(long, default_value = pod::TOKEN_FILE, hide = true)]
    pub token_file: PathBuf,
    /// The gateway's CA bundle, the only one that is trusted.
    #[arg(long, default_value = pod::CA_FILE, hide = true)]
    pub ca_file: PathBuf,
    /// The socket of the server's container.
    #[arg(long, default_value = pod::SERVER_SOCKET, hide = true)]
    pub socket: PathBuf,
    /// Address that the relay listens on.
    #[arg(long, default_value = pod::RELAY, hide = true)]
    pub relay: SocketAddr,
}

/// Configuration of the liveness probe.
#[derive(Clone, Debug, clap::Args)]
pub struct AliveArgs {
    /// The folder that the loop shares.
    #[arg(long)]
    pub share: PathBuf,
    /// Seconds within which it has to have been heard.
    #[arg(long, default_value_t = 120)]
    pub within: u64,
}

/// Configuration of the startup probe.
#[derive(Clone, Debug, clap::Args)]
pub struct ClonedArgs {
    /// The folder that the loop shares.
    #[arg(long)]
    pub share: PathBuf,
}

/// Target folder and test commands of `init`.
#[derive(Clone, Debug, clap::Args)]
pub struct InitArgs {
    /// Root of the repository.
    pub dir: PathBuf,
    /// A command that builds, tests or checks the project: it is run here, and written down if it ends with 0.
    /// May be given several times.
    #[arg(long, value_name = "COMMAND")]
    pub run: Vec<String>,
}

/// The loop's configuration. Paths are those of the pod unless a test says otherwise.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// URL of the gateway, `https://<service>.<namespace>.svc:<port>`. TLS is verified by this name.
    #[arg(long, env = "CODEBUTLER_GATEWAY")]
    pub gateway: String,
    /// Address of the gateway: there is no DNS in the pod.
    #[arg(long, env = "CODEBUTLER_GATEWAY_ADDRESS")]
    pub gateway_address: Option<SocketAddr>,
    /// The API server's address, which must not be reachable. The platform sets both.
    #[arg(long, env = "KUBERNETES_SERVICE_HOST", hide = true)]
    pub forbidden_host: Option<IpAddr>,
    /// Port of the API server.
    #[arg(long, env = "KUBERNETES_SERVICE_PORT", default_value_t = 443, hide = true)]
    pub forbidden_port: u16,
    /// The node's own address, which must not be reachable either.
    #[arg(long, env = "CODEBUTLER_NODE", hide = true)]
    pub forbidden_node: Option<IpAddr>,
    /// The cluster's DNS servers, which must not be reachable either: the pod has no resolver.
    #[arg(long, value_delimiter = ',', hide = true)]
    pub forbidden_dns: Vec<IpAddr>,
    /// Seconds that a network plugin may take to close the pod's ways out.
    #[arg(long, env = "CODEBUTLER_WALL_SECONDS", default_value_t = 10, hide = true)]
    pub wall_grace: u64,
    /// The folder where the toolbox's container waits for this binary.
    #[arg(long, value_name = "DIR", hide = true)]
    pub share: Option<PathBuf>,
    /// Nobody has written yet: wait until a Thread takes the pod, with a clone of the base branch.
    #[arg(long, hide = true)]
    pub seat: bool,
    /// Only clone the base branch and set it up, for volumes that are made from this one; then end.
    #[arg(long, hide = true, conflicts_with = "seat")]
    pub prepare: bool,
    /// The role, for the log and the place of the transcript; the gateway knows it from the token.
    #[arg(long, env = "CODEBUTLER_ROLE", default_value = "agent")]
    pub role: String,
    /// Name of the Thread, for the log.
    #[arg(long, env = "CODEBUTLER_THREAD", default_value = "")]
    pub thread: String,
    /// The pod's projected token.
    #[arg(long, default_value = pod::TOKEN_FILE, hide = true)]
    pub token_file: PathBuf,
    /// The gateway's CA bundle, the only one that is trusted.
    #[arg(long, default_value = pod::CA_FILE, hide = true)]
    pub ca_file: PathBuf,
    /// Unix socket of the toolbox.
    #[arg(long, default_value = pod::SOCKET, hide = true)]
    pub socket: PathBuf,
    /// Transcripts, one folder per role.
    #[arg(long, default_value = pod::STATE_DIR, hide = true)]
    pub state_dir: PathBuf,
    /// Address that the relay listens on; if the port is taken, any free one.
    #[arg(long, default_value = pod::RELAY, hide = true)]
    pub relay: SocketAddr,
    /// Seconds after which people are told that something takes long.
    #[arg(long, env = "CODEBUTLER_TELL_AFTER_SECONDS", default_value_t = 10, hide = true)]
    pub tell_after: u64,
    /// Seconds that a model's provider is waited for.
    #[arg(long, env = "CODEBUTLER_MODEL_PATIENCE_SECONDS", default_value_t = 1800, hide = true)]
    pub model_patience: u64,
    /// Seconds that a set-up of the worktree may take.
    #[arg(long, env = "CODEBUTLER_SETUP_SECONDS", default_value_t = 900, hide = true)]
    pub setup_limit: u32,
    /// For measurements with models: what is done otherwise than usual.
    #[arg(long, env = "CODEBUTLER_EXPERIMENT", value_enum, value_delimiter = ',', hide = true)]
    pub experiment: Vec<PromptExperiment>,
    /// For crash tests: kill this process with SIGKILL at the n-th step point.
    #[arg(long, env = "CODEBUTLER_DIE_AT_STEP", hide = true)]
    pub die_at_step: Option<u64>,
}

/// The toolbox's configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ToolboxArgs {
    /// Unix socket to listen on.
    #[arg(long, default_value = pod::SOCKET, hide = true)]
    pub socket: PathBuf,
    /// The volume's part with the worktree (in `tree/`).
    #[arg(long, default_value = pod::WORK_DIR, hide = true)]
    pub work_dir: PathBuf,
    /// Sandbox that confines commands.
    #[arg(long, value_enum, default_value_t = SandboxMode::Landlock)]
    pub sandbox: SandboxMode,
    /// Access that commands have to the worktree.
    #[arg(long, value_enum, default_value_t = CommandAccess::ReadWrite)]
    pub worktree: CommandAccess,
    /// Folders outside of the worktree that commands may write to.
    #[arg(long = "writable")]
    pub writable: Vec<PathBuf>,
    /// Cgroup whose counters say which processes the kernel ended for want of memory.
    #[arg(long, default_value = CGROUP, hide = true)]
    pub cgroup: PathBuf,
    /// The role, for the log and for the names of its own files.
    #[arg(long, env = "CODEBUTLER_ROLE", default_value = "agent")]
    pub role: String,
    /// Name of the Thread, for the log.
    #[arg(long, env = "CODEBUTLER_THREAD", default_value = "")]
    pub thread: String,
}

/// Access of commands to the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CommandAccess {
    /// Commands work in the worktree itself.
    ReadWrite,
    /// They work in a copy of it.
    ReadOnly,
}

/// Configuration of `exec`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExecArgs {
    /// Sandbox that confines the command.
    #[arg(long, value_enum, default_value_t = SandboxMode::Landlock)]
    pub sandbox: SandboxMode,
    /// Folders in which it may do anything.
    #[arg(long)]
    pub write: Vec<PathBuf>,
    /// Folders that it may read, whatever is hidden around them.
    #[arg(long)]
    pub read: Vec<PathBuf>,
    /// Folders that it may not read.
    #[arg(long)]
    pub hide: Vec<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// `read-document`'s configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadDocumentArgs {
    /// File name of the document.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub name: String,
    /// A picture or member of it, instead of all.
    #[arg(long, allow_hyphen_values = true)]
    pub part: Option<String>,
}

impl ReadDocumentArgs {
    /// The command line that parses to this.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["read-document".into()];
        words.push(format!("--name={}", self.name).into());
        words.extend(self.part.iter().map(|part| format!("--part={part}").into()));
        words
    }
}

/// `screenshot`'s configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ScreenshotArgs {
    /// A folder that it may write to.
    #[arg(long)]
    pub folder: PathBuf,
    /// Address of the page.
    #[arg(long, allow_hyphen_values = true)]
    pub url: String,
    /// Size and colours of each picture, such as `phone:dark`.
    #[arg(long = "frame", value_parser = parse_frame)]
    pub frames: Vec<(ScreenSize, ColorScheme)>,
    /// Search path for browsers.
    #[arg(long, env = "PATH", hide_env_values = true)]
    pub path: OsString,
}

impl ScreenshotArgs {
    /// The command line that parses to this.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["screenshot".into()];
        words.extend(["--folder".into(), self.folder.clone().into()]);
        words.push(format!("--url={}", self.url).into());
        let frames = self.frames.iter().map(|(size, scheme)| (size.name(), scheme.name()));
        words.extend(frames.map(|(size, scheme)| format!("--frame={size}:{scheme}").into()));
        words
    }
}

/// A text names no frame.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("such as `phone:dark`")]
struct FrameError;

fn parse_frame(text: &str) -> Result<(ScreenSize, ColorScheme), FrameError> {
    let sizes = [ScreenSize::Phone, ScreenSize::Desktop].into_iter();
    let schemes = [ColorScheme::Light, ColorScheme::Dark].into_iter();
    let (size, scheme) = text.split_once(':').unwrap_or((text, "light"));
    let size = sizes.into_iter().find(|known| known.name() == size);
    let scheme = schemes.into_iter().find(|known| known.name() == scheme);
    size.zip(scheme).ok_or(FrameError)
}

impl ExecArgs {
    /// The command line that parses to this.
    pub fn words(&self) -> Vec<OsString> {
        let mode = match self.sandbox {
            SandboxMode::Landlock => "landlock",
            SandboxMode::Runtime => "runtime",
        };
        let mut words: Vec<OsString> = vec!["exec".into(), "--sandbox".into(), mode.into()];
        let places = [("--write", &self.write), ("--read", &self.read), ("--hide", &self.hide)];
        for (flag, paths) in places {
            words.extend(paths.iter().flat_map(|path| [flag.into(), path.clone().into()]));
        }
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        words
    }
}

/// `validate`'s configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateArgs {
    /// The repository, or its `.codebutler`.
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Exit with a failure on warnings, too.
    #[arg(long)]
    pub strict: bool,
    /// A role beside those that CodeButler brings; may be repeated.
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
}

/// `policy`'s configuration.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["command", "file"]))]
pub struct PolicyArgs {
    /// The command, in one argument.
    pub command: Option<String>,
    /// A list instead, one command a line; `-` is stdin. A line that is a JSON string, or an object with
    /// `command`, can hold a command of several lines. Empty lines are left out.
    #[arg(long, value_name = "LIST")]
    pub file: Option<PathBuf>,
    /// One object a line: `command`, `tier`, `asks`, `snapshot`, `why`.
    #[arg(long)]
    pub json: bool,
    /// Rules of a repository: its `.codebutler/policy.json`.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}
