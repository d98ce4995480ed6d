//! Messages of people and roles, in their own words, and the role's own messages to them. A summary stands for the
//! rest of a conversation, and never for these: however poor it is, the task, the rules, what is not answered yet and
//! what was promised stay. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use codebutler_guides::text::{common_limit, shorten_text};
use codebutler_wire::{MessageAuthor, SlackTs, ThreadMessage};

use super::show::show_message;
use crate::transcript::RunOutcome;
use codebutler_guides::voice::quote_lines;

/// The tool that shows messages in full.
pub const READ_BACK: &str = "ReadConversation";

/// Most bytes of words that are kept, however large the window: about 20,000 tokens.
const MOST: usize = 60_000;
/// Most bytes of what the role itself said.
const MOST_POSTS: usize = 8_000;
/// A message that is shown at all is shown with so many bytes.
const LEAST_SHOWN: usize = 200;
/// Bytes of what stands around them.
const FRAME: usize = 230;
/// Own messages that are remembered.
const POSTS: usize = 60;
/// Words of a message that lays down how to work, in the languages in which decisions are understood, too.
static RULES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    split_words(
        "never always must mustn't don't not only rule rules important required forbidden \
    nie niemals immer muss müssen nicht nur kein keine keinen regel regeln wichtig verboten \
    nunca jamás siempre debe deben solo sólo no regla reglas importante obligatorio prohibido \
    jamais toujours doit doivent pas uniquement règle règles obligatoire interdit",
    )
});

/// The same where words have no gaps between them.
const RULES_WITHIN: [&str; 7] = ["禁止", "必ず", "しないで", "触らない", "不要", "必须", "不得"];

/// Words of one that says what is going to be done.
static PROMISES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    split_words(
        "will i'll we'll promise later tomorrow afterwards until \
    werde werden später morgen danach bis noch verspreche \
    haré haremos voy vamos luego mañana después prometo \
    vais ferai ferons demain après promets",
    )
});

/// The words of a conversation that are kept beside summaries.
#[derive(Debug, Default)]
pub struct KeptWords {
    /// Messages and decisions, oldest first.
    said: Vec<SaidWords>,
    /// Messages of the role itself, oldest first.
    posts: Vec<OwnPost>,
    /// The skill for the open request, and the index of its message in the chat.
    skill: Option<(String, Option<usize>)>,
    /// A summary stands for some of it.
    folded: bool,
}

#[derive(Debug)]
struct SaidWords {
    what: Said,
    /// Index of its message in the chat, until a summary stands for that.
    at: Option<usize>,
    /// True while the role owes an answer.
    open: bool,
}

#[derive(Debug)]
enum Said {
    Message(ThreadMessage),
    Decision(String),
}

#[derive(Debug)]
struct OwnPost {
    text: String,
    at: Option<usize>,
    kind: PostKind,
}

/// Kind of a message that the role sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostKind {
    Said,
    /// A question: the run ended to wait for the answer.
    Asked,
    /// A plan, for people to approve.
    Plan,
}

impl KeptWords {
    /// Returns true if some of the words are shown in part, or not at all.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// Messages that the role owes an answer.
    pub fn open(&self) -> impl Iterator<Item = &SlackTs> {
        self.said.iter().filter_map(|said| match &said.what {
            Said::Message(message) if said.open => Some(&message.ts),
            _ => None,
        })
    }

    /// Takes in what was said, as the message `at` of the chat. `asks`: of the role itself.
    pub(super) fn hear(&mut self, messages: &[ThreadMessage], at: usize, asks: bool) {
        let kept = messages.iter().filter(|message| message.addressed || is_person(message));
        self.said.extend(kept.map(|message| SaidWords {
            what: Said::Message(message.clone()),
            at: Some(at),
            open: asks && message.addressed,
        }));
    }

    /// Takes in what was decided.
    pub(super) fn decide(&mut self, decision: &str, at: usize) {
        let what = Said::Decision(decision.to_owned());
        self.said.push(SaidWords { what, at: Some(at), open: false });
    }

    /// The role said this in the thread.
    pub(super) fn post(&mut self, text: &str, at: usize, kind: PostKind) {
        if text.trim().is_empty() {
            return;
        }
        if kind != PostKind::Said {
            // A newer plan, or question, takes the place of the last one.
            for post in self.posts.iter_mut().filter(|post| post.kind == kind) {
                post.kind = PostKind::Said;
            }
        }
        self.posts.push(OwnPost { text: text.to_owned(), at: Some(at), kind });
        let old = self.posts.len().saturating_sub(POSTS);
        let mut place = 0;
        self.posts.retain(|post| {
            place += 1;
            place > old || post.kind != PostKind::Said
        });
    }

    pub(super) fn go_by(&mut self, skill: &str, at: usize) {
        self.skill = Some((skill.to_owned(), Some(at)));
    }

