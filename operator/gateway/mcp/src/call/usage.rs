//! A Thread's use of servers, in its status: calls, forms of tools that were called or allowed, and calls that must
//! not be repeated. Pure.

use codebutler_crds::ThreadStatus;
use codebutler_crds::mcp::ThreadMcpServer;
use codebutler_mcp::tools::PinnedTool;
use sha2::{Digest as _, Sha256};

/// Allowed tools of a server that are kept.
const ALLOWED: usize = 64;
/// Tools of a server whose latest form is kept. None gives way to another one: a server could have a form forgotten
/// so.
const SEEN: usize = 64;
/// Definitions of a server's tools that are kept, and characters of one.
const FORMS: usize = 8;
const FORM: usize = 2000;
/// Keys of calls of a server that are kept.
const KEYS: usize = 32;
/// Hexadecimal digits of a hash of a name, and of a definition or a key.
const NAME: usize = 12;
const HASH: usize = 40;

/// Decision whether a call may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStart {
    /// The call is counted, and may be sent.
    Begins,
    /// The Thread has used up its `maxCalls`.
    UsedUp,
    /// A call with the same key was begun before.
    Repeated,
}

/// A tool's standing in a Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolStanding {
    /// People have allowed exactly this one; with the Slack user id of who said yes, if that is known.
    Allowed(Option<String>),
    /// Exactly this one was called before, without such a yes.
    Seen,
    /// Another form of the tool, with this mark, was allowed or called.
    Changed(String),
    /// The tool was never called in this Thread.
    New,
    /// The tool was never called in this Thread, and its form can't be kept any more.
    Crowded,
}

/// The mark of a tool: its name and its definition.
pub(super) fn mark_tool(pin: &PinnedTool) -> String {
    format!("{}-{}", mark_name(&pin.name), &pin.hash[..HASH.min(pin.hash.len())])
}

fn mark_name(name: &str) -> String {
    hex::encode(Sha256::digest(name))[..NAME].to_owned()
}

/// The mark of a call that must not be repeated.
pub(super) fn mark_key(role: &str, key: &str) -> String {
    hex::encode(Sha256::digest(format!("{role}\0{key}")))[..HASH].to_owned()
}

/// Decides whether a call may be sent. `mark` is that of a call that may change something.
pub(super) fn check_start(
    status: Option<&ThreadStatus>,
    server: &str,
    mark: Option<&str>,
    most: Option<u32>,
) -> CallStart {
    let known = status.and_then(|status| status.mcp.as_ref()?.servers.get(server));
    let is_known = |mark: &str| known.is_some_and(|known| known.keys.iter().any(|key| key == mark));
    if mark.is_some_and(is_known) {
        return CallStart::Repeated;
    }
    if most.is_some_and(|most| known.is_some_and(|known| known.calls >= most)) {
        return CallStart::UsedUp;
    }
    CallStart::Begins
}

/// Counts a call before it is sent, if it may be.
pub(super) fn begin_call(
    status: &mut ThreadStatus,
    server: &str,
    mark: Option<&str>,
    most: Option<u32>,
) -> CallStart {
    let start = check_start(Some(status), server, mark, most);
    if start != CallStart::Begins {
        return start;
    }
    let server = server_entry(status, server);
    server.sign_in = None;
    server.sign_in_roles.clear();
    server.calls = server.calls.saturating_add(1);
    server.keys.extend(mark.map(str::to_owned));
    let old = server.keys.len().saturating_sub(KEYS);
    server.keys.drain(..old);
    CallStart::Begins
}

/// Finds out how a tool stands in a Thread.
pub(super) fn find_standing(
    status: Option<&ThreadStatus>,
    server: &str,
    pin: &PinnedTool,
) -> ToolStanding {
    let known = status.and_then(|status| status.mcp.as_ref()?.servers.get(server));
    let (mark, name) = (mark_tool(pin), mark_name(&pin.name));
    let Some(known) = known else { return ToolStanding::New };
    if known.allowed.contains(&mark) {
        return ToolStanding::Allowed(known.allowed_by.get(&mark).cloned());
    }
    // Threads of earlier versions have only what was allowed.
    match known.seen.iter().chain(&known.allowed).find(|one| one.starts_with(&name)) {
        Some(latest) if *latest == mark => ToolStanding::Seen,
        Some(latest) => ToolStanding::Changed(latest.clone()),
        None if known.seen.len() >= SEEN => ToolStanding::Crowded,
        None => ToolStanding::New,
    }
}

