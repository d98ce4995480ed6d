//! Several requests for one role, and work that nobody committed, in the whole product.

use codebutler_testbed::models::{ModelScript, RoleScript, ScriptStep, ScriptedConversation};
use serde_json::json;

use crate::support::{PATIENCE, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn two_people_are_answered_at_the_same_time_each_by_name() {
    let script = ModelScript::of("pm", vec![ScriptStep::say("Found it.")]);
    let setup = Setup::new(script).role(|role| {
        if role.role == "pm" {
            role.parallelism = 2;
        }
    });
    let team = setup.start().await;
    // Nobody is answered before both are asked about.
    team.stack.models.hold();
    let root = team.says("ana", None, "where is the price?");
    team.thread(&root).await;
    team.says("ben", Some(&root), "and who sets it?");
    let both = tokio::time::timeout(PATIENCE, team.stack.models.all_held(2)).await;
    both.expect("one waits for the other");
    team.stack.models.release();
    team.settled(&root, "pm").await;
    let messages = team.messages(&root);
    let answers: Vec<_> = messages.iter().filter(|m| m.shown.contains("Found it.")).collect();
    assert_eq!(answers.len(), 2, "{messages:#?}");
    for name in ["ana", "ben"] {
        let (id, answers) = (&team.stack.users[name], &answers);
        let named = answers.iter().filter(|m| m.shown.contains(name) || m.shown.contains(id));
        assert_eq!(named.count(), 1, "{name}: {answers:#?}");
    }
    assert_eq!(team.stack.models.served().len(), 2);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_and_said_goes_to_the_conversation_that_waits_for_it() {
    let ask = |plan: &str| {
        let arguments = json!({"message": plan, "waitForReply": true, "decision": "plan"});
        ScriptStep::tool("SendMessage", arguments)
    };
    let question = json!({"message": "Which tax?", "waitForReply": true});
    let script = |about: Option<&str>, steps| {
        let thread = about.map(Into::into);
        ScriptedConversation { thread, steps }
    };
    let tax = vec![
        ScriptStep::tool("SendMessage", question),
        ScriptStep::say("Then it is ten percent.").expecting("the low one"),
    ];
    let price = vec![ask("Plan: raise the price."), ScriptStep::say("The price goes up.")];
    let conversations = vec![script(Some("and the tax?"), tax), script(None, price)];
    let script = ModelScript([("pm".to_owned(), RoleScript { conversations })].into());
    let setup = Setup::new(script).role(|role| {
        if role.role == "pm" {
            role.parallelism = 2;
        }
    });
    let team = setup.start().await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    team.says("ben", Some(&root), "and the tax?");
    team.message(&root, "Which tax?").await;
    // Both wait; each gets what is meant for it, in the order in which it comes.
    team.settled(&root, "pm").await;
    team.says("ben", Some(&root), "the low one");
    team.message(&root, "Then it is ten percent.").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:modify").unwrap();
    team.message(&root, "The price goes up.").await;
    team.settled(&root, "pm").await;
    let served: Vec<_> =
        team.stack.models.served().iter().map(|answer| (answer.list, answer.step)).collect();
    assert_eq!(served, [(1, 0), (0, 0), (0, 1), (1, 1)], "{:?}", team.stack.models.failures());
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_coder_leaves_uncommitted_is_on_the_remote_when_its_run_ends() {
    let plan = json!({"message": "Plan: raise the price.", "decision": "plan"});
    let pm = vec![ScriptStep::tool("SendMessage", plan)];
    let write = |content: &str| {
        ScriptStep::tool("Write", json!({"path": "src/new-price.txt", "content": content}))
    };
    let coder = vec![
        write("price = 0.2\n"),
        // There is no pull request, and it is told so first.
        ScriptStep::say("Written."),
        ScriptStep::say("Written, not committed.").expecting("there is no pull request"),
    ];
    let team = Setup::new(ModelScript::of("pm", pm).and("coder", coder)).start().await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "Written, not committed.").await;
    let thread = team.thread(&root).await;
    let branch = codebutler_crds::names::branch_name(thread.metadata.name.as_ref().unwrap());
    let log = team.stack.remote.log(&format!("main..{branch}")).await.unwrap();
    assert!(log.len() == 1, "{log:?}");
    assert!(format!("{log:?}").contains("Work in progress by coder"), "{log:?}");
    team.settled(&root, "coder").await;
    team.stop().await;
}
