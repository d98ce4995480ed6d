//! A page before and after its change: in the thread, and where its pull request shows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::Repo;
use codebutler_testbed::models::ModelScript;
use serde_json::{Value, json};

use super::pull_request::with_a_commit;
use super::{World, eventually, set_tools};

const COMPARE: &str = "/v1/pictures/comparisons";
const REFS: &str = "refs/codebutler/pictures/";

/// A PNG by its form, in base64; another one for each number.
pub(super) fn png(number: u8) -> String {
    let part = |kind: &[u8], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], kind, data, &[0; 4]].concat()
    };
    let header = [390u32.to_be_bytes(), 844u32.to_be_bytes()].concat();
    let header = [&header[..], &[8, 6, 0, 0, 0]].concat();
    let parts = [part(b"IHDR", &header), part(b"IDAT", &[number; 40]), part(b"IEND", b"")];
    STANDARD.encode([b"\x89PNG\r\n\x1a\n", &parts.concat()[..]].concat())
}

fn view(colors: &str, before: Option<u8>, after: u8) -> Value {
    let before = before.map(png);
    json!({"width": "phone", "colors": colors, "before": before, "after": png(after)})
}

fn wanted(key: &str, page: &str, views: &[Value]) -> Value {
    json!({"key": key, "page": page, "views": views})
}

async fn may_look(world: &World) {
    set_tools(world, "coder", &["GHCreatePR", "Screenshot"]).await;
    eventually("the coder's tools", || async {
        world.get("coder", "/v1/session").await.1["tools"] == json!(["GHCreatePR", "Screenshot"])
    })
    .await;
}

/// Names of the files of each message that has some, and what it says.
fn shown(world: &World) -> Vec<(String, usize)> {
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    let with_files = messages.into_iter().filter(|message| !message.files.is_empty());
    with_files.map(|message| (message.text, message.files.len())).collect()
}

async fn kept(world: &World) -> Vec<(String, String)> {
    world.remote.git().refs(REFS).await.unwrap()
}

async fn described(world: &World) -> String {
    world.remote.pulls().await.unwrap().remove(0).body
}

#[tokio::test]
async fn it_stands_in_the_thread_and_in_the_pull_request_until_the_thread_ends() {
    let world = with_a_commit().await;
    may_look(&world).await;
    world.approve_plan().await;
    let cart = wanted("k1", "/cart?a=1", &[view("light", Some(1), 2), view("dark", Some(3), 4)]);
    for _ in 0..2 {
        let (status, body) = world.post("coder", COMPARE, &cart).await;
        assert_eq!((status, &body), (200, &json!({})), "{body}");
    }
    // One message with both pairs, however often it is sent.
    let said = shown(&world);
    let [(text, 4)] = &*said else { panic!("{said:?}") };
    assert!(text.contains("`/cart?a=1` before and after the change"), "{text}");
    assert!(text.contains("phone, light; phone, dark"), "{text}");
    // Beside all branches.
    let branches: Vec<String> = world.remote.branches().await.unwrap().into_keys().collect();
    assert_eq!(branches, [world.branch.clone(), "main".to_owned()]);
    let refs = kept(&world).await;
    let [(name, commit)] = &*refs else { panic!("{refs:?}") };
    assert_eq!(name, &format!("{REFS}{}", world.name));
    let files = world.remote.git().files(commit).await.unwrap();
    assert_eq!(files.len(), 4, "{files:?}");
    let dark = files.iter().find(|file| file.ends_with("-phone-dark-after.png")).unwrap();
    assert_eq!(STANDARD.encode(world.remote.git().show(commit, dark).await.unwrap()), png(4));

    let pull = json!({"title": "Fix the cart", "body": "Because."});
    assert_eq!(world.post("coder", "/v1/pull-request", &pull).await.0, 200);
    let body = described(&world).await;
    let url = |commit: &str, file: &str| {
        let repository = world.remote.url().trim_end_matches(".git").to_owned();
        format!("src=\"{repository}/blob/{commit}/{file}?raw=true\"")
    };
    assert!(files.iter().all(|file| body.contains(&url(commit, file))), "{body}");
    assert!(body.find("Because.") < body.find("### Before and after"), "{body}");

    // The open pull request shows what comes later beside it, and a page as it is now.
    let later = wanted("k2", "/new", &[view("light", None, 5)]);
    assert_eq!(world.post("coder", COMPARE, &later).await.0, 200);
    let again = wanted("k3", "/cart?a=1", &[view("light", Some(1), 6)]);
    assert_eq!(world.post("coder", COMPARE, &again).await.0, 200);
    let refs = kept(&world).await;
    let [(_, commit)] = &*refs else { panic!("{refs:?}") };
    let files = world.remote.git().files(commit).await.unwrap();
    assert_eq!(files.len(), 5, "{files:?}");
    let body = described(&world).await;
    assert!(files.iter().all(|file| body.contains(&url(commit, file))), "{body}");
    assert!(body.contains("`/new` (phone, light)") && body.contains("New: <img"), "{body}");
    assert_eq!(shown(&world).len(), 3);

    let head = world.remote.head(&world.branch).await.unwrap();
    let closing = json!({
        "ts": "2.000000", "role": "lead", "choice": "merge", "decidedBy": "U7", "head": head,
    });
    world.patch_thread(&json!({"status": {"closing": closing}})).await;
    let (status, closed) = world.post("lead", "/v1/close", &json!({"summary": "Done."})).await;
    assert_eq!(status, 200, "{closed}");
    assert!(kept(&world).await.is_empty());
    assert_eq!(world.remote.log("main").await.unwrap().len(), 2);
    let main = world.remote.git().files("main").await.unwrap();
    assert!(main.iter().all(|file| !file.contains(".png")), "{main:?}");
}

