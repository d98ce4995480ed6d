//! `POST /v1/splits`: a role proposes to build a request in several parts, and people are asked.

use std::collections::BTreeSet;

use axum::extract::State;
use codebutler_crds::thread::{RequestPart, RequestSplit};
use codebutler_crds::wire::{ErrorCode, ProposeSplit, ProposedPart, SplitAsked};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval::fresh_thread;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use kube::ResourceExt as _;

use crate::parts;
use crate::state::SharedGateway;

const MOST: usize = 10;
const MAX_TITLE: usize = 80;
const MAX_REQUEST: usize = 2000;

/// Asks people whether to split a request.
pub(super) async fn propose_split(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wish): JsonBody<ProposeSplit>,
) -> Result<axum::Json<SplitAsked>, ApiError> {
    needs_tool(&caller, &["SplitRequest"])?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    if wish.key.is_empty() || wish.key.len() > 64 || !wish.key.chars().all(allowed) {
        return Err(invalid_request(
            "the key has to be 1 to 64 characters of A-Z, a-z, 0-9 and _ . : -",
        ));
    }
    let thread = fresh_thread(&gateway.work.context, &caller).await?;
    if thread.spec.parent.is_some() {
        return Err(invalid_request("this conversation is a part already: plan it as one"));
    }
    let status = thread.status.clone().unwrap_or_default();
    if status.split.as_ref().is_some_and(|split| split.is_under_way()) {
        return Err(invalid_request(
            "the parts of this request are being built: nothing is left to propose",
        ));
    }
    if status.pull_request.is_some() {
        return Err(invalid_request(
            "this conversation has a pull request: what is left of the request belongs into new conversations",
        ));
    }
    let repos = repos_of(&gateway, &caller);
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let mask = |text: &str| redactor.mask(text.trim()).into_owned();
    let parts = check_parts(wish.parts, &caller.thread.spec.repo, &repos, mask)?;
    let split = RequestSplit {
        asked: "0.000000".parse().map_err(|_| invalid_request("no message"))?,
        role: caller.role_name().to_owned(),
        parts,
        declined: false,
        approved_by: None,
        halves: Vec::new(),
        ended: None,
    };
    let text = parts::parts_question(&split, &caller.thread.spec.repo);
    let key = format!("split-{}", wish.key);
    let ts = gateway.work.slack.ask_split(&caller.key(), &key, &text, &split).await?;
    Ok(axum::Json(SplitAsked { ts }))
}

/// The Repos in which a part can be built.
fn repos_of(gateway: &SharedGateway, caller: &ProvenCaller) -> BTreeSet<String> {
    let namespace = caller.key().namespace;
    let all = gateway.work.context.repos.state();
    let here = all.iter().filter(|repo| repo.namespace().as_ref() == Some(&namespace));
    let usable = here.filter(|repo| !repo.spec.suspend && repo.channel().is_some());
    usable.map(|repo| repo.name_any()).collect()
}

fn check_parts(
    wanted: Vec<ProposedPart>,
    own: &str,
    repos: &BTreeSet<String>,
    mask: impl Fn(&str) -> String,
) -> Result<Vec<RequestPart>, ApiError> {
    if !(2..=MOST).contains(&wanted.len()) {
        return Err(invalid_request(&format!(
            "`parts` has 2 to {MOST} of them: plan what is one as one"
        )));
    }
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(wanted) {
        let title = mask(&part.title).split_whitespace().collect::<Vec<_>>().join(" ");
        let request = mask(&part.request);
        if title.is_empty() || title.chars().count() > MAX_TITLE {
            let why = format!("part {number}: `title` has 1 to {MAX_TITLE} characters");
            return Err(invalid_request(&why));
        }
        if request.is_empty() || request.chars().count() > MAX_REQUEST {
            let why = format!("part {number}: `request` has 1 to {MAX_REQUEST} characters");
            return Err(invalid_request(&why));
        }
        let after: BTreeSet<u32> = part.after.into_iter().collect();
        if after.iter().any(|before| *before == 0 || *before >= number) {
            let why = format!("part {number}: `after` names earlier parts only, from 1");
            return Err(invalid_request(&why));
        }
        let repo = part.repo.filter(|repo| repo != own);
        if let Some(repo) = repo.as_ref().filter(|repo| !repos.contains(*repo)) {
            let known: Vec<String> = repos.iter().map(|name| format!("`{name}`")).collect();
            let why = format!(
                "part {number}: there is no Repo `{repo}` of this team; there is {}",
                known.join(", ")
            );
            return Err(invalid_request(&why));
        }
        let after = after.into_iter().collect();
        parts.push(RequestPart { title, request, repo, after, linked: false });
    }
    Ok(parts)
}

fn invalid_request(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(title: &str, repo: Option<&str>, after: &[u32]) -> ProposedPart {
        let (title, request) = (title.to_owned(), "Do it.".to_owned());
        ProposedPart { title, request, repo: repo.map(str::to_owned), after: after.to_vec() }
    }

    #[test]
    fn parts_are_in_order_and_in_repos_that_there_are() {
        let repos = BTreeSet::from(["shop".to_owned(), "web".to_owned()]);
        let check = |parts| check_parts(parts, "shop", &repos, str::to_owned);
        let fine = check(vec![part(" a  b ", Some("shop"), &[]), part("c", Some("web"), &[1, 1])]);
        let fine = fine.unwrap();
        assert_eq!((fine[0].title.as_str(), fine[0].repo.as_ref()), ("a b", None));
        assert_eq!((fine[1].repo.as_deref(), &fine[1].after[..]), (Some("web"), &[1][..]));
        let long = "x".repeat(81);
        for (parts, why) in [
            (vec![part("a", None, &[])], "2 to 10"),
            (vec![part("a", None, &[2]), part("b", None, &[])], "part 1: `after`"),
            (vec![part("a", None, &[]), part("b", None, &[0])], "part 2: `after`"),
            (vec![part("a", None, &[]), part("b", Some("api"), &[])], "there is `shop`, `web`"),
            (vec![part("a", None, &[]), part("", None, &[])], "part 2: `title`"),
            (vec![part(&long, None, &[]), part("b", None, &[])], "part 1: `title`"),
        ] {
            let said = check(parts).unwrap_err().message;
            assert!(said.contains(why), "{said}");
        }
    }
}
