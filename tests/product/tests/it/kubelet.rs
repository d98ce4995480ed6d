//! Pods as their users see them: through the API, their logs, and from inside.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codebutler_testbed::kubelet::{KubeletOptions, ServiceForward, Signal};
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::needs_process_kubelet;
use crate::world::{World, condition, container, sh, with, without_kubelet, world};

#[tokio::test]
async fn init_then_sidecar_then_main_then_sidecar_again() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let mounts = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let step = |name: &str, script: &str| with(sh(name, script), mounts.clone());
    let side = "sleep 0.2; echo side >> /v/log; touch /v/up; \
                trap 'cat /v/log; echo side-end; exit 0' TERM; while :; do sleep 0.02; done";
    let probe = json!({
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["test", "-e", "/v/up"]}, "periodSeconds": 1},
    });
    world
        .pod(
            "p",
            json!({
                "restartPolicy": "Never",
                "volumes": [{"name": "v", "emptyDir": {}}],
                "initContainers": [step("first", "echo first >> /v/log"), with(step("side", side), probe)],
                "containers": [step("main", "echo main >> /v/log; sleep 0.2; echo end >> /v/log")],
            }),
        )
        .await;
    let pod = world.phase("p", "Succeeded").await;
    assert_eq!(world.logs("p", "side").await, "first\nside\nmain\nend\nside-end\n");
    for (name, code) in [("first", 0), ("side", 0), ("main", 0)] {
        assert_eq!(container(&pod, name)["state"]["terminated"]["exitCode"], code, "{name}");
    }
    assert_eq!(condition(&pod, "Initialized"), "True");
    assert_eq!(condition(&pod, "Ready"), "False");
    assert!(pod["status"]["startTime"].is_string() && pod["status"]["podIP"].is_string());
    world.end().await;
}

#[tokio::test]
async fn exit_codes_decide() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let once = |script| json!({"restartPolicy": "Never", "containers": [sh("c", script)]});
    world.pod("three", once("exit 3")).await;
    world.pod("killed", once("sh -c 'kill -9 $PPID'; true")).await;
    let no_program = json!({"name": "c", "command": ["/no/such/program"]});
    world.pod("none", json!({"restartPolicy": "Never", "containers": [no_program]})).await;
    let init = json!({
        "restartPolicy": "Never", "initContainers": [sh("i", "exit 1")], "containers": [sh("c", "")],
    });
    world.pod("init", init).await;
    for (name, which, code) in
        [("three", "c", 3), ("killed", "c", 137), ("none", "c", 128), ("init", "i", 1)]
    {
        let pod = world.phase(name, "Failed").await;
        assert_eq!(container(&pod, which)["state"]["terminated"]["exitCode"], code, "{name}");
    }
    let script = "n=$(cat /v/n 2>/dev/null || echo 0); echo $((n + 1)) > /v/n; [ $n = 2 ]";
    let mounts = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    let spec = json!({
        "restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [with(sh("c", script), mounts)],
    });
    world.pod("retried", spec).await;
    let pod = world.phase("retried", "Succeeded").await;
    assert_eq!(container(&pod, "c")["restartCount"], 2);
    assert_eq!(container(&pod, "c")["lastState"]["terminated"]["exitCode"], 1);
    world.end().await;
}

#[tokio::test]
async fn a_token_is_bound_to_the_pod_and_in_one_container_only() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let _: ServiceAccount = world.create(json!({"metadata": {"name": "worker"}})).await;
    let token = json!({"serviceAccountToken": {
        "audience": "the-gateway", "expirationSeconds": 3600, "path": "token",
    }});
    let mounted = json!({"volumeMounts": [
        {"name": "token", "mountPath": "/var/run/secrets/the", "readOnly": true},
    ]});
    let spec = json!({
        "serviceAccountName": "worker",
        "volumes": [{"name": "token", "projected": {"sources": [token]}}],
        "containers": [with(sh("has", "sleep 1000"), mounted), sh("lacks", "sleep 1000")],
        "terminationGracePeriodSeconds": 0,
    });
    let pod = world.pod("p", spec).await;
    world.ready("p").await;
    let token = world.sh("p", "has", "cat /var/run/secrets/the/token").await;
    let review: TokenReview = serde_json::from_value(json!({
        "metadata": {}, "spec": {"token": token, "audiences": ["the-gateway"]},
    }))
    .unwrap();
    let api: Api<TokenReview> = Api::all(world.client.clone());
    let status = api.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    assert_eq!(status.authenticated, Some(true));
    let extra = status.user.unwrap().extra.unwrap();
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], [pod.uid().unwrap()]);
    let found = "grep -rlE 'eyJ[A-Za-z0-9_-]+[.]eyJ' /var /run /tmp /etc /dev/shm 2>/dev/null; env";
    let found = world.sh("p", "lacks", found).await;
    assert!(!found.contains("/token") && !found.contains(&token), "{found}");
    world.end().await;
}

