use codebutler_crds::policy::PolicySpec;

use super::*;
use crate::commit_text::NamedCommit;

fn token() -> String {
    ["ghp", &"a1B2".repeat(9)].join("_")
}

fn judged(incoming: &IncomingPush, rewrite: bool) -> Vec<String> {
    let rules = rules(rewrite);
    judge_rules(incoming, &rules).iter().map(ToString::to_string).collect()
}

fn rules(rewrite: bool) -> PushRules {
    let guard = PathGuard::new(&PolicySpec::default(), None, &[]).unwrap();
    let redactor = Arc::new(SecretRedactor::default());
    PushRules { branch: "codebutler/t".to_owned(), rewrite, max_file_mib: 1, guard, redactor }
}

fn change(path: &str, blob: Option<&str>) -> FileChange {
    FileChange { path: path.to_owned(), blob: blob.map(str::to_owned), before: Vec::new() }
}

fn commit(changes: Vec<FileChange>) -> IncomingPush {
    let id = "1234567890abcdef".to_owned();
    let text = "tree x\nauthor A <a@example.com> 1 +0000\n\nAdd a test\n".to_owned();
    let commits = vec![NewCommit { id, text, changes: changes.into(), ..NewCommit::default() }];
    IncomingPush { fast_forward: true, commits, ..IncomingPush::default() }
}

#[test]
fn an_ordinary_commit_is_fine() {
    let mut incoming = commit(vec![change("src/a.rs", Some("1")), change("old.rs", None)]);
    incoming.blobs.insert("1".to_owned(), 1 << 20);
    assert_eq!(judged(&incoming, false), [""; 0]);
    incoming.fast_forward = false;
    assert_eq!(judged(&incoming, false), ["non-fast-forward"]);
    assert_eq!(judged(&incoming, true), [""; 0]);
}

#[test]
fn protected_files_may_neither_change_nor_go_but_may_be_as_accepted() {
    for blob in [Some("1"), None] {
        let mut incoming = commit(vec![change(".github/workflows/ci.yml", blob)]);
        assert_eq!(judged(&incoming, false), ["protected file .github/workflows/ci.yml"]);
        incoming.commits[0].accepted.insert(".github/workflows/ci.yml".to_owned());
        assert_eq!(judged(&incoming, false), [""; 0]);
    }
}

#[test]
fn what_people_removed_is_named_with_what_to_do() {
    let mut incoming = commit(vec![]);
    let removed = NamedCommit {
        id: "fedcba0987654321".to_owned(),
        subject: "Add a key".to_owned(),
        author: "Ana".to_owned(),
    };
    let noticed = "2026-11-25 10:00 UTC".to_owned();
    incoming.back.push(BroughtBack { id: removed.id.clone(), removed: removed.clone(), noticed });
    assert_eq!(judged(&incoming, false), ["fedcba0987 was removed from the branch"]);
    incoming.back[0].id = "1234567890abcdef".to_owned();
    let rules = rules(true);
    let wrong: Vec<PushViolation> = judge_rules(&incoming, &rules).into_iter().collect();
    let message = explain_violations(&wrong, &rules);
    for part in [
        "`fedcba0987 Add a key (Ana)` was removed from codebutler/t by somebody (noticed 2026-11-25 10:00 UTC), and \
         1234567890 makes the same change\n",
        "GitUpdate takes their branch over",
        "`git cherry-pick -x fedcba0987`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_merge_brings_in_the_base_branch_alone() {
    let mut incoming = commit(vec![]);
    incoming.commits[0].foreign.push("fedcba0987654321".to_owned());
    let refused = ["1234567890 merges fedcba0987, which is not on the base branch"];
    assert_eq!(judged(&incoming, false), refused);
    assert_eq!(judged(&incoming, true), refused, "whatever else the role may");
}

#[test]
fn sizes_count_where_the_content_is_new() {
    let mut incoming = commit(vec![change("a.bin", Some("1")), change("b.bin", Some("2"))]);
    incoming.blobs.insert("1".to_owned(), (1 << 20) + 1);
    assert_eq!(judged(&incoming, false), ["file too large: a.bin"]);
}

#[test]
fn secrets_in_messages_and_names_are_found_and_not_repeated() {
    let token = token();
    let mut incoming = commit(vec![change(&format!("{token}.txt"), Some("1"))]);
    incoming.commits[0].text += &token;
    let told = judged(&incoming, false);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&"github-token in the message of 1234567890".to_owned()), "{told:?}");
    let rules = rules(false);
    let wrong: Vec<PushViolation> = judge_rules(&incoming, &rules).into_iter().collect();
    let message = explain_violations(&wrong, &rules);
    assert!(message.contains("[redacted:github-token]") && !message.contains(&token), "{message}");
}

#[test]
fn a_commit_does_not_decide_whether_the_checks_run() {
    let mut incoming = commit(vec![change("a.rs", Some("1"))]);
    incoming.commits[0].text += "\n[skip ci]\n";
    assert_eq!(judged(&incoming, false), ["words that switch off CI in the message of 1234567890"]);
    let mut other = commit(vec![change("a.rs", Some("1"))]);
    other.commits[0].text =
        "tree x\nauthor [skip ci] <a@example.com> 1 +0000\n\nSkip CI where it is slow\n".to_owned();
    assert_eq!(judged(&other, false), [""; 0]);
}

#[test]
fn only_lines_that_were_not_there_before_leak() {
    let redactor = SecretRedactor::default();
    let token = token();
    let text = format!("one\nkey = {token}\nthree\n");
    let found = find_leaks(&redactor, &text);
    assert_eq!(new_leak(&found, &text, &[]), Some((2, "github-token")));
    assert_eq!(new_leak(&found, &text, &[format!("zero\nkey = {token}\n")]), None);
    assert_eq!(find_leaks(&redactor, "see http://10.0.0.12:8080/\n"), []);
}

#[test]
fn a_key_is_found_when_its_second_half_is_added() {
    let redactor = SecretRedactor::default();
    let begin = format!("-----BEGIN {} KEY-----", "PRIVATE");
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".repeat(3);
    let text = format!("{begin}\n{body}");
    let found = find_leaks(&redactor, &text);
    assert_eq!(new_leak(&found, &text, &[format!("{begin}\n")]).unwrap().0, 1);
}

#[test]
fn wide_characters_hide_nothing() {
    let wide: Vec<u8> = token().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let redactor = SecretRedactor::default();
    assert!(possible_texts(&wide).iter().any(|text| !find_leaks(&redactor, text).is_empty()));
}
