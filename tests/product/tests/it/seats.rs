//! Pods that wait for a conversation, as people notice them: by how soon there is an answer.

use codebutler_crds::prepared::PreparedVolumes;
use codebutler_crds::warm::WarmSpec;
use codebutler_crds::{Repo, names};
use codebutler_testbed::controllers::FolderSnapshots;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::support::{Setup, Team};

fn warm(seats: u32) -> WarmSpec {
    serde_json::from_value(json!({"seats": seats})).unwrap()
}

async fn pods(team: &Team, labels: &str) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    api.list(&ListParams::default().labels(labels)).await.unwrap().items
}

/// Waits for a seat with a clone of the base branch; its pod.
async fn ready_seat(team: &Team) -> Pod {
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let waiting = format!("{},!{}", names::LABEL_SEAT, names::LABEL_THREAD);
    team.until("a seat with a clone", || async {
        let status = repos.get("shop").await.ok()?.status?.warm?;
        let mut seats = pods(team, &waiting).await;
        seats.retain(|pod| status.pods.contains_key(&pod.name_any()));
        let pod = seats.pop().filter(|_| status.ready > 0)?;
        let claim = pod.labels()[names::LABEL_SEAT].clone();
        let folder = team.kubelet().volume_path(&team.stack.place.team, &claim).await.ok()?;
        folder.join("work/tree/README.md").exists().then_some(pod)
    })
    .await
}

async fn is_in(team: &Team, root: &str, pod: &Pod) -> bool {
    let status = team.thread(root).await.status.unwrap();
    status.roles["pm"].pod_uid == pod.uid()
}

