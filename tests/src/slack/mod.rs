//! Slack, small: Web API and Socket Mode on loopback, with the real limits, codes and habits, so
//! that ordinary Slack libraries work against it unchanged. State is in memory; a driver plays
//! the people. One app is installed; it may hold several connections.
//!
//! Where Slack's documentation and its behaviour differ, the behaviour that libraries' users
//! report is followed: an update of more than 4,000 characters is refused, blocks of more than
//! 13,200 characters altogether are, and metadata payloads are missing from events.

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use tokio::task::JoinHandle;

mod actions;
mod args;
mod assistant;
mod block_kinds;
mod blocks;
mod cells;
mod core;
mod delivery;
mod driver;
mod emoji;
mod failure;
mod file_access;
mod http;
mod interaction;
mod limits;
mod methods;
mod modal_desk;
mod modals;
mod openid;
mod openid_grants;
mod options;
mod page;
mod render;
mod response_hook;
mod rich;
mod sharing;
mod socket;
mod text;
mod view;
mod watch;
mod world;

pub use delivery::{DeliveryStats, EnvelopeKind, EventDelivery};
pub use driver::SlackError;
pub use emoji::canonical_emoji;
pub use file_access::FileAccess;
pub use limits::CallFault;
pub use modals::ModalView;
pub use options::{ChatSuggestion, RateLimits, SlackOptions, SlackTiming};
pub use sharing::ForeignPost;
pub use view::{
    AgentSession, ButtonView, FileView, MessageView, SenderKind, SenderView, SlackChange,
};
pub use watch::EventRelease;
pub use world::{MessageMetadata, MessageReaction, SlackWorld, StreamStanding};

use self::core::{SharedSlack, SlackCore};
use crate::serving::listen_at;

/// A running server; clones are handles to the same one, and it ends with the last of them.
#[derive(Clone)]
pub struct SlackServer {
    inner: Arc<SharedSlack>,
    port: u16,
    running: Arc<Running>,
}

/// Ends the server when dropped.
struct Running {
    inner: Arc<SharedSlack>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.inner.stop.cancel();
    }
}

impl SlackServer {
    /// Starts a server where the options say, in the current Tokio runtime.
    ///
    /// # Errors
    /// `SlackError::Listen` if no port can be had.
    pub async fn start(options: SlackOptions) -> Result<Self, SlackError> {
        let listener = listen_at(options.at).await.map_err(SlackError::Listen)?;
        let address = listener.local_addr().map_err(SlackError::Listen)?;
        let origin = options.origin.clone().unwrap_or_else(|| format!("http://{address}"));
        let inner = Arc::new(SharedSlack::new(SlackCore::new(options), origin));
        let router = http::build_router(Arc::clone(&inner));
        let stop = inner.stop.clone();
        // A frame must not wait until the one before it is acknowledged.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let task = tokio::spawn(async move {
            let server = axum::serve(listener, router);
            if let Err(error) = server.with_graceful_shutdown(stop.cancelled_owned()).await {
                tracing::warn!(%error, "Slack server ended");
            }
        });
        let running =
            Running { inner: Arc::clone(&inner), task: tokio::sync::Mutex::new(Some(task)) };
        Ok(Self { inner, port: address.port(), running: Arc::new(running) })
    }

    /// Says goodbye to every connection and stops. A second call does nothing.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        if let Some(task) = self.running.task.lock().await.take() {
            // Idle keep-alive connections of clients would hold a graceful end up.
            let abort = task.abort_handle();
            if tokio::time::timeout(std::time::Duration::from_secs(1), task).await.is_err() {
                abort.abort();
            }
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Base of the Web API, without a slash at the end.
    pub fn api_url(&self) -> String {
        format!("{}/api", self.inner.origin)
    }

    /// `http://ADDRESS:PORT`.
    pub fn origin(&self) -> &str {
        &self.inner.origin
    }

    /// Address of the chat page, with the token that lets a browser in.
    pub fn page_url(&self) -> String {
        format!("{}/?token={}", self.inner.origin, self.inner.page_token)
    }

    /// The token in that address.
    pub fn page_token(&self) -> &str {
        &self.inner.page_token
    }

    /// Counts the changes so far.
    pub fn version(&self) -> u64 {
        *self.inner.version.borrow()
    }

    /// The bot's token (`xoxb-…`).
    pub fn bot_token(&self) -> String {
        self.inner.read(|core| core.bot_token.clone())
    }

    /// The app-level token for Socket Mode (`xapp-…`).
    pub fn app_token(&self) -> String {
        self.inner.read(|core| core.app_token.clone())
    }

    /// The whole state, to save it or to look at what no other function shows.
    pub fn snapshot(&self) -> SlackWorld {
        self.inner.read(|core| core.world.clone())
    }
}
