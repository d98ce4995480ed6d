//! Requests for help, and their answer, for which no model is started. Pure.

use codebutler_crds::thread::{HelpRequest, MOST_HELPED, ReplicaClaim};
use codebutler_crds::{Repo, SlackTs, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::api::account::SlackAccount;
use crate::api::channel::RepoChannel;
use crate::api::stored_message::StoredMessage;
use crate::inbound::offered_work::{self, OfferedWork};
use crate::text::mrkdwn;
use crate::{EVENT_TYPE, own_metadata};

/// `kind` of an answer that stands in Slack.
const KIND: &str = "help";

/// Whole messages, without mentions and marks around them.
const WORDS: [&str; 3] = ["help", "ayuda", "hilfe"];
/// The same, which in a conversation may be about what a role has just said.
const SENTENCES: [&str; 9] = [
    "help me",
    "what can you do",
    "what can you do here",
    "what can i ask",
    "how does this work",
    "qué puedes hacer",
    "que puedes hacer",
    "was kannst du",
    "was kannst du hier",
];
/// Age up to which a request is answered: an older one from the history has its answer, or needs none any more.
const FRESH: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// Time for which requests are left to the gateway that has claimed to answer them and does not say so again.
const CLAIM: jiff::SignedDuration = jiff::SignedDuration::from_secs(8);

/// Prompts that Slack shows at most.
const PROMPTS: usize = 4;

/// Form of a request for help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelpWish {
    /// With a word that means nothing else.
    InWords,
    /// With a question that means something else where a role works.
    InSentence,
    /// CodeButler is mentioned, and nothing is said.
    Mention,
}

/// Answer to a request for help, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelpAnswer {
    /// Namespace and name of the Repo that speaks.
    pub repo: (String, String),
    /// First message of the conversation.
    pub root: SlackTs,
    /// The message that asks.
    pub asked: SlackTs,
    /// The person who alone sees it, in the conversation of a Thread.
    pub alone: Option<(ThreadKey, String)>,
}

/// Facts of a Repo that the answer names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HelpFacts<'a> {
    /// Owner and name of its repository.
    pub place: &'a str,
    /// Address of the pages.
    pub pages: Option<&'a str>,
    pub work: OfferedWork,
    /// Names of the first people who may steer.
    pub names: Vec<String>,
}

/// The wish that a text is, if it is nothing else.
pub(crate) fn find_help(text: &str, bot: Option<&str>) -> Option<HelpWish> {
    let marks = |c: char| c.is_whitespace() || ".,!?¿:*_`".contains(c);
    let lower = text.to_lowercase();
    let mut rest = lower.trim_matches(marks);
    let own = bot.map(|bot| format!("<@{}>", bot.to_lowercase()));
    let names = own.as_deref().into_iter().chain(["@codebutler"]);
    let mut is_mentioned = false;
    for name in names {
        // Of a role's name it is only a part.
        let after = rest.strip_prefix(name).filter(|after| !after.starts_with(['.', '|']));
        if let Some(after) = after {
            (is_mentioned, rest) = (true, after.trim_matches(marks));
        }
    }
    let words = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.as_str() {
        "" => is_mentioned.then_some(HelpWish::Mention),
        words if WORDS.contains(&words) => Some(HelpWish::InWords),
        words => SENTENCES.contains(&words).then_some(HelpWish::InSentence),
    }
}

/// Owner and name of a repository, without its host.
pub(crate) fn place_name(git: &str) -> &str {
    git.split_once('/').map_or(git, |(_, name)| name)
}

/// Suggestions in the app's own conversation, by Repo: titles and messages.
pub(crate) fn prompts(channels: &[RepoChannel]) -> Vec<Value> {
    let mut places: Vec<&str> = channels.iter().map(|one| place_name(&one.git)).collect();
    places.dedup();
    let prompt = |place: &&str| json!({"title": format!("What can I ask for in {place}?"), "message": format!("help {place}")});
    places.iter().take(PROMPTS).map(prompt).collect()
}

