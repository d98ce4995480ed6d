//! Messages to people about a roadmap that is carried out. Pure.

use std::fmt::Write as _;

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::LimitsSpec;
use codebutler_crds::thread::{ApprovedItem, RoadmapEnd, RoadmapRun};
use codebutler_crds::wire::history::{HistoryEvent, ItemShown};
use codebutler_roadmap::{RoadmapFile, RoadmapItem};
use codebutler_slack::{ItemsQuestion, show_literally};

use super::decide::{ItemStanding, RoadmapFacts, RoadmapRefusal, WaitingReason, describe_held};

/// Characters of a message: Slack takes some more.
const LIMIT: usize = 3600;
/// Characters of a question without an attached file: some messages.
const LONG: usize = 5 * LIMIT;
/// Characters of a question's head, and of its remarks on the list.
const HEAD: usize = 400;
/// Maximum characters of a title.
const TITLE: usize = 80;
/// Mistakes that are told of a file.
const FAULTS: usize = 8;
const FILE: &str = ".codebutler/roadmap.md";
const TOO_DEAR: &str = "the budget is used up";

/// The title of an item as the file has it, and nothing in it is markup.
pub(super) fn item_title(file: Option<&RoadmapFile>, id: &str) -> String {
    let title = file.and_then(|file| file.item(id)).map_or("", |item| item.title.as_str());
    let plain = title.chars().filter(|c| !"*_`<>~".contains(*c));
    format!("`{id}` {}", plain.take(TITLE).collect::<String>()).trim_end().to_owned()
}

/// State of the whole run, for the history.
pub(super) fn run_event(run: &RoadmapRun, budget: Option<NanoUsd>) -> HistoryEvent {
    let ended = run.ended.map(|end| match end {
        RoadmapEnd::Done => "done".to_owned(),
        RoadmapEnd::Stopped => "stopped".to_owned(),
    });
    HistoryEvent::Roadmap { items: run.items.len() as u64, budget, ended }
}

/// State of an item, for the history.
pub(super) fn item_event(
    facts: &RoadmapFacts<'_>,
    place: u64,
    approved: &ApprovedItem,
) -> ItemShown {
    let item = facts.file.and_then(|file| file.item(&approved.id));
    let child = facts.children.get(&approved.id).filter(|child| !child.elsewhere);
    let (state, why) = match facts.standing(approved) {
        ItemStanding::Merged => ("merged", None),
        ItemStanding::Works => ("working", None),
        ItemStanding::Ready => ("ready", None),
        ItemStanding::Next => ("next", None),
        ItemStanding::Waits(_) => ("waits", None),
        ItemStanding::Asks(why, _) => ("blocked", Some(describe_reason(&why))),
        ItemStanding::Held(ids) => ("blocked", Some(describe_held(&ids))),
        ItemStanding::TooDear => ("blocked", Some(TOO_DEAR.to_owned())),
    };
    ItemShown {
        id: approved.id.clone(),
        title: item.map(|item| item.title.clone()).unwrap_or_default(),
        place,
        state: state.to_owned(),
        why,
        after: item.map(|item| item.depends_on.clone()).unwrap_or_default(),
        thread: child.map(|child| child.thread.clone()),
        pull_request: child.and_then(|child| child.pull_request),
    }
}

/// All that a yes to these items approves: the prompt of each item's role.
pub(super) fn whole_items(file: Option<&RoadmapFile>, items: &[ApprovedItem]) -> String {
    let texts = items.iter().filter_map(|item| file?.item(&item.id)).map(item_prompt);
    texts.collect::<Vec<_>>().join("\n\n---\n\n")
}

/// Prompt of an item's Thread.
pub(super) fn item_prompt(item: &RoadmapItem) -> String {
    let notes = if item.notes.is_empty() { String::new() } else { format!("\n\n{}", item.notes) };
    format!(
        "Implement item `{}` of the roadmap: **{}**\n\nAcceptance criteria:\n{}{notes}\n\nThese criteria are approved, and they are all \
         that is wanted. Plan within them and don't ask what they answer; ask before you plan what goes beyond them. In the same \
         change set the item's `Status` to `done` and its `Branch` to this branch in `.codebutler/roadmap.md`, and nothing else there.",
        item.id, item.title, item.criteria
    )
}

