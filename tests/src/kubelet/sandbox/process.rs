//! The processes of a container: outside, one that watches over it for the kubelet; inside, pid 1,
//! which reaps and passes signals on; and the command itself.
//!
//! The kubelet's end of the helper's standard input is the lifeline. A byte on it is a signal for
//! the command. Its end, however the kubelet ended, is the end of the container.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{AccessFlags, Pid, access, execve, setsid};

use super::spec::{ProcessSpec, SandboxReply, StartedHelper, WITHOUT_LANDLOCK, write_frame};
use super::sys;

/// Exit code where the command can't be run, as shells and container runtimes return it.
pub(super) const CANNOT_START: i32 = 128;
/// Tells pid 1 to stop its command: the signal that does could not be passed on, as nobody can catch it.
const ASKS_TO_STOP: Signal = Signal::SIGTSTP;

/// Stays outside of the container: reports, passes signals in, and returns the exit code.
pub(super) fn watch_first(first: Pid, report: UnixStream, mut lifeline: File) -> io::Result<i32> {
    let (namespaces, problem) = receive_report(&report)?;
    drop(report);
    if !problem.is_empty() {
        let _ = waitpid(first, None);
        return Err(io::Error::other(problem));
    }
    let started = StartedHelper {
        pid: std::process::id().cast_signed(),
        namespaces: namespaces.iter().map(AsRawFd::as_raw_fd).collect(),
    };
    write_frame(&lifeline, &SandboxReply::Started(started))?;
    let ended = sys::open_pidfd(first)?;
    loop {
        let (said, ended) = match sys::either_readable(&lifeline, &ended) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if ended {
            return Ok(match waitpid(first, None)? {
                WaitStatus::Exited(_, code) => code,
                WaitStatus::Signaled(_, signal, _) => 128 + signal as i32,
                _ => CANNOT_START,
            });
        }
        if said {
            let mut byte = [0];
            let signal = match lifeline.read(&mut byte) {
                Ok(1) => Signal::try_from(i32::from(byte[0])).ok(),
                _ => Some(Signal::SIGKILL),
            };
            // Pid 1 passes signals on, but for those that nobody can catch: this one it is asked for.
            let passed = if signal == Some(Signal::SIGSTOP) { Some(ASKS_TO_STOP) } else { signal };
            let _ = kill(first, passed);
            if signal == Some(Signal::SIGKILL) {
                waitpid(first, None)?;
                return Ok(128 + Signal::SIGKILL as i32);
            }
        }
    }
}

/// Pid 1: runs `prepare`, then the command as a child, and returns the command's exit code. With
/// it dies every process of the container.
pub(super) fn run_init(
    spec: &ProcessSpec,
    mut report: UnixStream,
    prepare: impl FnOnce(&UnixStream) -> io::Result<()>,
) -> i32 {
    match start_command(spec, &report, prepare) {
        Ok(command) => {
            // The end of the report: the kubelet may call the container started.
            drop(report);
            reap_children(command)
        }
        Err(error) => {
            let _ = report.write_all(error.to_string().as_bytes());
            CANNOT_START
        }
    }
}

fn start_command(
    spec: &ProcessSpec,
    mut report: &UnixStream,
    prepare: impl FnOnce(&UnixStream) -> io::Result<()>,
) -> io::Result<Pid> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // Blocked signals are never lost to pid 1; `reap_children` takes them one by one.
    SigSet::all().thread_block()?;
    prepare(report)?;
    // From here on the container may have the same rights as this process, which still runs a
    // program of the host: nobody inside may trace it, read it or open that program through it.
    nix::sys::prctl::set_dumpable(false)?;
    sys::drop_capabilities()?;
    nix::sys::prctl::set_no_new_privs()?;
    if spec.env.iter().any(|(name, _)| name == WITHOUT_LANDLOCK) {
        sys::forget_landlock()?;
    }
    // A change of credentials has cleared it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    limit_resources()?;
    let Some(command) = sys::fork_process()? else {
        let Err(error) = execute_command(spec);
        let problem = format!("{}: {error}", spec.argv.first().map_or("", String::as_str));
        let _ = report.write_all(problem.as_bytes());
        std::process::exit(CANNOT_START)
    };
    detach_output()?;
    Ok(command)
}

