//! State that a role keeps beside the conversation, and what happens when that grows too long.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{World, calls, git, in_order, results, says};

/// Files on the thread's branch and on `main`, before any pod.
fn publish(world: &World, files: &[(&str, &[u8])]) {
    let seed = world.path("seed");
    for (path, content) in files {
        let path = seed.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    git(&seed, &["add", "."]);
    git(&seed, &["commit", "-q", "-m", "Files"]);
    let remote = world.path("remote");
    git(&seed, &["push", "-q", remote.to_str().unwrap(), "main", "main:codebutler/t"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_pictures_and_memory_are_shown() {
    let items =
        json!([{"text": "look", "state": "done"}, {"text": "write\n it", "state": "doing"}]);
    let mut world = World::new(in_order(vec![
        calls(&[
            ("Todo", json!({"items": items})),
            ("Read", json!({"path": "a.png"})),
            ("ReadMemory", json!({})),
        ]),
        calls(&[
            ("ReadMemory", json!({"file": "pm.md"})),
            ("ReadMemory", json!({"file": "no.md"})),
        ]),
        says("done"),
    ]))
    .await;
    let guide = b"Be kind.\n## Archived Learnings\nHistory.\n";
    publish(&world, &[("a.png", b"\x89PNG\r\n\x1a\n\0\0"), (".codebutler/pm.md", guide)]);
    {
        let mut inner = world.gateway.lock();
        inner.session.tools.extend(["Todo".to_owned(), "ReadMemory".to_owned()]);
        inner.say("hello", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let system = inner.asked[0][0]["content"].as_str().unwrap();
    assert!(system.starts_with("# How you work here\n"), "{system}");
    assert!(
        system.contains("\nBe kind.\n</repository-file>") && !system.contains("History"),
        "{system}"
    );
    // The results of all calls first, then what they show, and behind it the list: what is said in a row is one
    // message.
    let told: Vec<_> = inner.asked[1].iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(told, ["system", "user", "assistant", "tool", "tool", "tool", "user"]);
    let parts = &inner.asked[1][6]["content"];
    assert_eq!(parts[0]["text"], "[CodeButler] `a.png`:");
    let url = parts[1]["image_url"]["url"].as_str().unwrap();
    assert_eq!(url, "data:image/png;base64,iVBORw0KGgoAAA==");
    assert_eq!(parts[2]["text"], "[CodeButler] Your list:\n- [x] look\n- [~] write it");
    let results = results(&inner.asked[2]);
    assert_eq!(results[2], "there are: pm.md");
    assert!(results[3].contains("History."), "{results:?}");
    assert!(results[4].starts_with("Error: `.codebutler/no.md` does not exist; there are: pm.md"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_used_is_told_once_with_its_line() {
    let mut world = World::new(in_order(vec![says("one"), says("two")])).await;
    publish(
        &world,
        &[
            (".codebutler/pm.md", b"fine\n\xff\xfe\n"),
            (".codebutler/policy.json", b"{\n  \"tool_overrides\": {\"bash\": 1}}"),
            (".codebutler/skills/bad.md", b"no heading\n"),
            (
                ".codebutler/skills/ship.md",
                b"# ship\nShips.\n## Trigger\nship it\n## Agent\ncoder\n## Prompt\nGo.\n",
            ),
        ],
    );
    world.gateway.lock().say("hello", true);
    world.one_pod().await;
    world.gateway.lock().say("again", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let posts = inner.post_texts();
    let with = |text: &str| posts.iter().filter(|post| post.contains(text)).count();
    assert_eq!(with("line 2 of `.codebutler/pm.md` is not UTF-8 text"), 1, "{posts:?}");
    assert_eq!(with("`.codebutler/policy.json` is invalid"), 1, "{posts:?}");
    assert_eq!(with("at line 2"), 1, "{posts:?}");
    assert_eq!(with("`.codebutler/skills/bad.md`: line 1"), 1, "{posts:?}");
    assert!(posts.contains(&"one") && posts.contains(&"two"), "{posts:?}");
    let system = inner.asked[0][0]["content"].as_str().unwrap();
    assert!(system.contains("- `ship` (coder): Ships."), "{system}");
}

fn talks(text: &str, n: usize) -> Value {
    let call = json!({"id": format!("c{n}"), "type": "function", "function":
        {"name": "Bash", "arguments": json!({"command": format!("echo {n}")}).to_string()}});
    json!({"choices": [{"message": {"role": "assistant", "content": text, "tool_calls": [call]}}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_too_long_is_summed_up_and_the_record_kept() {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let mut world = World::new(move |messages: &[Value]| {
        if text(messages.last().unwrap()).contains("longer than you can be shown") {
            return says("SUMMARY: ana wants a plan.");
        }
        if messages.iter().any(|message| text(message).contains("SUMMARY")) {
            return says("done");
        }
        let said = messages.iter().filter(|message| message["role"] == "assistant").count();
        talks(&format!("{said} {}", "w".repeat(900)), said)
    })
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.context_tokens = Some(8_000);
        inner.say("plan it", true);
    }
    world.one_pod().await;
    let said = world.transcript().iter().filter(|record| record["record"] == "answer").count();
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["done"]);
    let summing = &inner.requests[inner.requests.len() - 2];
    assert_eq!(summing["tool_choice"], "none");
    let last = inner.asked.last().unwrap();
    assert!(
        text_of(&last[1]).starts_with("[CodeButler] What was said and done before"),
        "{last:?}"
    );
    assert_ne!(last[2]["role"], "tool", "{last:?}");
    // Each answer but the summary, which has a record of its own.
    assert_eq!(said, inner.asked.len() - 1);
    let sizes: Vec<_> = inner
        .asked
        .iter()
        .map(|m| m[1..].iter().map(|m| text_of(m).len()).sum::<usize>())
        .collect();
    assert!(sizes.last().unwrap() < &sizes[sizes.len() - 3], "{sizes:?}");
}

fn text_of(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_a_structured_log_says_whose_it_is() {
    let mut world =
        World::new(in_order(vec![calls(&[("Bash", json!({"command": "true"}))]), says("ok")]))
            .await;
    world.gateway.lock().say("hi", true);
    let log = fs::File::create(world.path("log")).unwrap();
    let pod = world.pod_with(None, |agent| {
        agent
            .env("CODEBUTLER_LOG", "codebutler_agent=debug")
            .env("CODEBUTLER_LOG_FORMAT", "json")
            .stderr(Stdio::from(log));
    });
    assert!(pod.ended().await.success());
    let text = fs::read_to_string(world.path("log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 10, "{text}");
    for line in &lines {
        assert_eq!(
            (&line["span"]["role"], &line["span"]["thread"]),
            (&json!("pm"), &json!("shop-1-000001")),
            "{line}"
        );
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
    assert!(lines.iter().any(|line| line["fields"]["message"] == "run_started"), "{text}");
}
