//! The web: pages, searches, tunnels.

use serde::{Deserialize, Serialize};

/// What [`path::CONNECT`] is upgraded to.
pub const TUNNEL: &str = "codebutler-tunnel";

/// Whether an agent could connect past the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressReport {
    /// The forbidden address accepted a connection.
    pub reached: bool,
}

/// A page to get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebFetch {
    /// An http or https URL.
    pub url: String,
}

/// A page as text. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebPage {
    /// Where it was, after redirects.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// As the server said, without parameters.
    pub content_type: String,
    /// What it says; HTML is laid out as text.
    pub text: String,
    /// There was more.
    pub truncated: bool,
}

/// A question to the web.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSearch {
    /// Words to look for.
    pub query: String,
}

/// What was found, best first. Untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResults {
    /// At most ten.
    pub results: Vec<WebResult>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResult {
    /// The page's title.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// Some of its words.
    pub snippet: String,
}