/// The masked definition of the form with this mark, if it was short enough to be kept.
pub(super) fn find_form(status: Option<&ThreadStatus>, server: &str, mark: &str) -> Option<String> {
    let known = status.and_then(|status| status.mcp.as_ref()?.servers.get(server))?;
    let mut forms = known.forms.iter().filter_map(|form| form.split_once('\n'));
    forms.find(|(own, _)| *own == mark).map(|(_, text)| text.to_owned())
}

/// A form of a tool that is kept.
#[derive(Clone, Debug)]
pub struct KeptForm {
    /// Hash and text that identify the form.
    pub pin: PinnedTool,
    /// The tool's definition, with secrets masked.
    pub text: String,
}

/// Keeps that people have allowed a tool, in place of an earlier form of it. `by`: Slack user id of who said yes.
pub(super) fn allow_tool(
    status: &mut ThreadStatus,
    server: &str,
    form: &KeptForm,
    by: Option<&str>,
) {
    let (mark, server) = (mark_tool(&form.pin), server_entry(status, server));
    forget_other_forms(server, &form.pin, None);
    server.allowed.push(mark.clone());
    let old = server.allowed.len().saturating_sub(ALLOWED);
    server.allowed.drain(..old);
    let ThreadMcpServer { allowed, allowed_by, .. } = server;
    allowed_by.retain(|one, _| allowed.contains(one));
    allowed_by.extend(by.map(|by| (mark.clone(), by.to_owned())));
    keep_latest(server, &form.pin);
    if form.text.chars().count() <= FORM {
        let old = (server.forms.len() + 1).saturating_sub(FORMS);
        server.forms.drain(..old);
        server.forms.push(format!("{mark}\n{}", form.text));
    }
}

/// Keeps the form of a tool that is called without a yes to all of its calls. An earlier form is not allowed any
/// more.
pub(super) fn see_tool(status: &mut ThreadStatus, server: &str, form: &KeptForm) {
    let (mark, server) = (mark_tool(&form.pin), server_entry(status, server));
    forget_other_forms(server, &form.pin, Some(&mark));
    keep_latest(server, &form.pin);
    let is_kept = server.forms.iter().any(|one| one.starts_with(&mark));
    if !is_kept && server.forms.len() < FORMS && form.text.chars().count() <= FORM {
        server.forms.push(format!("{mark}\n{}", form.text));
    }
}

/// Drops what is known of a tool's forms, but for the one with the mark `kept`.
fn forget_other_forms(server: &mut ThreadMcpServer, pin: &PinnedTool, kept: Option<&str>) {
    let name = mark_name(&pin.name);
    let stays =
        |one: &str| !one.starts_with(&name) || kept.is_some_and(|kept| one.starts_with(kept));
    server.allowed.retain(|one| stays(one));
    server.allowed_by.retain(|one, _| stays(one));
    server.forms.retain(|one| stays(one));
}

fn keep_latest(server: &mut ThreadMcpServer, pin: &PinnedTool) {
    let name = mark_name(&pin.name);
    server.seen.retain(|one| !one.starts_with(&name));
    if server.seen.len() < SEEN {
        server.seen.push(mark_tool(pin));
    }
}

