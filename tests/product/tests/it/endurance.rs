//! Conversations in which anything goes wrong that goes wrong with real models: each has to end in a
//! merged pull request, or in a sentence that says what a person can do. `CODEBUTLER_SOAK` is how many,
//! `CODEBUTLER_SEED` what decides what goes wrong.

use std::io::Write as _;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{PullState, RoleState, ThreadState};
use codebutler_testbed::models::{
    CheckedPattern, ModelOptions, ModelScript, PlayedMischief, RandomMischief, ScriptStep, ToolCall,
};
use codebutler_testbed::slack::MessageView;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::support::{Setup, Team, no_retrospective};

/// Conversations, if nobody says how many, and how many of them at the same time. Most of one is waiting:
/// many go side by side.
const USUAL: usize = 12;
const SIDE_BY_SIDE: usize = 3;
const MANY_SIDE_BY_SIDE: usize = 10;
/// The share of answers that go wrong: a conversation has about thirteen.
const SHARE: f64 = 0.12;
/// Silence after which a conversation counts as ended.
const REST: Duration = Duration::from_secs(6);
/// Longest time of one conversation.
const LIMIT: Duration = Duration::from_mins(15);
/// A sentence that tells a person what to do has one of these.
const REMEDIES: [&str; 16] = [
    "write",
    "try again",
    "put ",
    "set ",
    "raise",
    "say ",
    "tell me",
    "answer",
    "ask ",
    "approve",
    "choose",
    "switch",
    "add ",
    "merge",
    "what should i",
    "reply",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A step that knows which task it is about.
fn about(mut step: ScriptStep) -> ScriptStep {
    let pattern: CheckedPattern = CheckedPattern(r"[Tt]ask (\d+)".parse().unwrap());
    step.capture.insert("task".to_owned(), pattern);
    step
}

fn call(name: &str, arguments: Value) -> ScriptStep {
    let Value::Object(arguments) = arguments else { unreachable!() };
    let tools = vec![ToolCall { name: name.to_owned(), arguments, raw: None }];
    ScriptStep { tools, ..ScriptStep::default() }
}

/// A team's way from a wish to a merge.
fn script() -> ModelScript {
    let plan = json!({"message": "Plan for task {{task}}: write `{{task}}/note.txt`.",
        "decision": "plan", "complexity": "simple", "files": ["{{task}}/note.txt"]});
    let pm = vec![
        about(call("Glob", json!({"pattern": "**/*"}))),
        call("SendMessage", plan),
        ScriptStep::say(
            "@codebutler.coder the plan for task {{task}} is approved: please implement it.",
        ),
    ];
    let file = json!({"path": "{{task}}/note.txt", "content": "task {{task}} is done\n"});
    let pr = json!({"title": "Note task {{task}}", "body": "As planned for task {{task}}."});
    let coder = vec![
        about(call("Write", file)),
        call("GitCommit", json!({"message": "Note task {{task}}"})),
        call("GitPush", json!({})),
        call("GHCreatePR", pr),
        ScriptStep::say("@codebutler.reviewer task {{task}} is done: the pull request is open."),
    ];
    let reviewer = vec![
        about(call("GitDiff", json!({}))),
        ScriptStep::say("@codebutler.lead task {{task}} does what the plan says: approved."),
    ];
    let merge = json!({"message": "Ready to merge task {{task}}.", "decision": "merge",
        "waitForReply": true});
    let lead = vec![
        about(call("SendMessage", merge)),
        call("CloseThread", json!({"summary": "Task {{task}} is noted."})),
    ];
    ModelScript::of("pm", pm).and("coder", coder).and("reviewer", reviewer).and("lead", lead)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_each_conversation_ends_in_a_merge_or_a_remedy() {
    let count = number("CODEBUTLER_SOAK").map_or(USUAL, |count| usize::try_from(count).unwrap());
    let seed = number("CODEBUTLER_SEED").unwrap_or_else(rand::random);
    let _ = writeln!(std::io::stderr(), "CODEBUTLER_SEED={seed} plays this again");
    let mischief = Some(RandomMischief::new(seed, SHARE));
    let provider = ModelOptions { mischief, ..ModelOptions::default() };
    let team = Setup::new(script())
        .provider(provider)
        .idle(4)
        .repo(|repo| {
            repo.limits.calls_per_hour = 1_000_000;
            repo.retrospective = Some(no_retrospective());
        })
        .start()
        .await;
    let talks = futures::stream::iter(0..count).map(|task| talk(&team, task));
    let at_once = if count > USUAL { MANY_SIDE_BY_SIDE } else { SIDE_BY_SIDE };
    let ends: Vec<End> = talks.buffer_unordered(at_once).collect().await;
    let merged = ends.iter().filter(|end| end.merged).count();
    let misplayed = team.stack.models.misplayed().len();
    let _ = writeln!(
        std::io::stderr(),
        "{count} conversations: {merged} merged, {misplayed} answers went wrong"
    );
    let wrong: Vec<String> = ends.iter().filter_map(End::fault).collect();
    assert!(
        wrong.is_empty(),
        "CODEBUTLER_SEED={seed}: {} of {count} conversations end badly, {merged} are merged:\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert!(misplayed > 0, "nothing went wrong");
    let said: usize = ends.iter().map(|end| end.messages.len()).sum();
    let reads = team.stack.slack.calls("conversations.replies");
    // One for what is new, and some for what a click or an edit leaves unclear.
    assert!(2 * reads <= 3 * said as u64, "{reads} reads of conversations for {said} messages");
    team.stop().await;
}

/// End of a conversation.
struct End {
    task: usize,
    merged: bool,
    messages: Vec<MessageView>,
    misplayed: Vec<PlayedMischief>,
}

impl End {
    /// Returns what is wrong with the end.
    fn fault(&self) -> Option<String> {
        let done = ["white_check_mark", "heavy_check_mark"];
        let own = |message: &&MessageView| message.sender.name != "ana";
        let last = self.messages.iter().rfind(own);
        let says = last.map(|message| message.shown.to_lowercase()).unwrap_or_default();
        let ticked = self.messages.iter().any(|message| {
            message.reactions.iter().any(|reaction| done.contains(&reaction.name.as_str()))
        });
        let fault = if self.merged {
            return None;
        } else if ticked {
            "has a ✅ though nothing is merged"
        } else if !REMEDIES.iter().any(|word| says.contains(word)) {
            "ends without a word of what a person can do"
        } else {
            return None;
        };
        let shown: Vec<String> = self
            .messages
            .iter()
            .map(|m| {
                format!("  {}: {} {:?}", m.sender.name, m.shown.replace('\n', " "), m.reactions)
            })
            .collect();
        let played: Vec<String> = self
            .misplayed
            .iter()
            .map(|m| format!("{} at {} step {}", m.kind, m.role, m.step + 1))
            .collect();
        let (played, shown) = (played.join(", "), shown.join("\n"));
        Some(format!("task {} {fault}. What went wrong: {played}\n{shown}", self.task))
    }
}

/// A person's part: a wish, and every button that is to be clicked.
async fn talk(team: &Team, task: usize) -> End {
    let ana = &team.stack.users["ana"];
    let root = team.says("ana", None, &format!("Task {task}: note that it is done"));
    let name = team.thread(&root).await.name_any();
    let (begun, mut clicked) = (Instant::now(), Vec::new());
    let mut quiet = Instant::now();
    let mut seen = 0;
    loop {
        let messages = team.messages(&root);
        for message in &messages {
            let buttons = ["plan:approve", "merge:merge"];
            for button in buttons.into_iter().filter(|b| has_button(message, b)) {
                let at = (message.ts.clone(), button);
                if !clicked.contains(&at)
                    && team.stack.slack.click(ana, &team.stack.channel, &message.ts, button).is_ok()
                {
                    clicked.push(at);
                    quiet = Instant::now();
                }
            }
        }
        let thread = team.stack.threads().get(&name).await.ok();
        let status = thread.as_ref().and_then(|thread| thread.status.clone()).unwrap_or_default();
        let busy = status
            .roles
            .iter()
            .any(|(role, state)| status.wants(role) || state.state == Some(RoleState::Running));
        if busy || messages.len() != seen {
            quiet = Instant::now();
        }
        seen = messages.len();
        let merged =
            status.pull_request.as_ref().is_some_and(|pull| pull.state == Some(PullState::Merged))
                && thread.as_ref().is_some_and(|thread| thread.spec.state == ThreadState::Closed);
        if merged || quiet.elapsed() > REST || begun.elapsed() > LIMIT {
            let misplayed = played_in(team, task);
            return End { task, merged, messages: team.messages(&root), misplayed };
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn has_button(message: &MessageView, action: &str) -> bool {
    message.blocks.iter().any(|block| block.to_string().contains(&format!("\"{action}\"")))
}

/// Lists the mischief that was played in a conversation.
fn played_in(team: &Team, task: usize) -> Vec<PlayedMischief> {
    let misplayed = team.stack.models.misplayed().into_iter();
    let words = [format!("Task {task}:"), format!("task {task} "), format!("task {task}:")];
    misplayed.filter(|m| words.iter().any(|word| m.opening.contains(word.as_str()))).collect()
}
