//! "stop" and 🛑 with the whole product running: how long until the run has ended and said so, by
//! Slack's own times, and what is left of its processes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebutler_crds::thread::RoleState;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::{Setup, Team};

/// A second is what is promised; on a machine with all tests at once everything takes longer.
const BOUND: Duration = Duration::from_secs(8);
/// Tells the test's own commands from anybody else's.
const MARK: &str = "31337.0625";

/// Processes that the command started and that live.
fn left() -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let words = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ");
    lines.map(words).filter(|line| line.starts_with("sleep ") && line.contains(MARK)).count()
}

async fn runs(team: &Team) {
    team.until("the command to run", || async { (left() == 2).then_some(()) }).await;
}

fn moment(ts: &str) -> Duration {
    Duration::from_secs_f64(ts.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_words_or_by_sign_ends_a_run_with_all_that_it_started() {
    let command = format!("setsid sleep {MARK} & sleep {MARK}");
    let bash = || ScriptStep::tool("Bash", json!({"command": command}));
    let todo = json!({"items": [{"text": "look", "state": "done"}, {"text": "raise the price"}]});
    let steps =
        vec![ScriptStep::tool("Todo", todo), bash(), bash(), ScriptStep::say("As you wish.")];
    let team = Setup::new(ModelScript::of("coder", steps)).start().await;
    let root = team.says("ana", None, "@codebutler.coder wait for me");
    runs(&team).await;
    let asked = team.says("ana", Some(&root), "stop");
    let stopped = team.message(&root, "Stopped").await;
    let took = moment(&stopped.ts).saturating_sub(moment(&asked));
    println!("a run ends {:.2} s after \"stop\"", took.as_secs_f64());
    assert!(took < BOUND, "{took:?}");
    assert_eq!(left(), 0, "all of it ends before it is said");
    assert!(
        stopped.shown.contains("the last step was Bash")
            && stopped.shown.contains("Next would be: raise the price"),
        "{}",
        stopped.shown
    );
    let thread = team.settled(&root, "coder").await;
    assert_eq!(thread.status.unwrap().roles["coder"].state, Some(RoleState::Waiting));

    team.says("ana", Some(&root), "@codebutler.coder go on");
    runs(&team).await;
    let asked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.react_as(ana, channel, &stopped.ts, "octagonal_sign").unwrap();
    let again = || team.messages(&root).into_iter().rfind(|m| m.shown.contains("Stopped"));
    let again =
        team.until("the second end", || async { again().filter(|m| m.ts != stopped.ts) }).await;
    let took = moment(&again.ts).saturating_sub(asked);
    println!("a run ends {:.2} s after a sign", took.as_secs_f64());
    assert!(took < BOUND, "{took:?}");
    assert_eq!(left(), 0);
    team.says("ana", Some(&root), "@codebutler.coder leave it then");
    team.message(&root, "As you wish.").await;
    team.stop().await;
}
