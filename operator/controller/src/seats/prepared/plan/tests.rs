use codebutler_crds::prepared::PreparedVolumes;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::*;
use crate::gateway::GatewayAddress;
use crate::index::ObjectKey;
use crate::seat_memory::SeatMemory;
use crate::testing;

fn claim(name: &str) -> PersistentVolumeClaim {
    let metadata = json!({"name": name, "uid": format!("uid-of-{name}")});
    let claim = json!({"metadata": metadata, "status": {"phase": "Bound"}});
    serde_json::from_value(claim).unwrap()
}

/// A Repo that wants a prepared volume, and what there is of it.
struct Volumes {
    repo: Repo,
    role: AgentRole,
    pods: Vec<Arc<Pod>>,
    claims: BTreeSet<String>,
    awaited: BTreeSet<String>,
    uncloned: Option<String>,
    snapshot: Option<AskedSnapshot>,
    refusal: Option<ApplyRefusal>,
    memory: SeatMemory,
    waits: bool,
    gateway: bool,
    /// The port of the gateway's Service that leads to the Repo's shard.
    port: u16,
    now: Timestamp,
}

impl Volumes {
    fn new() -> Self {
        let mut repo = testing::repo();
        repo.spec.worktree.prepared = PreparedVolumes::Clone;
        repo.status.get_or_insert_default().base_locks = Some("1".to_owned());
        Self {
            repo,
            role: testing::role("coder"),
            pods: vec![],
            claims: BTreeSet::new(),
            awaited: BTreeSet::new(),
            uncloned: None,
            snapshot: None,
            refusal: None,
            memory: SeatMemory::default(),
            waits: false,
            gateway: true,
            port: 8443,
            now: testing::now(),
        }
    }

    fn plan(&self) -> PreparedPlan {
        let gateway = GatewayAddress {
            address: ([10, 96, 0, 7], self.port).into(),
            target_port: IntOrString::Int(8443),
        };
        let args = testing::args();
        let maker =
            SeatMaker { repo: &self.repo, role: &self.role, gateway: &gateway, args: &args };
        let failed = self.memory.count_failures(
            (&ObjectKey::of(&self.repo), FAILURES),
            wanted_claim(&self.repo, &maker, "1"),
            self.pods.iter().filter_map(|pod| find_failure(pod, self.now)).collect(),
            None,
        );
        let claims: Vec<_> = self.claims.iter().map(|name| Arc::new(claim(name))).collect();
        plan_prepared(&PreparedView {
            repo: &self.repo,
            maker: self.gateway.then_some(&maker),
            prepared: true,
            pods: &self.pods,
            claims: &claims,
            failed: failed.as_ref(),
            refusal: self.refusal.as_ref(),
            uncloned: self.uncloned.as_deref(),
            snapshot: self.snapshot.as_ref(),
            awaited: &self.awaited,
            waits: self.waits,
            now: self.now,
        })
    }

    /// Carries a plan out; its pod runs at once.
    fn follow(&mut self) -> PreparedPlan {
        let plan = self.plan();
        self.pods.retain(|pod| !plan.delete_pods.contains(&pod.uid().unwrap()));
        for claim in &plan.delete_claims {
            self.claims.remove(claim);
        }
        if let Some((claim, pod)) = plan.create.as_deref() {
            self.claims.insert(claim.name_any());
            let mut pod = pod.clone();
            pod.metadata.uid = Some(format!("uid-{}", pod.name_any()));
            pod.metadata.creation_timestamp = Some(Time(self.now));
            self.pods.push(Arc::new(pod));
            self.pod_is("Running", &json!({}));
        }
        let status = self.repo.status.get_or_insert_default();
        status.conditions.clone_from(&plan.conditions);
        status.prepared = plan.status.clone().map(Box::new);
        plan
    }

