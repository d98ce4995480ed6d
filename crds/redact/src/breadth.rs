//! Test of a pattern's breadth: does it find something special, or most of any text? Pure.
//!
//! One log serves all Repos, so a pattern of one team's that blanks ordinary lines would hide what happens to all.

use regex_automata::Input;
use regex_automata::meta::Regex;

/// Words and code as people and models write them.
const PROSE: &[&str] = &[
    "The cart adds prices as floats, so three items at ten cents come to a little more than thirty.",
    "Please write a test for the empty cart before you change how totals are rounded.",
    "Nothing was merged yet, and the reviewer has asked for one more change in the parser.",
    "fn total(items: &[Item]) -> Cents { items.iter().map(|item| item.price).sum() }",
    "for name in names.iter().filter(|name| !name.is_empty()) {",
    "let answer = client.get(url).send().await?.json::<Answer>().await?;",
    "    return response.status(400).json({ error: 'the name is missing' });",
    "when the build is green, the branch is merged and the volume goes away",
    "def read_lines(path): return path.read_text().splitlines()",
    "Plan: split the module, move the tests beside it, and keep the public names as they are.",
];
/// Lines of a log, without their times.
const PLAIN_LOG: &[&str] = &[
    "INFO codebutler_operator::gateway::holder: holding the lease lease=codebutler-gateway",
    "WARN codebutler_operator::gateway::git::probe: Git did not answer repo=shop why=no answer in time",
    "INFO codebutler::audit: a plan was approved thread=shop-cart by=ana role=coder",
    "ERROR codebutler_operator::gateway::slack: not posted method=chat.postMessage error=ratelimited",
    "INFO codebutler_operator::controller: a pod begins namespace=team thread=shop-cart role=reviewer attempt=2",
    "DEBUG codebutler_operator::gateway::models: a call ends model=scripted tokens=812 seconds=3",
    "WARN codebutler_operator::apply: refused kind=Pod reason=Forbidden",
    "INFO codebutler_operator::gateway::history: written lines=4",
];
/// The same lines as JSON objects.
const JSON_LOG: &[&str] = &[
    r#"{"level": "INFO", "target": "codebutler_operator::gateway::holder", "fields": {"message": "holding the lease lease=codebutler-gateway"}}"#,
    r#"{"level": "WARN", "target": "codebutler_operator::gateway::git::probe", "fields": {"message": "Git did not answer repo=shop why=no answer in time"}}"#,
    r#"{"level": "INFO", "target": "codebutler::audit", "fields": {"message": "a plan was approved thread=shop-cart by=ana role=coder"}}"#,
    r#"{"level": "ERROR", "target": "codebutler_operator::gateway::slack", "fields": {"message": "not posted method=chat.postMessage error=ratelimited"}}"#,
    r#"{"level": "INFO", "target": "codebutler_operator::controller", "fields": {"message": "a pod begins namespace=team thread=shop-cart role=reviewer attempt=2"}}"#,
    r#"{"level": "DEBUG", "target": "codebutler_operator::gateway::models", "fields": {"message": "a call ends model=scripted tokens=812 seconds=3"}}"#,
    r#"{"level": "WARN", "target": "codebutler_operator::apply", "fields": {"message": "refused kind=Pod reason=Forbidden"}}"#,
    r#"{"level": "INFO", "target": "codebutler_operator::gateway::history", "fields": {"message": "written lines=4"}}"#,
];
/// A line as a list makes it.
const LONG: &str = "a list of paths that a search found: src/cart/lib.rs, src/cart/model.rs, src/cart/view.rs, src/cart/store.rs, src/cart/tests.rs, src/cart/errors.rs, src/cart/routes.rs, src/price/lib.rs, src/price/model.rs, src/price/view.rs, src/price/store.rs, src/price/tests.rs, src/price/errors.rs, src/price/routes.rs, src/orders/lib.rs, src/orders/model.rs, src/orders/view.rs, src/orders/store.rs, src/orders/tests.rs, src/orders/errors.rs, src/orders/routes.rs, src/users/lib.rs, src/users/model.rs, src/users/view.rs, src/users/store.rs, src/users/tests.rs, src/users/errors.rs, src/users/routes.rs, src/search/lib.rs, src/search/model.rs, src/search/view.rs, src/search/store.rs, src/search/tests.rs, src/search/errors.rs, src/search/routes.rs";
/// Names of fields that stand in many lines.
const FIELDS: &[&str] =
    &["timestamp", "namespace", "filename", "line_number", "threadName", "threadId"];
/// Divisors of a text's bytes, and of its lines: a pattern that matches a larger part is broad.
const BYTES: usize = 5;
const LINES: usize = 2;

/// True if a pattern matches more than a fifth of ordinary text, or more than half of its lines.
pub(crate) fn is_broad(regex: &Regex) -> bool {
    [PROSE, PLAIN_LOG, JSON_LOG].into_iter().any(|lines| {
        let matched = lines.iter().filter(|line| regex.is_match(**line)).count();
        let whole = format!("{}\n{LONG}\n", lines.join("\n"));
        matched * LINES > lines.len() || matched_bytes(regex, &whole) * BYTES > whole.len()
    })
}

/// True for words that stand in ordinary lines of a log.
pub(crate) fn is_ordinary(words: &str) -> bool {
    let mut lines = [PLAIN_LOG, JSON_LOG, FIELDS].into_iter().flatten();
    lines.any(|line| line.contains(words))
}

fn matched_bytes(regex: &Regex, text: &str) -> usize {
    regex.find_iter(Input::new(text)).map(|found| found.range().len()).sum()
}
