//! Input that this process has handled: what Slack delivers again gets no second answer.

use codebutler_crds::SlackTs;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentKeys;

use crate::inbound::in_flight::InFlight;
use crate::questions::ButtonPress;

/// Input that was handled lately, by channel and message.
#[derive(Default)]
pub(crate) struct HandledInputs {
    /// Messages that got their reaction from this process.
    pub(crate) seen: RecentKeys<(String, SlackTs)>,
    /// People who were told that they may not steer, by channel and conversation.
    pub(crate) declined: RecentKeys<(String, SlackTs, String)>,
    /// Direct messages that were answered, by conversation.
    pub(crate) directly: RecentKeys<(String, SlackTs)>,
    /// Bots that were told that nobody hears them, by channel.
    pub(crate) unnamed: RecentKeys<(String, String)>,
    /// Presses of buttons that counted.
    pub(crate) presses: RecentKeys<(ThreadKey, ButtonPress)>,
    /// Requests for help in Threads that this process is answering, by channel.
    pub(crate) answering: InFlight<(String, SlackTs)>,
}
