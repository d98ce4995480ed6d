//! Matches a sentence against a trigger: word for word, or nearly. Words besides the trigger's own have a cost, so
//! that the best of several matches can be found. Pure.

use std::cell::Cell;

use super::lists::{
    CANCELS, DETERMINERS, JOINING, LEADS, NUMBERED, PARTING, PEOPLE, POINTING, PREPOSITIONS,
    SKIPPED, STATING, TIMES,
};
use super::trigger::{SkillTrigger, TriggerPart};
use super::words::{SpokenSentence, WordToken, is_slip, same_word};

/// Highest cost of a fit.
const MAX_COST: u32 = 25;
/// Costs of one word: it is misspelt, it is left over between others, it says nothing much.
const SLIP: u32 = 6;
const STRANGE: u32 = 15;
const SKIP: u32 = 3;
/// Costs of a sentence: more is said behind the trigger, or its object comes first.
const TAIL: u32 = 3;
const TURNED: u32 = 10;
/// Words before a request that are looked through.
const MAX_LEADS: usize = 8;
/// Words of a param in the middle of a trigger, and of what is named first.
const MAX_INSIDE: usize = 12;
const MAX_NAMED: usize = 8;
/// Ways to read one sentence.
const MAX_STEPS: u32 = 5000;
/// Rank that each word which has to be said adds: the longer trigger is rather meant.
const WEIGHT: i64 = 100;

/// A trigger that a sentence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TriggerFit {
    /// Nothing for word for word.
    pub cost: u32,
    /// Number of words that have to be said: a longer trigger is rather meant.
    weight: usize,
    /// Values that are named, by parameter; nothing where somebody only points (`explain this`).
    pub values: Vec<(String, Option<String>)>,
}

impl TriggerFit {
    /// Rank among the fits: the larger, the surer.
    pub(super) fn rank(&self) -> i64 {
        i64::try_from(self.weight).unwrap_or(0) * WEIGHT - i64::from(self.cost) * 4
    }
}

/// True if a message takes back what it says.
pub(super) fn takes_back(sentences: &[SpokenSentence]) -> bool {
    let says = |tokens: &[WordToken]| CANCELS.iter().any(|words| begins_with(tokens, words));
    sentences.iter().any(|s| (0..s.tokens.len()).any(|at| says(&s.tokens[at..])))
}

/// Returns the best fit of a trigger to a sentence.
pub(super) fn best_fit(trigger: &SkillTrigger, sentence: &SpokenSentence) -> Option<TriggerFit> {
    let weight = trigger.words().count()
        + trigger
            .parts
            .iter()
            .filter(|p| matches!(p, TriggerPart::Param { number: true, .. }))
            .count();
    let starts = clause_starts(&sentence.tokens).into_iter();
    let straight =
        starts.filter_map(|at| SentenceReading::new(sentence, at).read(&trigger.parts, at));
    let found =
        straight.chain(turned_around(trigger, sentence)).filter(|found| found.cost <= MAX_COST);
    let FoundValues { cost, values } = found.min_by_key(|found| found.cost)?;
    Some(TriggerFit { cost, weight, values })
}

