//! Approval of calls: none for those that change nothing, once in a thread for each form of a tool, or each time with
//! the exact arguments.

use codebutler_crds::thread::ActionApproval;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ApprovedEffect, ConsentStanding};
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_mcp::tools::{PinnedTool, RiskJudgement, ServerTool, ToolRisk, review_pins};
use serde_json::Value;

use super::super::McpServers;
use super::super::words::WordGuard;
use super::usage::{ToolStanding, allow_tool, find_form, find_standing};

/// Characters of arguments that people are asked to read.
pub const MOST_CHARS: usize = 20_000;
/// Hexadecimal digits of a form's hash that stand in a question.
const HASH: usize = 16;

/// The call that is to be approved.
pub struct WantedCall<'a> {
    /// Name for models.
    pub name: &'a str,
    /// The server.
    pub server: &'a str,
    /// The tool as its server describes it now.
    pub tool: &'a ServerTool,
    /// Its arguments.
    pub arguments: &'a Value,
    /// The approval that it needs.
    pub judged: &'a RiskJudgement,
    /// Masks words of the server.
    pub guard: &'a WordGuard,
}

/// A call that may be sent.
#[derive(Debug, Default)]
pub struct CallApproval {
    /// A yes to exactly this call, to be marked as used.
    pub standing: Option<ConsentStanding>,
    /// Slack user id of who said it.
    pub by: Option<String>,
}

/// The form of a tool that people have allowed in a thread.
enum EarlierForm {
    /// They were not asked about it.
    Absent,
    /// It was allowed, and its text is not known any more.
    Unknown,
    /// It was this one.
    Known(PinnedTool),
}

/// Passes if the call needs no approval, or people gave it; else they are asked.
///
/// # Errors
/// `NeedsApproval`, with what the role is to do.
pub async fn approve_call(
    servers: &McpServers,
    caller: &ProvenCaller,
    wanted: &WantedCall<'_>,
) -> Result<CallApproval, ApiError> {
    match wanted.judged.risk {
        ToolRisk::Runs => Ok(CallApproval::default()),
        ToolRisk::AsksOnce => approve_tool(servers, caller, wanted).await,
        ToolRisk::AsksAlways => {
            let (summary, detail) = show_call(wanted);
            let asked = servers.consent.require_for(caller, wanted.name, summary, detail);
            let standing = Box::pin(asked).await?;
            let by = find_approver(servers, caller, &standing);
            Ok(CallApproval { standing: Some(standing), by })
        }
    }
}

async fn approve_tool(
    servers: &McpServers,
    caller: &ProvenCaller,
    wanted: &WantedCall<'_>,
) -> Result<CallApproval, ApiError> {
    let (pin, key) = (PinnedTool::new(wanted.tool), caller.key());
    let thread = servers.threads.freshest(&key, Some(caller.thread.clone()));
    let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
    let before = match find_standing(status, wanted.server, &pin) {
        ToolStanding::Allowed => {
            servers.forms.keep(&pin);
            return Ok(CallApproval::default());
        }
        ToolStanding::Changed(mark) => {
            let kept = |text| PinnedTool { name: pin.name.clone(), hash: mark.clone(), text };
            let known = servers.forms.find(&mark);
            let known = known.or_else(|| find_form(status, wanted.server, &mark).map(kept));
            known.map_or(EarlierForm::Unknown, EarlierForm::Known)
        }
        ToolStanding::New => EarlierForm::Absent,
    };
    let (summary, detail) = show_tool(caller.role_name(), wanted, &pin, &before);
    let asked = servers.consent.require_for(caller, wanted.name, summary, detail);
    let standing = Box::pin(asked).await?;
    let by = find_approver(servers, caller, &standing);
    let text = wanted.guard.mask(&pin.text);
    let allow = |status: &mut codebutler_crds::ThreadStatus| {
        allow_tool(status, wanted.server, &pin, &text);
    };
    let kept = servers.threads.update(&key, allow).await;
    kept.map_err(|error| explain_unwritten(&error))?;
    servers.forms.keep(&pin);
    // The tool is allowed from now on: a form of it that comes back later is asked about again.
    servers.consent.spend(caller, &standing).await;
    Ok(CallApproval { standing: None, by })
}

/// A call with its exact arguments, as people are shown it.
fn show_call(wanted: &WantedCall<'_>) -> (String, String) {
    let WantedCall { server, tool, arguments, judged, guard, .. } = wanted;
    let name = guard.line(&tool.name, 100);
    let summary = format!("Call {name} of the server {server}");
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let detail = format!(
        "{name} of the server {server}, with exactly these arguments ({}):\n\n{arguments}",
        judged.reason
    );
    (summary, detail)
}

