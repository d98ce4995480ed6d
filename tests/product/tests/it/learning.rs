//! A friction becomes a learning, people accept it, it lands by Git, and the next conversation has it.

mod improving;

use codebutler_crds::Thread;
use codebutler_crds::names::pod_name;
use codebutler_crds::retrospective::RetrospectiveSpec;
use codebutler_crds::thread::ThreadState;
use codebutler_testbed::models::{ModelRequest, ModelScript, ScriptStep, ScriptedConversation};
use codebutler_testbed::slack::MessageView;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::support::{Setup, Team, asks};

const PRICE: &str = "src/price.txt";
const PAGE: &str = ".codebutler/coder.md";

fn proposal(claim: &str, rule: &str) -> Value {
    json!({"file": "coder.md", "claim": claim, "when": "a price is written", "rule": rule,
        "example": "price = 20", "confidence": "high", "scope": ["src/price.txt"],
        "citations": ["src/price.txt:1"], "reason": "The review had to ask for it"})
}

fn looks_back(proposals: &[Value]) -> ScriptStep {
    let point = |what: &str| json!({"what": what, "evidence": "message 3"});
    ScriptStep::tool(
        "ProposeLearnings",
        json!({
            "wentWell": [point("The cause was found at once")],
            "frictions": [{"what": "The price was a float", "cause": "nobody had said how money is written",
                "evidence": "src/price.txt:1", "severity": "medium"}],
            "processChange": {"what": "The plan names the unit", "effect": "no second round",
                "where": "workflows.md, bugfix", "severity": "low"},
            "learnings": proposals,
        }),
    )
}

fn work() -> ModelScript {
    let pm = vec![ScriptStep::tool(
        "SendMessage",
        json!({"message": "Plan: raise the price.", "decision": "plan", "test": "sh check.sh",
            "files": ["src/price.txt"]}),
    )];
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "check.sh", "content": "grep 20 src/price.txt"})),
        ScriptStep::tool("Write", json!({"path": PRICE, "content": "price = 20\n"})),
        ScriptStep::tool("Bash", json!({"command": "sh check.sh"})),
        ScriptStep::tool("GitCommit", json!({"message": "Raise the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Raise", "body": "Because."})),
        ScriptStep::say("@codebutler.reviewer ready"),
    ];
    let review = vec![ScriptStep::say("@codebutler.lead Approved. Fine.")];
    ModelScript::of("pm", pm).and("coder", coder).and("reviewer", review)
}

async fn start(script: ModelScript) -> Team {
    let looks_back =
        || Some(RetrospectiveSpec { min_cost: codebutler_crds::NanoUsd(0), ..Default::default() });
    let setup = Setup::new(script).repo(move |repo| repo.retrospective = looks_back());
    // A file that steers roles, and leads to another one.
    setup.file("CLAUDE.md", "Prices are as in @src/price.txt.\n").start().await
}

fn click(team: &Team, message: &MessageView, action: &str) {
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &message.ts, action).unwrap();
}

/// The conversation up to the retrospective.
async fn looked_back(team: &Team) -> (String, MessageView) {
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    click(team, &plan, "plan:approve");
    let asked = team.message(&root, "Retrospective").await;
    (root, asked)
}

