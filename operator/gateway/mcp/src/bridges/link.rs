//! A session's streams over a bridge's connection.

use std::time::Duration;

use codebutler_crds::wire::{
    BRIDGE_PING_SECONDS, BRIDGE_SILENCE_SECONDS, BridgeFrame, FrameError, FrameKind, FrameReader,
    NotStarted, ProgramExit, write_frames,
};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::waiting::BridgeLine;

/// Bytes between a session and its connection, in each direction.
const BUFFERED: usize = 64 * 1024;
/// Time for the server's container to start the program. It runs already.
const START: Duration = Duration::from_secs(15);
/// Time that a program has to end once its input is closed; its own container ends it before.
const END: Duration = Duration::from_secs(12);
const PING: Duration = Duration::from_secs(BRIDGE_PING_SECONDS);
const SILENCE: Duration = Duration::from_secs(BRIDGE_SILENCE_SECONDS);

/// A program's standard streams, as a session has them. Dropping all of them ends the program.
pub(super) struct ProgramStreams {
    /// The program's standard output.
    pub output: DuplexStream,
    /// The program's standard input.
    pub input: DuplexStream,
    /// The program's standard error.
    pub errors: DuplexStream,
}

/// No program runs behind a connection.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StartError {
    /// The connection broke off.
    #[error("the connection to the pod has broken")]
    Broken,
    /// The bytes received are not the bridge protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The server's container says why.
    #[error("the program was not started")]
    NotStarted(NotStarted),
}

/// Begins a session: the program starts, and its streams are carried until it ends or nobody has them any more.
///
/// # Errors
/// When the program does not start.
pub(super) async fn begin_program(
    mut line: BridgeLine,
    stop: CancellationToken,
) -> Result<ProgramStreams, StartError> {
    let mut frames = FrameReader::default();
    let first = timeout(START, await_first(&mut line, &mut frames)).await;
    let rest = first.map_err(|_| StartError::Broken)??;
    // Each is used in one direction. Unlike halves of a simplex stream, an end that is dropped ends the other one.
    let (output, output_end) = duplex(BUFFERED);
    let (input, input_end) = duplex(BUFFERED);
    let (errors, errors_end) = duplex(BUFFERED);
    let carrying = Carrying { output: output_end, errors: errors_end };
    tokio::spawn(
        stop.run_until_cancelled_owned(carry_program(line, frames, rest, carrying, input_end)),
    );
    Ok(ProgramStreams { output, input, errors })
}

/// Starts the program, and returns the frames that came with the news that it runs.
async fn await_first(
    line: &mut BridgeLine,
    frames: &mut FrameReader,
) -> Result<Vec<BridgeFrame>, StartError> {
    send_frame(line, FrameKind::Start, b"").await.map_err(|_| StartError::Broken)?;
    let mut buffer = vec![0; 4096];
    loop {
        let Ok(count @ 1..) = line.read(&mut buffer).await else { return Err(StartError::Broken) };
        let mut arrived = frames.push(&buffer[..count])?.into_iter();
        while let Some(frame) = arrived.next() {
            match frame.kind {
                FrameKind::Started => return Ok(arrived.collect()),
                FrameKind::Exit => {
                    let why = read_exit(&frame).not_started.ok_or(StartError::Broken)?;
                    return Err(StartError::NotStarted(why));
                }
                _ => {}
            }
        }
    }
}

/// The program's ends of the session's streams.
struct Carrying {
    output: DuplexStream,
    errors: DuplexStream,
}

async fn carry_program(
    line: BridgeLine,
    mut frames: FrameReader,
    rest: Vec<BridgeFrame>,
    mut to: Carrying,
    input: DuplexStream,
) {
    let (mut read, write) = tokio::io::split(line);
    let outward = async {
        if to.take(rest).await {
            return;
        }
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(Ok(count @ 1..)) = timeout(SILENCE, read.read(&mut buffer)).await {
            let arrived = match frames.push(&buffer[..count]) {
                Ok(arrived) => arrived,
                Err(error) => return tracing::warn!(%error, "bridge_frame_invalid"),
            };
            if to.take(arrived).await {
                return;
            }
        }
    };
    let inward = async {
        carry_input(input, write).await;
        // The program has a while to end, and to say its last words.
        tokio::time::sleep(END).await;
    };
    tokio::select! {
        () = outward => {}
        () = inward => {}
    }
    let _ = to.output.shutdown().await;
}

