//! The wishes of sites about programs: what a robots.txt closes is not read, and the role is told so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::Repo;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::egress::FETCH;
use super::{World, eventually, set_tools};

/// A site with a text for every page, and a robots.txt, whose text is an address where its status is 302.
struct Site {
    host: String,
    play: Arc<SitePlay>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct SitePlay {
    robots: Mutex<(u16, String)>,
    asked: Mutex<HashMap<String, u32>>,
}

impl Site {
    async fn start(status: u16, robots: &str) -> Self {
        let play = Arc::<SitePlay>::default();
        *play.robots.lock().unwrap() = (status, robots.to_owned());
        let app = axum::Router::new().fallback(answer_page).with_state(Arc::clone(&play));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { host, play, _serving: AbortOnDropHandle::new(serving) }
    }

    fn asked(&self, path: &str) -> u32 {
        self.play.asked.lock().unwrap().get(path).copied().unwrap_or_default()
    }
}

async fn answer_page(State(play): State<Arc<SitePlay>>, uri: Uri) -> Response {
    *play.asked.lock().unwrap().entry(uri.to_string()).or_default() += 1;
    let (status, text) = match uri.path() {
        "/robots.txt" => {
            let (status, text) = play.robots.lock().unwrap().clone();
            if status == 302 {
                return (StatusCode::FOUND, [(header::LOCATION, text)]).into_response();
            }
            (status, text)
        }
        "/moved" => {
            let to = [(header::LOCATION, "/private/page")];
            return (StatusCode::FOUND, to).into_response();
        }
        _ => (200, "the page".to_owned()),
    };
    (StatusCode::from_u16(status).unwrap(), text).into_response()
}

async fn world_of(sites: &[&Site]) -> World {
    let world = World::start(vec![]).await;
    set_tools(&world, "pm", &["WebFetch", "Read"]).await;
    let hosts: Vec<&str> = sites.iter().map(|site| site.host.as_str()).collect();
    let patch = json!({"spec": {"web": {"hosts": hosts}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the hosts to be listed", || async {
        let (_, answer) =
            world.post("pm", FETCH, &json!({"url": format!("http://{}/", hosts[0])})).await;
        !answer.to_string().contains("not among the hosts")
            && !answer.to_string().contains("WebFetch")
    })
    .await;
    world
}

#[tokio::test]
async fn what_a_site_closes_to_programs_is_not_read() {
    let rules = "User-agent: *\nDisallow: /\n\nUser-agent: CodeButler\nDisallow: /private\nDisallow: /*?export=\n";
    // A long file is kept, too.
    let long =
        (0..5_000).fold(rules.to_owned(), |all, n| all + &format!("Disallow: /closed/{n}\n"));
    let site = Site::start(200, &long).await;
    let world = world_of(&[&site]).await;
    let fetch = |path: &'static str| {
        let (world, url) = (&world, format!("http://{}{path}", site.host));
        async move {
            let (status, answer) = world.post("pm", FETCH, &json!({"url": url})).await;
            (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
        }
    };
    assert_eq!(fetch("/docs").await.0, 200, "the group of its own counts");
    for (path, rule) in
        [("/private/page", "/private"), ("/docs?export=all", "/*?export="), ("/moved", "/private")]
    {
        let (status, said) = fetch(path).await;
        assert_eq!(status, 403, "{path}: {said}");
        assert!(said.contains(&format!("`Disallow: {rule}`")), "{path}: {said}");
        assert!(
            said.contains("spec.web.robots: Ignore") && said.contains("another source"),
            "{said}"
        );
    }
    assert_eq!(site.asked("/private/page"), 0, "not even behind a redirect");
    assert_eq!(site.asked("/robots.txt"), 1, "once for many pages");
    let files = world.http.get(format!("{}/v1/web/files", world.url));
    let files = files.query(&[("url", format!("http://{}/private/a.pdf", site.host))]);
    assert_eq!(files.bearer_auth(world.token("pm")).send().await.unwrap().status(), 403);
    assert!(world.metrics().await.contains("codebutler_egress_refused_total{reason=\"robots\"}"));

    let patch = json!({"spec": {"web": {"robots": "Ignore"}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the Repo's word to count", || async { fetch("/private/page").await.0 == 200 })
        .await;
    assert_eq!(site.asked("/robots.txt"), 1);
}

#[tokio::test]
async fn a_site_without_rules_is_open_and_one_whose_rules_are_lost_is_not() {
    let (none, forbidden) = (Site::start(404, "").await, Site::start(403, "no").await);
    let broken = Site::start(503, "").await;
    let world = world_of(&[&none, &forbidden, &broken]).await;
    let fetch = |site: &Site| {
        let (world, url) = (&world, format!("http://{}/page", site.host));
        async move {
            let (status, answer) = world.post("pm", FETCH, &json!({"url": url})).await;
            (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
        }
    };
    assert_eq!(fetch(&none).await.0, 200);
    assert_eq!(fetch(&forbidden).await.0, 200);
    let (status, said) = fetch(&broken).await;
    assert_eq!(status, 502, "{said}");
    assert!(
        said.contains("can't be read (status 503)") && said.contains("try again later"),
        "{said}"
    );
    assert_eq!(broken.asked("/page"), 0);
}

#[tokio::test]
async fn a_file_that_a_repo_may_not_read_counts_as_soon_as_it_may() {
    let elsewhere = Site::start(200, "User-agent: *\nDisallow: /").await;
    let site = Site::start(302, &format!("http://{}/robots.txt", elsewhere.host)).await;
    let world = world_of(&[&site]).await;
    let fetch = || async {
        let url = format!("http://{}/page", site.host);
        world.post("pm", FETCH, &json!({"url": url})).await.0
    };
    assert_eq!(fetch().await, 200);
    assert_eq!(elsewhere.asked("/robots.txt"), 0);
    let patch = json!({"spec": {"web": {"hosts": [site.host, elsewhere.host]}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("the rules to be read where they are", || async { fetch().await == 403 }).await;
}