/// Leaves the pod's user namespace for one in which only the container's user exists, and which
/// can have no user namespaces below it.
pub(super) fn become_user(spec: &ProcessSpec) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUSER)?;
    map_user((spec.uid, 0), (spec.gid, 0))?;
    std::fs::write("/proc/sys/user/max_user_namespaces", "0")
}

/// Maps one user and one group into the new user namespace of this process: ids inside, outside.
pub(super) fn map_user(user: (u32, u32), group: (u32, u32)) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{} {} 1", user.0, user.1))?;
    std::fs::write("/proc/self/gid_map", format!("{} {} 1", group.0, group.1))
}

/// Lets go of the log, so that its end is the command's end.
pub(super) fn detach_output() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(nix::unistd::dup2_stderr(&null)?)
}

/// Gives the namespaces of this process to the one outside.
pub(super) fn hand_over(report: &UnixStream) -> io::Result<()> {
    let files = ["mnt", "pid", "user"].map(|name| File::open(format!("/proc/self/ns/{name}")));
    let mut fds = Vec::new();
    for file in &files {
        fds.push(file.as_ref().map_err(|error| io::Error::from(error.kind()))?.as_raw_fd());
    }
    let rights = [ControlMessage::ScmRights(&fds)];
    let mark = [IoSlice::new(&[MARK])];
    sendmsg::<UnixAddr>(report.as_raw_fd(), &mark, &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// Comes along with descriptors, and is no part of a problem's text.
const MARK: u8 = 0;

/// All that comes before the end: descriptors, and what is wrong, if anything is.
fn receive_report(report: &UnixStream) -> io::Result<(Vec<OwnedFd>, String)> {
    let (mut fds, mut text) = (Vec::new(), Vec::new());
    loop {
        let mut buffer = [0; 1024];
        let mut space = nix::cmsg_space!([RawFd; 3]);
        let mut iov = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(report.as_raw_fd(), &mut iov, Some(&mut space), flags)?;
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = part {
                fds.extend(received.into_iter().map(sys::own_descriptor));
            }
        }
        let count = message.bytes;
        if count == 0 {
            text.retain(|byte| *byte != MARK);
            return Ok((fds, String::from_utf8_lossy(&text).into_owned()));
        }
        text.extend_from_slice(&buffer[..count]);
    }
}

fn limit_resources() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    for (resource, limit) in [(Resource::RLIMIT_NOFILE, 65_536), (Resource::RLIMIT_NPROC, 8_192)] {
        let (_, hard) = nix::sys::resource::getrlimit(resource)?;
        let limit = limit.min(hard);
        setrlimit(resource, limit, limit)?;
    }
    Ok(())
}

fn execute_command(spec: &ProcessSpec) -> io::Result<Infallible> {
    setsid()?;
    // The container's own, in place of one that was opened outside.
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    std::env::set_current_dir(&spec.cwd)?;
    let program = find_program(spec)?;
    let argv = spec.argv.iter().map(|arg| c_string(arg)).collect::<io::Result<Vec<_>>>()?;
    let env = spec
        .env
        .iter()
        .map(|(name, value)| c_string(&format!("{name}={value}")))
        .collect::<io::Result<Vec<_>>>()?;
    let program = c_string(&program.to_string_lossy())?;
    SigSet::empty().thread_set_mask()?;
    Ok(execve(&program, &argv, &env)?)
}

/// Looks the program up as the shell would, in the container's own PATH.
fn find_program(spec: &ProcessSpec) -> io::Result<PathBuf> {
    let name = spec.argv.first().ok_or_else(|| io::Error::other("no command specified"))?;
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = spec.env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, path)| path);
    path.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
        .ok_or_else(|| io::Error::other("executable file not found in $PATH"))
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::other)
}

fn reap_children(command: Pid) -> i32 {
    loop {
        match SigSet::all().wait() {
            Ok(Signal::SIGCHLD) => {}
            Ok(signal) => {
                let passed = if signal == ASKS_TO_STOP { Signal::SIGSTOP } else { signal };
                let _ = kill(command, passed);
                continue;
            }
            Err(_) => continue,
        }
        // One SIGCHLD may stand for several children.
        loop {
            use nix::sys::wait::WaitPidFlag;
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == command => return code,
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                    return 128 + signal as i32;
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}