#[tokio::test]
async fn containers_see_neither_the_host_nor_each_other() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let own =
        |name: &str| json!({"volumeMounts": [{"name": name, "mountPath": format!("/{name}")}]});
    let spec = json!({
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
        "containers": [
            with(sh("a", "echo secret-of-a > /a/x; echo secret-of-a > /tmp/x; sleep 4242"), own("a")),
            with(sh("b", "sleep 1000"), own("b")),
        ],
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1234},
        "terminationGracePeriodSeconds": 0,
    });
    world.pod("p", spec).await;
    world.ready("p").await;
    let script = r"
        id -u; env | cut -d= -f1 | sort | tr '\n' ' '; echo
        ls -d /a /home /root /sys /mnt /srv /work 2>/dev/null
        cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -o 'sl[e]ep 4242\|c[a]rgo\|k[u]belet'
        grep -rs secret-of-a /tmp /b /dev/shm /var /run
        for p in /proc/[0-9]*; do
            grep -s secret-of-a $p/root/tmp/x; tr '\0' '\n' < $p/environ 2>/dev/null | grep -i c[a]rgo
        done
        grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\t' | tr '\n' ' '; echo
        cut -d' ' -f5 /proc/self/mountinfo | grep -vE '^/(usr|bin|sbin|lib[0-9x]*|etc|dev|proc)(/|$)' | sort
        exit 0
    ";
    let seen = world.sh("p", "b", script).await;
    insta::assert_snapshot!(seen, @r"
    1234
    HOME HOSTNAME PATH PWD 
    CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 
    /
    /b
    ");
    world.end().await;
}

#[tokio::test]
async fn only_a_forwarded_service_can_be_reached() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let host = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = host.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = host.accept().await {
            let mut word = [0; 5];
            connection.read_exact(&mut word).await.unwrap();
            connection.write_all(b"world").await.unwrap();
        }
    });
    let mut made = without_kubelet().await;
    let ports = json!({"ports": [{"port": 8443}]});
    let service: Service =
        made.create(json!({"metadata": {"name": "gateway"}, "spec": ports})).await;
    let ip = service.spec.unwrap().cluster_ip.unwrap();
    let options = KubeletOptions {
        services: vec![ServiceForward {
            namespace: made.namespace.clone(),
            service: "gateway".into(),
            port: 8443,
            target,
        }],
        ..made.options()
    };
    made.start(options).await;
    let world = made;
    let mut spec = json!({"terminationGracePeriodSeconds": 0});
    spec["containers"] = json!([{"name": "c", "command": ["sleep", "1000"]}]);
    world.pod("p", spec.clone()).await;
    world.pod("other", spec).await;
    world.ready("p").await;
    let other = world.ready("other").await;
    let other = other["status"]["podIP"].as_str().unwrap();
    let api = world.cluster.url().trim_start_matches("https://").replace(':', "/");
    let script = format!(
        "exec 3<>/dev/tcp/{ip}/8443; printf hello >&3; cat <&3; echo
        for at in {ip}/8444 127.0.0.1/{} {api} {other}/22 10.96.0.1/443 1.1.1.1/53; do
            if (: < /dev/tcp/$at) 2>/dev/null; then echo reached $at; fi
        done",
        target.port()
    );
    let argv = ["bash", "-c", &script];
    let output = world.kubelet().exec(&world.namespace, "p", "c", &argv).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "world\n");
    world.end().await;
}

#[tokio::test]
async fn deletion_gives_the_grace_that_was_asked_for() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let folder = claim(&world, "data").await;
    let spec = |script: &str, grace: u32| {
        json!({
            "terminationGracePeriodSeconds": grace,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [with(sh("c", script), json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
        })
    };
    let polite = "trap 'sleep 0.3; echo bye > /v/bye; exit 0' TERM; while :; do sleep 0.02; done";
    world.pod("polite", spec(polite, 20)).await;
    world.pod("deaf", spec("trap '' TERM; while :; do sleep 0.02; done", 1)).await;
    world.ready("polite").await;
    world.ready("deaf").await;
    let before = std::time::Instant::now();
    world.delete_pod("polite", None).await;
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(std::fs::read_to_string(folder.join("bye")).unwrap(), "bye\n");
    let before = std::time::Instant::now();
    world.delete_pod("deaf", None).await;
    assert!(
        before.elapsed() > Duration::from_millis(900) && before.elapsed() < Duration::from_secs(10)
    );
    world.end().await;
}

#[tokio::test]
async fn a_pod_that_is_active_for_too_long_is_ended_and_failed() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let script = "trap 'exit 3' TERM; while true; do sleep 0.1; done";
    let spec = json!({
        "restartPolicy": "Never", "activeDeadlineSeconds": 8, "terminationGracePeriodSeconds": 10,
        "containers": [sh("c", script)],
    });
    world.pod("p", spec).await;
    let ended = world.phase("p", "Failed").await;
    assert_eq!(ended["status"]["reason"], "DeadlineExceeded");
    assert_eq!(container(&ended, "c")["state"]["terminated"]["exitCode"], 3, "it had its grace");
    let soon = json!({"restartPolicy": "Never", "activeDeadlineSeconds": 60,
        "containers": [sh("c", "exit 0")]});
    world.pod("soon", soon).await;
    let done = world.phase("soon", "Succeeded").await;
    assert_eq!(done["status"]["reason"], Value::Null, "it was done in time");
    world.end().await;
}

