//! Research notes: answers that will be asked for again, kept as pages of `.codebutler/research/` on the thread's
//! branch, so that they are merged with the work that needed them. Each role is shown which pages there are.

use async_trait::async_trait;
use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::learning::branch_page;
use super::toolbox_reply::ask_text;
use super::{
    CallRisk, Handler, PushResult, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome,
};
use crate::research::{KnownResearch, ResearchPage, page_path};
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use codebutler_guides::text::clip_text;

/// Longest findings, in characters.
const MAX_FINDINGS: usize = 12_000;
/// Longest topic, question and source, in characters.
const MAX_TOPIC: usize = 80;
const MAX_QUESTION: usize = 300;
const MAX_SOURCE: usize = 300;
const MAX_SOURCES: usize = 12;

/// Reason for which a note is not kept, in words for the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ResearchFault {
    #[error("`{name}` has 1 to {most} characters on one line")]
    Line { name: &'static str, most: usize },
    #[error(
        "`findings` has {0} characters, and may have 1 to {MAX_FINDINGS}: what others need of it, no more"
    )]
    Findings(usize),
    #[error("`sources` has 1 to {MAX_SOURCES} entries: what is from memory alone is not kept")]
    Sources,
    #[error(
        "the source `{0}` is neither the address of a page nor a place such as `src/pay.rs:12`"
    )]
    Source(String),
    /// Another topic has a file of the same name.
    #[error(
        "`.codebutler/{path}` is about “{known}”: take exactly this topic to bring it up to date, or another one"
    )]
    Topic { path: String, known: String },
}

impl From<ResearchFault> for ToolFailure {
    fn from(fault: ResearchFault) -> Self {
        Self::Respond(fault.to_string())
    }
}

pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(KeepResearch)]
}

/// `KeepResearch`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeepResearchArgs {
    /// What it is about, as somebody would look for it: `Stripe webhooks: retries and signatures`. The same topic
    /// again replaces what was kept.
    pub topic: String,
    /// What was asked.
    pub question: String,
    /// What you found, in Markdown, headings from `###` on: facts with their versions, each with its source.
    pub findings: String,
    /// Addresses of the pages that you read, and places in this repository as `path:line`.
    pub sources: Vec<String>,
    /// What it applies to, such as `stripe-node 17`.
    #[serde(default)]
    pub version: Option<String>,
}

struct KeepResearch;

#[async_trait]
impl Handler for KeepResearch {
    type Args = KeepResearchArgs;
    const NAME: &'static str = "KeepResearch";
    const DESCRIPTION: &'static str = "Saves what you found out as a page of `.codebutler/research/` on this conversation's branch. Later conversations list it and read it with ReadMemory.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: KeepResearchArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let day = find_day(cx).await?;
        let fresh = read_page(&args, day, cx.thread.link.clone())?;
        let path = page_path(&fresh.topic).ok_or_else(|| {
            ToolFailure::Respond(
                "`topic` needs letters from a to z, or digits: its file is named by them"
                    .to_owned(),
            )
        })?;
        if let Some(old) = branch_page(cx, &path).await? {
            check_topic(&path, &old, &fresh.topic)?;
        }
        let request = ToolboxRequest::CommitLearnings {
            changes: Vec::new(),
            message: format!("Keep research: {}\n", clip_text(&fresh.topic, 60)),
            pages: vec![(path.clone(), fresh.render())],
        };
        let commit = ask_text(cx, request).await?;
        match cx.push(&commit).await? {
            PushResult::Done(done) => Ok(ToolOutcome::plain(format!(
                "Kept as `.codebutler/{path}` on this conversation's branch. It is merged with its pull request; until then \
                 only your answer in the conversation says it.{}",
                done.hooks_named()
            ))),
            PushResult::Conflict(why) => Err(ToolFailure::Respond(why)),
        }
    }
}

/// Refuses a second topic with the same file name: it may not replace the first one.
fn check_topic(path: &str, old: &str, topic: &str) -> Result<(), ResearchFault> {
    let known = KnownResearch::of(path, old).title;
    if known == KnownResearch::of(path, &format!("# {topic}\n")).title {
        return Ok(());
    }
    Err(ResearchFault::Topic { path: path.to_owned(), known })
}

