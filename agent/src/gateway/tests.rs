//! A gateway that accepts a connection and never answers.

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Starts a gateway that reads requests and answers none, and returns its client.
async fn silent_gateway(dir: &Path, silence: Duration) -> GatewayClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["gateway".to_owned()]).unwrap();
    let (ca, token) = (dir.join("ca.crt"), dir.join("token"));
    std::fs::write(&ca, made.cert.pem()).unwrap();
    std::fs::write(&token, "t").unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
    });
    let files = (ca.as_path(), token.as_path());
    GatewayClient::with_silence("https://gateway:1", Some(address), files, silence).unwrap()
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_and_may_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = silent_gateway(dir.path(), SILENCE).await;
    // No call is made but from this request: without a limit of its own it has this one.
    for path in [path::SESSION, path::ISSUES, path::PULLS, path::PULL_REQUEST] {
        let request = gateway.request(Method::GET, path).unwrap().build().unwrap();
        assert_eq!(request.timeout(), Some(&CALL_TIMEOUT), "{path}");
    }
    let short = Duration::from_millis(50);
    let request = gateway.request(Method::GET, path::SESSION).map(|call| call.timeout(short));
    let error = send_once(request).await.err().unwrap();
    assert!(lasting::is_over(&error) && error.may_pass(), "{error}");
}

#[tokio::test]
async fn git_does_not_wait_for_ever_for_a_gateway_that_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = silent_gateway(dir.path(), Duration::from_millis(50)).await;
    let request = gateway.raw(Method::GET, path::GIT, None).unwrap();
    let error = request.send().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}
