//! Attachments of a message: recordings, and links to what is said elsewhere.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{ModelCard, ModelOptions, ModelScript, ModelServer};
use codebutler_testbed::slack::CallFault;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{World, eventually};

impl World {
    /// The coder's mail, with this message as the newest.
    async fn mail(&self, ts: &str) -> Vec<String> {
        self.patch_thread(&json!({"status": {"roles": {"coder": {"inbox": ts}}}})).await;
        let texts = |body: &Value| -> Vec<String> {
            let messages = body["messages"].as_array().cloned().unwrap_or_default();
            messages.iter().map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let (status, body) = self.get("coder", "/v1/inbox?wait=20").await;
        assert_eq!(status, 200, "{body}");
        texts(&body)
    }

    fn writes(&self, text: &str) -> String {
        let user = self.slack.ensure_user("ana");
        self.slack.post_as(&user, &self.channel, Some(&self.root), text).unwrap()
    }
}

#[tokio::test]
async fn a_recording_is_written_down_once_and_shown_in_the_thread() {
    let price = json!({"model": {"prices": {"scripted/ear": {"audioMinute": "0.006"}}}});
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &price, &own).await;
    let user = world.slack.ensure_user("ana");
    let sound = vec![7_u8; 60_000];
    let file = ("voice.m4a", sound.as_slice());
    let (ts, _) =
        world.slack.upload_as(&user, &world.channel, Some(&world.root), "listen", file).unwrap();
    for _ in 0..2 {
        let mail = world.mail(&ts).await;
        let heard = mail.iter().find(|text| text.contains("[recording voice.m4a")).unwrap();
        assert!(heard.contains("fix the total"), "{heard}");
    }
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let shown: Vec<_> = shown.iter().filter(|m| m.text.contains("What I understood")).collect();
    assert_eq!(shown.len(), 1);
    assert!(shown[0].shown.contains("fix the total"), "{}", shown[0].shown);
    assert_eq!(world.models.requests().len(), 1, "paid once");
    eventually("metered", || async {
        world.thread().await.status.unwrap().cost.is_some_and(|cost| cost > NanoUsd::ZERO)
    })
    .await;
}

#[tokio::test]
async fn a_recording_that_slack_can_not_hand_out_for_a_moment_is_heard_all_the_same() {
    let price = json!({"model": {"prices": {"scripted/ear": {"audioMinute": "0.006"}}}});
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &price, &own).await;
    world.slack.fail_next("files.download", 1, &CallFault::Http(503));
    world.slack.fail_next("files.download", 1, &CallFault::RateLimited { retry_after: 1 });
    let sound = vec![7_u8; 60_000];
    let ts = uploads(&world, &[("voice.m4a", &sound)]).pop().unwrap();
    let mail = world.mail(&ts).await.join("\n");
    assert!(mail.contains("fix the total"), "{mail}");
    let said = world.slack.messages(&world.channel, Some(&world.root));
    assert!(said.iter().all(|one| !one.text.contains("could not listen")), "{said:?}");
}

#[tokio::test]
async fn links_bring_read_only_context_from_the_own_workspace_and_repository() {
    let world = super::pull_request::with_a_commit().await;
    world.approve_plan().await;
    let body = "Because. A token ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let (status, pull) =
        world.post("coder", "/v1/pull-request", &json!({"title": "Add a", "body": body})).await;
    assert_eq!(status, 200, "{pull}");
    let user = world.slack.ensure_user("ana");
    let bot = world.slack.bot_user_id();
    let public = world.slack.create_channel("design", &[&user, &bot]);
    let said = world.slack.post_as(&user, &public, None, "Prices are decimals.\n```\nx").unwrap();
    let private = world.slack.create_private_channel("board", &[&user, &bot]);
    let secret = world.slack.post_as(&user, &private, None, "We sell the company.").unwrap();
    let permalink = |channel: &str, ts: &str| {
        format!("{}/archives/{channel}/p{}", world.slack.origin(), ts.replace('.', ""))
    };
    let ts = world.writes(&format!(
        "see {} and {} and {}",
        permalink(&public, &said),
        permalink(&private, &secret),
        pull["url"].as_str().unwrap()
    ));
    let mail = world.mail(&ts).await.join("\n");
    assert!(mail.contains("Prices are decimals."), "{mail}");
    assert!(mail.contains("read-only context"), "{mail}");
    assert!(mail.contains("in a private channel") && !mail.contains("We sell"), "{mail}");
    assert!(mail.contains("linked pull request #") && mail.contains("Because."), "{mail}");
    assert!(!mail.contains("ghp_0123"), "{mail}");
}

