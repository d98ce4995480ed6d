//! The helper's side: the binary, executed again as `codebutler-pause`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::{getegid, geteuid, setgroups};

use super::process::{self, become_user, map_user, run_init, watch_first};
use super::spec::{
    ContainerSpec, ExecSpec, PodSpec, SandboxReply, StartedHelper, read_frame, write_frame,
};
use super::{netlink, rootfs, sys};

/// Asks the pod's process for a socket in its network namespace: IPv4 or IPv6.
pub const WANT_V4: u8 = 4;
/// The same for an IPv6 socket; see [`WANT_V4`].
pub const WANT_V6: u8 = 6;

/// Entry of the re-executed binary. Must run before any thread exists: there are forks ahead.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let stage = argv.into_iter().nth(1).unwrap_or_default();
    match run_stage(&stage.to_string_lossy()) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            if let Ok(control) = io::stdin().as_fd().try_clone_to_owned() {
                let _ = write_frame(File::from(control), &SandboxReply::Failed(error.to_string()));
            }
            ExitCode::FAILURE
        }
    }
}

fn run_stage(stage: &str) -> io::Result<i32> {
    sys::close_inherited()?;
    let control = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    match stage {
        "pod" => make_pod(control),
        "container" => enter_container(control),
        "exec" => exec_in(control),
        other => Err(io::Error::other(format!("unknown stage {other:?}"))),
    }
}

/// Makes the namespaces that a pod's containers share, then hands out sockets until the end.
fn make_pod(mut control: File) -> io::Result<i32> {
    let spec: PodSpec = read_frame(&control)?;
    // Possible for root only, and only root can have groups worth dropping.
    let _ = setgroups(&[]);
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut new = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    new.set(CloneFlags::CLONE_NEWNET, !spec.host_network);
    name_step("user, net, ipc and uts namespaces", unshare(new).map_err(Into::into))?;
    name_step("uid map", map_user((0, user), (0, group)))?;
    name_step("host name", sys::set_hostname(&spec.hostname))?;
    if !spec.host_network {
        name_step("loopback", netlink::loopback_up(&spec.addresses))?;
    }
    name_step("mount and pid namespaces", rehearse_namespaces())?;
    nix::sys::prctl::set_name(c"pause")?;
    let pid = std::process::id().cast_signed();
    write_frame(&control, &SandboxReply::Started(StartedHelper { pid, namespaces: Vec::new() }))?;
    let mut wish = [0];
    while control.read(&mut wish)? == 1 {
        let family = if wish[0] == WANT_V6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let made = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let fds = [made.as_raw_fd()];
        sendmsg::<UnixAddr>(
            control.as_raw_fd(),
            &[IoSlice::new(&wish)],
            &[ControlMessage::ScmRights(&fds)],
            MsgFlags::empty(),
            None,
        )?;
    }
    Ok(0)
}

/// Finds out now, in a child, whether a container's namespaces will be possible.
fn rehearse_namespaces() -> io::Result<()> {
    let (mut problem, mut report) = UnixStream::pair()?;
    let Some(child) = sys::fork_process()? else {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID) {
            let _ = report.write_all(error.to_string().as_bytes());
        }
        std::process::exit(0);
    };
    drop(report);
    let mut text = String::new();
    problem.read_to_string(&mut text)?;
    nix::sys::wait::waitpid(child, None)?;
    if text.is_empty() { Ok(()) } else { Err(io::Error::other(text)) }
}

fn enter_container(control: File) -> io::Result<i32> {
    let spec: ContainerSpec = read_frame(&control)?;
    name_step("pod namespaces", join_namespaces(spec.pod, &POD))?;
    name_step(
        "namespaces",
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID).map_err(Into::into),
    )?;
    in_child(control, |report| {
        run_init(&spec.process, report, |report| {
            rootfs::enter_root(&spec)?;
            become_user(&spec.process)?;
            process::hand_over(report)
        })
    })
}

fn exec_in(control: File) -> io::Result<i32> {
    let spec: ExecSpec = read_frame(&control)?;
    let inner = spec.container.namespaces.iter().map(|fd| {
        let path = format!("/proc/{}/fd/{fd}", spec.container.pid);
        Ok(open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?)
    });
    let inner = name_step("container", inner.collect::<io::Result<Vec<_>>>())?;
    name_step("pod namespaces", join_namespaces(spec.pod, &POD))?;
    for (file, kind) in inner.into_iter().zip(INNER) {
        setns(file, kind)?;
    }
    in_child(control, |report| run_init(&spec.process, report, |_| Ok(())))
}

const POD: [(&str, CloneFlags); 4] = [
    ("user", CloneFlags::CLONE_NEWUSER),
    ("net", CloneFlags::CLONE_NEWNET),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("uts", CloneFlags::CLONE_NEWUTS),
];
/// Namespaces in the order of [`StartedHelper::namespaces`]. The user's comes last: it has no rights to
/// the others.
const INNER: [CloneFlags; 3] =
    [CloneFlags::CLONE_NEWNS, CloneFlags::CLONE_NEWPID, CloneFlags::CLONE_NEWUSER];

fn join_namespaces(pid: i32, namespaces: &[(&str, CloneFlags)]) -> io::Result<()> {
    let _ = setgroups(&[]);
    // The machine's own network is not entered by anybody, nor left.
    let link = |of: &str, name: &str| std::fs::read_link(format!("/proc/{of}/ns/{name}"));
    let shared = |name: &str| match (link("self", name), link(&pid.to_string(), name)) {
        (Ok(own), Ok(its)) => own == its,
        _ => false,
    };
    let files = namespaces
        .iter()
        .filter(|(name, _)| !shared(name))
        .map(|(name, kind)| Ok((open_namespace(pid, name)?, *kind)))
        .collect::<io::Result<Vec<_>>>()?;
    for (file, kind) in files {
        setns(file, kind)?;
    }
    Ok(())
}

fn open_namespace(pid: i32, name: &str) -> io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/ns/{name}");
    Ok(open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// Runs `first` in a child, the first process of the new pid namespace, and watches over it.
fn in_child(control: File, first: impl FnOnce(UnixStream) -> i32) -> io::Result<i32> {
    let (problem, report) = UnixStream::pair()?;
    let Some(child) = sys::fork_process()? else {
        // The lifeline is not for those inside.
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        drop((control, problem));
        std::process::exit(first(report));
    };
    drop(report);
    // Only the command keeps the log open.
    process::detach_output()?;
    watch_first(child, problem, control)
}

fn name_step<T>(what: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}
