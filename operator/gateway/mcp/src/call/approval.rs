//! Approval of calls: none for those that change nothing, once in a thread for each form of a tool, or each time with
//! the exact arguments. A tool's own word that it is harmless counts for the form in which it said so first: whoever
//! changes it asks people again.

use std::fmt::Write as _;

use codebutler_crds::mcp::{McpPin, McpServerSpec};
use codebutler_crds::thread::ActionApproval;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ApprovedEffect, ConsentStanding};
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_mcp::tools::{
    PinScope, PinnedTool, RiskJudgement, ServerTool, ToolRisk, review_pins,
};
use serde_json::Value;

use super::super::McpServers;
use super::super::masking::WordGuard;
use super::usage::{KeptForm, ToolStanding, allow_tool, find_form, find_standing};

/// Characters of arguments that people are asked to read.
pub(super) const MOST_CHARS: usize = 20_000;
/// Hexadecimal digits of a form's hash that stand in a question.
const HASH: usize = 16;
/// Reason why a tool that calls itself harmless is asked about all the same.
const CROWDED: &str = "so many tools of its server were called in this thread that no more can be watched for changes";

/// Remark on a tool of which only the words have changed, twice.
const REMEDY: &str = "\n\nIts description has changed for the second time in this thread, and nothing else of it. If its \
                      server words it anew each time, such as with a date, `pin: Schema` of the server in \
                      `spec.mcpServers` leaves descriptions out: roles are shown each new one then, and nobody is asked \
                      about it.";

/// The call that is to be approved.
pub struct WantedCall<'a> {
    /// Name of the tool for models.
    pub name: &'a str,
    /// Name of the tool's server.
    pub server: &'a str,
    /// The tool as its server describes it now.
    pub tool: &'a ServerTool,
    /// Arguments of the call.
    pub arguments: &'a Value,
    /// Parts of the tool that make it another one when they change.
    pub pin: PinScope,
    /// The approval that it needs.
    pub judged: &'a RiskJudgement,
    /// Masks words of the server.
    pub guard: &'a WordGuard,
    /// True if it stands for all resources or prompts of the server; its words are our own then.
    pub is_reading: bool,
}

/// Approval of a call: it may be sent.
#[derive(Debug, Default)]
pub struct CallApproval {
    /// A yes to exactly this call, to be marked as used.
    pub standing: Option<ConsentStanding>,
    /// Slack user id of who said it, or allowed the tool before.
    pub by: Option<String>,
    /// Form of the tool, to be kept before the call is sent.
    pub form: Option<KeptForm>,
}

/// The form of a tool that people have allowed in a thread.
enum EarlierForm {
    /// People were not asked about the tool.
    Absent,
    /// The tool was allowed, but the text of its form is lost.
    Unknown,
    /// The tool was allowed in this form.
    Known(PinnedTool),
}

