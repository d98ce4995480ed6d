//! Parses the command list of `git-receive-pack` and judges whether the caller may push so, before a byte of it
//! reaches the remote.

use super::pktline::{self, PacketError, PktLine};

/// Longest command list that is read: far more than one branch needs.
pub const MAX_COMMANDS: usize = 64 * 1024;

/// The command list of a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushRequest {
    pub commands: Vec<PushCommand>,
    /// True if the client wants a report of each ref.
    pub report_status: bool,
    /// True if the report goes over a side band.
    pub side_band: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushCommand {
    pub name: String,
    /// Current id as the client believes; zeros if the ref does not exist.
    pub old: String,
    /// New id; zeros if the ref is to be deleted.
    pub new: String,
}

impl PushCommand {
    /// True if the command deletes the ref.
    pub fn is_delete(&self) -> bool {
        is_zero(&self.new)
    }
}

/// The command list is not understood. Nothing that is not understood is forwarded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PushError {
    #[error("the push is malformed: {0}")]
    Packet(#[from] PacketError),
    /// A line is not a valid command.
    #[error("the push is malformed: a line of its command list is no command")]
    Command,
    /// Signed pushes hide their commands in a certificate.
    #[error("signed pushes are not supported: push with --no-signed")]
    Signed,
    /// The list is longer than any that is read, or has no end.
    #[error("the push names too many refs: push one branch")]
    TooLong,
}

/// Reads the command list at the beginning of `bytes`, its flush packet included, and tells how
/// long it is; nothing if more bytes are needed.
///
/// # Errors
/// When it isn't one, or is longer than [`MAX_COMMANDS`].
pub fn parse_push(bytes: &[u8]) -> Result<Option<(PushRequest, usize)>, PushError> {
    let mut push = PushRequest::default();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some((packet, used)) = pktline::read_packet(rest)? else {
            return if bytes.len() > MAX_COMMANDS { Err(PushError::TooLong) } else { Ok(None) };
        };
        at += used;
        if at > MAX_COMMANDS {
            return Err(PushError::TooLong);
        }
        match packet {
            PktLine::Flush => return Ok(Some((push, at))),
            PktLine::Data(line) => read_line(&mut push, line)?,
            PktLine::Delimiter | PktLine::ResponseEnd => return Err(PushError::Command),
        }
    }
}

fn read_line(push: &mut PushRequest, line: &[u8]) -> Result<(), PushError> {
    let line = std::str::from_utf8(line).map_err(|_| PushError::Command)?;
    let (line, capabilities) = match line.split_once('\0') {
        // Only the first command carries capabilities.
        Some(_) if !push.commands.is_empty() => return Err(PushError::Command),
        Some((line, capabilities)) => (line, Some(capabilities)),
        None => (line, None),
    };
    let line = line.strip_suffix('\n').unwrap_or(line);
    if line.starts_with("push-cert") {
        return Err(PushError::Signed);
    }
    if let Some(object) = line.strip_prefix("shallow ") {
        // A shallow clone tells where its history ends, before the commands.
        return if is_object(object) { Ok(()) } else { Err(PushError::Command) };
    }
    for capability in capabilities.unwrap_or_default().split_ascii_whitespace() {
        match capability {
            "report-status" | "report-status-v2" => push.report_status = true,
            "side-band-64k" => push.side_band = true,
            _ => {}
        }
    }
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(old), Some(new), Some(name))
            if is_object(old) && is_object(new) && !name.is_empty() =>
        {
            let (name, old, new) = (name.to_owned(), old.to_owned(), new.to_owned());
            push.commands.push(PushCommand { name, old, new });
            Ok(())
        }
        _ => Err(PushError::Command),
    }
}

/// True if a text is a full object id in hex.
pub fn is_object(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// True if an id is all zeros, which stands for no object.
pub fn is_zero(id: &str) -> bool {
    id.bytes().all(|b| b == b'0')
}

/// Push rights of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PusherRights<'a> {
    pub may_push: bool,
    /// The role needs an approved plan, and there is none.
    pub lacks_approval: bool,
    /// The thread's branch, without `refs/heads/`.
    pub branch: &'a str,
}

/// Reason why a ref may not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushRefusal {
    /// The role has no push right.
    Role,
    /// The role needs an approved plan, and no user has approved one.
    Approval,
    /// The ref is not the thread's branch.
    OtherRef,
    /// The thread's branch would be deleted.
    Delete,
    /// The thread's branch is named more than once.
    Twice,
    /// This ref alone would be allowed, but a push happens as a whole or not at all.
    Together,
}

