//! Provenance of a change, for its pull request and its commit: requester, approvers, and links to the conversation.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::thread::ApprovalAnswer;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::parts;
use crate::receipt::depends_on;
use crate::work::WorkServices;

/// Longest name of whoever asked, in characters.
const MAX_NAME: usize = 64;

/// People's own names, by user id.
pub type PersonNames = BTreeMap<String, String>;

/// Link to the conversation, and the names of its people.
pub async fn read_origin(
    gateway: &WorkServices,
    repo: &Repo,
    thread: &Thread,
) -> (Option<String>, PersonNames) {
    let slack = &gateway.slack;
    let both = async { tokio::join!(slack.permalink(repo, thread), slack.told(repo, thread)) };
    let (link, (_, names)) = Box::pin(both).await;
    (link, names)
}

/// Origin of a change in a few lines of Markdown, for the pull request.
pub async fn describe_origin(gateway: &WorkServices, repo: &Repo, thread: &Thread) -> String {
    let (link, names) = read_origin(gateway, repo, thread).await;
    let page = gateway.context.page(&ThreadKey::from(thread));
    let page = page.map(|page| format!("- [What happened](<{page}>)\n"));
    let needed = parts::find_needed(gateway, thread);
    depends_on(&needed) + &write_origin(thread, link.as_deref(), &names) + &page.unwrap_or_default()
}

/// Origin of a change once it is over: with who decided that.
pub fn at_end(thread: &Thread, link: Option<&str>, names: &PersonNames) -> String {
    let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
    let by = closing.and_then(|closing| closing.decided_by.as_ref());
    let merge = by.map(|user| format!("- Merge approved by {}\n", name_user(user, names)));
    write_origin(thread, link, names) + &merge.unwrap_or_default()
}

/// Person by id, and by name where it is known.
pub fn name_user(user: &str, names: &PersonNames) -> String {
    // Whoever makes a Thread in the cluster writes what they like.
    let plain = |c: char| c.is_alphanumeric() || " ._-".contains(c);
    let id: String = user.chars().filter(|c| plain(*c)).take(MAX_NAME).collect();
    match names.get(user) {
        Some(name) => format!("{id} ({name})"),
        None => id,
    }
}

fn write_origin(thread: &Thread, link: Option<&str>, names: &PersonNames) -> String {
    let status = thread.status.clone().unwrap_or_default();
    let who = |user: &String| name_user(user, names);
    let asked = thread.spec.requested_by.as_ref();
    let link = link.map(|link| format!("[conversation](<{link}>)"));
    let by = asked.map(|user| format!("Asked for by {}", who(user)));
    let mut lines: Vec<String> = match (by, link) {
        (Some(by), Some(link)) => vec![format!("{by}: {link}")],
        (by, link) => by.or(link).into_iter().collect(),
    };
    let plan = status.plan.as_ref().and_then(|plan| plan.approved_by.as_ref());
    lines.extend(plan.map(|user| format!("Plan approved by {}", who(user))));
    // A yes that was used is none any more, and still was one.
    let given = status.approvals.iter().filter(|one| one.answer != Some(ApprovalAnswer::Denied));
    let given: BTreeSet<String> = given
        .filter_map(|one| Some(format!("`{}` approved by {}", one.tool, who(one.by.as_ref()?))))
        .collect();
    lines.extend(given);
    let known = [asked, plan];
    let others = names.keys().filter(|user| !known.contains(&Some(*user)));
    let others: Vec<String> = others.map(who).collect();
    if !others.is_empty() {
        lines.push(format!("Took part: {}", others.join(", ")));
    }
    lines.iter().flat_map(|line| ["- ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pull_request_says_who_asked_and_who_said_yes() {
        let yes = |tool: &str, answer: &str| {
            json!({"id": tool, "role": "coder", "tool": tool, "hash": "aa", "ts": "5.000000",
                "expires": "2030-01-01T00:00:00Z", "answer": answer, "by": "U2"})
        };
        let thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "requestedBy": "U1"},
            "status": {
                "plan": {"ts": "4.000000", "hash": "aa", "role": "pm", "approvedBy": "U2"},
                "approvals": [yes("Push", "expired"), yes("Bash", "denied"), yes("Push", "approved")],
            },
        }))
        .unwrap();
        let names = [("U1", "Ana"), ("U2", "Bob"), ("U3", "Eve")];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned())).into();
        assert_eq!(
            write_origin(&thread, Some("https://acme.slack.com/p1"), &names),
            "- Asked for by U1 (Ana): [conversation](<https://acme.slack.com/p1>)\n\
             - Plan approved by U2 (Bob)\n- `Push` approved by U2 (Bob)\n- Took part: U3 (Eve)\n"
        );
        assert_eq!(
            name_user("x](https://evil)\nSigned-off-by: y", &names),
            "xhttpsevilSigned-off-by y"
        );
    }
}
