//! `approve`: where a question waits. An approval is the gateway's record of a person's click, so that no one who may
//! write to the cluster can say yes in another person's name.

use codebutler_crds::thread::SlackThread;

use crate::cluster::TeamCluster;
use crate::table::{format_usd, plain};
use crate::threads::waits_for_person;
use crate::{PluginError, PluginTerminal};

/// Prints the open questions of a Thread, and where people answer them.
pub(crate) async fn run_approve(
    cluster: &TeamCluster,
    name: &str,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let thread = cluster.thread(name).await?;
    let status = thread.status.clone().unwrap_or_default();
    if !waits_for_person(&thread) {
        return terminal.say(&format!("Thread {name} waits for no person."));
    }
    if status.plan.as_ref().is_some_and(|p| p.approved_by.is_none() && p.declined_by.is_none()) {
        terminal.say("Open: a plan to approve, change or reject.")?;
    }
    if status.closing.as_ref().is_some_and(|closing| closing.choice.is_none()) {
        let pull = status.pull_request.as_ref().map(|pull| format!(" of #{}", pull.number));
        terminal.say(&format!("Open: the merge{}.", pull.unwrap_or_default()))?;
    }
    let actions = status.approvals.iter().filter(|question| question.answer.is_none()).count();
    if actions > 0 {
        terminal.say(&format!("Open: {actions} action(s) that need a yes."))?;
    }
    if status.asks_for_money() {
        let cost = status.cost.map(format_usd).unwrap_or_default();
        terminal.say(&format!("Open: more money; it has cost {cost}."))?;
    }
    match thread.spec.slack.as_ref().or(status.slack.as_ref()) {
        Some(place) => terminal.say(&format!("Answer in Slack: {}", thread_link(place))),
        None => terminal.say("Its conversation in Slack is not open yet."),
    }
}

/// Opens the workspace that the reader is signed in to.
fn thread_link(SlackThread { channel, ts }: &SlackThread) -> String {
    plain(&format!("https://slack.com/app_redirect?channel={channel}&message_ts={ts}"))
}
