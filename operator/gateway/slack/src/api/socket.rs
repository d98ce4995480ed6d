//! One app's Socket Mode connection: opened again whenever it ends, replaced before Slack closes it.
//!
//! Envelopes are taken in many at a time, and each is acknowledged when its effect is stored, or
//! not at all: Slack sends it again then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_gateway_core::dial::{DialedLine, OutsideDialer};
use futures::{SinkExt as _, StreamExt as _};
use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::Inner;
use crate::api::channel::RepoChannel;
use crate::api::explain;
use crate::api::frame::SocketFrame;
use crate::api::web::{CallError, SlackToken, unsent_reason};

/// Most envelopes that are taken in at the same time.
const AT_ONCE: usize = 64;
/// Interval of our pings; a socket silent for `SILENCE` is dead.
const PING: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(45);
/// Timeout for opening a socket.
const OPEN: Duration = Duration::from_secs(20);
/// Grace period for what was begun when a socket is given up.
const FINISH: Duration = Duration::from_secs(5);
/// Time after which a socket is closed from here once another one has taken its place. Slack closes it sooner; where it
/// forgets to, the socket would count among the app's ten for good.
const LEFT: Duration = Duration::from_secs(30);
/// Longest backoff between two attempts.
const LONGEST: Duration = Duration::from_secs(30);
/// Method that gives the address of a socket.
const OPENS: &str = "apps.connections.open";
/// Failures after which it is told that all connections of an app are in use.
const CROWDED: u32 = 7;
/// Reasons for which Slack ends a socket and takes no other: the app has ten, or its Socket Mode is off.
const TOO_MANY: &str = "too_many_websockets";
const SWITCHED_OFF: &str = "link_disabled";

type Socket = WebSocketStream<TokioIo<MaybeHttpsStream<DialedLine>>>;

/// A socket could not be opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The address carries a ticket: the error must not show it.
    #[error("Slack's socket can't be opened ({0})")]
    Socket(String),
}

#[derive(Deserialize)]
struct Opened {
    url: String,
}

/// Holds the socket until told to stop. `connected` counts the connections made.
pub(crate) async fn hold_socket(
    inner: &Arc<Inner>,
    token: &SlackToken,
    channels: &watch::Receiver<Vec<RepoChannel>>,
    stop: &CancellationToken,
    connected: watch::Sender<u64>,
) {
    let serving = TaskTracker::new();
    let mut failures = 0_u32;
    // Set after a time without a connection: edits and deletions from then can't be read back.
    let mut gap = false;
    loop {
        let opened = tokio::select! {
            () = stop.cancelled() => break,
            opened = open_socket(inner, token) => opened,
        };
        match opened {
            Ok(socket) => {
                let (replace, mut replaced) = mpsc::channel(1);
                let one = One {
                    inner: Arc::clone(inner),
                    channels: channels.clone(),
                    stop: stop.clone(),
                    connected: connected.clone(),
                    token: token.clone(),
                    replace,
                };
                let began = Instant::now();
                serving.spawn(one.serve(socket));
                if gap {
                    inner.kept.outdate();
                }
                // Ends when the socket does, or when Slack is about to end it: then the next one
                // is opened while this one still finishes.
                let ended = replaced.recv().await;
                gap = !matches!(ended, Some(Goodbye::Refresh));
                failures = match ended {
                    Some(Goodbye::Refresh) => 0,
                    Some(Goodbye::Refused(_)) => failures.max(3).saturating_add(1),
                    None if began.elapsed() > Duration::from_secs(5) => 0,
                    None => failures + 1,
                };
                if let Some(Goodbye::Refused(reason)) = ended {
                    report_refusal(inner, token, channels, (reason, failures)).await;
                }
            }
            Err(error) => {
                // The last socket may have ended meanwhile, although it was to be replaced.
                gap = true;
                failures = failures.saturating_add(1);
                report_error(inner, token, channels, &error, failures).await;
            }
        }
        if failures > 0 {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(connect_backoff(failures)) => {}
            }
        }
    }
    serving.close();
    serving.wait().await;
}

