//! Finds out on which nodes a volume can be reached, and if those nodes still exist. Asked when a pod finds no node
//! for its volume, and at no other time: neither nodes nor volumes are watched.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim,
};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;

use super::index::ObjectKey;

/// Lifetime of a cached answer.
pub(crate) const FRESH: Duration = Duration::from_secs(15);
/// The label that names a single node.
const HOSTNAME: &str = "kubernetes.io/hostname";
const NAME: &str = "metadata.name";

/// Nodes of a volume, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VolumeHome {
    /// The volume is bound to these nodes, and none of them exists any more.
    Gone(Vec<String>),
    /// The volume is on these nodes, or the rights to find out are missing: no node is named then.
    Somewhere(Vec<String>),
}

/// A claim's UID, and what was found when.
type FoundHome = (Option<String>, VolumeHome, Instant);

pub(crate) struct VolumeHomes {
    client: Client,
    known: Mutex<HashMap<ObjectKey, FoundHome>>,
}

impl VolumeHomes {
    /// Creates an empty cache; questions are asked with the controller's rights.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Returns the cached answer for exactly this claim, if there is a fresh one.
    pub(crate) fn of(
        &self,
        thread: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Option<VolumeHome> {
        let known = self.known.lock();
        let (uid, home, at) = known.get(thread)?;
        (*uid == claim.uid() && at.elapsed() < FRESH).then(|| home.clone())
    }

    /// Asks the API server. A lack of rights is cached as an answer, too.
    pub(crate) async fn look(&self, thread: &ObjectKey, claim: &PersistentVolumeClaim) {
        let home = self.ask(claim).await.unwrap_or_else(|error| {
            tracing::debug!(%thread, %error, "volume_home_unknown");
            VolumeHome::Somewhere(Vec::new())
        });
        let mut known = self.known.lock();
        known.retain(|_, (_, _, at)| at.elapsed() < FRESH);
        known.insert(thread.clone(), (claim.uid(), home, Instant::now()));
    }

    async fn ask(&self, claim: &PersistentVolumeClaim) -> kube::Result<VolumeHome> {
        let Some(name) = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) else {
            return Ok(VolumeHome::Somewhere(Vec::new()));
        };
        let volumes = Api::<PersistentVolume>::all(self.client.clone());
        let Some(volume) = volumes.get_opt(name).await? else {
            return Ok(VolumeHome::Somewhere(Vec::new()));
        };
        let nodes = Api::<Node>::all(self.client.clone());
        let (places, single) = volume_places(&volume);
        for place in places.iter().filter_map(node_selector) {
            if !nodes.list_metadata(&place.limit(1)).await?.items.is_empty() {
                return Ok(VolumeHome::Somewhere(single));
            }
        }
        // A zone without a node may get one again; a node that is gone does not come back with its disk.
        let bound =
            !places.is_empty() && places.iter().all(|place| node_names(place).next().is_some());
        Ok(if bound { VolumeHome::Gone(single) } else { VolumeHome::Somewhere(single) })
    }
}

/// Places from which a volume can be used, and the single nodes that they name.
fn volume_places(volume: &PersistentVolume) -> (Vec<NodeSelectorTerm>, Vec<String>) {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let places = required.map(|all| all.node_selector_terms.clone()).unwrap_or_default();
    let names = places.iter().flat_map(node_names).map(str::to_owned).collect();
    (places, names)
}

fn place_requirements(place: &NodeSelectorTerm) -> impl Iterator<Item = &NodeSelectorRequirement> {
    place.match_expressions.iter().flatten().chain(place.match_fields.iter().flatten())
}

fn node_names(place: &NodeSelectorTerm) -> impl Iterator<Item = &str> {
    let single = place_requirements(place)
        .filter(|r| r.operator == "In" && (r.key == HOSTNAME || r.key == NAME));
    single.flat_map(|r| r.values.iter().flatten()).map(String::as_str)
}

/// Query for the nodes of a place; None where it can't be expressed in selectors.
fn node_selector(place: &NodeSelectorTerm) -> Option<ListParams> {
    let within = |r: &NodeSelectorRequirement| match r.operator.as_str() {
        "In" => Some(format!("{} in ({})", r.key, r.values.as_ref()?.join(","))),
        "Exists" => Some(r.key.clone()),
        _ => None,
    };
    let labels: Option<Vec<_>> = place.match_expressions.iter().flatten().map(within).collect();
    let field = |r: &NodeSelectorRequirement| match r.values.as_deref()? {
        [one] if r.operator == "In" => Some(format!("{}={one}", r.key)),
        _ => None,
    };
    let fields: Option<Vec<_>> = place.match_fields.iter().flatten().map(field).collect();
    Some(ListParams::default().labels(&labels?.join(",")).fields(&fields?.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn volume(terms: &Value) -> PersistentVolume {
        let affinity = json!({"required": {"nodeSelectorTerms": terms}});
        serde_json::from_value(json!({"spec": {"nodeAffinity": affinity}})).unwrap()
    }

    #[test]
    fn a_node_is_named_by_its_host_and_a_zone_is_none() {
        let host = json!({"matchExpressions": [
            {"key": HOSTNAME, "operator": "In", "values": ["a", "b"]},
            {"key": "disk", "operator": "Exists"}]});
        let zone = json!({"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]});
        let (all, single) = volume_places(&volume(&json!([host, zone])));
        assert_eq!(single, ["a", "b"]);
        let asked: Vec<_> = all.iter().filter_map(node_selector).collect();
        assert_eq!(
            asked[0].label_selector.as_deref(),
            Some("kubernetes.io/hostname in (a,b),disk")
        );
        assert_eq!(node_names(&all[1]).count(), 0);
        assert_eq!(volume_places(&PersistentVolume::default()), (vec![], vec![]));
    }
}
