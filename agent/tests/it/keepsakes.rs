//! Files that could be lost are kept before, nobody is asked, and the answer says how to get them back; and the
//! command that says all this beforehand.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use codebutler_wire::ApprovalState;
use serde_json::{Value, json};

use crate::world::{World, calls, git, in_order, results, says};

fn bash(command: &str) -> Value {
    calls(&[("Bash", json!({"command": command}))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncommitted_work_survives_what_throws_it_away() {
    let mut world = World::new(in_order(vec![
        bash("mkdir src; echo precious > src/a.rs; echo changed >> README.md"),
        bash("rm -rf src && git checkout ."),
        bash("git restore --source=refs/codebutler/snap/2 -- ."),
        bash("git gc -q; cat src/a.rs README.md"),
        says("All there."),
    ]))
    .await;
    world.gateway.lock().say("tidy up", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["All there."]);
    assert!(inner.asked_for.is_empty(), "{:?}", inner.asked_for);
    let told = results(inner.asked.last().unwrap()).into_iter().map(str::to_owned);
    let told: Vec<String> = told.collect();
    assert!(!told[0].contains("refs/codebutler"), "{}", told[0]);
    // The first one was kept without a word, before output was written to a file.
    let note = "`git restore --source=refs/codebutler/snap/2 -- PATH` brings back a path";
    assert!(told[1].contains(note) && told[1].contains("exit code 0"), "{}", told[1]);
    assert!(told[3].contains("precious") && told[3].contains("changed"), "{}", told[3]);
    drop(inner);
    let here =
        git(&world.tree("."), &["for-each-ref", "--format=%(refname)", "refs/codebutler/snap"]);
    assert_eq!(here.lines().next(), Some("refs/codebutler/snap/1"));
    assert_eq!(
        world.git(&["for-each-ref", "refs/codebutler"]),
        "",
        "the remote knows nothing of it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_kept_is_asked_about() {
    let spoil = "mv .git/refs/codebutler .git/was; ln -s /tmp .git/refs/codebutler; echo x > a";
    let write = calls(&[("Write", json!({"path": "spoil.sh", "content": spoil}))]);
    let steps = vec![write, bash("sh spoil.sh"), bash("rm a"), says("I wait.")];
    let mut world = World::new(in_order(steps)).await;
    world.gateway.lock().say("tidy up", true);
    world.one_pod().await;
    let key = {
        let inner = world.gateway.lock();
        let asked = inner.asked_for.last().expect("nobody was asked");
        assert!(asked.summary.contains("no snapshot can be kept before"), "{}", asked.summary);
        assert!(world.tree("a").exists());
        asked.key.clone()
    };
    world.gateway.lock().approvals.insert(key.clone(), ApprovalState::Approved);
    world.gateway.lock().pending.push(codebutler_wire::PendingItem {
        id: format!("approval:pm:{key}"),
        role: "pm".into(),
        kind: "approval".into(),
        choice: "approved".into(),
        user: "U1".into(),
        message: "1001.000000".parse().unwrap(),
    });
    world.one_pod().await;
    assert!(!world.tree("a").exists(), "a yes counts, snapshot or no snapshot");
}

fn policy(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_codebutler-agent"))
        .arg("policy")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The process may have ended if it reads no list.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_command_would_be_taken_for_is_said_beforehand() {
    let one = lines(&policy(&["--json", "rm -rf src"], ""));
    assert_eq!(
        one,
        [json!({"command": "rm -rf src", "tier": "WriteLocal", "asks": false, "snapshot": true,
            "why": "`rm` removes files"})]
    );
    let list = "npm publish\n\nnpm ci\n\"cat > a <<'E'\\nx\\nE\"\n{\"command\": \"ls\"}\n[ -f x ] && ls\r\n";
    let all = lines(&policy(&["--json", "--file", "-"], list));
    let told: Vec<_> =
        all.iter().map(|one| (one["command"].as_str().unwrap(), &one["asks"])).collect();
    assert_eq!(
        told,
        [
            ("npm publish", &json!(true)),
            ("npm ci", &json!(false)),
            ("cat > a <<'E'\nx\nE", &json!(false)),
            ("ls", &json!(false)),
            ("[ -f x ] && ls", &json!(false)),
        ]
    );
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("policy.json");
    std::fs::write(&rules, r#"{"tool_overrides": {"bash": {"destructive": ["npm ci"]}}}"#).unwrap();
    let by_rule = lines(&policy(&["--json", "--policy", rules.to_str().unwrap(), "npm ci"], ""));
    assert_eq!((&by_rule[0]["tier"], &by_rule[0]["asks"]), (&json!("Destructive"), &json!(true)));
    let text = policy(&["git push --force"], "");
    assert!(
        String::from_utf8_lossy(&text.stdout).starts_with("asks (Destructive): git push --force\n")
    );

    std::fs::write(&rules, "{").unwrap();
    for (args, input, why) in [
        (&[][..], "", "required"),
        (&["ls", "--file", "-"], "", "cannot be used with"),
        (&["--file", "/nowhere"], "", "/nowhere can't be read"),
        (&["--file", "-"], "ls\n{\"cmd\": 1}", "line 2 of the list"),
        (&["--policy", rules.to_str().unwrap(), "ls"], "", "policy.json"),
    ] {
        let output = policy(args, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let help = policy(&["--help"], "");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains("--file") && help.contains("--policy") && help.contains("stdin"),
        "{help}"
    );
}