fn server_entry<'a>(status: &'a mut ThreadStatus, server: &str) -> &'a mut ThreadMcpServer {
    let mcp = status.mcp.get_or_insert_default();
    mcp.servers.entry(server.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(name: &str, text: &str) -> PinnedTool {
        let hash = hex::encode(Sha256::digest(text));
        PinnedTool { name: name.to_owned(), hash, text: text.to_owned() }
    }

    fn form(name: &str, text: &str) -> KeptForm {
        KeptForm { pin: pin(name, text), text: text.to_owned() }
    }

    #[test]
    fn calls_are_counted_up_to_the_bound_and_a_key_begins_once() {
        let mut status = ThreadStatus::default();
        let mut begin = |mark: Option<&str>, most| begin_call(&mut status, "db", mark, most);
        assert_eq!(begin(Some("a"), Some(2)), CallStart::Begins);
        assert_eq!(begin(Some("a"), Some(2)), CallStart::Repeated);
        assert_eq!(begin(None, Some(2)), CallStart::Begins);
        assert_eq!(begin(None, Some(2)), CallStart::UsedUp);
        assert_eq!(begin(Some("a"), Some(2)), CallStart::Repeated, "a lost answer comes first");
        assert_eq!(begin(None, None), CallStart::Begins);
        server_entry(&mut status, "db").sign_in = Some("U1".to_owned());
        assert_eq!(begin_call(&mut status, "db", None, None), CallStart::Begins);
        assert_eq!(status.mcp.as_ref().unwrap().servers["db"].sign_in, None);
        assert_eq!(status.mcp.unwrap().servers["db"].calls, 4);
    }

    #[test]
    fn marks_stay_bounded() {
        let mut status = ThreadStatus::default();
        for n in 0..100 {
            begin_call(&mut status, "db", Some(&format!("k{n}")), None);
            let tool = form(&format!("t{n}"), "x");
            allow_tool(&mut status, "db", &tool, Some("U1"));
        }
        let server = &status.mcp.as_ref().unwrap().servers["db"];
        assert_eq!((server.keys.len(), server.allowed.len()), (KEYS, ALLOWED));
        assert_eq!((server.forms.len(), server.seen.len()), (FORMS, SEEN));
        assert_eq!(server.allowed_by.len(), ALLOWED);
        let standing = |name: &str| find_standing(Some(&status), "db", &pin(name, "x"));
        assert_eq!(standing("t99"), ToolStanding::Allowed(Some("U1".into())));
        assert_eq!(standing("t0"), ToolStanding::Seen, "its yes was forgotten, and its form not");
        assert_eq!(standing("new"), ToolStanding::Crowded);
    }

    #[test]
    fn a_changed_tool_is_not_the_one_that_was_allowed() {
        let mut status = ThreadStatus::default();
        let (old, mut new) = (form("post", "says hello"), form("post", "sends your files"));
        assert_eq!(find_standing(Some(&status), "s", &old.pin), ToolStanding::New);
        allow_tool(&mut status, "s", &old, None);
        assert_eq!(find_standing(Some(&status), "s", &old.pin), ToolStanding::Allowed(None));
        assert_eq!(find_standing(Some(&status), "other", &old.pin), ToolStanding::New);
        let old_mark = mark_tool(&old.pin);
        let changed = ToolStanding::Changed(old_mark.clone());
        assert_eq!(find_standing(Some(&status), "s", &new.pin), changed);
        assert_eq!(find_form(Some(&status), "s", &old_mark).as_deref(), Some("says hello"));
        new.text = "x".repeat(FORM + 1);
        allow_tool(&mut status, "s", &new, None);
        assert_eq!(
            find_form(Some(&status), "s", &mark_tool(&new.pin)),
            None,
            "too long to be kept"
        );
        assert_eq!(find_standing(Some(&status), "s", &new.pin), ToolStanding::Allowed(None));
        assert_eq!(status.mcp.unwrap().servers["s"].allowed.len(), 1);
    }

    #[test]
    fn a_form_that_was_called_without_a_yes_is_known_and_ends_an_earlier_yes() {
        let mut status = ThreadStatus::default();
        let (allowed, called) = (form("post", "asks once"), form("post", "asks each time"));
        see_tool(&mut status, "s", &called);
        assert_eq!(find_standing(Some(&status), "s", &called.pin), ToolStanding::Seen);
        let text = find_form(Some(&status), "s", &mark_tool(&called.pin));
        assert_eq!(text.as_deref(), Some("asks each time"));
        allow_tool(&mut status, "s", &allowed, Some("U1"));
        see_tool(&mut status, "s", &allowed);
        let yes = ToolStanding::Allowed(Some("U1".into()));
        assert_eq!(find_standing(Some(&status), "s", &allowed.pin), yes);
        see_tool(&mut status, "s", &called);
        let changed = ToolStanding::Changed(mark_tool(&called.pin));
        assert_eq!(find_standing(Some(&status), "s", &allowed.pin), changed);
        assert!(status.mcp.unwrap().servers["s"].allowed_by.is_empty());
    }
}
