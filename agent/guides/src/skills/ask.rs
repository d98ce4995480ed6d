//! Finds the skill that a message asks for.

use super::fit::{self, TriggerFit};
use super::trigger::SkillTrigger;
use super::{SkillGuide, words};

/// Skills that people are asked about.
const MOST: usize = 4;
/// Two fits that are no further apart are alike.
const ALIKE: i64 = 50;

/// Result of looking for skills in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedSkill {
    /// No skill, or more than one: its reader decides.
    Nothing,
    One(SkillCall),
    /// One of these, the likeliest first: only who wrote it knows which.
    OneOf(Vec<SkillCall>),
}

/// A skill, and what was named for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillCall {
    /// Name of the skill.
    pub skill: String,
    /// The trigger as it is written in its file.
    pub trigger: String,
    /// Values by parameter; nothing where somebody only points.
    pub values: Vec<(String, Option<String>)>,
    /// True if the trigger was said word for word.
    pub exact: bool,
}

/// A skill that fits, with the sentence that says it.
struct FittingSkill<'a> {
    skill: &'a SkillGuide,
    trigger: &'a SkillTrigger,
    fit: TriggerFit,
    sentence: usize,
}

/// Finds the skill that a message asks for. Nothing is asked back here.
pub fn find_asked(text: &str, skills: &[SkillGuide]) -> AskedSkill {
    let sentences = words::split_sentences(text);
    if fit::takes_back(&sentences) {
        return AskedSkill::Nothing;
    }
    let named: Vec<Vec<SkillTrigger>> = skills.iter().map(by_name).collect();
    let mut found: Vec<FittingSkill<'_>> = Vec::new();
    for (at, sentence) in sentences.iter().enumerate() {
        for (skill, named) in skills.iter().zip(&named) {
            let fits = skill.triggers.iter().chain(named);
            let fits =
                fits.filter_map(|trigger| Some((trigger, fit::best_fit(trigger, sentence)?)));
            if let Some((trigger, fit)) = fits.max_by_key(|(_, fit)| fit.rank()) {
                found.push(FittingSkill { skill, trigger, fit, sentence: at });
            }
        }
    }
    choose_skill(found)
}

/// Triggers that every skill has: `use the skill NAME`.
fn by_name(skill: &SkillGuide) -> Vec<SkillTrigger> {
    let phrases = ["use skill", "run skill", "skill"];
    let phrases = phrases.iter().flat_map(|words| {
        let (first, last) = words.split_once(' ').unwrap_or(("", words));
        [format!("{words} {}", skill.name), format!("{first} {} {last}", skill.name)]
    });
    phrases.filter_map(|phrase| SkillTrigger::parse(phrase.trim()).ok()).collect()
}

fn choose_skill(mut found: Vec<FittingSkill<'_>>) -> AskedSkill {
    found.sort_by_key(|one| (-one.fit.rank(), one.skill.source));
    let Some(best) = found.first() else { return AskedSkill::Nothing };
    let others = || found.iter().filter(|one| one.skill.name != best.skill.name);
    // Two things in two sentences: whoever reads it does the one and the other.
    if others().any(|one| one.sentence != best.sentence) {
        return AskedSkill::Nothing;
    }
    let alike = others().filter(|one| {
        one.skill.source == best.skill.source && best.fit.rank() - one.fit.rank() < ALIKE
    });
    let alike: Vec<SkillCall> = alike.take(MOST - 1).map(skill_call).collect();
    if alike.is_empty() {
        return AskedSkill::One(skill_call(best));
    }
    AskedSkill::OneOf(std::iter::once(skill_call(best)).chain(alike).collect())
}

fn skill_call(FittingSkill { skill, trigger, fit, .. }: &FittingSkill<'_>) -> SkillCall {
    SkillCall {
        skill: skill.name.clone(),
        trigger: trigger.text.clone(),
        values: fit.values.clone(),
        exact: fit.cost == 0,
    }
}