    fn pod_is(&mut self, phase: &str, state: &Value) {
        let mut pod = (**self.pods.last().unwrap()).clone();
        let agent = json!({"name": "agent", "image": "i", "imageID": "", "ready": false,
                           "restartCount": 0, "state": state});
        pod.status =
            serde_json::from_value(json!({"phase": phase, "containerStatuses": [agent]})).unwrap();
        *self.pods.last_mut().unwrap() = Arc::new(pod);
    }

    fn ends(&mut self, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"exitCode": code, "finishedAt": self.now.to_string()});
        self.pod_is(phase, &json!({"terminated": ended}));
    }

    /// Prepares a volume from the beginning to the end; its claim.
    fn prepare(&mut self) -> String {
        self.follow();
        self.follow();
        self.ends(0);
        self.follow();
        self.status().claim.clone().unwrap()
    }

    /// Has the API server say this of the snapshot of the current claim.
    fn answers(&mut self, answer: SnapshotAnswer) {
        let name = self.status().claim.clone().unwrap_or_else(|| "shop-prep".to_owned());
        self.snapshot = Some(AskedSnapshot { name, answer });
    }

    /// The snapshot is there, and its controller says this of it.
    fn finds(&mut self, status: &Value) {
        let source = claim(self.status().claim.as_ref().unwrap());
        let mut made = serde_json::to_value(VolumeSnapshot::build(&self.repo, &source)).unwrap();
        made["metadata"]["creationTimestamp"] = json!(testing::now().to_string());
        made["status"] = status.clone();
        self.answers(SnapshotAnswer::Found(serde_json::from_value(made).unwrap()));
    }

    fn status(&self) -> &PreparedStatus {
        self.repo.status.as_ref().unwrap().prepared.as_ref().unwrap()
    }

    fn said(&self) -> (&str, &str, &str) {
        let conditions = &self.repo.status.as_ref().unwrap().conditions;
        let type_ = condition::PREPARED_VOLUME_READY;
        let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
        (&found.status, &found.reason, &found.message)
    }
}

#[test]
fn a_pod_of_its_own_prepares_a_volume_and_goes_and_the_volume_stays() {
    let mut volumes = Volumes::new();
    let plan = volumes.follow();
    let (claim, pod) = plan.create.as_deref().unwrap();
    let args = pod.spec.as_ref().unwrap().containers[0].args.clone().unwrap();
    assert!(args.contains(&"--prepare".to_owned()) && !args.contains(&"--seat".to_owned()));
    assert_eq!(claim.metadata.owner_references.as_ref().unwrap()[0].kind, "Repo");
    assert_eq!(pod.name_any(), format!("{}-coder", claim.name_any()));
    let claim = claim.name_any();
    volumes.follow();
    assert_eq!(volumes.status().pod.as_ref().map(|pod| pod.uid.clone()), volumes.pods[0].uid());
    assert_eq!(
        (volumes.said().1, volumes.status().claim.as_ref()),
        ("PreparedVolumeStarting", None)
    );
    volumes.ends(0);
    volumes.follow();
    assert_eq!(volumes.status().claim.as_ref(), Some(&claim));
    assert_eq!((volumes.said().0, volumes.said().1), ("True", "PreparedVolumeReady"));
    assert_eq!((volumes.pods.len(), volumes.claims.len(), &volumes.status().pod), (0, 1, &None));
    let settled = volumes.plan();
    assert!(settled.create.is_none() && settled.delete_claims.is_empty(), "{settled:?}");
}