const WAVE: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";

/// Recordings that a person has uploaded: their messages, in order.
fn uploads(world: &World, files: &[(&str, &[u8])]) -> Vec<String> {
    let user = world.slack.ensure_user("ana");
    let mut sent = Vec::new();
    for file in files {
        let place = (&world.channel, Some(&*world.root));
        sent.push(world.slack.upload_as(&user, place.0, place.1, "listen", *file).unwrap().0);
    }
    sent
}

/// A world whose coder hears with this model of a provider like OpenRouter.
async fn with_an_ear(card: ModelCard) -> (World, ModelServer) {
    let ear = card.id.clone();
    let options = ModelOptions { offers: vec![card], ..ModelOptions::default() };
    let models = ModelServer::start(ModelScript::of("coder", vec![]), options).await.unwrap();
    let spec = json!({"model": {"baseURL": models.url(), "api": "OpenRouter"}});
    let script = ModelScript::of("coder", vec![]);
    let world = World::play(script, &spec, &json!({"audio": ear})).await;
    let key = json!({"apiKey": models.api_key()});
    world.cluster.secret("model", &models.url(), &key).await;
    // The provider's list decides how the model is asked.
    eventually("the list is known", || async {
        let (status, _) = world.get("coder", "/v1/session").await;
        status == 200
            && world.gateway.models.models.catalog.facts(&world.repo().await, &ear).window.is_some()
    })
    .await;
    (world, models)
}

#[tokio::test]
async fn openrouter_hears_in_json_and_is_paid_to_the_nano_dollar() {
    let mut sound = WAVE.to_vec();
    sound.resize(41_000, 7);
    for (card, in_chat, nanos) in [
        (ModelCard::new("acme/flash").hearing(), true, 41 * 32_123),
        (ModelCard::new("acme/scribe").transcribing(), false, 41 * 100_000),
    ] {
        let (world, models) = with_an_ear(card).await;
        let [ts] = &uploads(&world, &[("voice.m4a", &sound)])[..] else { panic!() };
        let mail = world.mail(ts).await.join("\n");
        assert!(mail.contains("written down") && mail.contains("fix the total"), "{mail}");
        let requests = models.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        let part = if in_chat {
            request.body["messages"][0]["content"][1]["input_audio"].clone()
        } else {
            request.body["input_audio"].clone()
        };
        assert_eq!((request.status, &part["format"]), (200, &json!("wav")), "by its bytes");
        assert_eq!(models.billed().total(), NanoUsd(nanos));
        eventually("metered", || async {
            world.thread().await.status.unwrap().cost == Some(NanoUsd(nanos))
        })
        .await;
    }
}

