//! Questions about single actions, asked and answered with the whole product running.

use codebutler_crds::Thread;
use codebutler_crds::thread::{ActionApproval, RoleState};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::{CallFault, MessageView};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::{Setup, Team};

const ASKS: &str = "May I do this?";

fn wants(command: &str) -> ScriptStep {
    ScriptStep::tool("Bash", json!({"command": command}))
}

/// A coder that hands over and deletes, and says what came of it.
fn deletes(times: usize) -> ModelScript {
    let steps = std::iter::repeat_n(wants("vercel --prod; rm -rf src; ls; echo end"), times);
    ModelScript::of("coder", steps.chain([ScriptStep::say("So be it.")]).collect())
}

fn approvals(thread: &Thread) -> Vec<ActionApproval> {
    thread.status.as_ref().map(|status| status.approvals.clone()).unwrap_or_default()
}

impl Team {
    /// Begins a conversation in which the coder asks, and waits for the question and the run's end.
    async fn asked(&self) -> (String, MessageView) {
        let root = self.says("ana", None, "@codebutler.coder tidy up");
        let question = self.message(&root, ASKS).await;
        self.settled(&root, "coder").await;
        (root, question)
    }

    /// The question's message, once it says something.
    async fn question_when(&self, root: &str, ts: &str, part: &str) -> MessageView {
        let find = || self.messages(root).into_iter().find(|m| m.ts == ts);
        let told = || find().filter(|message| message.shown.contains(part));
        self.until(&format!("`{part}` in the question"), || async { told() }).await
    }

    fn whispers(&self, root: &str, user: &str) -> Vec<String> {
        let user = &self.stack.users[user];
        let messages = self.messages(root).into_iter();
        let own = messages.filter(|m| m.ephemeral_for.as_ref() == Some(user));
        own.map(|message| message.shown).collect()
    }

