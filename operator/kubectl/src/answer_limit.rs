//! A limit for answers of the API server: a command that waits without end looks like one that works.

use std::time::Duration;

use futures::stream;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// Time for an answer to begin, and between two parts of it. It is longer than the minute after which the API server
/// itself gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Time after which the API server ends a watch by itself.
const WATCH: Duration = Duration::from_mins(5);

/// The API server has accepted a request, or a connection, and said nothing, or nothing more.
#[derive(Debug, thiserror::Error)]
#[error("it has not answered within {} seconds", .0.as_secs())]
pub(crate) struct LateAnswer(pub(crate) Duration);

/// Limits of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AnswerLimits {
    begin: Duration,
    /// Time between two parts.
    pause: Duration,
}

impl AnswerLimits {
    fn of(uri: &Uri, usual: Duration) -> Self {
        let mut asked = uri.query().unwrap_or_default().split('&');
        match asked.find(|field| matches!(*field, "watch=true" | "follow=true")) {
            None => Self { begin: usual, pause: usual },
            Some("watch=true") => Self { begin: usual, pause: usual + WATCH },
            // A node answers with the first line: a quiet container has none.
            Some(_) => Self { begin: Duration::MAX, pause: Duration::MAX },
        }
    }
}

/// The same client, whose requests fail when no answer comes in time.
pub(crate) fn limit_answers(client: Client, limit: Duration) -> Client {
    let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
    let service = service_fn(move |request: Request<Body>| {
        let (client, limits) = (client.clone(), AnswerLimits::of(request.uri(), limit));
        async move {
            let sent = timeout(limits.begin, client.send(request)).await;
            let answer = sent.map_err(|_| BoxError::from(LateAnswer(limits.begin)))??;
            let (head, body) = answer.into_parts();
            let parts = stream::try_unfold(body, move |mut body| async move {
                let next = timeout(limits.pause, body.frame()).await;
                let next = next.map_err(|_| BoxError::from(LateAnswer(limits.pause)))?;
                let next = next.transpose().map_err(found_cause)?;
                Ok::<_, BoxError>(next.map(|part| (part, body)))
            });
            Ok::<_, BoxError>(Response::from_parts(head, StreamBody::new(parts)))
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

/// The cause of an error that kube wraps in one of its own, as it will do again.
fn found_cause(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(cause) => cause,
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Config;
    use kube::api::{Api, ListParams, LogParams, WatchParams};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const SOON: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(500);
    /// Longer than one pause even on a slow machine, and shorter than five of them together.
    const LONG: Duration = Duration::from_secs(2);

    /// A client, with this limit, of a server that sends these parts of an answer with a pause before each, and then
    /// nothing.
    async fn serving(parts: &'static [&'static str], limit: Duration) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await.unwrap();
                for part in parts {
                    tokio::time::sleep(PAUSE).await;
                    // Whoever asked may have given up.
                    let _ = stream.write_all(part.as_bytes()).await;
                }
                open.push(stream);
            }
        });
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        limit_answers(client, limit)
    }

    fn is_late(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(cause) if cause.is::<LateAnswer>())
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_or_does_not_end_is_an_error() {
        const NOTHING: &[&str] = &[];
        const BEGUN: &[&str] =
            &["HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"];
        for parts in [NOTHING, BEGUN] {
            let pods = Api::<Pod>::default_namespaced(serving(parts, SOON).await);
            let error = pods.list(&ListParams::default()).await.unwrap_err();
            assert!(is_late(&error), "{parts:?}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_slow_answer_is_waited_for_as_long_as_something_comes() {
        const PARTS: &[&str] = &[
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 61\r\n\r\n",
            "{\"kind\":\"PodList\",",
            "\"apiVersion\":\"v1\",",
            "\"metadata\":{},",
            "\"items\":[]}",
        ];
        let pods = Api::<Pod>::default_namespaced(serving(PARTS, LONG).await);
        assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0);
    }

    #[tokio::test]
    async fn a_watch_that_does_not_begin_fails_and_the_log_of_a_quiet_container_does_not() {
        let pods = Api::<Pod>::default_namespaced(serving(&[], SOON).await);
        let error = pods.watch(&WatchParams::default(), "0").await.err().unwrap();
        assert!(is_late(&error), "{error:?}");
        let error = pods.log_stream("pod", &LogParams::default()).await.err().unwrap();
        assert!(is_late(&error), "{error:?}");
        let follow = LogParams { follow: true, ..LogParams::default() };
        let waited = timeout(SOON * 2, pods.log_stream("pod", &follow)).await;
        assert!(waited.is_err(), "it has ended");
    }

    #[test]
    fn what_lasts_by_its_nature_is_known() {
        let of = |uri: &str| {
            let limits = AnswerLimits::of(&uri.parse().unwrap(), SOON);
            (limits.begin, limits.pause)
        };
        let watch = "/api/v1/namespaces/team/pods?&watch=true&timeoutSeconds=290";
        assert_eq!(of(watch), (SOON, SOON + WATCH));
        let log = "/api/v1/namespaces/team/pods/p/log?&container=agent";
        assert_eq!(of(&format!("{log}&follow=true")), (Duration::MAX, Duration::MAX));
        for usual in [log, "/apis/codebutler.dev/v1alpha1/threads?labelSelector=watch%3Dtrue"] {
            assert_eq!(of(usual), (SOON, SOON), "{usual}");
        }
    }
}
