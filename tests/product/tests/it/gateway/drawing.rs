//! Images of a role: asked about once in a Thread, paid for once, and in the conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::{AgentRole, NanoUsd};
use codebutler_testbed::models::small_png;
use codebutler_testbed::models::{ModelCard, ModelOptions, ModelScript, PlayedCatalogue};
use codebutler_testbed::slack::SlackOptions;
use serde_json::{Value, json};

use super::remote_change::answer_question;
use super::{World, eventually, set_tools};

const DRAW: &str = "/v1/images/drawn";
const PLACE: &str = "/v1/images/places";
const TOOLS: [&str; 3] = ["GenerateImage", "EditImage", "KeepImage"];
/// Prices of gpt-image-1, as OpenAI bills it.
const PRICE: [(&str, &str); 3] = [("prompt", "5"), ("imagePrompt", "10"), ("completion", "40")];

/// A world whose coder draws with OpenAI's API.
async fn by_openai(more: &Value) -> World {
    let price: Value =
        PRICE.iter().map(|(name, price)| ((*name).to_owned(), json!(price))).collect();
    let mut spec = json!({"model": {"api": "OpenAI", "prices": {"scripted/brush": price}}});
    json_patch(&mut spec, more);
    let provider = ModelOptions { catalogue: PlayedCatalogue::OpenAi, ..ModelOptions::default() };
    begin(provider, &spec, &json!({"image": "scripted/brush"})).await
}

fn json_patch(to: &mut Value, more: &Value) {
    for (name, value) in more.as_object().unwrap() {
        to[name] = value.clone();
    }
}

async fn begin(provider: ModelOptions, spec: &Value, model: &Value) -> World {
    let script = ModelScript::of("coder", vec![]);
    let world = World::play_at(SlackOptions::default(), provider, script, (spec, model)).await;
    set_tools(&world, "coder", &TOOLS).await;
    eventually("the coder's tools", || async {
        world.get("coder", "/v1/session").await.1["tools"] == json!(TOOLS)
    })
    .await;
    world
}

fn wants(key: &str, prompt: &str, more: &Value) -> Value {
    let mut wanted = json!({"key": key, "prompt": prompt, "count": 2});
    json_patch(&mut wanted, more);
    wanted
}

async fn draw(world: &World, wanted: &Value) -> (u16, Value) {
    world.post("coder", DRAW, wanted).await
}

fn said(body: &Value) -> &str {
    body["error"]["message"].as_str().unwrap_or_default()
}

/// Asked for until people have said yes, which is once.
async fn first(world: &World, wanted: &Value) -> Value {
    let (status, body) = draw(world, wanted).await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("needs_approval")), "{body}");
    answer_question(world, "approved").await;
    let mut key = 0;
    loop {
        key += 1;
        let mut again = wanted.clone();
        again["key"] = json!(format!("after.{key}"));
        let (status, body) = draw(world, &again).await;
        match status {
            200 => return body,
            403 if key < 100 => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            _ => panic!("{body}"),
        }
    }
}

/// The Thread's cost is what the provider billed.
async fn settled(world: &World) -> NanoUsd {
    let billed = world.models.billed().total();
    eventually("the cost to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        status.cost.unwrap_or_default() == billed
    })
    .await;
    billed
}

fn shown(world: &World, part: &str) -> usize {
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    messages.iter().filter(|message| message.shown.contains(part)).count()
}

fn calls(world: &World) -> usize {
    world.models.requests().len()
}

