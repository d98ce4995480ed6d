//! Reasons for which a Thread waits, by its status.

use super::{OfferKind, ThreadStatus};
use crate::Thread;

/// People whom a Thread remembers as those who took part last.
pub const MOST_SPEAKERS: usize = 5;

/// Kind of question that people are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeopleQuestion {
    /// Approval of a role's plan.
    Plan,
    /// Decision on how the thread ends.
    Merge,
    /// Consent to a single action.
    Action,
    /// Choice of one of several answers.
    Choice,
    /// Choice of learnings to keep. No work is held up by it.
    Learnings,
    /// Approval of developing a roadmap.
    Roadmap,
    /// Approval of merging pull requests one behind the other.
    Train,
    /// Approval of building a request in parts.
    Parts,
    /// Decision on a part that was merged without the others.
    TakeBack,
    /// A server whose tools a role needs wants somebody to sign in.
    SignIn,
    /// Whatever a role asked in words.
    Words,
}

impl PeopleQuestion {
    /// True if CodeButler itself asks, and no role waits for the answer.
    #[must_use]
    pub const fn is_own(self) -> bool {
        matches!(self, Self::Roadmap | Self::Train | Self::Parts | Self::TakeBack)
    }

    /// People's task in words, to follow “waits for Ana”.
    #[must_use]
    pub const fn deed(self) -> &'static str {
        match self {
            Self::Plan => "to approve the plan",
            Self::Merge => "to decide about the merge",
            Self::Action => "to allow an action",
            Self::Choice => "to choose an answer",
            Self::Learnings => "to judge learnings",
            Self::Roadmap => "to start the roadmap",
            Self::Train => "to start the merge train",
            Self::Parts => "to say whether it is built in parts",
            Self::TakeBack => "to say what becomes of a merged part",
            Self::SignIn => "to sign in to a server",
            Self::Words => "to answer a question",
        }
    }
}

impl ThreadStatus {
    /// Questions to people that are open and hold up work, each kind once.
    #[must_use]
    pub fn people_questions(&self) -> Vec<PeopleQuestion> {
        use PeopleQuestion as Q;
        let plan = self.plan.as_ref();
        let plan =
            plan.is_some_and(|plan| plan.approved_by.is_none() && plan.declined_by.is_none());
        let split = self.split.as_ref();
        let offers = |kind| self.offers.iter().any(|offer| offer.kind == kind && offer.is_open());
        [
            (Q::Plan, plan),
            (Q::Merge, self.closing.as_ref().is_some_and(|closing| closing.choice.is_none())),
            (Q::Action, self.approvals.iter().any(|question| question.answer.is_none())),
            (Q::Choice, offers(OfferKind::Choice)),
            (Q::Roadmap, self.roadmap.as_ref().is_some_and(|run| run.open_question().is_some())),
            (Q::Train, self.train.as_ref().is_some_and(|train| train.open_question().is_some())),
            (Q::Parts, split.is_some_and(|split| split.is_open())),
            (Q::TakeBack, split.is_some_and(|split| split.asks_to_take_back())),
        ]
        .into_iter()
        .filter_map(|(question, is_open)| is_open.then_some(question))
        .collect()
    }

    /// The same, and what a role waits for that asked something else.
    #[must_use]
    pub fn questions_of_roles(&self) -> Vec<PeopleQuestion> {
        let open = self.people_questions();
        let learnings =
            |offer: &super::RoleOffer| offer.kind == OfferKind::Learnings && offer.is_open();
        match open.is_empty() {
            false => open,
            true if self.offers.iter().any(learnings) => vec![PeopleQuestion::Learnings],
            true if self.signing_in().next().is_some() => vec![PeopleQuestion::SignIn],
            true => vec![PeopleQuestion::Words],
        }
    }

    /// Slack user ids of those who were sent links to sign in to servers.
    fn signing_in(&self) -> impl Iterator<Item = &String> {
        let servers = self.mcp.iter().flat_map(|mcp| mcp.servers.values());
        servers.filter_map(|server| server.sign_in.as_ref())
    }

    /// True if a question to people is open.
    #[must_use]
    pub fn waits_for_people(&self) -> bool {
        !self.people_questions().is_empty()
    }

    /// True if people were asked to raise a limit, and can do so in the thread.
    #[must_use]
    pub fn asks_for_money(&self) -> bool {
        let ask = self.budget.as_ref().and_then(|budget| budget.ask.as_ref());
        ask.is_some_and(|ask| ask.limit.is_raised_in_thread())
    }

    /// Records that a person spoke to a role: calls are charged to them from now on.
    pub fn heard_from(&mut self, user: &str) {
        self.speaker = Some(user.to_owned());
        self.took_part(user);
    }

    /// Remembers somebody among those who took part last. The same again changes nothing.
    pub fn took_part(&mut self, user: &str) {
        if self.speakers.last().is_some_and(|last| last == user) {
            return;
        }
        self.speakers.retain(|known| known != user);
        self.speakers.push(user.to_owned());
        let over = self.speakers.len().saturating_sub(MOST_SPEAKERS);
        self.speakers.drain(..over);
    }
}

