//! The web: pages, searches, tunnels, and what must not lead there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What [`path::CONNECT`] is upgraded to.
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

/// For how long a pod has tried: a network plugin may close the ways a moment after the pod's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressTrial {
    /// It may be just that moment.
    #[default]
    Begun,
    /// Longer than plugins take.
    Long,
    /// Long enough for one pod's word to count alone.
    Overdue,
}

/// Whether an agent could connect past the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressReport {
    /// A forbidden address answered.
    pub reached: bool,
    /// Which ones.
    #[serde(default)]
    pub ways: BTreeSet<EgressWay>,
    /// After how long.
    #[serde(default)]
    pub trial: EgressTrial,
}

/// A page to get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebFetch {
    /// An http or https URL.
    pub url: String,
    /// Part of a long text, from 1; the first if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
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
    /// Part of the text, from 1.
    pub page: u32,
    /// Number of parts.
    pub pages: u32,
    /// The server has more than is read of one page.
    pub truncated: bool,
    /// It is a file such as a PDF, without text here: its bytes are had by [`path::WEB_FILES`](crate::path::WEB_FILES).
    #[serde(default)]
    pub is_document: bool,
}

/// A question to the web.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSearch {
    /// Words to look for.
    pub query: String,
    /// Identity of the search: the same key is the same search, which is paid for once. At most 64 characters of
    /// `[A-Za-z0-9_.:-]`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// It may have arrived before: what it found is looked for, and nothing is searched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// What was found, best first. Untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebResults {
    /// At most ten.
    pub results: Vec<WebResult>,
    /// A sentence about what is missing, or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
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