/// The question whether to begin, about as many items as it can name, and no yes is for any other. `whole`: the
/// file in the thread that has all of them; without one, the question itself has.
pub(super) fn roadmap_question(
    facts: &RoadmapFacts<'_>,
    items: &[ApprovedItem],
    base: &str,
    limits: &LimitsSpec,
    whole: Option<&str>,
) -> ItemsQuestion {
    let faults = describe_faults(facts.file);
    let money = describe_money(facts.budget, limits);
    let places = facts.places;
    let rules = format!(
        "At most {places} at a time, each in a thread, on a branch and with a pull request of its own; what depends on \
         another one begins on its branch once that only waits for people, and is merged after it. You merge. A plan within an item's acceptance criteria counts as \
         approved; whatever goes beyond is asked there. An item is tried three times. {money}"
    );
    let lines: Vec<String> = items.iter().map(|item| item_line(facts, item, whole)).collect();
    let room = if whole.is_some() { LIMIT } else { LONG };
    let room = room.saturating_sub(HEAD + faults.len() + rules.len());
    let named = count_fitting(&lines, room).max(1).min(items.len());
    let more = items.len() - named;
    let head = question_head(facts, (named, more), base);
    let rest = if more == 0 {
        String::new()
    } else {
        format!("\n\nAnother {more} are asked about once this is answered.")
    };
    let file = whole.map_or_else(String::new, |file| {
        format!("\n\nTheir criteria and notes, as a yes approves them, are in `{file}`.")
    });
    let list = lines[..named].join("\n");
    ItemsQuestion {
        text: format!("{head}\n{list}{file}{rest}{faults}\n\n{rules}"),
        items: items[..named].to_vec(),
        more: more > 0,
    }
}

fn question_head(facts: &RoadmapFacts<'_>, (named, more): (usize, usize), base: &str) -> String {
    let noun = if named == 1 { "item" } else { "items" };
    let of = if more == 0 { String::new() } else { format!(" of {}", named + more) };
    if facts.run.is_approved() {
        return format!(
            "**{named}{of} {noun} of the roadmap: new, or changed since they were approved** (`{FILE}` on `{base}`)"
        );
    }
    format!("**Develop the roadmap: {named}{of} {noun}** (`{FILE}` on `{base}`)")
}

/// An item in the question; all of it where no file has it.
fn item_line(facts: &RoadmapFacts<'_>, approved: &ApprovedItem, whole: Option<&str>) -> String {
    let item = facts.file.and_then(|file| file.item(&approved.id));
    let after = item.map(|item| &item.depends_on).filter(|ids| !ids.is_empty());
    let after = after.map(|ids| format!(", after `{}`", ids.join("`, `"))).unwrap_or_default();
    let line = format!("- {}{after}", item_title(facts.file, &approved.id));
    match item.filter(|_| whole.is_none()) {
        Some(item) => format!("{line}\n{}", show_literally(&item_prompt(item))),
        None => line,
    }
}

/// Lines, from the first, that have room together.
fn count_fitting(lines: &[String], room: usize) -> usize {
    let mut used = 0;
    let fits = |line: &&String| {
        used += line.len() + 1;
        used <= room
    };
    lines.iter().take_while(fits).count()
}

fn describe_money(budget: Option<NanoUsd>, limits: &LimitsSpec) -> String {
    let budget = match budget {
        Some(budget) => format!("All together may cost ${budget}; then nothing more begins"),
        None => "There is no budget for all together: say `develop everything for $20` to have one"
            .to_owned(),
    };
    let cap = |cap: Option<NanoUsd>, of: &str| cap.map(|cap| format!("${cap} {of}"));
    let caps = [cap(limits.budget.per_thread, "a thread"), cap(limits.budget.per_day, "a day")];
    let caps: Vec<_> = caps.into_iter().flatten().collect();
    match caps.as_slice() {
        [] => format!("{budget}."),
        caps => format!("{budget}. The Repo's own caps hold: {}.", caps.join(", ")),
    }
}

/// Faults of the file, line by line.
fn describe_faults(file: Option<&RoadmapFile>) -> String {
    let faults = file.map(|file| file.faults.as_slice()).unwrap_or_default();
    if faults.is_empty() {
        return String::new();
    }
    let mut lines: Vec<String> =
        faults.iter().take(FAULTS).map(|fault| format!("- {fault}")).collect();
    if faults.len() > FAULTS {
        lines.push(format!("- and {} more", faults.len() - FAULTS));
    }
    format!("\n\nNot started, until `{FILE}` is fixed:\n{}", lines.join("\n"))
}

/// Message that says why people are asked nothing.
pub(super) fn describe_refusal(
    refusal: &RoadmapRefusal,
    file: Option<&RoadmapFile>,
    base: &str,
) -> String {
    match refusal {
        RoadmapRefusal::NoRoadmap => format!(
            "There is no `{FILE}` on `{base}` yet. Say `add … to the roadmap` and what you want, and the team writes it with you."
        ),
        RoadmapRefusal::Nothing => format!(
            "Nothing in `{FILE}` on `{base}` is there to be started: what is `pending`, has no mistakes and no thread yet.{}",
            describe_faults(file)
        ),
        RoadmapRefusal::Elsewhere(thread) => format!(
            "The roadmap of this repository is developed from another conversation already (Thread `{thread}`). Say `stop` there, or \
             `develop everything` there to have new items built, too."
        ),
    }
}

