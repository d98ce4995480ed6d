//! The DevTools protocol: one question at a time, and what the page says meanwhile.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::BrowserError;

/// Largest answer: a picture in base64.
const MESSAGE: usize = 64 << 20;
/// Longest part of an unreadable answer in an error, in characters.
const CUT: usize = 300;

/// A browser tab, driven through its DevTools socket.
pub(crate) struct PageTab {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: Option<Value>,
    number: u64,
    /// Events since they were last taken.
    events: Vec<Value>,
}

/// Events that are kept until they are taken.
const EVENTS: usize = 2_000;

impl PageTab {
    /// Connects to the browser and opens an empty tab.
    pub(crate) async fn open(address: &str) -> Result<Self, BrowserError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE))
            .max_frame_size(Some(MESSAGE));
        let connected =
            tokio_tungstenite::connect_async_with_config(address, Some(config), false).await;
        let (socket, _) = connected.map_err(|error| BrowserError::Start(error.to_string()))?;
        let mut tab = Self { socket, session: None, number: 0, events: Vec::new() };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = tab.call("Target.attachToTarget", attach).await?;
        tab.session = Some(attached["sessionId"].clone());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(tab)
    }

    /// Asks for something, and waits for the answer.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone();
        }
        let sent = self.socket.send(Message::text(message.to_string())).await;
        sent.map_err(|error| BrowserError::Ended(error.to_string()))?;
        loop {
            let mut answer = self.read().await?;
            if answer["id"] != self.number {
                self.keep(answer);
                continue;
            }
            if let Some(why) = answer["error"]["message"].as_str() {
                return Err(BrowserError::Strange {
                    method: method.to_owned(),
                    answer: why.chars().take(CUT).collect(),
                });
            }
            return Ok(answer["result"].take());
        }
    }

    /// Waits for a DevTools event and returns its parameters.
    pub(crate) async fn wait_for(&mut self, event: &str) -> Result<Value, BrowserError> {
        loop {
            if let Some(at) = self.events.iter().position(|known| known["method"] == event) {
                return Ok(self.events.remove(at)["params"].take());
            }
            let next = self.read().await?;
            self.keep(next);
        }
    }

    /// Events so far, the oldest first.
    pub(crate) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    fn keep(&mut self, message: Value) {
        if message["method"].is_string() && self.events.len() < EVENTS {
            self.events.push(message);
        }
    }

    async fn read(&mut self) -> Result<Value, BrowserError> {
        loop {
            let message = match self.socket.next().await {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Err(BrowserError::Ended(error.to_string())),
                None => return Err(BrowserError::Ended("it hung up".to_owned())),
            };
            let Message::Text(text) = message else { continue };
            return serde_json::from_str(&text).map_err(|_| BrowserError::Strange {
                method: "a message".to_owned(),
                answer: text.chars().take(CUT).collect(),
            });
        }
    }
}
