//! CodeButler's own form of a skill: `# name`, a description, `## Trigger`, `## Agent`, `## Prompt`.

use std::collections::BTreeMap;

use super::open::{SkillNameError, check_name};
use super::trigger::SkillTrigger;
use super::{SkillFault, SkillGuide, SkillSource, fill};

/// Most triggers of one skill.
const MAX_TRIGGERS: usize = 64;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 1024;
/// The heading of a file that switches a shipped skill off.
const OFF: &str = "## Off";
const SECTIONS: [&str; 3] = ["Trigger", "Agent", "Prompt"];

/// A section: the line of its heading, and its lines with their numbers.
type SkillSection<'a> = (usize, Vec<(usize, &'a str)>);

/// Reads one.
///
/// # Errors
/// What is wrong first, with its line.
pub(super) fn parse_own(path: &str, text: &str) -> Result<SkillGuide, SkillFault> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let mut said = lines.by_ref().filter(|(_, line)| !line.trim().is_empty());
    let (at, first) = said.next().ok_or_else(|| SkillFault::at(1, "the file is empty"))?;
    let name = first.strip_prefix("# ").map(str::trim).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| SkillFault::at(at, "`# <name>` has to come first"))?;
    named_as(name, path).map_err(|error| SkillFault::at(at, error.to_string()))?;
    let mut sections = read_sections(text)?;
    let description = read_description(text, at)?;
    let triggers = read_triggers(&take_section(&mut sections, "Trigger")?)?;
    let role = read_role(&take_section(&mut sections, "Agent")?)?;
    let (heading, prompt) = take_section(&mut sections, "Prompt")?;
    fill::check_places(&prompt, &triggers)?;
    let prompt: Vec<&str> = prompt.into_iter().map(|(_, line)| line).collect();
    let prompt = prompt.join("\n").trim().to_owned();
    if prompt.is_empty() {
        return Err(SkillFault::at(heading, "`## Prompt` is empty: say what its role is to do"));
    }
    Ok(SkillGuide {
        name: name.to_owned(),
        description,
        triggers,
        role: Some(role),
        prompt,
        path: path.to_owned(),
        source: SkillSource::Own,
    })
}

/// The shipped skill that a file switches off: `# name` and `## Off`, with a reason or without.
///
/// # Errors
/// The mistake in such a file, with its line.
pub(super) fn find_switched_off(path: &str, text: &str) -> Result<Option<String>, SkillFault> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end()));
    let mut headings = lines.by_ref().filter(|(_, line)| line.starts_with("## "));
    let Some((at, _)) = headings.next().filter(|(_, line)| *line == OFF) else { return Ok(None) };
    if let Some((at, _)) = headings.next() {
        let why = "a skill with `## Off` has no other section: take one of them out";
        return Err(SkillFault::at(at, why));
    }
    let name = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().trim();
    named_as(name, path).map_err(|error| SkillFault::at(1, error.to_string()))?;
    if crate::seeds::find_skill(&format!("{name}.md")).is_none() {
        let why =
            format!("CodeButler brings no skill `{name}`: to switch off your own, remove its file");
        return Err(SkillFault::at(at, why));
    }
    Ok(Some(name.to_owned()))
}

fn named_as(name: &str, path: &str) -> Result<(), SkillNameError> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".md").unwrap_or(file);
    check_name(name)?;
    if name == stem {
        Ok(())
    } else {
        Err(SkillNameError::OtherFile { name: name.to_owned(), file: file.to_owned() })
    }
}

/// Reads the text between the name and the first section as one line.
fn read_description(text: &str, heading: usize) -> Result<String, SkillFault> {
    let lines = text.lines().skip(heading).take_while(|line| !line.starts_with("## "));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let description = words.join(" ");
    match description.chars().count() {
        0 => Err(SkillFault::at(heading, "no description follows: say in one line what it does")),
        count if count > MAX_DESCRIPTION => Err(SkillFault::at(
            heading,
            format!("the description has more than {MAX_DESCRIPTION} characters"),
        )),
        _ => Ok(description),
    }
}

/// The sections by title. Headings inside of a prompt's code are none.
fn read_sections(text: &str) -> Result<BTreeMap<&'static str, SkillSection<'_>>, SkillFault> {
    let mut found: BTreeMap<&'static str, SkillSection<'_>> = BTreeMap::new();
    let mut current = None;
    let mut fenced = false;
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.strip_prefix("## ").map(str::trim).filter(|_| !fenced);
        let known = title.and_then(|title| SECTIONS.into_iter().find(|known| *known == title));
        match (title, known) {
            (_, Some(known)) => {
                if found.insert(known, (at, Vec::new())).is_some() {
                    return Err(SkillFault::at(at, format!("`## {known}` is there twice")));
                }
                current = Some(known);
            }
            (Some(title), None) if current != Some("Prompt") => {
                let known = SECTIONS.map(|known| format!("`## {known}`")).join(", ");
                return Err(SkillFault::at(
                    at,
                    format!("`## {title}` is no section of a skill: there are {known}"),
                ));
            }
            _ => {
                if let Some(section) = current.and_then(|current| found.get_mut(current)) {
                    section.1.push((at, line));
                }
            }
        }
    }
    Ok(found)
}

fn take_section<'a>(
    sections: &mut BTreeMap<&'static str, SkillSection<'a>>,
    title: &str,
) -> Result<SkillSection<'a>, SkillFault> {
    let missing = || SkillFault::at(0, format!("the section `## {title}` is missing"));
    sections.remove(title).ok_or_else(missing)
}

