//! `.codebutler/skills/*.md`: what a team can ask for in a few words. The role that users talk to first
//! knows them by an index, and reads the one that it needs. Pure.

use std::fmt::Write as _;

use crate::text::clip;

/// Characters of a description or of a list of phrases.
const MAX_LINE: usize = 200;

/// What the index says of one skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// As in its heading.
    pub name: String,
    pub description: String,
    /// What people say to get it.
    pub triggers: String,
    pub agent: String,
}

/// What is wrong with a skill's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if *line > 0 { format!("line {line}: ") } else { String::new() })]
pub struct Wrong {
    /// From 1; 0 for all of it.
    pub line: usize,
    pub why: String,
}

/// Reads a skill's file.
///
/// # Errors
/// What is missing, with its line where there is one.
pub fn parse(text: &str) -> Result<Skill, Wrong> {
    let wrong = |line, why: &str| Wrong { line, why: why.to_owned() };
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (at, first) = lines.next().ok_or_else(|| wrong(1, "the file is empty"))?;
    let name = first.strip_prefix("# ").map(str::trim).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong(at + 1, "`# <name>` has to come first"))?;
    let description = lines.next().map(|(_, line)| line.trim());
    let description = description.filter(|line| !line.starts_with('#'));
    let description = description.ok_or_else(|| wrong(at + 1, "no description follows"))?;
    let section = |title: &str| {
        let heading = format!("## {title}");
        let body = text.lines().skip_while(|line| line.trim() != heading).skip(1);
        let body = body.take_while(|line| !line.starts_with("## "));
        let body = body.collect::<Vec<_>>().join(" ").trim().to_owned();
        let missing = || wrong(0, &format!("the section `{heading}` is missing"));
        if body.is_empty() { Err(missing()) } else { Ok(body) }
    };
    section("Prompt")?;
    Ok(Skill {
        name: clip(name, 60),
        description: clip(description, MAX_LINE),
        triggers: clip(&section("Trigger")?, MAX_LINE),
        agent: clip(&section("Agent")?, 40),
    })
}

/// What the prompt says of all skills, and what is wrong with the rest, by file.
pub fn index(files: &[(String, String)]) -> (Option<String>, Vec<(String, Wrong)>) {
    let (mut out, mut wrong) = (String::new(), Vec::new());
    for (file, text) in files {
        match parse(text) {
            Ok(Skill { name, description, triggers, agent }) => {
                let _ = writeln!(
                    out,
                    "- `{name}` ({agent}): {description} Said as: {triggers}. In `skills/{file}`."
                );
            }
            Err(why) => wrong.push((file.clone(), why)),
        }
    }
    let head = "# Skills\n\nA message that fits one of these asks for it: read its file with `ReadMemory`, fill \
                in what the message names, and hand its prompt to its role.\n\n";
    ((!out.is_empty()).then(|| format!("{head}{}", out.trim_end())), wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOY: &str = "# deploy\n\nDeploys to an environment.\n\n## Trigger\ndeploy to {environment}, ship\n\n\
                          ## Agent\ncoder\n\n## Prompt\nDeploy to {{environment}}.\n";

    #[test]
    fn whole_skills_are_listed_and_others_are_named() {
        let files = [
            ("deploy.md", DEPLOY.to_owned()),
            ("empty.md", String::new()),
            ("bare.md", "# bare\n\nDoes little.\n\n## Prompt\nx\n".to_owned()),
            ("late.md", "\nText\n# late\n".to_owned()),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text));
        let (index, wrong) = index(&files);
        assert_eq!(
            index.unwrap().lines().last().unwrap(),
            "- `deploy` (coder): Deploys to an environment. Said as: deploy to {environment}, ship. In \
             `skills/deploy.md`."
        );
        let wrong: Vec<_> = wrong.iter().map(|(file, why)| format!("{file}: {why}")).collect();
        assert_eq!(
            wrong,
            [
                "empty.md: line 1: the file is empty",
                "bare.md: the section `## Trigger` is missing",
                "late.md: line 2: `# <name>` has to come first",
            ]
        );
        assert_eq!(super::index(&[]), (None, vec![]));
    }
}
