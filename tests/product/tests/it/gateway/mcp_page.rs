//! The examples of the page about servers, as a reader would use them.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use codebutler_crds::Repo;
use serde_json::{Value, json};

use super::World;
use super::servers::READY;

pub(crate) fn read_page() -> String {
    let page = Path::new(codebutler_testbed::FOLDER).join("../charts/codebutler/MCP.md");
    std::fs::read_to_string(page).unwrap()
}

/// The blocks of the page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let rest = page.split(&fence).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The Repos' servers, and the Secrets, of the page's manifests.
pub(crate) fn manifests(page: &str) -> (Vec<Value>, Vec<Value>) {
    let documents = blocks(page, "yaml");
    let objects = documents.iter().flat_map(|block| block.split("\n---\n"));
    let objects = objects.map(|object| serde_saphyr::from_str::<Value>(object).unwrap());
    let (repos, others): (Vec<_>, Vec<_>) = objects.partition(|object| object["kind"] == "Repo");
    let servers = repos.iter().flat_map(|repo| repo["spec"]["mcpServers"].as_array().unwrap());
    (servers.cloned().collect(), others)
}

/// Panics where something that was written is not kept: the API server leaves out fields that it does not know.
fn is_kept(written: &Value, kept: &Value) {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            for (key, value) in written {
                is_kept(value, kept.get(key).unwrap_or_else(|| panic!("{key}: {kept:?}")));
            }
        }
        (Value::Array(written), Value::Array(kept)) => {
            assert_eq!(written.len(), kept.len());
            written.iter().zip(kept).for_each(|(written, kept)| is_kept(written, kept));
        }
        _ => assert_eq!(written, kept),
    }
}

#[tokio::test]
async fn the_examples_of_the_page_are_taken_as_they_stand() {
    let (servers, secrets) = manifests(&read_page());
    let names: Vec<&str> = servers.iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["postgres", "sentry", "playwright", "linear"]);
    let world = World::with_servers(json!([])).await;
    let team = world.cluster.team().to_owned();
    let all = json!({"spec": {"mcpServers": servers}});
    world.cluster.patch::<Repo>(&team, "shop", &all).await;
    is_kept(&json!(servers), &json!(world.repo().await.spec.mcp_servers));

    for mut secret in secrets {
        assert_eq!(secret["kind"], "Secret");
        secret["metadata"]["namespace"] = json!(team);
        let hosts = secret["metadata"]["annotations"]["codebutler.dev/hosts"].clone();
        if secret["metadata"]["name"] == "sentry" {
            assert_eq!(servers[1]["url"], format!("https://{}/mcp", hosts.as_str().unwrap()));
        }
        world.cluster.apply(&secret).await;
    }
    // The gateway finds nothing wrong with what it can check without starting them.
    let started = json!({"spec": {"mcpServers": [servers[0], servers[2]]}});
    world.cluster.patch::<Repo>(&team, "shop", &started).await;
    let _probing = world.probe_servers();
    world.comes_to(READY, "Unknown", "`playwright`: not started yet").await;
    world.comes_to(READY, "Unknown", "`postgres`: not started yet").await;
}

/// `codebutler-agent validate` in a repository with this `mcp.json`.
fn validate(text: &str) -> Output {
    let repository = tempfile::tempdir().unwrap();
    let folder = repository.path().join(".codebutler");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("mcp.json"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.arg0("codebutler-agent").args(["validate", "--strict"]).arg(repository.path());
    command.output().unwrap()
}

#[test]
fn the_choice_on_the_page_passes_validate_and_a_mistake_in_it_has_its_place() {
    let files = blocks(&read_page(), "json");
    let [file] = &*files else { panic!("{files:?}") };
    let good = validate(file);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stdout));
    let bad = validate(&file.replace("\"roles\"", "\"role\""));
    let said = String::from_utf8_lossy(&[bad.stdout, bad.stderr].concat()).into_owned();
    assert_eq!(bad.status.code(), Some(1), "{said}");
    assert!(said.contains(".codebutler/mcp.json:1:") && said.contains("`role`"), "{said}");
}
