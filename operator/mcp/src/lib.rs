//! A client of the Model Context Protocol that needs neither Kubernetes nor Slack: sessions with tool servers over a
//! pipe or HTTP, and their tools, schemas, results and permissions made fit for models. All words of servers are
//! untrusted here, and every step has a bound. See the README beside this crate.

mod content;
mod error;
mod events;
mod limits;
pub mod oauth;
mod parts;
pub mod session;
pub mod tools;
mod weight;
mod wire;

pub use codebutler_mcp_file as config;
pub use codebutler_mcp_file::clean_text;
pub use content::{ContentBody, ContentItem, PromptMessage, ToolResult};
pub use error::McpError;
pub use events::{EventStream, ProgressStep, SessionEvent};
pub use limits::SessionLimits;
pub use parts::{ModelAbilities, PartLimits, ResultPart, ResultParts, parts_for_model};
pub use session::{ServerFacts, ServerLink, ServerSession, SessionSetup, ToolCall};
pub use wire::{BodyStream, DialError, HttpDialer};
