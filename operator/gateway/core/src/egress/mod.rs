//! Egress rules of workspaces. [`rules`] compares what was asked for with the Repo's list, and [`walls`] knows which
//! pods can get out otherwise. Connections are made in [`dial`](crate::dial).

mod rules;
pub mod walls;

use std::collections::HashMap;
use std::sync::Arc;

use codebutler_crds::egress::EgressPreset;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::policy::EgressSpec;
use codebutler_crds::web::WebSpec;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

pub use self::rules::allows_target;
use self::walls::EgressWalls;
use crate::dial::refusal::MOST;
use crate::dial::{DialReach, DialedLine, OutsideDialer};
pub use crate::dial::{EgressRefusal, EgressTarget, IpNetwork};
use crate::thread_key::ThreadKey;

/// Pages that are laid out at once: each may keep a processor busy.
const LAYOUTS: usize = 2;

/// Opens connections for Threads. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct ThreadEgress {
    /// Reports of pods that tried to get past the gateway.
    pub walls: EgressWalls,
    dialer: OutsideDialer,
    connections: Arc<Mutex<HashMap<ThreadKey, usize>>>,
    /// Pages that are laid out at once.
    layouts: Arc<Semaphore>,
}

impl ThreadEgress {
    /// Makes egress over the gateway's one way out.
    pub fn new(dialer: OutsideDialer) -> Self {
        let layouts = Arc::new(Semaphore::new(LAYOUTS));
        Self { walls: EgressWalls::default(), dialer, connections: Arc::default(), layouts }
    }

    /// Waits for one's turn to lay out a page.
    pub async fn layout_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.layouts).acquire_owned().await.ok()
    }

    /// A connection to a target that is listed.
    ///
    /// # Errors
    /// In words.
    pub async fn open(
        &self,
        list: impl Into<HostList<'_>>,
        target: &EgressTarget,
    ) -> Result<DialedLine, EgressRefusal> {
        check_listed(list.into(), target)?;
        self.dialer.dial(target).await
    }

    /// A request for a page of a host that one of the lists has; without lists, of any host outside. Every
    /// redirect needs another one.
    ///
    /// # Errors
    /// In words.
    pub fn get(
        &self,
        lists: Option<&[HostList<'_>; 2]>,
        url: &Url,
    ) -> Result<reqwest::RequestBuilder, EgressRefusal> {
        let none = || EgressRefusal::Form(url.scheme().to_owned());
        let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or_else(none)?;
        let target = EgressTarget::new(host, port)?;
        if let Some([first, second]) = lists
            && check_listed(*second, &target).is_err()
        {
            check_listed(*first, &target)?;
        }
        self.dialer.admit(url)?;
        Ok(self.dialer.http(DialReach::Outside).get(url.clone()))
    }

    /// Leave for one more connection of a Thread, for as long as it is held.
    pub fn permit(&self, thread: &ThreadKey) -> Result<ConnectionPermit, EgressRefusal> {
        let mut connections = self.connections.lock();
        let count = connections.entry(thread.clone()).or_default();
        if *count >= MOST {
            return Err(EgressRefusal::TooMany);
        }
        *count += 1;
        drop(connections);
        Ok(ConnectionPermit { thread: thread.clone(), connections: Arc::clone(&self.connections) })
    }
}

/// Hosts that somebody may connect to.
#[derive(Clone, Copy, Debug)]
pub struct HostList<'a> {
    hosts: &'a [String],
    /// Ecosystems whose hosts are on the list, too.
    presets: &'a [EgressPreset],
    /// Field in which a person adds a host.
    place: &'static str,
    /// Field in which a person adds a preset. None: such a list has none.
    presets_place: Option<&'static str>,
}

impl<'a> From<&'a EgressSpec> for HostList<'a> {
    fn from(rules: &'a EgressSpec) -> Self {
        Self {
            hosts: &rules.hosts,
            presets: &rules.presets,
            place: "spec.egress.hosts of its Repo",
            presets_place: Some("spec.egress.presets of its Repo"),
        }
    }
}

impl<'a> From<&'a WebSpec> for HostList<'a> {
    fn from(rules: &'a WebSpec) -> Self {
        let place =
            "spec.web.hosts of its Repo (for pages), or spec.egress.hosts (for commands, too)";
        Self { hosts: &rules.hosts, presets: &[], place, presets_place: None }
    }
}

impl<'a> From<&'a McpServerSpec> for HostList<'a> {
    fn from(server: &'a McpServerSpec) -> Self {
        Self {
            hosts: &server.egress,
            presets: &[],
            place: "`egress` of the server in spec.mcpServers of its Repo",
            presets_place: None,
        }
    }
}

fn check_listed(list: HostList<'_>, target: &EgressTarget) -> Result<(), EgressRefusal> {
    let presets = list.presets.iter().flat_map(|preset| preset.hosts()).map(|host| host.name);
    if allows_target(list.hosts.iter().map(String::as_str).chain(presets), target) {
        return Ok(());
    }
    let preset = EgressPreset::find_host(&target.host).zip(list.presets_place);
    let place = match preset {
        Some((preset, place)) => format!("`{}` in {place}", preset.name()),
        None => list.place.to_owned(),
    };
    Err(EgressRefusal::NotListed { host: target.host.clone(), port: target.port, place })
}

pub struct ConnectionPermit {
    thread: ThreadKey,
    connections: Arc<Mutex<HashMap<ThreadKey, usize>>>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut connections = self.connections.lock();
        if let Some(count) = connections.get_mut(&self.thread) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.thread);
            }
        }
    }
}

#[cfg(test)]
mod tests;