/// The parts of a server's tools that make them others when they change.
pub fn pin_scope(spec: &McpServerSpec) -> PinScope {
    match spec.pin {
        None => PinScope::Whole,
        Some(McpPin::Schema) => PinScope::Schema,
    }
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
    let RiskJudgement { risk, is_ruled, .. } = *wanted.judged;
    if risk == ToolRisk::Runs && is_ruled {
        return Ok(CallApproval::default());
    }
    let pin = PinnedTool::new(wanted.tool, wanted.pin);
    let thread = servers.threads.freshest(&caller.key(), Some(caller.thread.clone()));
    let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
    let standing = find_standing(status, wanted.server, &pin);
    let before = match &standing {
        ToolStanding::Changed(mark) => {
            let kept = |text| PinnedTool { name: pin.name.clone(), hash: mark.clone(), text };
            let known = servers.forms.find(mark);
            let known = known.or_else(|| find_form(status, wanted.server, mark).map(kept));
            known.map_or(EarlierForm::Unknown, EarlierForm::Known)
        }
        _ => EarlierForm::Absent,
    };
    servers.forms.keep(&pin);
    let is_reworded = wanted.pin == PinScope::Whole
        && servers.forms.is_reworded(&caller.key(), wanted.server, wanted.tool);
    let form = KeptForm { text: wanted.guard.mask(&pin.text), pin };
    match (risk, standing) {
        (ToolRisk::AsksAlways, standing) => {
            let shown = show_call(wanted, &form.pin, &before);
            let exactly = approved_form(wanted, &form.pin, &before);
            let asked = servers.consent.require_exactly(caller, wanted.name, shown, &exactly);
            let yes = Box::pin(asked).await?;
            let by = find_approver(servers, caller, &yes);
            let is_known = matches!(standing, ToolStanding::Allowed(_) | ToolStanding::Seen);
            let form = (!is_known).then_some(form);
            Ok(CallApproval { standing: Some(yes), by, form })
        }
        (_, ToolStanding::Allowed(by)) if still_counts(servers, caller, by.as_deref()).await? => {
            Ok(CallApproval { by, ..CallApproval::default() })
        }
        (ToolRisk::Runs, ToolStanding::Seen) => Ok(CallApproval::default()),
        (ToolRisk::Runs, ToolStanding::New) => {
            Ok(CallApproval { form: Some(form), ..CallApproval::default() })
        }
        (_, standing) => {
            let is_crowded = standing == ToolStanding::Crowded;
            let reason = if is_crowded { CROWDED } else { wanted.judged.reason };
            let role = caller.role_name();
            let (summary, detail) = show_tool(role, wanted, reason, &form.pin, &before);
            let exactly = match wanted.pin {
                PinScope::Whole => detail.clone(),
                PinScope::Schema => name_schema(wanted, &form.pin),
            };
            let shown = (summary, detail + if is_reworded { REMEDY } else { "" });
            approve_tool(servers, caller, wanted, &form, (shown, &exactly)).await
        }
    }
}

/// Returns true if an approval for the whole Thread is still by somebody who may decide. Approvals from an earlier
/// version do not say who gave them, and count.
async fn still_counts(
    servers: &McpServers,
    caller: &ProvenCaller,
    by: Option<&str>,
) -> Result<bool, ApiError> {
    match by {
        Some(by) => servers.consent.still_allows(caller, by).await,
        None => Ok(true),
    }
}

/// A form of a tool without its description, as a yes is to it: that may be another one by the time of the yes.
fn name_schema(wanted: &WantedCall<'_>, pin: &PinnedTool) -> String {
    format!("{} of {} but for its description", pin.hash, wanted.server)
}

/// Asks once about a form of a tool, and remembers an approval.
async fn approve_tool(
    servers: &McpServers,
    caller: &ProvenCaller,
    wanted: &WantedCall<'_>,
    form: &KeptForm,
    (shown, exactly): ((String, String), &str),
) -> Result<CallApproval, ApiError> {
    let asked = servers.consent.require_exactly(caller, wanted.name, shown, exactly);
    let standing = Box::pin(asked).await?;
    let by = find_approver(servers, caller, &standing);
    let allow = |status: &mut codebutler_crds::ThreadStatus| {
        allow_tool(status, wanted.server, form, by.as_deref());
    };
    let kept = servers.threads.update(&caller.key(), allow).await;
    kept.map_err(|error| explain_unwritten(&error))?;
    // The tool is allowed from now on: a form of it that comes back later is asked about again.
    servers.consent.spend(caller, &standing).await;
    Ok(CallApproval { standing: None, by, form: None })
}

