//! The demo without a scenario: people talk to the product on the chat page.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::{Args, Print, interrupted, options};
use crate::scenario::{Action, Scenario};
use crate::stack::Stack;

/// The scenario whose repository and script the chat page begins with.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/bugfix.yaml");
/// People to be on the chat page besides those of the scenario.
const PEOPLE: [&str; 2] = ["ana", "ben"];
/// How often the script's failures are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Starts everything and runs until Ctrl-C.
pub async fn run(args: &Args, program: &Path, say: Print<'_>) -> anyhow::Result<()> {
    let mut scenario = Scenario::load(Path::new(SAMPLE))?;
    for name in PEOPLE {
        if !scenario.users.iter().any(|user| user == name) {
            scenario.users.push(name.to_owned());
        }
    }
    let dir = tempfile::Builder::new().prefix("codebutler-demo-").tempdir()?;
    say("starting the embedded cluster, Slack, model API and GitHub …");
    let stack = Stack::start(options(&scenario, args, program, dir.path())?).await?;
    say(&welcome(&stack, &scenario));
    tokio::select! {
        () = interrupted() => {}
        () = tell_failures(&stack, &mut *say) => {}
    }
    say("\nending everything …");
    stack.stop().await?;
    dir.close().context("removing the demo's folder")
}

fn welcome(stack: &Stack, scenario: &Scenario) -> String {
    let page = stack.slack.page_url();
    let kubeconfig = stack.cluster.kubeconfig().display();
    let repository = stack.remote.url();
    let mut text = format!(
        "\nchat page:   {page}\n\
         cluster:     export KUBECONFIG={kubeconfig}\n             kubectl get threads -A -w\n\
         repository:  {repository}\n\
         model:       scripted; it knows one conversation and can't answer anything else\n"
    );
    if let Some((user, message)) = beginning(scenario) {
        let message = message.replace('\n', "\n    ");
        let _ = writeln!(text, "\nThat conversation begins when {user} writes:\n\n    {message}");
    }
    text.push_str("\nCtrl-C ends everything.");
    text
}

/// What is said first, and by whom.
fn beginning(scenario: &Scenario) -> Option<(&str, &str)> {
    scenario.conversation.iter().find_map(|action| match action {
        Action::Says { user, text, .. } => Some((user.as_str(), text.as_str())),
        _ => None,
    })
}

/// Says when a conversation has left the script, for nobody else would. Never ends.
async fn tell_failures(stack: &Stack, say: Print<'_>) {
    let mut told = 0;
    loop {
        let failures = stack.models.failures();
        for failure in failures.iter().skip(told) {
            say(&format!("the script does not know how to go on: {failure}"));
        }
        told = told.max(failures.len());
        tokio::time::sleep(LOOK).await;
    }
}