impl PushRefusal {
    /// Short reason that Git shows beside the ref.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Role => "this role may not push",
            Self::Approval => "the plan is not approved yet",
            Self::OtherRef => "not this thread's branch",
            Self::Delete => "the branch may not be deleted",
            Self::Twice => "named more than once",
            Self::Together => "pushed together with refs that are refused",
        }
    }
}

/// Decides about a push: nothing if all of it may happen, else a refusal for each ref.
pub fn judge_push<'p>(
    push: &'p PushRequest,
    rights: &PusherRights<'_>,
) -> Vec<(&'p str, PushRefusal)> {
    let own = format!("refs/heads/{}", rights.branch);
    let refusal = |command: &PushCommand| match command {
        _ if !rights.may_push => Some(PushRefusal::Role),
        _ if command.name != own => Some(PushRefusal::OtherRef),
        _ if command.is_delete() => Some(PushRefusal::Delete),
        _ if push.commands.iter().filter(|c| c.name == own).count() > 1 => Some(PushRefusal::Twice),
        _ if rights.lacks_approval => Some(PushRefusal::Approval),
        _ => None,
    };
    if push.commands.iter().all(|command| refusal(command).is_none()) {
        return Vec::new();
    }
    let why = |c: &'p PushCommand| (c.name.as_str(), refusal(c).unwrap_or(PushRefusal::Together));
    push.commands.iter().map(why).collect()
}

/// The sentence for whoever pushed.
pub fn explain_refusals(refusals: &[(&str, PushRefusal)], rights: &PusherRights<'_>) -> String {
    let has = |refusal| refusals.iter().any(|(_, r)| *r == refusal);
    let branch = rights.branch;
    if has(PushRefusal::Role) {
        "CodeButler: this role may not push. Ask a role that may.".to_owned()
    } else if has(PushRefusal::OtherRef) {
        format!("CodeButler: this thread may push its own branch {branch} and nothing else.")
    } else if has(PushRefusal::Delete) {
        format!("CodeButler: {branch} may not be deleted; closing the thread does that.")
    } else if has(PushRefusal::Twice) {
        format!("CodeButler: push {branch} once.")
    } else {
        "CodeButler: a user has to approve the plan in the thread before anything is pushed."
            .to_owned()
    }
}

/// Reasons that Git shows, each with its ref.
pub fn refusal_reasons(refusals: &[(&str, PushRefusal)]) -> Vec<(String, String)> {
    let reason =
        |(name, refusal): &(&str, PushRefusal)| ((*name).to_owned(), refusal.reason().to_owned());
    refusals.iter().map(reason).collect()
}