impl Thread {
    /// Slack user ids of those whose answer a question waits for: of the only ones who can give it, else of who asked
    /// for the thread and who took part last, who spoke last at the end.
    #[must_use]
    pub fn asked_people(&self) -> Vec<String> {
        let status = self.status.as_ref();
        let questions = status.map(ThreadStatus::questions_of_roles).unwrap_or_default();
        let offers = status.iter().flat_map(|status| &status.offers);
        let open: Vec<_> = offers.filter(|offer| offer.is_open()).collect();
        let only: Vec<&String> = match questions.as_slice() {
            [PeopleQuestion::Choice] if open.iter().all(|offer| offer.only.is_some()) => {
                open.iter().filter_map(|offer| offer.only.as_ref()).collect()
            }
            [PeopleQuestion::SignIn] => status.iter().flat_map(|one| one.signing_in()).collect(),
            _ => return self.people(),
        };
        list_users(only)
    }

    /// Slack user ids of who asked for the thread and of those who took part last, the latest speaker at the end
    /// unless it is who asked.
    #[must_use]
    pub fn people(&self) -> Vec<String> {
        let status = self.status.as_ref();
        let speakers =
            status.iter().flat_map(|status| status.speakers.iter().chain(&status.speaker));
        list_users(self.spec.requested_by.iter().chain(speakers))
    }
}

/// Slack user ids among the names, each once.
fn list_users<'a>(all: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut people: Vec<String> = Vec::new();
    for user in all.into_iter().filter(|user| is_user(user)) {
        if !people.contains(user) {
            people.push(user.clone());
        }
    }
    people
}

/// True if a name can be a Slack user id, and nothing that Slack reads as more.
#[must_use]
pub fn is_user(name: &str) -> bool {
    let mut bytes = name.bytes();
    let rest = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    matches!(bytes.next(), Some(b'U' | b'W')) && (3..=21).contains(&name.len()) && bytes.all(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(value: &serde_json::Value) -> ThreadStatus {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn a_question_of_codebutler_itself_waits_for_people_too() {
        use PeopleQuestion as Q;
        let roadmap = json!({"wanted": "1.000000", "by": "U1",
            "proposal": {"ts": "2.000000", "items": [{"id": "1", "hash": "h"}]}});
        let train =
            json!({"wanted": "1.000000", "by": "U1", "proposal": {"ts": "2.000000", "cars": []}});
        let half = |undo: Option<bool>| {
            json!({"asked": "1.000000", "role": "pm", "approvedBy": "U1",
                "parts": [{"title": "a", "request": "b"}],
                "halves": [{"part": 1, "asked": "2.000000", "undo": undo}]})
        };
        let parts = json!({"asked": "1.000000", "role": "pm", "parts": []});
        for (value, expected) in [
            (json!({"roadmap": roadmap}), vec![Q::Roadmap]),
            (json!({"train": train}), vec![Q::Train]),
            (json!({"split": half(None)}), vec![Q::TakeBack]),
            (json!({"split": half(Some(true))}), vec![]),
            (json!({"split": parts}), vec![Q::Parts]),
            (
                json!({"plan": {"ts": "2.000000", "hash": "h", "role": "pm"}, "train": train}),
                vec![Q::Plan, Q::Train],
            ),
            (json!({}), vec![]),
        ] {
            let status = status(&value);
            assert_eq!(status.people_questions(), expected, "{value}");
            assert_eq!(status.waits_for_people(), !expected.is_empty(), "{value}");
        }
        assert_eq!(status(&json!({})).questions_of_roles(), [Q::Words]);
    }

    #[test]
    fn the_latest_five_who_took_part_are_remembered_once_each() {
        let mut status = ThreadStatus::default();
        for user in ["U01", "U02", "U03", "U01", "U04", "U05", "U06", "U06"] {
            status.heard_from(user);
        }
        assert_eq!(status.speakers, ["U03", "U01", "U04", "U05", "U06"]);
        status.took_part("U03");
        assert_eq!(status.speakers, ["U01", "U04", "U05", "U06", "U03"]);
        assert_eq!(status.speaker.as_deref(), Some("U06"), "who spoke pays, and not who pressed");
    }

    #[test]
    fn who_asked_is_always_among_those_who_are_called_and_what_is_no_user_is_not() {
        let thread = |spec: Option<&str>, status: serde_json::Value| -> Thread {
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
                "spec": {"repo": "r", "requestedBy": spec}, "status": status,
            }))
            .unwrap()
        };
        let all = json!({"speaker": "U01", "speakers": ["nightly", "U02", "U09", "U01"]});
        assert_eq!(thread(Some("U09"), all.clone()).people(), ["U09", "U02", "U01"]);
        assert_eq!(thread(None, all).people(), ["U02", "U09", "U01"]);
        assert_eq!(thread(Some("U1> <!channel"), json!({})).people(), [""; 0]);
        let offer = |only: Option<&str>| json!({"ts": "2.000000", "role": "pm", "kind": "choice", "of": 2, "only": only});
        let asked = json!({"speakers": ["U02", "U03"], "offers": [offer(Some("U03"))]});
        assert_eq!(thread(Some("U09"), asked).asked_people(), ["U03"]);
        let server = json!({"docs": {"calls": 0, "signIn": "U03"}});
        let sign_in = thread(Some("U09"), json!({"mcp": {"servers": server}}));
        assert_eq!(sign_in.asked_people(), ["U03"]);
        let status = sign_in.status.unwrap();
        assert_eq!(status.questions_of_roles(), [PeopleQuestion::SignIn]);
        let asked = json!({"speakers": ["U02"], "offers": [offer(Some("U03")), offer(None)]});
        assert_eq!(thread(Some("U09"), asked).asked_people(), ["U09", "U02"]);
    }
}
