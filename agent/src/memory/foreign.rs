//! Origin of a learning's words: text that stands in a web page, at GitHub or in a file of the repository, and that
//! no person of this conversation said, is marked before people judge it. Found in what tools answered; no model is
//! believed.

use codebutler_wire::{MCP_PREFIX, MessageAuthor};

use super::{LearningEntry, MemoryCitation};

/// Number of words in a row that are no coincidence: they are taken from somewhere.
const RUN: usize = 6;
/// Fewest words of a shorter field, all of which have to match.
const LEAST: usize = 4;

/// Place where words were read that nobody of the team said in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignSource {
    Web,
    Server,
    GitHub,
    Repository,
}

impl ForeignSource {
    /// Returns the source of a tool's answers.
    pub fn of_tool(tool: &str) -> Option<Self> {
        match tool {
            "WebFetch" | "WebSearch" => Some(Self::Web),
            "GHIssues" | "GHStatus" | "GHPull" => Some(Self::GitHub),
            // A command may show any of them.
            "Read" | "Grep" | "GitLog" | "GitShow" | "GitDiff" | "GitBlame" | "Bash" | "Test"
            | "RunTests" => Some(Self::Repository),
            "ReadResource" | "ListResources" | "UsePrompt" | "FindTool" => Some(Self::Server),
            _ if tool.starts_with(MCP_PREFIX) => Some(Self::Server),
            _ => None,
        }
    }

    /// Returns the source by the tool and its arguments. Research pages were written from the web.
    pub fn of_call(tool: &str, arguments: &str) -> Option<Self> {
        match tool {
            "ReadMemory" if arguments.contains("research/") => Some(Self::Web),
            _ => Self::of_tool(tool),
        }
    }

    /// Warning that people are shown with a proposal.
    pub const fn warning(self) -> &'static str {
        match self {
            Self::Web => "It comes from a web page.",
            Self::Server => "It comes from a tool of a server outside of the repository.",
            Self::GitHub => "It comes from an issue or a comment at GitHub.",
            Self::Repository => {
                "Its words stand in a file of the repository, and nobody said them here."
            }
        }
    }

    /// True if anybody could have written the text.
    pub fn is_untrusted(self) -> bool {
        self != Self::Repository
    }
}

/// Texts that were read, and texts that people said, in a conversation.
#[derive(Clone, Debug, Default)]
pub struct ForeignTexts {
    read: Vec<(ForeignSource, String)>,
    said: Vec<String>,
}

impl ForeignTexts {
    pub fn read(&mut self, source: ForeignSource, text: &str) {
        self.read.push((source, words_of(text)));
    }

    /// Adds a text that a person said.
    pub fn said(&mut self, text: &str) {
        self.said.push(words_of(text));
    }

    /// A message of the conversation. A Thread's prompt may quote an issue or a comment: those lines are not its own.
    pub fn take_message(&mut self, author: &MessageAuthor, text: &str) {
        match author {
            MessageAuthor::User { .. } => self.said(text),
            MessageAuthor::Prompt { .. } => {
                let (own, quoted) = split_quoted(text);
                self.said(&own);
                self.read(ForeignSource::GitHub, &quoted);
            }
            _ => {}
        }
    }

    /// Returns the origin of a learning's words, the least trusted place first; nothing for what a person said.
    pub fn find_source(&self, learning: &LearningEntry) -> Option<ForeignSource> {
        let cited = learning.citations.iter().filter_map(cited_source);
        let fields = [&learning.claim, &learning.when, &learning.rule];
        let runs: Vec<String> = fields.into_iter().flat_map(|field| runs_of(field)).collect();
        let foreign = runs.iter().filter(|run| !self.said.iter().any(|said| said.contains(*run)));
        let read = foreign.flat_map(|run| {
            self.read.iter().filter(move |(_, text)| text.contains(run)).map(|(source, _)| *source)
        });
        cited.chain(read).min()
    }
}

/// Lines of a text that are its own, and those that it quotes.
pub fn split_quoted(text: &str) -> (String, String) {
    let (quoted, own): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.trim_start().starts_with('>'));
    (own.join("\n"), quoted.join("\n").replace('>', " "))
}

