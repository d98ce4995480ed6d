//! A limit for answers of the API server: a command that waits without end looks like one that works.

use std::time::Duration;

use http::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// Time for an answer, longer than the API server itself takes for one: it gives up after a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The API server has accepted a request, or a connection, and said nothing, or not all.
#[derive(Debug, thiserror::Error)]
#[error("it has not answered within {} seconds", .0.as_secs())]
pub(crate) struct LateAnswer(pub(crate) Duration);

/// The same client, whose requests fail when no answer comes in time.
pub(crate) fn limit_answers(client: Client, limit: Duration) -> Client {
    let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
    let service = service_fn(move |request| send_in_time(client.clone(), request, limit));
    Client::new(service, namespace).with_valid_until(valid_until)
}

async fn send_in_time(
    client: Client,
    request: Request<Body>,
    limit: Duration,
) -> Result<Response<Body>, kube::Error> {
    match tokio::time::timeout(limit, read_answer(client, request)).await {
        Ok(answered) => answered,
        Err(_) => Err(kube::Error::Service(Box::new(LateAnswer(limit)))),
    }
}

/// The whole answer, or the beginning of one that goes on.
async fn read_answer(
    client: Client,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    let is_endless = goes_on(request.uri());
    let answer = client.send(request).await?;
    if is_endless {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, Body::from(body.collect_bytes().await?)))
}

/// True for what lasts as long as its user wants: only its beginning can be late.
fn goes_on(uri: &Uri) -> bool {
    let mut asked = uri.query().unwrap_or_default().split('&');
    asked.any(|field| matches!(field, "watch=true" | "follow=true"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Config;
    use kube::api::{Api, ListParams, LogParams, WatchParams};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    const SOON: Duration = Duration::from_millis(300);

    /// A client of a server that sends this much of an answer, and then nothing.
    async fn hanging(answer: &'static str) -> (Client, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                open.push(stream);
            }
        });
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        (limit_answers(client, SOON), serving)
    }

    fn is_late(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(cause) if cause.is::<LateAnswer>())
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_or_does_not_end_is_an_error() {
        const PART: &str =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
        for answer in ["", PART] {
            let (client, serving) = hanging(answer).await;
            let pods = Api::<Pod>::default_namespaced(client);
            let error = pods.list(&ListParams::default()).await.unwrap_err();
            assert!(is_late(&error), "{answer}: {error:?}");
            serving.abort();
        }
    }

    #[tokio::test]
    async fn a_watch_or_a_log_that_does_not_begin_fails() {
        let (client, serving) = hanging("").await;
        let pods = Api::<Pod>::default_namespaced(client);
        let error = pods.watch(&WatchParams::default(), "0").await.err().unwrap();
        assert!(is_late(&error), "{error:?}");
        let follow = LogParams { follow: true, ..LogParams::default() };
        let error = pods.log_stream("pod", &follow).await.err().unwrap();
        assert!(is_late(&error), "{error:?}");
        serving.abort();
    }

    #[test]
    fn what_lasts_by_its_nature_is_known() {
        let on = |uri: &str| goes_on(&uri.parse().unwrap());
        assert!(on("/api/v1/namespaces/team/pods?&watch=true&timeoutSeconds=290"));
        assert!(on("/api/v1/namespaces/team/pods/p/log?&container=agent&follow=true"));
        assert!(!on("/api/v1/namespaces/team/pods/p/log?&container=agent"));
        assert!(!on("/apis/codebutler.dev/v1alpha1/threads?labelSelector=watch%3Dtrue"));
    }
}