/// A script that works in the conversation, and then with a command that needs the worktree.
fn script() -> ModelScript {
    let pm = vec![
        ScriptStep::tool("Bash", json!({"command": "git log --format=%s -1 && cat src/price.txt"})),
        ScriptStep::say("It is 0.1."),
    ];
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "src/price.txt", "content": "price = 0.2\n"})),
        ScriptStep::tool("GitCommit", json!({"message": "Correct the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::say("Corrected."),
    ];
    ModelScript::of("pm", pm).and("coder", coder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mention_takes_a_seat_and_the_team_works_in_its_volume() {
    if crate::support::needs_process_kubelet("it looks into a volume") {
        return;
    }
    let team = Setup::new(script())
        .repo(|repo| {
            repo.warm = Some(Box::new(warm(1)));
            let command = "mkdir -p $XDG_CACHE_HOME; echo once >> $XDG_CACHE_HOME/ran";
            repo.worktree.setup = Some(command.to_owned());
        })
        .role(|role| {
            if role.role == "pm" {
                role.tools.allow.push("Bash".to_owned());
            }
        })
        .start()
        .await;
    let seat = ready_seat(&team).await;
    let claim = seat.labels()[names::LABEL_SEAT].clone();
    let folder = team.kubelet().volume_path(&team.stack.place.team, &claim).await.unwrap();
    team.until("its set-up", || async { folder.join("work/.setup.json").exists().then_some(()) })
        .await;
    let root = team.says("ana", None, "What is the price?");
    team.message(&root, "It is 0.1.").await;
    assert!(is_in(&team, &root, &seat).await, "the first model call came from the seat");

    // The next role shares the volume, and what it pushes is on the Thread's branch.
    team.says("ana", Some(&root), "@codebutler.coder correct it");
    team.message(&root, "Corrected.").await;
    let thread = team.settled(&root, "coder").await;
    let status = thread.status.clone().unwrap();
    assert_eq!(status.volume.as_deref(), Some(&*claim));
    let ran = std::fs::read_to_string(folder.join("work/build/cache/ran")).unwrap();
    assert_eq!(ran, "once\n", "neither role has set the worktree up again");
    let mine = format!("{}={}", names::LABEL_THREAD, thread.name_any());
    assert!(pods(&team, &mine).await.len() >= 2);
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    assert_eq!(claims.list(&ListParams::default().labels(&mine)).await.unwrap().items.len(), 1);

    // Another one waits by now, which has nothing of this conversation.
    let next = ready_seat(&team).await;
    assert_ne!(next.uid(), seat.uid());
    let folder = next.labels()[names::LABEL_SEAT].clone();
    let folder = team.kubelet().volume_path(&team.stack.place.team, &folder).await.unwrap();
    let price = std::fs::read_to_string(folder.join("work/tree/src/price.txt")).unwrap();
    assert_eq!(price, "price = 0.1\n");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_mentions_at_once_a_base_that_moves_and_a_seat_that_is_killed_cost_nobody_an_answer() {
    if crate::support::needs_process_kubelet("it kills a pod") {
        return;
    }
    let say = || ModelScript::of("pm", vec![ScriptStep::say("Here I am.")]);
    let team = Setup::new(say()).repo(|repo| repo.warm = Some(Box::new(warm(1)))).start().await;
    let seat = ready_seat(&team).await;
    let (one, two) = (team.says("ana", None, "One?"), team.says("ben", None, "Two?"));
    team.message(&one, "Here I am.").await;
    team.message(&two, "Here I am.").await;
    let took = [is_in(&team, &one, &seat).await, is_in(&team, &two, &seat).await];
    assert_eq!(took.iter().filter(|took| **took).count(), 1, "{took:?}");

    // Commits that were merged since the seat has its clone are there for whoever takes it.
    let seat = ready_seat(&team).await;
    let merged = [("src/price.txt", Some("price = 7\n"))];
    team.stack.remote.commit("main", "ana", "Seven", &merged).await.unwrap();
    let root = team.says("ana", None, "Three?");
    team.message(&root, "Here I am.").await;
    assert!(is_in(&team, &root, &seat).await);
    let claim = seat.labels()[names::LABEL_SEAT].clone();
    let folder = team.kubelet().volume_path(&team.stack.place.team, &claim).await.unwrap();
    let price = std::fs::read_to_string(folder.join("work/tree/src/price.txt")).unwrap();
    assert_eq!(price, "price = 7\n");

    // One that goes in the moment in which it is needed.
    let seat = ready_seat(&team).await;
    let api: Api<Pod> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let now = DeleteParams::default().grace_period(0);
    let name = seat.name_any();
    let (gone, root) =
        tokio::join!(api.delete(&name, &now), async { team.says("ana", None, "Four?") });
    gone.unwrap();
    team.message(&root, "Here I am.").await;
    if !is_in(&team, &root, &seat).await {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
        let claim = seat.labels()[names::LABEL_SEAT].clone();
        team.until("its claim to go with it", || async {
            let found = claims.get_opt(&claim).await.unwrap();
            let volume = team.thread(&root).await.status?.volume;
            (found.is_none() || volume == Some(claim.clone())).then_some(())
        })
        .await;
    }

    let none = Patch::Merge(json!({"spec": {"warm": Value::Null}}));
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    repos.patch("shop", &PatchParams::default(), &none).await.unwrap();
    let waiting = format!("{},!{}", names::LABEL_SEAT, names::LABEL_THREAD);
    team.until("no seats", || async { pods(&team, &waiting).await.is_empty().then_some(()) }).await;
    team.stop().await;
}

/// Requests of pods for commits, so far.
async fn fetches(team: &Team) -> u64 {
    let page = format!("http://{}/metrics", team.stack.metrics.gateway);
    let page = reqwest::get(page).await.unwrap().text().await.unwrap();
    let fetches = page.lines().filter(|line| {
        line.starts_with("codebutler_git_requests_total") && line.contains("git-upload-pack")
    });
    fetches.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The number of requests until a Thread in a seat answers, once `change` has been made to the remote.
async fn fetches_of_a_seat(team: &Team, change: impl AsyncFn()) -> u64 {
    let waiting = format!("{},!{}", names::LABEL_SEAT, names::LABEL_THREAD);
    for _ in 0..5 {
        let seat = ready_seat(team).await;
        change().await;
        let before = fetches(team).await;
        let root = team.says("ana", None, "Are you there?");
        team.message(&root, "Here I am.").await;
        let after = fetches(team).await;
        // The next seat's clone would count.
        if is_in(team, &root, &seat).await && pods(team, &waiting).await.is_empty() {
            return after - before;
        }
    }
    panic!("each time another seat was there before the answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_fetches_nothing_into_a_seat_that_is_current() {
    if crate::support::needs_process_kubelet("its metrics are read at an address of this machine") {
        return;
    }
    let say = ModelScript::of("pm", vec![ScriptStep::say("Here I am.")]);
    let team = Setup::new(say).repo(|repo| repo.warm = Some(Box::new(warm(1)))).start().await;
    assert_eq!(fetches_of_a_seat(&team, async || ()).await, 0);
    let remote = &team.stack.remote;
    let merge = async || {
        let merged = [("src/price.txt", Some("price = 7\n"))];
        remote.commit("main", "ana", "Seven", &merged).await.unwrap();
    };
    assert!(fetches_of_a_seat(&team, merge).await > 0, "what was merged since is fetched");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_that_the_remote_refuses_is_not_ready_until_it_has_its_clone() {
    if crate::support::needs_process_kubelet("it looks into a volume") {
        return;
    }
    let say = ModelScript::of("pm", vec![ScriptStep::say("Here I am.")]);
    let team = Setup::new(say).start().await;
    let git = team.stack.remote.git();
    let tip = git.branch("main").await.unwrap();
    git.run(&["update-ref", "-d", "refs/heads/main"]).await.unwrap();
    let repos: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let spec = json!({"spec": {"warm": {"seats": 1}}});
    repos.patch("shop", &PatchParams::default(), &Patch::Merge(&spec)).await.unwrap();
    let waiting = format!("{},!{}", names::LABEL_SEAT, names::LABEL_THREAD);
    team.until("a seat that runs", || async {
        let seat = pods(&team, &waiting).await.pop()?;
        (seat.status?.phase.as_deref() == Some("Running")).then_some(())
    })
    .await;
    let status = repos.get("shop").await.unwrap().status.unwrap();
    let told = status.conditions.iter().find(|c| c.type_ == "SeatsReady").unwrap();
    assert_eq!(
        (told.status.as_str(), status.warm.unwrap().ready),
        ("False", 0),
        "{}",
        told.message
    );

    git.update_ref("refs/heads/main", &tip, "").await.unwrap();
    ready_seat(&team).await;
    team.stop().await;
}

/// A team whose volumes are prepared in this way.
async fn preparing_team(prepared: PreparedVolumes) -> Team {
    let pm = vec![ScriptStep::say("Here I am.")];
    Setup::new(ModelScript::of("pm", pm))
        .file("src/a.txt", "a\n")
        .file("docs/a.txt", "a\n")
        .repo(move |repo| {
            let command = "mkdir -p $XDG_CACHE_HOME; echo once >> $XDG_CACHE_HOME/ran";
            repo.worktree.setup = Some(command.to_owned());
            repo.worktree.prepared = prepared;
            repo.worktree.sparse = ["src", "gone"].map(str::to_owned).to_vec();
        })
        .role(|role| {
            if role.role == "pm" {
                role.tools.allow.push("Bash".to_owned());
            }
        })
        .start()
        .await
}

/// The claim of a conversation's Thread.
async fn claim_of(team: &Team, root: &str) -> PersistentVolumeClaim {
    let (client, place) = (team.stack.cluster.client(), &team.stack.place);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, &place.team);
    let mine = format!("{}={}", names::LABEL_THREAD, team.thread(root).await.name_any());
    claims.list(&ListParams::default().labels(&mine)).await.unwrap().items.remove(0)
}

/// Waits for a condition of the Repo with this reason; its sentence.
async fn repo_says(team: &Team, type_: &str, reason: &str) -> String {
    let (client, place) = (team.stack.cluster.client(), &team.stack.place);
    let repos: Api<Repo> = Api::namespaced(client, &place.team);
    let said = || async {
        let mut conditions = repos.get("shop").await.ok()?.status?.conditions.into_iter();
        conditions.find(|c| c.type_ == type_ && c.reason == reason).map(|c| c.message)
    };
    team.until(reason, said).await
}

/// Reads the file that the set-up has written on a claim's volume, which is on the thread's branch.
async fn read_set_up(team: &Team, claim: &PersistentVolumeClaim) -> String {
    let place = &team.stack.place;
    let folder = team.kubelet().volume_path(&place.team, &claim.name_any()).await.unwrap();
    let head = std::fs::read_to_string(folder.join("work/tree/.git/HEAD")).unwrap();
    assert!(head.contains("refs/heads/codebutler/"), "{head}");
    let has = |path: &str| folder.join("work/tree").join(path).exists();
    assert!(has("src/a.txt") && !has("docs"), "of the folders that the Repo names");
    std::fs::read_to_string(folder.join("work/build/cache/ran")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_volumes_of_threads_are_clones_of_one_that_was_set_up_once() {
    if crate::support::needs_process_kubelet("it looks into a volume") {
        return;
    }
    let team = preparing_team(PreparedVolumes::Clone).await;
    let (client, place) = (team.stack.cluster.client(), &team.stack.place);
    // The first conversation finds none, and lets the gateway know of the lock files.
    let first = team.says("ana", None, "Are you there?");
    team.message(&first, "Here I am.").await;
    assert!(claim_of(&team, &first).await.spec.unwrap().data_source.is_none());
    let repos: Api<Repo> = Api::namespaced(client.clone(), &place.team);
    let source = team
        .until("a prepared volume", || async {
            repos.get("shop").await.ok()?.status?.prepared?.claim
        })
        .await;

    let second = team.says("ben", None, "And now?");
    team.message(&second, "Here I am.").await;
    let claim = claim_of(&team, &second).await;
    assert_eq!(claim.spec.as_ref().unwrap().data_source.as_ref().unwrap().name, source);
    let ran = read_set_up(&team, &claim).await;
    assert_eq!(ran, "once\n", "by the pod that prepared the volume, and not again");
    let told = repo_says(&team, "SparseCheckoutValid", "SparseFolderNotFound").await;
    assert!(told.contains("has no folder `gone`:"), "{told}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_volumes_of_threads_are_restored_from_a_snapshot_where_there_are_snapshots() {
    if crate::support::needs_process_kubelet("it looks into a volume") {
        return;
    }
    let team = preparing_team(PreparedVolumes::Snapshot).await;
    let (client, place) = (team.stack.cluster.client(), &team.stack.place);
    let first = team.says("ana", None, "Are you there?");
    team.message(&first, "Here I am.").await;
    let told = repo_says(&team, "PreparedVolumeReady", "PreparedVolumeNoSnapshots").await;
    assert!(told.contains("snapshot.storage.k8s.io/v1"), "{told}");

    let claim = claim_of(&team, &first).await;
    let folder = team.kubelet().volume_path(&place.team, &claim.name_any()).await.unwrap();
    let volumes = folder.parent().unwrap().to_owned();
    let _snapshots = FolderSnapshots::start(client.clone(), volumes).await.unwrap();
    // Nobody has to wait for the next minute.
    let repos: Api<Repo> = Api::namespaced(client.clone(), &place.team);
    let look = Patch::Merge(json!({"metadata": {"annotations": {"look": "again"}}}));
    repos.patch("shop", &PatchParams::default(), &look).await.unwrap();
    let snapshot = team
        .until("a snapshot", || async { repos.get("shop").await.ok()?.status?.prepared?.snapshot })
        .await;

    let second = team.says("ben", None, "And now?");
    team.message(&second, "Here I am.").await;
    let claim = claim_of(&team, &second).await;
    let source = claim.spec.as_ref().unwrap().data_source.as_ref().unwrap();
    assert_eq!((source.kind.as_str(), &source.name), ("VolumeSnapshot", &snapshot));
    let ran = read_set_up(&team, &claim).await;
    assert_eq!(ran, "once\n", "by the pod that prepared the volume, and not again");
    team.stop().await;
}
