//! The confinement of commands inside the toolbox's container: Landlock for files, signals and abstract sockets,
//! seccomp for system calls that no build needs, resource limits, no new privileges.
//!
//! The container, which holds no secret, is the first wall; this is the second. [`enter_sandbox`] confines
//! the calling thread and what it starts; nothing in here starts or watches processes.

mod calls;
mod files;
mod users;

use std::fmt;
use std::path::PathBuf;
use std::thread;

use clap::ValueEnum;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

pub use self::users::describe_level;

/// File access of a command. Everything else that the container shows can be read.
#[derive(Clone, Debug, Default)]
pub struct SandboxPlan {
    /// Folders in which it may do anything. They have to exist.
    pub write: Vec<PathBuf>,
    /// Folders that it may read, wherever they are.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may not even read, but for what `write` and `read` name in them.
    pub hide: Vec<PathBuf>,
}

/// Component that confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxMode {
    /// This module, in full or not at all.
    #[default]
    Landlock,
    /// The pod's runtime (gVisor, Kata); Landlock is left out.
    Runtime,
}

/// Returns true for the name of a [`SandboxLevel`], and false for the reason that there is none.
pub fn is_level(said: &str) -> bool {
    said == "runtime" || said.starts_with("landlock-")
}

/// The confinement that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLevel {
    /// Landlock of this version, as far as CodeButler uses it.
    Landlock(u8),
    /// See [`SandboxMode::Runtime`].
    Runtime,
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock(version) => write!(f, "landlock-{version}"),
            Self::Runtime => f.write_str("runtime"),
        }
    }
}

/// A command can't be confined. It is not run then.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel's Landlock is missing or too old; names the kernel's release.
    #[error(
        "its kernel {0} has no Landlock of version 2 or later (Linux 5.19, `landlock` in its `lsm=`), so that \
         commands can't be confined: use another node (`spec.pods.nodeSelector`), or a runtime class such as \
         gVisor with `workspace.sandbox: Runtime`"
    )]
    Unsupported(String),
    /// The rules could not be set.
    #[error("the sandbox can't be set up: {0}")]
    Rules(String),
}

/// The kernel has no usable Landlock: names its release, cut to harmless characters.
fn unsupported_kernel() -> SandboxError {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "._+-".contains(*c);
    SandboxError::Unsupported(kernel.chars().filter(plain).take(60).collect())
}

fn broken_sandbox(error: impl fmt::Display) -> SandboxError {
    SandboxError::Rules(error.to_string())
}

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};
/// Largest file that a command may write, in bytes.
const MAX_FILE: u64 = 8 << 30;
/// Processes and threads of this container's user, where the pod has users of its own; the supervisor looks for far
/// fewer. Elsewhere the kernel counts those of all pods of a node, and one team's would leave none to the others.
const MAX_TASKS: u64 = 16_384;

/// Determines the level that [`enter_sandbox`] will enforce here.
pub fn probe_level(mode: SandboxMode) -> Result<SandboxLevel, SandboxError> {
    match mode {
        SandboxMode::Runtime => Ok(SandboxLevel::Runtime),
        // Tried on a thread that ends: Landlock can't be asked, and can't be left.
        SandboxMode::Landlock => thread::spawn(|| files::restrict_files(&SandboxPlan::default()))
            .join()
            .map_err(|_| broken_sandbox("it panicked"))?
            .map(SandboxLevel::Landlock),
    }
}

/// Does something that writes only where `plan` allows it, on a thread of its own: for work among files
/// that commands can put links between.
pub fn run_confined<T: Send>(
    plan: &SandboxPlan,
    work: impl FnOnce() -> T + Send,
) -> Result<T, SandboxError> {
    thread::scope(|scope| {
        let done = scope.spawn(|| files::restrict_files(plan).map(|_| work()));
        done.join().map_err(|_| broken_sandbox("it panicked"))?
    })
}

/// Confines this thread for good, and whatever it starts.
pub fn enter_sandbox(mode: SandboxMode, plan: &SandboxPlan) -> Result<(), SandboxError> {
    prctl::set_no_new_privs().map_err(broken_sandbox)?;
    // A pod has none; where something else gave some, they would reach past Landlock.
    set_capabilities(None, NO_CAPABILITIES).map_err(broken_sandbox)?;
    if mode == SandboxMode::Landlock {
        files::restrict_files(plan)?;
    }
    calls::restrict_calls()
}

/// Limits this process and what it starts. Memory is the container's matter: address space says
/// nothing about it, and runtimes with garbage collectors reserve far more than they use.
pub fn limit_process() {
    lower_limit(Resource::RLIMIT_CORE, 0);
    lower_limit(Resource::RLIMIT_FSIZE, MAX_FILE);
    if has_own_users() {
        lower_limit(Resource::RLIMIT_NPROC, MAX_TASKS);
    }
}

/// True in a user namespace of its own: there the first user is not the node's.
fn has_own_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn lower_limit(resource: Resource, to: u64) {
    if let Ok((soft, hard)) = getrlimit(resource) {
        let _ = setrlimit(resource, soft.min(to), hard.min(to));
    }
}
