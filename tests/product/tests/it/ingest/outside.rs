//! Events from outside Slack: Threads made, and deleted, with the Kubernetes API.

use codebutler_crds::wire::{AskedDecision, MessageAuthor};
use codebutler_crds::{Thread, names};
use codebutler_testbed::slack::{CallFault, MessageView};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::desk::{Desk, PATIENCE};
use super::{ask, inbox};

const ROOT: Option<&str> = None;

impl Desk {
    pub(super) fn api(&self) -> Api<Thread> {
        Api::namespaced(self.cluster.client(), &self.place.team)
    }

    async fn create(&self, name: &str, spec: Value) {
        let thread = json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": name}, "spec": spec});
        let thread = serde_json::from_value(thread).unwrap();
        self.api().create(&PostParams::default(), &thread).await.unwrap();
    }

    /// The `ts` of the conversation that was opened for a Thread.
    async fn opened(&self, name: &str) -> String {
        self.until("the conversation", || async {
            self.api().get(name).await.unwrap().conversation().is_some()
        })
        .await;
        let thread = self.api().get(name).await.unwrap();
        thread.conversation().unwrap().ts.as_str().to_owned()
    }

    /// Waits for the reason why a Thread has no conversation yet.
    async fn waits_for(&self, name: &str) -> String {
        let find = |thread: Thread| {
            let conditions = thread.status.unwrap_or_default().conditions;
            conditions.into_iter().find(|c| c.type_ == "Opened" && c.status == "False")
        };
        self.until("a reason", || async { find(self.api().get(name).await.unwrap()).is_some() })
            .await;
        find(self.api().get(name).await.unwrap()).unwrap().reason
    }

    pub(super) async fn patch_repo(&self, patch: Value) {
        let api: Api<codebutler_crds::Repo> =
            Api::namespaced(self.cluster.client(), &self.place.team);
        api.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
        self.until("it to be gone", || async { self.api().get_opt(name).await.unwrap().is_none() })
            .await;
    }

    /// Messages at top level of the channel.
    fn roots(&self) -> Vec<MessageView> {
        self.slack.messages(&self.channel, ROOT)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_opens_a_conversation_like_any_other() {
    let desk = Desk::start().await;
    let prompt = format!("Fix **rounding**\n\n{}", "many words ".repeat(600));
    let spec = json!({"repo": "shop", "prompt": prompt, "requestedBy": desk.ana, "item": "3"});
    desk.create("fix-it", spec).await;
    let root = desk.opened("fix-it").await;
    let messages = desk.slack.messages(&desk.channel, Some(&root));
    assert_eq!((desk.roots().len(), messages.len()), (1, 2));
    let ana = &desk.ana;
    let head = format!(
        "From the cluster, in the name of <@{ana}> (Thread `fix-it`, item `3`):\n\nFix *rounding*"
    );
    assert!(messages[0].text.starts_with(&head), "{}", messages[0].text);
    desk.eyes(&root).await;

    let thread = desk.api().get("fix-it").await.unwrap();
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), root);
    assert_eq!(thread.metadata.finalizers, Some(vec![names::FINALIZER.to_owned()]));
    let pm = desk.caller_of("fix-it", "pm").await;
    let mail = desk.service().inbox(&pm, None, PATIENCE).await.unwrap().messages;
    // Once, as it was written, however many messages show it.
    assert_eq!(mail.len(), 1);
    let by = MessageAuthor::Prompt { thread: "fix-it".to_owned(), requested_by: Some(ana.clone()) };
    assert_eq!((&mail[0].author, &mail[0].text, mail[0].addressed), (&by, &prompt, true));

