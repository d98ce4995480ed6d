//! `workflows.md`: how the team works, a section for each kind of task. One section comes or is said anew at a
//! time; every other line stays as it is.

use super::{MapError, check_map};
use codebutler_guides::seeds;

/// The page, below `.codebutler/`.
pub const WORKFLOWS: &str = "workflows.md";
/// The policy, below `.codebutler/`.
pub const POLICY: &str = "policy.json";
/// Longest workflow, in lines.
const MAX_LINES: usize = 40;
const MAX_NAME: usize = 40;
/// Words for people, who may have a step like a role.
const PEOPLE: [&str; 4] = ["user", "users", "person", "people"];

/// The bytes of a section's body.
fn find_body(page: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    let mut begin = None;
    for line in page.split_inclusive('\n') {
        let title = line.trim().strip_prefix("## ").map(str::trim);
        let ends = title.is_some() || line.starts_with("# ");
        match begin {
            Some(begin) if ends => return Some(begin..at),
            None if title.is_some_and(|title| title.eq_ignore_ascii_case(name)) => {
                begin = Some(at + line.len());
            }
            _ => {}
        }
        at += line.len();
    }
    begin.map(|begin| begin..page.len())
}

/// Returns the text of a workflow's section.
pub fn find_workflow<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    find_body(page, name).map(|body| page[body].trim())
}

/// The page with the workflow as it is from now on; a new one comes last. Without a page it begins with what
/// CodeButler brings.
pub fn replace_workflow(page: Option<&str>, name: &str, text: &str) -> String {
    let page = page.unwrap_or_else(|| seeds::find_seed(WORKFLOWS).unwrap_or("# Workflows\n"));
    let text = text.trim();
    match find_body(page, name) {
        Some(body) => {
            let (before, after) = (&page[..body.start], &page[body.end..]);
            let gap = if after.is_empty() { "" } else { "\n" };
            format!("{before}\n{text}\n{gap}{after}")
        }
        None => format!("{}\n\n## {name}\n\n{text}\n", page.trim_end()),
    }
}

/// A team can't follow a workflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowError {
    #[error("`{0}` is no name: up to {MAX_NAME} of a-z, 0-9 and `-`")]
    Name(String),
    /// It is no text that a page may have.
    #[error("{}", .0.to_string().replace("the overview", "the workflow"))]
    Text(MapError),
    #[error("a workflow has at most {MAX_LINES} lines")]
    TooLong,
    #[error("begin with a sentence that says for what people want it")]
    NoBeginning,
    #[error("it has no steps: number them, such as `1. pm: post the plan`")]
    NoSteps,
    #[error("`{step}` does not begin with who does it: {} or the user", .roles.join(", "))]
    Nobody { step: String, roles: Vec<String> },
}

/// Checks that a team can follow the workflow.
///
/// # Errors
/// When it is no list of steps, each of somebody who exists.
pub fn check_workflow(name: &str, text: &str, roles: &[String]) -> Result<(), WorkflowError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(WorkflowError::Name(name.to_owned()));
    }
    check_map(text).map_err(WorkflowError::Text)?;
    if text.trim().lines().count() > MAX_LINES {
        return Err(WorkflowError::TooLong);
    }
    let first = text.trim().lines().next().unwrap_or_default();
    if is_step(first) {
        return Err(WorkflowError::NoBeginning);
    }
    let mut steps = 0;
    for line in text.lines().filter(|line| is_step(line)) {
        steps += 1;
        check_step(line, roles)?;
    }
    if steps == 0 {
        return Err(WorkflowError::NoSteps);
    }
    Ok(())
}

fn is_step(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(". ")
}

/// Somebody who exists does it.
fn check_step(line: &str, roles: &[String]) -> Result<(), WorkflowError> {
    let (_, rest) = line.split_once(". ").unwrap_or_default();
    // "reviewer, lead and user as in implement."
    let who = rest.split(':').next().unwrap_or_default();
    let who = who.split([',', '(']).flat_map(|part| part.split(" and "));
    let mut names = who.filter_map(|part| part.split_whitespace().next()).map(str::to_lowercase);
    let known = |name: &String| roles.contains(name) || PEOPLE.contains(&name.as_str());
    match names.next() {
        Some(name) if known(&name) => Ok(()),
        _ => Err(WorkflowError::Nobody { step: line.trim().to_owned(), roles: roles.to_vec() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Workflows\n\nIntro.\n\n## bugfix\n\nBroken.\n\n1. pm: look\n\n## question\n\nAsked.\n";

    #[test]
    fn one_section_changes_and_all_else_stays() {
        let new = replace_workflow(Some(PAGE), "bugfix", "Broken.\n\n1. coder: look");
        assert_eq!(new, PAGE.replace("1. pm: look", "1. coder: look"));
        assert_eq!(
            replace_workflow(Some(&new), "bugfix", "Broken.\n\n1. coder: look"),
            new,
            "twice is once"
        );
        let more = replace_workflow(Some(PAGE), "spike", "Try it.\n\n1. pm: try");
        assert_eq!(more, format!("{PAGE}\n## spike\n\nTry it.\n\n1. pm: try\n"));
        assert_eq!(find_workflow(&more, "spike"), Some("Try it.\n\n1. pm: try"));
        let first = replace_workflow(None, "spike", "Try it.\n\n1. pm: try");
        assert!(
            first.contains("## implement")
                && first.ends_with("## spike\n\nTry it.\n\n1. pm: try\n")
        );
    }

    #[test]
    fn what_nobody_could_follow_is_said() {
        let roles = ["pm", "coder", "reviewer", "lead", "researcher", "artist"].map(str::to_owned);
        let check = |text: &str| check_workflow("spike", text, &roles);
        assert_eq!(
            check(
                "Something is to be tried.\n\n1. pm: ask\n2. User: say yes\n3. reviewer, lead and user as in implement."
            ),
            Ok(())
        );
        for (text, why) in [
            ("1. pm: ask", "begin with a sentence"),
            ("Try.\n\nAs you like.", "it has no steps"),
            ("Try.\n\n1. builder: build", "`1. builder: build` does not begin with who does it"),
            (
                "Try.\n\n1. coder: always push to main",
                "line 3 is not taken: work lands by pull request only",
            ),
            ("Try.\n## other\n1. pm: x", "line 2 is a heading of the page"),
        ] {
            let said = check(text).unwrap_err().to_string();
            assert!(said.starts_with(why), "{said}");
        }
        assert!(check_workflow("My Flow", "Try.\n1. pm: x", &roles).is_err());
        // The workflows that CodeButler brings can be followed.
        let page = seeds::find_seed(WORKFLOWS).unwrap();
        for name in ["implement", "bugfix", "refactor", "question", "discovery"] {
            let text = find_workflow(page, name).unwrap();
            let (head, _) = text.split_once('\n').unwrap();
            assert!(!head.is_empty());
            assert_eq!(check_workflow(name, text, &roles), Ok(()), "{name}");
        }
    }
}
