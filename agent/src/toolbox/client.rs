//! Client of the toolbox, over the pod's Unix socket.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tracing::Instrument as _;

use super::protocol::{
    MAX_FRAME, ToolboxAnswer, ToolboxFrame, ToolboxReply, ToolboxRequest, frame_codec,
};

/// Timeout for the toolbox's container to listen.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pings of a toolbox that works on a request: a command may take as long as it likes, and a process that hangs answers
/// no ping.
const PINGS: PingTiming =
    PingTiming { every: Duration::from_secs(30), silence: Duration::from_mins(5) };
/// Id of ping frames. Their answers are discarded.
const PING: u64 = u64::MAX - 1;

/// The toolbox gave no answer. All but the first end the agent: its pod starts anew.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// Longer than a frame can be.
    #[error("the request is too large")]
    TooLarge,
    /// Nothing listens on the socket until the timeout.
    #[error("the toolbox does not listen on {path}")]
    Connect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the toolbox is gone")]
    Gone,
}

type WaitingReplies = Mutex<Option<HashMap<u64, oneshot::Sender<ToolboxReply>>>>;

/// A connection to the toolbox. Cheap to clone.
#[derive(Clone)]
pub struct ToolboxClient {
    requests: mpsc::UnboundedSender<ToolboxFrame>,
    waiting: Arc<WaitingReplies>,
    next: Arc<AtomicU64>,
}

impl ToolboxClient {
    /// Connects; waits for the socket to appear.
    pub async fn connect(path: &Path) -> Result<Self, ToolboxError> {
        Self::connect_with(path, PINGS).await
    }

    async fn connect_with(path: &Path, pings: PingTiming) -> Result<Self, ToolboxError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(1);
        let stream = loop {
            match UnixStream::connect(path).await {
                Ok(stream) => break stream,
                Err(source) if Instant::now() > deadline => {
                    return Err(ToolboxError::Connect { path: path.to_owned(), source });
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(carry_frames(stream, queue, waiting.clone(), pings).in_current_span());
        Ok(Self { requests, waiting, next: Arc::default() })
    }

    /// Asks and waits. Dropping the future tells the toolbox to stop.
    pub async fn ask(&self, request: ToolboxRequest) -> Result<ToolboxReply, ToolboxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(ToolboxError::Gone),
        };
        let guard = CancelOnDrop { toolbox: self, id };
        // The frame's own few bytes on top.
        if serde_json::to_vec(&request).map_or(usize::MAX, |bytes| bytes.len()) > MAX_FRAME - 64 {
            return Err(ToolboxError::TooLarge);
        }
        self.requests.send(ToolboxFrame { id, request }).map_err(|_| ToolboxError::Gone)?;
        let reply = receiver.await.map_err(|_| ToolboxError::Gone);
        drop(guard);
        reply
    }
}

struct CancelOnDrop<'a> {
    toolbox: &'a ToolboxClient,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let unanswered =
            lock(&self.toolbox.waiting).as_mut().is_some_and(|w| w.remove(&self.id).is_some());
        if unanswered {
            let request = ToolboxRequest::Cancel { id: self.id };
            let _ = self.toolbox.requests.send(ToolboxFrame { id: u64::MAX, request });
        }
    }
}

fn lock(
    waiting: &WaitingReplies,
) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<ToolboxReply>>>> {
    waiting.lock()
}

/// Interval of pings, and the time after which an unanswered one means that the toolbox hangs.
#[derive(Clone, Copy)]
struct PingTiming {
    every: Duration,
    silence: Duration,
}

/// Time of the oldest ping that nothing has been received since.
#[derive(Default)]
struct UnansweredPing(Option<Instant>);

impl UnansweredPing {
    fn sent(&mut self, now: Instant) {
        self.0.get_or_insert(now);
    }

    const fn received(&mut self) {
        self.0 = None;
    }

    fn is_older_than(&self, silence: Duration, now: Instant) -> bool {
        self.0.is_some_and(|sent| now.saturating_duration_since(sent) >= silence)
    }
}

type FrameSink = SplitSink<Framed<UnixStream, LengthDelimitedCodec>, Bytes>;
type FrameStream = SplitStream<Framed<UnixStream, LengthDelimitedCodec>>;

/// Carries frames until the connection ends, or the toolbox hangs. Reading goes on while a frame is written: two ends
/// that both only write would wait for each other.
async fn carry_frames(
    stream: UnixStream,
    queue: mpsc::UnboundedReceiver<ToolboxFrame>,
    waiting: Arc<WaitingReplies>,
    timing: PingTiming,
) {
    let (sink, stream) = Framed::new(stream, frame_codec()).split();
    let (pings, pinged) = mpsc::channel(1);
    let unanswered = Mutex::default();
    tokio::select! {
        () = write_frames(sink, queue, pinged) => {}
        () = read_frames(stream, &waiting, &unanswered) => {}
        () = ping_while_waiting(pings, &waiting, &unanswered, timing) => {}
    }
    // Whoever waits is told by its sender's drop; whoever comes later finds nothing.
    lock(&waiting).take();
}