#[tokio::test]
async fn the_first_images_wait_for_a_yes_and_all_are_billed_by_their_tokens() {
    let world = by_openai(&json!({})).await;
    let fox = wants(
        "run.1.0",
        "A fox @codebutler.coder",
        &json!({"size": "landscape", "quality": "high"}),
    );
    for _ in 0..2 {
        let (status, body) = draw(&world, &fox).await;
        assert_eq!(status, 403, "{body}");
        assert!(said(&body).contains("first images of this conversation"), "{body}");
    }
    assert_eq!(calls(&world), 0, "nothing is made before");
    // Twice 6,240 tokens at $40 a million, and a few words.
    assert_eq!(shown(&world, "Make 2 images for about $0.50"), 1);
    assert_eq!(shown(&world, "A yes holds for this thread"), 1);
    let drawn = first(&world, &fox).await;
    let words = "A fox @codebutler.coder".len().div_ceil(4) as u64;
    let cost = NanoUsd(2 * 6_240 * 40_000 + words * 5_000);
    assert_eq!(drawn["cost"], json!(cost), "{drawn}");
    assert_eq!(settled(&world).await, cost);
    let of = format!(r#"repo="{}/shop",role="coder",model="scripted/brush""#, world.cluster.team());
    let metrics = world.metrics().await;
    assert!(metrics.contains(&format!("codebutler_images_total{{{of}}} 2")), "{metrics}");
    let names: Vec<&str> = drawn["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| image["name"].as_str().unwrap())
        .collect();
    assert!(names[0].ends_with("-1.png") && names[1].ends_with("-2.png"), "{names:?}");
    assert_eq!(
        shown(&world, "2 images (landscape, high quality, $0.50): A fox codebutler.coder"),
        1
    );
    let status = world.thread().await.status.unwrap();
    assert_eq!(status.images.unwrap().allowed_by, Some(world.ana.clone()));

    // Later ones are made at once, and each call once.
    let wolf = wants("run.2.0", "A wolf", &json!({"count": 1, "quality": "low"}));
    let (status, one) = draw(&world, &wolf).await;
    assert_eq!(status, 200, "{one}");
    let before = calls(&world);
    assert_eq!(draw(&world, &wolf).await, (200, one.clone()));
    let other = wants("run.2.0", "A bear", &json!({"count": 1}));
    assert_eq!(draw(&world, &other).await.0, 400, "the key of another call");
    assert_eq!(calls(&world), before);
    let cost = settled(&world).await;

    // After a restart the images are found where they were posted, and nothing is paid twice.
    let url = world.successor().await;
    let ask = |key: &str| {
        let mut again = wolf.clone();
        (again["again"], again["key"]) = (json!(true), json!(key));
        world
            .http
            .post(format!("{url}{DRAW}"))
            .bearer_auth(world.token("coder"))
            .json(&again)
            .send()
    };
    let found: Value = ask("run.2.0").await.unwrap().json().await.unwrap();
    assert_eq!(found["images"], one["images"], "{found}");
    let lost: Value = ask("run.3.0").await.unwrap().json().await.unwrap();
    assert!(
        said(&lost).contains("interrupted") && said(&lost).contains("call the tool anew"),
        "{lost}"
    );
    assert_eq!((calls(&world), settled(&world).await), (before, cost));
}

#[tokio::test]
async fn an_image_is_changed_where_a_mask_or_words_say() {
    let world = by_openai(&json!({})).await;
    first(&world, &wants("run.1.0", "A fox", &json!({"count": 1}))).await;
    let before = settled(&world).await;
    let png = STANDARD.encode(small_png("x"));
    let edit =
        json!({"count": 1, "sources": [png], "mask": png, "area": "the tail", "transparent": true});
    let (status, drawn) = draw(&world, &wants("run.2.0", "Blue", &edit)).await;
    assert_eq!(status, 200, "{drawn}");
    let last = world.models.requests().pop().unwrap().body;
    assert_eq!(last["files"], json!(["image", "mask"]));
    let prompt = last["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.contains("Change only this part: the tail."), "{prompt}");
    let words = prompt.len().div_ceil(4) as u64;
    let cost = NanoUsd(words * 5_000 + 2 * 323 * 10_000 + 1_056 * 40_000);
    assert_eq!(settled(&world).await, before + cost);

    let calls_before = calls(&world);
    let lies = STANDARD.encode("<svg onload='alert(1)'/>");
    for (more, why) in [
        (json!({"sources": [lies]}), "PNG, JPEG or WebP by its bytes"),
        (json!({"sources": [png], "mask": lies}), "PNG, JPEG or WebP by its bytes"),
        (json!({"mask": png}), "name the image"),
        (json!({"count": 9}), "`count` is 1 to 4"),
        (json!({"size": "huge"}), "unknown variant"),
    ] {
        let (status, body) = draw(&world, &wants("run.3.0", "Blue", &more)).await;
        assert!(status == 400 && said(&body).contains(why), "{more}: {body}");
    }
    assert_eq!(calls(&world), calls_before);
}

#[tokio::test]
async fn what_a_model_refuses_or_pretends_is_a_sentence_and_billed_as_it_was() {
    let world = by_openai(&json!({})).await;
    first(&world, &wants("run.1.0", "A fox", &json!({"count": 1}))).await;
    let before = settled(&world).await;
    let (status, body) = draw(&world, &wants("run.2.0", "something forbidden", &json!({}))).await;
    assert_eq!(status, 502, "{body}");
    assert!(said(&body).contains("rejected by the safety system"), "{body}");
    assert_eq!(settled(&world).await, before, "a refusal costs nothing");
    let (_, body) = draw(&world, &wants("run.3.0", "a lying fox", &json!({"count": 1}))).await;
    assert!(
        said(&body).contains("its bytes are neither PNG")
            && said(&body).contains("The answer cost $0.04"),
        "{body}"
    );
    assert!(settled(&world).await > before, "it was billed");
    assert_eq!(shown(&world, "a lying fox"), 0);
}

#[tokio::test]
async fn openrouter_draws_each_in_a_chat_and_names_its_cost() {
    let brush = ModelCard::new("scripted/brush").drawing();
    let provider = ModelOptions::default().offer(brush);
    let spec = json!({"model": {"api": "OpenRouter"}});
    let world = begin(provider, &spec, &json!({"image": "scripted/brush"})).await;
    let drawn =
        first(&world, &wants("run.1.0", "A fox", &json!({"count": 3, "size": "portrait"}))).await;
    assert_eq!(drawn["images"].as_array().unwrap().len(), 3, "{drawn}");
    assert_eq!(drawn["cost"], "0.117");
    assert_eq!(settled(&world).await, NanoUsd(117_000_000));
    let asked = world.models.requests();
    let drawing = asked.iter().filter(|one| one.body["modalities"] == json!(["image", "text"]));
    let shapes: Vec<&Value> =
        drawing.map(|one| &one.body["image_config"]["aspect_ratio"]).collect();
    assert_eq!(shapes, ["2:3"; 3], "each as it was asked for");
    let (_, body) = draw(&world, &wants("run.2.0", "unspeakable", &json!({}))).await;
    assert!(said(&body).contains("made no image and said: I can't draw that"), "{body}");
    assert_eq!(settled(&world).await, NanoUsd(117_012_000), "words are billed too");
}

#[tokio::test]
async fn a_model_that_only_draws_has_openrouters_own_images_api() {
    let brush = ModelCard::new("scripted/brush").drawing_only();
    let provider = ModelOptions::default().offer(brush);
    let spec = json!({"model": {"api": "OpenRouter"}});
    let world = begin(provider, &spec, &json!({"image": "scripted/brush"})).await;
    eventually("the list is known", || async {
        let catalog = &world.gateway.models.models.catalog;
        catalog.facts(&world.repo().await, "scripted/brush").draws_only
    })
    .await;
    let drawn =
        first(&world, &wants("run.1.0", "A fox", &json!({"count": 2, "size": "portrait"}))).await;
    assert_eq!((drawn["images"].as_array().unwrap().len(), &drawn["cost"]), (2, &json!("0.078")));
    assert_eq!(settled(&world).await, NanoUsd(78_000_000));
    let asked = world.models.requests();
    let shapes: Vec<_> = asked.iter().map(|one| (one.status, &one.body["aspect_ratio"])).collect();
    assert_eq!(shapes, [(200, &json!("2:3")); 2], "{asked:?}");
    let (status, body) = draw(&world, &wants("run.2.0", "something forbidden", &json!({}))).await;
    assert!(status >= 400 && said(&body).contains("flagged"), "{status} {body}");
    assert_eq!(settled(&world).await, NanoUsd(78_000_000), "a refusal costs nothing");
}

#[tokio::test]
async fn without_a_model_or_the_money_nothing_is_made() {
    let world = begin(ModelOptions::default(), &json!({}), &json!({})).await;
    let (status, body) = draw(&world, &wants("run.1.0", "A fox", &json!({}))).await;
    assert_eq!(status, 403, "{body}");
    assert!(said(&body).contains("spec.model.image of AgentRole `coder`"), "{body}");
    let (status, body) = world.post("pm", DRAW, &wants("run.1.0", "A fox", &json!({}))).await;
    assert!(
        status == 403 && said(&body).contains("does not have the tool GenerateImage"),
        "{body}"
    );

    let limits = json!({"limits": {"budget": {"perThread": "0.10"}}});
    let world = by_openai(&limits).await;
    let dear = wants("run.1.0", "A fox", &json!({"count": 4, "quality": "high"}));
    let (status, body) = draw(&world, &dear).await;
    assert_eq!(status, 403, "{body}");
    answer_question(&world, "approved").await;
    let mut key = 0;
    let said_no = loop {
        key += 1;
        let mut again = dear.clone();
        again["key"] = json!(format!("after.{key}"));
        let (status, body) = draw(&world, &again).await;
        if status != 403 {
            break (status, said(&body).to_owned());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(said_no.0 == 502 && said_no.1.contains("budget"), "{said_no:?}");
    assert_eq!((calls(&world), settled(&world).await), (0, NanoUsd::ZERO));
}

#[tokio::test]
async fn a_chosen_image_goes_where_the_plan_or_a_person_says() {
    let world = by_openai(&json!({})).await;
    let push = json!({"needsApprovedPlan": false, "plannedImages": true, "paths": [".codebutler/artist/**"]});
    let role = json!({"spec": {"push": push}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &role).await;
    let place = |path: &str| json!({"path": path, "image": "image-1a2b-2.png"});
    let ask = async |path: &str| world.post("coder", PLACE, &place(path)).await;
    eventually("the role's own rights", || async { ask("public/fox.png").await.0 == 403 }).await;
    assert_eq!(ask(".codebutler/artist/assets/fox.png").await.0, 200);
    for (path, why) in [
        (".github/workflows/x.png", "protected"),
        ("src/main.rs", "ends in .png"),
        ("../x.png", "relative to its root"),
    ] {
        let (_, body) = ask(path).await;
        assert!(said(&body).contains(why), "{path}: {body}");
    }
    let (status, body) = ask("public/fox.png").await;
    assert!(status == 403 && said(&body).contains("no approved plan names this path"), "{body}");
    assert_eq!(shown(&world, "Commit the image image-1a2b-2.png at public/fox.png"), 1);
    answer_question(&world, "approved").await;
    eventually("people said yes", || async { ask("public/fox.png").await.0 == 200 }).await;
    let status = world.thread().await.status.unwrap();
    assert_eq!(status.images.unwrap().paths, ["public/fox.png"]);

    // A plan that is approved allows its files without a question, and one that is not does not.
    let plan = |approved: Value| {
        json!({"status": {"plan": {"ts": "1.000001", "hash": "h", "role": "pm", "approvedBy": approved},
            "planDetails": {"plan": "1.000001", "files": ["site", "a.rs"]}}})
    };
    world.patch_thread(&plan(Value::Null)).await;
    assert_eq!(ask("site/hero.png").await.0, 403);
    world.patch_thread(&plan(json!("U1"))).await;
    assert_eq!(ask("site/img/hero.png").await.0, 200);
    assert_eq!(ask("other/hero.png").await.0, 403);
}
