//! Signing in to pages with Slack: who sees what, for how long, and what they may do there.

use std::collections::BTreeMap;
use std::time::Duration;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::PagesAccess;
use futures::StreamExt as _;
use reqwest::{Method, Response, StatusCode, header};
use serde_json::json;

use crate::support::{Setup, Team};

/// Time within which a person who leaves a channel is signed out.
const OUT: Duration = Duration::from_mins(1);

/// Text of the link that leads to a page.
const LINK: &str = "Watch what happens";

/// One browser: it keeps cookies, and goes where it is sent.
pub(crate) struct Browsing {
    client: reqwest::Client,
    pub base: String,
    cookies: BTreeMap<String, String>,
    /// Attributes of the newest cookie, and every address that it was sent to.
    attributes: String,
    pub sent: Vec<String>,
}

impl Browsing {
    pub(crate) fn new(team: &Team) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let base = format!("http://{}", team.stack.metrics.pages.unwrap());
        let client = client.build().unwrap();
        Self { client, base, cookies: BTreeMap::new(), attributes: String::new(), sent: Vec::new() }
    }

    pub(crate) async fn ask(
        &mut self,
        method: Method,
        url: &str,
        body: Option<(&str, &str)>,
    ) -> Response {
        let url = if url.starts_with('/') { format!("{}{url}", self.base) } else { url.to_owned() };
        let mut request = self.client.request(method, &url);
        if url.starts_with(&self.base) {
            let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
            request = request.header(header::COOKIE, cookies.collect::<Vec<_>>().join("; "));
        }
        if let Some((origin, body)) = body {
            let form = "application/x-www-form-urlencoded";
            request = request.header(header::CONTENT_TYPE, form).body(body.to_owned());
            request = request.header(header::ORIGIN, origin);
        }
        let answer = request.send().await.unwrap();
        for cookie in answer.headers().get_all(header::SET_COOKIE) {
            let (pair, attributes) = cookie.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
                attributes.clone_into(&mut self.attributes);
            }
        }
        answer
    }

    pub(crate) async fn get(&mut self, url: &str) -> Response {
        self.ask(Method::GET, url, None).await
    }

    /// Status and text of a page, wherever it leads.
    pub(crate) async fn open(&mut self, url: &str) -> (StatusCode, String) {
        let mut answer = self.get(url).await;
        while answer.status().is_redirection() {
            let to = answer.headers()[header::LOCATION].to_str().unwrap().to_owned();
            self.sent.push(to.clone());
            answer = self.get(&to).await;
        }
        (answer.status(), answer.text().await.unwrap())
    }

    pub(crate) async fn sign_in(
        team: &Team,
        user: &str,
        workspace: Option<&str>,
        to: &str,
    ) -> Self {
        let mut browsing = Self::new(team);
        team.stack.slack.sit_down(user, workspace);
        browsing.open(&format!("/sign-in?to={to}")).await;
        browsing
    }

    /// Returns the token that has to come with a change that a page offers.
    async fn token(&mut self, page: &str) -> String {
        let (_, text) = self.open(page).await;
        let (_, rest) = text.split_once("name=\"token\" value=\"").expect(&text);
        rest.split_once('"').unwrap().0.to_owned()
    }
}

