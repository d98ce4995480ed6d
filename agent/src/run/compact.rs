//! When the conversation grows too long for the model: its older part is told anew by a summary that
//! the model itself writes. The transcript keeps everything.

use std::fmt::Write as _;

use super::patience::CallPatience;
use super::view::{RunEnding, RunView};
use super::watch::RunDeadline;
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::model;
use crate::model::judge::{self, ReplyCircumstances, ReplyFlaw};
use crate::prompt;
use crate::transcript::TranscriptRecord;
use codebutler_guides::text::clip_text;
use serde_json::Value;

/// Longest summary, in characters.
const MAX_SUMMARY: usize = 12_000;
/// Characters of a message in the summary that is made without a model.
const MAX_LINE: usize = 300;

const ASK: &str = "[CodeButler] The conversation is longer than you can be shown. Write down what you need to go \
    on, in at most 1,500 words, for nothing older than this will be shown to you any more: what people want and \
    what they decided; what was decided otherwise and why; files that matter, with what you know and changed of \
    them; commands that work here; open questions; what you do next. Call no tool.";

/// What comes of a conversation that may be too long.
pub enum CompactionOutcome {
    Made,
    /// Nobody wrote a summary now: try again.
    Later,
    Ended(RunEnding),
}

impl Agent {
    /// Makes room if there is none.
    pub(super) async fn compact(
        &mut self,
        view: &RunView,
        deadline: &RunDeadline,
        patience: &mut CallPatience,
    ) -> Result<CompactionOutcome, RunError> {
        let look = self.look(view);
        let chat = self.transcript.state().chat();
        let Some(upto) = prompt::find_overlong(chat, &look) else {
            return Ok(CompactionOutcome::Made);
        };
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        let older = &chat[..upto];
        let squeezed = prompt::squeeze_conversation(older, &look);
        let body = prompt::summary_request(&look, &view.system, squeezed, &view.specs);
        let mut body = body.without_calls();
        body.push(model::user_message(ASK));
        let (shown, body) = (body.tokens(), body.to_bytes());
        let answer = match self.bounded(deadline, self.tools.gateway.chat(body)).await {
            Ok(answer) => answer,
            Err(cut) => return self.cut(cut).await.map(CompactionOutcome::Ended),
        };
        let answer = match answer {
            // A summary is worth waiting for.
            Err(error) if error.may_pass() => {
                let ended = self.unanswered(error, shown, deadline, patience).await?;
                return Ok(ended.map_or(CompactionOutcome::Later, CompactionOutcome::Ended));
            }
            answer => answer,
        };
        let told = answer.ok().and_then(|body| read_summary(&body));
        let (how, summary) = match told {
            Some(text) => ("the model's summary", clip_text(&text, MAX_SUMMARY)),
            None => ("a list of what was said", plain_chat(older)),
        };
        let evidence = format!("{upto} of {} messages", chat.len());
        self.log.note(&run, LoggedKind::Compacted, how, &["hiding results alone"], &evidence);
        self.transcript.append(&TranscriptRecord::Compacted { upto, summary })?;
        Ok(CompactionOutcome::Made)
    }
}

/// The words of an answer, if it is one. One that was cut off is better than none.
fn read_summary(body: &[u8]) -> Option<String> {
    let reply = model::parse_reply(body).ok()?;
    let usable = matches!(
        judge::find_flaw(&reply, &ReplyCircumstances::default()),
        None | Some(ReplyFlaw::CutOff { .. })
    );
    reply.message.content.filter(|_| usable)
}

/// Without a model: what people and the role said, each cut, the newest kept.
fn plain_chat(chat: &[Value]) -> String {
    let mut lines = Vec::new();
    for message in chat {
        let role = message["role"].as_str().unwrap_or_default();
        let text = prompt::text_of(message);
        if matches!(role, "user" | "assistant") && !text.trim().is_empty() {
            let mut line = String::new();
            let _ = write!(line, "{role}: {}", clip_text(text.trim(), MAX_LINE));
            lines.push(line);
        }
    }
    let mut left = MAX_SUMMARY;
    let fits = |line: &&String| {
        left = left.saturating_sub(line.chars().count() + 1);
        left > 0
    };
    let mut kept: Vec<_> = lines.iter().rev().take_while(fits).cloned().collect();
    kept.reverse();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_without_a_model_keeps_the_newest_words() {
        let chat = [
            model::user_message("fix it"),
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            model::tool_message("c", "a result"),
            json!({"role": "assistant", "content": "I see."}),
        ];
        assert_eq!(plain_chat(&chat), "user: fix it\nassistant: I see.");
        let many: Vec<_> =
            (0..100).map(|n| model::user_message(&format!("{n} {}", "x".repeat(400)))).collect();
        let text = plain_chat(&many);
        assert!(text.len() <= MAX_SUMMARY + 100 && text.contains("user: 99 x"), "{}", text.len());
        assert!(!text.contains("user: 1 x"));
    }
}