async fn find_day(cx: &ToolContext) -> Result<String, ToolFailure> {
    match cx.toolbox.ask(ToolboxRequest::Surroundings { programs: false }).await? {
        ToolboxReply::Surroundings(found) => Ok(found.day),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

/// Builds the page, after checking that it has all its parts.
fn read_page(
    args: &KeepResearchArgs,
    day: String,
    thread: Option<String>,
) -> Result<ResearchPage, ResearchFault> {
    let (topic, question) = (one_line(&args.topic), one_line(&args.question));
    let findings = args.findings.trim();
    for (name, text, most) in [("topic", &topic, MAX_TOPIC), ("question", &question, MAX_QUESTION)]
    {
        let length = text.chars().count();
        if length == 0 || length > most {
            return Err(ResearchFault::Line { name, most });
        }
    }
    let length = findings.chars().count();
    if length == 0 || length > MAX_FINDINGS {
        return Err(ResearchFault::Findings(length));
    }
    if args.sources.is_empty() || args.sources.len() > MAX_SOURCES {
        return Err(ResearchFault::Sources);
    }
    let sources =
        args.sources.iter().map(|source| read_source(source)).collect::<Result<_, _>>()?;
    let version = args.version.as_deref().map(one_line).filter(|version| !version.is_empty());
    let version = version.map(|version| clip_text(&version, MAX_TOPIC));
    Ok(ResearchPage {
        topic,
        question,
        day,
        version,
        thread,
        sources,
        findings: findings.to_owned(),
    })
}

/// Parses a source: an address, or a place in the repository.
fn read_source(source: &str) -> Result<String, ResearchFault> {
    let source = one_line(source);
    let address = source.parse::<Uri>().ok().filter(|uri| uri.host().is_some());
    let is_address = address.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    let is_place = !source.contains(char::is_whitespace)
        && !source.contains("://")
        && !source.starts_with('/')
        && source.contains(['/', '.']);
    if source.chars().count() <= MAX_SOURCE && (is_address || is_place) {
        return Ok(source);
    }
    Err(ResearchFault::Source(clip_text(&source, 80)))
}

fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
    text.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> KeepResearchArgs {
        KeepResearchArgs {
            topic: "Stripe webhooks:\nretries".to_owned(),
            question: "How often are they sent again?".to_owned(),
            findings: "Up to three days.".to_owned(),
            sources: vec!["https://docs.stripe.com/webhooks".to_owned()],
            version: None,
        }
    }

    fn refusal(change: impl FnOnce(&mut KeepResearchArgs)) -> String {
        let mut args = args();
        change(&mut args);
        read_page(&args, "2026-11-26".to_owned(), None).unwrap_err().to_string()
    }

    #[test]
    fn one_topic_does_not_take_the_place_of_another() {
        let page = read_page(&args(), "2026-11-26".to_owned(), None).unwrap().render();
        let path = "research/stripe-webhooks-retries.md";
        assert_eq!(check_topic(path, &page, "Stripe webhooks: retries"), Ok(()));
        let why = check_topic(path, &page, "Stripe webhooks – retries").unwrap_err().to_string();
        assert!(why.contains("is about “Stripe webhooks: retries”"), "{why}");
    }

    #[test]
    fn what_says_where_it_is_from_is_kept_and_nothing_else() {
        let page = read_page(&args(), "2026-11-26".to_owned(), None).unwrap();
        assert_eq!(page.topic, "Stripe webhooks: retries");
        let from = |source: &str| refusal(|args| args.sources = vec![source.to_owned()]);
        for source in ["my memory", "docs", "javascript:alert(1)", "/etc/passwd", ""] {
            assert!(from(source).contains("neither the address"), "{source}");
        }
        assert!(refusal(|args| args.sources.clear()).contains("from memory alone is not kept"));
        assert!(refusal(|args| args.topic = "x".repeat(81)).starts_with("`topic` has 1 to 80"));
        assert!(refusal(|args| args.findings = " ".to_owned()).contains("has 0 characters"));
        let mut here = args();
        here.sources = vec!["src/pay.rs:12".to_owned(), "Cargo.lock".to_owned()];
        assert!(read_page(&here, String::new(), None).is_ok());
    }
}
