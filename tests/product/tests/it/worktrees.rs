//! Worktrees as a team meets them: set up before the first command.

use codebutler_testbed::models::{ModelScript, ScriptStep};

use crate::support::Setup;

/// Asks the proxy that the environment names for a connection.
const ASK: &str = r#"
proxy=${HTTPS_PROXY#http://}
exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}" || exit 9
printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$host" "$host" >&3
read -r -t 20 line <&3; echo "$line"; exit 7
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_fails_is_told_with_the_host_that_was_refused() {
    let script = ModelScript::of("pm", vec![ScriptStep::say("@codebutler.coder go")])
        .and("coder", vec![ScriptStep::say("I go on without.")]);
    let setup = Setup::new(script).repo(|repo| {
        repo.worktree.setup = Some(format!("host=registry.example.org:443\n{ASK}"));
    });
    let team = setup.start().await;
    let root = team.says("ana", None, "please");
    let told = team.message(&root, "Setting up the worktree").await;
    team.message(&root, "I go on without.").await;
    assert_eq!(told.sender.name, "Coder", "the first role that may run commands");
    for part in [
        "failed: exit code 7.",
        "HTTP/1.1 403",
        "Refused on the way: registry.example.org:443 is not among the hosts",
        "spec.egress.hosts",
        "/work/build/setup.log",
    ] {
        assert!(told.shown.contains(part), "{part}: {}", told.shown);
    }
    team.stop().await;
}
