//! Options of the workspace, the app and Slack's timing, for tests.

use std::time::Duration;

use serde::Serialize;

use super::world::SlackWorld;
use crate::serving::ListenAddress;

/// Options of the server at its start. `SlackOptions::default()` is a healthy workspace.
#[derive(Debug, Clone)]
pub struct SlackOptions {
    /// Workspace name, shown in `auth.test`.
    pub team_name: String,
    /// Handle of the app's bot user, as people mention it.
    pub bot_name: String,
    /// Scopes granted to the bot token.
    pub scopes: Vec<String>,
    /// True if the app is declared an agent, which has it granted `assistant:write`.
    pub agent: bool,
    /// Event types that the app subscribes to, as in its manifest (`message.channels`, …).
    pub subscriptions: Vec<String>,
    /// Domains whose links the app hears of and shows (`features.unfurl_domains`), each with those under it.
    pub unfurl_domains: Vec<String>,
    /// Metadata event types that the app's manifest declares. Payloads of all others are left
    /// out of events, and of histories read without `include_all_metadata`.
    pub metadata_subscriptions: Vec<String>,
    /// Delivery, retries and connection life.
    pub timing: SlackTiming,
    /// Rate limits that Web API calls are held to.
    pub rate_limits: RateLimits,
    /// Most live Socket Mode connections; the next one is turned away.
    pub max_connections: usize,
    /// A world saved earlier (`SlackServer::snapshot`) instead of an empty workspace.
    pub world: Option<SlackWorld>,
    /// Address that the server listens on.
    pub at: ListenAddress,
    /// Public origin, if not the server's own address: `https://slack.example.com`.
    pub origin: Option<String>,
    /// Lets the chat page in; one is made up if absent.
    pub page_token: Option<String>,
    /// Conversations that the chat page offers to begin.
    pub suggestions: Vec<ChatSuggestion>,
}

/// A conversation that the chat page offers to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatSuggestion {
    /// Title of a few words on the page.
    pub title: String,
    /// First message of the conversation.
    pub text: String,
    /// Replies that the page offers in the course of it.
    pub replies: Vec<String>,
}

impl Default for SlackOptions {
    fn default() -> Self {
        let list = |items: &[&str]| items.iter().map(ToString::to_string).collect();
        Self {
            team_name: "Testbed".to_owned(),
            bot_name: "codebutler".to_owned(),
            scopes: list(&[
                "app_mentions:read",
                "assistant:write",
                "channels:history",
                "channels:join",
                "channels:manage",
                "channels:read",
                "chat:write",
                "chat:write.customize",
                "files:read",
                "files:write",
                "groups:history",
                "groups:read",
                "im:history",
                "links:read",
                "links:write",
                "reactions:read",
                "reactions:write",
                "usergroups:read",
                "users:read",
            ]),
            agent: true,
            subscriptions: list(&[
                "agent_session_stopped",
                "app_mention",
                "assistant_thread_started",
                "file_shared",
                "link_shared",
                "message.channels",
                "message.groups",
                "message.im",
                "reaction_added",
                "reaction_removed",
            ]),
            unfurl_domains: Vec::new(),
            metadata_subscriptions: Vec::new(),
            timing: SlackTiming::brisk(),
            rate_limits: RateLimits::Internal,
            max_connections: 10,
            world: None,
            at: ListenAddress::default(),
            origin: None,
            page_token: None,
            suggestions: Vec::new(),
        }
    }
}

/// Times that Slack fixes and tests shorten.
#[derive(Debug, Clone)]
pub struct SlackTiming {
    /// An envelope not acknowledged for this long counts as failed.
    pub ack_timeout: Duration,
    /// Wait before each retry; as many retries as entries, then the event is lost.
    pub retry_delays: Vec<Duration>,
    /// Age at which the server refreshes a connection.
    pub connection_lifetime: Duration,
    /// Between the `warning`, the `refresh_requested` and the close of a connection.
    pub refresh_grace: Duration,
    /// Between two WebSocket pings of the server.
    pub ping_interval: Duration,
    /// Between the answer to an upload and the message that has the file.
    pub sharing: Duration,
    /// Age at which Slack ends a stream.
    pub stream_life: Duration,
}

impl SlackTiming {
    /// Slack's own figures: 3 s to acknowledge; retries at once, after 1 and after 5 minutes.
    pub fn slack() -> Self {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        Self { retry_delays: vec![Duration::ZERO, minutes(1), minutes(5)], ..Self::brisk() }
    }

    /// Slack's figures with the waits between retries cut to 0, 1 and 5 seconds.
    pub fn brisk() -> Self {
        let seconds = Duration::from_secs;
        Self {
            ack_timeout: seconds(3),
            retry_delays: vec![seconds(0), seconds(1), seconds(5)],
            connection_lifetime: seconds(18_060),
            refresh_grace: seconds(10),
            ping_interval: seconds(10),
            sharing: Duration::from_millis(250),
            stream_life: seconds(300),
        }
    }
}

/// Slack's rate limits on Web API calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimits {
    /// Calls are counted, but never refused.
    Off,
    /// The usual tiers, as for internal apps.
    Internal,
    /// Limits of apps sold outside the marketplace: histories once a minute, 15 items.
    Distributed,
}
