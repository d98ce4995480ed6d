//! The web: pages, searches, tunnels, and what must not lead there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Protocol in the `Upgrade` header at [`crate::path::CONNECT`].
pub const TUNNEL: &str = "codebutler-tunnel";

/// A way out of an agent pod that has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressWay {
    /// The API server, whose address every pod is told.
    ApiServer,
    /// The cluster's DNS, through which words get anywhere.
    ClusterDns,
    /// The node's own DNS cache.
    NodeDns,
    /// The node itself: its kubelet.
    Node,
    /// The cloud's metadata, which hands out the node's credentials.
    Metadata,
    /// An address of the internet.
    Internet,
}

/// Time for which a pod has tried: a network plugin may close the ways a moment after the pod's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressTrial {
    /// Too short to tell: the plugin may be about to close them.
    #[default]
    Begun,
    /// Longer than plugins take.
    Long,
    /// Long enough for one pod's word to count alone.
    Overdue,
}

/// Report on an agent's attempts to connect past the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressReport {
    /// A forbidden address answered.
    pub reached: bool,
    /// Forbidden ways that were open.
    #[serde(default)]
    pub ways: BTreeSet<EgressWay>,
    /// Time for which the pod had tried.
    #[serde(default)]
    pub trial: EgressTrial,
}

/// Request to fetch a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebFetch {
    /// URL of the page, http or https.
    pub url: String,
    /// Part of a long text, from 1; the first if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
}

/// A page as text. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebPage {
    /// URL of the page, after redirects.
    pub url: String,
    /// HTTP status of the response.
    pub status: u16,
    /// Content type that the server said, without parameters.
    pub content_type: String,
    /// Text of this part of the page; HTML is laid out as text.
    pub text: String,
    /// Part of the text, from 1.
    pub page: u32,
    /// Number of parts that the page has.
    pub pages: u32,
    /// The server has more than is read of one page.
    pub truncated: bool,
    /// True for a file such as a PDF, without text here: its bytes are had by
    /// [`path::WEB_FILES`](crate::path::WEB_FILES).
    #[serde(default)]
    pub is_document: bool,
}

/// Request to search the web.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSearch {
    /// Words to search for.
    pub query: String,
    /// Idempotency key: the same key is the same search, which is paid for once. At most 64 characters of
    /// `[A-Za-z0-9_.:-]`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// True if the request may have arrived before: what it found is looked for, and nothing is searched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Results of a search, best first. Untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResults {
    /// At most ten results.
    pub results: Vec<WebResult>,
    /// A sentence about what is missing, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResult {
    /// Title of the found page.
    pub title: String,
    /// URL of the found page.
    pub url: String,
    /// Excerpt of the found page.
    pub snippet: String,
}
