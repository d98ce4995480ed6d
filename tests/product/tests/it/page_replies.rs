//! People write on a thread's page as they do in Slack: the same words, the same buttons, the same rights.

use std::time::Duration;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::PagesAccess;
use kube::api::ListParams;
use reqwest::Method;

use crate::signing_in::Browsing;
use crate::support::{Setup, Team, asks};

struct Page {
    address: String,
    browsing: Browsing,
}

impl Page {
    async fn open(team: &Team, root: &str, user: &str) -> Self {
        let name = team.thread(root).await.metadata.name.unwrap();
        let address = format!("/{}/{name}", team.stack.place.team);
        let user = team.stack.users[user].clone();
        let browsing = Browsing::sign_in(team, &user, None, &address).await;
        Self { address, browsing }
    }

    async fn until_served(&mut self) {
        let address = format!("{}/assets/page.css", self.browsing.base);
        while reqwest::get(&address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The part of the page between these, the first time.
    async fn part(&mut self, from: &str, to: &str) -> String {
        let (_, text) = self.browsing.open(&self.address).await;
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}"));
        rest.split_once(to).unwrap().0.to_owned()
    }

    async fn value(&mut self, field: &str) -> String {
        self.part(&format!("name=\"{field}\" value=\""), "\"").await
    }

    /// Sends a form; status and text of the answer.
    async fn send(&mut self, what: &str, fields: &[(&str, &str)]) -> (u16, String) {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let own = self.browsing.base.clone();
        let address = format!("{}/{what}", self.address);
        let answer = self.browsing.ask(Method::POST, &address, Some((&own, &body))).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_on_the_page_is_its_persons_message_and_is_posted_once() {
    let steps = ["Looked.", "Looked again.", "Never said."].map(ScriptStep::say).to_vec();
    let team = Setup::new(ModelScript::of("coder", steps)).pages(PagesAccess::Slack);
    let mut team = team.start().await;
    let root = team.says("ana", None, "@codebutler.coder look");
    team.message(&root, "Looked.").await;
    team.settled(&root, "coder").await;
    let mut page = Page::open(&team, &root, "ben").await;
    let (token, key) = (page.value("token").await, page.value("key").await);
    let words = "@codebutler.coder look at <b> & 3 > 2,\nplease";
    let reply = [("token", &*token), ("key", &*key), ("text", words)];
    let (first, second) = (page.send("reply", &reply).await, page.send("reply", &reply).await);
    assert_eq!((first.0, second.0), (303, 303), "{} {}", first.1, second.1);
    team.message(&root, "Looked again.").await;
    let posted: Vec<_> =
        team.messages(&root).into_iter().filter(|m| m.text.contains("3 &gt; 2")).collect();
    assert_eq!(posted.len(), 1, "{posted:?}");
    assert_eq!(posted[0].sender.name, "ben (on the page)");
    // The role reads what was written, and who did.
    let requests = team.stack.models.requests();
    let asked = requests.last().unwrap().body.to_string();
    assert!(asked.contains("look at <b> & 3 > 2,"), "{asked}");
    let ben = &team.stack.users["ben"];
    assert!(asked.contains(ben.as_str()) || asked.contains("ben"), "{asked}");

    // A gateway that knows nothing yet takes it for what it is.
    team.stack.gateway.kill().await.unwrap();
    team.stack.gateway.restart().await.unwrap();
    page.until_served().await;
    let (status, text) = page.send("reply", &reply).await;
    assert_eq!(status, 303, "{text}");
    let posted = team.messages(&root).iter().filter(|m| m.text.contains("3 &gt; 2")).count();
    assert_eq!(posted, 1, "posted once, also by another process");

    for (text, why) in [("  \r\n ", "It is empty"), (&*"long ".repeat(700), "longer than 3000")] {
        let (status, answer) =
            page.send("reply", &[("token", &*token), ("key", &*key), ("text", text)]).await;
        assert_eq!(status, 400);
        assert!(answer.contains(why), "{answer}");
        // The text is there to be sent again.
        assert!(answer.contains(text.trim()), "{answer}");
    }
    let (status, _) = page.send("reply", &[("token", "AAAA"), ("key", &*key), ("text", "x")]).await;
    assert_eq!(status, 403);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_on_the_page_by_who_may() {
    let script = ModelScript::of("pm", vec![asks("Plan: raise the price.", "plan")])
        .and("coder", vec![ScriptStep::say("Raised.")]);
    let team = Setup::new(script)
        .pages(PagesAccess::Slack)
        .repo(|repo| repo.access.users.clear())
        .start()
        .await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    team.settled(&root, "pm").await;
    let mut page = Page::open(&team, &root, "ben").await;
    let asked = page.part("<section id=\"asks\"", "</section>").await;
    for shown in ["Plan: raise the price.", "plan:approve", "plan:modify", "plan:reject", &plan.ts]
    {
        assert!(asked.contains(shown), "{shown}: {asked}");
    }
    let token = page.value("token").await;
    let press = |action| [("token", &*token), ("message", &*plan.ts), ("action", action)];
    let (status, text) = page.send("answer", &press("plan:approve")).await;
    assert_eq!(status, 303, "{text}");
    team.message(&root, "Coder goes on: the plan is approved").await;
    let ben = team.stack.users["ben"].clone();
    assert_eq!(team.thread(&root).await.status.unwrap().plan.unwrap().approved_by, Some(ben));
    // A button that no question offers can't be pressed, whatever a form says.
    let threads =
        || async { team.stack.threads().list(&ListParams::default()).await.unwrap().items.len() };
    let before = threads().await;
    for (message, action) in [(&*plan.ts, "learn:start"), (&*root, "budget:raise-5")] {
        let forged = [("token", &*token), ("message", message), ("action", action)];
        assert_eq!(page.send("answer", &forged).await.0, 409, "{action}");
    }
    assert_eq!(threads().await, before);
    // Somebody else was first, and it is said.
    let mut other = Page::open(&team, &root, "ana").await;
    let token = other.value("token").await;
    let late = [("token", &*token), ("message", &*plan.ts), ("action", "plan:reject")];
    let (status, text) = other.send("answer", &late).await;
    assert_eq!(status, 409, "{text}");
    assert!(text.contains("no longer open"), "{text}");
    let asked = other.part("<section id=\"asks\"", "</section>").await;
    assert!(!asked.contains("plan:approve"), "{asked}");
    team.stop().await;
}
