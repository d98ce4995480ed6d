//! Sandbox for the gateway's `git` processes: each reaches its own repository, the programs and libraries of the
//! image, and nothing else. It reads what strangers have packed, beside a process that holds every secret, so a
//! mistake in it must not be a way to them.
//!
//! Landlock and seccomp bind a thread and what that thread starts: a command is started by a thread of its own
//! that has given everything else up. Limits are set on the child before it is fed anything.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use codebutler_gateway_core::low_priority::lower_own_priority;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::libc;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// The newest version whose rights are used; of older kernels, what they have.
const NEWEST: ABI = ABI::V6;
/// Programs, libraries, and what the loader and the C library look up.
const READ: [&str; 13] = [
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/localtime",
    "/dev/urandom",
    "/dev/zero",
];
/// Fail with EPERM: the network, other processes, the kernel, files past every path rule.
const FORBIDDEN: [i64; 24] = [
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Set by the gateway's flag before anything runs: git may run unconfined where the kernel has no Landlock.
static MAY_LACK: AtomicBool = AtomicBool::new(false);

/// Error message when git is refused because it can't be confined.
pub(crate) const NO_LANDLOCK: &str = "the kernel of the gateway's node has no Landlock, so git is not run there: a mistake in it could \
     reach every secret that the gateway holds. Give the gateway nodes with Linux 5.13 or newer and Landlock among their \
     security modules, or set `gateway.gitWithoutLandlock: true`";
/// Said where the flag has git run all the same.
const UNCONFINED: &str = "git runs without Landlock (`gateway.gitWithoutLandlock`): a mistake in it reaches what the gateway's \
     container holds";

/// Confinement of git on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GitConfinement {
    /// Git reaches its own folders alone.
    Confined,
    /// Git reaches what the container holds, because the gateway's flag allows that.
    Allowed,
    /// Git is not run here, because the kernel has no Landlock and the flag does not allow to go without.
    Refused,
}

impl GitConfinement {
    /// Returns the confinement that kernel and flag result in.
    pub(crate) fn current() -> Self {
        Self::judge(has_landlock(), MAY_LACK.load(Ordering::Relaxed))
    }

    const fn judge(has_landlock: bool, may_lack: bool) -> Self {
        match (has_landlock, may_lack) {
            (true, _) => Self::Confined,
            (false, true) => Self::Allowed,
            (false, false) => Self::Refused,
        }
    }

    /// A sentence for each Repo's condition, where anything is to be said.
    pub(crate) const fn remark(self) -> Option<&'static str> {
        match self {
            Self::Confined => None,
            Self::Allowed => Some(UNCONFINED),
            Self::Refused => Some(NO_LANDLOCK),
        }
    }

    fn permit(self) -> io::Result<()> {
        match self {
            Self::Confined | Self::Allowed => Ok(()),
            Self::Refused => Err(io::Error::new(io::ErrorKind::Unsupported, NO_LANDLOCK)),
        }
    }
}

/// Allows git to run where the kernel has no Landlock.
pub fn allow_without_landlock() {
    MAY_LACK.store(true, Ordering::Relaxed);
}

/// True if the kernel enforces Landlock rules. Tried once, on a thread that ends with it, because rules can't be
/// undone.
fn has_landlock() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let tried = std::thread::spawn(|| restrict_files(&[])).join();
        matches!(tried, Ok(Ok(status)) if status != RulesetStatus::NotEnforced)
    })
}

/// Resource limits of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandBounds {
    /// Memory of its own, in bytes; files that it maps are not counted.
    pub memory: u64,
    pub piece: u64,
    /// Processor time, in seconds.
    pub seconds: u64,
    /// Largest file that it may write, in bytes.
    pub file: u64,
}

/// Starts a command that can write below `folders` alone.
///
/// # Errors
/// When it can't be confined, or not be started.
pub(crate) fn spawn_confined(
    mut command: Command,
    folders: &[PathBuf],
    bounds: CommandBounds,
) -> io::Result<Child> {
    let runtime = Handle::current();
    let started = std::thread::scope(|scope| {
        let confined = std::thread::Builder::new().name("git".to_owned());
        let confined = confined.spawn_scoped(scope, || {
            let _entered = runtime.enter();
            // Run at the low priority of the gateway's own long work: messages and streams come first.
            lower_own_priority();
            restrict_thread(folders)?;
            command.spawn()
        });
        confined.map(std::thread::ScopedJoinHandle::join)
    })?;
    let child = started.map_err(|_| io::Error::other("the thread that starts git ended"))??;
    limit_child(&child, bounds)?;
    Ok(child)
}