impl Carrying {
    /// True once the program has ended.
    async fn take(&mut self, frames: Vec<BridgeFrame>) -> bool {
        for frame in frames {
            match frame.kind {
                FrameKind::Output if self.output.write_all(&frame.bytes).await.is_err() => {
                    return true;
                }
                // A session that does not read them lacks nothing.
                FrameKind::Errors => drop(self.errors.write_all(&frame.bytes).await),
                FrameKind::Exit => {
                    let words = describe_exit(&read_exit(&frame));
                    let _ = self.errors.write_all(words.as_bytes()).await;
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}

/// Sends input to the program until the session closes it, and keep-alive frames where there is none.
async fn carry_input(mut input: impl AsyncRead + Unpin, mut line: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let sent = match timeout(PING, input.read(&mut buffer)).await {
            Ok(Ok(count @ 1..)) => send_frame(&mut line, FrameKind::Input, &buffer[..count]).await,
            Ok(_) => {
                let _ = send_frame(&mut line, FrameKind::Input, b"").await;
                return;
            }
            Err(_) => send_frame(&mut line, FrameKind::Ping, b"").await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn send_frame(
    line: &mut (impl AsyncWrite + Unpin),
    kind: FrameKind,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(bytes.len() + 8);
    write_frames(kind, bytes, &mut frame);
    line.write_all(&frame).await?;
    line.flush().await
}

fn read_exit(frame: &BridgeFrame) -> ProgramExit {
    serde_json::from_slice(&frame.bytes).unwrap_or_default()
}

/// The last line of standard error; nothing for a program that ended well.
fn describe_exit(exit: &ProgramExit) -> String {
    match (exit.code, exit.signal) {
        (Some(0), _) | (None, None) => String::new(),
        (Some(code), _) => format!("\nthe program has ended with exit code {code}\n"),
        (None, Some(signal)) => format!("\nthe program was ended by signal {signal}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pod's side of a connection.
    struct Pod(DuplexStream, FrameReader);

    impl Pod {
        async fn send(&mut self, kind: FrameKind, bytes: &[u8]) {
            send_frame(&mut self.0, kind, bytes).await.unwrap();
        }

        /// The next frame that is no ping; none at the end.
        async fn next(&mut self) -> Option<BridgeFrame> {
            let mut byte = [0];
            loop {
                if self.0.read(&mut byte).await.unwrap() == 0 {
                    return None;
                }
                let found = self.1.push(&byte).unwrap().pop();
                if found.as_ref().is_some_and(|frame| frame.kind != FrameKind::Ping) {
                    return found;
                }
            }
        }
    }

    fn connect() -> (Pod, BridgeLine) {
        let (pod, line) = duplex(1 << 20);
        (Pod(pod, FrameReader::default()), Box::new(line))
    }

    async fn begin() -> (Pod, ProgramStreams) {
        let (mut pod, line) = connect();
        pod.send(FrameKind::Started, b"").await;
        let streams = begin_program(line, CancellationToken::new()).await.unwrap();
        assert_eq!(pod.next().await.unwrap().kind, FrameKind::Start);
        (pod, streams)
    }

    #[tokio::test]
    async fn streams_are_kept_apart_and_an_exit_is_the_last_word() {
        let (mut pod, mut streams) = begin().await;
        streams.input.write_all(b"{\"id\":1}\n").await.unwrap();
        assert_eq!(pod.next().await.unwrap().bytes, b"{\"id\":1}\n");
        pod.send(FrameKind::Errors, b"warning").await;
        pod.send(FrameKind::Output, b"{}\n").await;
        pod.send(FrameKind::Exit, br#"{"code":3}"#).await;
        let (mut output, mut errors) = (String::new(), String::new());
        streams.output.read_to_string(&mut output).await.unwrap();
        streams.errors.read_to_string(&mut errors).await.unwrap();
        assert_eq!(output, "{}\n");
        assert_eq!(errors, "warning\nthe program has ended with exit code 3\n");
    }

    #[tokio::test]
    async fn closing_the_input_is_passed_on_and_the_program_has_a_while() {
        let (mut pod, mut streams) = begin().await;
        streams.input.shutdown().await.unwrap();
        let closed = pod.next().await.unwrap();
        assert_eq!((closed.kind, closed.bytes.len()), (FrameKind::Input, 0));
        pod.send(FrameKind::Output, b"bye\n").await;
        pod.send(FrameKind::Exit, br#"{"code":0}"#).await;
        let (mut output, mut errors) = (String::new(), String::new());
        streams.output.read_to_string(&mut output).await.unwrap();
        streams.errors.read_to_string(&mut errors).await.unwrap();
        assert_eq!((&*output, &*errors), ("bye\n", ""));
    }

    #[tokio::test]
    async fn a_session_that_is_dropped_ends_the_program_and_a_term_that_ends_the_session() {
        let (mut pod, streams) = begin().await;
        drop(streams);
        let closed = pod.next().await.unwrap();
        assert_eq!((closed.kind, closed.bytes.len()), (FrameKind::Input, 0));

        let (mut pod, line) = connect();
        pod.send(FrameKind::Started, b"").await;
        let stop = CancellationToken::new();
        let mut streams = begin_program(line, stop.clone()).await.unwrap();
        stop.cancel();
        let mut output = String::new();
        streams.output.read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "");
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_ends_the_session() {
        let (pod, mut streams) = begin().await;
        drop(pod);
        let mut output = String::new();
        streams.output.read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let (mut pod, line) = connect();
        pod.send(FrameKind::Exit, br#"{"notStarted":{"missing":"npx"}}"#).await;
        let error = begin_program(line, CancellationToken::new()).await.err();
        assert_eq!(error, Some(StartError::NotStarted(NotStarted::Missing("npx".into()))));

        let (mut pod, line) = connect();
        pod.0.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        let error = begin_program(line, CancellationToken::new()).await.err();
        assert!(matches!(error, Some(StartError::Frame(_))), "{error:?}");

        let (pod, line) = connect();
        drop(pod);
        let error = begin_program(line, CancellationToken::new()).await.err();
        assert_eq!(error, Some(StartError::Broken), "it says nothing");
    }
}
