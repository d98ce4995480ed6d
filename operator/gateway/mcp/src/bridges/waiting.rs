//! Connections of bridges that wait for a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::wire::{BRIDGE_PING_SECONDS, FrameKind, write_frames};
use codebutler_gateway_core::thread_key::ThreadKey;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Connections of one pod that wait; its bridge opens one at a time.
const MOST_WAITING: usize = 4;
/// Interval between keep-alive frames.
const PING: Duration = Duration::from_secs(BRIDGE_PING_SECONDS);
/// Time limit for writing a keep-alive frame.
const WRITE: Duration = Duration::from_secs(5);

/// Byte stream of a bridge's connection, in both directions.
pub trait BridgeStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> BridgeStream for T {}

pub(super) type BridgeLine = Box<dyn BridgeStream>;

/// A connection that waits: asked for, it comes.
struct WaitingLine {
    id: u64,
    pod_uid: String,
    ask: oneshot::Sender<oneshot::Sender<BridgeLine>>,
}

#[derive(Default)]
struct WaitingState {
    next: u64,
    waiting: HashMap<ThreadKey, Vec<WaitingLine>>,
}

/// Connections of bridges, by namespace and name of their pods. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct WaitingBridges {
    state: Arc<Mutex<WaitingState>>,
    arrived: Arc<Notify>,
}

impl WaitingBridges {
    /// Holds a connection until it is taken, or gone.
    pub async fn hold(&self, pod: &ThreadKey, pod_uid: &str, mut line: BridgeLine) {
        let (ask, mut asked) = oneshot::channel();
        let id = self.enter(pod, pod_uid, ask);
        let mut pings = tokio::time::interval(PING);
        let mut byte = [0];
        let taker = loop {
            tokio::select! {
                taker = &mut asked => break taker.ok(),
                // A bridge has nothing to say before a session begins: this is its end.
                _ = line.read(&mut byte) => break None,
                _ = pings.tick() => {
                    let mut ping = Vec::new();
                    write_frames(FrameKind::Ping, b"", &mut ping);
                    let written = async {
                        line.write_all(&ping).await?;
                        line.flush().await
                    };
                    if !matches!(timeout(WRITE, written).await, Ok(Ok(()))) {
                        break None;
                    }
                }
            }
        };
        self.leave(pod, id);
        if let Some(taker) = taker {
            let _ = taker.send(line);
        }
    }

    /// A connection of exactly this pod, if one waits. Those of its predecessors are closed.
    pub async fn take(&self, pod: &ThreadKey, pod_uid: &str) -> Option<BridgeLine> {
        loop {
            let found = {
                let mut state = self.state.lock();
                let waiting = state.waiting.get_mut(pod)?;
                waiting.retain(|line| line.pod_uid == pod_uid);
                waiting.pop()
            }?;
            let (give, given) = oneshot::channel();
            if found.ask.send(give).is_ok()
                && let Ok(line) = given.await
            {
                return Some(line);
            }
        }
    }

    /// Ends once another connection has arrived, of whichever pod. It counts from the moment that it is made.
    pub fn arrival(&self) -> impl Future<Output = ()> + use<> {
        Arc::clone(&self.arrived).notified_owned()
    }

    fn enter(
        &self,
        pod: &ThreadKey,
        pod_uid: &str,
        ask: oneshot::Sender<oneshot::Sender<BridgeLine>>,
    ) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let id = state.next;
        let waiting = state.waiting.entry(pod.clone()).or_default();
        if waiting.len() >= MOST_WAITING {
            waiting.remove(0);
        }
        waiting.push(WaitingLine { id, pod_uid: pod_uid.to_owned(), ask });
        drop(state);
        self.arrived.notify_waiters();
        id
    }

    fn leave(&self, pod: &ThreadKey, id: u64) {
        let mut state = self.state.lock();
        if let Some(waiting) = state.waiting.get_mut(pod) {
            waiting.retain(|line| line.id != id);
            if waiting.is_empty() {
                state.waiting.remove(pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> ThreadKey {
        ThreadKey { namespace: "team".into(), name: "a.mcp.db".into() }
    }

    #[tokio::test]
    async fn a_line_is_given_once_and_only_to_its_own_pod() {
        let waiting = WaitingBridges::default();
        let (mut bridge, line) = tokio::io::duplex(256);
        let holding = {
            let waiting = waiting.clone();
            tokio::spawn(async move { waiting.hold(&pod(), "7", Box::new(line)).await })
        };
        let mut ping = [9; 5];
        bridge.read_exact(&mut ping).await.unwrap();
        assert_eq!(ping, [0; 5], "the bridge learns that somebody is there");
        let other = ThreadKey { name: "b.mcp.db".into(), ..pod() };
        assert!(waiting.take(&other, "7").await.is_none());
        let mut taken = waiting.take(&pod(), "7").await.unwrap();
        holding.await.unwrap();
        assert!(waiting.take(&pod(), "7").await.is_none());
        taken.write_all(b"x").await.unwrap();
        let mut byte = [0];
        bridge.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"x");
    }

    #[tokio::test]
    async fn lines_of_an_earlier_pod_and_lines_that_speak_are_closed() {
        let waiting = WaitingBridges::default();
        for (uid, said) in [("old", &b""[..]), ("7", b"hello")] {
            let (mut bridge, line) = tokio::io::duplex(256);
            let holding = {
                let waiting = waiting.clone();
                tokio::spawn(async move { waiting.hold(&pod(), uid, Box::new(line)).await })
            };
            let mut ping = [9; 5];
            bridge.read_exact(&mut ping).await.unwrap();
            bridge.write_all(said).await.unwrap();
            if said.is_empty() {
                assert!(waiting.take(&pod(), "7").await.is_none());
            }
            holding.await.unwrap();
            let mut rest = Vec::new();
            assert_eq!(bridge.read_to_end(&mut rest).await.unwrap(), 0, "closed");
        }
        assert!(waiting.state.lock().waiting.is_empty());
    }
}
