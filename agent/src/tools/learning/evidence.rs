//! Evidence can be looked up: a message becomes a link to it, a claim without evidence is sent back.

use std::fmt::Write as _;

use codebutler_wire::SlackTs;

use super::ProposeArgs;
use crate::tools::{ThreadFacts, ToolFailure};

/// Checks that every point has evidence that can be looked up, and turns messages into links.
pub(super) fn link_all(
    mut args: ProposeArgs,
    thread: &ThreadFacts,
) -> Result<ProposeArgs, ToolFailure> {
    let well = args.went_well.iter_mut().map(|one| &mut one.evidence);
    for evidence in well.chain(args.frictions.iter_mut().map(|one| &mut one.evidence)) {
        if !can_be_looked_up(evidence) {
            return Err(ToolFailure::Respond(format!(
                "`{}` is no evidence: name a message by its id, a commit, `path:line` or a figure",
                evidence.trim()
            )));
        }
        *evidence = link_messages(evidence, thread);
    }
    Ok(args)
}

fn can_be_looked_up(evidence: &str) -> bool {
    evidence.contains(|c: char| c.is_ascii_digit()) || evidence.contains(['/', '`'])
}

/// Replaces ids of messages of this conversation by links.
fn link_messages(text: &str, thread: &ThreadFacts) -> String {
    let Some(link) = &thread.link else { return text.to_owned() };
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !is_part(c)) {
        let id = word.trim_end_matches(|c: char| !is_part(c)).trim_end_matches('.');
        let message =
            id.parse::<SlackTs>().ok().filter(|ts| thread.look_back.messages.contains(ts));
        match message.and_then(|ts| message_link(link, &ts)) {
            Some(to) => {
                let _ = write!(out, "[message]({to})");
                out.push_str(&word[id.len()..]);
            }
            None => out.push_str(word),
        }
    }
    // Drops the word before a link that begins with it: people would read it twice.
    out.replace("message [message]", "[message]").replace("Message [message]", "[message]")
}

/// Builds a message's link from that of the conversation's first message.
fn message_link(root: &str, ts: &SlackTs) -> Option<String> {
    let (channel, first) = root.split('?').next()?.rsplit_once("/p")?;
    let (seconds, micros) = first.split_at_checked(first.len().checked_sub(6)?)?;
    let (_, id) = channel.rsplit_once('/')?;
    let at = ts.as_str().replace('.', "");
    Some(format!("{channel}/p{at}?thread_ts={seconds}.{micros}&cid={id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::LookBackFacts;

    #[test]
    fn messages_of_the_conversation_become_links() {
        let messages = ["1764000001.000200".parse().unwrap()].into_iter().collect();
        let thread = ThreadFacts {
            link: Some("https://acme.slack.com/archives/C1/p1764000000000100".to_owned()),
            look_back: LookBackFacts { messages, ..LookBackFacts::default() },
            ..ThreadFacts::default()
        };
        assert_eq!(
            link_messages("message 1764000001.000200, and 2.5 runs, 1764000009.000200.", &thread),
            "[message](https://acme.slack.com/archives/C1/p1764000001000200?thread_ts=1764000000.000100&cid=C1), and \
             2.5 runs, 1764000009.000200."
        );
        assert_eq!(
            link_messages("1764000001.000200", &ThreadFacts::default()),
            "1764000001.000200"
        );
    }

    #[test]
    fn what_nobody_can_look_up_is_no_evidence() {
        for fine in ["message 3", "src/a.rs", "`make test`", "2 rounds", "1a2b3c4d"] {
            assert!(can_be_looked_up(fine), "{fine}");
        }
        assert!(!can_be_looked_up("everybody saw it"));
    }
}