/// Everything that can be asked of a Repo's team, as Slack shows it.
pub(crate) fn help_text(repo: &Repo, facts: &HelpFacts<'_>) -> String {
    let HelpFacts { place, pages, work, names } = facts;
    let roles = &repo.spec.roles;
    let first = roles.first().map_or("pm", String::as_str);
    let last = roles.iter().find(|role| *role != first).map_or(first, String::as_str);
    let mut lines = vec![
        format!("I work on `{}`. Write what you want in the channel, such as:", escape(place)),
        "• _The total in the cart is wrong for two items. Can you fix that?_ A plan comes first, and nothing is built \
         before somebody says yes."
            .to_owned(),
        "• _How is the price of an order rounded?_ A question is answered at once.".to_owned(),
        "• `develop everything` carries out the repository's roadmap, and `merge all that are ready` merges what waits.".to_owned(),
        format!(
            "While I work: `status`, `stop`, `close`, or `@codebutler.{} …` for one of the team: {}.",
            escape(last),
            roles.iter().map(|role| escape(role)).collect::<Vec<_>>().join(", ")
        ),
    ];
    if repo.spec.roles.iter().any(|role| role == "artist") {
        lines.insert(3, "• _Draw three friendly icons for the empty cart._".to_owned());
    }
    lines.extend(offered_work::list_work(work));
    lines.push(offered_work::describe_rights(&repo.spec.access.users, names));
    if let Some(pages) = pages {
        lines.push(format!("Each conversation has a page: <{pages}|all of them>."));
    }
    lines.join("\n")
}

fn escape(text: &str) -> String {
    mrkdwn::escape_text(&text.replace('`', "'"))
}

/// By which an answer is found again, whoever posted it.
pub(crate) fn build_metadata(asked: &SlackTs) -> Value {
    json!({"event_type": EVENT_TYPE, "event_payload": {"role": "", "kind": KIND, "key": asked}})
}

/// True if a message of our own answers this request.
pub(crate) fn is_answer(message: &StoredMessage, account: &SlackAccount, asked: &SlackTs) -> bool {
    own_metadata(message.metadata.as_ref()).is_some_and(|payload| {
        payload["kind"] == KIND && payload["key"] == asked.as_str() && account.wrote(message)
    })
}

/// Puts a request on record that is to be answered to who asks alone; false if it was before.
pub(crate) fn record_help(status: &mut ThreadStatus, asked: &SlackTs, user: &str) -> bool {
    if status.helped.contains(asked) || status.helping.iter().any(|one| one.ts == *asked) {
        return false;
    }
    let over = (status.helping.len() + 1).saturating_sub(MOST_HELPED);
    status.helping.drain(..over);
    status.helping.push(HelpRequest { ts: asked.clone(), user: user.to_owned() });
    true
}

/// True if another gateway answers the requests in a Thread.
pub(crate) fn is_claimed_elsewhere(status: &ThreadStatus, by: &str, now: Timestamp) -> bool {
    let claim = status.claim.as_ref();
    claim.is_some_and(|one| one.by != by && now.duration_since(one.since.0) < CLAIM)
}

/// Claims, or claims again, to answer a request and the others in its Thread; false if another gateway does, or nothing
/// more comes of it.
pub(crate) fn claim_help(status: &mut ThreadStatus, asked: &SlackTs, by: &str, now: &Time) -> bool {
    let waits = status.helping.iter().any(|one| one.ts == *asked);
    let is_ours = waits && !is_claimed_elsewhere(status, by, now.0);
    if is_ours {
        status.claim = Some(ReplicaClaim { by: by.to_owned(), since: now.clone() });
    }
    is_ours
}

/// Records that nothing more comes of a request: it was answered, or can't be. `by`: the gateway that says so, whose
/// claim ends with the last one.
pub(crate) fn end_help(status: &mut ThreadStatus, asked: &SlackTs, by: &str) {
    status.helping.retain(|one| one.ts != *asked);
    if status.helping.is_empty() && status.claim.as_ref().is_some_and(|claim| claim.by == by) {
        status.claim = None;
    }
    if status.helped.contains(asked) {
        return;
    }
    let over = (status.helped.len() + 1).saturating_sub(MOST_HELPED);
    status.helped.drain(..over);
    status.helped.push(asked.clone());
}

