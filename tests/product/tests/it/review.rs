//! A review as its harness keeps it: what it goes by stands in the thread before any verdict, who approves
//! has run the tests, and a cheaper model looks first where the Repo says so.

use codebutler_crds::review::ReviewSpec;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::{Value, json};

use crate::support::{Setup, Team, asks};

const APPROVED: &str = "@codebutler.lead approved: the price is what the plan says.";

fn tool(name: &str, arguments: Value) -> ScriptStep {
    ScriptStep::tool(name, arguments)
}

fn plan_review(tests: &Value) -> ScriptStep {
    let risk = |level: &str, why: &str| json!({"level": level, "why": why});
    let mut arguments = json!({
        "invariants": ["One price, in one file."],
        "risks": {
            "security": risk("none", "No input."),
            "performance": risk("none", "One line."),
            "compatibility": risk("low", "Readers expect `price = `."),
            "correctness": risk("medium", "The number itself."),
        },
    });
    for (name, value) in tests.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    tool("PlanReview", arguments)
}

fn coder() -> Vec<ScriptStep> {
    vec![
        tool("Write", json!({"path": "check.sh", "content": "grep 0.2 src/price.txt"})),
        tool("Write", json!({"path": "src/price.txt", "content": "price = 0.2\n"})),
        tool("Bash", json!({"command": "sh check.sh"})),
        tool("GitCommit", json!({"message": "Raise the price"})),
        tool("GitPush", json!({})),
        tool("GHCreatePR", json!({"title": "Raise", "body": "Because."})),
        ScriptStep::say("@codebutler.reviewer ready"),
    ]
}

fn setup(script: ModelScript) -> Setup {
    let pm = vec![tool(
        "SendMessage",
        json!({"message": "Plan: raise the price.", "decision": "plan", "test": "sh check.sh"}),
    )];
    let lead = vec![asks("I sum up.", "merge")];
    let script = script.and("pm", pm).and("coder", coder()).and("lead", lead);
    Setup::new(script).role(|role| {
        if role.role == "reviewer" {
            role.tools.allow.push("PlanReview".to_owned());
        }
    })
}

/// The conversation up to the review.
async fn reviewed(team: &Team) -> String {
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "I sum up.").await;
    root
}

/// Returns the last message that a model was sent in its nth call.
fn told(team: &Team, model: &str, call: usize) -> String {
    let requests = team.stack.models.requests();
    let mut of_model = requests.iter().filter(|request| request.body["model"] == model);
    let messages = &of_model.nth(call).unwrap().body["messages"];
    messages.as_array().unwrap().last().unwrap()["content"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_said_after_what_it_goes_by_and_after_the_tests() {
    let missing = json!({"tests": [{"kind": "unit", "what": "zero", "present": false}]});
    let there = json!({"tests": [{"kind": "unit", "what": "zero", "present": true}]});
    let reviewer = vec![
        ScriptStep::say("Approved: all fine."),
        ScriptStep::say(APPROVED),
        tool("GHReview", json!({"body": "Fine."})),
        plan_review(&missing),
        ScriptStep::say(APPROVED),
        plan_review(&there),
        ScriptStep::say(APPROVED),
        tool("Bash", json!({"command": "sh check.sh"})),
        ScriptStep::say(&format!("{APPROVED} `sh check.sh` ended with 0.")),
    ];
    let team = setup(ModelScript::of("reviewer", reviewer)).start().await;
    let root = reviewed(&team).await;
    let said = team.messages(&root);
    let at = |text: &str| said.iter().position(|m| m.shown.contains(text)).unwrap();
    assert!(at("Review plan") < at("approved: the price"), "{said:?}");
    let verdicts = said.iter().filter(|m| m.shown.contains("approved: the price"));
    assert_eq!(verdicts.count(), 1, "what was not fit to be said was not said");
    let goes_by = &said[at("Review plan")].shown;
    for part in [
        "One price, in one file.",
        "Medium risk, correctness: The number",
        "Test *missing*, unit: zero",
    ] {
        assert!(goes_by.contains(part), "{part}: {goes_by}");
    }
    assert!(!said.iter().any(|m| m.shown.contains("all fine")), "{said:?}");
    let reviewer = "scripted/reviewer";
    for call in 1..=3 {
        assert!(told(&team, reviewer, call).contains("Begin a review with its plan"));
    }
    assert!(told(&team, reviewer, 5).contains("tests are missing (unit: zero)"));
    assert!(told(&team, reviewer, 7).contains("run exactly `sh check.sh` in Bash"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_says_what_a_review_goes_by_gives_no_verdict() {
    let team = setup(ModelScript::of("reviewer", vec![ScriptStep::say(APPROVED); 6])).start().await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "a verdict was not said").await;
    let said = team.messages(&root);
    assert!(!said.iter().any(|message| message.shown.contains("approved: the price")), "{said:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cheaper_model_looks_first_and_the_roles_own_at_what_that_lets_pass() {
    let none = json!({"noTests": "A number."});
    let cheap = vec![
        plan_review(&none),
        tool("Bash", json!({"command": "sh check.sh"})),
        ScriptStep::say(APPROVED),
    ];
    let own = vec![
        ScriptStep::say("never said"),
        ScriptStep::say("never said"),
        ScriptStep::say("never said"),
        tool("Read", json!({"path": "src/price.txt"})),
        ScriptStep::say("@codebutler.lead approved after a second look."),
    ];
    let price =
        |usd: &str| serde_json::from_value(json!({"prompt": usd, "completion": usd})).unwrap();
    let script = ModelScript::of("reviewer", own).and("cheap", cheap);
    let team = setup(script)
        .repo(move |repo| {
            repo.review = Some(ReviewSpec { two_pass: true });
            repo.model.prices.insert("scripted/reviewer".to_owned(), price("10"));
            repo.model.prices.insert("scripted/cheap".to_owned(), price("1"));
        })
        .role(|role| {
            if role.role == "reviewer" {
                role.tools.allow.push("PlanReview".to_owned());
                role.model.pool = vec!["scripted/cheap".to_owned()];
            }
        })
        .start()
        .await;
    let root = reviewed(&team).await;
    let said = team.messages(&root);
    assert!(said.iter().any(|m| m.shown.contains("approved after a second look")), "{said:?}");
    assert!(!said.iter().any(|m| m.shown.contains("approved: the price")), "{said:?}");
    let requests = team.stack.models.requests();
    let models = requests.iter().filter_map(|request| request.body["model"].as_str());
    let models: Vec<_> =
        models.filter(|m| m.ends_with("cheap") || m.ends_with("reviewer")).collect();
    let (cheap, own) = ("scripted/cheap", "scripted/reviewer");
    assert_eq!(models, [cheap, cheap, cheap, own, own]);
    assert!(told(&team, own, 0).contains("That was the first pass, by scripted/cheap"));
    team.stop().await;
}
