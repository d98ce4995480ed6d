//! Line by which a run is shown in the thread. Pure.

use codebutler_crds::NanoUsd;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::text::mrkdwn;

/// Longest description of what is done, in characters.
const DOING: usize = 80;

pub(super) struct ProgressWords<'a> {
    /// Activity that the agent reports, masked.
    pub doing: &'a str,
    /// Name of the role, where a message can't carry it.
    pub name: Option<&'a str>,
    pub turns: u32,
    /// Cost of this run so far, in USD.
    pub cost: NanoUsd,
    pub elapsed: SignedDuration,
}

/// `⏳ Bash cargo test · turn 4 · $0.03 · 2 min`
pub(super) fn progress_text(words: &ProgressWords<'_>) -> String {
    let name =
        words.name.map(|name| format!("*{}* · ", mrkdwn::escape_text(name))).unwrap_or_default();
    let doing = mrkdwn::escape_text(&task_words(words));
    format!(":hourglass_flowing_sand: {name}{doing} · {}", mrkdwn::escape_text(&so_far(words)))
}

/// `Working · turn 4 · $0.03 · 2 min`, over the tasks of a stream, as plain text.
pub(super) fn plan_words(words: &ProgressWords<'_>) -> String {
    let name = words.name.map_or_else(String::new, |name| format!("{name} · "));
    let name: String = name.chars().take(DOING).collect();
    format!("Working · {name}{}", without_markup(&so_far(words)))
}

fn so_far(words: &ProgressWords<'_>) -> String {
    let turns = (words.turns > 0).then(|| format!("turn {}", words.turns));
    let cost = (words.cost > NanoUsd::ZERO).then(|| words.cost.in_cents());
    let parts = [turns, cost, Some(format_time(words.elapsed))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Line of a task's title: without what begins a mention or a link in Slack's markup.
pub(super) fn task_title(words: &ProgressWords<'_>) -> String {
    without_markup(&task_words(words))
}

fn without_markup(text: &str) -> String {
    text.replace('<', "\u{2039}").replace('>', "\u{203a}")
}

/// Step that the run is at, as plain text: one line without markup, mentions or links.
fn task_words(words: &ProgressWords<'_>) -> String {
    let doing = words.doing;
    let line = doing.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept: String = line.chars().filter(|c| !c.is_control() && !"`*_~@".contains(*c)).collect();
    let mut short: String = kept.chars().take(DOING).collect();
    if short.len() < kept.len() {
        short.push('…');
    }
    if short.is_empty() { "working".to_owned() } else { short }
}

fn format_time(elapsed: SignedDuration) -> String {
    let seconds = elapsed.as_secs().max(0);
    match (seconds / 3600, seconds / 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {} min", minutes % 60),
    }
}

/// Small grey block; with blocks, Slack does not mark the message as edited.
pub(super) fn progress_blocks(text: &str) -> Value {
    json!([{"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_is_done_and_what_it_costs() {
        let say = |doing: &str, turns, cost, seconds| {
            progress_text(&ProgressWords {
                doing,
                name: None,
                turns,
                cost: NanoUsd(cost),
                elapsed: SignedDuration::from_secs(seconds),
            })
        };
        insta::assert_snapshot!(
            [
                say("thinking", 0, 0, 2),
                say("Bash cargo test", 4, 31_200_000, 59),
                say("Bash echo <!channel> `@here` *x*\n&& true", 12, 1_500_000_000, 61),
                say(&"x".repeat(100), 1, 10, 3700),
                say(" ", 1, 0, -5),
            ]
            .join("\n"),
            @r"
            :hourglass_flowing_sand: thinking · 2 s
            :hourglass_flowing_sand: Bash cargo test · turn 4 · $0.03 · 59 s
            :hourglass_flowing_sand: Bash echo &lt;!channel&gt; here x &amp;&amp; true · turn 12 · $1.50 · 1 min
            :hourglass_flowing_sand: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… · turn 1 · &lt;$0.01 · 1 h 1 min
            :hourglass_flowing_sand: working · turn 1 · 0 s
            "
        );
    }

    #[test]
    fn a_tasks_title_begins_no_mention() {
        let title = task_title(&ProgressWords {
            doing: "Bash echo '<<!channel> <<#C1> <https://a.dev|x>'",
            name: None,
            turns: 0,
            cost: NanoUsd::ZERO,
            elapsed: SignedDuration::ZERO,
        });
        assert!(!title.contains(['<', '>']), "{title}");
    }
}