/// False for what comes back from the history.
pub(crate) fn is_fresh(ts: &SlackTs, now: Timestamp) -> bool {
    let said = Timestamp::from_second(ts.parts().0.cast_signed());
    said.is_ok_and(|said| now.duration_since(said) < FRESH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbound::offered_work::OfferedSkill;

    #[test]
    fn only_a_whole_message_asks_for_help() {
        use HelpWish::{InSentence, InWords, Mention};
        for (text, wish) in [
            ("help", Some(InWords)),
            ("Help!", Some(InWords)),
            ("<@U0BOT> help", Some(InWords)),
            ("Hilfe", Some(InWords)),
            ("@codebutler, was kannst du?", Some(InSentence)),
            ("¿Qué puedes hacer?", Some(InSentence)),
            ("How does this work?", Some(InSentence)),
            ("<@U0BOT>", Some(Mention)),
            (" @CodeButler ", Some(Mention)),
            ("help me with the cart", None),
            ("@codebutler.pm", None),
            ("<@U0OTHER>", None),
            ("?", None),
            ("", None),
        ] {
            assert_eq!(find_help(text, Some("U0BOT")), wish, "{text}");
        }
    }

    #[test]
    fn the_answer_is_about_the_repo_and_short() {
        let repo: Repo = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "metadata": {"name": "shop"},
            "spec": {
                "git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
                "slack": {"channel": "C0123", "credentials": {"name": "slack"}},
                "model": {"credentials": {"name": "model"}}, "roles": ["pm", "coder", "artist"],
            },
        }))
        .unwrap();
        let facts = HelpFacts {
            place: place_name("git.example/acme/shop"),
            pages: Some("https://pages.example"),
            ..HelpFacts::default()
        };
        let text = help_text(&repo, &facts);
        for part in [
            "`acme/shop`",
            "@codebutler.coder",
            "pm, coder, artist",
            "Draw three",
            "Everybody in this channel may give me work",
            "<https://pages.example|",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().count() <= 9 && text.len() < 1000, "{text}");
        let skill = OfferedSkill { name: "ship".into(), about: "Ships.".into(), is_own: true };
        let work = OfferedWork { skills: vec![skill], is_whole: true, ..OfferedWork::default() };
        let text = help_text(&repo, &HelpFacts { work, ..HelpFacts::default() });
        assert!(text.contains("\n• `ship`: Ships.\n") && !text.contains("has a page"), "{text}");
    }

    #[test]
    fn an_answer_is_known_by_what_it_answers_and_who_posted_it() {
        let account = SlackAccount::test("U0BOT", "B0BOT");
        let asked: SlackTs = "5.000100".parse().unwrap();
        let posted = |bot: &str, metadata: Value| {
            let message =
                json!({"ts": "6.000100", "bot_id": bot, "text": "x", "metadata": metadata});
            is_answer(&serde_json::from_value(message).unwrap(), &account, &asked)
        };
        assert!(posted("B0BOT", build_metadata(&asked)));
        assert!(!posted("B9", build_metadata(&asked)), "of another app");
        assert!(!posted("B0BOT", build_metadata(&"5.000200".parse().unwrap())));
    }

    #[test]
    fn a_request_goes_on_record_once_and_the_oldest_ones_go() {
        let mut status = ThreadStatus::default();
        let ts = |n: u32| -> SlackTs { format!("{n}.000000").parse().unwrap() };
        for n in 1..=20 {
            let mut is_new = || record_help(&mut status, &ts(n), "U1");
            assert!(is_new() && !is_new());
            end_help(&mut status, &ts(n), "a");
            assert!(!record_help(&mut status, &ts(n), "U1"), "it was answered");
        }
        assert_eq!((status.helped.len(), status.helping.len()), (MOST_HELPED, 0));
        assert_eq!(status.helped.last(), Some(&ts(20)));
        for n in 21..=40 {
            assert!(record_help(&mut status, &ts(n), "U1"));
        }
        assert_eq!(status.helping.len(), MOST_HELPED);
    }

    #[test]
    fn one_gateway_answers_until_it_is_done_or_says_nothing_any_more() {
        let mut status = ThreadStatus::default();
        let (first, second): (SlackTs, SlackTs) =
            ("1.000000".parse().unwrap(), "2.000000".parse().unwrap());
        let at = |second: i64| Time(Timestamp::from_second(second).unwrap());
        assert!(!claim_help(&mut status, &first, "a", &at(100)), "nobody asks");
        assert!(record_help(&mut status, &first, "U1") && record_help(&mut status, &second, "U2"));
        let mut claims = |by: &str, second: i64| {
            let claimed = claim_help(&mut status, &first, by, &at(second));
            assert_eq!(claimed, !is_claimed_elsewhere(&status, by, at(second).0));
            claimed
        };
        assert!(claims("a", 100) && !claims("b", 107));
        assert!(claims("a", 107) && !claims("b", 114), "its queue is long");
        end_help(&mut status, &first, "a");
        assert!(is_claimed_elsewhere(&status, "b", at(114).0), "the other one is not answered");
        assert!(!claim_help(&mut status, &first, "a", &at(114)), "this one is");
        assert!(!claim_help(&mut status, &second, "b", &at(114)));
        assert!(claim_help(&mut status, &second, "b", &at(115)), "a has died");
        end_help(&mut status, &second, "a");
        assert!(is_claimed_elsewhere(&status, "a", at(116).0), "it is not a's any more");
        end_help(&mut status, &second, "b");
        assert_eq!(status.claim, None, "all are answered");
    }

    #[test]
    fn what_the_history_brings_back_is_not_answered_again() {
        let now = Timestamp::from_second(1_767_268_800).unwrap();
        let at = |ts: &str| is_fresh(&ts.parse().unwrap(), now);
        assert!(at("1767268700.000100") && at("1767268900.000100") && !at("1767268100.000100"));
    }
}