fn read_triggers((heading, lines): &SkillSection<'_>) -> Result<Vec<SkillTrigger>, SkillFault> {
    let mut found: Vec<SkillTrigger> = Vec::new();
    for (at, line) in lines {
        let phrases = line.split(',').map(|phrase| phrase.trim().trim_start_matches("- ").trim());
        for phrase in phrases.filter(|phrase| !phrase.is_empty()) {
            let trigger = SkillTrigger::parse(phrase)
                .map_err(|error| SkillFault::at(*at, error.to_string()))?;
            if let Some(same) = found.iter().find(|known| known.shape() == trigger.shape()) {
                return Err(SkillFault::at(
                    *at,
                    format!("the triggers `{}` and `{phrase}` are the same", same.text),
                ));
            }
            found.push(trigger);
        }
    }
    match found.len() {
        0 => Err(SkillFault::at(
            *heading,
            "`## Trigger` is empty: say what people say to get it, with commas between",
        )),
        1..=MAX_TRIGGERS => Ok(found),
        many => Err(SkillFault::at(
            *heading,
            format!("`## Trigger` has {many} phrases, and {MAX_TRIGGERS} are read"),
        )),
    }
}

fn read_role((heading, lines): &SkillSection<'_>) -> Result<String, SkillFault> {
    let words: Vec<(usize, &str)> = lines
        .iter()
        .flat_map(|(at, line)| line.split_whitespace().map(|word| (*at, word)))
        .collect();
    match words[..] {
        [] => Err(SkillFault::at(*heading, "`## Agent` is empty: name one role")),
        [(at, word)] => {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            let is_role = word.len() <= 63 && word.bytes().all(plain);
            let why = || format!("`{word}` can't be a role's name (a-z, 0-9 and `-`)");
            if is_role { Ok(word.to_owned()) } else { Err(SkillFault::at(at, why())) }
        }
        [_, (at, _), ..] => {
            Err(SkillFault::at(at, "`## Agent` names more than one role: one does a skill"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipped_skill_is_switched_off_by_a_file_of_its_name() {
        let off = |path: &str, text: &str| {
            find_switched_off(path, text).map_err(|fault| (fault.line, fault.why))
        };
        let path = ".codebutler/skills/release.md";
        assert_eq!(
            off(path, "# release\n\n## Off\n\nWe release by hand.\n"),
            Ok(Some("release".into()))
        );
        assert_eq!(off(path, "# release\n\nText.\n\n## Trigger\n\n## Off\n"), Ok(None));
        let (line, why) = off(path, "# release\n\n## Off\n\n## Prompt\n\nx\n").unwrap_err();
        assert!(line == 5 && why.contains("no other section"), "{why}");
        let (_, why) = off(path, "# docs\n\n## Off\n").unwrap_err();
        assert!(why.contains("name both alike"), "{why}");
        let own = ".codebutler/skills/ours.md";
        let (line, why) = off(own, "# ours\n\n## Off\n").unwrap_err();
        assert!(line == 3 && why.contains("brings no skill `ours`"), "{why}");
    }

    const DEPLOY: &str = "# deploy\n\nDeploys to an\nenvironment.\n\n## Trigger\ndeploy, deploy to {environment},\nship it\n\n\
        ## Agent\ncoder\n\n## Prompt\nDeploy to {{environment | default: \"staging\"}}.\n\n## Steps\n```\n## Agent\n```\n";

    fn wrong(text: &str) -> String {
        parse_own(".codebutler/skills/deploy.md", text).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_skill_is_read() {
        let skill = parse_own(".codebutler/skills/deploy.md", DEPLOY).unwrap();
        assert_eq!((skill.name.as_str(), skill.role.as_deref()), ("deploy", Some("coder")));
        assert_eq!(skill.description, "Deploys to an environment.");
        let triggers: Vec<&str> =
            skill.triggers.iter().map(|trigger| trigger.text.as_str()).collect();
        assert_eq!(triggers, ["deploy", "deploy to {environment}", "ship it"]);
        assert!(
            skill.prompt.starts_with("Deploy to {{") && skill.prompt.ends_with("## Agent\n```")
        );
    }

    #[test]
    fn a_mistake_is_said_with_its_line() {
        for (from, to, expected) in [
            (DEPLOY, "", "line 1: the file is empty"),
            ("# deploy\n", "Deploy\n", "line 1: `# <name>` has to come first"),
            ("# deploy\n", "# Deploy it\n", "line 1: a name has 1 to 64"),
            (
                "# deploy\n",
                "# ship\n",
                "line 1: the skill is called `ship` and its file `deploy.md`",
            ),
            ("Deploys to an\nenvironment.\n", "", "line 1: no description follows"),
            ("## Agent\ncoder", "## Agent\n", "line 10: `## Agent` is empty"),
            (
                "## Agent\ncoder",
                "## Agent\ncoder, pm",
                "line 11: `## Agent` names more than one role",
            ),
            ("## Agent\ncoder\n", "", "the section `## Agent` is missing"),
            ("## Agent\n", "## Who\n", "line 10: `## Who` is no section of a skill"),
            (
                "ship it\n",
                "{environment}\n",
                "line 8: the trigger `{environment}` is only a parameter",
            ),
            ("ship it\n", "Deploy!\n", "line 8: the triggers `deploy` and `Deploy!` are the same"),
            ("{{environment |", "{{env |", "line 14: `{{env}}` is in no trigger"),
            ("\"staging\"", "staging", "line 14: "),
        ] {
            let text = if from == DEPLOY { String::new() } else { DEPLOY.replacen(from, to, 1) };
            let why = wrong(&text);
            assert!(why.starts_with(expected), "{to:?}: {why}");
        }
        let empty = DEPLOY.split("## Prompt").next().unwrap().to_owned() + "## Prompt\n \n";
        assert_eq!(wrong(&empty), "line 13: `## Prompt` is empty: say what its role is to do");
    }
}
