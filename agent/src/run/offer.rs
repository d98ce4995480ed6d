//! Finds the tools of a role that are of no use in a conversation. The choice depends on facts and on words that are
//! the same in most languages; a word only ever adds a tool. Pure.

use crate::transcript::state::TranscriptState;

const LOOKING_BACK: [&str; 3] = ["ReviewThread", "AskRoles", "ProposeLearnings"];
const MAPS: [&str; 2] = ["WriteMap", "ProposeMaps"];
const OTHERS_WORK: [&str; 2] = ["GHPull", "GHChangeIssue"];
/// Words of work that creates the first page of a repository which has none.
const PAGE_WORDS: [&str; 10] = [
    "page", "screen", "css", "html", "button", "layout", "browser", "website", "frontend", "login",
];
/// GitHub's own terms, which people use in any language.
const GITHUB_WORDS: [&str; 10] =
    ["pull", "review", "issue", "github", "ticket", "#", "merge", "status", "contribut", "backlog"];
/// Short GitHub terms, matched as whole words only.
const GITHUB_SHORT: [&str; 4] = ["pr", "prs", "mr", "gh"];

/// Facts about a conversation that decide which tools are offered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfferFacts {
    /// True if the repository has files that people see as pages.
    pub shows_pages: bool,
    /// True if the team looks back on the conversation.
    pub looks_back: bool,
    /// True if the role may have the others explore the repository.
    pub explores: bool,
}

/// Tools that are left out of what a model is offered.
pub(super) fn useless_tools(
    state: &TranscriptState,
    facts: OfferFacts,
    plan_approved: bool,
) -> Vec<&'static str> {
    let mut useless = Vec::new();
    if !state.names_any(&["map", "learn"]) {
        useless.extend(MAPS);
    }
    if !facts.shows_pages && !state.names_any(&PAGE_WORDS) {
        useless.push("Screenshot");
    }
    if !state.names_any(&GITHUB_WORDS) && !state.names_whole(&GITHUB_SHORT) {
        useless.extend(OTHERS_WORK);
    }
    if !facts.looks_back {
        // A person, or a skill, may want something remembered at any time.
        let asked = state.run().is_none_or(|run| run.review.asked_by.is_none())
            || state.names_any(&["proposelearnings"]);
        if plan_approved && !asked {
            useless.extend(LOOKING_BACK);
        } else if !facts.explores {
            useless.push(LOOKING_BACK[1]);
        }
    }
    useless
}

#[cfg(test)]
mod tests {
    use codebutler_wire::{MessageAuthor, ThreadMessage};

    use super::*;
    use crate::transcript::TranscriptRecord;

    fn heard(text: &str) -> TranscriptState {
        let mut state = TranscriptState::default();
        let message = ThreadMessage {
            ts: "5.000001".parse().unwrap(),
            author: MessageAuthor::User { id: "U1".into() },
            text: text.into(),
            addressed: true,
            pictures: vec![],
        };
        state.apply(&TranscriptRecord::RunStarted { run: "r".into(), at: 1, brief: false });
        let messages = vec![message];
        state.apply(&TranscriptRecord::Taken { messages, pending: vec![], pictures: vec![] });
        state
    }

    #[test]
    fn work_at_github_is_named_in_any_language() {
        let facts = OfferFacts::default();
        for (said, offered) in [
            ("¿Qué cambia la PR 12?", true),
            ("what does PR 12 change?", true),
            ("Was macht der Pull Request?", true),
            ("#12 を見てください", true),
            ("MR anschauen", true),
            ("mehr Produkte im Preis", false),
        ] {
            let useless = useless_tools(&heard(said), facts, false);
            assert_eq!(!useless.contains(&"GHPull"), offered, "{said}: {useless:?}");
        }
    }

    #[test]
    fn pages_are_looked_at_wherever_the_repository_has_some() {
        let said = heard("Das Formular ist auf dem Handy verrutscht");
        let with = OfferFacts { shows_pages: true, ..OfferFacts::default() };
        assert!(!useless_tools(&said, with, false).contains(&"Screenshot"));
        assert!(useless_tools(&said, OfferFacts::default(), false).contains(&"Screenshot"));
        assert!(
            !useless_tools(&heard("a website"), OfferFacts::default(), false)
                .contains(&"Screenshot")
        );
    }

    #[test]
    fn who_explores_the_repository_can_ask_the_others_to() {
        let said = heard("learn this repository");
        let explores = OfferFacts { explores: true, ..OfferFacts::default() };
        let useless = useless_tools(&said, explores, false);
        assert!(!useless.contains(&"AskRoles") && !useless.contains(&"WriteMap"), "{useless:?}");
        assert!(useless_tools(&said, OfferFacts::default(), false).contains(&"AskRoles"));
        let looks_back = OfferFacts { looks_back: true, ..OfferFacts::default() };
        assert!(!useless_tools(&said, looks_back, true).contains(&"AskRoles"));
    }
}
