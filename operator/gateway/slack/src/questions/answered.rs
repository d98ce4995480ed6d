//! Finds the open question that words are an answer to. Pure.

use codebutler_crds::thread::{ActionApproval, OfferKind, PostedPlan, RoleOffer, ThreadClosing};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::dispatch::reply;

use super::harness::{self, HarnessQuestion};
use super::plan;
use crate::text::decision_words::MessageIntent;
use crate::text::person_message::PersonMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredQuestion<'a> {
    Nothing,
    Action(&'a ActionApproval),
    /// The question whether a plan is carried out.
    Plan(&'a PostedPlan),
    /// The question whether to merge.
    Merge(&'a ThreadClosing),
    /// An offer: which of several things are to be remembered?
    Learnings(&'a RoleOffer),
    /// A question of the harness, which no role asks: its message and kind.
    Harness(&'a SlackTs, HarnessQuestion),
    /// Doubtful: more than one question is open, or something else was asked since, so words answer none.
    Unclear,
}

/// Finds the question that words answer: only what was asked before them, and only if there is no doubt.
pub fn find_answered<'a>(status: &'a ThreadStatus, said: &PersonMessage) -> AnsweredQuestion<'a> {
    let learnings = status.offers.iter().filter(|offer| {
        offer.kind == OfferKind::Learnings && offer.is_open() && fits_offer(offer, said)
    });
    let learnings = learnings.map(|offer| (&offer.ts, AnsweredQuestion::Learnings(offer)));
    let Some(intent) = said.intent else {
        let open: Vec<_> = learnings.filter(|(asked, _)| **asked < said.ts).collect();
        let known = reply::stored_reply(status, &said.ts).is_some();
        return match open[..] {
            _ if known || said.verdict.is_none() => AnsweredQuestion::Nothing,
            [(asked, words)] if !asked_since(status, asked, &said.ts) => words,
            _ => AnsweredQuestion::Nothing,
        };
    };
    let yes_or_no =
        matches!(intent, MessageIntent::Approve | MessageIntent::Always | MessageIntent::Deny);
    let before = status.approvals.iter().filter(|_| yes_or_no);
    if let Some(one) = before.clone().find(|one| one.said.as_ref() == Some(&said.ts)) {
        return AnsweredQuestion::Action(one);
    }
    // The words were read before, as no answer: what is open by now was not what they could mean.
    if reply::stored_reply(status, &said.ts).is_some() {
        return AnsweredQuestion::Nothing;
    }
    let actions = before
        .filter(|one| one.answer.is_none())
        .map(|one| (&one.ts, AnsweredQuestion::Action(one)));
    let plan = status.plan.iter().filter(|plan| yes_or_no && plan::is_open(plan));
    let plan = plan.map(|plan| (&plan.ts, AnsweredQuestion::Plan(plan)));
    let merges = yes_or_no || intent == MessageIntent::Merge;
    let merge = status.closing.iter().filter(|closing| merges && closing.choice.is_none());
    let merge = merge.map(|closing| (&closing.ts, AnsweredQuestion::Merge(closing)));
    let asks = matches!(intent, MessageIntent::Approve | MessageIntent::Deny);
    let harness = harness::open_questions(status).filter(|_| asks);
    let harness = harness.map(|(asked, kind)| (asked, AnsweredQuestion::Harness(asked, kind)));
    let open: Vec<_> = actions
        .chain(plan)
        .chain(merge)
        .chain(learnings)
        .chain(harness)
        .filter(|(asked, _)| **asked < said.ts)
        .collect();
    // A plain no is for what is about to happen; to anything else it is something to read.
    let about_action = open.iter().any(|(_, words)| {
        use AnsweredQuestion::{Action, Harness, Learnings};
        matches!(words, Action(_) | Learnings(_) | Harness(..))
    });
    if open.is_empty()
        || (!about_action && matches!(intent, MessageIntent::Always | MessageIntent::Deny))
    {
        return AnsweredQuestion::Nothing;
    }
    match open[..] {
        [(asked, words)] if !asked_since(status, asked, &said.ts) => words,
        _ => AnsweredQuestion::Unclear,
    }
}

/// True if words can be about what is offered: a yes, a no, or numbers that it has.
fn fits_offer(offer: &RoleOffer, said: &PersonMessage) -> bool {
    match (&said.verdict, said.intent) {
        (Some(verdict), _) => verdict.items().iter().all(|item| (1..=offer.of).contains(item)),
        (None, intent) => matches!(intent, Some(MessageIntent::Approve | MessageIntent::Deny)),
    }
}

/// True if people were asked something else between a question and words.
fn asked_since(status: &ThreadStatus, question: &SlackTs, words: &SlackTs) -> bool {
    let money = status.budget.iter().filter_map(|budget| budget.ask.as_ref());
    let money = money.map(|ask| &ask.ts);
    let asked = status.asked.iter().chain(&status.warned).chain(&status.update_offer).chain(money);
    asked.into_iter().any(|asked| question < asked && asked < words)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::text::numbered_reply::item_verdict;

    #[test]
    fn words_answer_the_one_question_that_was_asked_last() {
        let plan = json!({"ts": "10.000000", "hash": "aa", "role": "pm"});
        let merge = json!({"ts": "20.000000", "role": "lead"});
        let action = |at: &str| {
            json!({"id": "coder:k", "role": "coder", "tool": "Bash", "hash": "aa", "ts": at,
                "expires": "2030-01-01T00:00:00Z"})
        };
        let money =
            json!({"asked": 1, "ask": {"ts": "15.000000", "limit": "perThread", "roles": []}});
        let named = |words: AnsweredQuestion<'_>| match words {
            AnsweredQuestion::Nothing => "nothing",
            AnsweredQuestion::Action(_) => "action",
            AnsweredQuestion::Plan(_) => "plan",
            AnsweredQuestion::Merge(_) => "merge",
            AnsweredQuestion::Learnings(_) => "learnings",
            AnsweredQuestion::Harness(_, HarnessQuestion::Roadmap) => "roadmap",
            AnsweredQuestion::Harness(_, HarnessQuestion::Train) => "train",
            AnsweredQuestion::Harness(_, HarnessQuestion::Parts) => "parts",
            AnsweredQuestion::Unclear => "unclear",
        };
        let of_plan = || json!({"plan": plan, "asked": "10.000000"});
        let of_merge = || json!({"closing": merge, "asked": "20.000000"});
        let of_learnings = || {
            let offer = json!({"ts": "10.000000", "role": "lead", "kind": "learnings", "of": 3});
            json!({"offers": [offer], "asked": "10.000000"})
        };
        let of_roadmap = || {
            let proposal = json!({"ts": "10.000000", "items": [{"id": "1", "hash": "aa"}]});
            let run = json!({"wanted": "9.000000", "by": "U1", "proposal": proposal});
            json!({"roadmap": run, "asked": "10.000000"})
        };
        let split = json!({"asked": "12.000000", "role": "pm", "parts": []});
        let with = |mut status: Value, field: &str, value: Value| {
            status[field] = value;
            status
        };
        for (status, text, expected) in [
            (json!({}), "yes", "nothing"),
            (of_plan(), "yes", "plan"),
            (of_plan(), "no", "nothing"),
            (of_plan(), "merge", "nothing"),
            (of_merge(), "ok", "merge"),
            (of_merge(), "merge it", "merge"),
            (of_merge(), "no", "nothing"),
            (json!({"approvals": [action("10.000000")]}), "dale", "action"),
            (json!({"approvals": [action("10.000000")]}), "nein", "action"),
            (json!({"approvals": [action("10.000000")]}), "merge", "nothing"),
            // Asked later than it was said.
            (json!({"approvals": [action("40.000000")]}), "yes", "nothing"),
            // By anybody, in whatever way.
            (with(of_plan(), "asked", json!("12.000000")), "yes", "unclear"),
            (with(of_plan(), "asked", json!("31.000000")), "yes", "plan"),
            (with(of_plan(), "budget", money.clone()), "yes", "unclear"),
            (with(of_plan(), "warned", json!("12.000000")), "ok", "unclear"),
            (with(of_plan(), "approvals", json!([action("15.000000")])), "yes", "unclear"),
            (with(of_plan(), "closing", merge.clone()), "yes", "unclear"),
            (with(of_plan(), "closing", merge.clone()), "merge", "merge"),
            (with(of_merge(), "asked", json!("21.000000")), "merge", "unclear"),
            (json!({"approvals": [action("10.000000"), action("11.000000")]}), "yes", "unclear"),
            (of_learnings(), "all", "learnings"),
            (of_learnings(), "no", "learnings"),
            (of_learnings(), "1 and 3", "learnings"),
            (of_learnings(), "2: use whole cents", "learnings"),
            (of_learnings(), "1 and 4", "nothing"),
            (of_learnings(), "merge", "nothing"),
            (of_learnings(), "there were 2 of them", "nothing"),
            (with(of_learnings(), "asked", json!("12.000000")), "1 and 3", "nothing"),
            (with(of_learnings(), "plan", plan.clone()), "yes", "unclear"),
            (with(of_learnings(), "plan", plan.clone()), "1", "learnings"),
            (of_roadmap(), "yes", "roadmap"),
            (of_roadmap(), "no", "roadmap"),
            (of_roadmap(), "merge", "nothing"),
            (of_roadmap(), "yes always", "nothing"),
            (with(of_roadmap(), "plan", plan.clone()), "yes", "unclear"),
            (with(of_roadmap(), "asked", json!("12.000000")), "yes", "unclear"),
            (json!({"split": split, "asked": "12.000000"}), "dale", "parts"),
        ] {
            let shown = status.to_string();
            let status: ThreadStatus = serde_json::from_value(status).unwrap();
            let verdict = item_verdict(text);
            let said = PersonMessage::test("30.000000".parse().unwrap(), text);
            let said = PersonMessage { verdict, ..said };
            assert_eq!(named(find_answered(&status, &said)), expected, "{text}: {shown}");
        }
    }
}
