//! CodeButler in a team's monitoring: the real Prometheus scrapes both processes while a thread goes from question to
//! merge, evaluates the chart's rules, and answers every panel of the chart's dashboards.

mod prometheus;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_runtime::metrics::catalog::{self, CatalogEntry};
use codebutler_testbed::mcp::{McpServer, ToolAnswer};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::Api;
use prometheus::{Prometheus, promtool};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Setup, Team, asks, needs_process_kubelet, no_retrospective};

fn chart(path: &str) -> PathBuf {
    Path::new(codebutler_testbed::FOLDER).join("../charts/codebutler").join(path)
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    let tests = Path::new(codebutler_testbed::FOLDER).join("rules/alerts.yaml");
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let file = if arguments[0] == "check" { chart("files/rules.yaml") } else { tests.clone() };
        let Some(output) = promtool(&arguments, &file) else { return };
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
    // No alert without a test.
    let rules = std::fs::read_to_string(chart("files/rules.yaml")).unwrap();
    let tests = std::fs::read_to_string(tests).unwrap();
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    for alert in &alerts {
        let fires = format!("alertname: {alert}\n        exp_alerts:\n");
        assert!(tests.contains(&fires), "{alert} is never seen to fire");
    }
    // Promtool takes the silence of an alert that isn't there for a success.
    for rest in tests.split("alertname: ").skip(1) {
        let name = rest.split([',', '}', '\n']).next().unwrap_or_default().trim();
        assert!(alerts.contains(&name), "there is no alert {name}");
    }
}

