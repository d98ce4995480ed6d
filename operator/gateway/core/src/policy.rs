//! `.codebutler/policy.json` on the base branch, as far as it is the gateway's: patterns of the
//! repository's own to mask, and what people are asked about each time.

use codebutler_crds::policy::RedactionRule;
use codebutler_guides::policy::file::{MaskedPattern, PolicyFile, RequiredApprovals};
use serde_json::Value;

use crate::redact::SecretRedactor;

pub const FILE: &str = ".codebutler/policy.json";
/// Longest file that is read, in bytes.
const MAX_FILE: usize = 64 * 1024;
/// Most patterns, and the longest of them.
const MAX_RULES: usize = 64;
const MAX_PATTERN: usize = 1024;
const MAX_NAME: usize = 32;

/// Masking and approvals that a repository wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedMasking {
    /// Patterns that can be used.
    pub rules: Vec<RedactionRule>,
    /// Problems of the other patterns, for people.
    pub problems: Vec<String>,
    pub approvals: RequiredApprovals,
    /// The file has a mistake in what people are asked about, or where that can't be told.
    pub approvals_unread: bool,
}

pub fn parse_policy(bytes: &[u8]) -> WantedMasking {
    let nothing = |why| WantedMasking {
        problems: vec![why],
        approvals_unread: true,
        ..WantedMasking::default()
    };
    if bytes.len() > MAX_FILE {
        return nothing(format!("it is longer than {} KiB", MAX_FILE / 1024));
    }
    let text = String::from_utf8_lossy(bytes);
    let (redaction, (approvals, approvals_unread), mut problems) = match PolicyFile::parse(&text) {
        Ok(file) => (file.redaction, (file.require_approval, false), Vec::new()),
        Err(mistake) => {
            (salvage_patterns(&text), salvage_approvals(&text), vec![mistake.to_string()])
        }
    };
    let redaction: Vec<_> = redaction
        .into_iter()
        .map(|MaskedPattern { name, pattern }| RedactionRule { name, pattern })
        .collect();
    if redaction.len() > MAX_RULES {
        problems
            .push(format!("redaction has more than {MAX_RULES} patterns: the others are left out"));
    }
    let mut rules: Vec<RedactionRule> = redaction.into_iter().take(MAX_RULES).collect();
    let formed = |rule: &RedactionRule| {
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
        (1..=MAX_NAME).contains(&rule.name.len())
            && rule.name.bytes().all(letter)
            && (3..=MAX_PATTERN).contains(&rule.pattern.len())
    };
    let (_, bad) = SecretRedactor::new(&rules);
    problems.extend(bad.iter().map(ToString::to_string));
    let unformed = rules.iter().enumerate().filter(|(_, rule)| !formed(rule));
    problems.extend(unformed.map(|(index, _)| {
        format!(
            "redaction[{index}] needs a `name` of a-z, 0-9, `-` and `_` (up to {MAX_NAME}) and a `pattern` of 3 to {MAX_PATTERN} characters"
        )
    }));
    let mut index = 0;
    rules.retain(|rule| {
        let usable = formed(rule) && !bad.iter().any(|bad| bad.index == index);
        index += 1;
        usable
    });
    WantedMasking { rules, problems, approvals, approvals_unread }
}

/// The patterns of a file with a mistake: masking too much is the safe side.
fn salvage_patterns(text: &str) -> Vec<MaskedPattern> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let redaction = &value["redaction"];
    let list = redaction.as_array().or_else(|| redaction["patterns"].as_array());
    let read = |rule: &Value| serde_json::from_value(rule.clone()).ok();
    list.into_iter().flatten().filter_map(read).collect()
}

/// Approvals that can be read in a file with a mistake; true if some can't.
fn salvage_approvals(text: &str) -> (RequiredApprovals, bool) {
    const NAMES: [&str; 2] = ["require_approval", "requireApproval"];
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return (RequiredApprovals::default(), NAMES.iter().any(|name| text.contains(name)));
    };
    let (mut found, mut unread) = (RequiredApprovals::default(), false);
    for asked in NAMES.iter().filter_map(|name| value.get(name)) {
        let Some(lists) = asked.as_object() else {
            unread = true;
            continue;
        };
        for (name, branches) in lists {
            let list = match name.as_str() {
                "git_push_to" | "gitPushTo" => &mut found.git_push_to,
                "create_pr_to" | "createPrTo" => &mut found.create_pr_to,
                _ => {
                    unread = true;
                    continue;
                }
            };
            let branches = branches.as_array();
            unread |= branches.is_none_or(|all| !all.iter().all(Value::is_string));
            let named = branches.into_iter().flatten().filter_map(Value::as_str);
            list.extend(named.map(str::to_owned));
        }
    }
    (found, unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_used_and_the_rest_is_told() {
        let wanted = parse_policy(
            br#"{"tool_overrides": {}, "redaction": [
                {"name": "customer", "pattern": "cust_[a-z0-9]{20,}"},
                {"name": "broken", "pattern": "(unclosed"},
                {"name": "No Name", "pattern": "abc"}]}"#,
        );
        assert_eq!(wanted.rules.len(), 1);
        assert_eq!(wanted.problems.len(), 2, "{:?}", wanted.problems);
        assert!(wanted.problems[0].starts_with("redaction[1].pattern (`broken`) can't be used"));
        assert!(wanted.problems[1].starts_with("redaction[2] needs a `name`"));
        let wanted = parse_policy(
            br#"{"redaction": {"patterns": [{"name": "customer_id", "regex": "cust_[a-z0-9]{20,}"}]},
                 "require_approval": {"create_pr_to": ["main"]},
                 "requires_approval": {}}"#,
        );
        let rules =
            [RedactionRule { name: "customer_id".into(), pattern: "cust_[a-z0-9]{20,}".into() }];
        assert_eq!(wanted.rules, rules, "a mistake elsewhere unmasks nothing");
        assert!(wanted.approvals.guards_pull("main"));
        assert!(
            wanted.problems[0].starts_with("unknown field `requires_approval`")
                && wanted.problems[0].contains(" at line 3 "),
            "{:?}",
            wanted.problems
        );
        assert!(!wanted.approvals_unread, "the mistake is elsewhere");
        assert_eq!(parse_policy(b"{}"), WantedMasking::default());
        assert_eq!(parse_policy(b"{").problems.len(), 1);
        assert!(parse_policy(&vec![b' '; MAX_FILE + 1]).problems[0].contains("64 KiB"));
    }

    #[test]
    fn a_mistake_in_the_approvals_drops_none_that_can_be_read_and_is_known() {
        for (text, pushes, unread) in [
            (
                r#"{"require_approval": {"git_push_to": ["a/*"], "git_push_too": ["b"]}}"#,
                true,
                true,
            ),
            (r#"{"require_approval": {"git_push_to": ["a/*", 7]}}"#, true, true),
            (r#"{"requireApproval": {"gitPushTo": ["a/*"]}, "odd": 1}"#, true, false),
            (r#"{"require_approval": {"git_push_to": ["a/*"],}}"#, false, true),
            (r#"{"require_approval": 7}"#, false, true),
            (r#"{"redaction": [],}"#, false, false),
        ] {
            let wanted = parse_policy(text.as_bytes());
            assert_eq!(wanted.approvals.guards_push("a/x"), pushes, "{text}");
            assert_eq!(wanted.approvals_unread, unread, "{text}");
            assert_eq!(wanted.problems.len(), 1, "{text}");
        }
        assert!(parse_policy(&vec![b' '; MAX_FILE + 1]).approvals_unread);
    }
}