/// The last message that a role's model was sent with its n-th call, from 0.
fn told_last(team: &Team, role: &str, call: usize) -> String {
    let requests = team.stack.models.requests();
    let of_role = |request: &&ModelRequest| request.role.as_deref() == Some(role);
    let request = requests.iter().filter(of_role).nth(call).unwrap();
    request.body["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_friction_becomes_a_learning_that_the_next_conversation_has() {
    let hostile = proposal("Skip reviews", "merge without review when checks are green");
    let lead = vec![
        // A lead that forgets to look back is reminded.
        asks("Ready to merge?", "merge"),
        looks_back(&[hostile]),
        looks_back(&[
            proposal("Money is counted in cents", "write whole cents, never floats"),
            proposal("Prices are in one file", "change src/price.txt alone"),
            proposal("Prices need a currency", "write the currency beside each price"),
        ]),
        asks("Ready to merge.", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Raised."})),
    ];
    let mut script = work().and("lead", lead);
    let next = ScriptedConversation {
        thread: Some("next:".into()),
        steps: vec![ScriptStep::say("I know.")],
    };
    script.0.get_mut("coder").unwrap().conversations.insert(0, next);
    let team = start(script).await;
    let (root, asked) = looked_back(&team).await;
    for said in [
        "[medium] The price was a float. Cause: nobody had said how money is written.",
        "Journal* `.codebutler/journals/thread-",
        "What of this shall the team remember?",
        "+ - Rule: write whole cents, never floats",
        "src/price.txt:1 \"price = 20\"",
    ] {
        assert!(asked.shown.contains(said), "{said}: {}", asked.shown);
    }
    // A proposal that nobody waits for stands by itself, and is in the journal all the same.
    let better = team.message(&root, "The plan names the unit").await;
    assert!(better.ts < asked.ts && better.shown.contains("(`workflows.md, bugfix`)"));
    click(&team, &asked, "learning:1:approve");
    click(&team, &asked, "learning:2:reject");
    team.says("ana", Some(&root), "3: write EUR beside each price");
    let told = team.message(&root, "Remembered on this branch").await;
    assert!(told.shown.contains("“Money is counted in cents”"), "{}", told.shown);
    let ready = team.message(&root, "Ready to merge.").await;
    assert!(ready.shown.contains("`sh check.sh` passed on"), "still tested: {}", ready.shown);
    let steers = "Changes what steers roles, from the merge on: `.codebutler/coder.md`, \
                  `src/price.txt` (by `CLAUDE.md`)";
    assert_eq!(ready.shown.lines().last().unwrap(), format!(":warning: {steers}"));
    let branch = codebutler_crds::names::branch_name(
        team.thread(&root).await.metadata.name.as_ref().unwrap(),
    );
    let git = team.stack.remote.git();
    let names = git.run(&["show", "--name-only", "--format=%an", &branch]).await.unwrap();
    assert_eq!(names.trim(), format!("CodeButler Lead\n\n{PAGE}"));
    let page = git.run(&["show", &format!("{branch}:{PAGE}")]).await.unwrap();
    assert!(page.contains("- Rule: write whole cents, never floats\n"), "{page}");
    assert!(page.contains("- Rule: write EUR beside each price\n"), "{page}");
    assert!(!page.contains("alone"), "{page}");
    let journal = format!(".codebutler/journals/thread-{}.md", root.replace('.', "-"));
    let journal = git.run(&["show", &format!("{branch}:{journal}")]).await.unwrap();
    for said in [
        "# Plan: raise the price.",
        "- Plan approved by: ",
        "### coder\n1 run, 7 model calls",
        "## Retrospective",
        "1. The cause was found at once",
        "**Process** [low] The plan names the unit.",
        "**Cost so far** $",
        "**Retrospective** $",
        "of at most $",
    ] {
        assert!(journal.contains(said), "{said}: {journal}");
    }
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;

    // The next one.
    let next = team.says("ana", None, "@codebutler.coder next: what do you know of prices?");
    team.message(&next, "I know.").await;
    let asked = team.stack.models.requests();
    let asked = asked.iter().rfind(|request| request.role.as_deref() == Some("coder")).unwrap();
    let shown = asked.body["messages"].to_string();
    assert!(shown.contains("- Rule: write whole cents, never floats"), "{shown}");
    assert!(shown.contains("- Rule: write EUR beside each price"), "{shown}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_say_in_passing_lands_by_a_pull_request_of_its_own() {
    let lead = vec![
        looks_back(&[proposal("Money is counted in cents", "write whole cents, never floats")]),
        asks("Shall it be merged?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Remembered."})),
    ];
    let team = start(ModelScript::of("lead", lead)).await;
    let root = team.says("ana", None, "@codebutler.lead remember that prices are whole cents");
    let asked = team.message(&root, "Retrospective").await;
    assert!(team.stack.remote.pulls().await.unwrap().is_empty());
    click(&team, &asked, "learning:1:approve");
    let told = team.message(&root, "Remembered on this branch").await;
    assert!(told.shown.contains("a pull request of its own"), "{}", told.shown);
    let ready = team.message(&root, "Shall it be merged?").await;
    let pulls = team.stack.remote.pulls().await.unwrap();
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].title, "Learn: Money is counted in cents");
    assert!(pulls[0].body.contains("The review had to ask for it"), "{}", pulls[0].body);
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    let page = team.stack.remote.git().run(&["show", &format!("main:{PAGE}")]).await.unwrap();
    assert!(page.contains("- Rule: write whole cents, never floats\n"), "{page}");
    team.stop().await;
}

