//! Whether a Repo can be worked with is found out before anybody has to, and known again when it is
//! mended.

use codebutler_git::probe;
use codebutler_models::facts::standing;
use codebutler_testbed::models::ModelScript;
use serde_json::json;

use super::{World, eventually};

impl World {
    /// What the Repo says, if it says it of itself as it is.
    pub(super) async fn word_on(&self, type_: &str) -> (String, String, String) {
        let repo = self.repo().await;
        let conditions = repo.status.unwrap_or_default().conditions;
        let found = conditions
            .into_iter()
            .find(|c| c.type_ == type_ && c.observed_generation == repo.metadata.generation);
        found.map(|c| (c.status, c.reason, c.message)).unwrap_or_default()
    }

    pub(super) async fn comes_to(&self, type_: &str, status: &str, part: &str) {
        eventually(&format!("{type_} is {status}, with {part}"), || async {
            let (is, _, message) = self.word_on(type_).await;
            is == status && message.contains(part)
        })
        .await;
    }
}

#[tokio::test]
async fn git_is_asked_before_the_first_conversation_and_when_its_secret_changes() {
    let world = World::start(vec![]).await;
    world.cluster.secret("git", world.remote.url(), &json!({"token": "ghp_wrong"})).await;
    tokio::select! {
        () = probe::run_probe(&world.gateway.git) => {}
        () = git_is_mended(&world) => {}
    }
}

async fn git_is_mended(world: &World) {
    world.comes_to("GitReachable", "False", "put a valid one into it").await;
    let token = world.github.token().to_owned();
    world.cluster.secret("git", world.remote.url(), &json!({"token": token})).await;
    world.comes_to("GitReachable", "True", "accepts the credentials").await;

    // Another branch is another generation.
    let team = world.cluster.team().to_owned();
    let branch = |name: &str| json!({"spec": {"git": {"branch": name}}});
    world.cluster.patch::<codebutler_crds::Repo>(&team, "shop", &branch("trunk")).await;
    world.comes_to("GitReachable", "False", "trunk").await;
    world.cluster.patch::<codebutler_crds::Repo>(&team, "shop", &branch("main")).await;
    world.comes_to("GitReachable", "True", "accepts the credentials").await;
}

#[tokio::test]
async fn a_key_is_tried_before_it_is_needed_and_when_its_secret_changes() {
    for api in ["OpenRouter", "Plain"] {
        let spec = json!({"model": {"api": api}});
        let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
        let wrong = json!({"apiKey": "sk-or-v1-wrong"});
        world.cluster.secret("model", &world.models.url(), &wrong).await;
        let models = std::sync::Arc::clone(&world.gateway.models);
        let _asking = tokio::spawn(async move { standing::run_standing(&models).await });
        if api == "Plain" {
            // The list of this one is anybody's, too, and nothing says so.
            world.comes_to("ModelReachable", "True", "answers").await;
            continue;
        }
        world.comes_to("ModelReachable", "False", "API key in Secret `model`").await;
        assert!(world.models.requests().is_empty(), "no call was made for it");
        let right = json!({"apiKey": world.models.api_key()});
        world.cluster.secret("model", &world.models.url(), &right).await;
        world.comes_to("ModelReachable", "True", "answers").await;
    }
}
