//! `.codebutler/policy.json` as a whole. Each reader of a part of it reads it here, so that a field that nothing
//! knows is refused everywhere, with its line.
//!
//! ```json
//! {"tool_overrides": {"bash": {"destructive": ["npm publish"]}},
//!  "redaction": {"patterns": [{"name": "customer_id", "regex": "cust_[a-zA-Z0-9]{20,}"}]},
//!  "require_approval": {"git_push_to": ["release/*"], "create_pr_to": ["main"]}}
//! ```

use std::collections::BTreeMap;
use std::fmt;

use codebutler_wire::RiskTier;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::text::clip_text;

/// Longest sentence of the parser that is passed on, in characters.
const SENTENCE: usize = 300;
/// Most branches of one list.
const MOST: usize = 64;

/// The contents of `policy.json`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// Address of the JSON schema, which only editors use.
    #[serde(default, rename = "$schema")]
    _schema: Option<IgnoredAny>,
    #[serde(default, alias = "toolOverrides")]
    pub(super) tool_overrides: Overrides,
    /// Patterns to mask, as a list or as `{"patterns": [...]}`.
    #[serde(default, deserialize_with = "read_patterns")]
    pub redaction: Vec<MaskedPattern>,
    #[serde(default, alias = "requireApproval")]
    pub require_approval: RequiredApprovals,
}

/// Rules of the file about tools.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overrides {
    #[serde(default, alias = "Bash")]
    pub bash: BashRule,
    #[serde(default)]
    pub tools: BTreeMap<String, RiskTier>,
}

/// Rules of the file about Bash commands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BashRule {
    #[serde(default, deserialize_with = "read_rules")]
    pub destructive: Vec<CommandRule>,
    #[serde(default, deserialize_with = "read_rules")]
    pub safe: Vec<CommandRule>,
}

/// A command, with examples of what it is for and of what it spares.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandRule {
    pub command: String,
    #[serde(default)]
    pub matches: Vec<String>,
    #[serde(default)]
    pub spares: Vec<String>,
}

/// A pattern that is masked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskedPattern {
    pub name: String,
    #[serde(alias = "regex")]
    pub pattern: String,
}

/// Effects that need a person's yes each time. `*` in a branch stands for any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredApprovals {
    /// Pushes to these branches.
    #[serde(default, alias = "gitPushTo")]
    pub git_push_to: Vec<String>,
    /// Pull requests to be merged into these branches.
    #[serde(default, alias = "createPrTo")]
    pub create_pr_to: Vec<String>,
}

impl PolicyFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The first mistake, with its line and column.
    pub fn parse(text: &str) -> Result<Self, PolicyMistake> {
        let file: Self = serde_json::from_str(text)
            .map_err(|error| PolicyMistake::Form(clip_text(&error.to_string(), SENTENCE)))?;
        let RequiredApprovals { git_push_to, create_pr_to } = &file.require_approval;
        for (name, branches) in [("git_push_to", git_push_to), ("create_pr_to", create_pr_to)] {
            if branches.len() > MOST {
                return Err(PolicyMistake::TooMany { name, most: MOST });
            }
        }
        Ok(file)
    }
}

/// Reason why the file can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyMistake {
    #[error("{0}")]
    Form(String),
    #[error("`{name}` has more than {most} branches")]
    TooMany { name: &'static str, most: usize },
}

impl RequiredApprovals {
    /// People are asked each time.
    pub fn always() -> Self {
        let all = || vec!["*".to_owned()];
        Self { git_push_to: all(), create_pr_to: all() }
    }

    /// Adds what others are asked about.
    pub fn extend(&mut self, others: Self) {
        let lists = [
            (&mut self.git_push_to, others.git_push_to),
            (&mut self.create_pr_to, others.create_pr_to),
        ];
        for (own, others) in lists {
            let new: Vec<String> = others.into_iter().filter(|one| !own.contains(one)).collect();
            own.extend(new);
        }
    }

    /// True if a push to a branch needs a person's yes.
    pub fn guards_push(&self, branch: &str) -> bool {
        self.git_push_to.iter().any(|pattern| matches_branch(pattern, branch))
    }

    /// True if a pull request into a branch needs a person's yes.
    pub fn guards_pull(&self, base: &str) -> bool {
        self.create_pr_to.iter().any(|pattern| matches_branch(pattern, base))
    }
}

fn matches_branch(pattern: &str, branch: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == branch };
    let Some(mut left) = branch.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

