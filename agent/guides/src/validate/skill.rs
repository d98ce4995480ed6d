//! Skills: each by the rules of [`skills::parse_skill`], and all of them beside each other.

use std::collections::BTreeMap;

use super::files::{FOLDER, GuideFiles, is_skill};
use super::{FindingSeverity, GuideFinding, JudgedLines, with_text};
use crate::skills::{self, SkillFault, SkillGuide};

/// A skill that can be read, with its file and text.
struct ReadableSkill {
    file: String,
    text: String,
    skill: SkillGuide,
}

/// Judges the skills of a repository. `known`: all roles.
pub(super) fn judge_all(files: &GuideFiles, known: &[String], findings: &mut Vec<GuideFinding>) {
    let mut read: Vec<ReadableSkill> = Vec::new();
    // The repository's own win over those in the open form.
    let mut skills: Vec<_> = files.all().filter(|(path, _)| is_skill(path)).collect();
    skills.sort_by_key(|(path, _)| !path.starts_with(FOLDER));
    for (file, bytes) in skills {
        with_text(file, bytes, findings, |text| match read_skill(file, text) {
            Err(wrong) => {
                vec![(wrong.line, FindingSeverity::Error, format!("{}: it is left out", wrong.why))]
            }
            Ok(None) => JudgedLines::new(),
            Ok(Some(skill)) => {
                let found = judge_alone(&skill, text, known);
                read.push(ReadableSkill { file: file.clone(), text: text.to_owned(), skill });
                found
            }
        });
    }
    judge_together(&read, findings);
}

/// Nothing where it only switches a shipped one off.
fn read_skill(file: &str, text: &str) -> Result<Option<SkillGuide>, SkillFault> {
    match skills::switched_off(file, text)? {
        Some(_) => Ok(None),
        None => skills::parse_skill(file, text).map(Some),
    }
}

/// Finds mistakes in one skill, though it can be read.
fn judge_alone(skill: &SkillGuide, text: &str, known: &[String]) -> JudgedLines {
    let mut found = Vec::new();
    if let Some(role) = skill.role.as_ref().filter(|role| !known.contains(role)) {
        let message = format!(
            "`## Agent` names `{role}`, which is no role that CodeButler brings ({}): it is left out, unless the Repo \
             has an AgentRole of that name (then say so with `--role {role}`)",
            known.join(", ")
        );
        found.push((line_of(text, "## Agent", role), FindingSeverity::Error, message));
    }
    for param in skills::unused_params(skill) {
        let message = format!("`{{{param}}}` is not used: no `{{{{{param}}}}}` is in the prompt");
        found.push((
            line_of(text, "## Trigger", &format!("{{{param}")),
            FindingSeverity::Warning,
            message,
        ));
    }
    found
}

/// The first line behind a heading that has this in it.
fn line_of(text: &str, heading: &str, part: &str) -> usize {
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != heading).skip(1);
    lines.find(|(_, line)| line.contains(part)).map_or(0, |(at, _)| at + 1)
}