/// A tool, or its change, as people are shown it. `before` is the form that was allowed, as far as it is known.
fn show_tool(
    role: &str,
    wanted: &WantedCall<'_>,
    pin: &PinnedTool,
    before: &EarlierForm,
) -> (String, String) {
    let WantedCall { server, tool, judged, guard, .. } = wanted;
    let name = guard.line(&tool.name, 100);
    let form = |text: &str| guard.mask(text).chars().take(MOST_CHARS).collect::<String>();
    let why = judged.reason;
    // The words can be cut: the hash makes it exactly this form.
    let hash = &pin.hash[..HASH.min(pin.hash.len())];
    let has_changed = "It has changed since it was allowed in this thread";
    let detail = match before {
        EarlierForm::Absent => {
            let summary = format!("Let {role} use {name} of the server {server} in this thread");
            let detail = format!(
                "A yes holds for this thread, with any arguments, until the tool changes ({why}). In the server's \
                 own words ({hash}):\n\n{}",
                form(&pin.text)
            );
            return (summary, detail);
        }
        EarlierForm::Known(before) => {
            let review = review_pins(std::slice::from_ref(before), std::slice::from_ref(tool));
            let diff = review.changed.first().map(|one| form(&one.diff)).unwrap_or_default();
            format!("{has_changed} ({hash}):\n\n{diff}")
        }
        EarlierForm::Unknown => format!(
            "{has_changed}; its earlier form is not known any more. Now, in the server's own words ({hash}):\n\n{}",
            form(&pin.text)
        ),
    };
    let summary = format!("Let {role} go on with {name} of the server {server}, which has changed");
    (summary, detail)
}

fn find_approver(
    servers: &McpServers,
    caller: &ProvenCaller,
    standing: &ConsentStanding,
) -> Option<String> {
    let ConsentStanding::Approved(ApprovedEffect(id)) = standing else { return None };
    let thread = servers.threads.freshest(&caller.key(), Some(caller.thread.clone()))?;
    let mut approvals = thread.status.as_ref()?.approvals.iter();
    approvals.find(|one: &&ActionApproval| one.id == *id)?.by.clone()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use codebutler_mcp::tools::ToolHints;
    use serde_json::{Map, json};

    use super::*;
    use codebutler_gateway_core::redact::SecretRedactor;

    fn tool(description: &str) -> ServerTool {
        ServerTool {
            name: "post".to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: Map::new(),
            output_schema: None,
            hints: ToolHints::default(),
            annotations: Value::Null,
        }
    }

    fn shown(tool: &ServerTool, show: impl Fn(&WantedCall<'_>) -> (String, String)) -> String {
        let guard = WordGuard::new(Arc::new(SecretRedactor::new(&[]).0), &[]);
        let judged = RiskJudgement { risk: ToolRisk::AsksAlways, reason: "the Repo says so" };
        let arguments = json!({"b": 1, "a": "x"});
        let wanted = WantedCall {
            name: "mcp__chat__post",
            server: "chat",
            tool,
            arguments: &arguments,
            judged: &judged,
            guard: &guard,
        };
        let (summary, detail) = show(&wanted);
        format!("{summary}\n{detail}")
    }

    #[test]
    fn people_see_the_exact_arguments_in_the_order_of_the_model() {
        let text = shown(&tool("Posts."), show_call);
        let expected = "Call post of the server chat\npost of the server chat, with exactly these arguments (the \
                        Repo says so):\n\n{\n  \"b\": 1,\n  \"a\": \"x\"\n}";
        assert_eq!(text, expected);
    }

    #[test]
    fn people_see_a_tool_or_what_has_changed_of_it() {
        let (old, new) = (tool("Posts."), tool("Posts, and reads your mail."));
        let of = |before: EarlierForm| {
            shown(&new, |wanted| show_tool("coder", wanted, &PinnedTool::new(&new), &before))
        };
        let first = of(EarlierForm::Absent);
        assert!(
            first.starts_with("Let coder use post of the server chat in this thread\n"),
            "{first}"
        );
        assert!(first.contains("  Posts, and reads your mail.\n"), "{first}");
        let changed = of(EarlierForm::Known(PinnedTool::new(&old)));
        assert!(changed.contains("which has changed\n"), "{changed}");
        assert!(changed.contains("-  Posts.\n+  Posts, and reads your mail.\n"), "{changed}");
        let unknown = of(EarlierForm::Unknown);
        assert!(
            unknown.contains("not known any more") && unknown.contains("reads your mail"),
            "{unknown}"
        );
    }
}