fn script() -> ModelScript {
    let wait = ScriptStep::tool("Bash", json!({"command": "sleep 600"}));
    let steps = vec![ScriptStep::say("Looked."), wait, ScriptStep::say("As you wish.")];
    ModelScript::of("coder", steps)
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_the_channel_see_its_threads_until_they_leave_it() {
    let team = Setup::new(script()).pages(PagesAccess::Slack).start().await;
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    let ana = team.stack.users["ana"].clone();
    let root = team.says("ana", None, "@codebutler.coder look");
    let said = team.message(&root, "Looked.").await;
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page = format!("/{}/{name}", team.stack.place.team);
    assert!(said.shown.contains(LINK), "the first answer links its page: {}", said.shown);
    let world = serde_json::to_string(&slack.snapshot()).unwrap();
    assert!(world.contains(&format!("{page}|Watch what happens")), "{world}");
    team.settled(&root, "coder").await;

    // Nobody in particular is told where to sign in, and nothing else.
    let mut stranger = Browsing::new(&team);
    let [events, lines, table, changes, conversation] =
        ["events", "events.jsonl", "roadmap/events", "changes", "slack"]
            .map(|end| format!("{page}/{end}"));
    for path in [&*page, "/", "/costs", &events, &lines, &table, &changes, &conversation] {
        let (status, text) = stranger.open(path).await;
        assert_eq!(status, 401, "{path}");
        assert!(text.contains("/sign-in?to=") && !text.contains("Looked."), "{text}");
    }

    let mut browsing = Browsing::sign_in(&team, &ana, None, &page).await;
    assert_eq!(browsing.sent.last().unwrap(), &page, "no code stays in the address");
    let (status, text) = browsing.open(&page).await;
    assert_eq!(status, 200);
    assert!(text.contains("Looked.") && text.contains("Stop what runs"), "{text}");
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=28800"] {
        assert!(browsing.attributes.contains(attribute), "{}", browsing.attributes);
    }
    assert!(browsing.open("/").await.1.contains(&page));

    // The address that came back once is good for nobody else, and for nobody twice.
    let back = browsing.sent.iter().find(|to| to.contains("/sign-in/done?")).unwrap().clone();
    for other in [&mut browsing, &mut stranger] {
        let (status, text) = other.open(&back).await;
        assert_eq!(status, 400);
        assert!(text.contains("This link has expired"), "{text}");
    }
    let forged = stranger.open("/sign-in/done?code=1.2&state=").await;
    assert_eq!(forged.0, 400);

    let eve = slack.create_user("eve", "Eve");
    for (user, workspace) in [(&eve, None), (&ana, Some("T0OTHER"))] {
        let mut other = Browsing::sign_in(&team, user, workspace, &page).await;
        let (status, text) = other.open(&page).await;
        assert_eq!(status, 403, "{user} of {workspace:?}");
        assert!(text.contains("This is not shown to you") && !text.contains("Looked."), "{text}");
        assert!(!other.open("/").await.1.contains(&page));
        for part in ["steps", "changes", "changes?file=README.md", "slack"] {
            let (status, text) = other.open(&format!("{page}/{part}")).await;
            assert_eq!(status, 403, "{part}");
            assert!(!text.contains("Looked.") && !text.contains("README"), "{text}");
        }
    }

    // A stream that is open ends with the right to it.
    let mut streams = Vec::new();
    for stream in ["/events?after=0", "/roadmap/events"] {
        streams.push(browsing.get(&format!("{page}{stream}")).await.bytes_stream());
    }
    slack.remove_member(channel, &ana).unwrap();
    let over = tokio::time::timeout(OUT, async {
        let mut all = [String::new(), String::new()];
        for (pieces, heard) in streams.iter_mut().zip(&mut all) {
            while let Some(Ok(piece)) = pieces.next().await {
                *heard += &String::from_utf8_lossy(&piece);
            }
        }
        all
    });
    let [steps, table] = over.await.expect("a stream outlives its reader's membership");
    assert!(steps.contains("Looked.") && steps.contains("event: end"), "{steps}");
    assert!(table.contains("event: end"), "{table}");
    assert_eq!(browsing.open(&page).await.0, 403);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_steer_stops_what_runs_from_its_page_and_no_other_site_does() {
    let team = Setup::new(script()).pages(PagesAccess::Slack).start().await;
    let ben = team.stack.users["ben"].clone();
    let root = team.says("ana", None, "@codebutler.coder look");
    team.message(&root, "Looked.").await;
    team.settled(&root, "coder").await;
    team.says("ana", Some(&root), "@codebutler.coder wait");
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page = format!("/{}/{name}", team.stack.place.team);
    let mut browsing = Browsing::sign_in(&team, &ben, None, &page).await;
    while !browsing.open(&page).await.1.contains("<code>Bash") {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (stop, token) = (format!("{page}/stop"), browsing.token(&page).await);
    let own = browsing.base.clone();
    let form = format!("token={token}");
    for (origin, body, status) in [
        ("http://evil.example", &*form, 405),
        ("null", &*form, 405),
        (&*own, "token=", 403),
        (&*own, "token=AAAA", 403),
    ] {
        let answer = browsing.ask(Method::POST, &stop, Some((origin, body))).await;
        assert_eq!(answer.status(), status, "{origin} {body}");
    }
    let mut stranger = Browsing::new(&team);
    let answer = stranger.ask(Method::POST, &stop, Some((&*own, &*form))).await;
    assert_eq!(answer.status(), 401);
    let answer = browsing.ask(Method::POST, &stop, Some((&*own, &*form))).await;
    assert_eq!(answer.status(), 303);
    team.message(&root, "Stopped").await;

    let answer = browsing.ask(Method::POST, "/sign-out", Some((&*own, &*form))).await;
    assert_eq!(answer.status(), 303);
    assert_eq!(browsing.open(&page).await.0, 401);
    let links = team.messages(&root).iter().filter(|m| m.shown.contains(LINK)).count();
    assert_eq!(links, 1, "a page is linked once");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_for_who_is_in_every_channel_that_its_thread_was_opened_in() {
    let look = ModelScript::of("coder", vec![ScriptStep::say("Looked.")]);
    let team = Setup::new(look).pages(PagesAccess::Slack).start().await;
    let (ana, ben) = (team.stack.users["ana"].clone(), team.stack.users["ben"].clone());
    let root = team.says("ana", None, "@codebutler.coder look");
    team.message(&root, "Looked.").await;
    team.settled(&root, "coder").await;
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page = format!("/{}/{name}", team.stack.place.team);
    let mut inside = Browsing::sign_in(&team, &ana, None, &page).await;
    assert_eq!(inside.open(&page).await.0, 200);
    // One of the same name was held elsewhere, or this one was before.
    let bot = team.stack.slack.bot_user_id();
    let board = team.stack.slack.create_private_channel("board", &[&ben, &bot]);
    let repo = team.thread(&root).await.spec.repo;
    let event = json!({"event": "opened", "repo": repo, "channel": board});
    let mut line = json!({"v": 1, "at": 1, "source": "gateway", "key": format!("opened:{board}")});
    line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    let kept = team.stack.dir.join("history").join(&team.stack.place.team).join(&name);
    let mut file =
        std::fs::OpenOptions::new().append(true).open(kept.join("events.jsonl")).unwrap();
    std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    for path in [&*page, &format!("{page}/events.jsonl"), &format!("{page}/trajectory.json")] {
        assert_eq!(inside.open(path).await.0, 403, "{path}");
    }
    assert!(!inside.open("/").await.1.contains(&page));
    let mut both = Browsing::sign_in(&team, &ben, None, &page).await;
    let (status, text) = both.open(&page).await;
    assert_eq!(status, 200, "{text}");
    assert!(both.open("/").await.1.contains(&page));
    team.stop().await;
}
