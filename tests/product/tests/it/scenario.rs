//! Scenario files: those that ship, and the mistakes that people make in their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use async_trait::async_trait;
use codebutler_crds::AgentRole;
use codebutler_testbed::github::{FirstCommit, GitHubOptions, GitHubServer};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::scenario::{
    CommandRun, ExpectedCommand, FirstContent, ObservedWorld, PlayableScenario, ProviderAccount,
    RemoteState, ScenarioWorld, SeenMessage, SpectatorEvent, WorldError, play_scenario,
    remote_state, run_in_checkout, scenario_schema,
};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("scenarios")
}

fn shipped(name: &str) -> (PlayableScenario, PathBuf) {
    let path = folder().join(format!("{name}.yaml"));
    let scenario = PlayableScenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let FirstContent::Folder(content) = scenario.repository.content.clone() else {
        panic!("{name} has no folder")
    };
    (scenario, content)
}

fn steps<'a>(script: &'a ModelScript, role: &str) -> impl Iterator<Item = &'a ScriptStep> {
    script.0[role].conversations.iter().flat_map(|c| &c.steps)
}

#[test]
fn the_edits_of_the_shipped_scenarios_apply() {
    let (scenario, content) = shipped("bugfix");
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut edits = 0;
    for call in steps(&scenario.models, "coder").flat_map(|s| &s.tools).filter(|t| t.name == "Edit")
    {
        let path = call.arguments["path"].as_str().unwrap();
        let read = || std::fs::read_to_string(content.join(path)).unwrap();
        let text = files.entry(path.to_owned()).or_insert_with(read);
        for edit in call.arguments["edits"].as_array().unwrap() {
            let (old, new) = (edit["old"].as_str().unwrap(), edit["new"].as_str().unwrap());
            assert_eq!(text.matches(old).count(), 1, "in {path}:\n{text}\nonce:\n{old}");
            *text = text.replacen(old, new, 1);
            edits += 1;
        }
    }
    assert_eq!(edits, 5);
    insta::assert_snapshot!(files["src/clock.rs"]);
}

#[test]
fn the_lines_that_the_shipped_scenarios_speak_of_exist() {
    let reference = regex::Regex::new(r"`([\w./-]+\.\w+):(\d+)`").unwrap();
    for name in ["bugfix", "question"] {
        let (scenario, content) = shipped(name);
        let said = steps(&scenario.models, "pm").filter_map(|s| s.say.clone());
        let sent = steps(&scenario.models, "pm").flat_map(|s| &s.tools);
        let sent = sent.filter_map(|t| Some(t.arguments.get("message")?.as_str()?.to_owned()));
        let text = said.chain(sent).collect::<Vec<_>>().join("\n");
        let mut found = 0;
        for reference in reference.captures_iter(&text) {
            let (path, line): (_, usize) = (&reference[1], reference[2].parse().unwrap());
            let file = std::fs::read_to_string(content.join(path)).unwrap();
            let line = file.lines().nth(line - 1).unwrap_or_else(|| panic!("no {path}:{line}"));
            assert!(line.trim().len() > 2, "{path} says nothing there: {line}");
            found += 1;
        }
        assert!(found >= 4, "{name}");
    }
}

#[test]
fn the_shipped_scenarios_use_only_tools_that_the_roles_have() {
    for name in ["bugfix", "question"] {
        let (scenario, _) = shipped(name);
        for role in scenario.models.0.keys() {
            let manifest = folder().join(format!("../../seeds/roles/{role}.yaml"));
            let manifest = std::fs::read_to_string(manifest).unwrap();
            let own: AgentRole = serde_saphyr::from_str(&manifest).unwrap();
            for call in steps(&scenario.models, role).flat_map(|s| &s.tools) {
                assert!(own.spec.tools.allow.contains(&call.name), "{role}: {}", call.name);
            }
        }
    }
}

#[test]
fn the_documented_scenario_is_one() {
    let guide = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let example = guide.split("```yaml\n").nth(1).and_then(|s| s.split("```").next()).unwrap();
    parse(example).unwrap();
}

