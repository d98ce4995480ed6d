//! Seats of `spec.warm`, through the API alone.

use codebutler_crds::{AgentRole, Repo, Thread, names};
use codebutler_runtime::server_spec::fingerprint_server;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::world::{MAIL, THREAD, World, create, eventually};

impl World {
    async fn warm(&self, warm: Value) {
        let patch = Patch::Merge(json!({"spec": {"warm": warm}}));
        self.api::<Repo>().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Seats that no Thread has taken, and that are not on their way out.
    async fn seats(&self) -> Vec<Pod> {
        let waiting = format!("{},!{}", names::LABEL_SEAT, names::LABEL_THREAD);
        let pods = self.api::<Pod>().list(&ListParams::default().labels(&waiting)).await.unwrap();
        pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// Waits until so many seats are known to the gateway, each with its claim, and says that they run.
    async fn running_seats(&self, count: usize) -> Vec<Pod> {
        let seats = eventually(&format!("{count} seats"), || async {
            let seats = self.seats().await;
            let repo = self.api::<Repo>().get("shop").await.unwrap();
            let known = repo.status?.warm?.pods;
            let told = |pod: &Pod| known.get(&pod.name_any()) == pod.metadata.uid.as_ref();
            (seats.len() == count && seats.iter().all(told)).then_some(seats)
        })
        .await;
        for seat in &seats {
            self.pod_is(seat, "Running").await;
            self.has_clone(seat).await;
        }
        eventually("the seats are ready", || async {
            let warm = self.api::<Repo>().get("shop").await.unwrap().status?.warm?;
            (usize::try_from(warm.ready) == Ok(count)).then_some(())
        })
        .await;
        seats
    }

    async fn has_clone(&self, seat: &Pod) {
        let image = "codebutler-agent";
        let ready = json!({"name": "agent", "image": image, "imageID": "", "ready": true, "started": true,
                           "restartCount": 0, "state": {"running": {"startedAt": Timestamp::now()}}});
        let patch = Patch::Merge(json!({"status": {"containerStatuses": [ready]}}));
        let params = PatchParams::default();
        self.api::<Pod>().patch_status(&seat.name_any(), &params, &patch).await.unwrap();
    }

    async fn claim_of(&self, pod: &Pod) -> PersistentVolumeClaim {
        self.api().get(&pod.labels()[names::LABEL_SEAT]).await.unwrap()
    }

    async fn ready_for_seats(warm: Value) -> Self {
        let world = Self::start().await;
        world.create_repo().await;
        world.repo_is_ready().await;
        world.warm(warm).await;
        world
    }

    /// The pod that is registered as the pm of a Thread.
    async fn pm_pod(&self, thread: &str) -> Pod {
        eventually(&format!("the pm of {thread} has a pod"), || async {
            let status = self.api::<Thread>().get(thread).await.unwrap().status?;
            let uid = status.roles.get("pm")?.pod_uid.clone()?;
            let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
            pods.items.into_iter().find(|pod| pod.uid().as_ref() == Some(&uid))
        })
        .await
    }

    async fn is_gone(&self, pod: &Pod) {
        eventually("a seat is gone", || async {
            let found = self.api::<Pod>().get_opt(&pod.name_any()).await.unwrap();
            let going = found.is_none_or(|found| {
                found.uid() != pod.uid() || found.metadata.deletion_timestamp.is_some()
            });
            going.then_some(())
        })
        .await;
    }
}

fn owner<K: kube::Resource>(object: &K) -> OwnerReference {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    assert_eq!(owners.len(), 1, "{owners:?}");
    owners.remove(0)
}

#[tokio::test]
async fn a_thread_takes_a_seat_and_another_one_follows() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    assert_eq!(owner(&seat).kind, "Repo");
    let claim = world.claim_of(&seat).await;
    assert_eq!((owner(&claim).kind.as_str(), Some(owner(&claim).uid)), ("Pod", seat.uid()));
    world.condition::<Repo>("shop", "SeatsReady", "True", "SeatsReady").await;

    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pod = world.pm_pod(THREAD).await;
    assert_eq!((pod.uid(), pod.name_any()), (seat.uid(), seat.name_any()));
    let thread = world.thread().await;
    let of_thread = |reference: OwnerReference| (reference.kind, Some(reference.uid));
    assert_eq!(of_thread(owner(&pod)), ("Thread".to_owned(), thread.uid()));
    assert_eq!(pod.labels()[names::LABEL_THREAD], THREAD);
    let claim = world.claim_of(&seat).await;
    assert_eq!(of_thread(owner(&claim)), ("Thread".to_owned(), thread.uid()));
    assert_eq!(claim.labels()[names::LABEL_THREAD], THREAD);
    assert_eq!(thread.status.unwrap().volume, Some(claim.name_any()));
    world.event(THREAD, "SeatTaken").await;

    // Used once: the next one has another name and another volume.
    let next = world.running_seats(1).await.remove(0);
    assert_ne!(next.name_any(), seat.name_any());
    // The Thread's other roles share what its seat had.
    world.mark("coder", json!({"inbox": MAIL[1]})).await;
    let coder = world.registered_pod("coder", None).await;
    let volumes = coder.spec.as_ref().unwrap().volumes.clone().unwrap();
    let used: Vec<_> = volumes.into_iter().filter_map(|v| v.persistent_volume_claim).collect();
    assert_eq!(used[0].claim_name, claim.name_any());
    let level = |pod: &Pod| {
        let spec = pod.spec.as_ref().unwrap();
        spec.security_context.as_ref().unwrap().se_linux_options.clone().unwrap().level
    };
    assert_eq!(level(&coder), level(&pod));

    // A Thread that is closed takes all of it along.
    world.close_thread().await;
    world.is_gone(&pod).await;
    eventually("the claim is gone", || async {
        world.release_claims().await;
        let found = world.api::<PersistentVolumeClaim>().get_opt(&claim.name_any()).await.unwrap();
        found.is_none().then_some(())
    })
    .await;
    assert_eq!(world.seats().await.len(), 1, "the other seat stays");
}

#[tokio::test]
async fn of_two_threads_one_has_the_only_seat() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    let other = "shop-1767268701-000100";
    for (name, ts) in [(THREAD, MAIL[0]), (other, "1767268701.000100")] {
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": ts}}});
        create::<Thread>(&world.admin, &world.place.team, thread).await;
    }
    let (params, threads) = (PatchParams::default(), world.api::<Thread>());
    let mail = |ts: &str| Patch::Merge(json!({"status": {"roles": {"pm": {"inbox": ts}}}}));
    let (one, two) = (mail(MAIL[0]), mail("1767268701.000100"));
    let (first, second) = tokio::join!(
        threads.patch_status(THREAD, &params, &one),
        threads.patch_status(other, &params, &two)
    );
    first.unwrap();
    second.unwrap();
    let (mine, theirs) = (world.pm_pod(THREAD).await, world.pm_pod(other).await);
    let took = |pod: &Pod| pod.uid() == seat.uid();
    assert_ne!(took(&mine), took(&theirs), "{} {}", mine.name_any(), theirs.name_any());
    let cold = if took(&mine) { theirs } else { mine };
    let thread = owner(&cold).name;
    assert_eq!(cold.name_any(), names::pod_name(&thread, "pm"));
    assert_eq!(world.api::<Thread>().get(&thread).await.unwrap().status.unwrap().volume, None);
    // The one who lost the seat waited for nothing: its volume is its own.
    world.api::<PersistentVolumeClaim>().get(&thread).await.unwrap();
}