#[test]
fn another_state_of_the_lock_files_or_setting_replaces_it_once_the_new_one_is_ready() {
    type Change = fn(&mut Volumes);
    let changes: [Change; 5] = [
        |volumes| volumes.repo.status.as_mut().unwrap().base_locks = Some("2".to_owned()),
        |volumes| volumes.repo.spec.worktree.setup = Some("make deps".to_owned()),
        |volumes| volumes.repo.spec.worktree.sparse = vec!["src".to_owned()],
        |volumes| volumes.repo.spec.worktree.size = "20Gi".to_owned(),
        |volumes| volumes.role.spec.workspace.image = Some("node:24".to_owned()),
    ];
    for change in changes {
        let mut volumes = Volumes::new();
        let old = volumes.prepare();
        change(&mut volumes);
        volumes.follow();
        volumes.follow();
        assert_eq!(volumes.status().claim.as_ref(), Some(&old), "until the new one is there");
        volumes.awaited.insert(old.clone());
        volumes.ends(0);
        volumes.follow();
        let new = volumes.status().claim.clone().unwrap();
        assert_ne!(new, old);
        assert_eq!(volumes.claims, [old.clone(), new.clone()].into(), "a clone is still made");
        volumes.awaited.clear();
        volumes.follow();
        assert_eq!((&volumes.claims, &volumes.status().replaced), (&[new].into(), &None));
    }
    // What has nothing to do with it replaces nothing.
    let mut volumes = Volumes::new();
    volumes.prepare();
    volumes.role.spec.limits.turns += 1;
    assert!(volumes.plan().create.is_none());
}

#[test]
fn a_set_up_that_fails_is_told_and_tried_again_later() {
    let mut volumes = Volumes::new();
    volumes.follow();
    volumes.ends(1);
    let plan = volumes.follow();
    let (status, reason, message) = volumes.said();
    assert_eq!((status, reason, plan.notices.len()), ("False", "PreparedVolumeFailed", 1));
    assert!(message.contains("kubectl -n team logs") && message.contains(COLD), "{message}");
    assert_eq!(volumes.pods.len(), 1, "for its log");
    assert!(volumes.plan().create.is_none());
    volumes.now += SignedDuration::from_mins(1);
    volumes.follow();
    assert!(volumes.pods.is_empty());
    assert!(volumes.claims.is_empty(), "on that volume the set-up counts as tried");
    assert!(volumes.follow().create.is_some());
    let plan = volumes.follow();
    assert_eq!((volumes.said().1, plan.notices.len()), ("PreparedVolumeFailed", 0), "told once");
    volumes.ends(0);
    volumes.follow();
    assert_eq!(volumes.said().1, "PreparedVolumeReady");
}

#[test]
fn claims_that_nothing_is_made_from_are_given_up_whoever_has_left_them() {
    // Of a controller that ended between claim and pod, or of an attempt that was refused its pod.
    let left = || "shop-prep-00000000".to_owned();
    let mut volumes = Volumes::new();
    volumes.claims.insert(left());
    let claim = volumes.prepare();
    assert_eq!(volumes.claims, [claim.clone()].into());
    volumes.claims.insert(left());
    volumes.awaited.insert(left());
    let plan = volumes.follow();
    assert!(plan.delete_claims.is_empty() && plan.again.is_some(), "a clone of it is made");
    volumes.awaited.clear();
    volumes.repo.spec.worktree.prepared = PreparedVolumes::None;
    volumes.follow();
    assert!(volumes.claims.is_empty());
}

#[test]
fn a_volume_that_somebody_deleted_is_prepared_again_once_it_is_gone() {
    let mut volumes = Volumes::new();
    let name = volumes.prepare();
    volumes.claims.clear();
    let plan = volumes.follow();
    assert!(plan.create.is_some() && volumes.status().claim.is_none());
    volumes.ends(0);
    volumes.follow();
    assert_eq!(volumes.status().claim.as_ref(), Some(&name));
}

#[test]
fn a_pod_keeps_its_rights_while_the_gateway_is_not_found() {
    let mut volumes = Volumes::new();
    volumes.follow();
    volumes.follow();
    let pod = volumes.status().pod.clone();
    volumes.gateway = false;
    volumes.follow();
    assert_eq!((volumes.status().pod.as_ref(), volumes.pods.len()), (pod.as_ref(), 1));
    volumes.pods.clear();
    volumes.follow();
    assert_eq!(volumes.status().pod, None);
}

