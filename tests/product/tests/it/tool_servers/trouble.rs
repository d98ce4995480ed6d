//! Servers that can't be used, as people see it: in the condition, and in the thread of a role that needs them.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::{Value, json};

use super::images::binding;
use super::with_servers;
use crate::support::{Setup, needs_process_kubelet};

const IMAGE: &str = "acme/shell:1";
const SECRET: &str = "pass-phrase-of-the-tracker";

fn server(name: &str, image: &str, command: &[&str]) -> Value {
    json!({"name": name, "image": image, "command": command})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_servers_from_working_is_said_where_people_wait() {
    if needs_process_kubelet("it says which images there are") {
        return;
    }
    let mut leaks =
        server("leaks", IMAGE, &["sh", "-c", "echo \"no access with $TOKEN\" >&2; exit 1"]);
    leaks["env"] = json!([{"name": "TOKEN", "secret": {"name": "tracker", "key": "token"}}]);
    let servers = vec![
        server("missing", IMAGE, &["npx-is-not-here"]),
        server("away", "acme/nowhere:9", &["sh"]),
        leaks,
    ];
    // The list of tools may come with a later turn.
    let script = ModelScript::of(
        "coder",
        vec![
            ScriptStep::say("Ready."),
            ScriptStep::tool("Bash", json!({"command": "sleep 4"})),
            ScriptStep::say("Done."),
        ],
    );
    let setup = Setup::new(script).image(IMAGE, binding(Vec::new()));
    let team = with_servers(setup, servers).start().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": team.stack.place.team, "name": "tracker",
            "annotations": {codebutler_crds::names::ANNOTATION_HOSTS: "tracker.invalid"},
        },
        "stringData": {"token": SECRET},
    });
    team.stack.cluster.apply_yaml(&secret.to_string()).await.unwrap();
    team.servers_are("Unknown", "`away`: not started yet; starts on first use").await;
    assert!(team.server_pods().await.is_empty(), "nothing is started for a Repo that rests");

    let root = team.says("ana", None, "@codebutler.coder are you there?");
    team.message(&root, "Ready.").await;
    let sentences = [
        "The server `missing` can't be used: the image of server `missing` has no program `npx-is-not-here`",
        "The server `away` can't be used: image `acme/nowhere:9` can't be pulled",
        "The server `leaks` can't be used: the server ended before it answered: no access with [redacted",
    ];
    for sentence in sentences {
        let line = team.message(&root, sentence).await;
        assert!(line.shown.contains("Roles go on without its tools"), "{}", line.shown);
    }
    for part in [
        "has no program `npx-is-not-here`",
        "`acme/nowhere:9` can't be pulled",
        "no access with [redacted",
    ] {
        team.servers_are("False", part).await;
    }
    let (reason, said) = team.servers_are("False", "can't be used since 20").await;
    assert_eq!(reason, "McpServerNotReady", "{said}");

    team.says("ana", Some(&root), "@codebutler.coder go on");
    team.message(&root, "Done.").await;
    let told = team.stack.models.requests().last().unwrap().body["messages"].to_string();
    assert!(told.contains("the server `missing` can't be used now"), "{told}");
    assert!(!told.contains(SECRET) && !said.contains(SECRET), "{told} {said}");
    let messages = team.messages(&root);
    assert!(messages.iter().all(|message| !message.shown.contains(SECRET)), "{messages:?}");
    for sentence in sentences {
        let lines = messages.iter().filter(|message| message.shown.contains(sentence));
        assert_eq!(lines.count(), 1, "each reason once: {sentence}");
    }
    team.stop().await;
}
