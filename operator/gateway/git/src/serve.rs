//! Clones and fetches, answered by `git upload-pack` from the copy.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use codebutler_crds::names;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::QueryParams;
use flate2::read::MultiGzDecoder;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::ResourceExt as _;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::command::{CommandError, RunningGit};
use super::host::RemoteRefs;
use super::push::{self, PushRefusal};
use super::reader::GitReader;
use super::service::{FETCH, PROTOCOL, PUSH};
use super::{
    ADVERTISEMENT, Answered, Bench, Fresh, GitError, RESULT, finish_answer, git_answer, open_bench,
    pktline, read_copy, text_answer,
};
use crate::services::GitServices;

/// Longest request of a fetch, in bytes, compressed or not.
const MAX_REQUEST: usize = 16 * 1024 * 1024;
/// Pieces of an answer that wait to be taken.
const PIECES: usize = 4;
/// Longest time in which a client neither sends nor takes anything.
const STALL: Duration = Duration::from_mins(2);
/// Time limit of a clone.
const LONGEST: Duration = Duration::from_mins(30);
/// Capabilities advertised for a push. Deletions are offered so that they can be refused in words.
const CAPABILITIES: &str =
    "report-status side-band-64k ofs-delta delete-refs object-format=sha1 agent=codebutler";

/// `?service=…` of `info/refs`.
#[derive(Debug, Deserialize)]
pub struct ServiceQuery {
    service: Option<String>,
}

/// `GET info/refs`: what the remote has.
pub async fn info_refs(
    State(gateway): State<Arc<GitServices>>,
    reader: GitReader,
    QueryParams(query): QueryParams<ServiceQuery>,
    headers: HeaderMap,
) -> Response {
    let service = match query.service.as_deref() {
        Some(FETCH) => FETCH,
        Some(PUSH) => PUSH,
        _ => {
            let message = "CodeButler speaks Git's smart HTTP protocol only: update Git";
            return text_answer(StatusCode::FORBIDDEN, message);
        }
    };
    if service == PUSH {
        let GitReader::Role(caller) = &reader else {
            let message = "no Thread has taken this pod: nothing can be pushed";
            return text_answer(StatusCode::FORBIDDEN, message);
        };
        if caller.role.spec.push.is_none() {
            gateway.metrics.git_request(reader.repo(), PUSH, "refused");
            let rights = super::receive::push_rights(caller, "", false);
            return text_answer(
                StatusCode::FORBIDDEN,
                &push::explain_refusals(&[("", PushRefusal::Role)], &rights),
            );
        }
    }
    let outcome = advertise_refs(&gateway, &reader, (service, &headers)).await;
    finish_answer(&gateway, reader.repo(), (service, ADVERTISEMENT), outcome)
}

/// `POST git-upload-pack`: a clone or fetch.
pub async fn upload_pack(
    State(gateway): State<Arc<GitServices>>,
    reader: GitReader,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = serve_fetch(&gateway, &reader, &headers, body).await;
    finish_answer(&gateway, reader.repo(), (FETCH, RESULT), outcome)
}

/// Protocol 2 names refs in a request of their own, so whatever is asked is about the remote of now.
async fn serve_fetch(
    gateway: &Arc<GitServices>,
    reader: &GitReader,
    headers: &HeaderMap,
    body: Body,
) -> Result<Answered, GitError> {
    let repo = reader.repo();
    let place = gateway.mirrors.readers.place(&reader.key(), &(&**repo).into()).await?;
    let request = Limited::new(body, MAX_REQUEST).collect();
    let request = tokio::time::timeout(STALL, request).await?.map_err(|_| GitError::Request)?;
    let request = plain_request(headers, request.to_bytes().to_vec()).ok_or(GitError::Request)?;
    let mirror = gateway.mirrors.of(repo);
    if !mirror.is_ready().await || lists_refs(&request) {
        refresh_copy(gateway, reader).await?;
    }
    check_wants(reader, &mirror, &request).await?;
    let mut running = run_upload(reader, &mirror, headers, &["--stateless-rpc"])?;
    if let Some(mut stdin) = running.stdin.take() {
        tokio::spawn(async move {
            // Git ends early when it refuses the request.
            let _ = stdin.write_all(&request).await;
        });
    }
    let (pieces, body) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let _place = place;
        let late =
            tokio::time::timeout(LONGEST, send_pieces(running, &mirror, &pieces)).await.is_err();
        if late {
            let _ = pieces.try_send(Err(io::ErrorKind::TimedOut.into()));
        }
    });
    let body = Body::from_stream(ReceiverStream::new(body));
    Ok(Answered { response: git_answer(FETCH, RESULT, body), outcome: "ok" })
}

