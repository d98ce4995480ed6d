//! The form of 2024-11-05: a stream of events from the server, which names the address that takes messages.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::stream::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::dialer::BodyStream;
use super::http::{HttpChannel, HttpFault, has_type};
use super::intake::in_sdk_form;
use super::sse::{EventReader, ServerEvent, messages_in};

/// Messages between the stream's task and the session.
const BUFFERED: usize = 64;

pub(crate) struct EventsTransport {
    channel: HttpChannel,
    target: Url,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    _stop: DropGuard,
}

impl EventsTransport {
    pub(crate) async fn open(channel: HttpChannel, url: &Url) -> Result<Self, HttpFault> {
        let mut own = HeaderMap::new();
        own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = channel.send(Method::GET, url, own, Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(channel.fault_of(response).await.0);
        }
        if !has_type(&response, "text/event-stream") {
            return Err(HttpFault::Form("it answers with no stream of events".to_owned()));
        }
        let mut body = response.into_body();
        let mut reader = EventReader::new(channel.message_bytes);
        let (target, rest) = find_target(&mut body, &mut reader, url).await?;
        channel.intake.is_heard.store(true, Ordering::SeqCst);
        let (sender, incoming) = mpsc::channel(BUFFERED);
        let stop = CancellationToken::new();
        let (listener, ended) = (channel.clone(), stop.clone());
        tokio::spawn(async move {
            let listening = listen(listener, body, reader, rest, sender);
            let _ = ended.run_until_cancelled(listening).await;
        });
        Ok(Self { channel, target, incoming, _stop: stop.drop_guard() })
    }
}

async fn find_target(
    body: &mut BodyStream,
    reader: &mut EventReader,
    url: &Url,
) -> Result<(Url, Vec<ServerEvent>), HttpFault> {
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| HttpFault::Form(error.to_string()))?;
        let mut events = reader.push(&chunk);
        let Some(at) = events.iter().position(|event| event.name.as_deref() == Some("endpoint"))
        else {
            continue;
        };
        let rest = events.split_off(at + 1);
        let named = String::from_utf8_lossy(&events[at].data).trim().to_owned();
        return match url.join(&named) {
            // Messages hold credentials and what people wrote.
            Ok(target) if target.origin() == url.origin() => Ok((target, rest)),
            _ => Err(HttpFault::Form("it wants messages sent to another origin".to_owned())),
        };
    }
    Err(HttpFault::Form("its stream of events ended before it named an address".to_owned()))
}

async fn listen(
    channel: HttpChannel,
    mut body: BodyStream,
    mut reader: EventReader,
    mut events: Vec<ServerEvent>,
    sender: mpsc::Sender<ServerJsonRpcMessage>,
) {
    loop {
        let messages = events
            .iter()
            .filter(|event| event.name.as_deref().is_none_or(|name| name == "message"));
        let messages =
            messages.flat_map(|event| messages_in(event, &channel.intake, channel.message_bytes));
        for message in messages.collect::<Vec<_>>() {
            if let Some(message) = in_sdk_form(message)
                && sender.send(message).await.is_err()
            {
                return;
            }
        }
        let Some(Ok(chunk)) = body.next().await else {
            return channel.intake.events.close();
        };
        events = reader.push(&chunk);
    }
}

impl Transport<RoleClient> for EventsTransport {
    type Error = HttpFault;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), HttpFault>> + Send + 'static {
        self.channel.intake.note_sent(&item);
        let (channel, target) = (self.channel.clone(), self.target.clone());
        async move {
            let body =
                serde_json::to_vec(&item).map_err(|error| HttpFault::Form(error.to_string()))?;
            let mut own = HeaderMap::new();
            own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let response = channel.send(Method::POST, &target, own, body.into()).await?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(channel.fault_of(response).await.0)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpFault> {
        self.incoming.close();
        Ok(())
    }
}
