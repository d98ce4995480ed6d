//! Pictures that people put into the conversation, for models that see and for those that don't.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_wire::{ErrorCode, SharedPicture};
use serde_json::{Value, json};

use crate::world::{World, calls, in_order, results, says};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

/// A user says something with these pictures; those called `gone` can't be got.
fn shows(world: &World, text: &str, names: &[&str]) {
    let mut inner = world.gateway.lock();
    inner.say(text, true);
    for name in names {
        let picture = SharedPicture { id: format!("F{name}"), name: (*name).to_owned() };
        if *name != "gone" {
            inner.pictures.insert(picture.id.clone(), PNG.to_vec());
        }
        inner.messages.last_mut().unwrap().pictures.push(picture);
    }
}

/// The words before each picture.
fn seen(messages: &[Value]) -> Vec<&str> {
    let parts = messages.iter().filter_map(|message| message["content"].as_array());
    let pairs = parts.flat_map(|parts| parts.windows(2));
    let shown = pairs.filter(|pair| pair[1]["type"] == "image_url");
    shown.map(|pair| pair[0]["text"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_sees_is_shown_what_people_send() {
    let mut world = World::new(in_order(vec![says("I see."), says("Still.")])).await;
    shows(&world, "look", &["a.png", "gone", "b.png"]);
    world.one_pod().await;
    world.gateway.lock().say("and?", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    for asked in &inner.asked {
        assert_eq!(seen(asked), ["[CodeButler] `a.png`:", "[CodeButler] `b.png`:"]);
    }
    let parts = inner.asked[0][1]["content"].as_array().unwrap();
    let told = parts[0]["text"].as_str().unwrap();
    let why = "[picture gone: not shown: no such picture]";
    assert!(told.ends_with(&format!("> look\n> \n> {why}")), "{told}");
    let url = parts.iter().find_map(|part| part["image_url"]["url"].as_str());
    assert_eq!(url, Some("data:image/png;base64,iVBORw0KGgoAAA=="));
    // Got once: what was taken is kept.
    assert_eq!(inner.pictures_got, 3);
    assert_eq!(inner.post_texts(), ["I see.", "Still."]);
}

/// A GIF of so many frames of one pixel.
fn gif(frames: usize) -> Vec<u8> {
    let frame = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
    let head = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff";
    [&head[..], &frame.repeat(frames), b"\x3b"].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_animation_a_model_sees_the_first_frame_and_knows_it() {
    let answers = vec![calls(&[("Read", json!({"path": "slack:F01"}))]), says("It opens a menu.")];
    let mut world = World::new(in_order(answers)).await;
    shows(&world, "look", &["a.gif"]);
    {
        let mut inner = world.gateway.lock();
        inner.session.tools = vec!["Read".into()];
        inner.pictures.insert("Fa.gif".to_owned(), gif(3));
        inner.files.insert("F01".into(), ("demo.gif".into(), gif(2)));
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let last = inner.asked.last().unwrap();
    let parts = last.iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls: Vec<&str> = parts.filter_map(|part| part["image_url"]["url"].as_str()).collect();
    let still = format!("data:image/gif;base64,{}", STANDARD.encode(gif(1)));
    assert_eq!(urls, [&*still, &*still]);
    let told = last[1].to_string();
    let note = "[picture a.gif: It is an animation of 3 frames, of which the first one is shown.]";
    assert!(told.contains(note), "{told}");
    let read = results(last)[0];
    assert!(
        read.ends_with(" It is an animation of 2 frames, of which the first one is shown."),
        "{read}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_that_the_provider_refuses_costs_that_picture_alone() {
    for (code, words) in [
        (
            ErrorCode::InvalidRequest,
            "the provider of `scripted/pm` can't use a picture (image) of this conversation. The provider says: Could \
             not process image",
        ),
        (
            ErrorCode::ContextOverflow,
            "the conversation is longer than the model `scripted/pm` takes. The provider says: 413 Request Entity Too \
             Large",
        ),
    ] {
        let answers = vec![says("One is missing."), says("Still."), says("I see it.")];
        let mut world = World::new(in_order(answers)).await;
        shows(&world, "look", &["a.png", "b.png", "c.png"]);
        {
            let mut inner = world.gateway.lock();
            inner.pictures.insert("Fb.png".to_owned(), [&PNG[..8], b"\x01\x01"].concat());
            inner.refused_pictures.push(("iVBORw0KGgoBAQ==", code, words));
        }
        world.one_pod().await;
        world.gateway.lock().say("and?", true);
        world.one_pod().await;
        shows(&world, "and this", &["d.png"]);
        world.one_pod().await;
        let inner = world.gateway.lock();
        assert_eq!(inner.post_texts(), ["One is missing.", "Still.", "I see it."]);
        let shown: Vec<_> = inner.asked.iter().map(|asked| seen(asked).len()).collect();
        assert_eq!(shown, [2, 2, 3], "the others, and what comes later");
        let last = words.rsplit(": ").next().unwrap();
        for asked in &inner.asked {
            let told = serde_json::to_string(asked).unwrap();
            assert_eq!(told.matches("refused this picture").count(), 1, "{told}");
            assert!(told.contains("`b.png`: [the provider"), "{told}");
            assert!(told.contains(&format!("{last}]")), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_can_not_see_gets_a_sentence() {
    let mut world = World::new(in_order(vec![says("What is on it?"), says("Thanks.")])).await;
    world.gateway.lock().blind = vec!["scripted/pm".to_owned()];
    shows(&world, "look", &["a.png"]);
    world.one_pod().await;
    world.gateway.lock().say("a red button", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["What is on it?", "Thanks."]);
    for asked in &inner.asked {
        assert!(seen(asked).is_empty());
        let told = asked.iter().filter_map(|m| m["content"].as_str());
        let told: Vec<_> = told.filter(|text| text.contains("can't be shown any")).collect();
        assert_eq!(told.len(), 1, "{asked:?}");
        assert!(told[0].contains("`a.png`"), "{told:?}");
    }
}