/// Dashboard of all items, as one message.
pub(super) fn roadmap_dashboard(
    facts: &RoadmapFacts<'_>,
    page: Option<&str>,
    link: impl Fn(&str) -> Option<String>,
) -> String {
    let run = facts.run;
    let all: Vec<(&ApprovedItem, ItemStanding)> =
        run.items.iter().map(|item| (item, facts.standing(item))).collect();
    let count = |standing: &ItemStanding| all.iter().filter(|(_, own)| own == standing).count();
    let merged = count(&ItemStanding::Merged);
    let ended = match run.ended {
        None => "",
        Some(RoadmapEnd::Done) => " Done.",
        Some(RoadmapEnd::Stopped) => " Stopped: nothing more is started.",
    };
    let budget = facts.budget.map(|budget| format!(" of ${budget}")).unwrap_or_default();
    let head = format!(
        "**Roadmap: {merged} of {} merged**, {}{budget} spent.{ended}{}",
        all.len(),
        facts.spent.in_cents(),
        page.map(|page| format!(" [Its page]({page})")).unwrap_or_default()
    );
    let row = |(item, standing): &(&ApprovedItem, ItemStanding)| {
        let child = facts.children.get(&item.id);
        let place = child.and_then(|child| link(&child.thread));
        let place = place.map(|link| format!(" ([thread]({link}))")).unwrap_or_default();
        let pull = child.and_then(|child| child.pull_request);
        let pull = pull.map(|number| format!(", PR #{number}")).unwrap_or_default();
        let (mark, how) = describe_standing(standing);
        format!("{mark} {}: {how}{pull}{place}", item_title(facts.file, &item.id))
    };
    // Items that need somebody's attention come first, finished ones last.
    let rank = |standing: &ItemStanding| match standing {
        ItemStanding::Asks(..) | ItemStanding::TooDear => 0,
        ItemStanding::Ready => 1,
        ItemStanding::Works => 2,
        ItemStanding::Next => 3,
        ItemStanding::Held(_) | ItemStanding::Waits(_) => 4,
        ItemStanding::Merged => 5,
    };
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|(_, standing)| rank(standing));
    let rows: Vec<String> = sorted.into_iter().map(row).collect();
    format!("{head}\n{}", fit_lines(&rows, LIMIT - head.len()))
}

