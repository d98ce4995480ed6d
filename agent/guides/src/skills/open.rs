//! The open form of a skill: a folder with a `SKILL.md`, which begins with front matter (`name`,
//! `description`), <https://agentskills.io/specification>. Fields that other tools define are passed over.
//! Scripts beside it are files like any others: a role may run them, in the sandbox of all commands.

use super::{SkillFault, SkillGuide, SkillSource};

/// Characters of a name and of a description, as the standard has them.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const RULE: &str = "---";

/// A skill can't have this name.
#[derive(Debug, thiserror::Error)]
pub(super) enum SkillNameError {
    #[error(
        "a name has 1 to {MAX_NAME} characters of a-z, 0-9 and `-`, with `-` only between others"
    )]
    Form,
    #[error("the skill is called `{name}` and its file `{file}`: name both alike")]
    OtherFile { name: String, file: String },
}

/// Reads one.
///
/// # Errors
/// What is wrong first, with its line.
pub(super) fn parse_open(path: &str, text: &str) -> Result<SkillGuide, SkillFault> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    if lines.first() != Some(&RULE) {
        return Err(SkillFault::at(1, "it has to begin with front matter: a line `---`"));
    }
    let end = lines.iter().skip(1).position(|line| *line == RULE);
    let end = end
        .ok_or_else(|| SkillFault::at(1, "the front matter has no end: a second line `---`"))?
        + 1;
    let front = &lines[1..end];
    let (at, name) = front_field(front, "name")?;
    check_name(&name).map_err(|error| SkillFault::at(at, error.to_string()))?;
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    if name != folder {
        let why =
            format!("the skill is called `{name}` and its folder `{folder}`: name both alike");
        return Err(SkillFault::at(at, why));
    }
    let (at, description) = front_field(front, "description")?;
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(SkillFault::at(
            at,
            format!("`description` has more than {MAX_DESCRIPTION} characters"),
        ));
    }
    let prompt = lines[end + 1..].join("\n").trim().to_owned();
    if prompt.is_empty() {
        return Err(SkillFault::at(
            end + 1,
            "nothing follows the front matter: say what is to be done",
        ));
    }
    Ok(SkillGuide {
        name,
        description,
        triggers: Vec::new(),
        role: None,
        prompt,
        path: path.to_owned(),
        source: SkillSource::Open,
    })
}

/// Checks that a skill can be called so.
///
/// # Errors
/// What is wrong with the name.
pub(super) fn check_name(name: &str) -> Result<(), SkillNameError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edges = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    if name.is_empty() || name.len() > MAX_NAME || edges || !name.bytes().all(plain) {
        return Err(SkillNameError::Form);
    }
    Ok(())
}

/// A field at the top of the front matter, and its line: plain, in quotes, or a block.
fn front_field(front: &[&str], name: &str) -> Result<(usize, String), SkillFault> {
    let of =
        |line: &&str| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).is_some();
    let mut places = front.iter().enumerate().filter(|(_, line)| of(line)).map(|(at, _)| at);
    let at = places
        .next()
        .ok_or_else(|| SkillFault::at(1, format!("the front matter has no `{name}`")))?;
    // Counted from 1, behind the first rule.
    let line = at + 2;
    if places.next().is_some() {
        return Err(SkillFault::at(line, format!("the front matter has `{name}` twice")));
    }
    let first = front[at][name.len() + 1..].trim();
    let below =
        front[at + 1..].iter().take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    let below = below.map(|line| line.trim()).filter(|line| !line.is_empty());
    let block = first.starts_with(['|', '>']);
    let words: Vec<&str> = Some(first).filter(|_| !block).into_iter().chain(below).collect();
    let value = unquote_value(&words.join(" "))
        .map_err(|why| SkillFault::at(line, format!("`{name}` {why}")))?;
    if value.trim().is_empty() {
        return Err(SkillFault::at(line, format!("`{name}` is empty")));
    }
    Ok((line, value.trim().to_owned()))
}

fn unquote_value(value: &str) -> Result<String, &'static str> {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let end = rest.rfind(quote).ok_or("begins with a quote that does not end")?;
            let inner = &rest[..end];
            return Ok(if quote == '"' {
                inner.replace("\\\"", "\"").replace("\\\\", "\\")
            } else {
                inner.replace("''", "'")
            });
        }
    }
    if value.starts_with(['[', '{', '&', '*', '!', '%', '@', '`']) {
        return Err("is no text: put it in quotes");
    }
    Ok(value.split(" #").next().unwrap_or(value).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = ".agents/skills/pdf-forms/SKILL.md";
    const PDF: &str = "---\nname: pdf-forms\ndescription: >-\n  Fills in forms.\n\n  Use it for PDFs.\nlicense: MIT\n\
        metadata:\n  name: other\n---\n\n# Forms\n\nRun `scripts/fill.py`.\n";

    #[test]
    fn front_matter_says_what_it_is() {
        let skill = parse_open(PATH, PDF).unwrap();
        assert_eq!(skill.name, "pdf-forms");
        assert_eq!(skill.description, "Fills in forms. Use it for PDFs.");
        assert_eq!(skill.prompt, "# Forms\n\nRun `scripts/fill.py`.");
        assert_eq!((skill.role, skill.source), (None, SkillSource::Open));
        let quoted = PDF.replace(
            ">-\n  Fills in forms.\n\n  Use it for PDFs.",
            "\"Says \\\"hi\\\": often\" # so",
        );
        assert_eq!(parse_open(PATH, &quoted).unwrap().description, "Says \"hi\": often");
    }

    #[test]
    fn a_mistake_is_said_with_its_line() {
        for (from, to, expected) in [
            ("---\nname", "name", "line 1: it has to begin with front matter"),
            ("other\n---\n", "other\n", "line 1: the front matter has no end"),
            ("name: pdf-forms\n", "", "line 1: the front matter has no `name`"),
            ("name: pdf-forms", "name: PDF", "line 2: a name has 1 to 64"),
            (
                "name: pdf-forms",
                "name: pdf",
                "line 2: the skill is called `pdf` and its folder `pdf-forms`",
            ),
            ("license", "name: x\nlicense", "line 2: the front matter has `name` twice"),
            (">-\n  Fills in forms.\n\n  Use it for PDFs.", "", "line 3: `description` is empty"),
            (">-\n  Fills", "[a]\n  Fills", "line 3: `description` is no text"),
            (
                "# Forms\n\nRun `scripts/fill.py`.\n",
                "",
                "line 10: nothing follows the front matter",
            ),
        ] {
            let why = parse_open(PATH, &PDF.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(why.starts_with(expected), "{to:?}: {why}");
        }
    }
}