#[test]
fn a_class_that_can_not_clone_is_told_until_the_volume_is_replaced() {
    let mut volumes = Volumes::new();
    volumes.uncloned = Some(volumes.prepare());
    let plan = volumes.follow();
    assert_eq!((volumes.said().1, plan.notices.len()), ("PreparedVolumeNotCloned", 1));
    // The next controller knows it from the status.
    volumes.uncloned = None;
    volumes.follow();
    assert_eq!(
        (volumes.said().1, &volumes.status().failed),
        ("PreparedVolumeNotCloned", &volumes.status().claim)
    );
    // A slow driver is tried again once it has more time.
    volumes.repo.spec.worktree.clone_seconds = 300;
    volumes.repo.metadata.generation = Some(2);
    // Also where the first look after the change does not find all that it needs.
    volumes.gateway = false;
    volumes.follow();
    volumes.gateway = true;
    volumes.follow();
    assert_eq!((volumes.said().1, &volumes.status().failed), ("PreparedVolumeReady", &None));
    let claim = volumes.status().claim.clone();
    volumes.uncloned = claim;
    volumes.follow();
    assert_eq!(volumes.said().1, "PreparedVolumeNotCloned");
    volumes.uncloned = None;
    volumes.repo.spec.worktree.storage_class_name = Some("cloning".to_owned());
    volumes.prepare();
    assert_eq!((volumes.said().1, &volumes.status().failed), ("PreparedVolumeReady", &None));
}

#[test]
fn work_that_waits_for_room_goes_before_and_nothing_is_left_when_it_is_not_wanted() {
    let mut volumes = Volumes::new();
    volumes.waits = true;
    assert!(volumes.follow().create.is_none());
    volumes.waits = false;
    volumes.follow();
    volumes.waits = true;
    volumes.follow();
    assert!(volumes.pods.is_empty());
    volumes.waits = false;
    volumes.prepare();
    volumes.repo.spec.worktree.prepared = PreparedVolumes::None;
    let plan = volumes.follow();
    assert!(volumes.claims.is_empty() && plan.status.is_none() && plan.conditions.is_empty());
}

#[test]
fn a_pod_that_was_told_another_shards_port_is_made_anew() {
    let mut volumes = Volumes::new();
    volumes.follow();
    assert!(volumes.follow().delete_pods.is_empty());
    volumes.port = 8444;
    assert_eq!(volumes.follow().delete_pods.len(), 1, "nobody answers it there");
    assert!(volumes.pods.is_empty() && volumes.claims.len() == 1, "what is cloned stays");
    assert!(volumes.follow().create.is_some());
    assert!(volumes.follow().delete_pods.is_empty());
    volumes.prepare();
}

