//! Sockets to Slack: one per distinct app among all Repos, held from the moment that the first Repo names it
//! until the last one is gone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Inner;
use crate::api::channel::RepoChannel;
use crate::api::socket;
use crate::api::web::SlackToken;
use crate::inbound::catchup;

/// Interval at which Repos are compared with sockets.
const COMPARE: Duration = Duration::from_secs(1);
/// Grace period in which sockets finish what they have begun.
const FAREWELL: Duration = Duration::from_secs(8);

struct HeldConnection {
    channels: watch::Sender<Vec<RepoChannel>>,
    stop: CancellationToken,
}

/// Holds the sockets of all apps until told to stop.
pub(crate) async fn hold_connections(inner: Arc<Inner>, shutdown: CancellationToken) {
    // A reply to what was opened before must not begin a conversation of its own.
    inner.opened.learn(&inner.context.threads.state());
    let mut held: HashMap<String, HeldConnection> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = wanted_apps(&inner).await;
        held.retain(|app, socket| {
            let keep = wanted.contains_key(app);
            if !keep {
                socket.stop.cancel();
            }
            keep
        });
        for (app, (token, channels)) in wanted {
            if let Some(socket) = held.get(&app) {
                socket.channels.send_if_modified(|known| {
                    let changed = *known != channels;
                    *known = channels;
                    changed
                });
                continue;
            }
            let stop = shutdown.child_token();
            let (sender, receiver) = watch::channel(channels);
            held.insert(app, HeldConnection { channels: sender, stop: stop.clone() });
            tasks.spawn(hold_app(Arc::clone(&inner), token, receiver, stop));
        }
        while tasks.try_join_next().is_some() {}
        tokio::select! {
            () = tokio::time::sleep(COMPARE) => {}
            () = shutdown.cancelled() => break,
        }
    }
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, ended).await;
}

/// Serves one app: its socket, and the reading back of what the socket missed.
async fn hold_app(
    inner: Arc<Inner>,
    token: SlackToken,
    channels: watch::Receiver<Vec<RepoChannel>>,
    stop: CancellationToken,
) {
    let (connected, connects) = watch::channel(0_u64);
    tokio::join!(
        socket::hold_socket(&inner, &token, &channels, &stop, connected),
        catchup::run_catchup(&inner, channels.clone(), connects, &stop),
    );
}

/// Apps by their app token, with the channels of their Repos in a stable order, and those of other
/// apps' Repos in the same channels.
async fn wanted_apps(inner: &Arc<Inner>) -> BTreeMap<String, (SlackToken, Vec<RepoChannel>)> {
    let mut repos = inner.context.repos.state();
    // Oldest first: where several Repos name one channel, the oldest one keeps what is unclear.
    repos.sort_by_key(|repo| (repo.creation_timestamp(), repo.namespace(), repo.name_any()));
    let mut wanted: BTreeMap<String, (SlackToken, Vec<RepoChannel>)> = BTreeMap::new();
    let mut places: Vec<(Option<String>, RepoChannel)> = Vec::new();
    let accounts = futures::future::join_all(repos.iter().map(|repo| inner.account(repo))).await;
    for (repo, account) in repos.iter().zip(accounts) {
        let Ok(account) = account else {
            if repo.channel().is_some() {
                places.push((None, inner.place(repo, None)));
            }
            continue;
        };
        if repo.channel().is_none() {
            inner.name_channel(repo, &account);
            continue;
        }
        // Done before anything is heard, so that nobody who is in a group is turned away.
        inner.learn_groups(repo, &account).await;
        if inner.leading.sweeps() {
            inner.reach.follow(repo).await;
        }
        let app = account.app.expose().to_owned();
        wanted.entry(app.clone()).or_insert_with(|| (account.app.clone(), Vec::new()));
        places.push((Some(app), inner.channel(repo, &account)));
    }
    for (app, (_, channels)) in &mut wanted {
        let is_own = |of: &Option<String>| of.as_ref() == Some(app);
        let own: Vec<&str> =
            places.iter().filter(|(of, _)| is_own(of)).map(|(_, place)| &*place.id).collect();
        let here = places.iter().filter(|(_, place)| own.contains(&&*place.id));
        channels
            .extend(here.map(|(of, place)| RepoChannel { is_own: is_own(of), ..place.clone() }));
    }
    inner.channels.keep_places(places.into_iter().map(|(_, place)| place).collect());
    wanted
}
