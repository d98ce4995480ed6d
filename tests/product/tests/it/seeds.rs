//! The files that a new repository starts with are complete and valid.

use std::collections::BTreeSet;
use std::path::Path;

use codebutler_crds::AgentRole;
use codebutler_crds::role::{DataCollection, TOOLS};
use codebutler_models::facts::check::{self, ListedModel, RepoWorker};
use codebutler_models::facts::list;

fn seed(path: &str) -> String {
    let path = Path::new(codebutler_testbed::FOLDER).join("../seeds").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn role(name: &str) -> AgentRole {
    serde_saphyr::from_str(&seed(&format!("roles/{name}.yaml"))).unwrap()
}

/// All tools of the Repo's servers.
const SERVERS: &str = "mcp__*";
const NAMES: [&str; 6] = ["pm", "researcher", "artist", "coder", "reviewer", "lead"];

/// The words in a text that could be names of tools: those in backticks, and those in CamelCase.
fn tools_named(text: &str) -> BTreeSet<String> {
    let word = |c: char| !c.is_ascii_alphanumeric();
    let quoted = text.split('`').skip(1).step_by(2);
    let quoted = quoted.filter(|words| words.chars().all(|c| c.is_ascii_alphanumeric()));
    let camel = text.split(word).filter(|word| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().skip(1).any(|c| c.is_ascii_uppercase())
            && word.chars().any(|c| c.is_ascii_lowercase())
    });
    let plain = text.split(word).filter(|word| TOOLS.contains(word));
    quoted.chain(camel).chain(plain).map(str::to_owned).collect()
}

#[test]
fn six_roles_have_a_manifest_and_a_prompt() {
    for name in NAMES {
        let role = role(name);
        assert_eq!(role.metadata.name.as_deref(), Some(name));
        assert_eq!(role.spec.role, name);
        assert!(!role.spec.description.is_empty());
        let icon = &role.spec.display.icon;
        assert!(icon.starts_with(':') && icon.ends_with(':'), "{icon}");
        let tools = &role.spec.tools.allow;
        // Those of the Repo's servers, whichever it names.
        assert!(tools.iter().any(|t| t == SERVERS), "{tools:?}");
        let own: Vec<_> = tools.iter().filter(|t| *t != SERVERS).collect();
        assert!(own.iter().all(|t| TOOLS.contains(&t.as_str())), "{own:?}");
        assert_eq!(tools.iter().collect::<BTreeSet<_>>().len(), tools.len());
        assert!(tools.iter().any(|t| t == "SendMessage"));
    }
    assert!(seed("global.md").contains("## Architecture"));
    assert!(seed("workflows.md").contains("## bugfix"));
}

/// A model believes its prompt: it neither looks for a tool that it is told it lacks, nor gets one that
/// it is told of.
#[test]
fn prompts_and_tools_agree() {
    // Not tools: what people and programs are called, and arguments.
    let words = ["GitHub", "CodeButler", "NAME", "TMPDIR"];
    let house = house();
    for name in NAMES {
        let role = role(name);
        let tools: BTreeSet<&str> = role.spec.tools.offered().collect();
        let prompt = seed(&format!("prompts/{name}.md"));
        for text in [&prompt, &house] {
            for named in tools_named(text) {
                let is_name = named.starts_with(|c: char| c.is_ascii_uppercase());
                let known = tools.contains(named.as_str()) || words.contains(&named.as_str());
                assert!(known || !is_name, "{name} is told of `{named}`, and has {tools:?}");
            }
            let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            for (tool, denied) in [
                ("WebFetch", "no tool that reaches the web"),
                ("WebSearch", "can't search the web"),
                ("Bash", "you can't run"),
                ("Bash", "you have no shell"),
                ("Edit", "you have no tool that changes"),
            ] {
                assert!(!tools.contains(tool) || !spaced.contains(denied), "{name}: {denied}");
            }
            assert!(!spaced.contains("don't try to install"), "{name}");
        }
        // A role does not use a tool that it never hears of.
        let common = [
            "Read",
            "Glob",
            "Todo",
            "SendMessage",
            "ReadMemory",
            "Write",
            "Grep",
            "GitLog",
            "GitDiff",
        ];
        let told = tools_named(&(prompt + &house));
        let heard = |tool: &str| told.contains(tool) || common.contains(&tool) || tool == SERVERS;
        let silent: Vec<_> = tools.iter().filter(|tool| !heard(tool)).collect();
        assert!(silent.is_empty(), "{name} is told nothing of {silent:?}");
    }
}

fn house() -> String {
    let path = Path::new(codebutler_testbed::FOLDER).join("../agent/src/prompt/house.md");
    std::fs::read_to_string(path).unwrap()
}

/// The ways in which Slack lets people say it, and no other.
#[test]
fn switching_a_model_is_spelled_as_it_works() {
    assert!(house().contains("`@codebutler.<role> model NAME`"));
    for name in NAMES {
        let prompt = seed(&format!("prompts/{name}.md"));
        for slash in NAMES.map(|role| format!("`/{role}")) {
            assert!(!prompt.contains(&slash) && !house().contains(&slash), "{name}: {slash}");
        }
    }
}