/// The committed schema is that of the types. `UPDATE_SCHEMA=1` writes it.
#[test]
fn the_schema_is_up_to_date() {
    let path = folder().join("schema.json");
    let current = serde_json::to_string_pretty(&scenario_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let how = "run `UPDATE_SCHEMA=1 cargo test -p codebutler-product --test it schema`";
    assert!(committed == current, "tests/scenarios/schema.json is out of date: {how}");
}

/// An editor accepts the shipped files by the schema, and not the mistakes that a schema can see.
#[tokio::test(flavor = "multi_thread")]
async fn the_schema_fits_the_files() {
    let folder = folder().display().to_string();
    let packages = &["jsonschema==4.26.0", "ruamel.yaml==0.19.1"];
    crate::python::run("scenario_schema.py", packages, &[("FOLDER", folder)]).await;
}

const GOOD: &str = "\
name: tiny
description: A greeting.
repository:
  name: acme/tiny
  files: {README.md: hi}
users: [ana]
conversation:
  - {user: ana, says: hello}
  - wait: {message: {from: pm, contains: hi}}
models:
  pm:
    - {say: hi, usage: {prompt: 1, completion: 1, cost: 0.5}}
expect:
  messages:
    - {from: pm, contains: hi}
  files: unchanged
  commits: {count: 0}
  cost: {total: 0.5, roles: {pm: 0.5}}
";

fn parse(text: &str) -> Result<PlayableScenario, String> {
    PlayableScenario::parse(text, "my.yaml", &folder()).map_err(|e| e.to_string())
}

#[test]
fn a_mistake_is_said_by_line_and_field() {
    parse(GOOD).unwrap();
    let mut report = Vec::new();
    for (from, to) in [
        ("  files: unchanged\n", ""),
        ("    - {from: pm, contains: hi}\n  files", "  files"),
        ("    - {from: pm, contains: hi}\n", "    []\n"),
        ("commits: {count: 0}", "commits: {count: zero}"),
        ("total: 0.5", "total: half"),
        ("cost: 0.5}", "cost: 1,5}"),
        ("say: hi", "sya: hi"),
        ("{say: hi, ", "{"),
        ("from: pm, contains: hi}\n  files", "from: pn, contains: hi}\n  files"),
        ("user: ana, says", "user: bob, says"),
        ("says: hello", "says: hello, replies: you"),
        ("wait: {message: {from: pm, contains: hi}}", "wait: {messages: {from: pm}}"),
        ("contains: hi}}", "matches: '('}}"),
        ("files: {README.md: hi}", "from: nowhere"),
        ("name: acme/tiny", "name: tiny"),
        ("users: [ana]", "users: [ana"),
        ("{user: ana, says: hello}", "{user: ana, replies: hello}"),
        ("users: [ana]", "users: [ana]\nroles: [coder]"),
        ("- {say: hi,", "- {say: hi, fault: {status: 200},"),
        ("files: unchanged", "files: unchangd"),
        ("- {user: ana, says: hello}", "- {kubectl_apply: {kind: Thread}}"),
        ("- {user: ana, says: hello}", "- {kubectl_apply: {}, user: ana}"),
        ("cost: {total", "threads: [{state: Active, phse: pm}]\n  cost: {total"),
        ("cost: {total", "pull_requests: [opened]\n  cost: {total"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).err();
        report.push(error.unwrap_or_else(|| format!("no mistake seen: {to}")));
    }
    insta::assert_snapshot!(report.join("\n"));
}

/// A world in which the pm answers at once and what a test wants goes wrong.
struct Pretend {
    observed: Mutex<ObservedWorld>,
    deaf: bool,
}

#[async_trait]
impl ScenarioWorld for Pretend {
    async fn post(
        &self,
        user: &str,
        conversation: Option<&str>,
        text: &str,
    ) -> Result<String, WorldError> {
        assert_eq!(conversation, None);
        let mut observed = self.observed.lock().unwrap();
        let said = |from: &str, text: &str, ts: &str| SeenMessage {
            conversation: "1.000000".into(),
            ts: ts.into(),
            from: from.into(),
            text: text.into(),
            ..SeenMessage::default()
        };
        observed.messages.push(said(user, text, "1.000000"));
        if !self.deaf {
            observed.messages.push(said("pm", "hi there", "2.000000"));
        }
        Ok("1.000000".to_owned())
    }
    async fn click(&self, _: &str, _: &SeenMessage, _: &str) -> Result<(), WorldError> {
        Ok(())
    }
    async fn react(&self, _: &str, _: &SeenMessage, _: &str) -> Result<(), WorldError> {
        Ok(())
    }
    async fn apply(&self, object: &Value) -> Result<(), WorldError> {
        let mut thread = object.clone();
        thread["status"]["slack"]["ts"] = "3.000000".into();
        self.observed.lock().unwrap().threads.push(thread);
        Ok(())
    }
    async fn observe(&self) -> Result<ObservedWorld, WorldError> {
        Ok(self.observed.lock().unwrap().clone())
    }
    async fn remote(&self) -> Result<RemoteState, WorldError> {
        Ok(RemoteState::default())
    }
    async fn account(&self) -> Result<ProviderAccount, WorldError> {
        Ok(ProviderAccount::default())
    }
    async fn run(&self, _: &ExpectedCommand) -> Result<CommandRun, WorldError> {
        Ok(CommandRun::default())
    }
}

#[tokio::test]
async fn a_player_waits_tells_and_judges() {
    let mut scenario = parse(GOOD).unwrap();
    scenario.settings.within = 0;
    scenario.settings.settle = 0;
    let mut world = Pretend { observed: Mutex::default(), deaf: false };
    let mut events = Vec::new();
    let report = play_scenario(&scenario, &world, &mut |e| events.push(e)).await.unwrap();
    let messages: Vec<&str> = events
        .iter()
        .filter_map(
            |e| if let SpectatorEvent::Message(m) = e { Some(m.text.as_str()) } else { None },
        )
        .collect();
    assert_eq!(messages, ["hello", "hi there"]);
    // Nothing was billed and nothing recorded, so this world does not pass.
    let failed: Vec<&str> =
        report.outcomes.iter().filter(|o| !o.ok).map(|o| o.what.as_str()).collect();
    assert_eq!(
        failed,
        [
            "the models' script was played to its end",
            "cost on the Thread: 0.50 USD",
            "cost billed by the provider: 0.50 USD",
            "cost of pm on the Thread: 0.50 USD",
            "cost of pm billed: 0.50 USD",
        ]
    );

    world = Pretend { observed: Mutex::default(), deaf: true };
    let report = play_scenario(&scenario, &world, &mut |_| ()).await.unwrap();
    assert_eq!(report.outcomes[0].what, "step 2: wait for a message from pm with `hi`");
    assert_eq!(report.outcomes[0].detail, "not within 0 s");
}

#[tokio::test]
async fn the_remote_and_commands_in_a_clone_are_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let server = GitHubServer::start(dir.path(), GitHubOptions::default()).await.unwrap();
    let (_, content) = shipped("question");
    let content = FirstCommit::Folder(content);
    let remote = server.create_repo("acme", "ratelimit", content, "main").await.unwrap();
    let start = remote.head("main").await.unwrap();
    remote.commit("main", "ana", "Say more", &[("NEWS", Some("more\n"))]).await.unwrap();
    let state = remote_state(&remote, "main", &start).await.unwrap();
    assert_eq!(state.commits.len(), 1);
    assert_eq!(state.changed, ["NEWS"]);
    assert_eq!(state.files["NEWS"], "more\n");
    assert_eq!(state.branches, ["main"]);
    let run = async |run: &str, within| {
        let command = ExpectedCommand { run: run.to_owned(), exit: 0, output: Vec::new(), within };
        run_in_checkout(&remote, "main", &command).await.unwrap()
    };
    let ran = run("cat NEWS; echo oops >&2; exit 3", 60).await;
    assert_eq!((ran.exit, ran.output.as_str()), (Some(3), "more\noops\n"));
    assert_eq!(run("sleep 60", 0).await.exit, None);
}
