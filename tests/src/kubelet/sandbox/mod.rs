//! The sandbox of a pod: namespaces held by one helper process, containers in them by others.
//!
//! Every helper is a child of the kubelet, started from `self_exe` under the name [`HELPER`], and
//! lives no longer than the kubelet's end of its standard input.

pub mod helper;
mod netlink;
mod paths;
mod process;
mod rootfs;
pub mod spec;
mod sys;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use self::spec::{
    ContainerSpec, ExecSpec, HELPER, PodSpec, SandboxReply, StartedHelper, frame_json,
};

/// An error of making a sandbox or a process in it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The helper said so: a namespace, a mount or the command itself failed.
    #[error("{0}")]
    Refused(String),
    /// The helper could not be run or talked to.
    #[error("sandbox helper: {0}")]
    Helper(#[from] io::Error),
}

/// The namespaces of one pod.
#[derive(Debug)]
pub struct PodSandbox {
    helper: Mutex<Child>,
    control: Mutex<UnixStream>,
    pid: i32,
}

impl PodSandbox {
    /// Makes user, network, IPC and UTS namespaces with a loopback that has `spec.addresses`.
    pub async fn start(self_exe: &Path, spec: &PodSpec) -> Result<Self, SandboxError> {
        let (helper, control, started) =
            launch_helper(self_exe, "pod", spec, Stdio::null(), Stdio::null()).await?;
        let pid = started.pid;
        Ok(Self { helper: Mutex::new(helper), control: Mutex::new(control), pid })
    }

    /// The process that holds the namespaces.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Listens inside the pod's network.
    pub async fn listen(&self, address: SocketAddr) -> Result<TcpListener, SandboxError> {
        let socket = self.socket(address.ip()).await?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket.listen(1024)?)
    }

    /// Connects from inside the pod's network.
    pub async fn connect(&self, address: SocketAddr) -> Result<TcpStream, SandboxError> {
        Ok(self.socket(address.ip()).await?.connect(address).await?)
    }

    async fn socket(&self, family: IpAddr) -> Result<TcpSocket, SandboxError> {
        let mut control = self.control.lock().await;
        let wish = if family.is_ipv4() { helper::WANT_V4 } else { helper::WANT_V6 };
        control.write_all(&[wish]).await?;
        let fd = control.async_io(Interest::READABLE, || receive_fd(control.as_raw_fd())).await?;
        let socket = std::net::TcpStream::from(fd);
        socket.set_nonblocking(true)?;
        Ok(TcpSocket::from_std_stream(socket))
    }

    /// Ends the process that holds the namespaces. Containers have to be gone already.
    pub async fn stop(&self) {
        let _ = self.helper.lock().await.kill().await;
    }
}

fn receive_fd(control: i32) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut iov = [IoSliceMut::new(&mut byte)];
    let mut space = cmsg_space!(std::os::fd::RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<UnixAddr>(control, &mut iov, Some(&mut space), flags)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part
            && let Some(fd) = fds.first()
        {
            return Ok(sys::own_descriptor(*fd));
        }
    }
    Err(io::Error::other("the pod's process has ended"))
}

/// A process in a container, watched over by its helper.
#[derive(Debug)]
pub struct SandboxProcess {
    helper: Child,
    lifeline: UnixStream,
    started: StartedHelper,
}

impl SandboxProcess {
    /// Starts a container's command. Both its outputs go to `log`.
    pub async fn container(
        self_exe: &Path,
        spec: &ContainerSpec,
        log: OwnedFd,
    ) -> Result<Self, SandboxError> {
        let out = Stdio::from(log.try_clone()?);
        let (helper, lifeline, started) =
            launch_helper(self_exe, "container", spec, out, log.into()).await?;
        Ok(Self { helper, lifeline, started })
    }

    /// The process's helper and its namespaces.
    pub fn started(&self) -> &StartedHelper {
        &self.started
    }

    /// Sends a signal to the command; `SIGKILL` ends the whole container.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let byte = u8::try_from(signal as i32).map_err(io::Error::other)?;
        self.lifeline.try_write(&[byte]).map(drop)
    }

    /// Waits for the end: the exit code, or 128 and the signal's number.
    pub async fn wait(&mut self) -> io::Result<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.helper.wait().await?;
        Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255))
    }
}

/// Runs one more command in a container and kills it after `limit`.
pub async fn exec_command(
    self_exe: &Path,
    spec: &ExecSpec,
    limit: Duration,
) -> Result<Output, SandboxError> {
    let run = async {
        let (helper, lifeline, _) =
            launch_helper(self_exe, "exec", spec, Stdio::piped(), Stdio::piped()).await?;
        let output = helper.wait_with_output().await?;
        drop(lifeline);
        Ok(output)
    };
    tokio::time::timeout(limit, run)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "command timed out"))?
}

async fn launch_helper(
    self_exe: &Path,
    stage: &str,
    spec: &impl serde::Serialize,
    stdout: Stdio,
    stderr: Stdio,
) -> Result<(Child, UnixStream, StartedHelper), SandboxError> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut ours = UnixStream::from_std(ours)?;
    // The `Command` is dropped here, and with it our copies of the helper's descriptors.
    let mut helper = Command::new(self_exe)
        .arg0(HELPER)
        .arg(stage)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(stdout)
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()?;
    ours.write_all(&frame_json(spec)?).await?;
    match read_reply(&mut ours).await {
        Ok(SandboxReply::Started(started)) => Ok((helper, ours, started)),
        Ok(SandboxReply::Failed(problem)) => {
            let _ = helper.wait().await;
            Err(SandboxError::Refused(problem))
        }
        Err(error) => {
            let _ = helper.kill().await;
            Err(error.into())
        }
    }
}

async fn read_reply(from: &mut UnixStream) -> io::Result<SandboxReply> {
    let length = usize::try_from(from.read_u32().await?).map_err(io::Error::other)?;
    let mut body = vec![0; length.min(1 << 16)];
    from.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}