/// An approval wakes the coder by itself: nobody promises to pass it on.
#[test]
fn the_pm_relays_nothing() {
    let prompt = seed("prompts/pm.md");
    assert!(prompt.contains("CodeButler wakes the coder with the plan; do not hand over"));
    assert!(!prompt.contains("begins with `@codebutler.coder`"));
}

#[test]
fn every_role_has_models_to_fall_back_on_and_bounds() {
    for name in NAMES {
        let AgentRole { spec, .. } = role(name);
        let model = &spec.model;
        for id in model.allowed() {
            let (author, slug) = id.split_once('/').unwrap_or_else(|| panic!("{name}: {id}"));
            // Versions have dots there: claude-opus-4-6 is another API's spelling.
            let dashed = slug.split('-').collect::<Vec<_>>();
            let number = |part: &str| part.len() < 3 && part.parse::<u8>().is_ok();
            assert!(!dashed.windows(2).any(|two| two.iter().all(|part| number(part))), "{id}");
            assert!(!author.is_empty() && !id.contains(' '), "{id}");
        }
        let family = |id: &str| id.split('/').next().unwrap_or_default().to_owned();
        let other = model.pool.iter().any(|id| family(id) != family(&model.default));
        assert!(other, "{name} stands still when one provider does");
        assert!(!model.pool.contains(&model.default), "{name}");
        let tiers = model.tiers.as_ref().unwrap();
        let tiers =
            [&tiers.simple, &tiers.medium, &tiers.complex].map(|tier| tier.clone().unwrap());
        assert!(
            tiers.iter().any(|tier| *tier != model.default),
            "{name}: tiers that change nothing"
        );
        for used in tiers.iter().chain([&model.default]) {
            assert!(model.stronger_than(used).is_some_and(|other| other != used), "{name}: {used}");
        }
        assert!(model.max_tokens.is_some() && model.reasoning.and_then(|r| r.effort).is_some());
        let routing = model.routing.as_ref().unwrap();
        assert_eq!(routing.require_parameters, Some(true));
        assert_eq!(routing.data_collection, Some(DataCollection::Deny));
        assert!(routing.order.is_empty(), "an order gives up staying with one provider's cache");
    }
    let turns = NAMES.map(|name| role(name).spec.limits.turns);
    assert_eq!(turns, [50, 30, 15, 200, 50, 30]);
    assert_eq!(role("coder").spec.limits.timeout_seconds, 7200);
}

#[test]
fn only_the_coder_changes_anything_but_the_team_s_memory() {
    for name in ["pm", "researcher", "artist", "reviewer", "lead"] {
        let role = role(name);
        let paths = role.spec.push.as_ref().map(|push| push.paths.clone());
        let memory = match name {
            "lead" => Some(".codebutler/**"),
            "researcher" => Some(".codebutler/research/**"),
            "artist" => Some(".codebutler/artist/**"),
            _ => None,
        };
        assert_eq!(paths, memory.map(|path| vec![path.to_owned()]));
        let has = |tool: &str| role.spec.tools.allow.iter().any(|own| own == tool);
        for tool in ["Write", "Edit", "GitCommit", "GitPush"] {
            assert!(!has(tool), "{name} has {tool}");
        }
        // Images that people chose need no coder.
        assert_eq!(has("GHCreatePR"), name == "artist", "{name}");
    }
    let images = |name: &str| role(name).spec.push.is_some_and(|push| push.planned_images);
    assert_eq!(NAMES.map(images), [false, false, true, false, false, false]);
    for name in ["pm", "reviewer"] {
        assert!(role(name).spec.tools.offered().any(|tool| tool == "Bash"), "{name} runs nothing");
    }
    assert!(role("coder").spec.push.is_some_and(|p| p.needs_approved_plan));
    assert!(!role("coder").spec.tools.allow.iter().any(|t| t == "CloseThread"));
}

/// The ids, windows and prices of a list as its provider documents it.
#[test]
fn the_shipped_models_are_on_the_providers_list_and_can_do_the_work() {
    let folder = Path::new(codebutler_testbed::FOLDER);
    let list = std::fs::read(folder.join("corpus/openrouter-models.json")).unwrap();
    let listed = list::read_models(&list).unwrap().models;
    let known = |model: &str| check::find_model(model, &listed).cloned().unwrap_or_default();
    for role in std::fs::read_dir(folder.join("../charts/codebutler/files/roles")).unwrap() {
        let text = std::fs::read_to_string(role.unwrap().path()).unwrap();
        let role: AgentRole = serde_saphyr::from_str(&text).unwrap();
        let workers = [RepoWorker { role: &role, facts: &known }];
        let find_listed = |model: &str| match check::find_model(model, &listed) {
            Some(_) => ListedModel::Usable,
            None => ListedModel::Missing { of: "the list".to_owned(), nearest: Vec::new() },
        };
        let faults = check::find_faults(&workers, &find_listed, "2026-11-22".parse().unwrap());
        assert_eq!(faults, None);
        for (field, model) in role.spec.model.talking() {
            let facts = known(model);
            assert!(facts.prices.is_some(), "{field} {model} has no price");
            let wanted = role.spec.model.reasoning.and_then(|reasoning| reasoning.effort);
            assert!(wanted.is_none() || facts.thinking.is_some(), "{field} {model} can't think");
        }
    }
}