/// A call with its exact arguments, as people are shown it; with the tool's change since it was last called, if any.
fn show_call(wanted: &WantedCall<'_>, pin: &PinnedTool, before: &EarlierForm) -> (String, String) {
    let WantedCall { server, tool, arguments, judged, guard, .. } = wanted;
    let name = guard.line(&tool.name, 100);
    let summary = format!("Call {name} of the server {server}");
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut detail = format!(
        "{name} of the server {server}, with exactly these arguments ({}):\n\n{arguments}",
        judged.reason
    );
    if let Some(change) = show_change(wanted, pin, before) {
        let _ = write!(detail, "\n\nThe tool {change}");
    }
    (summary, detail)
}

/// The form of a call that a yes is to. The order of fields has no meaning, and a model that makes the call again may
/// write them in another one.
fn approved_form(wanted: &WantedCall<'_>, pin: &PinnedTool, before: &EarlierForm) -> String {
    let mut sorted = wanted.arguments.clone();
    sorted.sort_all_objects();
    let sorted = WantedCall { arguments: &sorted, ..*wanted };
    match wanted.pin {
        PinScope::Whole => show_call(&sorted, pin, before).1,
        PinScope::Schema => {
            let (_, detail) = show_call(&sorted, pin, &EarlierForm::Absent);
            format!("{detail}\n{}", name_schema(wanted, pin))
        }
    }
}

/// A tool, or its change, as people are shown it. `before` is the form that was allowed, as far as it is known.
fn show_tool(
    role: &str,
    wanted: &WantedCall<'_>,
    why: &str,
    pin: &PinnedTool,
    before: &EarlierForm,
) -> (String, String) {
    let WantedCall { server, tool, guard, is_reading, .. } = wanted;
    if *is_reading {
        let what = &tool.description;
        let summary = format!("Let {role} read the {what} of the server {server} in this thread");
        let detail = format!(
            "A yes holds for this thread and all {what} of the server {server}. They change nothing, and may show what \
             not everybody should read; what is asked for reaches the server ({why})."
        );
        return (summary, detail);
    }
    let name = guard.line(&tool.name, 100);
    if let Some(change) = show_change(wanted, pin, before) {
        let summary =
            format!("Let {role} go on with {name} of the server {server}, which has changed");
        return (summary, format!("It {change}"));
    }
    let summary = format!("Let {role} use {name} of the server {server} in this thread");
    let until = match wanted.pin {
        PinScope::Whole => "the tool changes",
        PinScope::Schema => "more of the tool changes than its description",
    };
    let detail = format!(
        "A yes holds for this thread, with any arguments, until {until} ({why}). In the server's own words \
         ({}):\n\n{}",
        short_hash(pin),
        show_form(guard, &pin.text)
    );
    (summary, detail)
}

/// Describes how a tool has changed, to follow its name; None for a tool that was not known before.
fn show_change(wanted: &WantedCall<'_>, pin: &PinnedTool, before: &EarlierForm) -> Option<String> {
    let has_changed = "has changed since it was allowed or called in this thread";
    let hash = short_hash(pin);
    match before {
        EarlierForm::Absent => None,
        EarlierForm::Known(before) => {
            let tool = std::slice::from_ref(wanted.tool);
            let review = review_pins(std::slice::from_ref(before), tool, wanted.pin);
            let diff = review.changed.first().map(|one| show_form(wanted.guard, &one.diff));
            Some(format!("{has_changed} ({hash}):\n\n{}", diff.unwrap_or_default()))
        }
        EarlierForm::Unknown => Some(format!(
            "{has_changed}; its earlier form is not known any more. Now, in the server's own words ({hash}):\n\n{}",
            show_form(wanted.guard, &pin.text)
        )),
    }
}

/// The words can be cut: this makes it exactly this form.
fn short_hash(pin: &PinnedTool) -> &str {
    &pin.hash[..HASH.min(pin.hash.len())]
}

