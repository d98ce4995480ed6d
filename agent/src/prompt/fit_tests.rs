//! Each role's text against what the role has: its tools, their arguments, its rights, and the team.

use std::collections::{BTreeMap, BTreeSet};

use super::tests::{guides, session};
use super::*;
use crate::toolbox::protocol::SparseExtent;
use crate::tools::RoleTools;
use codebutler_guides::seeds;
use codebutler_wire::StackedBranch;

/// The shipped roles with their tools.
fn shipped_roles() -> BTreeMap<String, Vec<String>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/roles");
    let tools = |role: &str| {
        let text = std::fs::read_to_string(folder.join(format!("{role}.yaml"))).unwrap();
        let (_, listed) = text.split_once("    allow:\n").unwrap();
        let listed = listed.lines().map_while(|line| line.strip_prefix("      - "));
        listed.map(str::to_owned).collect()
    };
    seeds::role_names().map(|role| (role.to_owned(), tools(role))).collect()
}

fn words_of(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric()).collect()
}

/// Single words in backticks.
fn code_words(text: &str) -> BTreeSet<&str> {
    let code = text.split('`').skip(1).step_by(2);
    let name = |code: &str| code.split(':').next().map(str::len);
    let code = code.filter_map(|code| code.get(..name(code)?));
    code.filter(|word| word.chars().all(char::is_alphanumeric)).collect()
}

/// Names of the arguments of tools, at any depth.
fn argument_names(tools: &[String]) -> BTreeSet<String> {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        if let Some(fields) = value.get("properties").and_then(Value::as_object) {
            found.extend(fields.keys().cloned());
        }
        let parts: Vec<&Value> = match value {
            Value::Object(fields) => fields.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        for part in parts {
            collect(part, found);
        }
    }
    let mut found = BTreeSet::new();
    RoleTools::new(tools).specs().iter().for_each(|spec| collect(spec, &mut found));
    found
}

#[test]
fn a_role_is_only_told_of_tools_and_arguments_that_it_has() {
    let all: Vec<String> = codebutler_wire::TOOLS.map(str::to_owned).to_vec();
    let roles = shipped_roles();
    assert_eq!(roles.len(), 6);
    for (role, tools) in &roles {
        let own = seeds::find_seed(&format!("{role}.md")).unwrap();
        let mut session = RoleSession { tools: tools.clone(), ..session() };
        session.test = Some("cargo test".into());
        session.stacked_on = Some(StackedBranch { item: "i-1".into(), commit: "0123456".into() });
        let mut here = guides();
        here.surroundings.sparse = Some(SparseExtent::default());
        let facts = changing_facts(&here, &session) + &facts::lasting_facts(&here, &session);
        for text in [HOUSE, own, &facts] {
            let named: Vec<_> =
                all.iter().filter(|tool| words_of(text).contains(tool.as_str())).collect();
            // An everyday word is a tool only as code.
            let plain = ["Read", "Write", "Edit", "Todo"];
            let lacking = named.iter().filter(|tool| !tools.contains(tool));
            let lacking: Vec<_> = lacking.filter(|tool| !plain.contains(&tool.as_str())).collect();
            assert_eq!(lacking, Vec::<&&String>::new(), "{role} is told of tools that it lacks");
        }
        let (have, known) = (argument_names(tools), argument_names(&all));
        for word in code_words(own)
            .into_iter()
            .chain(code_words(HOUSE))
            .filter(|word| known.contains(*word))
        {
            assert!(
                have.contains(word),
                "{role} is told of `{word}`, which none of its tools takes"
            );
        }
        for address in own.split("@codebutler.").skip(1) {
            let named: String = address.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(roles.contains_key(&named), "{role} is to address {named}");
        }
    }
}

/// Descriptions name no tool that the role lacks: a model would call it, and be refused.
#[test]
fn descriptions_of_a_roles_tools_name_no_other_tool() {
    let all: Vec<String> = codebutler_wire::TOOLS.map(str::to_owned).to_vec();
    let plain = ["Read", "Write", "Edit", "Todo"];
    for (role, tools) in shipped_roles() {
        for spec in RoleTools::new(&tools).specs() {
            let told = spec.to_string();
            let words = words_of(&told);
            let named = all.iter().filter(|tool| words.contains(tool.as_str()));
            let lacking = named.filter(|tool| !tools.contains(tool));
            let lacking: Vec<_> = lacking.filter(|tool| !plain.contains(&tool.as_str())).collect();
            assert_eq!(lacking, Vec::<&String>::new(), "{role}: {told}");
        }
    }
}

/// Steps are followed from the first to the last: what has to come before another one stands before it.
#[test]
fn the_coders_steps_stand_in_the_order_in_which_they_are_done() {
    let coder = seeds::find_seed("coder.md").unwrap();
    let steps = [
        "Run the nearby tests first",
        "see a test fail first",
        "`moment: before`",
        "Edit code",
        "GitDiff",
        "`moment: after`",
        "GitCommit",
        "GitPush",
        "GHCreatePR",
        "@codebutler.reviewer",
    ];
    let places: Vec<_> = steps.iter().map(|step| coder.find(step)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
}

#[test]
fn a_role_is_told_of_rights_that_it_has() {
    for (role, tools) in shipped_roles() {
        let has = |tool: &str| tools.iter().any(|own| own == tool);
        let mut session = RoleSession { tools: tools.clone(), ..session() };
        (session.test, session.hosts) = (Some("cargo test".into()), vec!["crates.io".into()]);
        let facts =
            changing_facts(&guides(), &session) + &facts::lasting_facts(&guides(), &session);
        for (words, tool) in [
            ("Test command", "Bash"),
            ("before you push", "GitPush"),
            ("Commands reach `crates.io`", "Bash"),
            ("Programs:", "Bash"),
            ("Bash runs in", "Bash"),
            ("Hooks of the repository", "GitCommit"),
            ("retrospective before a merge", "ProposeLearnings"),
        ] {
            assert_eq!(facts.contains(words), has(tool), "{role}: {words}\n{facts}");
        }
        assert!(
            facts.contains("This run ends after 50 model calls or 1 minute."),
            "{role}: {facts}"
        );
    }
}

#[test]
fn commands_in_a_copy_say_so_and_rules_of_folders_are_named() {
    let session = RoleSession { tools: vec!["Bash".into()], ..session() };
    let mut guides = guides();
    let told = facts::lasting_facts(&guides, &session);
    assert!(
        told.contains("Bash runs in the worktree itself")
            && told.contains("Commands reach no host"),
        "{told}"
    );
    guides.surroundings.copies = true;
    guides.surroundings.nested = vec!["web/AGENTS.md".into()];
    let told = facts::lasting_facts(&guides, &session);
    assert!(told.contains("Bash runs in a copy") && told.contains("`web/AGENTS.md`"), "{told}");
}