async fn wait_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn connect_backoff(failures: u32) -> Duration {
    let base = Duration::from_millis(100 << failures.min(9)).min(LONGEST);
    base.mul_f64(rand::random_range(0.5..1.0))
}

async fn open_socket(inner: &Inner, token: &SlackToken) -> Result<Socket, OpenError> {
    let body = serde_json::json!({});
    let opened: Opened = inner.web.post(token, OPENS, &body).await?;
    let no_answer = |_| OpenError::Socket("no answer".to_owned());
    let connecting = Box::pin(connect_socket(inner.web.dialer(), &opened.url));
    tokio::time::timeout(OPEN, connecting).await.map_err(no_answer)?
}

async fn connect_socket(dialer: &OutsideDialer, url: &str) -> Result<Socket, OpenError> {
    // To a connector, a socket is what it is carried by.
    let carrier = url.strip_prefix("ws").map(|rest| format!("http{rest}"));
    let to: Option<Uri> = carrier.and_then(|carrier| carrier.parse().ok());
    let to = to.ok_or_else(|| OpenError::Socket("no address of a socket".to_owned()))?;
    let line = dialer.connector().oneshot(to).await;
    let line = line.map_err(|error| OpenError::Socket(unsent_reason(&*error)))?;
    let upgraded = Box::pin(tokio_tungstenite::client_async(url, TokioIo::new(line))).await;
    let (socket, _) = upgraded.map_err(|_| OpenError::Socket("refused".to_owned()))?;
    Ok(socket)
}

/// Tells every Repo of the app what is wrong; a single hiccup is not told.
async fn report_error(
    inner: &Inner,
    token: &SlackToken,
    channels: &watch::Receiver<Vec<RepoChannel>>,
    error: &OpenError,
    failures: u32,
) {
    tracing::warn!(%error, failures, "slack_connection_failed");
    let call = match error {
        OpenError::Call(call) => call.clone(),
        OpenError::Socket(what) => {
            CallError::Failed { method: OPENS, what: what.clone(), lost: true }
        }
    };
    if call.code().is_none() && failures < 3 {
        return;
    }
    tell_silence(inner, token, channels, &call).await;
}