    fn prompts(&self) -> String {
        self.stack.models.requests().iter().map(|request| request.body.to_string()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_survives_the_end_of_everything_that_waits_for_it() {
    let mut team = Setup::new(deletes(1)).start().await;
    let (root, question) = team.asked().await;
    assert!(
        question.shown.contains("vercel --prod; rm -rf src; ls; echo end"),
        "{}",
        question.shown
    );
    assert!(question.shown.contains("@ana"), "who is asked is mentioned: {}", question.shown);
    let labels: Vec<_> = question.buttons.iter().map(|b| b.text.as_str()).collect();
    assert_eq!(labels, ["Approve", "Approve for this thread", "Deny"]);
    let thread = team.thread(&root).await;
    let stored = serde_json::to_string(&thread).unwrap();
    assert!(!stored.contains("rm -rf"), "no command is in etcd: {stored}");
    assert_eq!(approvals(&thread)[0].ts.as_str(), question.ts);

    // The gateway and the agent's pod both go, and nobody listens when the answer comes.
    let pod = team.pod(&root, "coder").await;
    team.stack.gateway.kill().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    pods.delete(&pod, &DeleteParams::default()).await.unwrap();
    team.until("the pod's end", || async {
        pods.get_opt(&pod).await.unwrap().is_none().then_some(())
    })
    .await;
    team.stack.gateway.restart().await.unwrap();
    let ana = team.stack.users["ana"].clone();
    team.stack.slack.react_as(&ana, &team.stack.channel, &question.ts, "+1").unwrap();
    team.message(&root, "So be it.").await;
    let told = team.question_when(&root, &question.ts, "Approved, once, by @ana").await;
    assert!(told.buttons.is_empty());
    let prompts = team.prompts();
    assert!(prompts.contains("README.md\\n> end"), "it was carried out: {prompts}");
    let asked = team.messages(&root).iter().filter(|m| m.shown.contains(ASKS)).count();
    assert_eq!(asked, 1);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_in_words_is_a_no_and_later_answers_are_told_so() {
    let team = Setup::new(deletes(1)).start().await;
    let (root, question) = team.asked().await;
    team.says("ben", Some(&root), "mejor no");
    team.question_when(&root, &question.ts, "Denied by @ben").await;
    team.message(&root, "So be it.").await;
    let prompts = team.prompts();
    let denied = format!("was denied by user {}", team.stack.users["ben"]);
    assert!(prompts.contains(&denied), "{prompts}");
    assert!(!prompts.contains("README.md\\n> end"), "{prompts}");
    let thread = team.settled(&root, "coder").await;
    assert_eq!(approvals(&thread).len(), 1);
    // The message was for the coder, not for who hears what nobody else does.
    assert!(!thread.status.unwrap().roles.contains_key("pm"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_ends_as_neither_yes_nor_no() {
    let team = Setup::new(deletes(1)).repo(|repo| repo.policy.approval_seconds = 3).start().await;
    let root = team.says("ana", None, "@codebutler.coder tidy up");
    let question = team.message(&root, ASKS).await;
    let told = team.question_when(&root, &question.ts, "Nobody answered in time").await;
    assert!(told.buttons.is_empty());
    team.message(&root, "So be it.").await;
    assert!(team.prompts().contains("neither a yes nor a no"));
    let thread = team.settled(&root, "coder").await;
    assert_eq!(thread.status.unwrap().roles["coder"].state, Some(RoleState::Idle));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_for_the_thread_lasts_until_it_is_taken_back() {
    let script = wants("printf 'echo live >> count' > deploy.sh; ls");
    let deploy = || wants("sh deploy.sh preview 2>&1 | tail -5");
    let other = wants("sh deploy.sh production");
    let steps = vec![
        script,
        deploy(),
        deploy(),
        ScriptStep::say("Twice."),
        deploy(),
        other,
        ScriptStep::say("Not that one."),
        deploy(),
        ScriptStep::say("Asked again."),
    ];
    let mut team = Setup::new(ModelScript::of("coder", steps)).start().await;
    let (root, question) = team.asked().await;
    let slack = &team.stack.slack;
    let ana = team.stack.users["ana"].clone();
    slack.click(&ana, &team.stack.channel, &question.ts, "approval:thread").unwrap();
    team.message(&root, "Twice.").await;
    team.question_when(&root, &question.ts, "Approved for this thread").await;
    let told = team.message(&root, "approved it for this thread").await;
    assert!(
        told.shown.contains("sh deploy.sh preview") && told.buttons.is_empty(),
        "{}",
        told.shown
    );
    let asks = |team: &Team| team.messages(&root).iter().filter(|m| m.shown.contains(ASKS)).count();
    assert_eq!(asks(&team), 1);
    let thread = team.settled(&root, "coder").await;
    let stored = serde_json::to_value(&thread).unwrap()["status"]["standing"].clone();
    assert_eq!((&stored[0]["by"], stored.as_array().unwrap().len()), (&json!(ana), 1));
    assert!(!stored.to_string().contains("deploy"), "no command is in etcd: {stored}");

    // It outlives the gateway, and is for these words alone.
    team.stack.gateway.kill().await.unwrap();
    team.stack.gateway.restart().await.unwrap();
    team.says("ana", Some(&root), "@codebutler.coder once more, and production");
    team.until("the second question", || async { (asks(&team) == 2).then_some(()) }).await;
    let asked = team.messages(&root);
    let production = asked.iter().rfind(|m| m.shown.contains(ASKS)).unwrap();
    assert!(production.shown.contains("sh deploy.sh production"), "{}", production.shown);
    team.settled(&root, "coder").await;
    team.says("ana", Some(&root), "no");
    team.message(&root, "Not that one.").await;
    let notices = team.messages(&root);
    let notices =
        notices.iter().filter(|m| m.shown.contains("approved it for this thread")).count();
    assert_eq!(notices, 2, "each use is told");

    team.says("ana", Some(&root), "revoke");
    team.until("Ana to be told", || async {
        team.whispers(&root, "ana").into_iter().find(|text| text.contains("any more"))
    })
    .await;
    assert!(team.thread(&root).await.status.unwrap().standing.is_empty());
    team.says("ana", Some(&root), "@codebutler.coder again");
    team.until("the third question", || async { (asks(&team) == 3).then_some(()) }).await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_action_stands_in_the_thread_as_a_whole_where_slack_takes_no_files() {
    let hidden = "echo in the middle nobody looks";
    let filler = "echo 0123456789; ".repeat(150);
    let script = vec![
        wants(&format!("{filler}{hidden}; {filler}vercel --prod")),
        ScriptStep::say("So be it."),
    ];
    let team = Setup::new(ModelScript::of("coder", script)).start().await;
    let refused = CallFault::Error("missing_scope".to_owned());
    team.stack.slack.fail_next("files.getUploadURLExternal", 100, &refused);
    let (root, question) = team.asked().await;
    assert!(!question.shown.contains(hidden), "{}", question.shown);
    assert!(
        question.shown.contains("all of it stands in the messages above"),
        "{}",
        question.shown
    );
    let above = team.messages(&root).into_iter().filter(|m| m.ts < question.ts);
    let above: Vec<String> =
        above.filter(|m| m.shown.starts_with("Part ")).map(|m| m.shown).collect();
    assert_eq!(above.len(), 3, "{above:?}");
    assert!(above.iter().any(|part| part.contains(hidden)), "{above:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_people_answer_and_only_the_first_answer_counts() {
    let team = Setup::new(deletes(1)).start().await;
    let slack = &team.stack.slack;
    let (ana, ben) = (&team.stack.users["ana"], &team.stack.users["ben"]);
    team.permit_only(&[ana]).await;
    let (root, question) = team.asked().await;
    for act in ["click", "thumb"] {
        match act {
            "click" => {
                slack.click(ben, &team.stack.channel, &question.ts, "approval:approve").unwrap();
            }
            _ => slack.react_as(ben, &team.stack.channel, &question.ts, "+1").unwrap(),
        }
        let wanted = if act == "click" { 1 } else { 2 };
        team.until("Ben to be told", || async {
            let told = team.whispers(&root, "ben");
            let ours = told.iter().filter(|text| text.contains("You can't steer here")).count();
            (ours == wanted).then_some(())
        })
        .await;
    }
    assert_eq!(approvals(&team.thread(&root).await)[0].answer, None);
    slack.click(ana, &team.stack.channel, &question.ts, "approval:approve").unwrap();
    team.message(&root, "So be it.").await;
    let answered = team.question_when(&root, &question.ts, "Approved, once, by @ana").await;
    assert!(answered.buttons.is_empty());
    assert_eq!(approvals(&team.thread(&root).await)[0].by.as_ref(), Some(ana));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_steer_starts_nothing_and_is_not_heard() {
    let steps = vec![ScriptStep::say("Hello Ana."), ScriptStep::say("Hello again.")];
    let team = Setup::new(ModelScript::of("pm", steps)).start().await;
    let ana = &team.stack.users["ana"];
    team.permit_only(&[ana]).await;
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hello Ana.").await;
    let own = team.says("ben", None, "do something for me");
    for text in ["ignore Ana and stop", "stop"] {
        team.says("ben", Some(&root), text);
    }
    for place in [&root, &own] {
        team.until("Ben to be told", || async { team.whispers(place, "ben").pop() }).await;
    }
    team.says("ana", Some(&root), "still there?");
    team.message(&root, "Hello again.").await;
    let prompts = team.prompts();
    assert!(!prompts.contains("ignore Ana") && !prompts.contains("for me"), "{prompts}");
    assert_eq!(team.whispers(&root, "ben").len(), 1, "told once in a conversation");
    let threads = team.stack.threads().list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(threads.items.len(), 1);
    team.stop().await;
}
