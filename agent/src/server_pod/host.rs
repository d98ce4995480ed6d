//! The container of a server: a program for each connection to the socket, with its standard streams as frames.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use codebutler_wire::{
    BRIDGE_PING_SECONDS, BRIDGE_SILENCE_SECONDS, FrameKind, FrameReader, NotStarted, ProgramExit,
    write_frames,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::ChildStdin;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::await_end;
use super::program::{ProgramPlan, RunningProgram, end_program, read_exit};
use crate::args::HostArgs;

/// Programs that run at once. The gateway has one session with a server, and another one while it replaces it.
const MOST_PROGRAMS: usize = 4;
/// Pieces of output that wait for the connection.
const WAITING: usize = 16;
/// Time for what a program has written before its end.
const DRAIN: Duration = Duration::from_secs(1);
/// Time for the last frames of a session.
const LAST_FRAMES: Duration = Duration::from_secs(2);
const PING: Duration = Duration::from_secs(BRIDGE_PING_SECONDS);
const SILENCE: Duration = Duration::from_secs(BRIDGE_SILENCE_SECONDS);

/// Runs a program for each connection until it is asked to end.
pub async fn host_server(args: HostArgs) -> anyhow::Result<ExitCode> {
    let supervisor = Path::new("/proc/self/exe").to_owned();
    let host = ServerHost::listen(&args.socket, ProgramPlan { exec: args.exec(), supervisor })?;
    let end = host.end.clone();
    let serving = tokio::spawn(host.serve());
    await_end().await?;
    end.cancel();
    serving.await?;
    Ok(ExitCode::SUCCESS)
}

/// Serves connections to a socket.
pub struct ServerHost {
    listener: UnixListener,
    plan: Arc<ProgramPlan>,
    /// Cancelled when the pod ends; every program is ended then.
    pub end: CancellationToken,
}

impl ServerHost {
    /// Listens on `socket`, in place of an earlier process.
    pub fn listen(socket: &Path, plan: ProgramPlan) -> io::Result<Self> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        Ok(Self { listener, plan: Arc::new(plan), end: CancellationToken::new() })
    }

    /// Returns when all programs have ended, once [`Self::end`] is cancelled.
    pub async fn serve(self) {
        let (places, sessions) = (Arc::new(Semaphore::new(MOST_PROGRAMS)), TaskTracker::new());
        while let Some(accepted) = self.end.run_until_cancelled(self.listener.accept()).await {
            let Ok((stream, _)) = accepted else {
                // Out of file descriptors, say: it passes.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let place = places.clone().try_acquire_owned().ok();
            let (plan, over) = (Arc::clone(&self.plan), self.end.child_token());
            sessions.spawn(async move {
                serve_session(stream, place.is_some().then_some(&plan), over).await;
                drop(place);
            });
        }
        sessions.close();
        sessions.wait().await;
    }
}

/// Serves one connection with a program of its own. Without a plan there is no room for another program.
async fn serve_session(
    stream: UnixStream,
    plan: Option<&Arc<ProgramPlan>>,
    over: CancellationToken,
) {
    let (read, write) = stream.into_split();
    let (frames, outgoing) = mpsc::channel(WAITING);
    let writing = AbortOnDropHandle::new(tokio::spawn(write_out(write, outgoing, over.clone())));
    let started = plan.map_or(Err(NotStarted::Busy), |plan| plan.start());
    let exit = match started {
        Ok(program) => {
            let _ = frames.send(frame(FrameKind::Started, b"")).await;
            run_program(program, read, &frames, &over).await
        }
        Err(why) => ProgramExit { not_started: Some(why), ..ProgramExit::default() },
    };
    tracing::info!(?exit, "server_program_exited");
    let exit = serde_json::to_vec(&exit).unwrap_or_default();
    let last = async {
        let _ = frames.send(frame(FrameKind::Exit, &exit)).await;
        drop(frames);
        let _ = writing.await;
    };
    let _ = timeout(LAST_FRAMES, last).await;
}

async fn run_program(
    program: RunningProgram,
    read: impl AsyncRead + Send + Unpin + 'static,
    frames: &mpsc::Sender<Vec<u8>>,
    over: &CancellationToken,
) -> ProgramExit {
    let RunningProgram { mut child, input, output, errors } = program;
    let carrying = |kind, stream: Box<dyn AsyncRead + Send + Unpin>| {
        AbortOnDropHandle::new(tokio::spawn(carry_output(kind, stream, frames.clone())))
    };
    let output = carrying(FrameKind::Output, Box::new(output));
    let errors = carrying(FrameKind::Errors, Box::new(errors));
    let ending = over.clone();
    let input = AbortOnDropHandle::new(tokio::spawn(async move {
        let _ending = ending.clone().drop_guard();
        let _ = ending.run_until_cancelled(carry_input(read, input)).await;
    }));
    let exit = tokio::select! {
        ended = child.wait() => read_exit(ended),
        () = over.cancelled() => {
            // The program's standard input closes with the task that holds it.
            let _ = input.await;
            end_program(&mut child).await
        }
    };
    let _ = timeout(DRAIN, async { tokio::join!(output, errors) }).await;
    exit
}

/// Writes the gateway's input to the program until the gateway closes it, or is gone.
async fn carry_input(mut read: impl AsyncRead + Unpin, mut input: ChildStdin) {
    let (mut frames, mut buffer) = (FrameReader::default(), vec![0; 16 * 1024]);
    while let Ok(Ok(count @ 1..)) = timeout(SILENCE, read.read(&mut buffer)).await {
        let arrived = match frames.push(&buffer[..count]) {
            Ok(arrived) => arrived,
            Err(error) => return tracing::warn!(%error, "bridge_frame_invalid"),
        };
        for frame in arrived.into_iter().filter(|frame| frame.kind == FrameKind::Input) {
            if frame.bytes.is_empty() || input.write_all(&frame.bytes).await.is_err() {
                return;
            }
        }
        let _ = input.flush().await;
    }
}

async fn carry_output(
    kind: FrameKind,
    mut stream: Box<dyn AsyncRead + Send + Unpin>,
    frames: mpsc::Sender<Vec<u8>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if frames.send(frame(kind, &buffer[..count])).await.is_err() {
            return;
        }
    }
}

/// Writes frames, and a sign of life where there are none. A connection that is gone is over.
async fn write_out(
    mut write: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Vec<u8>>,
    over: CancellationToken,
) {
    let _over = over.drop_guard();
    loop {
        let bytes = match timeout(PING, frames.recv()).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            Err(_) => frame(FrameKind::Ping, b""),
        };
        if write.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = write.shutdown().await;
}

fn frame(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(bytes.len() + 8);
    write_frames(kind, bytes, &mut frame);
    frame
}