/// As many lines as fit, with the number of those left out.
fn fit_lines(lines: &[String], limit: usize) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        if text.len() + line.len() + 40 > limit {
            let more = lines.len() - at;
            let _ = write!(text, "… and {more} more");
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn describe_standing(standing: &ItemStanding) -> (&'static str, String) {
    match standing {
        ItemStanding::Merged => (":white_check_mark:", "merged".to_owned()),
        ItemStanding::Works => (":arrows_counterclockwise:", "in progress".to_owned()),
        ItemStanding::Ready => (":inbox_tray:", "ready, waits for you to merge it".to_owned()),
        ItemStanding::Asks(why, _) => (":no_entry:", format!("blocked: {}", describe_reason(why))),
        ItemStanding::Held(ids) => (":no_entry:", format!("blocked: {}", describe_held(ids))),
        ItemStanding::Waits(ids) => {
            (":hourglass_flowing_sand:", format!("waits for `{}`", ids.join("`, `")))
        }
        ItemStanding::Next => (":hourglass_flowing_sand:", "is next".to_owned()),
        ItemStanding::TooDear => (":no_entry:", format!("blocked: {TOO_DEAR}")),
    }
}

/// Reason why an item waits for people, and their options, in words.
pub(super) fn describe_reason(why: &WaitingReason) -> String {
    match why {
        WaitingReason::Question => "a question in its thread waits for an answer".to_owned(),
        WaitingReason::Failed => {
            "three tries failed; write in its thread what is to be done otherwise".to_owned()
        }
        WaitingReason::Rests => {
            "no role works on it and nothing was merged; write in its thread how to continue".to_owned()
        }
        WaitingReason::Dropped => "its thread was closed without a merge; to have it built anew, say `stop` here and `develop everything` in a new conversation".to_owned(),
        WaitingReason::LostBase(id) => format!(
            "it is built on `{id}`, which was closed without a merge; write in its thread what becomes of that part"
        ),
        WaitingReason::Changed => {
            "it says something else than what was approved; answer the newest question here"
                .to_owned()
        }
        WaitingReason::Gone => format!("it is not in `{FILE}` any more"),
        WaitingReason::Faulty => format!("`{FILE}` has a mistake there: correct it"),
        WaitingReason::Blocked(reason) => {
            let plain: String =
                reason.chars().filter(|c| !"*_`<>~\n".contains(*c)).take(200).collect();
            format!("so says `{FILE}` ({plain})")
        }
        WaitingReason::ByHand => format!(
            "`{FILE}` says that somebody works on it; set it to `pending` to have it built here"
        ),
        WaitingReason::Elsewhere(thread) => format!("Thread `{thread}` works on it"),
    }
}

/// Notice of an item that waits for people: its key, and the words.
pub(super) fn describe_blocked(
    facts: &RoadmapFacts<'_>,
    item: &ApprovedItem,
    link: impl Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let ItemStanding::Asks(why, mark) = facts.standing(item) else { return None };
    let since = match (&why, &mark) {
        (_, Some(mark)) => mark.to_string(),
        // The notice is repeated when the reason or the item's text changes.
        (why, None) => format!("{}-{}", reason_word(why), item.hash),
    };
    let place = facts.children.get(&item.id).and_then(|child| link(&child.thread));
    let place = place.map(|link| format!(" [Its thread]({link})")).unwrap_or_default();
    let waits = |other: &&ApprovedItem| match facts.standing(other) {
        ItemStanding::Waits(ids) | ItemStanding::Held(ids) => ids.contains(&item.id),
        _ => false,
    };
    let others = facts.run.items.iter().filter(waits);
    let others: Vec<_> = others.map(|other| format!("`{}`", other.id)).collect();
    let others = if others.is_empty() {
        " All others go on.".to_owned()
    } else {
        format!(" {} wait for it, all others go on.", others.join(", "))
    };
    let text = format!(
        "{} is blocked: {}.{place}{others}",
        item_title(facts.file, &item.id),
        describe_reason(&why)
    );
    Some((format!("roadmap-blocked:{}:{since}", item.id), text))
}

/// Notice of all items that wait for a merge.
pub(super) fn describe_ready(
    facts: &RoadmapFacts<'_>,
    link: impl Fn(&str) -> Option<String>,
) -> String {
    let ready = facts.run.items.iter().filter(|item| facts.standing(item) == ItemStanding::Ready);
    let show_item = |item: &ApprovedItem| {
        let child = facts.children.get(&item.id);
        let place = child.and_then(|child| link(&child.thread));
        let place = place.map(|link| format!(" ([thread]({link}))")).unwrap_or_default();
        let pull = child.and_then(|child| child.pull_request);
        let pull = pull.map(|number| format!(": PR #{number}")).unwrap_or_default();
        format!("- {}{pull}{place}", item_title(facts.file, &item.id))
    };
    let lines: Vec<String> = ready.map(show_item).collect();
    let (count, noun) = (lines.len(), if lines.len() == 1 { "item waits" } else { "items wait" });
    let head = format!(
        "**{count} {noun} for you to merge.** Press Merge in each thread, in any order: what is built on another one is \
         merged after it."
    );
    format!("{head}\n{}", fit_lines(&lines, LIMIT - head.len()))
}

/// Request to the lead for a retrospective once all items are merged.
pub(super) fn look_back_request(facts: &RoadmapFacts<'_>) -> String {
    let line = |item: &ApprovedItem| {
        let pull = facts.children.get(&item.id).and_then(|child| child.pull_request);
        let pull = pull.map(|number| format!(", #{number}")).unwrap_or_default();
        let tries = match item.tries {
            0 => String::new(),
            again => format!(", told {again} times to try again"),
        };
        format!("- {}{pull}{tries}", item_title(facts.file, &item.id))
    };
    let lines: Vec<String> = facts.run.items.iter().map(line).collect();
    let head = "All items are merged. Run one retrospective for all of them: read the pull requests (GHPull) of those where something took a \
                second try, then call ProposeLearnings with what is true beyond one item; proposing nothing is a good answer. Ask no \
                role, and ask whether to merge only if something was accepted.";
    format!("{head}\n{}", fit_lines(&lines, LIMIT - head.len()))
}

/// Message to the Thread of an item whose base was closed without a merge.
pub(super) fn describe_lost_base(gone: &str) -> String {
    format!(
        "What this is built on was closed without a merge: item {gone}. Its changes are on this branch, too, so nothing is merged here \
         until somebody says what becomes of them: write here to have them taken out, or kept; you are asked about the merge anew."
    )
}

const fn reason_word(why: &WaitingReason) -> &'static str {
    match why {
        WaitingReason::Question => "question",
        WaitingReason::Failed => "failed",
        WaitingReason::Rests => "rests",
        WaitingReason::Dropped => "dropped",
        WaitingReason::LostBase(_) => "lost-base",
        WaitingReason::Changed => "changed",
        WaitingReason::Gone => "gone",
        WaitingReason::Faulty => "faulty",
        WaitingReason::Blocked(_) => "blocked",
        WaitingReason::ByHand => "by-hand",
        WaitingReason::Elsewhere(_) => "elsewhere",
    }
}

#[cfg(test)]
mod tests;
