//! Signing in to a remote server: from its 401 to a called tool, newer tokens, a grant that is taken back, and links
//! and answers that reach the wrong hands.

use codebutler_crds::condition::MCP_SERVERS_READY;
use codebutler_crds::mcp::{McpOauth, McpServerSpec};
use codebutler_crds::{Repo, Thread};
use codebutler_testbed::mcp::authority::SignInAuthority;
use codebutler_testbed::mcp::{McpServer, ToolAnswer};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::MessageView;
use codebutler_testbed::stack::PagesAccess;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::signing_in::Browsing;
use crate::support::{Setup, Team};

const TOOL: &str = "mcp__docs__search";

struct Library {
    team: Team,
    authority: SignInAuthority,
    server: McpServer,
}

impl Library {
    /// A team whose coder may use a server that people sign in to.
    async fn open(script: ModelScript, pages: PagesAccess) -> Self {
        let authority = SignInAuthority::start().await.unwrap();
        Self::open_at(authority, script, pages).await
    }

    /// The same with an authority that was prepared.
    async fn open_at(authority: SignInAuthority, script: ModelScript, pages: PagesAccess) -> Self {
        let server = McpServer::start_signed(&authority).await.unwrap();
        let tool = json!({
            "name": "search", "description": "Searches.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
        });
        server.set_tool(tool, ToolAnswer::Text("page 7".to_owned()));
        let spec = McpServerSpec {
            name: "docs".to_owned(),
            url: Some(server.url()),
            oauth: Some(McpOauth::default()),
            roles: vec!["coder".to_owned()],
            idle_seconds: 300,
            call_seconds: 90,
            ..McpServerSpec::default()
        };
        let setup = Setup::new(script)
            .pages(pages)
            .repo(move |repo| repo.mcp_servers = vec![spec.clone()])
            .role(|role| role.tools.allow.push("mcp__*".to_owned()));
        Self { team: setup.start().await, authority, server }
    }

    /// Waits until the Repo's condition says something of its servers.
    async fn condition(&self, reason: &str, words: &str) -> String {
        let stack = &self.team.stack;
        let repos = Api::<Repo>::namespaced(stack.cluster.client(), &stack.place.team);
        let found = || async {
            let status = repos.get("shop").await.unwrap().status?;
            let found = status.conditions.into_iter().find(|c| c.type_ == MCP_SERVERS_READY)?;
            (found.reason == reason && found.message.contains(words)).then_some(found.message)
        };
        self.team.until(&format!("the condition {reason} with `{words}`"), found).await
    }

    async fn create_tokens(&self) {
        let stack = &self.team.stack;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "codebutler-mcp-tokens", "namespace": stack.place.team},
        });
        stack.cluster.apply_yaml(&secret.to_string()).await.unwrap();
    }

    /// The person of the newest link signs in.
    async fn sign_in(&self, root: &str, others: usize) -> String {
        let (link, only) = self.link(root, others).await;
        let mut browsing = Browsing::sign_in(&self.team, &only, None, "/").await;
        let there = follow(&mut browsing, &link).await;
        let (status, text) = browsing.open(&there).await;
        assert!(status == 200 && text.contains("You are signed in to docs"), "{status} {text}");
        there
    }

    /// The newest link that was sent after so many others, and the person who alone sees it.
    async fn link(&self, root: &str, others: usize) -> (String, String) {
        let is_link = |message: &MessageView| message.text.contains("/sign-in/server/");
        let found = || async {
            let links: Vec<MessageView> =
                self.team.messages(root).into_iter().filter(is_link).collect();
            links.last().filter(|_| links.len() > others).cloned()
        };
        let link = self.team.until("a link to sign in", found).await;
        let mut parts = link.text.split(['<', '>', '|']);
        let address = parts.find(|part| part.contains("/sign-in/server/")).unwrap();
        (address.to_owned(), link.ephemeral_for.clone().expect("one person alone sees it"))
    }
}

/// A coder that needs the docs, and finds a page in them after the sign-in.
fn find_once() -> ModelScript {
    let steps = vec![
        ScriptStep::say("I need the docs."),
        ScriptStep::tool(TOOL, json!({"q": "tax"})),
        ScriptStep::say("It is on the page."),
    ];
    ModelScript::of("coder", steps)
}