fn limit_child(child: &Child, bounds: CommandBounds) -> io::Result<()> {
    let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) else {
        return Ok(());
    };
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Data, bounds.memory),
        (Resource::Cpu, bounds.seconds),
        (Resource::Fsize, bounds.file),
    ] {
        match prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) }) {
            // The process has ended already; whoever waits for it is told.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Restricts this thread, for good, and what it starts.
fn restrict_thread(folders: &[PathBuf]) -> io::Result<()> {
    let status = restrict_files(folders).map_err(io::Error::other)?;
    let has_landlock = status != RulesetStatus::NotEnforced;
    GitConfinement::judge(has_landlock, MAY_LACK.load(Ordering::Relaxed)).permit()?;
    restrict_calls()
}

fn restrict_files(folders: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for path in READ {
        rules = allow_path(rules, Path::new(path), AccessFs::from_read(NEWEST))?;
    }
    rules = allow_path(rules, Path::new("/dev/null"), AccessFs::from_all(NEWEST))?;
    let all = AccessFs::from_all(NEWEST)
        & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::Execute);
    for folder in folders {
        rules = allow_path(rules, folder, all)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Adds a rule for a path; a path that does not exist needs none.
fn allow_path(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access))
}

fn restrict_calls() -> io::Result<()> {
    let mut rules: BTreeMap<i64, Vec<_>> = FORBIDDEN.iter().map(|call| (*call, vec![])).collect();
    if cfg!(target_arch = "x86_64") {
        // The same calls by their x32 numbers.
        rules.extend(FORBIDDEN.iter().map(|call| (call | 0x4000_0000, vec![])));
    }
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use tokio::io::AsyncWriteExt as _;

    const BOUNDS: CommandBounds =
        CommandBounds { memory: 64 << 20, piece: 32 << 20, seconds: 10, file: 1 << 20 };

    async fn says(script: &str, folders: &[PathBuf]) -> String {
        let mut command = Command::new("bash");
        // The script waits for input first, as Git does: limits are set before it is fed anything.
        command.args(["-c", &format!("read; {script}")]).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn_confined(command, folders, BOUNDS).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    #[test]
    fn git_without_landlock_runs_only_where_the_flag_says_so() {
        let refused = GitConfinement::judge(false, false);
        assert_eq!(refused, GitConfinement::Refused);
        assert!(refused.permit().unwrap_err().to_string().contains("gateway.gitWithoutLandlock"));
        let allowed = GitConfinement::judge(false, true);
        assert!(allowed.permit().is_ok() && allowed.remark().unwrap().contains("without Landlock"));
        for flag in [false, true] {
            assert_eq!(GitConfinement::judge(true, flag).remark(), None);
        }
    }

    #[tokio::test]
    async fn a_command_reaches_its_own_folder_and_nothing_else() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("token"), "secret").unwrap();
        let folders = [own.path().to_owned()];
        let script = format!("echo hello > {0}/a && cat {0}/a", own.path().display());
        assert_eq!(says(&script, &folders).await, "hello\n");
        for path in
            [other.path().join("token"), format!("/proc/{}/environ", std::process::id()).into()]
        {
            let said = says(&format!("cat {}", path.display()), &folders).await;
            assert!(said.contains("Permission denied"), "{}: {said}", path.display());
        }
        let said = says("cat < /dev/tcp/127.0.0.1/1", &folders).await;
        assert!(said.contains("Operation not permitted"), "{said}");
        // The gateway itself is as free as before.
        assert!(std::fs::read(other.path().join("token")).is_ok());
        assert!(std::net::TcpListener::bind("127.0.0.1:0").is_ok());
    }

    #[tokio::test]
    async fn a_command_ends_when_it_wants_too_much() {
        let own = tempfile::tempdir().unwrap();
        let folders = [own.path().to_owned()];
        let much = "x=$(head -c 100000000 /dev/zero | tr '\\0' a) && echo done";
        assert!(!says(much, &folders).await.contains("done"));
        let file = format!("head -c 2000000 /dev/zero > {}/big && echo done", own.path().display());
        assert!(!says(&file, &folders).await.contains("done"));
    }
}
