//! Pages on which people watch threads: histories, served over HTTP on a port of their own, to who has
//! signed in and is in the thread's channel, or to who reaches the pod's own loopback, which is where
//! `kubectl port-forward` comes from.
//!
//! What a page looks like is in [`codebutler_pages`]; [`shelf`] finds its lines, [`live`] keeps it up to
//! date, [`door`] says who sees what. Pure: [`options`], [`seal`].

mod address;
mod asked;
mod budgets;
mod changes;
mod door;
mod flows;
mod guard;
mod issuer;
mod limits;
mod links;
mod live;
mod now;
pub mod options;
mod pictures;
mod port;
mod previews;
mod problem;
mod replying;
mod roadmap;
mod seal;
mod servers;
mod shelf;
mod signing;
mod visitor;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router, middleware};
use codebutler_gateway_core::history::millis_now;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::mirror::RepoMirrors;
use codebutler_history::ThreadPlace;
use codebutler_mcp_servers::sign_in::{DOCUMENT, DONE, OPEN};
use codebutler_pages::{
    ICON, ListFilter, ListedThread, RepoBudgets, SCRIPT, STYLE, StepView, ThreadPage,
    ThreadSummary, UserNames,
};
use codebutler_runtime::listen::listen_on;
use http::header;
use kube::ResourceExt as _;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::address::{AddressPath, AddressQuery};
use self::asked::AskedQuestions;
use self::door::{PageDoor, PageViewer, SignIn, ThreadPermit, ThreadSight};
use self::limits::VisitLimits;
use self::options::{PagesOptions, PagesPlan};
use self::port::PortLimits;
use self::problem::PageProblem;
use self::shelf::{HistoryShelf, NumberedLine};
use self::signing::SignedChange;
use crate::state::GatewayBase;

/// Number of lines on a page.
const LINES: u64 = 300;
/// Lines that a search finds at most.
const FOUND: usize = 200;
/// People whose names are asked for.
const PEOPLE: usize = 50;
const SVG: &str = "image/svg+xml";

#[derive(Clone)]
struct PageServices {
    shelf: HistoryShelf,
    door: PageDoor,
    sight: ThreadSight,
    /// Writes statuses of Threads.
    threads: ThreadWriter,
    limits: VisitLimits,
    /// Copies of the Repos' repositories.
    mirrors: RepoMirrors,
    asked: AskedQuestions,
    stop: CancellationToken,
}

/// Serves until told to stop.
///
/// # Errors
/// When there is no history, the address is open to others, or taken.
pub fn serve_pages(
    options: &PagesOptions,
    gateway: &GatewayBase,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Some(PagesPlan { address, sign_in }) = options.plan()? else { return Ok(()) };
    let context = gateway.context.clone();
    let shelf = HistoryShelf::of(&context.history)
        .context("--pages shows histories: set --history, too")?;
    let listener = listen_on(address)
        .with_context(|| format!("pages can't be served on {address}: choose another --pages"))?;
    tracing::info!(%address, sign_in = ?sign_in.as_ref().map(|plan| plan.kind), "pages_started");
    let signed = |plan| PageDoor::Signed(SignIn::new(plan, context.clone()).into());
    let door = sign_in.map_or(PageDoor::Open, signed);
    let sight = ThreadSight { context: context.clone(), slack: gateway.slack.clone() };
    let limits = VisitLimits::default();
    let (mirrors, until) = (gateway.mirrors.clone(), stop.clone());
    let threads = gateway.threads.clone();
    let asked = AskedQuestions::default();
    let pages = PageServices { shelf, door, sight, threads, limits, mirrors, asked, stop: until };
    pages.offer_previews();
    let app = build_router(pages);
    tokio::spawn(port::serve_port(listener, app, PortLimits::default(), stop));
    Ok(())
}