/// Places where somebody may begin to say what is wanted: at each clause, behind its polite words.
fn clause_starts(tokens: &[WordToken]) -> Vec<usize> {
    let clauses = (0..tokens.len()).filter(|at| *at == 0 || tokens[at - 1].pause);
    let mut found: Vec<usize> = clauses.flat_map(|at| behind_leads(tokens, at)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// `at`, and every place behind polite words that begin there.
fn behind_leads(tokens: &[WordToken], mut at: usize) -> Vec<usize> {
    let mut found = vec![at];
    for _ in 0..MAX_LEADS {
        let lead = |phrase: &&str| {
            let words: Vec<&str> = phrase.split(' ').collect();
            begins_with(&tokens[at..], &words).then_some(words.len())
        };
        let Some(longest) = LEADS.iter().filter_map(lead).max() else { break };
        at += longest;
        found.push(at);
    }
    found.retain(|at| *at < tokens.len());
    found
}

fn begins_with(tokens: &[WordToken], words: &[&str]) -> bool {
    let said = tokens.iter().take(words.len()).filter(|token| !token.quoted);
    said.map(|token| token.word.as_str()).eq(words.iter().copied())
}

fn is_in(token: &WordToken, list: &[&str]) -> bool {
    !token.quoted && list.contains(&token.word.as_str())
}

/// Cost and values of a reading.
#[derive(Clone, Debug, Default)]
struct FoundValues {
    cost: u32,
    values: Vec<(String, Option<String>)>,
}

impl FoundValues {
    fn costs(mut self, cost: u32) -> Self {
        self.cost += cost;
        self
    }
}

/// A sentence from one place on.
struct SentenceReading<'a> {
    sentence: &'a SpokenSentence,
    tokens: &'a [WordToken],
    start: usize,
    /// Ways that are still tried: no message may keep it busy.
    steps: Cell<u32>,
}

impl<'a> SentenceReading<'a> {
    fn new(sentence: &'a SpokenSentence, start: usize) -> Self {
        Self { sentence, tokens: &sentence.tokens, start, steps: Cell::new(MAX_STEPS) }
    }

    /// The cheapest way to read `parts` from `at` to the end.
    fn read(&self, parts: &[TriggerPart], at: usize) -> Option<FoundValues> {
        self.steps.set(self.steps.get().checked_sub(1)?);
        let Some((part, rest)) = parts.split_first() else { return self.tail(at) };
        match part {
            TriggerPart::Word(word) => self.word(word, rest, at),
            TriggerPart::Param { name, number } => {
                let before = at.checked_sub(1).map(|before| &self.tokens[before]);
                let paused = before.is_none_or(|before| before.pause);
                let led = before.is_some_and(|before| is_in(before, PREPOSITIONS));
                // `the hotfix broke the login` asks for nothing.
                if at > self.start && self.is_noun() && !paused && !led && !number {
                    return None;
                }
                match (number, rest.is_empty()) {
                    (true, _) => self.number(name, rest, at),
                    (false, true) => self.last(name, at, led, paused),
                    (false, false) => self.inside(name, rest, at),
                }
            }
        }
    }

    /// True if it begins like something that is spoken of.
    fn is_noun(&self) -> bool {
        let before = self.start.checked_sub(1).map(|before| &self.tokens[before]);
        let article = |token: &WordToken| is_in(token, &["a", "an", "another"]);
        is_in(&self.tokens[self.start], DETERMINERS) || before.is_some_and(article)
    }

    fn word(&self, word: &str, rest: &[TriggerPart], at: usize) -> Option<FoundValues> {
        self.steps.set(self.steps.get().checked_sub(1)?);
        let token = self.tokens.get(at).filter(|token| !token.quoted)?;
        let mut ways = Vec::new();
        if same_word(word, &token.word) || self.is_gerund(word, at) {
            ways.push(self.read(rest, at + 1));
        } else if is_slip(word, &token.word) {
            ways.push(self.read(rest, at + 1).map(|found| found.costs(SLIP)));
        }
        let joined = self.tokens.get(at + 1).map(|next| format!("{}{}", token.word, next.word));
        if joined.is_some_and(|joined| same_word(word, &joined)) {
            ways.push(self.read(rest, at + 2).map(|found| found.costs(1)));
        }
        if let Some(cost) = self.skipped(at) {
            ways.push(self.word(word, rest, at + 1).map(|found| found.costs(cost)));
        }
        ways.into_iter().flatten().min_by_key(|found| found.cost)
    }

    /// `would you mind explaining`.
    fn is_gerund(&self, word: &str, at: usize) -> bool {
        let mind = at.checked_sub(1).is_some_and(|before| is_in(&self.tokens[before], &["mind"]));
        let stem = self.tokens[at].word.strip_suffix("ing");
        mind && stem.is_some_and(|stem| stem == word || stem == word.trim_end_matches('e'))
    }

    /// Returns the cost of passing over a word.
    fn skipped(&self, at: usize) -> Option<u32> {
        let token = &self.tokens[at];
        if token.pause && at > self.start {
            return None;
        }
        if is_in(token, DETERMINERS) {
            Some(0)
        } else if is_in(token, SKIPPED) {
            Some(SKIP)
        } else if at > self.start && !is_in(token, STATING) && !is_in(token, JOINING) {
            Some(STRANGE)
        } else {
            None
        }
    }

    /// A number, perhaps with the kind of thing that has it.
    fn number(&self, name: &str, rest: &[TriggerPart], at: usize) -> Option<FoundValues> {
        let named = self.tokens[at.min(self.tokens.len())..].iter();
        let kinds = named.take(2).take_while(|token| is_in(token, NUMBERED)).count();
        let token = self.tokens.get(at + kinds)?;
        if !token.word.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mut found = self.read(rest, at + kinds + 1)?;
        found.values.push((name.to_owned(), self.value(at + kinds, at + kinds + 1)));
        Some(found)
    }

    /// A param with more behind it.
    fn inside(&self, name: &str, rest: &[TriggerPart], at: usize) -> Option<FoundValues> {
        let ends = (at + 1..=self.tokens.len()).take(MAX_INSIDE);
        let ways = ends.filter(|end| self.is_thing(at, *end)).filter_map(|end| {
            let mut found = self.read(rest, end)?;
            found.values.push((name.to_owned(), self.value(at, end)));
            Some(found)
        });
        ways.min_by_key(|found| found.cost)
    }

    /// A param with nothing behind it takes what is left: of the clause where a preposition leads it.
    fn last(&self, name: &str, at: usize, led: bool, paused: bool) -> Option<FoundValues> {
        let at = at + self.listeners(at);
        let rest = self.tokens.get(at..)?;
        let turns = |from: usize| {
            let next = rest.get(from + 1);
            next.is_none_or(|next| is_in(next, &["but", "then", "so", "because", "and", "please"]))
        };
        let stop = rest.iter().enumerate().position(|(n, token)| token.pause && (led || turns(n)));
        let end = self.without_parting(at, at + stop.map_or(rest.len(), |stop| stop + 1));
        let named = &self.tokens[at..end];
        let first =
            named.first().filter(|first| !is_in(first, &["to"]) && !is_in(first, STATING))?;
        let told = Self::states(named) && !paused && !is_in(first, JOINING);
        (!told)
            .then(|| FoundValues { cost: 0, values: vec![(name.to_owned(), self.value(at, end))] })
    }

    /// Words that say to whom: `explain to me how`.
    fn listeners(&self, at: usize) -> usize {
        let rest = self.tokens.get(at..).unwrap_or_default();
        let us = ["me", "us", "everybody", "everyone"];
        let is_us = |at: usize| rest.get(at).is_some_and(|token| is_in(token, &us));
        match rest.first() {
            Some(first) if is_in(first, &["to"]) && is_us(1) => 2,
            Some(_) if is_us(0) => 1,
            _ => 0,
        }
    }

    /// True if words make a statement: `the button is hidden`, but not `what is hidden`, nor what another clause says
    /// of it.
    fn states(words: &[WordToken]) -> bool {
        let states = words.iter().position(|token| is_in(token, STATING));
        let other = |token: &WordToken| token.pause || is_in(token, JOINING);
        states.is_some_and(|at| !words[..at].iter().any(other))
    }

    /// Reads the rest of the sentence behind all words of the trigger.
    fn tail(&self, at: usize) -> Option<FoundValues> {
        let rest = &self.tokens[at..];
        let clause = rest.iter().position(|token| token.pause).map_or(rest.len(), |stop| stop + 1);
        // The last word may end its clause itself.
        let ended = at.checked_sub(1).is_some_and(|before| self.tokens[before].pause);
        let end = if ended { at } else { self.without_parting(at, at + clause) };
        let rest = &self.tokens[at..end];
        let Some(first) = rest.first() else { return Some(FoundValues::default()) };
        let joining = is_in(first, JOINING) && !is_in(first, &["that", "which", "who"]);
        if !is_in(first, PREPOSITIONS) && !is_in(first, TIMES) && !joining {
            return None;
        }
        let only_you = rest.len() == 2 && is_in(&rest[1], &["you", "him", "her", "them"]);
        (!only_you && !Self::states(rest)).then(|| FoundValues::default().costs(TAIL))
    }

    /// The end, without what people say at the end.
    fn without_parting(&self, at: usize, mut end: usize) -> usize {
        loop {
            let parting = |words: &&[&str]| {
                let from = end.checked_sub(words.len()).filter(|from| *from >= at);
                from.filter(|from| begins_with(&self.tokens[*from..end], words))
            };
            match PARTING.iter().copied().filter_map(|words| parting(&words)).min() {
                Some(from) => end = from,
                None => return end,
            }
        }
    }

    /// True if these words name something, and state nothing.
    fn is_thing(&self, from: usize, to: usize) -> bool {
        let words = &self.tokens[from..to];
        let whole = words.iter().rev().skip(1).all(|token| !token.pause);
        whole && !Self::states(words) && !words.iter().any(|token| is_in(token, PEOPLE))
    }

    /// The words themselves, as they were written.
    fn value(&self, from: usize, to: usize) -> Option<String> {
        let (first, last) = (self.tokens.get(from)?, self.tokens.get(to.checked_sub(1)?)?);
        let text = self.sentence.text.get(first.start..last.end)?.trim();
        let plain: Vec<&str> = self.tokens[from..to].iter().map(|t| t.word.as_str()).collect();
        (!POINTING.contains(&plain.join(" ").as_str())).then(|| text.to_owned())
    }
}

/// Reads a sentence whose object comes first: `src/cart.rs: explain please`, `for the login, a hotfix`.
fn turned_around(trigger: &SkillTrigger, sentence: &SpokenSentence) -> Option<FoundValues> {
    let Some((TriggerPart::Param { name, number }, words)) = trigger.parts.split_last() else {
        return None;
    };
    let ends = words.iter().rposition(|part| {
        !matches!(part, TriggerPart::Word(word) if PREPOSITIONS.contains(&word.as_str()) || NUMBERED.contains(&word.as_str()))
    })?;
    let words = &words[..=ends];
    let only_words = words.iter().all(|part| matches!(part, TriggerPart::Word(_)));
    let tokens = &sentence.tokens;
    let shown = |token: &WordToken| {
        token.quoted
            || token.word.contains(['/', '#', '_', ':'])
            || token.word.trim_matches('.').contains('.')
    };
    let cut = (0..tokens.len().min(MAX_NAMED))
        .find(|at| tokens[*at].pause)
        .or_else(|| tokens.first().filter(|token| shown(token)).map(|_| 0))?;
    let named = behind_leads(&tokens[..=cut], 0).pop()?;
    let named = named + usize::from(is_in(&tokens[named], PREPOSITIONS));
    if !only_words || named > cut || tokens[named..=cut].iter().any(|token| is_in(token, STATING)) {
        return None;
    }
    let found = behind_leads(tokens, cut + 1).into_iter().filter_map(|at| {
        let reading = SentenceReading::new(sentence, at);
        let mut found = reading.read(words, at)?.costs(TURNED);
        let digit = |at: &usize| tokens[*at].word.contains(|c: char| c.is_ascii_digit());
        let value = match number {
            true => (named..=cut).find(digit).and_then(|at| reading.value(at, at + 1))?,
            false => reading.value(named, cut + 1)?,
        };
        found.values.push((name.clone(), Some(value)));
        Some(found)
    });
    found.min_by_key(|found| found.cost)
}
