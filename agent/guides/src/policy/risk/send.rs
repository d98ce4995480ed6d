//! Judges requests to other hosts that change something, and queries to their databases.

use super::super::RiskVerdict;
use super::super::programs::{DATABASES, QUERIES};
use super::super::reach::{is_local_host, is_local_url, only_tells};
use super::super::shell::{HOLE, PlainCommand};

/// Options of curl that send a body.
const BODIES: [&str; 12] = [
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--data-ascii",
    "--json",
    "-F",
    "--form",
    "-T",
    "--upload-file",
    "--form-string",
];
const POSTS: [&str; 5] = ["--post-data", "--post-file", "--body-data", "--body-file", "--method"];

/// A program that sends; nothing if it is none.
pub(super) fn send_risk(name: &str, simple: &PlainCommand, texts: &[&str]) -> Option<RiskVerdict> {
    match name {
        "curl" => {
            let sent = judge_request(name, simple, curl_changes(&simple.shapes[1..]));
            Some(sent.or(judge_download(name, simple)))
        }
        "hg" | "jj" | "svn" | "svnadmin" | "bzr" | "brz" | "darcs" | "fossil" | "sl" | "pijul" => {
            let shares = ["push", "commit", "ci", "import", "send", "email", "outgoing-push"];
            let central = matches!(name, "svn" | "fossil");
            let verb = texts.iter().take(4).find(|text| shares.contains(text))?;
            (central || !matches!(*verb, "commit" | "ci" | "import"))
                .then(|| RiskVerdict::leaves(format!("`{name} {verb}` sends work elsewhere")))
        }
        "npm" | "pnpm" | "cnpm" => {
            // A unique beginning of a verb is the verb.
            let verb = texts.iter().find(|text| !text.starts_with('-'))?;
            let publishes = [("publish", 3), ("unpublish", 5), ("deprecate", 4)].iter().any(
                |(whole, least)| {
                    verb.len() >= *least && verb.len() < whole.len() && whole.starts_with(verb)
                },
            );
            publishes.then(|| RiskVerdict::leaves(format!("`{name} {verb}` publishes")))
        }
        "wget" => {
            let posts = simple
                .shapes
                .iter()
                .any(|word| POSTS.iter().any(|option| word.split('=').next() == Some(*option)));
            Some(judge_request(name, simple, posts).or(judge_download(name, simple)))
        }
        "http" | "https" | "xh" => {
            let method = texts.first().is_some_and(|text| {
                matches!(*text, "POST" | "PUT" | "PATCH" | "DELETE")
                    || texts.iter().skip(1).any(|t| t.contains('=') && !t.contains("=="))
            });
            Some(judge_request(name, simple, method))
        }
        name if DATABASES.contains(&name) => Some(judge_database(name, simple, texts)),
        _ => None,
    }
}

/// A download into a file may write over one.
fn judge_download(name: &str, simple: &PlainCommand) -> RiskVerdict {
    let writes = simple.shapes.iter().any(|word| {
        let short = word.starts_with('-') && !word.starts_with("--");
        matches!(word.split('=').next(), Some("--output" | "--output-document" | "--remote-name"))
            || (short && word.contains('O'))
            || (short && name == "curl" && word.contains('o'))
    });
    if writes {
        RiskVerdict::loses(format!("`{name}` may write over a file"))
    } else {
        RiskVerdict::local(format!("`{name}` fetches"))
    }
}

fn judge_request(name: &str, simple: &PlainCommand, changes: bool) -> RiskVerdict {
    if !changes {
        return RiskVerdict::local(format!("`{name}` fetches"));
    }
    let words = || simple.shapes.iter().skip(1).filter(|word| !word.starts_with('-'));
    let mut urls = words().filter(|word| {
        word.contains("://") || word.starts_with("localhost") || word.starts_with("127.")
    });
    let holes = words().any(|word| word.contains(HOLE)) && urls.clone().next().is_none();
    let named = urls.clone().count() > 0;
    if !holes && named && urls.all(|url| is_local_url(url))
        || words().any(|word| word.starts_with(':'))
    {
        return RiskVerdict::local(format!("`{name}` sends to the sandbox's own host"));
    }
    RiskVerdict::leaves(format!("`{name}` sends something to another host"))
}