/// Makes a claim and waits for its folder.
async fn claim(world: &World, name: &str) -> PathBuf {
    let _: PersistentVolumeClaim = world
        .create(json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}))
        .await;
    world
        .until("binding", || async {
            world.kubelet().volume_path(&world.namespace, name).await.ok()
        })
        .await
}

#[tokio::test]
async fn config_and_secrets_arrive_and_follow() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let _: ConfigMap = world
        .create(json!({"metadata": {"name": "m"}, "data": {"key": "one", "other": "x"}}))
        .await;
    let _: Secret =
        world.create(json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}})).await;
    let mounts = json!({
        "volumeMounts": [{"name": "m", "mountPath": "/m"}, {"name": "p", "mountPath": "/p"},
                         {"name": "m", "mountPath": "/one/file", "subPath": "key"}],
        "env": [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "key"}}},
                {"name": "BOTH", "value": "$(K)-$(MY_k)"}],
        "envFrom": [{"prefix": "MY_", "secretRef": {"name": "s"}}],
    });
    let sources = json!([
        {"configMap": {"name": "m", "items": [{"key": "key", "path": "sub/renamed"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    let spec = json!({
        "volumes": [{"name": "m", "configMap": {"name": "m"}},
                    {"name": "p", "projected": {"sources": sources}}],
        "containers": [with(sh("c", "sleep 1000"), mounts)],
        "terminationGracePeriodSeconds": 0,
    });
    world.pod("p", spec).await;
    world.ready("p").await;
    let script = "cat /m/key /p/sub/renamed /p/k /p/name /one/file; echo $BOTH; ls /m";
    let seen = world.sh("p", "c", script).await;
    assert_eq!(seen, "oneonehiddenponeone-hidden\nkey\nother\n");
    let patch = Patch::Merge(json!({"data": {"key": "two", "other": null}}));
    world.api::<ConfigMap>().patch("m", &PatchParams::default(), &patch).await.unwrap();
    world
        .until("propagation", || async {
            let seen = world.sh("p", "c", "cat /m/key /p/sub/renamed; ls /m").await;
            (seen == "twotwokey\n").then_some(())
        })
        .await;
    world.end().await;
}

#[tokio::test]
async fn a_claim_outlives_pods_and_takes_its_data_along() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let folder = claim(&world, "data").await;
    let pod = |script: &str| {
        let mounts = json!({"volumeMounts": [
            {"name": "v", "mountPath": "/work", "subPath": "work"},
            {"name": "v", "mountPath": "/state", "subPath": "agent", "readOnly": true},
        ]});
        json!({
            "restartPolicy": "Never",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [with(sh("c", script), mounts)],
        })
    };
    world.pod("p", pod("mkdir -p /work/a/b && chmod 500 /work/a && echo kept > /work/x")).await;
    world.phase("p", "Succeeded").await;
    world.delete_pod("p", None).await;
    // The same name again: nothing of the first pod may stick to it.
    world.pod("p", pod("cat /work/x; touch /state/x || echo read-only")).await;
    let second = world.phase("p", "Succeeded").await;
    assert_eq!(container(&second, "c")["restartCount"], 0);
    let log = world.logs("p", "c").await;
    assert!(log.starts_with("kept\n") && log.ends_with("read-only\n"), "{log}");
    assert_eq!(std::fs::read_to_string(folder.join("work/x")).unwrap(), "kept\n");
    let claims = world.api::<PersistentVolumeClaim>();
    claims.delete("data", &kube::api::DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(folder.exists(), "a pod still uses the claim");
    world.delete_pod("p", None).await;
    world.until("removal", || async { (!folder.exists()).then_some(()) }).await;
    assert!(claims.get_opt("data").await.unwrap().is_none());
    world.end().await;
}

#[tokio::test]
async fn what_is_missing_is_waited_for() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let image = with(sh("c", "exit 0"), json!({"image": "no-such-image"}));
    world.pod("image", json!({"containers": [image]})).await;
    let reason = |pod: &Value| container(pod, "c")["state"]["waiting"]["reason"].clone();
    world.pod_until("image", "back-off", |pod| reason(pod) == "ImagePullBackOff").await;
    let env = json!({"envFrom": [{"configMapRef": {"name": "late"}}]});
    let spec = json!({"restartPolicy": "Never", "containers": [with(sh("c", "echo $A"), env)]});
    world.pod("env", spec).await;
    let pod = world
        .pod_until("env", "config error", |pod| reason(pod) == "CreateContainerConfigError")
        .await;
    assert_eq!(container(&pod, "c")["state"]["waiting"]["message"], "configmap \"late\" not found");
    assert_eq!(pod["status"]["phase"], "Pending");
    let _: ConfigMap =
        world.create(json!({"metadata": {"name": "late"}, "data": {"A": "now"}})).await;
    world.phase("env", "Succeeded").await;
    assert_eq!(world.logs("env", "c").await, "now\n");
    world.delete_pod("image", None).await;
    world.end().await;
}

#[tokio::test]
async fn probes_decide_about_ready_and_alive() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let serve =
        "python3 -m http.server --bind 0.0.0.0 8000 --directory /tmp & touch /tmp/alive; wait";
    let every_second = |mut probe: Value| {
        probe["periodSeconds"] = 1.into();
        probe["failureThreshold"] = 2.into();
        probe
    };
    let probes = json!({
        "ports": [{"name": "web", "containerPort": 8000}],
        "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": every_second(json!({"httpGet": {"path": "/ready", "port": 8000}})),
        "livenessProbe": every_second(json!({"exec": {"command": ["test", "-e", "/tmp/alive"]}})),
    });
    let spec = json!({
        "terminationGracePeriodSeconds": 0, "containers": [with(sh("c", serve), probes)],
    });
    world.pod("p", spec).await;
    world.pod_until("p", "started", |pod| container(pod, "c")["started"] == true).await;
    assert_eq!(container(&world.phase("p", "Running").await, "c")["ready"], false);
    world.sh("p", "c", "touch /tmp/ready").await;
    world.ready("p").await;
    world.sh("p", "c", "rm /tmp/ready").await;
    world.pod_until("p", "unready", |pod| condition(pod, "Ready") == "False").await;
    world.sh("p", "c", "rm /tmp/alive").await;
    let pod = world.pod_until("p", "restart", |pod| container(pod, "c")["restartCount"] == 1).await;
    let last = &container(&pod, "c")["lastState"]["terminated"];
    assert_eq!(last["message"], "failed liveness probe");
    world.end().await;
}

#[tokio::test]
async fn tests_can_reach_in() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    world.kubelet().inject_env(Some(Arc::new(|pod: &Pod, container: &str| {
        let wanted = pod.name_any() == "p" && container == "c";
        wanted.then(|| ("FAULT".to_owned(), "yes".to_owned())).into_iter().collect()
    })));
    let script = "echo fault=$FAULT; sleep 1000";
    let spec = json!({"restartPolicy": "Never", "containers": [sh("c", script), sh("d", script)]});
    world.pod("p", spec).await;
    world.ready("p").await;
    for (container, line) in [("c", "fault=yes\n"), ("d", "fault=\n")] {
        world
            .until("output", || async { (world.logs("p", container).await == line).then_some(()) })
            .await;
    }
    world.kubelet().kill(&world.namespace, "p", "c", Signal::SIGKILL).unwrap();
    world.kubelet().kill(&world.namespace, "p", "d", Signal::SIGTERM).unwrap();
    let pod = world.phase("p", "Failed").await;
    assert_eq!(container(&pod, "c")["state"]["terminated"]["exitCode"], 137);
    assert_eq!(container(&pod, "d")["state"]["terminated"]["exitCode"], 143);
    world.end().await;
}

#[tokio::test]
async fn a_pod_without_a_node_gets_one() {
    if needs_process_kubelet("it is what is tested") {
        return;
    }
    let world = world(|_| {}).await;
    let spec = json!({"restartPolicy": "Never", "automountServiceAccountToken": false,
                      "containers": [{"name": "c", "image": "shell", "command": ["true"]}]});
    let _: Pod = world.create(json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let pod = world.phase("p", "Succeeded").await;
    assert_eq!(pod["spec"]["nodeName"], world.node);
    assert_eq!(condition(&pod, "PodScheduled"), "True");
    world.end().await;
}
