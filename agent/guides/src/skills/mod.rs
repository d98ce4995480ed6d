//! Skills: what a team can ask for in a few words. CodeButler brings some (`seeds/skills`), a repository
//! has its own in `.codebutler/skills/*.md`, and those in the open form (`SKILL.md`) that other tools read
//! too. Which one a message asks for is decided here, by its words, before any model is asked: models miss
//! even what they are told word for word, and this costs nothing and does the same each time. What no
//! trigger fits is left to the model, which has the index. Pure.

mod ask;
mod brief;
mod correction;
mod fill;
mod fit;
mod lists;
mod open;
mod own;
mod repeat;
mod trigger;
mod words;

use std::fmt::Write as _;

use crate::text::clip_text;
use crate::{UnreadFile, seeds};

pub use ask::{AskedSkill, SkillCall, find_asked};
pub use brief::{NONE, skills_question, write_brief};
pub use correction::{correction_brief, is_correction};
pub use fill::unused_params;
pub use repeat::{PastRequest, find_repeats, repeat_brief};
pub use trigger::SkillTrigger;

/// Largest skill file, in bytes.
pub const MAX_FILE: usize = 16 * 1024;
/// Characters of a description that are shown.
const MAX_LINE: usize = 200;
/// Longest index, in characters.
const MAX_INDEX: usize = 8000;

/// Origin of a skill. What comes first wins over what comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillSource {
    /// The repository's, in `.codebutler/skills`.
    Own,
    /// The repository's, in the open form.
    Open,
    /// A skill that CodeButler brings.
    Seed,
}

/// A skill: work that people can ask for in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillGuide {
    pub name: String,
    pub description: String,
    pub triggers: Vec<SkillTrigger>,
    /// The role that does it; none: who reads it decides.
    pub role: Option<String>,
    /// Prompt with `{{param}}` placeholders.
    pub prompt: String,
    /// Path of the file from the root of the repository; of a seed below `.codebutler`.
    pub path: String,
    pub source: SkillSource,
}

/// Mistake in a skill's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{}{why}", if *line > 0 { format!("line {line}: ") } else { String::new() })]
pub struct SkillFault {
    /// Line number, counted from 1; 0 for the whole file.
    pub line: usize,
    pub why: String,
}

impl SkillFault {
    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

/// A file of a repository as it was read, or why it was not.
pub type ReadFile = (String, Result<String, UnreadFile>);

/// All skills that there are, by name, and what is wrong with the rest, by file. `roles` are those that
/// work here.
pub fn collect_skills(
    files: &[ReadFile],
    roles: &[String],
) -> (Vec<SkillGuide>, Vec<(String, SkillFault)>) {
    let (mut skills, mut wrong): (Vec<SkillGuide>, Vec<_>) = (Vec::new(), Vec::new());
    let mut off = Vec::new();
    for (path, text) in files {
        match text.as_ref().map_or(Ok(None), |text| switched_off(path, text)) {
            Ok(None) => {}
            Ok(Some(name)) => {
                off.push(name);
                continue;
            }
            Err(why) => {
                wrong.push((path.clone(), why));
                continue;
            }
        }
        let read = match text {
            Ok(text) => parse_skill(path, text).and_then(|skill| for_team(skill, roles)),
            Err(error) => Err(SkillFault::at(0, error.to_string())),
        };
        match read {
            Ok(skill) if skills.iter().all(|known| known.name != skill.name) => skills.push(skill),
            // The same skill for other tools, in another folder.
            Ok(skill) => tracing::debug!(skill.path, "skill_shadowed"),
            Err(why) => wrong.push((path.clone(), why)),
        }
    }
    for seed in shipped_skills().into_iter().filter(|seed| !off.contains(&seed.name)) {
        let works = |role: &String| roles.is_empty() || roles.contains(role);
        match skills.iter_mut().find(|skill| skill.name == seed.name) {
            // The open form has no place for what people say to get it.
            Some(own) if own.source == SkillSource::Open => {
                own.triggers = seed.triggers;
                own.role = seed.role.filter(works);
            }
            None if seed.role.as_ref().is_none_or(works) => skills.push(seed),
            Some(_) | None => {}
        }
    }
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    (skills, wrong)
}

/// Reads the skills that CodeButler brings.
pub fn shipped_skills() -> Vec<SkillGuide> {
    let read = |(name, text): (&str, &str)| {
        let path = format!("skills/{name}");
        let skill = own::parse_own(&format!("{FOLDER}/{name}"), text);
        skill.map(|skill| SkillGuide { source: SkillSource::Seed, path, ..skill }).ok()
    };
    seeds::list_skills().filter_map(read).collect()
}

/// Folder of a repository's own skills.
const FOLDER: &str = ".codebutler/skills";
/// The file of a skill in the open form.
const OPEN_FILE: &str = "SKILL.md";

/// Reads a skill's file, whichever form it has.
///
/// # Errors
/// What is wrong with it, with its line where there is one.
pub fn parse_skill(path: &str, text: &str) -> Result<SkillGuide, SkillFault> {
    if text.len() > MAX_FILE {
        let size = text.len();
        return Err(SkillFault::at(
            0,
            format!("it has {size} bytes, and {MAX_FILE} are read: make it shorter"),
        ));
    }
    if path.ends_with(OPEN_FILE) {
        open::parse_open(path, text)
    } else {
        own::parse_own(path, text)
    }
}

/// The shipped skill that a file switches off, if that is what it is for.
///
/// # Errors
/// The mistake in such a file.
pub fn switched_off(path: &str, text: &str) -> Result<Option<String>, SkillFault> {
    let is_own = path.starts_with(FOLDER) && !path.ends_with(OPEN_FILE);
    if is_own { own::find_switched_off(path, text) } else { Ok(None) }
}

fn for_team(skill: SkillGuide, roles: &[String]) -> Result<SkillGuide, SkillFault> {
    let missing = skill.role.as_ref().filter(|role| !roles.is_empty() && !roles.contains(role));
    match missing {
        None => Ok(skill),
        Some(role) => Err(SkillFault::at(
            0,
            format!(
                "`## Agent` names `{role}`, which is no role here (there are {})",
                roles.join(", ")
            ),
        )),
    }
}

/// Index of all skills for the role that users talk to first.
pub fn index_skills(skills: &[SkillGuide]) -> Option<String> {
    let mut out = "# Skills\n\nPeople ask for these in a few words, and CodeButler gives you the prompt. If one fits and it did not, \
                   read `skills/<name>.md` with `ReadMemory` (a `SKILL.md` with `Read`), fill in what the message names, \
                   and do it or hand it over.\n\n"
        .to_owned();
    for skill in skills {
        let line = line_of(skill);
        if out.len() + line.len() > MAX_INDEX {
            let _ = writeln!(out, "- More are in `{FOLDER}` (ReadMemory lists them).");
            break;
        }
        out.push_str(&line);
    }
    (!skills.is_empty()).then(|| out.trim_end().to_owned())
}

fn line_of(SkillGuide { name, description, role, path, .. }: &SkillGuide) -> String {
    let role = role.as_ref().map(|role| format!(" ({role})")).unwrap_or_default();
    let description = clip_text(description, MAX_LINE);
    let path = path.trim_start_matches(".codebutler/");
    let place =
        if path == format!("skills/{name}.md") { String::new() } else { format!(" In `{path}`.") };
    format!("- `{name}`{role}: {description}{place}\n")
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
