//! A line in the thread of a role that needs a server which can't be used, once for each reason: people who wait
//! there read why a role goes on without its tools, and what to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_gateway_core::notices::ThreadNotices;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::{RecentKeys, RecentMap};
use codebutler_runtime::tasks::TaskGroup;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::link::LinkError;
use super::masking::WordGuard;
use super::session_key::ServerPlace;

/// Lines that are remembered; Slack knows those that are not.
const REMEMBERED: usize = 1024;
/// Lines on one server in a thread, and the time after which there may be as many again: words of a server, such as the
/// number of a request, can make each reason another one.
const LINES: u32 = 3;
const SPAN: Duration = Duration::from_hours(1);

/// Posts what is wrong with servers.
pub struct ProblemNotices {
    notices: Arc<dyn ThreadNotices>,
    posted: RecentKeys<(ThreadKey, String)>,
    /// Lines by thread and server, and since when they are counted.
    counts: Mutex<RecentMap<(ThreadKey, String), (Instant, u32)>>,
    tasks: TaskGroup,
}

impl ProblemNotices {
    pub fn new(notices: Arc<dyn ThreadNotices>, tasks: TaskGroup) -> Self {
        let counts = Mutex::new(RecentMap::new(REMEMBERED));
        Self { notices, posted: RecentKeys::of(REMEMBERED), counts, tasks }
    }

    /// Posts in the background why a server can't be used, unless the thread has that line already.
    pub fn post(&self, place: &ServerPlace, error: &LinkError, guard: &WordGuard) {
        // A person who is to sign in is asked elsewhere, and too many sessions or pods are no fault of the server.
        if error.is_passing() || error.is_sign_in() {
            return;
        }
        let Some(thread) = place.thread.clone() else { return };
        let text = describe_trouble(&place.repo, &place.spec.name, &guard.error(error));
        let hash = hex::encode(&Sha256::digest(&text)[..4]);
        let key = format!("mcp-server-{}-{hash}", place.spec.name);
        if !self.posted.first_time((thread.clone(), key.clone()))
            || !self.may_post(&thread, &place.spec.name)
        {
            return;
        }
        let notices = Arc::clone(&self.notices);
        drop(self.tasks.spawn(async move {
            if let Err(error) = notices.post_notice(&thread, &key, &text).await {
                tracing::warn!(%thread, %error, notice = "server_trouble", "notice_post_failed");
            }
        }));
    }

    /// Counts a line; false where a thread has had enough of a server's.
    fn may_post(&self, thread: &ThreadKey, server: &str) -> bool {
        let mut counts = self.counts.lock();
        let key = (thread.clone(), server.to_owned());
        let known = counts.get(&key).copied();
        let (since, count) =
            known.filter(|(since, _)| since.elapsed() < SPAN).unwrap_or((Instant::now(), 0));
        if count < LINES {
            counts.insert(key, (since, count + 1));
        }
        count < LINES
    }
}

fn describe_trouble(repo: &Repo, server: &str, why: &str) -> String {
    format!(
        "The server `{server}` can't be used: {why}. Roles go on without its tools until that is corrected \
         (`spec.mcpServers` of the Repo `{}`).",
        repo.name_any()
    )
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use codebutler_crds::mcp::McpServerSpec;
    use serde_json::json;

    use super::*;
    use crate::testing;
    use codebutler_gateway_core::api_error::ApiError;
    use codebutler_gateway_core::redact::SecretRedactor;

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    #[async_trait]
    impl ThreadNotices for Kept {
        async fn post_notice(&self, _: &ThreadKey, _: &str, text: &str) -> Result<(), ApiError> {
            self.0.lock().push(text.to_owned());
            Ok(())
        }

        async fn post_to(
            &self,
            thread: &ThreadKey,
            key: &str,
            text: &str,
            _: &[String],
        ) -> Result<(), ApiError> {
            self.post_notice(thread, key, text).await
        }

        async fn post_in_runs(
            &self,
            thread: &ThreadKey,
            key: &str,
            text: &str,
        ) -> Result<(), ApiError> {
            self.post_notice(thread, key, text).await
        }
    }

    #[tokio::test]
    async fn a_thread_reads_each_reason_once() {
        let repo = Arc::new(testing::repo(&json!({})));
        let spec = json!({"name": "db", "image": "acme/db", "command": ["db"]});
        let spec: McpServerSpec = serde_json::from_value(spec).unwrap();
        let of = |thread: &str| {
            let thread = ThreadKey { namespace: "team".into(), name: thread.into() };
            ServerPlace::new(&repo, &spec, Some(thread))
        };
        let (kept, tasks) = (Arc::new(Kept::default()), TaskGroup::default());
        let notices = ProblemNotices::new(kept.clone(), tasks.clone());
        let guard = WordGuard::new(Arc::new(SecretRedactor::new(&[]).0), &[]);
        let pod = |why: &str| LinkError::Pod(why.to_owned());
        for _ in 0..3 {
            notices.post(&of("shop-1"), &pod("image `acme/db` can't be pulled"), &guard);
        }
        notices.post(&of("shop-1"), &pod("there is no program `db`"), &guard);
        notices.post(&of("shop-2"), &pod("there is no program `db`"), &guard);
        let sign_in = LinkError::SignIn { challenge: String::new(), at: 0 };
        notices.post(&of("shop-2"), &sign_in, &guard);
        notices.post(&of("shop-2"), &LinkError::NoRoom("8 servers have pods".into()), &guard);
        notices.post(&of("shop-2"), &LinkError::Passing("the Thread is closed".into()), &guard);
        notices.post(&ServerPlace::new(&repo, &spec, None), &pod("it is away"), &guard);
        assert!(tasks.rest(Duration::from_secs(10)).await);
        let mut posted = kept.0.lock().clone();
        posted.sort();
        assert_eq!(posted.len(), 3, "{posted:?}");
        assert_eq!(
            posted[0],
            "The server `db` can't be used: image `acme/db` can't be pulled. Roles go on without its tools until that is \
             corrected (`spec.mcpServers` of the Repo `shop`)."
        );
    }

    #[tokio::test]
    async fn a_server_whose_every_refusal_reads_otherwise_does_not_fill_the_thread() {
        let repo = Arc::new(testing::repo(&json!({})));
        let of = |thread: &str, name: &str| {
            let spec = json!({"name": name, "url": "https://tools.example/mcp"});
            let spec: McpServerSpec = serde_json::from_value(spec).unwrap();
            let thread = ThreadKey { namespace: "team".into(), name: thread.into() };
            ServerPlace::new(&repo, &spec, Some(thread))
        };
        let (kept, tasks) = (Arc::new(Kept::default()), TaskGroup::default());
        let problems = ProblemNotices::new(kept.clone(), tasks.clone());
        let guard = WordGuard::new(Arc::new(SecretRedactor::new(&[]).0), &[]);
        for number in 0..20 {
            let why = LinkError::Pod(format!("request {number} failed"));
            problems.post(&of("shop-1", "db"), &why, &guard);
        }
        let why = LinkError::Pod("request 7 failed".to_owned());
        problems.post(&of("shop-1", "docs"), &why, &guard);
        problems.post(&of("shop-2", "db"), &why, &guard);
        assert!(tasks.rest(Duration::from_secs(10)).await);
        assert_eq!(kept.0.lock().len(), 5, "three, and one each of others");
    }
}