/// Passes on what Git says, as long as somebody takes it; then Git is ended.
async fn send_pieces(
    mut running: RunningGit,
    mirror: &super::RepoMirror,
    pieces: &mpsc::Sender<io::Result<Vec<u8>>>,
) {
    loop {
        let mut chunk = vec![0; 64 * 1024];
        let piece = match running.stdout.read(&mut chunk).await {
            Ok(0) => break,
            Ok(read) => {
                chunk.truncate(read);
                Ok(chunk)
            }
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        // A client that takes nothing for this long keeps a process and a place from others: it is given up.
        let taken = pieces.send_timeout(piece, STALL).await.is_ok();
        if failed || !taken {
            return;
        }
    }
    if let Err(error) = running.rest().await {
        tracing::warn!(%error, "fetch_failed");
        if !is_the_callers(&error) {
            mirror.suspect();
        }
    }
}

/// Refuses objects that only other threads' branches lead to. Git hides those names, but gives out any
/// object of the repository to who knows its id.
async fn check_wants(
    reader: &GitReader,
    mirror: &super::RepoMirror,
    request: &[u8],
) -> Result<(), GitError> {
    let wants = wanted_ids(request);
    if wants.is_empty() {
        return Ok(());
    }
    let own = format!("refs/heads/{}", reader.branch());
    let refs = mirror.list_refs().await?;
    let threads = threads_of(&own);
    let visible = refs.iter().filter(|(name, _)| !is_anothers(name, &own, threads));
    let visible: BTreeSet<&str> = visible.map(|(_, id)| id.as_str()).collect();
    let other: Vec<_> = wants.into_iter().filter(|want| !visible.contains(want.as_str())).collect();
    if other.is_empty() {
        return Ok(());
    }
    let asked = other.iter().map(|want| format!("{want}\n"));
    let asked: String = asked.chain(visible.iter().map(|id| format!("^{id}\n"))).collect();
    let arguments = ["rev-list", "--objects", "--max-count=1", "--stdin"];
    match mirror.git().run(&arguments, asked.as_bytes()).await {
        Ok(left) if left.is_empty() => Ok(()),
        Ok(_) | Err(CommandError::Failed { .. }) => Err(GitError::NotOurs(other.join(", "))),
        Err(error) => Err(error.into()),
    }
}

/// Ids that a fetch request wants.
fn wanted_ids(mut request: &[u8]) -> Vec<String> {
    let mut wants = BTreeSet::new();
    while let Ok(Some((packet, used))) = pktline::read_packet(request) {
        if let pktline::PktLine::Data(line) = packet {
            let line = String::from_utf8_lossy(line);
            let id = line.strip_prefix("want ").and_then(|rest| rest.get(..40));
            wants.extend(id.map(str::to_ascii_lowercase));
        }
        request = &request[used..];
    }
    wants.into_iter().collect()
}

/// The folder that threads' branches are in.
fn threads_of(own: &str) -> &str {
    own.rsplit_once('/').map_or("", |(threads, _)| threads)
}

/// True if a ref is the branch of another thread.
fn is_anothers(name: &str, own: &str, threads: &str) -> bool {
    name != own && name.strip_prefix(threads).is_some_and(|rest| rest.starts_with('/'))
}

/// True if a request of protocol 2 lists refs.
fn lists_refs(request: &[u8]) -> bool {
    matches!(
        pktline::read_packet(request),
        Ok(Some((pktline::PktLine::Data(line), _))) if line.starts_with(b"command=ls-refs")
    )
}

/// True if a fetch failed because of the request, not because of the copy.
fn is_the_callers(error: &CommandError) -> bool {
    let CommandError::Failed { code, said, .. } = error else { return false };
    *code == -1
        || ["not our ref", "hung up", "protocol error", "expected", "git upload-pack: "]
            .iter()
            .any(|harmless| said.contains(harmless))
}

/// Takes a place like all that runs Git: what is asked for again and again waits, and nobody else does.
async fn advertise_refs(
    gateway: &Arc<GitServices>,
    reader: &GitReader,
    (service, headers): (&'static str, &HeaderMap),
) -> Result<Answered, GitError> {
    let repo = reader.repo();
    let _place = gateway.mirrors.readers.place(&reader.key(), &(&**repo).into()).await?;
    if let (PUSH, GitReader::Role(caller)) = (service, reader) {
        let bench = open_bench(gateway, caller, Fresh::Must).await?;
        return Ok(advertise_push(caller, &bench));
    }
    advertise_by_git(gateway, reader, headers).await
}

/// Brings the copy up to date, if the remote answers.
async fn refresh_copy(gateway: &Arc<GitServices>, reader: &GitReader) -> Result<(), GitError> {
    match reader {
        GitReader::Role(caller) => open_bench(gateway, caller, Fresh::IfPossible).await.map(drop),
        GitReader::Seat(seat) => read_copy(gateway, &seat.repo).await,
    }
}

async fn advertise_by_git(
    gateway: &Arc<GitServices>,
    reader: &GitReader,
    headers: &HeaderMap,
) -> Result<Answered, GitError> {
    let mirror = gateway.mirrors.of(reader.repo());
    // Protocol 2 asks for the refs themselves later.
    if protocol_version(headers) != Some("version=2") || !mirror.is_ready().await {
        refresh_copy(gateway, reader).await?;
    }
    let running =
        run_upload(reader, &mirror, headers, &["--stateless-rpc", "--http-backend-info-refs"])?;
    let refs = running.finish(b"").await.inspect_err(|_| mirror.suspect())?;
    let mut body = Vec::new();
    if protocol_version(headers) != Some("version=2") {
        pktline::write_packets(&mut body, format!("# service={FETCH}\n").as_bytes());
        pktline::write_flush(&mut body);
    }
    body.extend_from_slice(&refs);
    Ok(Answered { response: git_answer(FETCH, ADVERTISEMENT, body), outcome: "ok" })
}

/// `git upload-pack` that shows the repository's branches and tags, and of threads' only their own.
fn run_upload(
    reader: &GitReader,
    mirror: &super::RepoMirror,
    headers: &HeaderMap,
    how: &[&str],
) -> Result<RunningGit, GitError> {
    let own = reader.branch();
    let all = own.split_once('/').map_or("", |(all, _)| all);
    let hide = format!("uploadpack.hideRefs=refs/heads/{all}/");
    let show = format!("uploadpack.hideRefs=!refs/heads/{own}");
    let git = mirror.git();
    let dir = git.dir().to_string_lossy();
    let mut arguments = vec!["-c", &hide, "-c", &show];
    arguments.extend(["upload-pack", "--strict"].iter().chain(how));
    arguments.push(&dir);
    let mut command = git.command(&arguments);
    command.env_remove("GIT_DIR");
    if let Some(version) = protocol_version(headers) {
        command.env("GIT_PROTOCOL", version);
    }
    Ok(git.start_command(command, "upload-pack")?)
}

/// The protocol that the client asks for, if it is one there is.
fn protocol_version(headers: &HeaderMap) -> Option<&'static str> {
    let asked = headers.get(PROTOCOL)?.to_str().ok()?;
    let known = ["version=0", "version=1", "version=2"];
    known.into_iter().find(|version| asked.split(':').any(|word| word == *version))
}

/// A request as it was before Git compressed it.
fn plain_request(headers: &HeaderMap, request: Vec<u8>) -> Option<Vec<u8>> {
    match headers.get(CONTENT_ENCODING).map(http::HeaderValue::as_bytes) {
        None | Some(b"identity") => Some(request),
        Some(b"gzip" | b"x-gzip") => {
            let mut plain = Vec::new();
            let most = u64::try_from(MAX_REQUEST).ok()?;
            MultiGzDecoder::new(&*request).take(most).read_to_end(&mut plain).ok()?;
            (plain.len() < MAX_REQUEST).then_some(plain)
        }
        Some(_) => None,
    }
}

/// Advertises refs for a push: enough for the client to send only what the remote lacks.
fn advertise_push(caller: &ProvenCaller, bench: &Bench) -> Answered {
    let own = format!("refs/heads/{}", names::branch_name(&caller.thread.name_any()));
    let mut body = Vec::new();
    pktline::write_packets(&mut body, format!("# service={PUSH}\n").as_bytes());
    pktline::write_flush(&mut body);
    body.extend(write_advertisement(&bench.snapshot.refs, &own));
    Answered { response: git_answer(PUSH, ADVERTISEMENT, body), outcome: "ok" }
}

fn write_advertisement(refs: &RemoteRefs, own: &str) -> Vec<u8> {
    let (mut out, mut first) = (Vec::new(), true);
    let threads = threads_of(own);
    let mut line = |id: &str, name: &str| {
        let capabilities = if first { format!("\0{CAPABILITIES}") } else { String::new() };
        first = false;
        pktline::write_packets(&mut out, format!("{id} {name}{capabilities}\n").as_bytes());
    };
    for (name, id) in refs.iter().filter(|(name, _)| !is_anothers(name, own, threads)) {
        line(id, name);
    }
    if first {
        let zero = "0".repeat(40);
        pktline::write_packets(
            &mut out,
            format!("{zero} capabilities^{{}}\0{CAPABILITIES}\n").as_bytes(),
        );
    }
    pktline::write_flush(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_sees_the_repository_and_its_own_branch() {
        let id = "1".repeat(40);
        let names = ["refs/heads/codebutler/a", "refs/heads/codebutler/b", "refs/heads/main"];
        let refs = names.iter().map(|name| ((*name).to_owned(), id.clone())).collect();
        let body =
            String::from_utf8(write_advertisement(&refs, "refs/heads/codebutler/b")).unwrap();
        assert!(body.contains("codebutler/b\0report-status") && body.contains("refs/heads/main\n"));
        assert!(!body.contains("codebutler/a"), "{body}");
        let empty =
            String::from_utf8(write_advertisement(&RemoteRefs::new(), "refs/heads/x/y")).unwrap();
        assert!(empty.contains("capabilities^{}\0report-status"), "{empty}");
    }

    #[test]
    fn requests_are_unpacked_up_to_a_limit() {
        use flate2::{Compression, write::GzEncoder};
        use std::io::Write as _;
        let gzip = |size: usize| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&vec![0; size]).unwrap();
            encoder.finish().unwrap()
        };
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, "gzip".parse().unwrap())]);
        assert_eq!(plain_request(&headers, gzip(10)).unwrap().len(), 10);
        assert_eq!(plain_request(&headers, gzip(MAX_REQUEST + 1)), None);
        assert_eq!(plain_request(&headers, b"nonsense".to_vec()), None);
        assert_eq!(plain_request(&HeaderMap::new(), b"as it is".to_vec()).unwrap(), b"as it is");
    }

    #[test]
    fn only_protocols_that_exist_are_passed_on() {
        let asked = |text: &str| {
            protocol_version(&HeaderMap::from_iter([(PROTOCOL, text.parse().unwrap())]))
        };
        assert_eq!(asked("version=2"), Some("version=2"));
        assert_eq!(asked("key:version=1"), Some("version=1"));
        assert_eq!(asked("version=2 --upload-pack=x"), None);
        assert_eq!(protocol_version(&HeaderMap::new()), None);
    }
}