fn build_router(pages: PageServices) -> Router {
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", get(serve_list))
        .route("/costs", get(serve_costs))
        .route("/favicon.ico", asset(SVG, ICON))
        .route("/assets/icon.svg", asset(SVG, ICON))
        .route("/assets/page.css", asset("text/css; charset=utf-8", STYLE))
        .route("/assets/page.js", asset("text/javascript; charset=utf-8", SCRIPT))
        .route("/sign-in", get(signing::begin_signin))
        .route(door::DONE, get(signing::finish_signin))
        .route(
            &format!("{OPEN}/{{namespace}}/{{repo}}/{{server}}/{{ticket}}"),
            get(servers::begin_server_signin),
        )
        .route(DONE, get(servers::finish_server_signin))
        .route(DOCUMENT, get(servers::serve_client))
        .route("/sign-out", post(signing::sign_out))
        .route("/{namespace}/{name}", get(serve_thread))
        .route("/{namespace}/{name}/stop", post(end_runs))
        .route("/{namespace}/{name}/reply", post(replying::post_reply))
        .route("/{namespace}/{name}/answer", post(replying::press_button))
        .route("/{namespace}/{name}/changes", get(changes::serve_changes))
        .route("/{namespace}/{name}/slack", get(links::open_slack))
        .route("/{namespace}/{name}/steps", get(live::serve_steps))
        .route("/{namespace}/{name}/events", get(live::serve_events))
        .route("/{namespace}/{name}/roadmap", get(roadmap::serve_roadmap))
        .route("/{namespace}/{name}/roadmap/now", get(roadmap::serve_table))
        .route("/{namespace}/{name}/roadmap/events", get(roadmap::serve_events))
        .route("/{namespace}/{name}/lines/{n}", get(serve_line))
        .route("/{namespace}/{name}/lines/{n}/picture", get(pictures::serve_picture))
        .route("/{namespace}/{name}/lines/{n}/pictures/{place}", get(pictures::serve_compared))
        .route("/{namespace}/{name}/events.jsonl", get(whole::serve_lines))
        .route("/{namespace}/{name}/trajectory.json", get(whole::serve_trajectory))
        .fallback(|| async { PageProblem::NoPage })
        .layer(middleware::from_fn_with_state(pages.clone(), guard::guard_page))
        .with_state(pages)
}

impl PageServices {
    /// A thread's sums, and what somebody may do with it.
    ///
    /// # Errors
    /// When they may not see it, or it can't be told.
    async fn permit(
        &self,
        viewer: &PageViewer,
        place: &ThreadPlace,
    ) -> Result<(ThreadSummary, ThreadPermit), PageProblem> {
        self.door.require_session(viewer)?;
        let mut summary = self.shelf.summary(place).await?;
        let permit = self.sight.permit(viewer, place, &summary).await?;
        self.sight.overlay(place, &mut summary);
        Ok((summary, permit.ok_or(PageProblem::NotShown)?))
    }

    /// Progress of the calls that a thread's roles wait for, by role.
    async fn progress(&self, place: &ThreadPlace) -> BTreeMap<String, String> {
        let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
        self.sight.slack.call_progress(&ThreadKey { namespace, name }).await
    }

    /// Names of the people of all these threads, and of those who have these budgets.
    async fn names_of_all(
        &self,
        viewer: &PageViewer,
        threads: &[ListedThread],
        budgets: &[RepoBudgets],
    ) -> UserNames {
        let mut names = UserNames::new();
        for repo in self.sight.context.repos.state() {
            let own = threads.iter().filter(|one| one.summary.repo == repo.name_any());
            let people = list_people(own.map(|one| &one.summary));
            let people = people.into_iter().chain(budgets::list_people(budgets, &repo));
            let people = people.chain(viewer.user());
            names.extend(self.sight.slack.names(&repo, people, PEOPLE).await);
        }
        names
    }

    /// Returns the Slack names of a thread's participants and of the viewer.
    async fn names(
        &self,
        viewer: &PageViewer,
        place: &ThreadPlace,
        summary: &ThreadSummary,
    ) -> UserNames {
        let Some((repo, _)) = self.sight.origin(place, summary) else { return UserNames::new() };
        let people = list_people([summary]).into_iter().chain(viewer.user());
        self.sight.slack.names(&repo, people, PEOPLE).await.into_iter().collect()
    }
}

/// Lists everybody who took part in any of the threads once, people who are waited for first.
fn list_people<'a>(threads: impl IntoIterator<Item = &'a ThreadSummary>) -> Vec<&'a String> {
    let threads: Vec<_> = threads.into_iter().collect();
    let wait = |one: &&'a ThreadSummary| one.now.as_ref().and_then(|now| now.wait.as_ref());
    let waited = threads.iter().filter_map(wait).flat_map(|wait| &wait.people);
    let all = threads.iter().flat_map(|one| &one.people);
    let mut seen = BTreeSet::new();
    waited.chain(all).filter(|user| seen.insert(*user)).collect()
}

fn parse_place(namespace: &str, name: &str) -> Result<ThreadPlace, PageProblem> {
    ThreadPlace::new(namespace, name).ok_or(PageProblem::NoPage)
}

