//! A link to a thread's page that somebody posts in Slack: shown in the thread's own channel, and in no other.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::PagesAccess;
use serde_json::{Value, json};

use crate::support::{Setup, Team};

/// Returns the attachments that Slack shows beside a message.
fn attached(team: &Team, channel: &str, ts: &str) -> Value {
    let world = serde_json::to_value(team.stack.slack.snapshot()).unwrap();
    world["channels"][channel]["messages"][ts]["attachments"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_preview_where_its_thread_is_and_nowhere_else() {
    let steps = vec![
        ScriptStep::say("Looked.").costing(1000, 10, "0.314"),
        ScriptStep::say("Seen.").costing(1000, 10, "0.01"),
    ];
    let team = Setup::new(ModelScript::of("coder", steps)).pages(PagesAccess::Slack);
    let team = team.start().await;
    let slack = &team.stack.slack;
    let pages = team.stack.metrics.pages.unwrap();
    slack.show_links_of(&pages.ip().to_string());
    let root = team.says("ana", None, "@codebutler.coder look at <the> *price* & <!channel>");
    team.message(&root, "Looked.").await;
    team.settled(&root, "coder").await;
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page = format!("http://{pages}/{}/{name}", team.stack.place.team);

    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    let elsewhere = slack.create_channel("elsewhere", &[ana]);
    let other = slack.post_as(ana, &elsewhere, None, &format!("have a look: {page}")).unwrap();
    let gone = format!("http://{pages}/{}/gone-1", team.stack.place.team);
    let words = format!("@codebutler.coder you know {page} and {page}/changes, but not {gone}?");
    let own = team.says("ana", Some(&root), &words);
    let shown = team
        .until("a preview", || async {
            let shown = attached(&team, channel, &own);
            shown.as_array().is_some_and(|all| all.len() == 2).then_some(shown)
        })
        .await;
    for (one, url) in [(&shown[0], page.clone()), (&shown[1], format!("{page}/changes"))] {
        assert_eq!(one["app_unfurl_url"], json!(url));
        let title = one["blocks"][0]["text"]["text"].as_str().unwrap();
        assert!(title.starts_with(&format!("<{page}|")), "{title}");
        assert!(title.contains("price") && !title.contains("<!"), "{title}");
        let facts = one["blocks"][1]["elements"][0]["text"].as_str().unwrap();
        assert!(facts.contains("$0.3"), "{facts}");
    }
    team.message(&root, "Seen.").await;
    assert_eq!(attached(&team, &elsewhere, &other), json!([]));
    assert_eq!(slack.calls("chat.unfurl"), 1, "one call for all links of a message");
    // A role reads the link, and not what people are shown of it.
    let requests = team.stack.models.requests();
    let asked = requests.last().unwrap().body.to_string();
    assert!(asked.contains("but not") && !asked.contains("$0.3"), "{asked}");
    team.stop().await;
}
