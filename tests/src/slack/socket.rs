//! One Socket Mode connection: hello, envelopes out, acknowledgements in, goodbye in time.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::core::SharedSlack;
use super::delivery::{DeliveryOrder, EnvelopeKind};
use super::options::SlackTiming;
use super::render::ORIGIN;
use super::view::SlackChange;

/// Life of a connection opened with `debug_reconnects=true`, in seconds.
const DEBUG_LIFETIME: u64 = 360;

/// Grace period for a client to hang up after it was told to disconnect.
const GOODBYE: Duration = Duration::from_secs(2);

/// Phase of a connection's shutdown.
#[derive(Debug, Clone, Copy)]
enum ShutdownPhase {
    Serving,
    Warned,
    Leaving,
}

/// Serves a connection until either side has enough.
pub(super) async fn serve_connection(inner: Arc<SharedSlack>, mut socket: WebSocket, debug: bool) {
    let admitted = inner.update(|core| {
        let most = core.options.max_connections;
        let admitted = core.dispatcher.connect(most);
        let count = core.dispatcher.connections();
        if admitted.is_some() {
            core.announce(SlackChange::Connections { count });
        }
        let mut timing = core.options.timing.clone();
        if debug {
            timing.connection_lifetime = Duration::from_secs(DEBUG_LIFETIME);
        }
        (admitted, count, core.world.app.id.clone(), timing)
    });
    let (Some((id, orders)), count, app_id, timing) = admitted else {
        let bye = json!({
            "type": "disconnect",
            "reason": "too_many_websockets",
            "num_connections": admitted.1,
            "debug_info": { "host": "applink-testbed" },
            "connection_info": { "app_id": admitted.2 },
        });
        let _ = socket.send(Message::text(bye.to_string())).await;
        close_socket(&mut socket).await;
        return;
    };
    let hello = json!({
        "type": "hello",
        "num_connections": count,
        "connection_info": { "app_id": app_id },
        "debug_info": {
            "host": "applink-testbed",
            "build_number": 1,
            "approximate_connection_time": timing.connection_lifetime.as_secs(),
        },
    });
    if socket.send(Message::text(hello.to_string())).await.is_ok() {
        pump_orders(&inner, &mut socket, orders, id, &timing).await;
    }
    inner.update(|core| {
        core.dispatcher.disconnected(id);
        let count = core.dispatcher.connections();
        core.announce(SlackChange::Connections { count });
    });
}

async fn pump_orders(
    inner: &Arc<SharedSlack>,
    socket: &mut WebSocket,
    mut orders: UnboundedReceiver<DeliveryOrder>,
    id: u64,
    timing: &SlackTiming,
) {
    let mut phase = ShutdownPhase::Serving;
    let mut next_phase = Instant::now() + timing.connection_lifetime;
    let mut ping = interval_at(Instant::now() + timing.ping_interval, timing.ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            frame = socket.recv() => match frame {
                Some(Ok(Message::Text(text))) => {
                    acknowledge_frame(inner, &text);
                    continue;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            order = orders.recv() => match order {
                Some(DeliveryOrder::Send(envelope)) => {
                    Message::text(envelope.replace(ORIGIN, &inner.origin))
                }
                Some(DeliveryOrder::Disconnect(reason)) => {
                    phase = ShutdownPhase::Leaving;
                    next_phase = Instant::now() + timing.refresh_grace;
                    disconnect_frame(reason)
                }
                Some(DeliveryOrder::Abort) | None => return,
            },
            () = sleep_until(next_phase) => {
                next_phase = Instant::now() + timing.refresh_grace;
                match phase {
                    ShutdownPhase::Serving => {
                        phase = ShutdownPhase::Warned;
                        disconnect_frame("warning")
                    }
                    ShutdownPhase::Warned => {
                        phase = ShutdownPhase::Leaving;
                        inner.update(|core| core.dispatcher.drain(id));
                        disconnect_frame("refresh_requested")
                    }
                    ShutdownPhase::Leaving => return close_socket(socket).await,
                }
            }
            _ = ping.tick() => Message::Ping("Ping from applink-testbed".into()),
            () = inner.stop.cancelled() => return close_socket(socket).await,
        };
        if socket.send(frame).await.is_err() {
            return;
        }
    }
}

/// Closes with a code and waits for the other side to hang up. A socket that is dropped while the
/// client still talks is reset, and a client that reads both frames at once loses the first with it.
async fn close_socket(socket: &mut WebSocket) {
    let frame = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    if socket.send(Message::Close(Some(frame))).await.is_err() {
        return;
    }
    let hung_up = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(GOODBYE, hung_up).await;
}

fn disconnect_frame(reason: &str) -> Message {
    let frame = json!({
        "type": "disconnect",
        "reason": reason,
        "debug_info": { "host": "applink-testbed" },
    });
    Message::text(frame.to_string())
}

fn acknowledge_frame(inner: &Arc<SharedSlack>, frame: &str) {
    let frame: Value = serde_json::from_str(frame).unwrap_or_default();
    let envelope_id = frame["envelope_id"].as_str().unwrap_or_default();
    inner.update(|core| {
        let Some(first) = core.dispatcher.ack(envelope_id) else { return };
        if first.kind == EnvelopeKind::Interactive {
            let after = first.emitted_at.elapsed();
            let action_ts = first.key.clone();
            core.modals.acked(&action_ts);
            core.announce(SlackChange::ClickAcked { action_ts, after });
        }
    });
}
