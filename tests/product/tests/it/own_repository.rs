//! `cargo demo -- --repo`: repositories of all kinds, and sentences for those that can't be used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use codebutler_testbed::models::{
    ModelCard, ModelOptions, ModelScript, ModelServer, PlayedCatalogue, ScriptStep,
};
use serde_json::json;

use crate::chatting::{Chat, demo};
use crate::support::{PATIENCE, permit};

fn git(dir: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"];
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(identity)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A new repository with files committed on `branch`.
fn repository(dir: &Path, branch: &str, files: &[(&str, &str)]) -> PathBuf {
    std::fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "--quiet", &format!("--initial-branch={branch}")]);
    for (path, text) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "--message=Start"]);
    dir.to_owned()
}

/// Every file with its size and time of change: nothing may be written.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let meta = entry.path().symlink_metadata().unwrap();
        all.insert(entry.path(), (meta.len(), meta.modified().unwrap()));
        if meta.is_dir() {
            all.extend(everything(&entry.path()));
        }
    }
    all
}

async fn told(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = demo(arguments);
    command.envs(environment.iter().copied());
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{arguments:?}: nothing is wrong with it"));
    let Output { status, stderr, .. } = ended.unwrap();
    let told = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{arguments:?}: {told}");
    told
}

#[tokio::test]
async fn a_repository_that_can_t_be_used_gets_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("folder")).unwrap();
    std::fs::create_dir(at("new")).unwrap();
    git(&at("new"), &["init", "--quiet"]);
    let shop = repository(&at("shop"), "main", &[("src/a.txt", "a\n")]);
    git(&shop, &["branch", "other"]);
    let huge = repository(&at("huge"), "main", &[]);
    // Not to be compressed away.
    let noise: Vec<u8> = (0..400_000).flat_map(|_| rand::random::<u32>().to_le_bytes()).collect();
    std::fs::write(huge.join("noise"), noise).unwrap();
    git(&huge, &["add", "--all"]);
    git(&huge, &["commit", "--quiet", "--message=Noise"]);
    let unnamed = repository(&at("unnamed"), "one", &[]);
    git(&unnamed, &["branch", "two"]);
    // The checkout is on no branch, and so there is nothing to guess by.
    git(&unnamed, &["checkout", "--quiet", "--detach"]);
    git(&unnamed, &["commit", "--quiet", "--allow-empty", "--message=Aside"]);

    let newer = repository(&at("newer"), "main", &[]);
    git(&newer, &["config", "core.repositoryformatversion", "1"]);
    git(&newer, &["config", "extensions.fancy", "true"]);
    std::fs::create_dir(at("sha256")).unwrap();
    git(&at("sha256"), &["init", "--quiet", "--object-format=sha256"]);
    git(&at("sha256"), &["commit", "--quiet", "--allow-empty", "--message=Start"]);

    git(&shop, &["commit", "--quiet", "--allow-empty", "--message=Second"]);
    let whole = format!("file://{}", shop.display());
    let line = ["clone", "--quiet", "--depth=1", &*whole, "shallow"];
    git(dir.path(), &line);

    let path = |name: &str| at(name).to_string_lossy().into_owned();
    for (arguments, expected) in [
        (vec![path("newer")], "on this machine: unknown repository extension found: fancy"),
        (vec![path("sha256")], "names its objects with SHA-256"),
        (
            vec![path("shallow")],
            "is a shallow clone, whose history ends where it was cut off: run `git fetch --unshallow`",
        ),
        (vec![format!("file://{}/", path("shallow"))], "git fetch --unshallow"),
        (vec![path("nowhere")], "nowhere does not exist"),
        (vec![path("folder")], "is no Git repository: run `git init`"),
        // Part of a repository is none.
        (vec![path("shop/src")], "is no Git repository"),
        (vec![path("new")], "has no commits yet: commit something first"),
        (
            vec![path("shop"), "--branch=release".to_owned()],
            "has no branch `release` (there are: main, other)",
        ),
        (vec![path("huge"), "--repo-limit=1".to_owned()], "is larger than 1 MB"),
        (vec![path("unnamed")], "name the one that pull requests are for with --branch"),
        (vec!["http://127.0.0.1:1/acme/shop.git".to_owned()], "can't be cloned: unable to access"),
    ] {
        let mut all = vec!["--repo"];
        all.extend(arguments.iter().map(String::as_str));
        let told = told(&all, &[]).await;
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let told = told(&["--repo", "https://ana:hunter2@127.0.0.1:1/shop.git"], &[]).await;
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn a_provider_that_can_t_be_used_gets_a_sentence() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let shop = repository(&dir.path().join("shop"), "main", &[]);
    // Of a server's only model nobody has to be asked: this one has two.
    let hello = || vec![ScriptStep::say("Hello.")];
    let script = ModelScript::of("pm", hello()).and("coder", hello());
    // At OpenRouter itself the list is anybody's.
    let options = ModelOptions { catalogue: PlayedCatalogue::OpenAi, ..ModelOptions::default() };
    let server = ModelServer::start(script, options).await.unwrap();
    let (url, key) = (server.url(), server.api_key().to_owned());
    let arguments = ["--repo", shop.to_str().unwrap()];
    for (environment, expected) in [
        (
            vec![("CODEBUTLER_MODEL_URL", "http://127.0.0.1:1/v1")],
            "127.0.0.1 can't be reached (CODEBUTLER_MODEL_URL): start that server first",
        ),
        (
            vec![("OLLAMA_HOST", "127.0.0.1:1")],
            "127.0.0.1 can't be reached (OLLAMA_HOST): start that server first",
        ),
        (vec![("CODEBUTLER_MODEL_URL", "models")], "has to look like https://host/v1"),
        (
            vec![("CODEBUTLER_MODEL_URL", &*url), ("CODEBUTLER_MODEL_KEY", "sk-wrong")],
            "127.0.0.1 refuses the key in CODEBUTLER_MODEL_KEY: put a valid one there",
        ),
        (
            vec![
                ("CODEBUTLER_MODEL_URL", &*url),
                ("CODEBUTLER_MODEL_KEY", &*key),
                ("CODEBUTLER_MODEL", "gpt-0"),
            ],
            "does not offer gpt-0: set CODEBUTLER_MODEL to one that it does, such as scripted/",
        ),
        (
            vec![("CODEBUTLER_MODEL_URL", &*url), ("CODEBUTLER_MODEL_KEY", &*key)],
            "(for the reviewer)",
        ),
    ] {
        let told = told(&arguments, &environment).await;
        assert!(told.contains(expected) && !told.contains("sk-wrong"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_models_work_on_an_own_repository_and_what_they_cost_is_said() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    // No files at all, and no branch of a usual name.
    let shop = repository(&dir.path().join("Corner_Shop"), "sales", &[]);
    let before = everything(&shop);
    // As far as the demo knows, this is somebody's provider.
    let looks = ScriptStep::tool("ListThreads", json!({})).costing(100, 5, "0.002");
    let hello = json!({"message": "Good morning."});
    let answers = ScriptStep::tool("SendMessage", hello).costing(20, 2, "0.00121");
    // The demo ends in the middle of a run, when the last price is a moment old.
    let thinks = ScriptStep { delay_ms: 600_000, ..ScriptStep::say("More.") };
    let script = ModelScript::of("pm", vec![looks, answers, thinks]);
    let server = ModelServer::start(script, ModelOptions::default()).await.unwrap();
    let mut command = demo(&["--repo", shop.to_str().unwrap()]);
    // A proxy that leads nowhere: what runs on this machine is reached without.
    for name in ["HTTPS_PROXY", "HTTP_PROXY"] {
        command.env(name, "http://127.9.9.9:1").env_remove("NO_PROXY").env_remove("no_proxy");
    }
    command
        .env("CODEBUTLER_MODEL_URL", server.url())
        .env("CODEBUTLER_MODEL_KEY", server.api_key())
        .env("CODEBUTLER_MODEL", "scripted/pm");
    let chat = Chat::run(command).await;
    for part in [
        "real: scripted/pm at 127.0.0.1",
        "branch sales",
        "has no files yet",
        "commands reach no host, as no file names npm",
    ] {
        assert!(chat.said.contains(part), "{part}: {}", chat.said);
    }
    assert!(chat.line("repository:").ends_with("/corner-shop.git"), "{}", chat.said);
    let root = chat.says("ana", None, "Good morning").await;
    chat.hears(&root, "PM", "Good morning.").await;
    let (code, rest) = chat.interrupt().await;
    assert_eq!(code, Some(0));
    let words: Vec<Vec<&str>> = rest.lines().map(|l| l.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["pm", "2", "120", "7", "0.00321"]), "{rest}");
    assert!(words.contains(&vec!["total", "0.00321"]), "{rest}");
    assert_eq!(everything(&shop), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_anthropic_alone_is_enough() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let shop = repository(&dir.path().join("shop"), "main", &[("src/a.rs", "fn a() {}\n")]);
    let answers = ScriptStep::tool("SendMessage", json!({"message": "Good morning."}));
    let script = ModelScript::of("pm", vec![answers, ScriptStep::say("That is all.")]);
    let catalogue = PlayedCatalogue::Anthropic;
    let mut options = ModelOptions { catalogue, ..ModelOptions::default() };
    for id in ["claude-opus-9", "claude-sonnet-9", "claude-sonnet-8-20260101"] {
        options = options.offer(ModelCard::new(id).playing("pm"));
    }
    let server = ModelServer::start(script, options).await.unwrap();
    let base = server.url().trim_end_matches("/v1").to_owned();
    let mut command = demo(&["--repo", shop.to_str().unwrap()]);
    command.env("ANTHROPIC_API_KEY", server.api_key()).env("ANTHROPIC_BASE_URL", &base);
    let chat = Chat::run(command).await;
    for part in
        ["(named by ANTHROPIC_API_KEY)", "claude-sonnet-9 for all roles", "real: claude-sonnet-9"]
    {
        assert!(chat.said.contains(part), "{part}: {}", chat.said);
    }
    let root = chat.says("ana", None, "Good morning").await;
    chat.hears(&root, "PM", "Good morning.").await;
    // Code that tells the roles nothing yet: the team is offered to learn it.
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let state = chat.state().await;
        if state["messages"].to_string().contains("no `.codebutler/` yet") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "nothing is offered: {state:#}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(chat.interrupt().await.0, Some(0));

    let wrong = [("ANTHROPIC_API_KEY", "sk-ant-wrong"), ("ANTHROPIC_BASE_URL", &*base)];
    let told = told(&["--repo", shop.to_str().unwrap()], &wrong).await;
    assert!(told.contains("127.0.0.1 refuses the key in ANTHROPIC_API_KEY"), "{told}");
}

/// The coder changes one file of a repository with a submodule and a file in Git LFS.
const SCENARIO: &str = r#"
name: odd
description: One file of an odd repository.
repository: {name: acme/odd, files: {unused: ""}}
users: [ana]
roles: [pm, coder]
conversation:
  - {user: ana, says: Please double the price.}
  - {user: ana, clicks: {button: Approve, on: {from: pm}}}
  - {user: ana, clicks: {button: Merge, on: {from: pm}}}
  - wait: {thread: {state: Closed}}
models:
  pm:
    - tools:
        - {name: Glob, arguments: {pattern: "**/*"}}
        - {name: Read, arguments: {path: logo.png}}
    # Neither the submodule's content nor the picture's is there, and that does no harm.
    - expect: [price.txt, "version https://git-lfs.github.com/spec/v1"]
      tools: [{name: SendMessage, arguments: {decision: plan, waitForReply: true, message: "Plan: double it."}}]
    - expect: [it is done]
      tools: [{name: SendMessage, arguments: {decision: merge, waitForReply: true, message: "Ready."}}]
    - expect: ["chose `merge`"]
      tools: [{name: CloseThread, arguments: {summary: The price is doubled.}}]
  coder:
    - tools: [{name: Read, arguments: {path: price.txt}}]
    - tools:
        - {name: Edit, arguments: {path: price.txt, edits: [{old: "price = 1", new: "price = 2"}]}}
        - {name: GitCommit, arguments: {message: Double the price}}
        - {name: GitPush}
        - {name: GHCreatePR, arguments: {title: Double the price, body: As wished.}}
    - say: "@codebutler.pm it is done"
expect:
  messages: [{from: codebutler, contains: Merged}]
  files:
    price.txt: {equals: "price = 2\n"}
    logo.png: {contains: "oid sha256:"}
  commits: {count: 1, squash: true}
  commands:
    - {run: "git ls-tree HEAD libs/", output: ["160000 commit"]}
    - {run: "git diff --stat HEAD~1 HEAD", output: ["1 file changed"]}
  branches: {only: [trunk]}
  pull_request: merged
  cost: {total: 0}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn submodules_lfs_and_another_main_branch_survive_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let library = repository(&dir.path().join("library"), "main", &[("lib.txt", "x\n")]);
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "4d7a".repeat(16)
    );
    let files = [
        ("price.txt", "price = 1\n"),
        (".gitattributes", "*.png filter=lfs diff=lfs merge=lfs -text\n"),
        ("logo.png", &*pointer),
        ("tools/release/Gemfile", "source \"https://rubygems.org\"\n"),
        ("Containerfile", "FROM ruby:3.4\nRUN apt-get update && apt-get install -y jq\n"),
    ];
    let odd = repository(&dir.path().join("odd"), "trunk", &files);
    let from = library.to_str().unwrap();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "libs/one"];
    git(&odd, &add);
    git(&odd, &["commit", "--quiet", "--message=Use the library"]);
    let before = (everything(&odd), git(&odd, &["rev-parse", "--all"]));
    let file = dir.path().join("odd.yaml");
    std::fs::write(&file, SCENARIO).unwrap();

    let _permit = permit().await;
    let arguments = ["--repo", odd.to_str().unwrap(), "--scenario", file.to_str().unwrap()];
    let output = demo(&arguments).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    for notice in [
        "submodules are not fetched, their folders stay empty: libs/one",
        "Git LFS",
        "network: commands reach the registries of rubygems (tools/release/Gemfile), debian \
         (Containerfile), containers (Containerfile)",
    ] {
        assert!(said.contains(notice), "{notice}: {said}");
    }
    assert_eq!((everything(&odd), git(&odd, &["rev-parse", "--all"])), before);
}
