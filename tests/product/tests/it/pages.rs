//! Pages on threads, as a browser and a proxy meet them.

use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use futures::StreamExt as _;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{Setup, Team, asks};

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn bash(command: &str) -> ScriptStep {
    ScriptStep::tool("Bash", json!({"command": command}))
}

fn url(team: &Team, path: &str) -> String {
    format!("http://{}{path}", team.stack.metrics.pages.unwrap())
}

async fn page_of(team: &Team, root: &str) -> String {
    let name = team.thread(root).await.metadata.name.unwrap();
    format!("/{}/{name}", team.stack.place.team)
}

async fn text(team: &Team, path: &str) -> String {
    reqwest::get(url(team, path)).await.unwrap().text().await.unwrap()
}

/// Events of a stream until one says something: the last id, and all that they said.
async fn listen(team: &Team, path: &str, last: Option<u64>, until: &str) -> (u64, String) {
    let mut request = reqwest::Client::new().get(url(team, path));
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    let (mut pieces, mut bytes) = (answer.bytes_stream(), Vec::new());
    let all = loop {
        // A piece may end within a character.
        let all = String::from_utf8_lossy(&bytes);
        if all.contains(until) && all.ends_with("\n\n") {
            break all.into_owned();
        }
        let piece = tokio::time::timeout(Duration::from_mins(1), pieces.next()).await;
        bytes.extend(piece.expect(until).unwrap().unwrap());
    };
    let id = all.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    (id.parse().unwrap(), all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_watched_live_and_read_later() {
    let script = ModelScript::of(
        "coder",
        vec![
            bash("echo first"),
            bash(&format!("echo '{HOSTILE}'; sleep 2; exit 7")).costing(1000, 10, "0.000123457"),
            ScriptStep::say("All done."),
            ScriptStep::say("For Ben, too."),
        ],
    );
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, &format!("@codebutler.coder look {HOSTILE}"));
    let page = page_of(&team, &root).await;
    // Many look at once, and each hears of it as it happens.
    let events = format!("{page}/events?after=0");
    let streams = (0..20).map(|_| listen(&team, &events, None, "echo first"));
    let heard = futures::future::join_all(streams).await;
    let (last, first) = &heard[0];
    let last = *last;
    // Cut off and back again: what came meanwhile comes now, and nothing twice.
    let (end, rest) = listen(&team, &events, Some(last), "is done").await;
    assert!(end > last && rest.contains("exit code 7") && !rest.contains("id: 1\n"), "{rest}");
    // The cost of a call may be told before the output of the tool that it is about: the gateway knows it first.
    assert!(first.contains("$0.000123457") || rest.contains("$0.000123457"), "{first}{rest}");
    team.settled(&root, "coder").await;

    let whole = team
        .until("the run's end on the page", || async {
            let whole = text(&team, &page).await;
            whole.contains("is done").then_some(whole)
        })
        .await;
    assert!(!whole.contains(HOSTILE) && whole.contains("&#60;img"), "{whole}");
    let cost = team.thread(&root).await.status.unwrap().cost.unwrap();
    assert!(whole.contains(&format!("title=\"${cost}\"")), "{whole}");
    // Events of the machinery are no part of the conversation, and stay in the export.
    for event in ["opens a thread of", "does not wait for", "calls Bash"] {
        assert!(!whole.contains(event), "{event}: {whole}");
    }
    assert!(text(&team, "/").await.contains(&page));
    let found = text(&team, &format!("{page}?q=EXIT%207")).await;
    assert!(found.contains("exit code 7") && !found.contains("All done."), "{found}");
    assert!(text(&team, &format!("{page}?q=nowhere")).await.contains("0 found"));
    // People are found by the names that the page calls them by.
    for name in ["Ana", "%40ana"] {
        let found = text(&team, &format!("{page}?q={name}")).await;
        assert!(found.contains("look &#60;img") && !found.contains("All done."), "{found}");
    }
    assert!(text(&team, &format!("{page}/steps?after={end}")).await.len() < whole.len());
    assert!(text(&team, &format!("{page}/events.jsonl")).await.starts_with("{\"v\":1,"));

    // Who speaks for the first time while the page is open is called by their name.
    let stream = reqwest::get(url(&team, &format!("{page}/events?after={end}"))).await.unwrap();
    let mut pieces = stream.bytes_stream();
    let mut heard = pieces.next().await.unwrap().unwrap().to_vec();
    team.says("ben", Some(&root), "@codebutler.coder and for me?");
    while !String::from_utf8_lossy(&heard).contains("For Ben, too.") {
        let piece = tokio::time::timeout(Duration::from_mins(1), pieces.next()).await;
        heard.extend(piece.expect("an answer").unwrap().unwrap());
    }
    let heard = String::from_utf8_lossy(&heard);
    let ben = &team.stack.users["ben"];
    assert!(heard.contains("<b>ben</b>") && !heard.contains(&format!("<b>{ben}</b>")), "{heard}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_other_sites_get_nothing() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let client = reqwest::Client::new();
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hello.").await;
    let page = page_of(&team, &root).await;
    let foreign = client.get(url(&team, &page)).header("host", "evil.example");
    let foreign = foreign.send().await.unwrap();
    assert_eq!(foreign.status(), 403, "a name that leads here by another site's DNS");
    assert_eq!(client.post(url(&team, &page)).send().await.unwrap().status(), 405);
    let gone = client.get(url(&team, "/team/gone-1")).send().await.unwrap();
    assert_eq!(gone.status(), 404);
    let gone = gone.text().await.unwrap();
    assert!(gone.contains("There is no such page") && !gone.contains("events.jsonl"), "{gone}");
    let icon = client.get(url(&team, "/assets/icon.svg")).send().await.unwrap();
    assert_eq!(icon.headers()["content-type"], "image/svg+xml");
    for odd in [
        "/team/..%2f..%2fetc",
        "/%2e%2e/x",
        "/team/x/lines/1",
        "/a/b/c/d",
        "/team/x/lines/one",
        "/?page=two",
        "/costs?days=all",
    ] {
        let answer = client.get(url(&team, odd)).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{odd}");
        assert!(answer.text().await.unwrap().contains("There is no such page"), "{odd}");
    }
    // Who has a budget and no thread is called by their name in the costs.
    let ben = &team.stack.users["ben"];
    let budget = json!({"people": {"users": [{"user": ben, "perDay": "5"}]}});
    let budget = Patch::Merge(json!({"spec": {"limits": {"budget": budget}}}));
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    repos.patch("shop", &PatchParams::default(), &budget).await.unwrap();
    let named = format!("<a href=\"/?person={ben}\">ben</a>");
    team.until("a name in the costs", || async {
        text(&team, "/costs").await.contains(&named).then_some(())
    })
    .await;
    let answer = client.get(url(&team, "/")).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    team.stop().await;
}

/// Histories as the gateway keeps them, of a thread that was worked on for long.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_of_a_long_thread_comes_at_once() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    let path = format!("/{}/long-1", team.stack.place.team);
    let folder = team.stack.dir.join("history").join(path.trim_start_matches('/'));
    std::fs::create_dir_all(&folder).unwrap();
    let output = "a line of output\n".repeat(10);
    let line = |n: u32| {
        json!({"v": 1, "at": 1_700_000_000_000_u64 + u64::from(n), "source": "agent/coder/0a",
            "seq": n, "role": "coder", "event": "tool", "tool": "Bash",
            "arguments": "{\"command\":\"make\"}", "output": output, "ok": true})
        .to_string()
            + "\n"
    };
    let all: String = (1..=5000).map(line).collect::<Vec<_>>().concat();
    std::fs::write(folder.join("events.jsonl"), all).unwrap();
    text(&team, &path).await;
    let begun = Instant::now();
    let page = text(&team, &path).await;
    let took = begun.elapsed();
    assert!(page.contains("id=\"n5000\"") && page.contains("?before="));
    assert!(page.len() < 700_000, "{}", page.len());
    assert!(took < Duration::from_secs(3), "{took:?}");
    let first = text(&team, &format!("{path}?from=1")).await;
    assert!(first.contains("id=\"n1\"") && first.contains("Later"));
    // Whatever the case, and of too many the newest ones.
    let found = text(&team, &format!("{path}?q=A%20LINE%20OF")).await;
    assert!(found.contains("200 found, the newest: there are older ones"), "{found}");
    for (n, is_shown) in [(5000, true), (4801, true), (4800, false), (1, false)] {
        assert_eq!(found.contains(&format!("id=\"n{n}\"")), is_shown, "{n}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_and_the_page_say_for_whom_and_for_what_a_thread_waits() {
    let pm = vec![asks("Plan: raise the price.", "plan")];
    let team = Setup::new(ModelScript::of("pm", pm)).start().await;
    let root = team.says("ana", None, "the price is too low");
    team.message(&root, "Plan: raise").await;
    let page = page_of(&team, &root).await;
    let changed = text(&team, &format!("{page}/steps?after=0")).await;
    assert!(changed.contains("id=\"now\""), "{changed}");
    for place in ["/".to_owned(), page.clone(), format!("{page}/steps?after=0")] {
        team.until("whom it waits for", || async {
            let shown = text(&team, &place).await;
            let (_, after) = shown.split_once("waits for ")?;
            let (name, _) = after.split_once(" to approve the plan")?;
            (name.to_lowercase().contains("ana") && !name.contains("U0")).then_some(())
        })
        .await;
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_branch_changes_is_shown_by_file() {
    let price = json!({"path": "src/price.txt", "content": format!("price = 0.2 {HOSTILE}\n")});
    let coder = vec![
        ScriptStep::tool("Write", price),
        bash("seq 5000 > src/long.txt"),
        ScriptStep::tool("GitCommit", json!({"message": "Raise the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Raise the price", "body": "Too low."})),
        ScriptStep::say("Raised."),
    ];
    let pm = vec![asks("Plan: raise the price.", "plan")];
    let team = Setup::new(ModelScript::of("pm", pm).and("coder", coder)).start().await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let page = page_of(&team, &root).await;
    let changes = format!("{page}/changes");
    let first = text(&team, &changes).await;
    assert!(first.contains("Nothing was pushed in this thread yet."), "{first}");
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    team.message(&root, "Raised.").await;
    let listed = team
        .until("the files of the branch", || async {
            let listed = text(&team, &changes).await;
            // The branch is known from the push on, its pull request from what is kept of the run.
            let whole = listed.contains("src/long.txt") && listed.contains("Pull request #1");
            whole.then_some(listed)
        })
        .await;
    for part in ["2 files, +5,001", "?file=src%2Fprice.txt", "Raise the price"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    // So many lines are shown by file, and so long a file in parts.
    let one = text(&team, &format!("{changes}?file=src%2Fprice.txt")).await;
    assert!(one.contains("price = 0.2 &#60;img") && !one.contains(HOSTILE), "{one}");
    let long = text(&team, &format!("{changes}?file=src%2Flong.txt")).await;
    assert!(long.contains("&from=3000") || long.contains("&#38;from=3000"), "{}", long.len());
    assert!(long.contains(">2999<") && !long.contains(">3001<") && long.len() < 500_000);
    let rest = text(&team, &format!("{changes}?file=src%2Flong.txt&from=3000")).await;
    assert!(rest.contains(">5000<") && !rest.contains(">2999<"));
    let none = text(&team, &format!("{changes}?file=..%2F..%2Fetc%2Fpasswd")).await;
    assert!(none.contains("The branch does not change this file."), "{none}");
    let gone = reqwest::get(url(&team, "/team/gone-1/changes")).await.unwrap();
    assert_eq!(gone.status(), 404);
    team.stop().await;
}
