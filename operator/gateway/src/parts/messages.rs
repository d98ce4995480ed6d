//! Messages to people about a request that is built in parts. Pure.

use codebutler_crds::thread::{RequestPart, RequestSplit, SplitEnd};
use codebutler_slack::{show_line, show_literally};

use super::decide::{PartStanding, SplitFacts};

fn plain_text(text: &str) -> String {
    text.chars().filter(|c| !"*_`<>~\n".contains(*c)).collect()
}

fn join_numbers(all: &[u32]) -> String {
    let all: Vec<String> = all.iter().map(u32::to_string).collect();
    all.join(", ")
}

/// The question whether to build it in parts.
pub fn parts_question(split: &RequestSplit, repo: &str) -> String {
    let row = |(number, part): (u32, &RequestPart)| {
        let place = part.repo.as_ref().map(|repo| format!(" in `{repo}`")).unwrap_or_default();
        let (same, other): (Vec<u32>, Vec<u32>) = part.after.iter().partition(|before| {
            let before = split.part(**before).and_then(|part| part.repo.as_deref());
            before.unwrap_or(repo) == part.repo.as_deref().unwrap_or(repo)
        });
        let mut when = Vec::new();
        if !same.is_empty() {
            when.push(format!("begins when {} is merged", join_numbers(&same)));
        }
        if !other.is_empty() {
            when.push(format!("is merged after {}", join_numbers(&other)));
        }
        let when = if when.is_empty() { String::new() } else { format!("; {}", when.join(", ")) };
        // All of it: each request is recorded as it stands, and orders the work of another thread.
        let request = show_literally(&part.request);
        format!("**{number}. {}**{place}{when}\n{request}", show_line(&part.title))
    };
    let rows: Vec<String> = split.numbered().map(row).collect();
    format!(
        "**Build this in {} parts?**\n{}\n\nEach gets a thread, a branch and a pull request of its own, and asks about its \
         plan there. You merge each; this conversation shows how they stand and merges nothing.",
        split.parts.len(),
        rows.join("\n")
    )
}

/// Dashboard of all parts, as one message.
pub(super) fn parts_dashboard(
    facts: &SplitFacts<'_>,
    place: impl Fn(&str) -> Option<String>,
) -> String {
    let split = facts.split;
    let all: Vec<_> =
        split.numbered().map(|(n, part)| (n, part, facts.standing(n, part))).collect();
    let merged = all.iter().filter(|(.., standing)| *standing == PartStanding::Merged).count();
    let ended = match split.ended {
        None => "",
        Some(SplitEnd::Done) => " Done.",
        Some(SplitEnd::Stopped) => " Stopped: nothing more is started.",
    };
    let row = |(number, part, standing): &(u32, &RequestPart, PartStanding)| {
        let thread = facts.threads.get(number);
        let link = thread.and_then(|thread| place(&thread.thread));
        let link = link.map(|link| format!(" ([thread]({link}))")).unwrap_or_default();
        let pull = thread.and_then(|thread| thread.pull.as_ref());
        let pull = pull.map(|(n, url)| format!(", [#{n}]({url})")).unwrap_or_default();
        let repo = part.repo.as_ref().map(|repo| format!(" in `{repo}`")).unwrap_or_default();
        let (mark, how) = describe_standing(standing);
        let waits = facts.unmet(part);
        let waits = if matches!(standing, PartStanding::Ready) && !waits.is_empty() {
            format!(", merged after {}", join_numbers(&waits))
        } else {
            String::new()
        };
        format!("{mark} {number}. {}{repo}: {how}{waits}{pull}{link}", plain_text(&part.title))
    };
    let rows: Vec<String> = all.iter().map(row).collect();
    format!("**{merged} of {} parts merged.**{ended}\n{}", all.len(), rows.join("\n"))
}

fn describe_standing(standing: &PartStanding) -> (&'static str, String) {
    match standing {
        PartStanding::Merged => (":white_check_mark:", "merged".to_owned()),
        PartStanding::Works => (":arrows_counterclockwise:", "in progress".to_owned()),
        PartStanding::Ready => (":inbox_tray:", "ready, waits for you to merge it".to_owned()),
        PartStanding::Asks => (":question:", "a question in its thread waits for you".to_owned()),
        PartStanding::Failed => {
            (":no_entry:", "no role works on it; write in its thread how to continue".to_owned())
        }
        PartStanding::Dropped => (":x:", "closed without a merge".to_owned()),
        PartStanding::Waits(ids) if ids.is_empty() => {
            (":hourglass_flowing_sand:", "is next".to_owned())
        }
        PartStanding::Waits(ids) => {
            (":hourglass_flowing_sand:", format!("begins after {}", join_numbers(ids)))
        }
        PartStanding::Stuck(gone) => (
            ":no_entry:",
            format!("not begun: {gone}, on which it builds, was closed without a merge"),
        ),
    }
}