    // A reply, also one that comes to a gateway that knows nothing yet, belongs to this Thread.
    let mut desk = desk;
    let reply = desk.says(Some(&root), "and @codebutler.coder, hurry");
    desk.slack.wait_acked(&reply, PATIENCE).await.unwrap();
    desk.gateway.take().unwrap().stop().await;
    let missed = desk.says(Some(&root), "are you there?");
    desk.restart();
    desk.slack.wait_acked(&missed, PATIENCE).await.unwrap();
    let thread = desk.api().get("fix-it").await.unwrap();
    assert_eq!(inbox(&thread, "coder").unwrap().as_str(), reply);
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), missed);
    assert_eq!(desk.threads().await.len(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_may_be_for_a_role() {
    let desk = Desk::start().await;
    desk.create("t", json!({"repo": "shop", "prompt": "@codebutler.coder look"})).await;
    let root = desk.opened("t").await;
    let thread = desk.api().get("t").await.unwrap();
    assert_eq!((inbox(&thread, "coder").unwrap().as_str(), inbox(&thread, "pm")), (&*root, None));
    assert!(desk.roots()[0].text.starts_with("From kubectl (Thread `t`)"));
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_its_repo() {
    let desk = Desk::start().await;
    desk.patch_repo(json!({"spec": {"suspend": true}})).await;
    desk.create("t", json!({"repo": "shop", "prompt": "please"})).await;
    assert_eq!(desk.waits_for("t").await, "RepoSuspended");
    desk.create("other", json!({"repo": "nowhere", "prompt": "please"})).await;
    assert_eq!(desk.waits_for("other").await, "RepoNotFound");
    assert_eq!(desk.roots().len(), 0);
    desk.patch_repo(json!({"spec": {"suspend": false}})).await;
    desk.opened("t").await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_the_post_goes_there_is_one_conversation() {
    let mut desk = Desk::start().await;
    // It is posted, and nobody hears so.
    desk.slack.fail_next("chat.postMessage", 1, &CallFault::LostReply);
    desk.create("lost", json!({"repo": "shop", "prompt": "please"})).await;
    desk.opened("lost").await;
    assert_eq!(desk.roots().len(), 1);

    // It is posted, and then the process dies: the next one finds an old claim.
    desk.gateway.take().unwrap().stop().await;
    desk.create("died", json!({"repo": "shop", "prompt": "please"})).await;
    let claim = json!({"status": {"claim": {"by": "x", "since": "2026-01-01T00:00:00Z"}}});
    let patch = Patch::Merge(claim);
    let died = desk.api().patch_status("died", &PatchParams::default(), &patch).await.unwrap();
    let metadata = json!({"event_type": "codebutler", "event_payload": {"role": "",
        "key": "open", "kind": "opening", "thread": "died", "uid": died.metadata.uid, "of": "1"}});
    let posted = desk
        .post_as_app(
            &json!({"channel": desk.channel, "text": "From kubectl", "metadata": metadata}),
        )
        .await;
    desk.restart();
    assert_eq!(desk.opened("died").await, posted);
    assert_eq!(desk.roots().len(), 2);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_thread_says_goodbye_and_can_begin_anew() {
    let desk = Desk::start().await;
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let plan =
        desk.service().post(&pm, &ask("p", "A plan", AskedDecision::Plan), None).await.unwrap();
    let name = pm.key().name;
    let branch = json!({"status": {"branch": format!("codebutler/{name}")}});
    let params = PatchParams::default();
    desk.api().patch_status(&name, &params, &Patch::Merge(branch)).await.unwrap();
    desk.delete(&name).await;

    let messages = desk.slack.messages(&desk.channel, Some(&root));
    let last = messages.last().unwrap();
    let remains = format!("remains: branch `codebutler/{name}`");
    assert!(last.text.contains("was deleted in the cluster"), "{}", last.text);
    assert!(last.text.contains(&remains), "{}", last.text);
    let plan = desk.slack.message(&desk.channel, plan.ts.as_str()).unwrap();
    assert!(plan.buttons.is_empty() && plan.shown.contains("was deleted"), "{}", plan.shown);
    let late = desk.service().post(&pm, &ask("late", "late", AskedDecision::Plan), None).await;
    assert!(late.is_err());

    // Earlier messages do not begin it anew, however often they are delivered or read.
    let deliveries = desk.slack.redeliver(&root, 1);
    assert_eq!(deliveries, 1);
    desk.slack.drop_connections();
    let other = desk.says(None, "something else");
    desk.slack.wait_acked(&other, PATIENCE).await.unwrap();
    assert!(desk.thread(&root).await.is_none());

    // A later message does.
    let again = desk.says(Some(&root), "go on, please");
    desk.slack.wait_acked(&again, PATIENCE).await.unwrap();
    let thread = desk.thread(&root).await.unwrap();
    assert_eq!(inbox(&thread, "pm").unwrap().as_str(), again);
    assert_eq!(thread.status.unwrap().plan, None);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_while_no_gateway_runs_is_told_by_the_next() {
    let mut desk = Desk::start().await;
    desk.create("t", json!({"repo": "shop", "prompt": "please"})).await;
    let root = desk.opened("t").await;
    desk.gateway.take().unwrap().stop().await;
    desk.api().delete("t", &DeleteParams::default()).await.unwrap();
    assert!(desk.api().get("t").await.unwrap().is_going());
    desk.restart();
    desk.until("it to be gone", || async { desk.api().get_opt("t").await.unwrap().is_none() })
        .await;
    let told = |m: &&MessageView| m.text.contains("was deleted in the cluster");
    assert_eq!(desk.slack.messages(&desk.channel, Some(&root)).iter().filter(told).count(), 1);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_thread_does_not_wait_for_a_slack_that_says_no() {
    let desk = Desk::start().await;
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let name = desk.caller(&root, "pm").await.key().name;
    desk.slack.archive(&desk.channel).unwrap();
    desk.delete(&name).await;
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_plan_loses_its_buttons_even_across_a_crash() {
    let mut desk = Desk::start().await;
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let plan = |n: u32| ask(&format!("p{n}"), &format!("Plan {n}"), AskedDecision::Plan);
    let first = desk.service().post(&pm, &plan(1), None).await.unwrap();
    let second = desk.service().post(&pm, &plan(2), None).await.unwrap();
    let shown = |ts: &str| desk.slack.message(&desk.channel, ts).unwrap();
    desk.until("no buttons", || async { shown(first.ts.as_str()).buttons.is_empty() }).await;
    assert!(shown(first.ts.as_str()).shown.contains("Replaced"));
    assert_eq!(shown(second.ts.as_str()).buttons.len(), 3);

    // The edit fails, and so does the process before it tries again.
    desk.slack.fail_next("chat.update", 1, &CallFault::Http(503));
    let third = desk.service().post(&pm, &plan(3), None).await.unwrap();
    desk.gateway.take().unwrap().stop().await;
    desk.restart();
    let shown = |ts: &str| desk.slack.message(&desk.channel, ts).unwrap();
    desk.until("no buttons", || async { shown(second.ts.as_str()).buttons.is_empty() }).await;
    assert_eq!(shown(third.ts.as_str()).buttons.len(), 3);
    desk.until("nothing left to do", || async {
        desk.thread(&root).await.unwrap().status.unwrap().settled.is_empty()
    })
    .await;
    desk.stop().await;
}