#[test]
fn volumes_are_restored_from_a_snapshot_once_it_can_be_used() {
    let mut volumes = Volumes::new();
    volumes.repo.spec.worktree.prepared = PreparedVolumes::Snapshot;
    let claim = volumes.prepare();
    assert_eq!((volumes.said().1, &volumes.status().snapshot), ("PreparedVolumeStarting", &None));
    assert!(volumes.plan().take.is_none(), "nobody has asked whether it is there");
    volumes.answers(SnapshotAnswer::Absent);
    let plan = volumes.follow();
    assert_eq!(plan.take.map(|snapshot| snapshot.name_any()), Some(claim.clone()));
    assert_eq!((volumes.said().1, plan.again), ("PreparedVolumeStarting", Some(SNAPSHOT_SOON)));

    volumes.finds(&json!({"readyToUse": false}));
    let plan = volumes.follow();
    assert!(plan.take.is_none() && volumes.said().1 == "PreparedVolumeStarting");
    volumes.finds(&json!({"readyToUse": false, "error": {"message": "no class of that name"}}));
    let plan = volumes.follow();
    assert_eq!((volumes.said().1, plan.notices.len()), ("PreparedVolumeFailed", 1));
    assert!(volumes.said().2.contains("could not be taken: no class of that name;"));
    volumes.finds(&json!({"readyToUse": true}));
    volumes.follow();
    assert_eq!((volumes.said().0, volumes.said().1), ("True", "PreparedVolumeReady"));
    assert_eq!(volumes.status().snapshot.as_ref(), Some(&claim));

    // An API server that does not answer takes nothing away; somebody who deletes it does.
    volumes.answers(SnapshotAnswer::Unknown("try again".to_owned()));
    volumes.follow();
    assert_eq!((volumes.said().0, volumes.status().snapshot.as_ref()), ("True", Some(&claim)));
    volumes.answers(SnapshotAnswer::Absent);
    assert!(volumes.follow().take.is_some() && volumes.status().snapshot.is_none());
    volumes.refusal = Some(ApplyRefusal::Rejected {
        kind: "VolumeSnapshot".to_owned(),
        name: claim.clone(),
        message: "exceeded quota".to_owned(),
    });
    assert!(volumes.follow().take.is_none());
    assert!(volumes.said().2.contains("its snapshot is refused"), "{}", volumes.said().2);
    volumes.refusal = None;

    volumes.finds(&json!({}));
    volumes.now += SNAPSHOT_LIMIT;
    volumes.follow();
    assert!(volumes.said().2.contains("describe volumesnapshot"), "{}", volumes.said().2);
    volumes.finds(&json!({"readyToUse": true}));
    volumes.uncloned = Some(claim.clone());
    volumes.follow();
    assert_eq!(volumes.said().1, "PreparedVolumeNotCloned");
    assert!(volumes.said().2.contains("restored from snapshot"), "{}", volumes.said().2);

    // Another class is another snapshot, and one of another volume.
    volumes.uncloned = None;
    volumes.repo.spec.worktree.snapshot_class_name = Some("other".to_owned());
    let (other, _) = *volumes.follow().create.unwrap();
    assert_ne!(other.name_any(), claim);
}

#[test]
fn nothing_is_restored_from_a_snapshot_of_another_claim_with_that_name() {
    let mut volumes = Volumes::new();
    volumes.repo.spec.worktree.prepared = PreparedVolumes::Snapshot;
    let name = volumes.prepare();
    volumes.finds(&json!({"readyToUse": true}));
    let Some(AskedSnapshot { answer: SnapshotAnswer::Found(found), .. }) = &mut volumes.snapshot
    else {
        panic!()
    };
    // Somebody had deleted the claim: its snapshot may outlive it for a while.
    found.owner_references_mut()[0].uid = "uid-of-an-earlier-one".to_owned();
    volumes.follow();
    assert_eq!((volumes.said().1, &volumes.status().snapshot), ("PreparedVolumeStarting", &None));
    volumes.now += SNAPSHOT_LIMIT;
    volumes.follow();
    assert_eq!((volumes.said().1, &volumes.status().snapshot), ("PreparedVolumeFailed", &None));
    assert!(volumes.said().2.contains(&format!("`{name}`: delete it")), "{}", volumes.said().2);
    volumes.finds(&json!({"readyToUse": true}));
    volumes.follow();
    assert_eq!(volumes.status().snapshot, Some(name));
}

#[test]
fn a_cluster_without_snapshots_is_told_before_a_volume_is_prepared() {
    let mut volumes = Volumes::new();
    volumes.repo.spec.worktree.prepared = PreparedVolumes::Snapshot;
    volumes.snapshot =
        Some(AskedSnapshot { name: "shop-prep".to_owned(), answer: SnapshotAnswer::Unserved });
    let plan = volumes.follow();
    assert!(plan.create.is_none() && plan.again == Some(RETRY));
    assert_eq!((volumes.said().1, plan.notices.len()), ("PreparedVolumeNoSnapshots", 1));
    assert!(volumes.said().2.contains("snapshot.storage.k8s.io/v1"), "{}", volumes.said().2);
    // Their definitions are installed.
    volumes.answers(SnapshotAnswer::Absent);
    assert!(volumes.follow().create.is_some());
}
