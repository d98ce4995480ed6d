//! A browser as a server: Playwright's with Debian's Chromium, which reaches a page through the gateway alone.

use std::path::Path;

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_testbed::kubelet::LocalImage;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::serving::RunningServer;
use serde_json::{Value, json};

use super::images::{node_command, node_image, skip};
use super::{coder, reading, with_servers};
use crate::gateway::mcp_page::{manifests, read_page};
use crate::support::{Setup, needs_process_kubelet};

const PACKAGES: &[&str] = &["@playwright/mcp@0.0.83"];
const IMAGE: &str = "acme/playwright:1";
const CHROMIUM: &str = "/usr/bin/chromium";
const PAGE: &str = "<!doctype html><title>Shop</title><h1>Two teas cost 500 cents</h1>";

fn script(url: &str) -> Vec<ScriptStep> {
    let tool = |tool: &str| format!("mcp__playwright__browser_{tool}");
    vec![
        ScriptStep::tool(&tool("navigate"), json!({ "url": url })),
        ScriptStep::tool(&tool("snapshot"), json!({})),
        ScriptStep::tool(&tool("take_screenshot"), json!({})),
        ScriptStep::tool(&tool("navigate"), json!({"url": "http://127.0.0.1:9/"})),
        ScriptStep::say("Done."),
    ]
}

/// The last picture that a model was shown.
fn last_picture(messages: &str) -> Option<Vec<u8>> {
    let data = messages.rsplit_once("data:image/png;base64,")?.1;
    STANDARD.decode(data.split('"').next()?).ok()
}

/// The image of the browser; none where this machine has none.
async fn browser_image() -> Option<LocalImage> {
    if needs_process_kubelet("the server's image has programs of this machine") {
        return None;
    }
    if !Path::new(CHROMIUM).exists() {
        skip("there is no Chromium (Debian: apt-get install --no-install-recommends chromium)");
        return None;
    }
    let mut image = node_image(PACKAGES).await?;
    for folder in ["/etc/chromium.d", "/etc/fonts"] {
        if Path::new(folder).exists() {
            image.binds.push((folder.into(), folder.to_owned()));
        }
    }
    Some(image)
}

/// The server as the page has it, but for where the program is, with these flags beside its own.
fn browser_server(more: &[&str]) -> Value {
    let (mut servers, _) = manifests(&read_page());
    let at = servers.iter().position(|server| server["name"] == "playwright").unwrap();
    let mut server = servers.swap_remove(at);
    assert_eq!(server["command"][0], "playwright-mcp");
    let flags = server["command"].as_array().unwrap().iter().skip(1).cloned();
    let program = node_command("@playwright/mcp/cli.js").into_iter().map(Value::from);
    let more = more.iter().map(|flag| json!(flag));
    let command: Value = program.chain(flags).chain(more).collect();
    server["command"] = command;
    server["image"] = json!(IMAGE);
    for field in ["roles", "resources"] {
        server.as_object_mut().unwrap().remove(field);
    }
    reading(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_looks_at_a_page_of_its_own_worktree_as_it_changes() {
    let Some(image) = browser_image().await else { return };
    // Playwright sends pages on loopback through the proxy unless it is told otherwise.
    let mut server = browser_server(&["--proxy-bypass=127.0.0.1"]);
    // As `npm run dev` of the repository would, in the pod of the browser.
    let serve = "require('http').createServer((q,r)=>require('fs').readFile('/workspace'+q.url,(e,d)=>r.writeHead(e?404:200,{'content-type':'text/html'}).end(d))).listen(3000,'127.0.0.1')";
    let words = server["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    let line = format!("node -e \"{serve}\" & exec {}", words.join(" "));
    server["command"] = json!(["sh", "-c", line]);
    server["worktree"] = json!("ReadOnly");
    server.as_object_mut().unwrap().remove("egress");
    let tool = |tool: &str| format!("mcp__playwright__browser_{tool}");
    let write = |words: &str| {
        ScriptStep::tool("Bash", json!({"command": format!("echo '<h1>{words}</h1>' > menu.html")}))
    };
    let look =
        || ScriptStep::tool(&tool("navigate"), json!({"url": "http://127.0.0.1:3000/menu.html"}));
    let steps = vec![
        write("Two teas"),
        ScriptStep::say("Ready."),
        look(),
        ScriptStep::tool(&tool("snapshot"), json!({})),
        write("Three coffees"),
        look(),
        ScriptStep::tool(&tool("snapshot"), json!({})),
        ScriptStep::tool(&tool("take_screenshot"), json!({})),
        ScriptStep::say("Done."),
    ];
    let setup = Setup::new(ModelScript::of("coder", steps)).image(IMAGE, image);
    let team = with_servers(setup, vec![server]).start().await;
    let root = team.servers_wake().await;
    let shown = team.coder_works(&root).await;
    for words in ["Two teas", "Three coffees"] {
        assert!(shown.contains(&format!("heading \\\"{words}\\\"")), "{words}: {shown}");
    }
    let picture = last_picture(&shown).unwrap_or_else(|| panic!("no picture: {shown}"));
    assert!(picture.starts_with(b"\x89PNG"), "{} bytes", picture.len());
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_looks_at_a_page_and_is_shown_a_picture_of_it() {
    let Some(image) = browser_image().await else { return };
    let page = RunningServer::start(Router::new().route("/", get(|| async { Html(PAGE) }))).await;
    let page = page.unwrap();
    let host = page.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    // A page on loopback goes through the proxy too.
    let mut server = browser_server(&["--proxy-bypass=<-loopback>"]);
    server["egress"] = json!([host]);
    let setup = Setup::new(coder(script(&page.url()))).image(IMAGE, image);
    let team = with_servers(setup, vec![server]).start().await;
    let root = team.servers_wake().await;
    let shown = team.coder_works(&root).await;
    assert!(shown.contains("Two teas cost 500 cents"), "the page was read: {shown}");
    let picture = last_picture(&shown).unwrap_or_else(|| panic!("no picture: {shown}"));
    assert!(picture.starts_with(b"\x89PNG"), "{} bytes", picture.len());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playwright.png");
    std::fs::write(kept, &picture).unwrap();
    let offered = team.stack.models.requests().last().unwrap().body["tools"].clone();
    let names: Vec<&Value> =
        offered.as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert!(names.iter().all(|name| !name.to_string().contains("run_code_unsafe")), "{names:?}");
    assert!(shown.matches("Error: the server says that this failed.").count() >= 1, "{shown}");
    team.stop().await;
}