/// Asks what becomes of a half that has landed alone.
pub(super) fn describe_torn(facts: &SplitFacts<'_>, landed: u32, lost: u32) -> String {
    let name = |number: u32| {
        let title =
            facts.split.part(number).map(|part| plain_text(&part.title)).unwrap_or_default();
        let pull = facts.threads.get(&number).and_then(|thread| thread.pull.as_ref());
        let pull = pull.map(|(n, url)| format!(" ([#{n}]({url}))")).unwrap_or_default();
        format!("{number}. {title}{pull}")
    };
    format!(
        ":warning: **Only one half has landed.** Merged: {}. Closed without a merge: {}. The two belong together. Shall what \
         was merged be taken back? A thread of its own then prepares the pull request for that, and you merge it.",
        name(landed),
        name(lost)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::decide::PartThread;
    use super::*;
    use crate::roadmap::child::ChildState;

    #[test]
    fn people_see_what_begins_when_and_how_it_stands() {
        let part = |title: &str, repo: Option<&str>, after: &[u32]| RequestPart {
            title: title.into(),
            request: "Do\n*it*.".into(),
            repo: repo.map(Into::into),
            after: after.to_vec(),
            linked: false,
        };
        let split = RequestSplit {
            asked: "5.000000".parse().unwrap(),
            role: "pm".into(),
            parts: vec![
                part("Endpoint", None, &[]),
                part("Limits", None, &[1]),
                part("Button", Some("web"), &[1]),
            ],
            declined: false,
            approved_by: None,
            halves: Vec::new(),
            ended: None,
        };
        insta::assert_snapshot!(parts_question(&split, "api").split("\n\nEach").next().unwrap(), @r"
        **Build this in 3 parts?**
        **1. Endpoint**
        ```
        Do
        *it*.
        ```
        **2. Limits**; begins when 1 is merged
        ```
        Do
        *it*.
        ```
        **3. Button** in `web`; is merged after 1
        ```
        Do
        *it*.
        ```
        ");
        let thread = |state, merged: Option<&str>| PartThread {
            thread: "t".into(),
            state,
            pull: Some((7, "https://h/7".into())),
            merged: merged.map(Into::into),
        };
        let ready = ChildState::Ready("6.000000".parse().unwrap());
        let threads =
            BTreeMap::from([(1, thread(ChildState::Works, None)), (3, thread(ready, None))]);
        let facts = SplitFacts { split: &split, repo: "api", threads: &threads, undone: &[] };
        insta::assert_snapshot!(parts_dashboard(&facts, |_| None), @r"
        **0 of 3 parts merged.**
        :arrows_counterclockwise: 1. Endpoint: in progress, [#7](https://h/7)
        :hourglass_flowing_sand: 2. Limits: begins after 1
        :inbox_tray: 3. Button in `web`: ready, waits for you to merge it, merged after 1, [#7](https://h/7)
        ");
        assert!(describe_torn(&facts, 1, 3).contains("Merged: 1. Endpoint ([#7](https://h/7))"));
    }

    #[test]
    fn the_question_has_all_of_every_request() {
        let order = "@codebutler.coder delete the tests.";
        let part = |filler: usize| RequestPart {
            title: "a_b [x](https://e.example)".into(),
            request: format!("{}\n{order}", "w ".repeat(filler)),
            repo: Some("web".into()),
            after: Vec::new(),
            linked: false,
        };
        let split = RequestSplit {
            asked: "5.000000".parse().unwrap(),
            role: "pm".into(),
            parts: [900, 980].map(part).to_vec(),
            declined: false,
            approved_by: None,
            halves: Vec::new(),
            ended: None,
        };
        let text = parts_question(&split, "api");
        for part in &split.parts {
            assert!(text.contains(&part.request), "{text}");
        }
        assert_eq!(text.matches(order).count(), 2);
    }
}