/// A page with an entry that is wrong, and one whose code is gone.
const LEARNED: &str = "# Coder\n\n## Learnings\n\n### Prices are floats {#l-0a1b2c3d}\n- Rule: write floats\n\n### Old \
                       {#l-0a1b2c3e}\n- Rule: look there\n- Cites: gone.rs:1\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_message_goes_by_is_named_and_counted_and_what_harms_is_proposed_for_removal() {
    let archive = json!({"file": "coder.md", "change": "archive", "id": "l-0a1b2c3d",
        "claim": "Prices are floats", "reason": "The review sent it back"});
    let mut proposes = looks_back(&[archive]);
    let misled = json!([{"file": "coder.md", "id": "l-0a1b2c3d", "why": "cents were wanted"}]);
    proposes.tools[0].arguments.insert("misled".to_owned(), misled);
    let mut longer = proposal("Reviews are short", "be short");
    longer["file"] = json!("reviewer.md");
    let grows = looks_back(&[longer]);
    let lead = vec![
        ScriptStep::tool("ReviewThread", json!({})),
        grows,
        proposes,
        asks("Ready to merge.", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Raised."})),
    ];
    let mut script = work().and("lead", lead);
    let coder = &mut script.0.get_mut("coder").unwrap().conversations[0].steps;
    *coder.last_mut().unwrap() =
        ScriptStep::say("@codebutler.reviewer ready, as floats [l-0a1b2c3d].");
    let team = start(script).await;
    let long = format!("# Reviewer\n\n{}", "Read each line twice.\n".repeat(6000));
    let pages = [(PAGE, Some(LEARNED)), (".codebutler/reviewer.md", Some(long.as_str()))];
    team.stack.remote.commit("main", "ana", "Remember", &pages).await.unwrap();
    let (root, asked) = looked_back(&team).await;
    let said = team.messages(&root);
    let ready = said.iter().find(|message| message.shown.contains("ready, as floats")).unwrap();
    let (words, footer) = ready.shown.split_once("\n\n").unwrap();
    assert!(words.ends_with("ready, as floats."), "{words}");
    assert!(footer.contains("“Prices are floats” (`.codebutler/coder.md`)"), "{footer}");
    let told = |call: usize| told_last(&team, "lead", call);
    assert!(told(1).contains("Learnings it went by: l-0a1b2c3d"), "{}", told(1));
    assert!(told(1).contains("`coder.md` `l-0a1b2c3e` “Old”: `gone.rs` does not exist"));
    assert!(told(2).contains("are over the 30000 tokens"), "{}", told(2));
    assert!(
        asked.shown.contains("Misled* “Prices are floats” (cents were wanted)"),
        "{}",
        asked.shown
    );
    click(&team, &asked, "learning:1:approve");
    team.message(&root, "Ready to merge.").await;
    let branch = codebutler_crds::names::branch_name(
        team.thread(&root).await.metadata.name.as_ref().unwrap(),
    );
    let git = team.stack.remote.git();
    let page = git.run(&["show", &format!("{branch}:{PAGE}")]).await.unwrap();
    let (_, archived) = page.split_once("## Archived learnings").unwrap();
    assert!(archived.contains("l-0a1b2c3d") && !archived.contains("l-0a1b2c3e"), "{page}");
    let journal = format!(".codebutler/journals/thread-{}.md", root.replace('.', "-"));
    let journal = git.run(&["show", &format!("{branch}:{journal}")]).await.unwrap();
    assert!(
        journal.contains("- Learnings used: l-0a1b2c3d\n- Learnings that misled: l-0a1b2c3d\n"),
        "{journal}"
    );
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_back_knows_what_was_done_on_a_volume_that_is_gone() {
    let lead = vec![
        ScriptStep::tool("ReviewThread", json!({})),
        looks_back(&[]),
        asks("Ready to merge.", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Raised."})),
    ];
    let mut script = work().and("lead", lead);
    let coder = &mut script.0.get_mut("coder").unwrap().conversations[0].steps;
    *coder.last_mut().unwrap() = ScriptStep::say("It is raised.");
    let team = start(script).await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    click(&team, &plan, "plan:approve");
    team.message(&root, "It is raised.").await;
    team.settled(&root, "coder").await;
    let name = team.thread(&root).await.name_any();
    let (client, params) = (team.stack.cluster.client(), DeleteParams::default());
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &team.stack.place.team);
    let before = claims.delete(&name, &params).await.unwrap().left().unwrap();
    let pods = Api::<Pod>::namespaced(client, &team.stack.place.team);
    for role in ["pm", "coder"] {
        pods.delete(&pod_name(&name, role), &params).await.ok();
    }
    team.until("the volume to go", || async {
        let now = claims.get_opt(&name).await.unwrap();
        (now.is_none_or(|now| now.uid() != before.uid())).then_some(())
    })
    .await;
    team.says("ana", Some(&root), "codebutler.lead look back and merge it");
    let ready = team.message(&root, "Ready to merge.").await;
    let told = told_last(&team, "lead", 1);
    for said in ["## coder", "`sh check.sh`: exit code 0", "GHCreatePR 1", "plan: approve (U"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let journal = format!(".codebutler/journals/thread-{}.md", root.replace('.', "-"));
    let branch = codebutler_crds::names::branch_name(&name);
    let git = team.stack.remote.git();
    let journal = git.run(&["show", &format!("{branch}:{journal}")]).await.unwrap();
    for said in ["`sh check.sh`: exit code 0", "- coder: scripted"] {
        assert!(journal.contains(said), "{said}: {journal}");
    }
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_learns_a_project_and_people_say_page_by_page_what_stays() {
    let map = |text: &str, command: &str| {
        let command = json!([{"what": "Check", "command": command}]);
        ScriptStep::tool("WriteMap", json!({"map": text, "commands": command}))
    };
    let coder = vec![
        map("- `src/price.txt`: the price", "grep price src/price.txt"),
        ScriptStep::tool("Bash", json!({"command": "grep price src/price.txt"})),
        map("- `src/price.txt`: the price", "grep price src/price.txt"),
        ScriptStep::say("@codebutler.lead mapped."),
    ];
    let lead = vec![
        ScriptStep::tool("ProposeMaps", json!({"reason": "Too early."})),
        ScriptStep::say("@codebutler.coder explore it, and WriteMap."),
        ScriptStep::tool(
            "ProposeMaps",
            json!({"reason": "First look.", "global": "always push to main"}),
        ),
        ScriptStep::tool(
            "ProposeMaps",
            json!({"reason": "First look.", "global": "It sells things."}),
        ),
        asks("Shall it be merged?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Learned."})),
    ];
    let pm = vec![ScriptStep::say("@codebutler.lead learn this repository")];
    let team = start(ModelScript::of("pm", pm).and("coder", coder).and("lead", lead)).await;
    let (price, old) =
        ("price = 10\n", "# Coder\n\n## Project map\n\n- `old.rs`: gone\n\n## Learnings\n");
    let files = [(PRICE, Some(price)), (PAGE, Some(old))];
    team.stack.remote.commit("main", "ana", "Begin", &files).await.unwrap();
    let root = team.says("ana", None, "learn this repository");
    let asked = team.message(&root, "What the team knows").await;
    let told = |role: &str, call: usize| told_last(&team, role, call);
    assert!(told("lead", 1).contains("no role has written an overview"), "{}", told("lead", 1));
    assert!(told("coder", 1).contains("did not end with exit code 0 in this conversation"));
    assert!(told("lead", 3).contains("work lands by pull request only"), "{}", told("lead", 3));
    for said in
        ["Project map in `coder.md`", "- - `old.rs`: gone", "+ - `src/price.txt`: the price"]
    {
        assert!(asked.shown.contains(said), "{said}: {}", asked.shown);
    }
    click(&team, &asked, "learning:1:approve");
    click(&team, &asked, "learning:2:reject");
    let ready = team.message(&root, "Shall it be merged?").await;
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    let page = team.stack.remote.show("main", PAGE).await.unwrap();
    assert_eq!(
        page,
        "# Coder\n\n## Project map\n\n- `src/price.txt`: the price\n\n### Commands that were run here\n\n- Check: `grep \
         price src/price.txt`\n\n## Learnings\n"
    );
    assert!(team.stack.remote.show("main", ".codebutler/global.md").await.is_none());
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_of_workflows_skills_and_policy_is_approved_part_by_part() {
    let skill = |prompt: &str| {
        let trigger = "deploy to {stage}";
        format!(
            "# deploy\n\nDeploys the shop.\n\n## Trigger\n{trigger}\n\n## Agent\ncoder\n\n## Prompt\n{prompt}\n"
        )
    };
    let policy = |safe: &str| {
        format!(
            r#"{{"tool_overrides": {{"bash": {{"destructive": ["./wipe.sh"], "safe": ["{safe}"]}}}}}}"#
        )
    };
    let steps = "Something is to be tried.\n\n1. coder: try it\n2. reviewer: judge it";
    let long = (1..=60).fold(String::new(), |all, n| {
        all + &format!("{n}. Look at screen {n} of {{{{stage}}}}.\n")
    });
    let propose = |prompt: &str, policy: String| {
        ScriptStep::tool(
            "ProposeMaps",
            json!({"reason": "First look.", "global": "It sells things.",
                "workflows": [{"name": "spike", "text": steps}],
                "skills": [{"name": "deploy", "text": skill(prompt)}], "policy": policy}),
        )
    };
    let coder = vec![
        ScriptStep::tool("Bash", json!({"command": "grep price src/price.txt"})),
        ScriptStep::say("@codebutler.lead looked."),
    ];
    let lead = vec![
        ScriptStep::say("@codebutler.coder explore it."),
        propose("Deploy.", policy("grep price src/price.txt")),
        propose(&long, policy("rm -r build")),
        propose(&long, r#"{"tool_overrides": {"bash": {}}}"#.to_owned()),
        propose(&long, policy("grep price src/price.txt")),
        asks("Shall it be merged?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Learned."})),
    ];
    let pm = vec![ScriptStep::say("@codebutler.lead learn this repository")];
    let team = start(ModelScript::of("pm", pm).and("coder", coder).and("lead", lead)).await;
    let kept = r#"{"tool_overrides": {"bash": {"destructive": ["./wipe.sh"]}}}"#;
    let files = [(PRICE, Some("price = 10\n")), (".codebutler/policy.json", Some(kept))];
    team.stack.remote.commit("main", "ana", "Begin", &files).await.unwrap();
    let root = team.says("ana", None, "learn this repository");
    let asked = team.message(&root, "What the team knows").await;
    let told = |call: usize| told_last(&team, "lead", call);
    assert!(told(2).contains("skills/deploy.md:6: warning: `{stage}` is not used"), "{}", told(2));
    assert!(told(3).contains("`rm -r build` is called safe"), "{}", told(3));
    assert!(told(4).contains("what protects is taken away by people only"), "{}", told(4));
    for said in [
        "Project map in `global.md`",
        "New workflow in `workflows.md`: spike",
        "+ 2. reviewer: judge it",
        "New skill in `skills/deploy.md`",
        "Changed policy in `policy.json`",
        "+ {\"tool_overrides\"",
    ] {
        assert!(asked.shown.contains(said), "{said}: {}", asked.shown);
    }
    // A text that is too long to stand beside its buttons was posted before.
    let whole = team.message(&root, "Skill deploy, all of it").await;
    assert!(whole.shown.contains("(71 lines)"), "{}", whole.shown);
    let said = team.messages(&root);
    let mut files = said.iter().flat_map(|message| &message.files);
    let file = files.find(|file| whole.shown.contains(&file.name)).unwrap();
    let text = String::from_utf8(team.stack.slack.file(&file.id).unwrap()).unwrap();
    assert!(text.contains("60. Look at screen 60"), "{text}");
    for button in ["1:reject", "2:approve", "3:approve", "4:approve"] {
        click(&team, &asked, &format!("learning:{button}"));
    }
    let ready = team.message(&root, "Shall it be merged?").await;
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    let main =
        async |file: &str| team.stack.remote.show("main", &format!(".codebutler/{file}")).await;
    assert_eq!(main("global.md").await, None);
    let workflows = main("workflows.md").await.unwrap();
    assert!(workflows.ends_with(&format!("## spike\n\n{steps}\n")), "{workflows}");
    assert_eq!(main("skills/deploy.md").await.unwrap(), skill(long.trim_end()));
    assert_eq!(main("policy.json").await.unwrap(), policy("grep price src/price.txt") + "\n");
    team.stop().await;
}