fn curl_changes(words: &[String]) -> bool {
    let mut method = None;
    let mut body = false;
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(String::as_str);
        match word.as_str() {
            "-X" | "--request" => method = next,
            "-G" | "--get" | "-I" | "--head" => return false,
            word if word.starts_with("--request=") => method = word.split_once('=').map(|(_, m)| m),
            word if word.starts_with("-X") => method = Some(&word[2..]),
            word if BODIES.contains(&word)
                || BODIES
                    .iter()
                    .any(|b| b.starts_with("--") && word.starts_with(&format!("{b}="))) =>
            {
                body = true;
            }
            word if word.starts_with('-') && !word.starts_with("--") => {
                // Options in one word, the last of which may take a value: `-sXPOST`, `-sd x`.
                let (flags, value) =
                    word[1..].split_once('X').map_or((&word[1..], None), |(f, v)| (f, Some(v)));
                if let Some(value) = value {
                    method = if value.is_empty() { next } else { Some(value) };
                }
                let plain = flags.chars().take_while(|c| "sSfLkivgNqO#01234".contains(*c)).count();
                body |= flags.chars().nth(plain).is_some_and(|c| matches!(c, 'd' | 'F' | 'T'));
            }
            _ => {}
        }
    }
    match method {
        Some(method) => !matches!(method.to_uppercase().as_str(), "GET" | "HEAD" | "OPTIONS"),
        None => body,
    }
}

fn judge_database(name: &str, simple: &PlainCommand, texts: &[&str]) -> RiskVerdict {
    let local = RiskVerdict::local(format!("`{name}` asks a database in the sandbox"));
    if only_tells(texts) || !is_remote(name, simple) {
        return local;
    }
    let query = database_query(simple, texts);
    match query {
        Some(query) if only_looks(&query) => {
            RiskVerdict::local(format!("`{name}` looks into a database"))
        }
        _ if name == "createdb" || texts.contains(&"-l") => local,
        _ => RiskVerdict::leaves(format!("`{name}` may change a database of another host")),
    }
}

/// True if another host is named, or one that is only known when it runs.
fn is_remote(name: &str, simple: &PlainCommand) -> bool {
    let words = &simple.shapes[1..];
    for (at, word) in words.iter().enumerate() {
        let host = if matches!(word.as_str(), "-h" | "--host" | "-S") {
            words.get(at + 1).map(String::as_str)
        } else if let Some(host) = word.strip_prefix("--host=") {
            Some(host)
        } else if let Some(url) = word.contains("://").then_some(word.as_str()) {
            if is_local_url(url) { None } else { return true }
        } else if let Some(at) = word.find("host=") {
            word[at + 5..].split_whitespace().next()
        } else {
            word.strip_prefix("-h").filter(|rest| name.starts_with('m') && !rest.is_empty())
        };
        if host.is_some_and(|host| !is_local_host(host)) {
            return true;
        }
        // Such as `psql "$DATABASE_URL"`.
        if word.starts_with(HOLE)
            && word.len() == 1
            && !words.get(at.wrapping_sub(1)).is_some_and(|w| w.starts_with('-'))
        {
            return true;
        }
    }
    false
}

fn database_query(simple: &PlainCommand, texts: &[&str]) -> Option<String> {
    let after = texts
        .windows(2)
        .find(|two| matches!(two[0], "-c" | "-e" | "--command" | "--execute" | "--eval" | "-Q"));
    let joined = texts
        .iter()
        .find_map(|text| text.strip_prefix("--command=").or(text.strip_prefix("--execute=")));
    let given = after.map(|two| two[1]).or(joined).map(str::to_owned);
    given.or_else(|| simple.input.clone()).or_else(|| simple.fed.clone()).or_else(|| {
        // `redis-cli -h x get y`
        let last = texts.iter().position(|text| QUERIES.contains(&text.to_uppercase().as_str()))?;
        Some(texts[last..].join(" "))
    })
}

/// True if each statement begins with a word that only reads.
fn only_looks(query: &str) -> bool {
    let mut statements = query.split(';').map(str::trim).filter(|part| !part.is_empty()).peekable();
    statements.peek().is_some()
        && statements.all(|statement| {
            let upper = statement.to_uppercase();
            QUERIES.iter().any(|word| upper.starts_with(word)) && !upper.contains(" INTO ")
        })
}
