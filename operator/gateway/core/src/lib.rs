//! Foundation of all parts of the gateway: who calls ([`identity`], [`extract`]), what is known
//! ([`context`]), the one writer of a Thread's status ([`threads`]), what leads outside ([`dial`],
//! [`egress`], [`secrets`], [`github`]), what is masked ([`redact`], [`masks`]) and what is kept
//! ([`history`]). Nothing in here knows Slack's conversations, models or the work on a branch.

pub mod api_error;
pub mod approval;
pub mod asker;
pub mod attended;
pub mod bill;
pub mod bodies;
pub mod caller;
pub mod conditions;
pub mod consent;
pub mod context;
pub mod credential;
pub mod dial;
pub mod dispatch;
pub mod drain;
pub mod egress;
pub mod estimate;
pub mod extract;
pub mod finished;
#[cfg(test)]
mod fuzz;
pub mod github;
pub mod github_access;
pub mod groups;
pub mod history;
pub mod history_follow;
pub mod identity;
pub mod image_kind;
pub mod low_priority;
pub mod masks;
pub mod mcp_facts;
pub mod mcp_grants;
pub mod metrics;
pub mod moments;
pub mod notices;
pub mod personal;
pub mod places;
pub mod policy;
pub mod pulse;
pub mod redact;
pub mod reminders;
pub mod remote;
pub mod repo_key;
pub mod revisions;
pub mod rights;
pub mod searcher;
pub mod secrets;
pub mod serve;
pub mod sound;
pub mod sound_length;
pub mod speech;
#[cfg(test)]
mod testing;
pub mod thread_key;
pub mod thread_queue;
pub mod threads;
pub mod writes;
