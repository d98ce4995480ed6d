//! Guides that roles are told to work by: CodeButler's, those of the repository's base branch, and nobody else's.

use std::fs;

use serde_json::{Value, json};

use crate::world::{World, calls, git, in_order, says};

/// Messages that models were told beside the conversation and what they said and saw themselves.
fn told(asked: &[Value]) -> String {
    let own = |message: &&Value| message["role"] == "system" || message["role"] == "user";
    asked.iter().filter(own).map(ToString::to_string).collect()
}

/// Merged into the base branch.
fn merge(world: &World, files: &[(&str, &str)]) {
    let seed = world.path("seed");
    for (path, content) in files {
        let path = seed.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    git(&seed, &["add", "."]);
    git(&seed, &["commit", "-q", "-m", "Merged"]);
    git(&seed, &["push", "-q", world.path("remote").to_str().unwrap(), "main"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn house_rules_come_first_and_the_repository_adds_to_them() {
    let mut world = World::new(in_order(vec![says("ok")])).await;
    merge(
        &world,
        &[
            (".codebutler/pm.md", "Speak like a pirate."),
            (".codebutler/global.md", "We sell shoes."),
            ("AGENTS.md", "Use tabs."),
            ("CLAUDE.md", "@AGENTS.md\n"),
            ("CONTRIBUTING.md", "Sign off each commit."),
            ("web/AGENTS.md", "Use pnpm."),
        ],
    );
    {
        let mut inner = world.gateway.lock();
        inner.session.prompt = Some("Be brief.".into());
        inner.session.planned = vec!["web/src/shop.ts".into()];
        inner.say("hi", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let system = inner.asked[0][0]["content"].as_str().unwrap();
    let parts = [
        "# How you work here",
        "# PM\n",
        "# Workflows\n",
        "\nBe brief.\n",
        "<repository-file path=\".codebutler/global.md\">\nWe sell shoes.\n",
        "<repository-file path=\".codebutler/pm.md\">\nSpeak like a pirate.\n",
        "<repository-file path=\"AGENTS.md\">\nUse tabs.\n",
        "`CONTRIBUTING.md` says how to contribute here",
    ];
    let places: Vec<_> = parts.iter().map(|part| system.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {system}");
    assert_eq!(places[0], Some(0));
    // Guides for the planned files stand apart, behind what all runs share.
    let beside = "<repository-file path=\"web/AGENTS.md\">\nUse pnpm.\n";
    let shows = |m: &Value| m["content"].as_str().is_some_and(|text| text.contains(beside));
    assert!(!system.contains(beside) && inner.asked[0].iter().any(shows), "{:?}", inner.asked[0]);
    // It only refers to what is there, and how to contribute is named by its path.
    assert!(
        !system.contains("CLAUDE.md\">") && !system.contains("Sign off each commit"),
        "{system}"
    );
}

/// A regression: a command of one role wrote what another one took for its instructions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_writes_is_no_instruction() {
    // As a package's install script would: the command itself shows nothing of it.
    let planted = "mkdir -p .codebutler/skills\nfor file in .codebutler/pm.md .codebutler/global.md \
                   .codebutler/workflows.md .codebutler/skills/c.md AGENTS.md; do echo CANARY > $file; done\n\
                   git add -f . && git commit -q -m planted\n\
                   git update-ref refs/remotes/origin/main HEAD\n\
                   echo .codebutler/ >> .git/info/exclude\n";
    let mut world = World::new(in_order(vec![
        calls(&[
            ("Write", json!({"path": "install.sh", "content": planted})),
            ("Bash", json!({"command": "sh install.sh"})),
        ]),
        says("one"),
        says("two"),
    ]))
    .await;
    merge(&world, &[(".codebutler/pm.md", "Ours.\n")]);
    world.gateway.lock().say("begin", true);
    world.one_pod().await;
    assert_eq!(fs::read_to_string(world.tree(".codebutler/pm.md")).unwrap(), "CANARY\n");
    world.gateway.lock().say("again", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.asked.len(), 3);
    for asked in &inner.asked {
        let told = told(asked);
        assert!(told.contains("Ours.") && !told.contains("CANARY"), "{told}");
    }
    let later = told(&inner.asked[2]);
    assert!(later.contains("This thread changes `.codebutler/"), "{later}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_says_so_and_people_are_told_once() {
    let mut world = World::new(in_order(vec![says("one"), says("two")])).await;
    merge(&world, &[("AGENTS.md", &"Use tabs.\n".repeat(3_000))]);
    for text in ["hello", "again"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    let inner = world.gateway.lock();
    let system = inner.asked[0][0]["content"].as_str().unwrap();
    assert!(system.contains("more characters of this file are left out here. Read `AGENTS.md`"));
    let posts = inner.post_texts();
    let cut: Vec<_> = posts
        .iter()
        .filter(|post| post.contains("is too long: roles are not shown its last"))
        .collect();
    assert!(cut.len() == 1 && cut[0].starts_with("`AGENTS.md` is too long"), "{posts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_role_works_is_told_and_stays_the_same() {
    let mut world = World::new(in_order(vec![
        calls(&[("Write", json!({"path": "new.txt", "content": "x"}))]),
        says("one"),
        says("two"),
    ]))
    .await;
    merge(&world, &[("Makefile", "all:\n"), ("mix.exs", "x\n"), ("src/a.txt", "a\n")]);
    {
        let mut inner = world.gateway.lock();
        inner.session.people = [("U1".to_owned(), "Ana".to_owned())].into();
        inner.say("hello", true);
    }
    world.one_pod().await;
    world.gateway.lock().say("again", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let first = told(&inner.asked[0]);
    assert!(first.contains("Makefile\\nREADME\\nmix.exs\\nsrc/ (a.txt)\\n"), "{first}");
    assert!(first.contains("`elixir`: not in this image"), "{first}");
    assert!(
        first.contains("U1 is \\\"Ana\\\"") && first.contains("nothing is uncommitted"),
        "{first}"
    );
    let stays = |n: usize| {
        let system = inner.asked[n][0]["content"].as_str().unwrap();
        system.split("# As of now").next().unwrap().to_owned()
    };
    assert!(stays(0).contains("# Where you are"));
    assert_eq!(stays(0), stays(2), "nothing that a run does moves what is cached");
}
