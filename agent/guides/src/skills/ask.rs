//! Which skill a message asks for.

use super::fit::{self, Fit};
use super::trigger::Trigger;
use super::{Skill, words};

/// Skills that people are asked about.
const MOST: usize = 4;
/// Two fits that are no further apart are alike.
const ALIKE: i64 = 50;

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// No skill, or more than one: its reader decides.
    Nothing,
    One(Call),
    /// One of these, the likeliest first: only who wrote it knows which.
    OneOf(Vec<Call>),
}

/// A skill, and what was named for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The skill's name.
    pub skill: String,
    /// As it is written in its file.
    pub trigger: String,
    /// By parameter; nothing where somebody only points.
    pub values: Vec<(String, Option<String>)>,
    /// Whether it was said word for word.
    pub exact: bool,
}

/// A skill that fits, with the sentence that says it.
struct Candidate<'a> {
    skill: &'a Skill,
    trigger: &'a Trigger,
    fit: Fit,
    sentence: usize,
}

/// What a message asks for. Nothing is asked back here.
pub fn find_asked(text: &str, skills: &[Skill]) -> Asked {
    let sentences = words::split_sentences(text);
    if fit::takes_back(&sentences) {
        return Asked::Nothing;
    }
    let named: Vec<Vec<Trigger>> = skills.iter().map(by_name).collect();
    let mut found: Vec<Candidate<'_>> = Vec::new();
    for (at, sentence) in sentences.iter().enumerate() {
        for (skill, named) in skills.iter().zip(&named) {
            let fits = skill.triggers.iter().chain(named);
            let fits =
                fits.filter_map(|trigger| Some((trigger, fit::best_fit(trigger, sentence)?)));
            if let Some((trigger, fit)) = fits.max_by_key(|(_, fit)| fit.rank()) {
                found.push(Candidate { skill, trigger, fit, sentence: at });
            }
        }
    }
    choose_skill(found)
}

/// What always gets a skill: `use the skill NAME`.
fn by_name(skill: &Skill) -> Vec<Trigger> {
    let phrases = ["use skill", "run skill", "skill"];
    let phrases = phrases.iter().flat_map(|words| {
        let (first, last) = words.split_once(' ').unwrap_or(("", words));
        [format!("{words} {}", skill.name), format!("{first} {} {last}", skill.name)]
    });
    phrases.filter_map(|phrase| Trigger::parse(phrase.trim()).ok()).collect()
}

fn choose_skill(mut found: Vec<Candidate<'_>>) -> Asked {
    found.sort_by_key(|one| (-one.fit.rank(), one.skill.source));
    let Some(best) = found.first() else { return Asked::Nothing };
    let others = || found.iter().filter(|one| one.skill.name != best.skill.name);
    // Two things in two sentences: whoever reads it does the one and the other.
    if others().any(|one| one.sentence != best.sentence) {
        return Asked::Nothing;
    }
    let alike = others().filter(|one| {
        one.skill.source == best.skill.source && best.fit.rank() - one.fit.rank() < ALIKE
    });
    let alike: Vec<Call> = alike.take(MOST - 1).map(skill_call).collect();
    if alike.is_empty() {
        return Asked::One(skill_call(best));
    }
    Asked::OneOf(std::iter::once(skill_call(best)).chain(alike).collect())
}

fn skill_call(Candidate { skill, trigger, fit, .. }: &Candidate<'_>) -> Call {
    Call {
        skill: skill.name.clone(),
        trigger: trigger.text.clone(),
        values: fit.values.clone(),
        exact: fit.cost == 0,
    }
}
