//! Conditions of a Repo about models that its providers do not have, do not price, or do not take as asked.

use std::sync::Arc;

use codebutler_crds::AgentRole;
use codebutler_models::model_conditions;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::super::eventually;
use super::{CHAT, CLAUDE, Provider, ask};

#[tokio::test]
async fn a_model_that_does_not_exist_is_on_the_repo_with_the_nearest() {
    let provider = Provider::start().await;
    let world = provider.world(&json!({"default": "anthropic/claude-opus-4-6"})).await;
    let set = async |role: &str, model: &str| {
        let patch = json!({"spec": {"model": {"default": model}}});
        world.cluster.patch::<AgentRole>(world.cluster.system(), role, &patch).await;
    };
    set("pm", "moonshotai/kimi-k3").await;
    set("lead", "meta-llama/llama-guard-4-12b").await;
    let knowing = Arc::clone(&world.gateway.models);
    let _knowing = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&knowing).await;
    }));
    eventually("the condition names them", || async {
        let message = world.condition("ModelsKnown").await;
        message.contains(
            "`anthropic/claude-opus-4-6` in spec.model.default of AgentRole `coder` is no model of \
             the provider: nearest are `anthropic/claude-opus-4.6`",
        ) && message.contains("AgentRole `lead` can't call tools")
            && !message.contains("`pm`")
    })
    .await;
    // Work goes on: who is asked decides.
    let missing = json!({"error": {"code": 400, "message": "anthropic/claude-opus-4-6 is not a valid model ID"}});
    provider.next(400, None, &missing);
    let (_, told) = world.post("coder", CHAT, &ask("anthropic/claude-opus-4-6")).await;
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("Nearest are `anthropic/claude-opus-4.6`"), "{message}");
    set("coder", CLAUDE).await;
    set("lead", "anthropic/claude-haiku-4.5").await;
    eventually("it is well", || async {
        world.condition("ModelsKnown").await == "the provider has the models of all roles"
    })
    .await;
}

#[tokio::test]
async fn a_deployment_of_azures_without_a_price_is_on_the_repo() {
    let provider = Provider::start().await;
    let role = json!({"default": "our-gpt"});
    let world = provider.world_with(&role, &json!({"model": {"api": "Azure"}})).await;
    let knowing = Arc::clone(&world.gateway.models);
    let _knowing = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&knowing).await;
    }));
    eventually("the condition says what its calls count as", || async {
        let message = world.condition("ModelsKnown").await;
        message.contains("Azure lists models, and not what is deployed; it names no prices for")
            && message.contains("`our-gpt`")
            && message.contains("as those of a large model")
    })
    .await;
}

#[tokio::test]
async fn an_effort_that_a_models_api_refuses_is_on_the_repo() {
    let provider = Provider::start().await;
    let role = json!({"default": CLAUDE, "reasoning": {"effort": "high"}});
    let world = provider.world_with(&role, &json!({"model": {"api": "OpenAI"}})).await;
    for other in ["pm", "lead"] {
        let patch = json!({"spec": {"model": {"default": CLAUDE}}});
        world.cluster.patch::<AgentRole>(world.cluster.system(), other, &patch).await;
    }
    let knowing = Arc::clone(&world.gateway.models);
    let _knowing = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&knowing).await;
    }));
    eventually("all is well", || async {
        let message = world.condition("ModelsKnown").await;
        message.contains("the models of all roles") && !message.contains("reasoning")
    })
    .await;
    let functions =
        "Function tools with reasoning_effort are not supported in /v1/chat/completions.";
    let error = json!({"message": functions, "type": "invalid_request_error"});
    provider.next(400, None, &json!({"error": error}));
    assert_eq!(world.post("coder", CHAT, &ask(CLAUDE)).await.0, 200);
    let told = format!("spec.model.reasoning is not sent to `{CLAUDE}` of AgentRole `coder`");
    eventually("the condition says what is not asked", || async {
        world.condition("ModelsKnown").await.contains(&told)
    })
    .await;
}