/// A script from question to merge, with everything that a panel shows.
fn script() -> ModelScript {
    let edit = json!({"path": "src/price.txt", "edits": [{"old": "0.1", "new": "0.2"}]});
    let cost = |step: ScriptStep| step.costing(1200, 90, "0.0123");
    let pm = [
        ScriptStep::say("It stands in `src/price.txt`."),
        ScriptStep::tool("WebFetch", json!({"url": "https://not-listed.example/"}))
            .and_tool("mcp__prices__look_up", json!({})),
        asks("Plan: set the price to 0.2 (src/price.txt:1).", "plan"),
    ];
    let coder = [
        ScriptStep::tool("Read", json!({"path": "src/price.txt"})),
        ScriptStep::tool("Edit", edit),
        ScriptStep::tool("GitCommit", json!({"message": "Set the price to 0.2"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Set the price", "body": "As planned."})),
        ScriptStep::say("@codebutler.lead done."),
    ];
    let lead = [
        asks("Ready.", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "The price."})),
    ];
    ModelScript::of("pm", pm.map(cost).to_vec())
        .and("coder", coder.map(cost).to_vec())
        .and("lead", lead.map(cost).to_vec())
}

async fn play(team: &Team) -> String {
    let root = team.says("ana", None, "where is the price?");
    // Of two at once one takes the seat, and the other one's pod is started.
    let other = team.says("ana", None, "and where is it in the shop?");
    team.message(&other, "It stands in").await;
    let ana = &team.stack.users["ana"];
    let answer = team.message(&root, "It stands in").await;
    team.stack.slack.rate(ana, &team.stack.channel, &answer.ts, true).unwrap();
    team.says("ana", Some(&root), "it is wrong");
    for (asked, button) in [("Plan: set", "plan:approve"), ("Ready.", "merge:merge")] {
        let question = team.message(&root, asked).await;
        team.until(button, || async {
            team.stack.slack.click(ana, &team.stack.channel, &question.ts, button).ok()
        })
        .await;
    }
    team.message(&root, "Merged #1").await;
    root
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_and_rule_has_data_from_a_thread_that_was_merged() {
    if needs_process_kubelet("it talks to the processes at addresses of this machine") {
        return;
    }
    let prices = McpServer::start(None).await.unwrap();
    let look_up = json!({
        "name": "look_up", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    });
    prices.set_tool(look_up, ToolAnswer::Text("0.2".to_owned()));
    let server = json!({"name": "prices", "url": prices.url()});
    let server: McpServerSpec = serde_json::from_value(server).unwrap();
    let setup = Setup::new(script())
        .repo(move |repo| {
            repo.limits.budget.per_day = Some("20".parse().unwrap());
            repo.retrospective = Some(no_retrospective());
            repo.mcp_servers.push(server.clone());
            repo.warm = serde_json::from_value(json!({"seats": 1})).unwrap();
        })
        .role(|role| {
            role.model.image = Some("scripted/brush".to_owned());
            role.model.audio = Some("scripted/ear".to_owned());
            role.tools.allow.push("WebFetch".to_owned());
        });
    let team = setup.start().await;
    let targets = [team.stack.metrics.gateway, team.stack.metrics.controller];
    let Some(prometheus) = Prometheus::start(&targets, &chart("files/rules.yaml")).await else {
        team.stop().await;
        return;
    };
    seat_is_ready(&team).await;
    let root = play(&team).await;
    stranger(&team).await;

    for (target, entries) in
        targets.into_iter().zip([catalog::gateway::ALL, catalog::controller::ALL])
    {
        let page = exposition_with(target, entries).await;
        is_as_listed(&page, entries);
        for id in [root.as_str(), &team.stack.users["ana"], &team.stack.channel] {
            assert!(!page.contains(id), "{id} is in the metrics:\n{page}");
        }
    }
    prometheus.scraped_again().await;
    for dashboard in ["cost", "operations"] {
        let text = std::fs::read_to_string(chart(&format!("files/dashboards/{dashboard}.json")));
        let dashboard: Value = serde_json::from_str(&text.unwrap()).unwrap();
        panels_answer(&prometheus, &dashboard).await;
    }
    let merged = "codebutler_pull_requests_total{outcome=\"merged\"}";
    let merged = prometheus.query_until_answered(merged).await;
    assert_eq!(merged[0]["value"][1], "1", "{merged:?}");
    let ratio = prometheus.query_until_answered("codebutler:budget_used:ratio").await;
    assert_eq!(ratio[0]["metric"]["repo"], format!("{}/shop", team.stack.place.team), "{ratio:?}");
    let alerts = prometheus.query("ALERTS{alertstate=\"firing\"}").await;
    assert!(alerts.is_empty(), "{alerts:?}");
    team.stop().await;
}

/// A pod that the first role takes instead of starting one.
async fn seat_is_ready(team: &Team) {
    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    team.until("a seat", || async {
        let status = repos.get("shop").await.ok()?.status?.warm?;
        (status.ready > 0).then_some(())
    })
    .await;
}

/// Somebody without a token knocks at the agents' port.
async fn stranger(team: &Team) {
    let address = std::net::SocketAddr::new(team.stack.metrics.gateway.ip(), 8443);
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let request = client.get(format!("https://{address}/v1/inbox")).bearer_auth("nobody");
    assert_eq!(request.send().await.unwrap().status().as_u16(), 401);
}

/// A process's metrics once every family has begun: what is counted at a thread's end may follow its
/// last message.
async fn exposition_with(address: std::net::SocketAddr, entries: &[CatalogEntry]) -> String {
    let url = format!("http://{address}/metrics");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = reqwest::get(&url).await.unwrap().text().await.unwrap();
        let missing = &listed_types(&page, entries) - &lines_after("# TYPE", &page);
        if missing.is_empty() {
            return page;
        }
        assert!(Instant::now() < deadline, "never begun: {missing:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_is_changed_while_it_runs() {
    if needs_process_kubelet("it talks to the processes at addresses of this machine") {
        return;
    }
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hi.")])).start().await;
    let log = |process: &Path| std::fs::read_to_string(process).unwrap_or_default();
    for (address, process) in [
        (team.stack.metrics.gateway, team.stack.gateway.log()),
        (team.stack.metrics.controller, team.stack.controller.log()),
    ] {
        assert!(!log(process).contains(" DEBUG "), "{}", log(process));
        let (url, http) = (format!("http://{address}/log"), reqwest::Client::new());
        let changed = http.put(&url).body("debug").send().await.unwrap();
        assert_eq!(changed.status().as_u16(), 204);
        assert_eq!(http.get(&url).send().await.unwrap().text().await.unwrap(), "debug");
        let refused = http.put(&url).body("a=b=c").send().await.unwrap();
        assert_eq!(refused.status().as_u16(), 400);
    }
    let root = team.says("ana", None, "hello");
    team.message(&root, "Hi.").await;
    for process in [team.stack.gateway.log(), team.stack.controller.log()] {
        team.until("debug lines", || async { log(process).contains(" DEBUG ").then_some(()) })
            .await;
    }
    team.stop().await;
}

/// The gateway polls pull requests once a minute, which is later than this; Slack's fields are readable here; and no
/// server asks for a model's answer.
const LATER: [&str; 3] = [
    "codebutler_pull_request_rounds_total",
    "codebutler_slack_unread_total",
    "codebutler_mcp_cost_usd_total",
];

fn base(entry: &CatalogEntry) -> String {
    entry.full_name().trim_end_matches("_total").to_owned()
}

fn has_begun(page: &str, entry: &CatalogEntry) -> bool {
    !LATER.contains(&&*entry.full_name()) || page.contains(&base(entry))
}

fn listed_types(page: &str, entries: &[CatalogEntry]) -> BTreeSet<String> {
    let begun = entries.iter().filter(|entry| has_begun(page, entry));
    begun.map(|entry| format!("{} {}", base(entry), entry.kind.name())).collect()
}

fn lines_after(start: &str, page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(start));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Every family of the list is shown with its type, unit, help and labels, and no other one is.
fn is_as_listed(page: &str, entries: &[CatalogEntry]) {
    assert_eq!(lines_after("# TYPE", page), listed_types(page, entries));
    let begun = entries.iter().filter(|entry| has_begun(page, entry));
    let units = begun.filter_map(|e| Some(format!("{} {}", base(e), e.unit?))).collect();
    assert_eq!(lines_after("# UNIT", page), units);
    for entry in entries {
        let name = base(entry);
        let sample = page.lines().find(|line| {
            line.strip_prefix(name.as_str()).is_some_and(|rest| {
                ["{", " ", "_total", "_sum"].iter().any(|next| rest.starts_with(next))
            })
        });
        // A metric of something that has not happened yet has no sample.
        let Some(sample) = sample else { continue };
        let labels = sample.split_once('{').map_or("", |(_, rest)| rest);
        let named: Vec<&str> = labels
            .split("\",")
            .filter_map(|pair| pair.split_once("=\"").map(|(name, _)| name))
            .collect();
        assert_eq!(named, entry.labels, "{sample}");
    }
}

/// Each panel says what it shows, in which unit and from where it is bad, and each of its queries
/// has an answer.
async fn panels_answer(prometheus: &Prometheus, dashboard: &Value) {
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10, "{}", panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(panel["description"].as_str().is_some_and(|text| text.len() > 20), "{title}");
        assert!(defaults["unit"].is_string(), "{title}");
        assert!(!defaults["thresholds"]["steps"].as_array().unwrap().is_empty(), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$repo", ".*")
                .replace("$__rate_interval", "2m")
                .replace("$__range", "6h");
            prometheus.query_until_answered(&query).await;
        }
    }
}