    /// A run has ended: what it took is answered, unless it waits or failed.
    pub(super) fn end_run(&mut self, outcome: RunOutcome) {
        if !matches!(outcome, RunOutcome::Idle | RunOutcome::Closed) {
            return;
        }
        self.said.iter_mut().for_each(|said| said.open = false);
        self.skill = None;
    }

    /// Moves the indices: one message of the chat stands for the first `upto` from now on.
    pub(super) fn fold(&mut self, upto: usize) {
        let moved = |at: Option<usize>| at.and_then(|at| Some(at.checked_sub(upto)? + 1));
        for said in &mut self.said {
            said.at = moved(said.at);
        }
        for post in &mut self.posts {
            post.at = moved(post.at);
        }
        if let Some((_, at)) = &mut self.skill {
            *at = moved(*at);
        }
        self.folded = true;
    }

    /// Formats the words that are kept of the first `upto` messages of the chat beside a summary, in about `room`
    /// bytes.
    pub fn tell(&self, upto: usize, room: usize) -> String {
        let mut out = self.tell_said(upto, (room / 2).min(MOST));
        self.tell_posts(&mut out, upto, (room / 4).min(MOST_POSTS));
        if let Some((skill, at)) = &self.skill
            && at.is_none_or(|at| at < upto)
        {
            let skill = shorten_text(skill, (room / 6).min(MOST_POSTS), note_gap);
            let _ = write!(out, "\n\n{skill}");
        }
        out
    }

    fn tell_said(&self, upto: usize, room: usize) -> String {
        let folded: Vec<usize> = (0..self.said.len())
            .filter(|at| self.said[*at].at.is_none_or(|at| at < upto))
            .collect();
        if folded.is_empty() {
            return String::new();
        }
        let open = folded.iter().filter(|at| self.said[**at].open);
        let open: Vec<String> = open.filter_map(|at| self.said[*at].named()).collect();
        let open = shorten_text(&open.join(", "), room / 8, |_| " … ".to_owned());
        let shown = self.choose(&folded, room.saturating_sub(open.len() + FRAME));
        let mut out = String::from(
            "[CodeButler] What people said and asked of you before, in their own words, oldest first",
        );
        match folded.len() - shown.len() {
            0 => out.push(':'),
            left => {
                let _ = write!(out, " ({left} messages are left out: {READ_BACK} shows them):");
            }
        }
        for (at, most) in &shown {
            let _ = write!(out, "\n\n{}", self.said[*at].show(*most));
        }
        if !open.is_empty() {
            let _ = write!(out, "\n\n[CodeButler] You have not answered yet: message {open}.");
        }
        out
    }

    /// Chooses the words that are shown, with the bytes for each: the task and what is not answered in any case, then
    /// rules, the beginning, and the newest.
    fn choose(&self, folded: &[usize], room: usize) -> BTreeMap<usize, usize> {
        let lengths: BTreeMap<usize, usize> =
            folded.iter().map(|at| (*at, self.said[*at].whole().len())).collect();
        let length = |at: &usize| lengths.get(at).copied().unwrap_or_default();
        let mut chosen = ShownChoice { lengths: &lengths, left: room, shown: BTreeMap::new() };
        let first =
            |is: &dyn Fn(&SaidWords) -> bool| folded.iter().copied().find(|at| is(&self.said[*at]));
        let task = [first(&SaidWords::is_request), first(&SaidWords::is_persons)];
        let open = folded.iter().copied().filter(|at| self.said[*at].open).rev();
        let mut musts: Vec<usize> = task.into_iter().flatten().chain(open).collect();
        let mut seen = BTreeSet::new();
        musts.retain(|at| seen.insert(*at));
        // The beginning of each of them has to fit.
        let mut least = room / 4 * 3;
        musts.retain(|at| {
            let begun = length(at).min(LEAST_SHOWN) + 2;
            least.checked_sub(begun).map(|left| least = left).is_some()
        });
        let limit = common_limit(musts.iter().map(length), room / 2);
        chosen.take(musts.into_iter(), usize::MAX, limit.max(LEAST_SHOWN));
        let newest = || folded.iter().copied().rev();
        let rules = newest().filter(|at| self.said[*at].is_rule());
        chosen.take(rules, chosen.left / 2, (chosen.left / 8).max(LEAST_SHOWN));
        chosen.take(folded.iter().copied(), chosen.left / 5, chosen.left / 10);
        // The last part of the room is for how others began.
        chosen.take(newest(), chosen.left / 5 * 4, usize::MAX);
        chosen.take(newest(), chosen.left, LEAST_SHOWN);
        chosen.shown
    }