fn cited_source(citation: &MemoryCitation) -> Option<ForeignSource> {
    let MemoryCitation::Other(text) = citation else { return None };
    let is_ours = text.contains(".slack.com/archives/");
    match text {
        text if text.starts_with('#') || text.contains("/issues/") || text.contains("/pull/") => {
            Some(ForeignSource::GitHub)
        }
        text if text.contains("://") && !is_ours => Some(ForeignSource::Web),
        _ => None,
    }
}

/// Words in lower case, one blank between and around them.
fn words_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(' ');
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        out.extend(word.chars().flat_map(char::to_lowercase));
        out.push(' ');
    }
    out
}

fn runs_of(field: &str) -> Vec<String> {
    let text = words_of(field);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() < LEAST {
        return Vec::new();
    }
    let run = |words: &[&str]| format!(" {} ", words.join(" "));
    words.windows(RUN.min(words.len())).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(rule: &str) -> LearningEntry {
        LearningEntry {
            rule: rule.to_owned(),
            claim: "A claim".to_owned(),
            ..LearningEntry::default()
        }
    }

    #[test]
    fn words_are_traced_to_where_they_were_read_unless_a_person_said_them() {
        let mut texts = ForeignTexts::default();
        texts.read(
            ForeignSource::Repository,
            "3: // Tip: set the flag `--fast` before each and every build.",
        );
        texts.read(
            ForeignSource::Web,
            "You should always set  the flag --fast before each and every build!",
        );
        texts.said("please write whole cents and never any floats here");
        let of = |text: &str| texts.find_source(&rule(text));
        assert_eq!(of("Set the flag --fast before each and every build"), Some(ForeignSource::Web));
        assert_eq!(of("tip: set the flag --fast"), Some(ForeignSource::Repository));
        assert_eq!(of("write whole cents and never any floats here"), None);
        assert_eq!(of("use the slow flag for builds that matter"), None);
        texts.read(ForeignSource::Web, "write whole cents and never any floats here");
        assert_eq!(texts.find_source(&rule("write whole cents and never any floats here")), None);
    }

    #[test]
    fn the_quoted_lines_of_a_prompt_are_nobodys_word_of_the_team() {
        let mut texts = ForeignTexts::default();
        let prompt =
            MessageAuthor::Prompt { thread: "t".to_owned(), requested_by: Some("ana".to_owned()) };
        texts.take_message(
            &prompt,
            "Look at issue 7:\n> always set the slow flag before each build\nuse whole cents in all of the prices",
        );
        let of = |text: &str| texts.find_source(&rule(text));
        let quoted = "always set the slow flag before each build";
        assert_eq!(of(quoted), Some(ForeignSource::GitHub));
        assert_eq!(of("use whole cents in all of the prices"), None);
        // A person of the team may say the same.
        texts.take_message(&MessageAuthor::User { id: "U1".to_owned() }, quoted);
        assert_eq!(texts.find_source(&rule(quoted)), None);
    }

    #[test]
    fn commands_and_research_are_sources() {
        let of = ForeignSource::of_call;
        assert_eq!(of("Bash", "{}"), Some(ForeignSource::Repository));
        assert_eq!(of("ReadMemory", r#"{"file":"research/a.md"}"#), Some(ForeignSource::Web));
        assert_eq!(of("ReadMemory", r#"{"file":"coder.md"}"#), None);
        assert_eq!(of("mcp__tracker__search", "{}"), Some(ForeignSource::Server));
        assert_eq!(of("ReadResource", "{}"), Some(ForeignSource::Server));
    }

    #[test]
    fn what_is_cited_says_it_too() {
        let cites = |text: &str| LearningEntry {
            citations: MemoryCitation::parse(text).into_iter().collect(),
            ..rule("anything")
        };
        let of = |text: &str| ForeignTexts::default().find_source(&cites(text));
        assert_eq!(of("https://blog.example/post"), Some(ForeignSource::Web));
        assert_eq!(of("#12"), Some(ForeignSource::GitHub));
        assert_eq!(of("https://acme.slack.com/archives/C1/p1"), None);
        assert_eq!(of("src/price.rs:3"), None);
    }
}
