//! A Thread's use of servers, in its status: calls, tools that people have allowed, and calls that must not be
//! repeated. Pure.

use codebutler_crds::ThreadStatus;
use codebutler_crds::mcp::ThreadMcpServer;
use codebutler_mcp::tools::PinnedTool;
use sha2::{Digest as _, Sha256};

/// Allowed tools of a server that are kept.
const ALLOWED: usize = 64;
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
pub enum CallStart {
    /// It is counted, and may be sent.
    Begins,
    /// `maxCalls` are reached.
    UsedUp,
    /// It was begun before.
    Repeated,
}

/// A tool's standing in a Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolStanding {
    /// People have allowed exactly this one.
    Allowed,
    /// People have allowed another form of it, which has this mark.
    Changed(String),
    /// Nobody was asked.
    New,
}

/// The mark of a tool: its name and its definition.
pub fn mark_tool(pin: &PinnedTool) -> String {
    format!("{}-{}", mark_name(&pin.name), &pin.hash[..HASH.min(pin.hash.len())])
}

fn mark_name(name: &str) -> String {
    hex::encode(Sha256::digest(name))[..NAME].to_owned()
}

/// The mark of a call that must not be repeated.
pub fn mark_key(role: &str, key: &str) -> String {
    hex::encode(Sha256::digest(format!("{role}\0{key}")))[..HASH].to_owned()
}

/// Decides whether a call may be sent. `mark` is that of a call that may change something.
pub fn check_start(
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
pub fn begin_call(
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
    server.calls = server.calls.saturating_add(1);
    server.keys.extend(mark.map(str::to_owned));
    let old = server.keys.len().saturating_sub(KEYS);
    server.keys.drain(..old);
    CallStart::Begins
}

/// A tool's standing.
pub fn find_standing(
    status: Option<&ThreadStatus>,
    server: &str,
    pin: &PinnedTool,
) -> ToolStanding {
    let known = status.and_then(|status| status.mcp.as_ref()?.servers.get(server));
    let (mark, name) = (mark_tool(pin), mark_name(&pin.name));
    let same = known.and_then(|known| known.allowed.iter().find(|one| one.starts_with(&name)));
    match same {
        Some(allowed) if *allowed == mark => ToolStanding::Allowed,
        Some(allowed) => ToolStanding::Changed(allowed.clone()),
        None => ToolStanding::New,
    }
}

/// The masked definition of the form with this mark, if it was short enough to be kept.
pub fn find_form(status: Option<&ThreadStatus>, server: &str, mark: &str) -> Option<String> {
    let known = status.and_then(|status| status.mcp.as_ref()?.servers.get(server))?;
    let mut forms = known.forms.iter().filter_map(|form| form.split_once('\n'));
    forms.find(|(own, _)| *own == mark).map(|(_, text)| text.to_owned())
}

/// Keeps that people have allowed a tool, in place of an earlier form of it. `text`: its definition, masked.
pub fn allow_tool(status: &mut ThreadStatus, server: &str, pin: &PinnedTool, text: &str) {
    let (mark, name) = (mark_tool(pin), mark_name(&pin.name));
    let server = server_entry(status, server);
    server.allowed.retain(|one| !one.starts_with(&name));
    server.allowed.push(mark.clone());
    let old = server.allowed.len().saturating_sub(ALLOWED);
    server.allowed.drain(..old);
    server.forms.retain(|one| !one.starts_with(&name));
    if text.chars().count() <= FORM {
        server.forms.push(format!("{mark}\n{text}"));
        let old = server.forms.len().saturating_sub(FORMS);
        server.forms.drain(..old);
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
        assert_eq!(status.mcp.unwrap().servers["db"].calls, 3);
    }

    #[test]
    fn marks_stay_bounded() {
        let mut status = ThreadStatus::default();
        for n in 0..100 {
            begin_call(&mut status, "db", Some(&format!("k{n}")), None);
            let tool = pin(&format!("t{n}"), "x");
            allow_tool(&mut status, "db", &tool, "x");
        }
        let server = &status.mcp.as_ref().unwrap().servers["db"];
        assert_eq!((server.keys.len(), server.allowed.len()), (KEYS, ALLOWED));
        assert_eq!(server.forms.len(), FORMS);
        assert_eq!(find_standing(Some(&status), "db", &pin("t99", "x")), ToolStanding::Allowed);
    }

    #[test]
    fn a_changed_tool_is_not_the_one_that_was_allowed() {
        let mut status = ThreadStatus::default();
        let (old, new) = (pin("post", "says hello"), pin("post", "sends your files"));
        assert_eq!(find_standing(Some(&status), "s", &old), ToolStanding::New);
        allow_tool(&mut status, "s", &old, &old.text);
        assert_eq!(find_standing(Some(&status), "s", &old), ToolStanding::Allowed);
        assert_eq!(find_standing(Some(&status), "other", &old), ToolStanding::New);
        let changed = ToolStanding::Changed(mark_tool(&old));
        assert_eq!(find_standing(Some(&status), "s", &new), changed);
        assert_eq!(find_form(Some(&status), "s", &mark_tool(&old)).as_deref(), Some("says hello"));
        allow_tool(&mut status, "s", &new, &"x".repeat(FORM + 1));
        assert_eq!(find_form(Some(&status), "s", &mark_tool(&new)), None, "too long to be kept");
        assert_eq!(find_standing(Some(&status), "s", &new), ToolStanding::Allowed);
        assert_eq!(status.mcp.unwrap().servers["s"].allowed.len(), 1);
    }
}