    /// Adds the role's own messages: those that wait for people, then promises, then the newest.
    fn tell_posts(&self, out: &mut String, upto: usize, room: usize) {
        let folded = || self.posts.iter().enumerate().rev();
        let folded = || folded().filter(|(_, post)| post.at.is_none_or(|at| at < upto));
        let mut left = room.saturating_sub(80);
        let mut shown: BTreeMap<usize, String> = BTreeMap::new();
        let mut take = |kind: &dyn Fn(&OwnPost) -> bool, mut part: usize, each: usize| {
            for (at, post) in folded().filter(|(_, post)| kind(post)) {
                if shown.contains_key(&at) {
                    continue;
                }
                let text = post.show(each);
                let Some(rest) = part.min(left).checked_sub(text.len() + 2) else { return };
                (part, left) = (rest, left.saturating_sub(text.len() + 2));
                shown.insert(at, text);
            }
        };
        take(&|post| post.kind != PostKind::Said, room, room / 3);
        take(&OwnPost::promises, room / 3, LEAST_SHOWN);
        take(&|_| true, room, room / 6);
        if !shown.is_empty() {
            let shown: Vec<String> = shown.into_values().collect();
            let _ = write!(
                out,
                "\n\n[CodeButler] What you told people, which they count on:\n\n{}",
                shown.join("\n\n")
            );
        }
    }
}

impl OwnPost {
    /// Formats the message in about `most` bytes.
    fn show(&self, most: usize) -> String {
        let kind = match self.kind {
            PostKind::Said => "You said:",
            PostKind::Asked => "You asked, and whether that is answered stands above:",
            PostKind::Plan => "You proposed as the plan:",
        };
        let text = shorten_text(self.text.trim(), most.saturating_sub(60), note_gap);
        format!("{kind}\n{}", quote_lines(&text))
    }

    /// Returns true if the message may promise something: rather one too many.
    fn promises(&self) -> bool {
        has_word(&self.text, &PROMISES)
    }
}

/// Messages that are shown, as far as there is room.
struct ShownChoice<'a> {
    lengths: &'a BTreeMap<usize, usize>,
    left: usize,
    shown: BTreeMap<usize, usize>,
}

impl ShownChoice<'_> {
    /// Shows those of a list that are not shown yet, each in at most `each` bytes and all in `room`.
    fn take(&mut self, list: impl Iterator<Item = usize>, room: usize, each: usize) {
        let mut room = room.min(self.left);
        for at in list {
            if self.shown.contains_key(&at) {
                continue;
            }
            let length = self.lengths.get(&at).copied().unwrap_or_default();
            let mut most = length.min(each);
            if most > room {
                if room < LEAST_SHOWN {
                    return;
                }
                most = room;
            }
            if most < length.min(LEAST_SHOWN) {
                return;
            }
            self.shown.insert(at, most);
            // The empty line before it.
            room = room.saturating_sub(most + 2);
            self.left = self.left.saturating_sub(most + 2);
        }
    }
}

impl SaidWords {
    fn whole(&self) -> String {
        match &self.what {
            Said::Message(message) => show_message(message),
            Said::Decision(text) => text.clone(),
        }
    }

    /// Formats the message's head, and as many of its words as fit.
    fn show(&self, most: usize) -> String {
        let whole = self.whole();
        if whole.len() <= most {
            return whole;
        }
        let message = match &self.what {
            Said::Message(message) => message,
            Said::Decision(text) => return shorten_text(text, most, note_gap),
        };
        let note = format!("\n[CodeButler] In part: {READ_BACK} with `message` shows all of it.");
        let mut room = most.saturating_sub(note.len());
        let mut part = message.clone();
        loop {
            part.text = shorten_text(&message.text, room, note_gap);
            let shown = show_message(&part) + &note;
            // The frame takes room, too: a mark in each line, and a head before them.
            let over = shown.len().saturating_sub(most);
            if over == 0 || room < 40 {
                return shown;
            }
            room = room.saturating_sub(over.max(8));
        }
    }

    fn named(&self) -> Option<String> {
        match &self.what {
            Said::Message(message) => Some(message.ts.to_string()),
            Said::Decision(_) => None,
        }
    }

    fn is_request(&self) -> bool {
        matches!(&self.what, Said::Message(message) if message.addressed)
    }

    fn is_persons(&self) -> bool {
        matches!(&self.what, Said::Message(message) if is_person(message))
    }

    /// Returns true if the words may lay down how to work: rather one too many.
    fn is_rule(&self) -> bool {
        let Said::Message(message) = &self.what else { return true };
        is_person(message) && lays_down(&message.text)
    }
}

fn lays_down(text: &str) -> bool {
    has_word(text, &RULES) || RULES_WITHIN.iter().any(|part| text.contains(part))
}

fn split_words(list: &'static str) -> HashSet<&'static str> {
    list.split_whitespace().collect()
}

fn has_word(text: &str, known: &HashSet<&str>) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '\'').map(str::to_lowercase);
    words.any(|word| known.contains(&*word))
}

fn is_person(message: &ThreadMessage) -> bool {
    matches!(message.author, MessageAuthor::User { .. } | MessageAuthor::Prompt { .. })
}

fn note_gap(missing: usize) -> String {
    format!("\n[… {missing} characters left out …]\n")
}

#[cfg(test)]
mod tests;