fn read_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CommandRule>, D::Error> {
    let read: Vec<RuleForm> = Deserialize::deserialize(from)?;
    Ok(read.into_iter().map(|RuleForm(rule)| rule).collect())
}

/// A rule as it may be written: its command alone, or with examples.
struct RuleForm(CommandRule);

impl<'de> Deserialize<'de> for RuleForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RuleForms)
    }
}

/// Both forms. Not an untagged enum: that would pass over a field that is not known.
struct RuleForms;

impl<'de> Visitor<'de> for RuleForms {
    type Value = RuleForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command or `{\"command\": …, \"matches\": […], \"spares\": […]}`")
    }

    fn visit_str<E: serde::de::Error>(self, command: &str) -> Result<Self::Value, E> {
        let command = command.to_owned();
        Ok(RuleForm(CommandRule { command, matches: Vec::new(), spares: Vec::new() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        CommandRule::deserialize(MapAccessDeserializer::new(map)).map(RuleForm)
    }
}

fn read_patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<MaskedPattern>, D::Error> {
    from.deserialize_any(PatternForms)
}

/// Both forms. Not an untagged enum: that would lose what is wrong, and where.
struct PatternForms;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedPatterns {
    #[serde(default)]
    patterns: Vec<MaskedPattern>,
}

impl<'de> Visitor<'de> for PatternForms {
    type Value = Vec<MaskedPattern>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`{\"patterns\": [{\"name\": …, \"regex\": …}]}` or a list of patterns")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        NamedPatterns::deserialize(MapAccessDeserializer::new(map)).map(|named| named.patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        PolicyFile::parse(text).err().map(|mistake| mistake.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_form_of_the_specification_is_read() {
        let file = PolicyFile::parse(
            r#"{"$schema": "https://example.org/policy.json",
                "tool_overrides": {"bash": {"destructive": ["npm publish"], "safe": ["docker compose up -d"]}},
                "redaction": {"patterns": [
                    {"name": "internal_url", "regex": "https?://internal\\.company\\.com[^\\s]*"},
                    {"name": "customer_id", "regex": "cust_[a-zA-Z0-9]{20,}"}]},
                "require_approval": {"git_push_to": ["main", "release/*"], "create_pr_to": ["main"]}}"#,
        )
        .unwrap();
        assert_eq!(file.redaction[1].pattern, "cust_[a-zA-Z0-9]{20,}");
        assert!(
            file.require_approval.guards_pull("main") && !file.require_approval.guards_pull("dev")
        );
        let list =
            PolicyFile::parse(r#"{"redaction": [{"name": "a", "pattern": "abc"}]}"#).unwrap();
        assert_eq!(list.redaction, [MaskedPattern { name: "a".into(), pattern: "abc".into() }]);
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line() {
        for (text, part, line) in [
            ("{\n\"require_aproval\": {}}", "unknown field `require_aproval`", 2),
            ("{\n\n\"require_approval\": {\"push\": []}}", "unknown field `push`", 3),
            ("{\"redaction\": {\n\"pattern\": []}}", "unknown field `pattern`", 2),
            (
                "{\"redaction\": [\n{\"name\": \"a\", \"regexp\": \"abc\"}]}",
                "unknown field `regexp`",
                2,
            ),
            ("{\"tool_overrides\":\n{\"shell\": {}}}", "unknown field `shell`", 2),
            ("{\"redaction\":\n\"cust_\"}", "invalid type: string", 2),
            (
                "{\"tool_overrides\": {\"bash\": {\"safe\": [\n{\"command\": \"npm ci\", \"spare\": []}]}}}",
                "unknown field `spare`",
                2,
            ),
            (
                "{\"tool_overrides\": {\"bash\": {\"destructive\": [\n7]}}}",
                "invalid type: integer `7`, expected a command",
                2,
            ),
        ] {
            let said = wrong(text);
            assert!(said.contains(part) && said.contains(&format!(" at line {line} ")), "{said}");
        }
        let many = serde_json::json!({"require_approval": {"git_push_to": vec!["a"; MOST + 1]}});
        assert_eq!(wrong(&many.to_string()), "`git_push_to` has more than 64 branches");
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, branch, expected) in [
            ("main", "main", true),
            ("main", "mainline", false),
            ("release/*", "release/1/2", true),
            ("release/*", "release", false),
            ("*", "codebutler/shop-1", true),
            ("*/shop-*", "codebutler/shop-1", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_branch(pattern, branch), expected, "{pattern} {branch}");
        }
    }
}