/// Finds mistakes between skills: the same words for two, the same name twice.
fn judge_together(read: &[ReadableSkill], findings: &mut Vec<GuideFinding>) {
    let mut names: BTreeMap<&str, &ReadableSkill> = BTreeMap::new();
    let mut phrases: BTreeMap<String, &ReadableSkill> = BTreeMap::new();
    for one in read {
        let mut tell = |line, severity, message| {
            findings.push(GuideFinding {
                file: one.file.clone(),
                line,
                column: 0,
                severity,
                message,
            });
        };
        if let Some(first) = names.get(one.skill.name.as_str()) {
            let name = &one.skill.name;
            let message = format!("is not used: `{name}` is in {} too, which wins", first.file);
            tell(0, FindingSeverity::Warning, message);
            continue;
        }
        names.insert(&one.skill.name, one);
        for trigger in &one.skill.triggers {
            if let Some(first) = phrases.insert(trigger.shape(), one) {
                let line = line_of(&one.text, "## Trigger", &trigger.text);
                let message = format!(
                    "the trigger `{}` is in {} too: people would be asked each time which one they mean",
                    trigger.text, first.file
                );
                tell(line, FindingSeverity::Error, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    /// The roles that CodeButler brings, and one of the Repo's own.
    fn roles(own: &[&'static str]) -> Vec<String> {
        seeds::role_names().chain(own.iter().copied()).map(str::to_owned).collect()
    }

    fn skill(name: &str, triggers: &str, role: &str, prompt: &str) -> String {
        format!(
            "# {name}\n\nDoes it.\n\n## Trigger\n{triggers}\n\n## Agent\n{role}\n\n## Prompt\n{prompt}\n"
        )
    }

    #[test]
    fn every_check_of_skills_says_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let own = |name: &str, text: String| write(&format!(".codebutler/skills/{name}.md"), &text);
        own("deploy", skill("deploy", "ship it,\ndeploy to {env}", "coder", "Go."));
        own("everything", skill("everything", "{what}", "pm", "Do {{what}}."));
        own("builder", skill("builder", "build the tower", "builder", "Go."));
        own("release", skill("release", "publish,\nship it", "pm", "Go."));
        own("lost", skill("lost", "find {what}", "pm", "Find {{what}} in\n{{where}}."));
        own("other", skill("another", "another thing", "pm", "Go."));
        own("silent", skill("silent", "silence please", "pm", ""));
        let open = "---\nname: pdf\ndescription: Fills in forms.\n---\nGo.\n";
        write(".agents/skills/pdf/SKILL.md", open);
        write(".claude/skills/pdf/SKILL.md", open);
        write(".claude/skills/bad/SKILL.md", "# bad\n");
        let mut findings = Vec::new();
        judge_all(&GuideFiles::read(dir.path()), &roles(&[]), &mut findings);
        findings.sort();
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let shown = shown.join("\n");
        insta::assert_snapshot!(shown, @r#"
        .claude/skills/bad/SKILL.md:1: error: it has to begin with front matter: a line `---`: it is left out
        .claude/skills/pdf/SKILL.md: warning: is not used: `pdf` is in .agents/skills/pdf/SKILL.md too, which wins
        .codebutler/skills/builder.md:9: error: `## Agent` names `builder`, which is no role that CodeButler brings (artist, coder, lead, pm, researcher, reviewer): it is left out, unless the Repo has an AgentRole of that name (then say so with `--role builder`)
        .codebutler/skills/deploy.md:7: warning: `{env}` is not used: no `{{env}}` is in the prompt
        .codebutler/skills/everything.md:6: error: the trigger `{what}` is only a parameter: it fits every message. Put the words before it that people say: it is left out
        .codebutler/skills/lost.md:13: error: `{{where}}` is in no trigger: write `{where}` into one, or take it out: it is left out
        .codebutler/skills/other.md:1: error: the skill is called `another` and its file `other.md`: name both alike: it is left out
        .codebutler/skills/release.md:7: error: the trigger `ship it` is in .codebutler/skills/deploy.md too: people would be asked each time which one they mean
        .codebutler/skills/silent.md:11: error: `## Prompt` is empty: say what its role is to do: it is left out
        "#);
        // A Repo may have roles of its own.
        let mut findings = Vec::new();
        judge_all(&GuideFiles::read(dir.path()), &roles(&["builder"]), &mut findings);
        assert!(findings.iter().all(|found| !found.file.ends_with("/builder.md")), "{findings:?}");
    }

    #[test]
    fn what_codebutler_brings_passes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(".codebutler/skills");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in seeds::list_skills() {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let mut findings = Vec::new();
        judge_all(&GuideFiles::read(dir.path()), &roles(&[]), &mut findings);
        assert_eq!(findings, []);
    }
}