#[tokio::test]
async fn only_pictures_go_anywhere_and_only_to_where_they_may() {
    let world = with_a_commit().await;
    let one = wanted("k", "/", &[view("light", None, 1)]);
    let (status, body) = world.post("coder", COMPARE, &one).await;
    assert_eq!((status, body["error"]["code"].as_str()), (403, Some("forbidden")), "{body}");
    may_look(&world).await;
    let svg = STANDARD.encode("<svg onload=alert(1)>");
    let cut = STANDARD.encode(&STANDARD.decode(png(1)).unwrap()[..60]);
    let bad = |after: &str| json!({"width": "phone", "colors": "light", "after": after});
    for (page, views, says) in [
        ("/", vec![bad(&svg)], "no PNG"),
        ("/", vec![bad(&cut)], "cut off"),
        ("/", vec![], "1 to 4"),
        ("http://evil.example/", vec![view("light", None, 1)], "`page` is a path"),
    ] {
        let (status, body) = world.post("coder", COMPARE, &wanted("k", page, &views)).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(says), "{body}");
    }
    assert_eq!((shown(&world).len(), kept(&world).await.len()), (0, 0));

    let noted = async |key: &str, why: &str| {
        let (status, body) =
            world.post("coder", COMPARE, &wanted(key, "/", &[view("light", None, 1)])).await;
        assert_eq!(status, 200, "{body}");
        assert!(body["notes"][0].as_str().unwrap().contains(why), "{body}");
    };
    noted("k1", "no plan is approved yet").await;
    world.approve_plan().await;
    let switch = async |spec: Value| {
        let spec = json!({"spec": spec});
        world.cluster.patch::<Repo>(world.cluster.team(), "shop", &spec).await;
    };
    for (n, (spec, why)) in [
        (json!({"git": {"pictures": false}}), "spec.git.pictures"),
        (json!({"git": {"pictures": true}, "policy": {"requireApproval": ["Push"]}}), "each push"),
    ]
    .into_iter()
    .enumerate()
    {
        switch(spec).await;
        eventually("the Repo as it is now", || async {
            let wanted = wanted(&format!("k2{n}"), "/", &[view("light", None, 1)]);
            let (_, body) = world.post("coder", COMPARE, &wanted).await;
            body["notes"][0].as_str().is_some_and(|note| note.contains(why))
        })
        .await;
    }
}

#[tokio::test]
async fn a_conversation_is_shown_only_so_many() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    may_look(&world).await;
    let full = json!({"shown": 24, "key": "0011223344556677"});
    world.patch_thread(&json!({"status": {"pictures": full}})).await;
    let one = wanted("k", "/", &[view("light", None, 1)]);
    eventually("the bound", || async {
        let (status, body) = world.post("coder", COMPARE, &one).await;
        status == 400 && body["error"]["message"].as_str().unwrap().contains("24 comparisons")
    })
    .await;
    assert_eq!(shown(&world).len(), 0);
}
