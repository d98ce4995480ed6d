//! The agent's end of the toolbox.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::Framed;
use tracing::Instrument as _;

use super::protocol::{
    MAX_FRAME, ToolboxAnswer, ToolboxFrame, ToolboxReply, ToolboxRequest, frame_codec,
};

/// Timeout for the toolbox's container to listen.
const PATIENCE: Duration = Duration::from_mins(1);

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
        tokio::spawn(carry_frames(stream, queue, waiting.clone()).in_current_span());
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

async fn carry_frames(
    stream: UnixStream,
    mut queue: mpsc::UnboundedReceiver<ToolboxFrame>,
    waiting: Arc<WaitingReplies>,
) {
    let mut frames = Framed::new(stream, frame_codec());
    loop {
        tokio::select! {
            frame = queue.recv() => {
                let Some(frame) = frame else { break };
                let bytes = serde_json::to_vec(&frame).unwrap_or_default();
                if let Err(error) = frames.send(Bytes::from(bytes)).await {
                    tracing::error!(%error, "toolbox_write_failed");
                    break;
                }
            }
            answer = frames.next() => {
                let answer = match answer {
                    Some(Ok(bytes)) => serde_json::from_slice::<ToolboxAnswer>(&bytes).map_err(io::Error::other),
                    Some(Err(error)) => Err(error),
                    None => break,
                };
                match answer {
                    Ok(answer) => {
                        let waiter = lock(&waiting).as_mut().and_then(|w| w.remove(&answer.id));
                        if let Some(waiter) = waiter {
                            let _ = waiter.send(answer.reply);
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, "toolbox_read_failed");
                        break;
                    }
                }
            }
        }
    }
    // Whoever waits is told by its sender's drop; whoever comes later finds nothing.
    lock(&waiting).take();
}