/// The address to which a browser is sent.
async fn follow(browsing: &mut Browsing, url: &str) -> String {
    let answer = browsing.get(url).await;
    let status = answer.status();
    assert!(status.is_redirection(), "{url}: {status} {}", answer.text().await.unwrap());
    answer.headers()["location"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_person_signs_in_and_the_role_calls_renews_and_loses_the_grant() {
    let search = || ScriptStep::tool(TOOL, json!({"q": "tax"}));
    let steps = vec![
        ScriptStep::say("I need the docs."),
        search(),
        ScriptStep::say("It is on the page."),
        search(),
        ScriptStep::say("Still there."),
        search(),
        ScriptStep::say("I can't look any more."),
    ];
    let library = Library::open(ModelScript::of("coder", steps), PagesAccess::Slack).await;
    let Library { team, authority, server } = &library;
    let (ana, ben) = (team.stack.users["ana"].clone(), team.stack.users["ben"].clone());

    // Without a place for the tokens nobody is sent anywhere.
    library.condition("McpSignInNeeded", "create secret generic codebutler-mcp-tokens").await;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    let (link, only) = library.link(&root, 0).await;
    assert_eq!(only, ana);
    assert_eq!((server.calls().len(), authority.clients()), (0, 1));

    // It is of no use to another person, nor is what it leads to.
    let mut other = Browsing::sign_in(team, &ben, None, "/").await;
    let (status, text) = other.open(&link).await;
    assert!(status == 403 && text.contains("for another person"), "{status} {text}");
    let mut browsing = Browsing::sign_in(team, &ana, None, "/").await;
    let there = follow(&mut browsing, &link).await;
    assert!(there.starts_with(authority.origin()), "{there}");
    let back = follow(&mut other, &there).await;
    let stolen = other.open(&back).await;
    assert_eq!(stolen.0, 400, "the state alone, in another browser: {}", stolen.1);
    let wrong = back.replace("state=", "state=x");
    let (status, text) = browsing.open(&wrong).await;
    assert!(status == 400 && text.contains("expired"), "{status} {text}");
    let iss = back.replace("iss=http", "iss=https");
    assert_eq!(browsing.open(&iss).await.0, 400, "an answer of another issuer");

    let (status, text) = browsing.open(&there).await;
    assert!(status == 200 && text.contains("You are signed in to docs"), "{status} {text}");
    let again = browsing.sent.last().unwrap().clone();
    assert_eq!(browsing.open(&again).await.0, 400, "it was done once");
    assert_eq!(browsing.open(&link).await.0, 400, "so is the link");
    team.message(&root, "has signed in to the server").await;
    team.message(&root, "It is on the page.").await;
    assert_eq!(server.calls().len(), 1);
    library.condition("McpServersReady", "`docs` 1.2.3 has 1 tool").await;

    // Newer tokens: nobody notices.
    authority.end_access();
    team.says("ben", Some(&root), "@codebutler.coder and now?");
    team.message(&root, "Still there.").await;
    assert_eq!((server.calls().len(), authority.refreshes()), (2, 1));

    // Taken back: said in the thread, and to the person who asks.
    authority.revoke();
    team.says("ben", Some(&root), "@codebutler.coder once more");
    let said = team.message(&root, "no longer valid").await;
    // The message mentions the person who asks.
    let called = format!("<@{ben}>");
    assert!(said.ephemeral_for.is_none() && said.text.contains(&called), "{}", said.text);
    let (_, only) = library.link(&root, 1).await;
    assert_eq!(only, ben);
    assert_eq!(authority.clients(), 1, "the client is as good as before");
    team.message(&root, "I can't look any more.").await;
    assert_eq!(server.calls().len(), 2);
    library.condition("McpSignInNeeded", "no longer valid").await;

    let shown = serde_json::to_string(&team.stack.slack.snapshot()).unwrap() + &team.logs();
    let secrets = authority.secrets();
    assert!(secrets.len() >= 5, "{}", secrets.len());
    for secret in secrets {
        assert!(!shown.contains(&secret), "a secret is shown: {secret}");
    }
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_signed_in_is_not_asked_any_more() {
    let steps = vec![ScriptStep::say("I need the docs."), ScriptStep::say("Thank you.")];
    let library = Library::open(ModelScript::of("coder", steps), PagesAccess::Slack).await;
    let Library { team, server, .. } = &library;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    let asked = |thread: &Thread| {
        let mcp = thread.status.as_ref().and_then(|status| status.mcp.as_ref());
        mcp.and_then(|mcp| mcp.servers.get("docs")?.sign_in.clone())
    };
    team.thread_when(&root, "who is asked", |thread| asked(thread).is_some()).await;
    library.sign_in(&root, 0).await;
    team.message(&root, "Thank you.").await;
    // No call was needed for it.
    assert_eq!((server.calls().len(), asked(&team.thread(&root).await)), (0, None));
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_refused_after_a_sign_in_is_said_in_the_thread() {
    let steps = vec![
        ScriptStep::say("I need the docs."),
        ScriptStep::tool(TOOL, json!({"q": "tax"})),
        ScriptStep::say("They refuse me."),
    ];
    let library = Library::open(ModelScript::of("coder", steps), PagesAccess::Slack).await;
    let Library { team, server, .. } = &library;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    let (link, ana) = library.link(&root, 0).await;
    server.refuse_calls(true);
    let mut browsing = Browsing::sign_in(team, &ana, None, "/").await;
    let there = follow(&mut browsing, &link).await;
    assert_eq!(browsing.open(&there).await.0, 200);
    let said = team.message(&root, "no longer valid").await;
    // The message mentions the person who asks.
    let called = format!("<@{ana}>");
    assert!(said.ephemeral_for.is_none() && said.text.contains(&called), "{}", said.text);
    library.link(&root, 1).await;
    team.message(&root, "They refuse me.").await;
    assert!(server.calls().is_empty());
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_is_refused_or_has_no_address_is_said_with_the_remedy() {
    let say = |text: &str| ScriptStep::say(text);
    let answers = ["I need the docs.", "Again.", "Once more.", "Good."];
    let script = ModelScript::of("coder", answers.map(say).into());
    let library = Library::open(script, PagesAccess::Open).await;
    let Library { team, authority, server } = &library;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    let (link, _) = library.link(&root, 0).await;
    authority.refuse(true);
    let mut browsing = Browsing::new(team);
    let (status, text) = browsing.open(&link).await;
    assert!(status == 502 && text.contains("access_denied"), "{status} {text}");
    assert_eq!(browsing.open(&link).await.0, 400, "it was used");
    team.message(&root, "I need the docs.").await;

    // The next message brings another link, of the same client.
    authority.refuse(false);
    team.says("ana", Some(&root), "@codebutler.coder again");
    let (link, _) = library.link(&root, 1).await;
    assert_eq!(authority.clients(), 1);
    team.message(&root, "Again.").await;

    // One that has forgotten its clients says so to the person alone. The link after that is of a new client.
    authority.forget_clients();
    let (status, text) = browsing.open(&link).await;
    assert!(status == 400 && text.contains("unknown client"), "{status} {text}");
    team.says("ana", Some(&root), "@codebutler.coder once more");
    let (link, _) = library.link(&root, 2).await;
    let (status, text) = browsing.open(&link).await;
    assert!(status == 200 && text.contains("You are signed in"), "{status} {text}");
    assert_eq!((authority.clients(), server.calls().len()), (1, 0));
    library.team.stop().await;

    let script = ModelScript::of("coder", Vec::new());
    let library = Library::open(script, PagesAccess::default()).await;
    library
        .condition("McpSignInNeeded", "set `pages.enabled`, `pages.url` and `pages.signIn`")
        .await;
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_lost_in_other_words_than_the_standards_is_asked_for_again() {
    let search = || ScriptStep::tool(TOOL, json!({"q": "tax"}));
    let steps = vec![
        ScriptStep::say("I need the docs."),
        search(),
        ScriptStep::say("It is on the page."),
        search(),
        ScriptStep::say("I can't look any more."),
    ];
    let library = Library::open(ModelScript::of("coder", steps), PagesAccess::Slack).await;
    let Library { team, authority, server } = &library;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    library.sign_in(&root, 0).await;
    team.message(&root, "It is on the page.").await;

    authority.speak_like_github();
    authority.revoke();
    team.says("ana", Some(&root), "@codebutler.coder once more");
    team.message(&root, "no longer valid").await;
    library.link(&root, 1).await;
    team.message(&root, "I can't look any more.").await;
    assert_eq!(server.calls().len(), 1);
    library.condition("McpSignInNeeded", "no longer valid").await;
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peculiarities_of_an_authorization_server_are_stated_by_a_person() {
    let authority = SignInAuthority::start().await.unwrap();
    // As Atlassian's and Slack's do, and with a page for people where its metadata is looked for first.
    authority.call_itself("https://issuer.example/tenant");
    authority.show_front_page();
    authority.be_like_entra();
    let library = Library::open_at(authority, find_once(), PagesAccess::Slack).await;
    let Library { team, server, .. } = &library;
    library.create_tokens().await;
    let said = library.condition("McpSignInNeeded", "calls itself the issuer").await;
    assert!(said.contains("write `issuer: https://issuer.example/tenant` in `oauth`"), "{said}");

    let stack = &team.stack;
    let repos = Api::<Repo>::namespaced(stack.cluster.client(), &stack.place.team);
    let mut servers = json!(repos.get("shop").await.unwrap().spec.mcp_servers);
    let mut state = async |oauth: serde_json::Value| {
        servers[0]["oauth"] = oauth;
        let patch = json!({"spec": {"mcpServers": servers}});
        repos.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    };
    state(json!({"issuer": "https://wrong.example"})).await;
    let wrong = "and not `https://wrong.example` as `oauth.issuer` says";
    library.condition("McpSignInNeeded", wrong).await;
    let issuer = "https://issuer.example/tenant";
    state(json!({"issuer": issuer})).await;
    library.condition("McpSignInNeeded", "write `pkce: Assumed` in `oauth`").await;
    let parameters = json!([{"name": "access_type", "value": "offline"}]);
    let all = json!({
        "issuer": issuer, "pkce": "Assumed", "resource": "Omitted", "parameters": parameters,
    });
    state(all).await;
    library.condition("McpSignInNeeded", "one who writes in a thread").await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    let there = library.sign_in(&root, 0).await;
    assert!(there.contains("access_type=offline") && !there.contains("resource="), "{there}");
    team.message(&root, "It is on the page.").await;
    assert_eq!(server.calls().len(), 1);
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_nobody_registers_is_described_by_a_document() {
    let authority = SignInAuthority::start().await.unwrap();
    authority.read_documents();
    sign_in_by_document(authority).await;
}

/// A regression: an authorization server that registers only those that it knows was of no use, though it reads
/// documents of all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_is_described_by_a_document() {
    let authority = SignInAuthority::start().await.unwrap();
    authority.guard_registration();
    sign_in_by_document(authority).await;
}

async fn sign_in_by_document(authority: SignInAuthority) {
    let library = Library::open_at(authority, find_once(), PagesAccess::Slack).await;
    let Library { team, server, .. } = &library;
    library.create_tokens().await;
    library.condition("McpSignInNeeded", "one who writes in a thread").await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    let there = library.sign_in(&root, 0).await;
    assert!(there.contains("%2Fsign-in%2Fserver%2Fclient.json&"), "{there}");
    team.message(&root, "It is on the page.").await;
    assert_eq!(server.calls().len(), 1);
    library.team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named_and_its_person_can_add_it() {
    let search = || ScriptStep::tool(TOOL, json!({"q": "tax"}));
    let steps = vec![
        ScriptStep::say("I need the docs."),
        search(),
        ScriptStep::say("I lack a right."),
        search(),
        ScriptStep::say("It is still missing."),
        search(),
        ScriptStep::say("It is on the page."),
    ];
    let library = Library::open(ModelScript::of("coder", steps), PagesAccess::Slack).await;
    let Library { team, authority, server } = &library;
    library.create_tokens().await;
    let root = team.says("ana", None, "@codebutler.coder where is the tax?");
    team.message(&root, "I need the docs.").await;
    server.want_right("files:read");
    let first = library.sign_in(&root, 0).await;
    assert!(first.contains("scope=mcp%3Atools+offline_access"), "{first}");
    team.message(&root, "I lack a right.").await;
    let told = team.stack.models.requests().last().unwrap().body["messages"].to_string();
    assert!(told.contains("was not run: the sign-in lacks the right `files:read`"), "{told}");
    let (link, _) = library.link(&root, 1).await;
    assert!(link.contains("/sign-in/server/"), "{link}");
    let messages = team.messages(&root);
    let asked = messages.iter().rfind(|one| one.text.contains("/sign-in/server/")).unwrap();
    assert!(asked.text.contains("wants the right `files:read`"), "{}", asked.text);
    assert!(!messages.iter().any(|one| one.shown.contains("no longer valid")), "{messages:?}");

    // Each message brings a link, and all of them are of one client.
    team.says("ana", Some(&root), "@codebutler.coder try again");
    team.message(&root, "It is still missing.").await;
    library.link(&root, 2).await;
    assert_eq!(authority.clients(), 2);

    // It is asked for beside the earlier ones.
    let wider = library.sign_in(&root, 2).await;
    assert!(wider.contains("scope=mcp%3Atools+offline_access+files%3Aread"), "{wider}");
    assert_eq!(authority.clients(), 2, "the first one may not ask for so much");
    team.message(&root, "It is on the page.").await;
    assert_eq!(server.calls().len(), 1);
    library.condition("McpServersReady", "`docs` 1.2.3 has 1 tool").await;
    library.team.stop().await;
}