fn base_path(place: &ThreadPlace) -> String {
    format!("/{place}")
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ListQuery {
    q: String,
    state: String,
    repo: String,
    person: String,
    cost: String,
    page: usize,
}

async fn serve_list(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressQuery(wanted): AddressQuery<ListQuery>,
) -> Result<Html<String>, PageProblem> {
    let ListQuery { q: query, state, repo, person, cost, page } = wanted;
    let filter = ListFilter { state, query, repo, person, cost, page };
    let threads = pages.sight.seen(&viewer, pages.shelf.all().await?).await?;
    let (names, now) = (pages.names_of_all(&viewer, &threads, &[]).await, millis_now());
    Ok(Html(codebutler_pages::render_list(
        threads,
        &filter,
        (&names, now),
        &viewer.visitor(&names),
    )))
}

#[derive(Deserialize)]
struct DaysQuery {
    #[serde(default = "month")]
    days: u64,
}

const fn month() -> u64 {
    30
}

async fn serve_costs(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressQuery(DaysQuery { days }): AddressQuery<DaysQuery>,
) -> Result<Html<String>, PageProblem> {
    let mut threads = pages.sight.seen(&viewer, pages.shelf.all().await?).await?;
    for one in &mut threads {
        let Ok(place) = one.name.parse::<ThreadPlace>() else { continue };
        let repo = pages.sight.context.repo(place.namespace(), &one.summary.repo);
        one.zone = repo.map(|repo| repo.spec.limits.time_zone.clone()).unwrap_or_default();
    }
    let budgets = budgets::list_budgets(&pages.sight.context, &threads);
    let names = pages.names_of_all(&viewer, &threads, &budgets).await;
    let now = millis_now();
    let page = codebutler_pages::render_costs;
    Ok(Html(page(&threads, &budgets, (days, now), &names, &viewer.visitor(&names))))
}

#[derive(Deserialize)]
struct PartQuery {
    #[serde(default)]
    q: String,
    from: Option<u64>,
    before: Option<u64>,
}

async fn serve_thread(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    AddressQuery(part): AddressQuery<PartQuery>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let query = part.q.trim().to_owned();
    let (mut summary, permit) = pages.permit(&viewer, &place).await?;
    for (role, note) in pages.progress(&place).await {
        summary.show_progress(&role, &note);
    }
    // A thread that has just started has a live page.
    if summary.lines == 0 && pages.conversation(&place).is_none() {
        return Err(PageProblem::NoPage);
    }
    let names = pages.names(&viewer, &place, &summary).await;
    let newest = summary.lines.saturating_sub(LINES) + 1;
    let first = match (part.from, part.before) {
        (Some(from), _) => from,
        (None, Some(before)) => before.saturating_sub(LINES),
        (None, None) => newest,
    };
    let first = first.max(summary.foreign + 1);
    let mut lines = match query.as_str() {
        "" => pages.shelf.lines(&place, first, LINES).await?,
        query => {
            let _turn = pages.limits.heavy(viewer.person()).await?;
            pages.shelf.find(&place, (query, &names), FOUND + 1).await?
        }
    };
    let cut = !query.is_empty() && lines.len() > FOUND;
    if cut {
        lines.remove(0);
    }
    let upto = lines.last().map_or(first.saturating_sub(1), |(n, _)| *n);
    let steps = list_steps(&lines, &names);
    let replies = match query.as_str() {
        "" => replying::offer_replies(&pages, &viewer, (&place, &permit)).await,
        _ => None,
    };
    let searched = !query.is_empty();
    let page = ThreadPage {
        base: base_path(&place),
        earlier: (first > summary.foreign + 1 && !searched).then_some(first - 1),
        live: upto >= summary.lines && !searched,
        steps,
        names,
        upto,
        query,
        cut,
        now: millis_now(),
        slack: pages.conversation(&place).is_some(),
        summary,
        replies,
    };
    let mut visitor = viewer.visitor(&page.names);
    visitor.may_stop = permit.steers;
    Ok(Html(codebutler_pages::render_thread(&page, &visitor)).into_response())
}

/// Lines as steps; those that can't be read are gaps where they stand.
fn list_steps(lines: &[NumberedLine], names: &UserNames) -> Vec<StepView> {
    let mut steps: Vec<StepView> = Vec::new();
    for (n, line) in lines {
        let step = match line {
            Some(line) => StepView::of(*n, line, names, false),
            None => Some(StepView::gap(*n, steps.last())),
        };
        steps.extend(step);
    }
    steps
}

async fn serve_line(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name, n)): AddressPath<(String, String, u64)>,
) -> Result<Html<String>, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    let names = pages.names(&viewer, &place, &summary).await;
    let lines = pages.shelf.lines(&place, n, 1).await?;
    let own = lines.first().filter(|(own, _)| *own == n);
    let Some((n, Some(line))) = own else { return Err(PageProblem::NoPage) };
    Ok(Html(codebutler_pages::one_step(&base_path(&place), *n, line, &names)))
}

/// Ends what runs in a thread, for who may.
async fn end_runs(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    Form(change): Form<SignedChange>,
) -> Result<Redirect, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let user = replying::require_steering(&pages, &viewer, &place, &change).await?;
    let key = ThreadKey { namespace, name };
    pages
        .sight
        .slack
        .stop(&key, &user)
        .await
        .map_err(|error| PageProblem::Unknown(error.message))?;
    Ok(Redirect::to(&base_path(&place)))
}