#[tokio::test]
async fn a_slow_recording_is_paid_once_and_heard_however_long_it_takes() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    world.models.hold();
    let [ts] = &uploads(&world, &[("voice.m4a", WAVE)])[..] else { panic!() };
    world.patch_thread(&json!({"status": {"roles": {"coder": {"inbox": ts}}}})).await;
    // The caller who waits gives up, as an agent does whose pod ends.
    for _ in 0..2 {
        let asked = world.http.get(format!("{}/v1/inbox?wait=20", world.url));
        let asked = asked.bearer_auth(world.token("coder")).timeout(Duration::from_secs(2));
        assert!(asked.send().await.is_err(), "its message waits for its words");
    }
    // Another gateway knows that it is begun.
    let other = world.successor().await;
    let ask = |wait: u32| {
        let asked = world.http.get(format!("{other}/v1/inbox?wait={wait}"));
        super::answer(asked.bearer_auth(world.token("coder")))
    };
    let (_, held) = ask(1).await;
    assert!(held["messages"].as_array().is_none_or(Vec::is_empty), "{held}");
    assert_eq!(world.thread().await.status.unwrap().hearing.len(), 1);
    world.models.release();
    eventually("its words are in the thread", || async {
        let shown = world.slack.messages(&world.channel, Some(&world.root));
        shown.iter().any(|message| message.shown.contains("fix the total"))
    })
    .await;
    let mail = world.mail(ts).await.join("\n");
    assert!(mail.contains("written down]") && mail.contains("fix the total"), "{mail}");
    let (_, mail) = ask(20).await;
    assert!(mail.to_string().contains("its transcript is in the thread"), "{mail}");
    assert_eq!(world.models.requests().len(), 1, "paid once");
    eventually("nothing is on record any more", || async {
        world.thread().await.status.unwrap().hearing.is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_was_said_before_a_recording_does_not_wait_for_it() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    world.models.hold();
    let first = world.writes("@codebutler.coder look at the label first");
    uploads(&world, &[("voice.m4a", WAVE)]);
    let last = world.writes("@codebutler.coder and then at the rest");
    for _ in 0..2 {
        let mail = world.mail(&last).await.join("\n");
        assert!(mail.contains("the label first"), "{mail}");
        assert!(!mail.contains("[recording") && !mail.contains("the rest"), "{mail}");
    }
    // Nothing else is for the role before its words are known.
    world.patch_thread(&json!({"status": {"roles": {"coder": {"done": first}}}})).await;
    let (_, held) = world.get("coder", "/v1/inbox?wait=1").await;
    assert!(held["messages"].as_array().is_none_or(Vec::is_empty), "{held}");
    world.models.release();
    eventually("its words are in the thread", || async {
        let shown = world.slack.messages(&world.channel, Some(&world.root));
        shown.iter().any(|message| message.shown.contains("fix the total"))
    })
    .await;
    let mail = world.mail(&last).await.join("\n");
    let (words, rest) = (mail.find("fix the total"), mail.find("and then at the rest"));
    assert!(words.is_some() && words < rest, "{mail}");
}

#[tokio::test]
async fn a_recording_whose_words_were_used_is_not_asked_for_again() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    let place = (&world.channel, Some(&*world.root));
    let ana = world.slack.ensure_user("ana");
    let file = ("voice.m4a", WAVE);
    let (ts, id) = world.slack.upload_as(&ana, place.0, place.1, "listen", file).unwrap();
    // A gateway that has ended gave its words to a role, and Slack did not take them.
    let begun = json!({"file": id, "since": "2026-01-01T00:00:00Z", "heard": true});
    world.patch_thread(&json!({"status": {"hearing": [begun]}})).await;
    for _ in 0..2 {
        let mail = world.mail(&ts).await.join("\n");
        assert!(mail.contains("its words were known before"), "{mail}");
    }
    let said = world.slack.messages(&world.channel, Some(&world.root));
    assert!(!said.iter().any(|one| one.shown.contains("I could not listen to")), "{said:?}");
    assert_eq!(world.models.requests().len(), 0, "paid once");
    assert_eq!(world.thread().await.status.unwrap().hearing.len(), 1);
}

#[tokio::test]
async fn a_recording_whose_gateway_is_gone_does_not_hold_up_the_mail() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    let place = (&world.channel, Some(&*world.root));
    let ana = world.slack.ensure_user("ana");
    let file = ("voice.m4a", WAVE);
    let (ts, id) = world.slack.upload_as(&ana, place.0, place.1, "listen", file).unwrap();
    // It began a minute ago, and has said nothing for half of it.
    let ago = |seconds| (Timestamp::now() - SignedDuration::from_secs(seconds)).to_string();
    let begun = json!({"file": id, "since": ago(60), "renewed": ago(31)});
    world.patch_thread(&json!({"status": {"hearing": [begun]}})).await;
    let mail = world.mail(&ts).await.join("\n");
    assert!(mail.contains("may have been paid for. Send it again"), "{mail}");
    let said = world.slack.messages(&world.channel, Some(&world.root));
    assert!(said.iter().any(|one| one.shown.contains("I could not listen to")), "{said:?}");
    assert_eq!(world.models.requests().len(), 0, "it may have been paid for");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_recording() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    world.models.hold();
    let [ts] = &uploads(&world, &[("voice.m4a", WAVE)])[..] else { panic!() };
    let stop = json!({"id": "stop-1", "role": "coder", "kind": "stop", "choice": "stop", "user": world.ana, "message": ts});
    let status = json!({"roles": {"coder": {"inbox": ts}}, "pending": [stop]});
    world.patch_thread(&json!({"status": status})).await;
    let (_, mail) = world.get("coder", "/v1/inbox?wait=10").await;
    assert_eq!(mail["pending"][0]["kind"], "stop", "{mail}");
    assert!(mail.to_string().contains("its words follow in the thread"), "{mail}");
    world.models.release();
}

