//! Tells an answer that plainly announces an action from one that ends the work. Careful: what is not
//! plain is an answer.

/// First words of a last sentence that announces a step.
const BEGINNINGS: [&str; 16] = [
    "i will now ",
    "i'll now ",
    "now i will ",
    "now i'll ",
    "let me ",
    "now let me ",
    "next, i will ",
    "next, i'll ",
    "next i will ",
    "next i'll ",
    "i am going to ",
    "i'm going to ",
    "i am now going to ",
    "i'm now going to ",
    "first, i will ",
    "first, i'll ",
];
/// Further beginnings, where the rest is plainer.
const PLAIN_BEGINNINGS: [&str; 4] = ["i will ", "i'll ", "let's ", "then i'll "];
/// Words between the beginning and what is to be done.
const FILLERS: [&str; 11] = [
    "now",
    "first",
    "then",
    "also",
    "next",
    "quickly",
    "just",
    "start",
    "by",
    "begin",
    "immediately",
];
const ACTIONS: [&str; 59] = [
    "use",
    "using",
    "call",
    "glob",
    "list",
    "run",
    "running",
    "check",
    "checking",
    "look",
    "looking",
    "read",
    "reading",
    "search",
    "searching",
    "grep",
    "find",
    "inspect",
    "inspecting",
    "explore",
    "exploring",
    "examine",
    "examining",
    "investigate",
    "investigating",
    "fix",
    "fixing",
    "implement",
    "implementing",
    "write",
    "writing",
    "edit",
    "editing",
    "update",
    "updating",
    "create",
    "creating",
    "add",
    "adding",
    "apply",
    "applying",
    "commit",
    "push",
    "open",
    "verify",
    "verifying",
    "test",
    "reproduce",
    "reproducing",
    "review",
    "see",
    "make",
    "remove",
    "rename",
    "refactor",
    "proceed",
    "continue",
    "analyze",
    "analyse",
];
/// Words that make the sentence wait for somebody, or speak of later.
const WAITS: [&str; 17] = [
    "once ",
    "when ",
    "after ",
    "if ",
    "until ",
    "unless ",
    "as soon as",
    "let me know",
    "tell me",
    "your ",
    "you ",
    "you'd",
    "next time",
    "tomorrow",
    "later",
    "before i ",
    "@",
];
/// Phrases whose author waits for nobody but itself.
const OWN_ENDS: [&str; 10] = [
    "when i am done",
    "when i'm done",
    "once i am done",
    "once i'm done",
    "as soon as i am done",
    "as soon as i'm done",
    "when done",
    "once done",
    "when finished",
    "once finished",
];
/// An answer that is longer says more than what comes next.
const LONGEST: usize = 600;

/// True if the text says in its last sentence that its author does something now, and nothing else that somebody
/// could wait for.
pub(super) fn announces_step(text: &str) -> bool {
    let text = text.trim();
    if text.len() > LONGEST || text.ends_with('?') {
        return false;
    }
    let last = last_sentence(text).to_lowercase().replace('’', "'");
    let last = last.trim_matches(|c: char| c.is_whitespace() || "*_>-•".contains(c));
    let last = ["okay, ", "ok, ", "great, ", "sure, ", "understood, ", "so "]
        .iter()
        .find_map(|word| last.strip_prefix(word))
        .unwrap_or(last);
    let waits = OWN_ENDS.iter().fold(last.to_owned(), |left, end| left.replace(end, ""));
    if WAITS.iter().any(|word| waits.contains(word)) {
        return false;
    }
    let clear = BEGINNINGS.iter().find_map(|start| last.strip_prefix(start));
    let plain = || PLAIN_BEGINNINGS.iter().find_map(|start| last.strip_prefix(start));
    clear.or_else(plain).is_some_and(begins_an_action)
}

fn begins_an_action(rest: &str) -> bool {
    let words = rest.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let mut words = words.filter(|word| !word.is_empty() && !FILLERS.contains(word));
    words.next().is_some_and(|word| ACTIONS.contains(&word))
}

fn last_sentence(text: &str) -> &str {
    let text = text.trim_end_matches(['.', '!', ':', '…', ' ', '\n', '*', '_']);
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let stop = [". ", "! ", "? ", ": "].iter().filter_map(|end| text.rfind(end)).max();
    &text[stop.map_or(line, |at| (at + 2).max(line))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_announcements_are_noticed() {
        for text in [
            "I will now run the tests.",
            "I'll now run the tests",
            "Let me check the configuration file:",
            "The bug is in `parse`. Let me look at its callers.",
            "Okay, let me start by reading the failing test.",
            "Good. Now I’ll fix the off-by-one error.",
            "I understand the problem.\n\nNext, I will update the parser…",
            "I'm going to search for all usages.",
            "**Let me verify this.**",
            "I will implement the change.",
            "Let's run the whole suite now.",
            "Understood. I will now use Glob and report back when I am done.",
            "I'll run the tests and report once done.",
        ] {
            assert!(announces_step(text), "{text}");
        }
    }

    #[test]
    fn ends_questions_and_promises_for_later_are_answers() {
        for text in [
            "Done: all tests pass.",
            "Let me know if you want more.",
            "I will open the pull request once you approve the plan.",
            "I'll fix it when the log is there.",
            "I will run the tests when I am done, if you agree.",
            "Shall I run the tests?",
            "Let me check: which branch do you mean?",
            "I will wait for the review.",
            "Let me check the config. It says `debug = true`, so the log is right.",
            "I'll leave it as it is.",
            "@codebutler.coder I will now review what is there.",
            "I am going to sleep.",
            "The tests will now run in CI.",
            "Let me explain: the cache is keyed by path.",
            "I will run the tests again after your change.",
            "Next time I will run the tests first.",
            "",
        ] {
            assert!(!announces_step(text), "{text}");
        }
        assert!(!announces_step(&format!(
            "{} I will now run the tests.",
            "Long words. ".repeat(60)
        )));
    }
}