/// An answer in Git's own words: the body of a `git-receive-pack` response. `refs` are those of the
/// push, each with the reason why it did not change; an empty one says that it did.
pub fn report_refs(push: &PushRequest, refs: &[(String, String)], message: &str) -> Vec<u8> {
    let mut status = Vec::new();
    if push.report_status {
        pktline::write_packets(&mut status, b"unpack ok\n");
        for (name, reason) in refs {
            let line = if reason.is_empty() {
                format!("ok {name}\n")
            } else {
                format!("ng {name} {}\n", reason.replace(['\n', '\0'], " "))
            };
            pktline::write_packets(&mut status, line.as_bytes());
        }
        pktline::write_flush(&mut status);
    }
    if !push.side_band {
        return status;
    }
    let mut out = Vec::new();
    if !message.is_empty() {
        pktline::write_band(&mut out, 2, format!("{message}\n").as_bytes());
    }
    if !status.is_empty() {
        pktline::write_band(&mut out, 1, &status);
    }
    pktline::write_flush(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    fn bytes(lines: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            pktline::write_packets(&mut out, line.as_bytes());
        }
        pktline::write_flush(&mut out);
        out
    }

    fn pushed(refs: &[(&str, &str)]) -> PushRequest {
        let lines: Vec<_> = refs
            .iter()
            .enumerate()
            .map(|(n, (new, name))| {
                let caps = if n == 0 { "\0 report-status side-band-64k agent=git/2" } else { "" };
                format!("{OLD} {new} {name}{caps}")
            })
            .collect();
        parse_push(&bytes(&lines)).unwrap().unwrap().0
    }

    fn refusals(push: &PushRequest, rights: PusherRights<'_>) -> Vec<PushRefusal> {
        judge_push(push, &rights).into_iter().map(|(_, refusal)| refusal).collect()
    }

    const RIGHTS: PusherRights<'static> =
        PusherRights { may_push: true, lacks_approval: false, branch: "codebutler/t" };

    #[test]
    fn a_command_list_is_read_up_to_its_flush_and_no_further() {
        let mut body = bytes(&[
            format!("shallow {OLD}"),
            format!("{OLD} {NEW} refs/heads/a b\0report-status"),
        ]);
        let list = body.len();
        body.extend_from_slice(b"PACK....");
        let (push, used) = parse_push(&body).unwrap().unwrap();
        assert_eq!(used, list);
        let command =
            PushCommand { name: "refs/heads/a b".into(), old: OLD.into(), new: NEW.into() };
        assert_eq!(push.commands, [command]);
        assert!(push.report_status && !push.side_band);
        for cut in 0..list {
            assert_eq!(parse_push(&body[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse_push(b"0000").unwrap().unwrap().0, PushRequest::default());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let bad = |lines: &[String]| parse_push(&bytes(lines)).unwrap_err();
        assert_eq!(bad(&[format!("{OLD} {NEW}")]), PushError::Command);
        assert_eq!(bad(&[format!("{OLD} zz refs/heads/a")]), PushError::Command);
        assert_eq!(bad(&["push-cert\0caps".to_owned()]), PushError::Signed);
        let second = format!("{OLD} {NEW} refs/heads/a\0report-status");
        assert_eq!(bad(&[second.clone(), second]), PushError::Command);
        assert_eq!(parse_push(b"0001").unwrap_err(), PushError::Command);
        let endless = vec![format!("{OLD} {NEW} refs/heads/a"); 2000];
        assert_eq!(bad(&endless), PushError::TooLong);
    }

    #[test]
    fn only_the_threads_branch_may_be_pushed() {
        let own = "refs/heads/codebutler/t";
        assert_eq!(refusals(&pushed(&[(NEW, own)]), RIGHTS), []);
        for name in [
            "refs/heads/main",
            "refs/heads/codebutler/t2",
            "refs/heads/codebutler/t/x",
            "refs/heads/codebutler/t\n",
            "refs/tags/codebutler/t",
            "refs/heads/../heads/codebutler/t",
            "REFS/heads/codebutler/t",
            "codebutler/t",
            "HEAD",
        ] {
            // A trailing line feed belongs to the framing: only one is taken away.
            let name = if name.ends_with('\n') { "refs/heads/codebutler/t\n\n" } else { name };
            assert_eq!(
                refusals(&pushed(&[(NEW, name)]), RIGHTS),
                [PushRefusal::OtherRef],
                "{name:?}"
            );
        }
        assert_eq!(refusals(&pushed(&[(ZERO, own)]), RIGHTS), [PushRefusal::Delete]);
        assert_eq!(refusals(&pushed(&[(NEW, own), (OLD, own)]), RIGHTS), [PushRefusal::Twice; 2]);
        let both = pushed(&[(NEW, own), (NEW, "refs/heads/main")]);
        assert_eq!(refusals(&both, RIGHTS), [PushRefusal::Together, PushRefusal::OtherRef]);
    }

    #[test]
    fn roles_without_right_or_approval_push_nothing() {
        let own = pushed(&[(NEW, "refs/heads/codebutler/t")]);
        assert_eq!(refusals(&own, PusherRights { may_push: false, ..RIGHTS }), [PushRefusal::Role]);
        assert_eq!(
            refusals(&own, PusherRights { lacks_approval: true, ..RIGHTS }),
            [PushRefusal::Approval]
        );
    }

    #[test]
    fn a_refusal_is_told_the_way_git_reports() {
        let push = pushed(&[(NEW, "refs/heads/main")]);
        let refused = refusal_reasons(&judge_push(&push, &RIGHTS));
        let body = report_refs(&push, &refused, "no");
        let text = String::from_utf8(body).unwrap();
        assert!(text.starts_with("0008\u{2}no\n"), "{text:?}");
        assert!(text.contains("000eunpack ok\n"), "{text:?}");
        assert!(text.contains("ng refs/heads/main not this thread's branch\n0000"), "{text:?}");
        assert!(text.ends_with("00000000"), "{text:?}");
        let plain = PushRequest { side_band: false, ..push.clone() };
        assert!(report_refs(&plain, &refused, "no").starts_with(b"000eunpack ok\n"));
        let silent = PushRequest { side_band: false, report_status: false, ..push.clone() };
        assert!(report_refs(&silent, &refused, "no").is_empty());
        let done = [("refs/heads/main".to_owned(), String::new())];
        assert_eq!(report_refs(&plain, &done, ""), b"000eunpack ok\n0017ok refs/heads/main\n0000");
    }
}