fn show_form(guard: &WordGuard, text: &str) -> String {
    guard.mask(text).chars().take(MOST_CHARS).collect()
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

    use serde_json::json;

    use super::*;
    use crate::testing;
    use codebutler_gateway_core::redact::SecretRedactor;

    fn tool(description: &str) -> ServerTool {
        testing::tool("post", description)
    }

    fn shown(tool: &ServerTool, show: impl Fn(&WantedCall<'_>) -> (String, String)) -> String {
        let (summary, detail) = shown_with(tool, &json!({"b": 1, "a": "x"}), show);
        format!("{summary}\n{detail}")
    }

    fn shown_with<T>(
        tool: &ServerTool,
        arguments: &Value,
        show: impl Fn(&WantedCall<'_>) -> T,
    ) -> T {
        let guard = WordGuard::new(Arc::new(SecretRedactor::new(&[]).0), &[]);
        let judged = RiskJudgement {
            risk: ToolRisk::AsksAlways,
            reason: "the Repo says so",
            is_ruled: true,
        };
        let wanted = WantedCall {
            name: "mcp__chat__post",
            server: "chat",
            tool,
            arguments,
            pin: PinScope::Whole,
            judged: &judged,
            guard: &guard,
            is_reading: false,
        };
        show(&wanted)
    }

    #[test]
    fn a_yes_is_to_the_arguments_whatever_their_order() {
        let tool = tool("Posts.");
        let pin = PinnedTool::new(&tool, PinScope::Whole);
        let form = |arguments: &Value| {
            shown_with(&tool, arguments, |wanted| approved_form(wanted, &pin, &EarlierForm::Absent))
        };
        let one = form(&json!({"b": [{"d": 1, "c": 2}], "a": "x"}));
        assert_eq!(form(&json!({"a": "x", "b": [{"c": 2, "d": 1}]})), one);
        for other in [
            json!({"a": "x", "b": [{"c": 2, "d": 2}]}),
            json!({"a": "x", "b": [{"c": 2, "d": 1}, {}]}),
            json!({"a": "x"}),
        ] {
            assert_ne!(form(&other), one, "{other}");
        }
    }

    #[test]
    fn people_see_the_exact_arguments_in_the_order_of_the_model() {
        let (old, new) = (tool("Posts."), tool("Posts, and reads your mail."));
        let show = |now: &ServerTool, before: EarlierForm| {
            shown(now, |wanted| show_call(wanted, &PinnedTool::new(now, PinScope::Whole), &before))
        };
        let text = show(&old, EarlierForm::Absent);
        let expected = "Call post of the server chat\npost of the server chat, with exactly these arguments (the \
                        Repo says so):\n\n{\n  \"b\": 1,\n  \"a\": \"x\"\n}";
        assert_eq!(text, expected);
        let changed = show(&new, EarlierForm::Known(PinnedTool::new(&old, PinScope::Whole)));
        assert!(changed.starts_with(expected), "{changed}");
        assert!(changed.contains("\n\nThe tool has changed since"), "{changed}");
        assert!(changed.contains("+  Posts, and reads your mail.\n"), "{changed}");
    }

    #[test]
    fn people_see_a_tool_or_what_has_changed_of_it() {
        let (old, new) = (tool("Posts."), tool("Posts, and reads your mail."));
        let of = |before: EarlierForm| {
            shown(&new, |wanted| {
                show_tool("coder", wanted, "why", &PinnedTool::new(&new, PinScope::Whole), &before)
            })
        };
        let first = of(EarlierForm::Absent);
        assert!(
            first.starts_with("Let coder use post of the server chat in this thread\n"),
            "{first}"
        );
        assert!(first.contains("  Posts, and reads your mail.\n"), "{first}");
        let changed = of(EarlierForm::Known(PinnedTool::new(&old, PinScope::Whole)));
        assert!(changed.contains("which has changed\n"), "{changed}");
        assert!(changed.contains("-  Posts.\n+  Posts, and reads your mail.\n"), "{changed}");
        let unknown = of(EarlierForm::Unknown);
        assert!(
            unknown.contains("not known any more") && unknown.contains("reads your mail"),
            "{unknown}"
        );
    }
}