async fn write_frames(
    mut sink: FrameSink,
    mut queue: mpsc::UnboundedReceiver<ToolboxFrame>,
    mut pings: mpsc::Receiver<ToolboxFrame>,
) {
    loop {
        let frame = tokio::select! {
            frame = queue.recv() => frame,
            ping = pings.recv() => ping,
        };
        let Some(frame) = frame else { return };
        let bytes = serde_json::to_vec(&frame).unwrap_or_default();
        if let Err(error) = sink.send(Bytes::from(bytes)).await {
            tracing::error!(%error, "toolbox_write_failed");
            return;
        }
    }
}

async fn read_frames(
    mut stream: FrameStream,
    waiting: &WaitingReplies,
    unanswered: &Mutex<UnansweredPing>,
) {
    while let Some(frame) = stream.next().await {
        unanswered.lock().received();
        let answer = frame.and_then(|bytes| {
            serde_json::from_slice::<ToolboxAnswer>(&bytes).map_err(io::Error::other)
        });
        match answer {
            Ok(answer) => {
                let waiter = lock(waiting).as_mut().and_then(|w| w.remove(&answer.id));
                if let Some(waiter) = waiter {
                    let _ = waiter.send(answer.reply);
                }
            }
            Err(error) => {
                tracing::error!(%error, "toolbox_read_failed");
                return;
            }
        }
    }
}

/// Returns once a ping stays unanswered.
async fn ping_while_waiting(
    pings: mpsc::Sender<ToolboxFrame>,
    waiting: &WaitingReplies,
    unanswered: &Mutex<UnansweredPing>,
    timing: PingTiming,
) {
    loop {
        tokio::time::sleep(timing.every).await;
        let now = Instant::now();
        if unanswered.lock().is_older_than(timing.silence, now) {
            tracing::error!(seconds = timing.silence.as_secs(), "toolbox_hangs");
            return;
        }
        let is_asked = lock(waiting).as_ref().is_some_and(|waiting| !waiting.is_empty());
        if is_asked {
            unanswered.lock().sent(now);
            // Where there is no room, the ping before has not even been taken.
            let _ = pings.try_send(ToolboxFrame { id: PING, request: ToolboxRequest::Ping });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    const BRISK: PingTiming =
        PingTiming { every: Duration::from_millis(1), silence: Duration::from_millis(50) };

    #[tokio::test]
    async fn a_toolbox_that_hangs_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = ToolboxClient::connect_with(&path, BRISK).await.unwrap();
        // It keeps the connection and answers nothing.
        let (_kept, _) = listener.accept().await.unwrap();
        let error = client.ask(ToolboxRequest::Head).await.unwrap_err();
        assert!(matches!(error, ToolboxError::Gone), "{error}");
        assert!(matches!(client.ask(ToolboxRequest::Head).await, Err(ToolboxError::Gone)));
    }

    #[tokio::test]
    async fn a_long_request_is_waited_for_while_pings_are_answered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let timing = PingTiming { silence: Duration::from_mins(1), ..BRISK };
        let client = ToolboxClient::connect_with(&path, timing).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let toolbox = tokio::spawn(async move {
            let mut frames = Framed::new(stream, frame_codec());
            let (mut asked, mut pings) = (None, 0);
            while asked.is_none() || pings < 20 {
                let frame = frames.next().await.unwrap().unwrap();
                let frame: ToolboxFrame = serde_json::from_slice(&frame).unwrap();
                if matches!(frame.request, ToolboxRequest::Ping) {
                    pings += 1;
                } else {
                    asked = Some(frame.id);
                }
                let sign = ToolboxAnswer { id: PING, reply: ToolboxReply::Text(String::new()) };
                frames.send(Bytes::from(serde_json::to_vec(&sign).unwrap())).await.unwrap();
            }
            let reply = ToolboxReply::Text("done".to_owned());
            let answer = ToolboxAnswer { id: asked.unwrap(), reply };
            frames.send(Bytes::from(serde_json::to_vec(&answer).unwrap())).await.unwrap();
            frames
        });
        let reply = client.ask(ToolboxRequest::Head).await.unwrap();
        assert!(matches!(reply, ToolboxReply::Text(text) if text == "done"));
        drop(toolbox.await.unwrap());
    }

    #[test]
    fn any_answer_ends_the_silence() {
        let (start, silence) = (Instant::now(), BRISK.silence);
        let mut ping = UnansweredPing::default();
        assert!(!ping.is_older_than(silence, start + silence), "none was sent");
        ping.sent(start);
        ping.sent(start + silence / 2);
        assert!(ping.is_older_than(silence, start + silence), "the oldest counts");
        ping.received();
        assert!(!ping.is_older_than(silence, start + silence));
    }
}