/// Reports a socket that Slack ended for a reason that lasts.
async fn report_refusal(
    inner: &Inner,
    token: &SlackToken,
    channels: &watch::Receiver<Vec<RepoChannel>>,
    (reason, failures): (&'static str, u32),
) {
    tracing::warn!(error = reason, failures, "slack_connection_failed");
    // A socket that is being replaced counts among the ten for a while. Of several replicas one connection is enough, so
    // only the replica that sweeps reports its own.
    if reason == TOO_MANY && (failures < CROWDED || !inner.leading.sweeps()) {
        return;
    }
    let (code, needed, said) = (reason.to_owned(), None, None);
    let call = CallError::Refused { method: OPENS, code, needed, said };
    tell_silence(inner, token, channels, &call).await;
}

/// Tells every Repo of the app why no messages arrive.
async fn tell_silence(
    inner: &Inner,
    token: &SlackToken,
    channels: &watch::Receiver<Vec<RepoChannel>>,
    call: &CallError,
) {
    inner.channels.note_socket(token, Some(call.clone()));
    let channels = channels.borrow().clone();
    for channel in channels.into_iter().filter(|channel| channel.is_own) {
        let Some(repo) = inner.context.repo(&channel.namespace, &channel.repo) else { continue };
        let error = call.clone().into();
        inner.reach.tell(&repo, Err(explain::explain_condition(&error, &repo))).await;
    }
}

/// Reason for which Slack asks to leave a connection.
enum Goodbye {
    /// Slack refreshes the connection: another one is to take its place.
    Refresh,
    /// Too many connections, or Socket Mode is off: another one would fare no better. Holds Slack's reason.
    Refused(&'static str),
}

struct One {
    inner: Arc<Inner>,
    channels: watch::Receiver<Vec<RepoChannel>>,
    stop: CancellationToken,
    connected: watch::Sender<u64>,
    token: SlackToken,
    replace: mpsc::Sender<Goodbye>,
}

impl One {
    /// Serves the socket until either side ends it, then finishes what was begun.
    async fn serve(self, mut socket: Socket) {
        let open = self.inner.metrics.socket();
        let (acks, mut to_ack) = mpsc::unbounded_channel::<String>();
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let working = TaskTracker::new();
        let mut ping = tokio::time::interval(PING);
        let mut heard = Instant::now();
        let (mut is_leaving, mut leaves_at) = (false, None);
        let mut hellos = self.connected.subscribe();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = wait_until(leaves_at) => break,
                Ok(()) = hellos.changed(), if is_leaving && leaves_at.is_none() => {
                    leaves_at = Some(tokio::time::Instant::now() + LEFT);
                }
                Some(ack) = to_ack.recv() => {
                    if socket.send(Message::text(ack)).await.is_err() {
                        break;
                    }
                }
                frame = socket.next() => {
                    heard = Instant::now();
                    match frame {
                        Some(Ok(Message::Text(text))) => {
                            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                                break;
                            };
                            if let Some(work) = self.received(&text, &acks, &mut is_leaving) {
                                working.spawn(async move {
                                    work.await;
                                    drop(permit);
                                });
                            }
                            if !is_leaving {
                                // Only that of the next socket counts, not its own.
                                hellos.mark_unchanged();
                            }
                        }
                        Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                        Some(Ok(_)) => {}
                    }
                }
                _ = ping.tick() => {
                    let ping = Message::Ping("codebutler".into());
                    if heard.elapsed() > SILENCE || socket.send(ping).await.is_err() {
                        break;
                    }
                }
            }
        }
        drop(open);
        // A new connection need not wait for the old one's farewell.
        drop(self.replace);
        drop(acks);
        working.close();
        let finish = async {
            while let Some(ack) = to_ack.recv().await {
                if socket.send(Message::text(ack)).await.is_err() {
                    break;
                }
            }
            let _ = socket.close(None).await;
        };
        let _ = tokio::time::timeout(FINISH, finish).await;
    }

    /// Handles a frame; returns the work to be done for it, if any. `is_leaving` is set where Slack says goodbye.
    fn received(
        &self,
        text: &str,
        acks: &mpsc::UnboundedSender<String>,
        is_leaving: &mut bool,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let arrived = Instant::now();
        let Ok(frame) = serde_json::from_str::<SocketFrame>(text) else {
            tracing::warn!("slack_frame_invalid");
            return None;
        };
        match (frame.kind.as_str(), &frame.envelope_id) {
            ("hello", _) => {
                self.inner.channels.note_socket(&self.token, None);
                self.connected.send_modify(|count| *count += 1);
                None
            }
            ("disconnect", _) => {
                let goodbye = match frame.reason.as_deref() {
                    Some(TOO_MANY) => Goodbye::Refused(TOO_MANY),
                    Some(SWITCHED_OFF) => Goodbye::Refused(SWITCHED_OFF),
                    _ => Goodbye::Refresh,
                };
                *is_leaving = true;
                let _ = self.replace.try_send(goodbye);
                None
            }
            (_, Some(id)) => {
                let ack = serde_json::json!({"envelope_id": id}).to_string();
                let inner = Arc::clone(&self.inner);
                let channels = self.channels.borrow().clone();
                let acks = acks.clone();
                let span = tracing::info_span!("envelope", id, kind = frame.kind, thread = Empty);
                let taking = async move {
                    let Some(effects) = inner.take_in(&frame, &channels).await else {
                        // Not stored: not acknowledged, so it comes again.
                        return;
                    };
                    let _ = acks.send(ack);
                    inner.metrics.acknowledged(arrived.elapsed());
                    inner.follow_up(effects);
                };
                Some(taking.instrument(span))
            }
            _ => None,
        }
    }
}
