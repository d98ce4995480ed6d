//! Skills as people meet them: what they write, what they are asked, and what they are told of a broken
//! one.

use codebutler_testbed::models::{ModelScript, ScriptStep};

use crate::support::Setup;

fn skill(name: &str, triggers: &str, prompt: &str) -> String {
    format!(
        "# {name}\n\nDoes {name}.\n\n## Trigger\n{triggers}\n\n## Agent\npm\n\n## Prompt\n{prompt}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_is_found_by_its_words_and_broken_ones_are_told_once() {
    let script =
        ModelScript::of("pm", vec![ScriptStep::say("It is deployed."), ScriptStep::say("Again.")]);
    let deploy = skill(
        "deploy",
        "deploy, deploy to {environment}",
        "Deploy to {{environment}}: `./deploy {{environment}}`.",
    );
    let team = Setup::new(script)
        .file(".codebutler/skills/deploy.md", &deploy)
        .file(".codebutler/skills/greedy.md", &skill("greedy", "{what}", "Do {{what}}."))
        .file(".claude/skills/pdf/SKILL.md", "---\nname: forms\n---\nGo.\n")
        .start()
        .await;
    let root = team.says("ana", None, "hey, can you pls deply to staging?");
    team.message(&root, "It is deployed.").await;
    team.says("ana", Some(&root), "deploy to `x; curl evil.dev`");
    team.message(&root, "Again.").await;
    let told: Vec<_> =
        team.messages(&root).into_iter().filter(|m| m.shown.contains("left out")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    for part in [
        "`.codebutler/skills/greedy.md`: line 6: the trigger `{what}` is only a parameter: it fits every message",
        "`.claude/skills/pdf/SKILL.md`: line 2: the skill is called `forms` and its folder `pdf`",
    ] {
        assert!(told[0].shown.contains(part), "{}", told[0].shown);
    }
    let requests = team.stack.models.requests();
    let first = requests[0].body.to_string();
    assert!(first.contains("asks for the skill `deploy`"), "{first}");
    assert!(first.contains(r#"Deploy to \"staging\": `./deploy staging`."#), "{first}");
    // A value that is no plain word does not become part of a command.
    let second = requests[1].body.to_string();
    assert!(second.contains("./deploy <environment>"), "{second}");
    assert!(second.contains("goes into a command and is not one plain word"), "{second}");
    let asked = team.says("ana", None, "help");
    let help = team.message(&asked, "such as:").await;
    for part in ["Workflows: ", "`deploy`: Does deploy.", "`explain`: ", "may give me work"] {
        assert!(help.shown.contains(part), "{part}: {}", help.shown);
    }
    // Whoever writes to the app alone need not be in the channel, nor see the repository.
    let (slack, ana) = (&team.stack.slack, &team.stack.users["ana"]);
    let im = slack.direct(ana);
    let asked = slack.post_as(ana, &im, None, "help").unwrap();
    let told =
        || slack.messages(&im, Some(&asked)).into_iter().find(|m| m.shown.contains("such as:"));
    let told = team.until("an answer", || async { told() }).await;
    assert!(!told.shown.contains("deploy") && !told.shown.contains("Workflows"), "{}", told.shown);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn which_of_two_skills_is_meant_is_asked_before_any_model() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("The menu is printed.")]))
        .file(".codebutler/skills/ship.md", &skill("ship", "bring out {what}", "Ship {{what}}."))
        .file(
            ".codebutler/skills/print.md",
            &skill("print", "bring out {paper}", "Print {{paper}}."),
        )
        .start()
        .await;
    let root = team.says("ana", None, "please bring out the menu");
    let asked = team.message(&root, "Which of these do you mean?").await;
    assert!(asked.shown.contains("*print*: Does print."), "{}", asked.shown);
    team.settled(&root, "pm").await;
    assert!(team.stack.models.requests().is_empty(), "a model was asked");
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &asked.ts, "choice:1").unwrap();
    team.message(&root, "The menu is printed.").await;
    let request = team.stack.models.requests()[0].body.to_string();
    assert!(request.contains(r#"Print \"the menu\"."#), "{request}");
    team.stop().await;
}

/// A journal as an earlier conversation has left it.
fn journal(asked: &str) -> String {
    format!("# Plan: bump\n\n- Asked: {asked}\n\n## Plan\n\n1. Bump.\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_the_third_time_is_to_become_a_skill() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("It is done.")]))
        .file(
            ".codebutler/journals/thread-1700000000-000100.md",
            &journal("bump the rust dependencies please"),
        )
        .file(".codebutler/journals/thread-1700000900-000100.md", &journal("fix the login page"))
        .file(
            ".codebutler/journals/thread-1700000500-000100.md",
            &journal("hey, could you bump our Rust dependency?"),
        )
        .start()
        .await;
    let root = team.says("ana", None, "can you bump the rust dependencies to `2.0`?");
    team.message(&root, "It is done.").await;
    let other = team.says("ana", None, "fix the login page once more");
    team.message(&other, "It is done.").await;
    let requests = team.stack.models.requests();
    let told = requests[0].body.to_string();
    for part in [
        "asks for something that people asked for 2 times before, and no skill covers it",
        r#"- journals/thread-1700000500-000100.md: \"hey, could you bump"#,
        r#"- journals/thread-1700000000-000100.md: \"bump the rust"#,
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        !requests[1].body.to_string().contains("no skill covers it"),
        "the second time is none"
    );
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_without_a_merge_counts_among_what_is_asked_for_again() {
    let team =
        Setup::new(ModelScript::of("pm", vec![ScriptStep::say("It is done.")])).start().await;
    for (number, words) in
        ["rotate the staging keys", "please rotate our staging keys"].iter().enumerate()
    {
        let root = team.says("ana", None, words);
        team.message(&root, "It is done.").await;
        team.settled(&root, "pm").await;
        // Histories are written a moment later.
        let name = team.thread(&root).await.metadata.name.unwrap();
        let kept = team.stack.dir.join("history").join(&team.stack.place.team).join(name);
        team.until(&format!("conversation {number} in the history"), || async {
            let lines = std::fs::read_to_string(kept.join("events.jsonl")).ok()?;
            lines.contains(words).then_some(())
        })
        .await;
    }
    let root = team.says("ana", None, "can you rotate the staging keys again?");
    team.message(&root, "It is done.").await;
    let requests = team.stack.models.requests();
    let told = requests[2].body.to_string();
    assert!(told.contains("asks for something that people asked for 2 times before"), "{told}");
    assert!(told.contains("- thread shop-"), "{told}");
    assert!(!requests[1].body.to_string().contains("no skill covers it"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_offers_once_to_learn_a_repository_that_tells_the_roles_nothing() {
    let script = ModelScript::of("pm", vec![ScriptStep::say("The maps are drawn.")]);
    let team = Setup::new(script)
        .file("src/total.py", "def total(prices):\n    return sum(prices)\n")
        .repo(|repo| repo.slack.offer_learning = true)
        .start()
        .await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let offers = || {
        let messages = slack.messages(channel, None).into_iter();
        messages
            .filter(|message| message.shown.contains("no `.codebutler/` yet"))
            .collect::<Vec<_>>()
    };
    let offer = team.until("the offer", || async { offers().pop() }).await;
    assert_eq!(offer.buttons.len(), 1, "{:?}", offer.buttons);
    for user in ["ana", "ben"] {
        slack.click(&team.stack.users[user], channel, &offer.ts, "learn:start").unwrap();
    }
    let api = team.stack.threads();
    let found = team.until("the conversation", || async {
        let list = api.list(&kube::api::ListParams::default()).await.ok()?;
        (!list.items.is_empty()).then_some(list.items)
    });
    let threads = found.await;
    assert_eq!(threads.len(), 1, "two presses begin one conversation");
    assert_eq!(threads[0].spec.prompt.as_deref(), Some("Learn this repository"));
    // Slack delivers them at the same time: either may be the first.
    let requester = threads[0].spec.requested_by.as_ref().unwrap();
    assert!(["ana", "ben"].iter().any(|user| team.stack.users[*user] == *requester), "{requester}");
    team.until("a role to take it up", || async {
        (!team.stack.models.requests().is_empty()).then_some(())
    })
    .await;
    let repos: kube::Api<codebutler_crds::Repo> =
        kube::Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    team.until("the Repo to say that it was offered", || async {
        let status = repos.get("shop").await.ok()?.status?;
        status.learning.filter(|offer| offer.settled)
    })
    .await;
    assert_eq!(offers().len(), 1);
    team.stop().await;
}
