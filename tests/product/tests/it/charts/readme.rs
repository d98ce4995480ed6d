//! Runs the commands that the READMEs and the chart's notes tell people, as they stand there. Only the addresses and
//! tokens are those of the testbed.

use std::path::Path;

use codebutler_crds::Repo;
use codebutler_testbed::place::TEAM;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::run::{bare, shell, start_both, values};
use crate::support::Team;

/// Pages, from the folder of the tests.
const TOP: &str = "../README.md";
const CHART: &str = "../charts/codebutler/GETTING-STARTED.md";

/// The first block of a language in a section of a page.
fn block(page: &str, section: &str, language: &str) -> String {
    let readme = Path::new(codebutler_testbed::FOLDER).join(page);
    let readme = std::fs::read_to_string(readme).unwrap();
    let section = readme.split_once(&format!("\n## {section}\n")).unwrap().1;
    let block = section.split_once(&format!("```{language}\n")).unwrap().1;
    block.split_once("```").unwrap().0.to_owned()
}

/// The testbed's own values in place of those that are made up in the texts.
struct Real {
    secrets: Vec<Secret>,
    repo: Repo,
}

impl Real {
    /// Takes note of the team's objects, and removes them with their namespace.
    async fn take(team: &Team) -> Self {
        let client = team.stack.cluster.client();
        let secrets = Api::<Secret>::namespaced(client.clone(), TEAM);
        let secrets = secrets.list(&ListParams::default()).await.unwrap().items;
        let repo = Api::<Repo>::namespaced(client.clone(), TEAM).get("shop").await.unwrap();
        forget_team(team).await;
        Self { secrets, repo }
    }

    fn secret(&self, name: &str) -> &Secret {
        self.secrets.iter().find(|secret| secret.name_any() == name).unwrap()
    }

    fn value(&self, secret: &str, key: &str) -> String {
        let data = self.secret(secret).data.as_ref().unwrap();
        String::from_utf8(data[key].0.clone()).unwrap()
    }

    fn hosts(&self, secret: &str) -> &str {
        &self.secret(secret).annotations()["codebutler.dev/hosts"]
    }

    /// Puts the testbed's addresses and tokens into an object of the page.
    fn put_into(&self, object: &mut Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if object["kind"] == "Secret" {
            object["metadata"]["annotations"]["codebutler.dev/hosts"] = self.hosts(&name).into();
            for (key, value) in object["stringData"].as_object_mut().unwrap() {
                *value = self.value(&name, key).into();
            }
        }
        if object["kind"] == "Repo" {
            self.put_into_repo(object);
        }
    }

    fn put_into_repo(&self, object: &mut Value) {
        let spec = &self.repo.spec;
        object["spec"]["git"]["url"] = spec.git.url.as_str().into();
        object["spec"]["slack"]["channel"] = spec.slack.channel.as_str().into();
        object["spec"]["model"]["baseURL"] = spec.model.base_url.as_str().into();
    }

    /// Puts them into a text.
    fn put_into_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (secret, key, shown) in [
            ("slack", "botToken", "botToken=xoxb-…"),
            ("slack", "appToken", "appToken=xapp-…"),
            ("model", "apiKey", "apiKey=…"),
            ("git", "token", "token=…"),
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
            text = text.replace(shown, &format!("{key}={}", self.value(secret, key)));
        }
        for (secret, shown) in [
            ("slack", "slack.com"),
            ("model", "openrouter.ai"),
            ("git", "github.com,api.github.com"),
        ] {
            let shown = format!("codebutler.dev/hosts={shown}");
            assert!(text.contains(&shown), "{shown}: {text}");
            text = text.replace(&shown, &format!("codebutler.dev/hosts={}", self.hosts(secret)));
        }
        let (start, end) = (text.find("apiVersion:").unwrap(), text.find("EOF\nkubectl").unwrap());
        let mut repo: Value = serde_saphyr::from_str(&text[start..end]).unwrap();
        self.put_into_repo(&mut repo);
        format!("{}{repo}\n{}", &text[..start], &text[end..])
    }
}

async fn forget_team(team: &Team) {
    let namespaces = Api::<Namespace>::all(team.stack.cluster.client());
    namespaces.delete(TEAM, &DeleteParams::default()).await.unwrap();
    team.until("the namespace to go", || async {
        namespaces.get_opt(TEAM).await.unwrap().is_none().then_some(())
    })
    .await;
}

pub(super) async fn forget_definitions(team: &Team) {
    let definitions = Api::<CustomResourceDefinition>::all(team.stack.cluster.client());
    for name in ["agentroles", "repos", "threads"] {
        let name = format!("{name}.codebutler.dev");
        definitions.delete(&name, &DeleteParams::default()).await.unwrap();
        team.until("a definition to go", || async {
            definitions.get_opt(&name).await.unwrap().is_none().then_some(())
        })
        .await;
    }
}

/// The commands of the notes, from the first one to the one that waits.
fn commands(notes: &str) -> String {
    let lines = notes.lines().map(|line| line.strip_prefix("     ").unwrap_or_default());
    let lines = lines.skip_while(|line| !line.starts_with("kubectl"));
    let mut script = String::new();
    for line in lines {
        script.push_str(line);
        script.push('\n');
        if line.contains(" wait ") {
            return script;
        }
    }
    panic!("no command waits: {notes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_readme_and_the_notes_say_leads_to_an_answer() {
    // The definitions stay on a cluster where others have them too.
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        return;
    }
    let mut team = bare().await;
    let real = Real::take(&team).await;
    forget_definitions(&team).await;
    let text = block(CHART, "Configure", "yaml");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in &mut objects {
        real.put_into(object);
    }
    let file = team.stack.dir.join("team.yaml");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();

    // The images are the testbed's.
    let script = block(TOP, "Install", "sh");
    let (build, rest) = script.split_once('\n').unwrap();
    assert!(build.starts_with(".ci/images registry.example.com/team/ "), "{build}");
    let values = values(&team);
    let mut notes = String::new();
    for line in rest.lines() {
        let line = line.replace("team.yaml", file.to_str().unwrap());
        let line = line.replace(" --set images.registry=registry.example.com/team", "");
        if line.starts_with("kubectl apply") {
            // A kubelet would start the Deployments.
            start_both(&mut team).await;
        }
        let Some(said) = shell(&team, &values, &line).await else {
            team.stop().await;
            return;
        };
        if line.starts_with("helm install codebutler ") {
            notes = said;
        }
    }

    forget_team(&team).await;
    let script = real.put_into_text(&commands(&notes));
    let said = shell(&team, &values, &script).await.unwrap();
    assert!(said.contains("repo.codebutler.dev/shop condition met"), "{said}");
    let root = team.says("ana", None, "hello");
    team.message(&root, "From a chart.").await;
    team.stop().await;
}