#[tokio::test]
async fn what_was_cut_off_after_the_pod_was_taken_is_completed() {
    let mut world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    world.kill_controller();
    world.create_thread().await;
    let owner_reference = world.thread().await.controller_owner_ref(&()).unwrap();
    let taken = json!({"metadata": {
        "ownerReferences": [owner_reference],
        "labels": {names::LABEL_THREAD: THREAD},
    }});
    let params = PatchParams::default();
    world.api::<Pod>().patch(&seat.name_any(), &params, &Patch::Merge(taken)).await.unwrap();
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.start_controller();
    let pod = world.pm_pod(THREAD).await;
    assert_eq!(pod.uid(), seat.uid());
    let claim = world.claim_of(&seat).await;
    assert_eq!(owner(&claim).kind, "Thread");
    assert_eq!(world.thread().await.status.unwrap().volume, Some(claim.name_any()));
    let claims = world.api::<PersistentVolumeClaim>();
    assert!(claims.get_opt(THREAD).await.unwrap().is_none(), "no second volume");
}

#[tokio::test]
async fn a_seat_that_ends_or_is_not_as_it_would_be_made_is_made_anew() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let first = world.running_seats(1).await.remove(0);
    let now = DeleteParams::default().grace_period(0);
    world.api::<Pod>().delete(&first.name_any(), &now).await.unwrap();
    let second = world.running_seats(1).await.remove(0);
    assert_ne!(second.name_any(), first.name_any());
    let image = Patch::Merge(json!({"spec": {"workspace": {"image": "debian:13"}}}));
    let roles = kube::Api::<AgentRole>::namespaced(world.admin.clone(), &world.place.system);
    roles.patch("pm", &PatchParams::default(), &image).await.unwrap();
    world.is_gone(&second).await;
    let third = world.running_seats(1).await.remove(0);
    let toolbox = third.spec.unwrap().init_containers.unwrap().remove(0);
    assert_eq!(toolbox.image.as_deref(), Some("debian:13"));

    world.warm(json!(null)).await;
    eventually("no seats", || async { world.seats().await.is_empty().then_some(()) }).await;
    eventually("and nothing is said of them", || async {
        let status = world.api::<Repo>().get("shop").await.unwrap().status?;
        let said = status.conditions.iter().any(|c| c.type_ == "SeatsReady");
        (status.warm.is_none() && !said).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_repo_without_warm_has_none_and_a_thread_starts_its_own_pod() {
    let world = World::start().await;
    world.create_repo().await;
    world.repo_is_ready().await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    world.registered_pod("pm", None).await;
    assert_eq!(world.seats().await.len(), 0);
    let status = world.api::<Repo>().get("shop").await.unwrap().status.unwrap();
    assert_eq!(status.warm, None);
    assert!(!status.conditions.iter().any(|c| c.type_ == "SeatsReady"));
}

#[tokio::test]
async fn seats_leave_a_node_to_work_that_waits_and_say_so() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    // Of another role than the seat's: no node has room for it.
    world.create_thread().await;
    world.mark("coder", json!({"inbox": MAIL[0]})).await;
    let coder = world.registered_pod("coder", None).await;
    let status = Patch::Merge(json!({"status": {"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.",
        "lastTransitionTime": Timestamp::now()}]}}));
    let params = PatchParams::default();
    world.api::<Pod>().patch_status(&coder.name_any(), &params, &status).await.unwrap();
    // At once, and not when people are told that there is no node.
    world.condition::<Repo>("shop", "SeatsReady", "False", "SeatsYield").await;
    world.is_gone(&seat).await;
    world.event("shop", "SeatsYield").await;
    let found = Patch::Merge(json!({"status": {"phase": "Running", "conditions": null}}));
    world.api::<Pod>().patch_status(&coder.name_any(), &params, &found).await.unwrap();
    world.running_seats(1).await;
}