#[tokio::test]
async fn large_and_foreign_pictures_are_shown_as_slack_shows_them() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    let large = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; 3 << 20]].concat();
    let [first, second] =
        &uploads(&world, &[("large.png", &large), ("photo.heic", b"\0\0\0\x18ftypheic")])[..]
    else {
        panic!()
    };
    let told = world.mail(second).await.join("\n");
    for name in ["large.png", "photo.heic"] {
        let line = told.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(
            line.contains("shown at 1024 px") && line.contains("original is `slack:"),
            "{told}"
        );
    }
    let (_, mail) = world.get("coder", "/v1/inbox?wait=1").await;
    for ts in [first, second] {
        let messages = mail["messages"].as_array().unwrap();
        let message = messages.iter().find(|message| message["ts"] == json!(ts)).unwrap();
        let id = message["pictures"][0]["id"].as_str().unwrap();
        let picture = world.http.get(format!("{}/v1/pictures?message={ts}&id={id}", world.url));
        let picture = picture.bearer_auth(world.token("coder")).send().await.unwrap();
        assert_eq!(picture.headers()["content-type"], "image/png");
        assert!(picture.bytes().await.unwrap().len() < 1_000, "the small one");
    }
}

#[tokio::test]
async fn a_role_gets_no_mail_while_a_transcript_may_be_corrected() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    let [ts] = &uploads(&world, &[("voice.m4a", WAVE)])[..] else { panic!() };
    world.patch_thread(&json!({"status": {"roles": {"coder": {"inbox": ts}}}})).await;
    let (_, held) = world.get("coder", "/v1/inbox?wait=4").await;
    assert!(held["messages"].as_array().is_none_or(Vec::is_empty), "{held}");
    let heard = world.thread().await.status.unwrap().heard;
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0].user, world.slack.ensure_user("ana"));
    // A successor knows of it, too.
    let other = world.successor().await;
    let asked = world.http.get(format!("{other}/v1/inbox?wait=1"));
    let (_, held) = super::answer(asked.bearer_auth(world.token("coder"))).await;
    assert!(held["messages"].as_array().is_none_or(Vec::is_empty), "{held}");
    let mail = world.mail(ts).await.join("\n");
    assert!(mail.contains("fix the total"), "{mail}");
    eventually("the wait is over", || async {
        world.thread().await.status.unwrap().heard.is_empty()
    })
    .await;
    assert_eq!(world.models.requests().len(), 1, "paid once");
}

#[tokio::test]
async fn what_can_not_be_heard_is_a_sentence_and_costs_nothing() {
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &own).await;
    let huge = vec![7_u8; 24 * 1024 * 1024 + 1];
    let files =
        [("voice.m4a", b"%PDF-1.7".as_slice()), ("long.m4a", &huge), ("note.m4a", b"Hello")];
    let last = uploads(&world, &files).pop().unwrap();
    let reasons =
        ["by its content it is a PDF", "larger than 24 MiB", "by its content it is a text"];
    for _ in 0..2 {
        let mail = world.mail(&last).await.join("\n");
        for why in reasons {
            assert!(mail.contains(why), "{why}: {mail}");
        }
    }
    let said = world.slack.messages(&world.channel, Some(&world.root));
    for why in reasons {
        assert_eq!(said.iter().filter(|one| one.shown.contains(why)).count(), 1, "{why}: {said:?}");
    }
    assert!(world.models.requests().is_empty());
}

#[tokio::test]
async fn a_provider_that_refuses_a_recording_is_asked_once() {
    let (world, models) = with_an_ear(ModelCard::new("acme/mute")).await;
    let [ts] = &uploads(&world, &[("voice.m4a", WAVE)])[..] else { panic!() };
    for _ in 0..2 {
        let mail = world.mail(ts).await.join("\n");
        assert!(mail.contains("not written down"), "{mail}");
    }
    let said = world.slack.messages(&world.channel, Some(&world.root));
    let told = said.iter().filter(|one| one.shown.contains("I could not listen to"));
    assert_eq!(told.count(), 1, "{said:?}");
    assert_eq!((models.requests().len(), models.billed().total()), (1, NanoUsd::ZERO));
}