#[tokio::test]
async fn seats_leave_a_node_to_a_server_that_waits() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    let server = json!({"name": "db", "image": "db:1", "command": ["db"]});
    let spec = fingerprint_server(&serde_json::from_value(server.clone()).unwrap());
    let patch = Patch::Merge(json!({"spec": {"mcpServers": [server]}}));
    let params = PatchParams::default();
    world.api::<Repo>().patch("shop", &params, &patch).await.unwrap();
    world.create_thread().await;
    let wanted = json!({"pod": {"wanted": Timestamp::now(), "spec": spec}});
    let wanted = Patch::Merge(json!({"status": {"mcp": {"servers": {"db": wanted}}}}));
    world.api::<Thread>().patch_status(THREAD, &params, &wanted).await.unwrap();
    let name = names::mcp_pod_name(THREAD, "db");
    eventually("its pod", || async { world.api::<Pod>().get_opt(&name).await.unwrap() }).await;
    let status = Patch::Merge(json!({"status": {"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
        "lastTransitionTime": Timestamp::now()}]}}));
    world.api::<Pod>().patch_status(&name, &params, &status).await.unwrap();
    world.condition::<Repo>("shop", "SeatsReady", "False", "SeatsYield").await;
    world.is_gone(&seat).await;
}

#[tokio::test]
async fn seats_stay_while_a_pod_waits_for_what_none_of_them_has() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = world.running_seats(1).await.remove(0);
    world.create_thread().await;
    world.mark("coder", json!({"inbox": MAIL[0]})).await;
    let coder = world.registered_pod("coder", None).await;
    for (count, said, reason) in [
        (2, "pod has unbound immediate PersistentVolumeClaims.", "VolumePending"),
        (
            3,
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}.",
            "PodUnschedulable",
        ),
        (4, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "PodUnschedulable"),
    ] {
        let status = Patch::Merge(json!({"status": {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        let params = PatchParams::default();
        world.api::<Pod>().patch_status(&coder.name_any(), &params, &status).await.unwrap();
        world.condition::<Thread>(THREAD, "Ready", "False", reason).await;
        // A look at the Repo later, which this makes certain.
        world.warm(json!({"seats": count})).await;
        let seats = world.running_seats(count).await;
        assert!(seats.iter().any(|known| known.uid() == seat.uid()), "{said}");
    }
}

#[tokio::test]
async fn a_thread_takes_no_seat_that_has_no_clone_yet() {
    let world = World::ready_for_seats(json!({"seats": 1})).await;
    let seat = eventually("a seat", || async { world.seats().await.pop() }).await;
    world.pod_is(&seat, "Running").await;
    world.condition::<Repo>("shop", "SeatsReady", "False", "SeatsStarting").await;
    world.create_thread().await;
    world.mark("pm", json!({"inbox": MAIL[0]})).await;
    let pod = world.registered_pod("pm", None).await;
    assert_ne!(pod.uid(), seat.uid());
    let status = world.api::<Repo>().get("shop").await.unwrap().status.unwrap();
    assert_eq!(status.warm.unwrap().ready, 0);
}

#[tokio::test]
async fn a_schedule_that_never_fires_is_told_and_no_seat_waits() {
    let world = World::ready_for_seats(json!({"seats": 1, "schedule": "0 8 30 2 *",
        "idleSeconds": 600}))
    .await;
    let message =
        world.condition::<Repo>("shop", "SeatsReady", "False", "SeatScheduleInvalid").await;
    assert!(message.contains("spec.warm.schedule"), "{message}");
    world.event("shop", "SeatScheduleInvalid").await;
    assert_eq!(world.seats().await.len(), 0);
}
